//! Whole turns with real parts: the public server for files, and a real llama.cpp server as the model.

use std::fs;
use std::sync::Arc;

use lifesign::{CallRequest, Client, Upstream, Wire};
use lifesign_agent::tools::Toolset;
use lifesign_agent::tools::mcp::Sampler;
use lifesign_agent::{Agent, AgentEvent, Counts, TurnOutcome};
use lifesign_standin::Standin;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::files::files;
use super::servers::{served, start_with};
use crate::harness::{Case, NOTHING};
use crate::llama::Llama;
use crate::official;

fn call(id: &str, name: &str, arguments: &Value) -> String {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    let call = json!({"index": 0, "id": id, "type": "function", "function": function});
    format!("tool {call}; finish \"tool_calls\"; done; eof")
}

#[tokio::test]
async fn a_model_works_on_files_through_a_public_server() {
    let Some((home, server)) = files().await else {
        return;
    };
    let path = home.path().join("a.txt");
    let script = format!(
        "attempt 1: {}\nattempt 2: {}\nattempt 3: answer \"It says hello.\"",
        call(
            "c1",
            "write_file",
            &json!({"path": path, "content": "hello"})
        ),
        call("c2", "read_text_file", &json!({"path": path})),
    );
    for wire in Wire::ALL {
        let standin = Standin::script(&script).unwrap().start().await.unwrap();
        let upstream = Upstream::new(wire, &standin.url()).unwrap();
        let tools = Toolset::new().with("files", server.clone()).unwrap();
        let mut agent = Agent::builder(Client::new().unwrap(), upstream, "m")
            .tools(Arc::new(tools))
            .build()
            .unwrap();

        let report = agent.turn("What does it say?").report().await.unwrap();

        assert_eq!(report.outcome, TurnOutcome::Completed, "{wire}");
        assert_eq!(
            (
                report.counts.tool_calls,
                report.counts.tool_failures,
                report.counts.rounds
            ),
            (2, 0, 3)
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "hello");
        let sent = standin.requests()[2].json().to_string();
        assert!(sent.contains("\"hello\""), "{sent}");
        fs::remove_file(&path).unwrap();
    }
}

/// The tools of a server over HTTP: one that counts, one that asks for a model call, one that ends the
/// server, and one that is not there any more then.
#[tokio::test]
async fn a_model_works_through_a_server_over_http_until_that_ends() {
    let mut bodies = Vec::new();
    for wire in Wire::ALL {
        let Some((_served, config)) = served() else {
            return;
        };
        let said = Standin::script("answer \"hello there\"").unwrap();
        let said = said.start().await.unwrap();
        let upstream = Arc::new(Upstream::new(Wire::OPENAI_CHAT, &said.url()).unwrap());
        let sampler = Sampler::new(Client::new().unwrap(), move |mut request| {
            "m".clone_into(&mut request.model);
            Ok(CallRequest::new(Arc::clone(&upstream), request))
        });
        let server = Arc::new(start_with(config, sampler).await);
        let script = format!(
            "attempt 1: {}\nattempt 2: {}\nattempt 3: {}\nattempt 4: {}\nattempt 5: answer \"That is all.\"",
            call("c1", "count", &json!({"to": 3})),
            call("c2", "ask", &json!({"text": "hi"})),
            call("c3", "end", &json!({"code": 0})),
            call("c4", "echo", &json!({"text": "hi"})),
        );
        let played = Case::new(&script)
            .wire(wire)
            .set("bounds.raw_silence", "20s")
            .with(move |builder| builder.tools(server))
            .play()
            .await;

        assert_eq!(played.outcome(), ("completed", 0), "{:?}", played.report);
        assert_eq!(
            played.short(),
            [
                "user go",
                "answer [c1]",
                "began c1",
                "ran c1: counted to 3",
                "answer [c2]",
                "began c2",
                "ran c2: hello there (endTurn)",
                "answer [c3]",
                "began c3",
                "ran! c3: end failed: tool server ",
                "answer [c4]",
                "began c4",
                "ran! c4: echo failed: tool server",
                "answer That is all.",
                "ended completed"
            ]
        );
        let counts = Counts {
            turns: 1,
            rounds: 5,
            calls: 5,
            attempts: 5,
            tool_calls: 4,
            tool_failures: 2,
            ..NOTHING
        };
        assert_eq!(played.counts(), counts);
        let last = played.events.iter().rev().find_map(|event| match event {
            AgentEvent::ToolProgress { progress, .. } => Some(progress.to_string()),
            _ => None,
        });
        assert_eq!(last.as_deref(), Some("3 of 3: at 3"));
        assert_eq!(said.requests().len(), 1);
        played.assert_sound();
        bodies.extend(played.bodies());
    }

    official::assert_taken(bodies);
}

#[tokio::test]
async fn a_real_model_server_takes_the_tools_of_a_public_server_and_tells_usage() {
    let Some((_home, server)) = files().await else {
        return;
    };
    let Some(llama) = Llama::start() else { return };
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &llama.url).unwrap();
    let tools = Toolset::new().with("files", server).unwrap();
    let mut agent = Agent::builder(Client::new().unwrap(), upstream, "tiny")
        .tools(Arc::new(tools))
        .extra("temperature", json!(0))
        .max_tokens(12)
        .build()
        .unwrap();

    let report = agent.turn("List the files.").report().await.unwrap();

    assert_eq!(report.failure, None, "{report:?}");
    assert!(report.counts.rounds >= 1 && report.counts.attempts >= 1);
    let usage = report.usage.unwrap();
    assert!(
        usage.input_tokens > Some(100),
        "the tools are in the prompt: {usage:?}"
    );
    assert!(usage.output_tokens > Some(0), "{usage:?}");
}
