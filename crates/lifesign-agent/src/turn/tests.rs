//! What cannot be written down is neither asked nor run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lifesign::{Client, ToolCall, Upstream, Wire};
use lifesign_standin::Standin;
use pretty_assertions::assert_eq;

use super::*;
use crate::tools::{self, ProgressSink, ToolFuture, ToolResult, ToolSpec, Toolbox};
use crate::transcript::{Entry, Said};

#[tokio::test]
async fn what_cannot_be_written_down_is_not_asked() {
    let standin = Standin::script("answer \"ok\"")
        .unwrap()
        .start()
        .await
        .unwrap();
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut agent = Agent::builder(Client::new().unwrap(), upstream, "m")
        .build()
        .unwrap();
    agent.transcript.break_file(file.path());

    let mut turn = agent.turn("go");
    let error = turn.next().await.unwrap().unwrap_err();

    assert!(error.to_string().ends_with("cannot be written"), "{error}");
    assert!(turn.next().await.is_none());
    drop(turn);
    assert_eq!(agent.transcript().entries().len(), 1);
    assert_eq!(standin.requests().len(), 0);
}

/// Counts how often it is called.
#[derive(Default)]
struct Counter(AtomicU32);

impl Toolbox for Counter {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec {
            name: "count".to_owned(),
            description: None,
            parameters: serde_json::json!({"type": "object"}),
            timeout: None,
            is_parallel: true,
        }]
    }

    fn call(&self, _: tools::ToolCall, _: ProgressSink) -> ToolFuture<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { ToolResult::ok("counted") })
    }
}

#[tokio::test]
async fn a_tool_whose_beginning_cannot_be_written_down_does_not_run() {
    let upstream = Upstream::new(Wire::OPENAI_CHAT, "http://127.0.0.1:1").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let tools = Arc::new(Counter::default());
    let mut agent = Agent::builder(Client::new().unwrap(), upstream, "m")
        .tools(tools.clone())
        .build()
        .unwrap();
    let call = ToolCall {
        id: "c1".to_owned(),
        name: "count".to_owned(),
        arguments: "{}".to_owned(),
        complete: true,
        kind: None,
    };
    let said = Said {
        wire: "openai-chat".to_owned(),
        tool_calls: vec![call],
        ..Said::default()
    };
    agent.transcript.append(Entry::Answer(said)).await.unwrap();
    agent.transcript.break_file(file.path());

    let (events, _held) = unbounded_channel();
    let mut run = Run::new(&mut agent, events, Cancel::new());
    assert!(run.run_open_calls().await.is_err());

    assert_eq!(tools.0.load(Ordering::Relaxed), 0);
}
