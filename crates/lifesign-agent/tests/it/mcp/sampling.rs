//! A server made with the official SDK for Python asks for model calls.

use std::sync::Arc;
use std::time::Duration;

use lifesign::{CallRequest, Client, Upstream, Wire};
use lifesign_agent::tools::ToolResult;
use lifesign_agent::tools::mcp::{McpServer, Sampler};
use lifesign_standin::Standin;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::servers::{ask, python_config, start_with};

async fn server_with(script: &str) -> Option<(Standin, McpServer)> {
    let config = python_config()?;
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let upstream = Arc::new(Upstream::new(Wire::OPENAI_CHAT, &standin.url()).unwrap());
    let sampler = Sampler::new(Client::new().unwrap(), move |mut request| {
        request.model = "m".to_owned();
        CallRequest::new(Arc::clone(&upstream), request)
            .set("bounds.raw_silence", "300ms")
            .and_then(|request| request.set("retry.attempts", "1"))
            .map_err(|error| error.to_string())
    });
    Some((standin, start_with(config, sampler).await))
}

#[tokio::test]
async fn it_gets_the_answer() {
    let Some((_standin, server)) = server_with("answer \"hello there\"").await else {
        return;
    };

    let asked = ask(&server, "ask", json!({"text": "hi"})).await;

    assert_eq!(asked, ToolResult::ok("hello there (endTurn)"));
}

#[tokio::test]
async fn it_gets_the_sentence_and_the_bound_of_a_call_that_was_cut() {
    let Some((_standin, server)) = server_with("status 200 sse; hold").await else {
        return;
    };

    let asked = ask(&server, "ask", json!({"text": "hi"})).await;

    assert!(
        asked.text.starts_with("failed: The model's server")
            && asked
                .text
                .ends_with("(bound raw_silence, set by bounds.raw_silence)"),
        "{}",
        asked.text
    );
}

#[tokio::test]
async fn its_call_ends_with_it() {
    let Some((standin, server)) = server_with("role; repeat 0.05 { ping } forever").await else {
        return;
    };

    tokio::join!(ask(&server, "ask", json!({"text": "hi"})), async {
        assert!(standin.wait_for_requests(1, Duration::from_secs(5)).await);
        ask(&server, "end", json!({"code": 0})).await;
    });

    let closed = standin.wait_for_peer_closed(0, Duration::from_millis(500));
    assert!(closed.await.is_some());
}
