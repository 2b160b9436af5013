//! Turns with a real llama.cpp server, whose model of random weights says anything but sense.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use lifesign::{CallEvent, Client, Upstream, Wire};
use lifesign_agent::{Agent, AgentEvent, Continuation, Entry, TurnOutcome};
use lifesign_standin::Standin;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::Tools;

/// A server that ends when this is dropped.
pub(crate) struct Llama {
    child: Child,
    stdin: Option<ChildStdin>,
    pub(crate) url: String,
}

impl Llama {
    /// Starts one, where `cargo xtask llama` has set it up.
    pub(crate) fn start() -> Option<Self> {
        let named = |name| std::env::var_os(name).map(PathBuf::from);
        let (Some(python), Some(model)) = (
            named("LIFESIGN_LLAMA_PYTHON"),
            named("LIFESIGN_LLAMA_MODEL"),
        ) else {
            assert!(
                std::env::var_os("LIFESIGN_REQUIRE_LLAMA").is_none(),
                "LIFESIGN_LLAMA_PYTHON and LIFESIGN_LLAMA_MODEL are not set"
            );
            println!("no llama.cpp server, so it is left out; see `cargo xtask llama`");
            return None;
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/llama/serve.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg(model)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let url = lines.find_map(|line| line.strip_prefix("listening ").map(str::to_owned));
        Some(Self {
            stdin: child.stdin.take(),
            child,
            url: url.expect("the server listens"),
        })
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        drop(self.stdin.take());
        self.child.wait().unwrap();
    }
}

fn agent(url: &str) -> lifesign_agent::AgentBuilder {
    let upstream = Upstream::new(Wire::OPENAI_CHAT, url).unwrap();
    Agent::builder(Client::new().unwrap(), upstream, "tiny")
        .extra("temperature", json!(0))
        .max_tokens(12)
}

#[tokio::test]
async fn a_real_server_streams_an_answer_with_usage_and_takes_its_conversation_back() {
    let Some(llama) = Llama::start() else { return };
    let mut agent = agent(&llama.url).build().unwrap();

    for (question, expected) in [("One?", 1), ("Two?", 2)] {
        let mut pieces = 0;
        let mut turn = agent.turn(question);
        let report = loop {
            match turn.next().await.unwrap().unwrap() {
                AgentEvent::Call(CallEvent::Text(_)) => pieces += 1,
                AgentEvent::Ended(report) => break report,
                _ => {}
            }
        };
        drop(turn);

        assert_eq!(report.turn, expected);
        // Nothing ends what it says but the limit: reminded three times, it is cut four times.
        assert_eq!(
            (report.outcome, report.exit_code()),
            (TurnOutcome::Truncated, 3)
        );
        assert_eq!(report.failure, None);
        assert_eq!((report.counts.rounds, report.counts.nudges), (4, 3));
        assert!(pieces >= 4, "{pieces}");
        let usage = report.usage.unwrap();
        assert_eq!(usage.output_tokens, Some(48));
        assert!(usage.input_tokens > Some(0), "{usage:?}");
        assert_eq!(report.counts.attempts, 4);
    }
}

#[tokio::test]
async fn a_real_server_goes_on_from_the_very_character_at_which_another_broke_off() {
    let Some(llama) = Llama::start() else { return };
    let broken = "text \"The tide turns \"; cut";
    let standin = Standin::script(broken).unwrap().start().await.unwrap();
    let mut first = agent(&standin.url()).build().unwrap();
    let report = first.turn("When?").report().await.unwrap();
    assert_eq!(report.outcome, TurnOutcome::Truncated);

    // The conversation moves to the real server, with the partial as its last word.
    let mut moved = lifesign_agent::Transcript::in_memory();
    for entry in &first.transcript().entries()[1..3] {
        moved.append(entry.clone()).await.unwrap();
    }
    let mut second = agent(&llama.url)
        .continuation(Continuation::Prefill)
        .transcript(moved)
        .build()
        .unwrap();
    let report = second.resume().unwrap().report().await.unwrap();

    assert!(
        report.text.starts_with("The tide turns "),
        "{}",
        report.text
    );
    assert!(report.text.len() > "The tide turns ".len());
    let said = second
        .transcript()
        .entries()
        .iter()
        .find_map(|entry| match entry {
            Entry::Answer(said) => Some(said),
            _ => None,
        });
    assert!(said.unwrap().continues);
}

#[tokio::test]
async fn a_real_server_takes_tools_and_their_results() {
    let Some(llama) = Llama::start() else { return };
    let call = json!({
        "index": 0, "id": "c1", "type": "function",
        "function": {"name": "look", "arguments": "{\"say\":\"hi\"}"},
    });
    let script =
        format!("attempt 1: tool {call}; finish \"tool_calls\"; done; eof\nattempt 2: cut");
    let standin = Standin::script(&script).unwrap().start().await.unwrap();
    let tools = Arc::new(Tools::default());
    let mut first = agent(&standin.url())
        .tools(tools.clone())
        .set("retry.attempts", "1")
        .unwrap()
        .build()
        .unwrap();
    first.turn("Look.").report().await.unwrap();

    let mut moved = lifesign_agent::Transcript::in_memory();
    let entries = first.transcript().entries();
    for entry in &entries[1..entries.len() - 1] {
        moved.append(entry.clone()).await.unwrap();
    }
    let mut second = agent(&llama.url)
        .tools(tools)
        .transcript(moved)
        .build()
        .unwrap();
    let report = second.resume().unwrap().report().await.unwrap();

    assert_eq!(report.failure, None, "{report:?}");
    assert!(report.counts.rounds >= 1);
}
