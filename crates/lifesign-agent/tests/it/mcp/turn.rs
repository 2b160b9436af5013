//! Whole turns with real parts: the public server for files, and a real llama.cpp server as the model.

use std::fs;
use std::sync::Arc;

use lifesign::{Client, Upstream, Wire};
use lifesign_agent::tools::Toolset;
use lifesign_agent::{Agent, TurnOutcome};
use lifesign_standin::Standin;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::files::files;
use crate::llama::Llama;

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
