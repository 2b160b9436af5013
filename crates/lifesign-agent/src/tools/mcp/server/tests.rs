//! A server that is played: what it offers, how it is called, and what happens where it ends.

use std::sync::Mutex as Plain;
use std::sync::atomic::Ordering;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::tools::ToolProgress;
use crate::tools::mcp::talker::{Talker, ask, call, config};

/// A way that leads nowhere.
struct Nowhere;

impl Way for Nowhere {
    fn open(&self, _: Handler) -> Opening<'_> {
        Box::pin(std::future::pending())
    }
}

async fn start(talker: &Talker) -> McpServer {
    McpServer::start(config(), Box::new(talker.clone()), None)
        .await
        .unwrap()
}

fn names(server: &McpServer) -> Vec<String> {
    server.tools().into_iter().map(|tool| tool.name).collect()
}

#[tokio::test(start_paused = true)]
async fn tools_of_all_pages_are_offered_as_models_can_call_them() {
    let talker = Talker::with(&[&["a.b"], &[], &["read it"]]);
    let config = McpServerConfig {
        prefix: "t_".to_owned(),
        timeout: Some(Duration::from_secs(7)),
        ..config()
    };

    let server = McpServer::start(config, Box::new(talker.clone()), None)
        .await
        .unwrap();
    let result = ask(&server, "t_a_b", json!({"x": 1})).await;

    let spec = |name: &str, does: &str, is_parallel| ToolSpec {
        name: name.to_owned(),
        description: Some(does.to_owned()),
        parameters: json!({"type": "object"}),
        timeout: Some(Duration::from_secs(7)),
        is_parallel,
    };
    assert_eq!(
        server.tools(),
        [
            spec("t_a_b", "does a.b", false),
            spec("t_read_it", "does read it", true)
        ]
    );
    assert_eq!(server.timeout_setting("t_a_b"), "mcpServers.talker.timeout");
    assert_eq!(result, ToolResult::ok(r#"{"x":1}"#));
    assert_eq!(talker.seen(), [r#"a.b {"x":1}"#]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_is_a_result() {
    let server = start(&Talker::with(&[&["fail", "refuse"]])).await;

    let failed = ask(&server, "fail", json!({})).await;
    let refused = ask(&server, "refuse", json!({})).await;
    let unknown = ask(&server, "none", json!({})).await;

    assert_eq!(failed, ToolResult::error("it is broken"));
    assert_eq!(
        refused,
        ToolResult::error("refuse failed: there is no such thing (-32602)")
    );
    assert_eq!(
        unknown,
        ToolResult::error("tool server talker has no tool \"none\" now")
    );
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_in_order_and_before_the_result() {
    let server = start(&Talker::with(&[&["count"]])).await;
    let told = Arc::new(Plain::new(Vec::new()));
    let sink = {
        let told = Arc::clone(&told);
        Arc::new(move |progress: ToolProgress| told.lock().unwrap().push(progress))
    };

    let result = server.call(call("count", json!({})), sink).await;

    assert_eq!(result, ToolResult::ok("counted"));
    let expected: Vec<_> = (1..=50_u32)
        .map(|number| ToolProgress {
            done: Some(number.into()),
            total: Some(50.0),
            message: None,
        })
        .collect();
    assert_eq!(*told.lock().unwrap(), expected);
    assert!(server.state.lock().await.link.line().listeners.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_is_told_of_a_call_that_nobody_waits_for() {
    let talker = Talker::with(&[&["hang", "echo"]]);
    let server = start(&talker).await;

    let mut under_way = server.call(call("hang", json!({})), Arc::new(|_| {}));
    tokio::select! {
        biased;
        _ = &mut under_way => panic!("it cannot have ended"),
        () = talker.wait_for("hang {}") => {}
    }
    drop(under_way);

    talker
        .wait_for("cancelled: the caller does not wait any more")
        .await;
    assert!(server.state.lock().await.link.line().listeners.is_empty());
    assert_eq!(ask(&server, "echo", json!({})).await, ToolResult::ok("{}"));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_has_changed_is_asked_for_anew() {
    let server = start(&Talker::with(&[&["grow"]])).await;
    assert_eq!(names(&server), ["grow"]);

    ask(&server, "grow", json!({})).await;
    // The notification has a task of its own.
    tokio::time::sleep(Duration::from_millis(1)).await;

    assert_eq!(names(&server), ["grow", "new"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_is_started_again_at_the_next_call_at_most_once_a_minute() {
    let talker = Talker::with(&[&["die", "echo"]]);
    let server = start(&talker).await;
    let starts = || talker.starts.load(Ordering::Relaxed);
    let died = "die failed: tool server talker has closed the connection; \
                what it had begun may be half done";

    assert_eq!(
        ask(&server, "die", json!({})).await,
        ToolResult::error(died)
    );
    assert_eq!(starts(), 1);
    assert_eq!(names(&server), ["die", "echo"]);

    assert_eq!(ask(&server, "echo", json!({})).await, ToolResult::ok("{}"));
    assert_eq!(starts(), 2);

    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        ask(&server, "die", json!({})).await,
        ToolResult::error(died)
    );
    let refused = ask(&server, "echo", json!({})).await;
    assert!(refused.is_error);
    assert!(
        refused.text.starts_with(
            "echo was not run: tool server talker has closed the connection; it was started again 1"
        ) && refused
            .text
            .ends_with(" s ago, and is at most once in 60 s"),
        "{}",
        refused.text
    );
    assert_eq!(starts(), 2);

    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(ask(&server, "echo", json!({})).await, ToolResult::ok("{}"));
    assert_eq!(starts(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_ready_in_time_is_given_up() {
    let began = clock::now();

    let failed = McpServer::start(config(), Box::new(Nowhere), None)
        .await
        .unwrap_err();

    assert_eq!(
        failed.to_string(),
        "tool server talker was not ready within 60 s (mcpServers.talker.start_timeout)"
    );
    assert_eq!(began.elapsed(), Duration::from_mins(1));
}

#[tokio::test(start_paused = true)]
async fn a_list_without_an_end_is_given_up() {
    let talker = Talker::with(&[&["endless"]]);

    let failed = McpServer::start(config(), Box::new(talker), None)
        .await
        .unwrap_err();

    assert_eq!(
        failed.to_string(),
        "tool server talker lists its tools on more than 100 pages"
    );
}

#[tokio::test(start_paused = true)]
async fn only_tools_that_were_asked_for_are_offered_and_all_of_them_must_be_there() {
    let talker = Talker::with(&[&["a", "b", "c"]]);
    let with = |wanted: &[&str]| McpServerConfig {
        tools: Some(wanted.iter().copied().map(str::to_owned).collect()),
        ..config()
    };

    let server = McpServer::start(with(&["c", "a"]), Box::new(talker.clone()), None).await;
    let failed = McpServer::start(with(&["a", "d"]), Box::new(talker.clone()), None).await;

    assert_eq!(names(&server.unwrap()), ["a", "c"]);
    assert_eq!(
        failed.unwrap_err().to_string(),
        "tool server talker has no tool \"d\", which mcpServers.talker.tools[1] asks for; it has a, b, c"
    );
}
