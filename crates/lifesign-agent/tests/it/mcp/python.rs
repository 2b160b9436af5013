//! A server made with the official SDK for Python, as a process and over HTTP.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifesign_agent::tools::{ToolProgress, ToolResult, Toolbox as _, Toolset};
use pretty_assertions::assert_eq;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use super::servers::{ask, call, gone, program, python_config, refused, served, start};

#[tokio::test]
async fn its_tools_are_listed_validated_and_called() {
    let Some(config) = python_config() else {
        return;
    };
    let server = Arc::new(start(config).await);
    let tools = Toolset::new().with("the server", server).unwrap();

    let echo = tools.tools().into_iter().find(|tool| tool.name == "echo");
    let echoed = ask(&tools, "echo", json!({"text": "hello"})).await;
    let refused = ask(&tools, "echo", json!({"text": 5})).await;

    let echo = echo.unwrap();
    assert_eq!(echo.description.as_deref(), Some("Says it again."));
    assert!(echo.is_parallel);
    assert_eq!(echoed, ToolResult::ok("hello"));
    assert_eq!(
        refused,
        ToolResult::error(
            "arguments of echo do not fit its schema, so it was not run: \
             /text: 5 is not of type \"string\""
        )
    );
}

#[tokio::test]
async fn its_progress_is_told_in_order() {
    let Some(config) = python_config() else {
        return;
    };
    let server = start(config).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let told = Arc::clone(&told);
        Arc::new(move |progress: ToolProgress| told.lock().unwrap().push(progress.to_string()))
    };

    let result = server.call(call("count", json!({"to": 20})), sink).await;

    assert_eq!(result, ToolResult::ok("counted to 20"));
    let expected: Vec<_> = (1..=20).map(|n| format!("{n} of 20: at {n}")).collect();
    assert_eq!(*told.lock().unwrap(), expected);
}

#[tokio::test]
async fn it_is_told_of_a_call_that_nobody_waits_for() {
    let Some(config) = python_config() else {
        return;
    };
    let server = start(config).await;
    let (told, mut began) = tokio::sync::mpsc::unbounded_channel();

    let mut under_way = server.call(
        call("wait", json!({})),
        Arc::new(move |_| told.send(()).unwrap()),
    );
    tokio::select! {
        result = &mut under_way => panic!("{}", result.text),
        began = began.recv() => began.unwrap(),
    }
    drop(under_way);

    let mut cancelled = String::new();
    for _ in 0..1_000 {
        cancelled = ask(&server, "was_cancelled", json!({})).await.text;
        if !cancelled.is_empty() {
            break;
        }
    }
    assert_eq!(cancelled, "wait");
}

#[tokio::test]
async fn its_end_is_a_result_and_it_is_started_again_once_a_minute() {
    let Some(config) = python_config() else {
        return;
    };
    let server = start(config).await;
    let ended = "end failed: tool server tests has ended (exit code 3); \
                 what it had begun may be half done";

    let first = ask(&server, "end", json!({"code": 3})).await;
    let again = ask(&server, "echo", json!({"text": "back"})).await;
    let second = ask(&server, "end", json!({"code": 3})).await;
    let refused = ask(&server, "echo", json!({"text": "back"})).await;

    assert_eq!(first, ToolResult::error(ended));
    assert_eq!(again, ToolResult::ok("back"));
    assert_eq!(second, ToolResult::error(ended));
    assert!(
        refused.is_error
            && refused.text.starts_with(
                "echo was not run: tool server tests has ended (exit code 3); it was started again "
            ),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn nothing_of_it_stays_behind() {
    let Some(config) = python_config() else {
        return;
    };
    for closes in [false, true] {
        let server = start(config.clone()).await;
        let ids = ask(&server, "spawn", json!({})).await.text;
        let (own, child) = ids.split_once(' ').unwrap();

        if closes {
            server.close().await;
        } else {
            drop(server);
        }

        gone(own).await;
        gone(child).await;
    }
}

#[tokio::test]
async fn what_a_server_that_ends_leaves_behind_ends_with_it() {
    let Some(config) = python_config() else {
        return;
    };
    let server = start(config).await;
    let ids = ask(&server, "spawn", json!({})).await.text;

    ask(&server, "end", json!({"code": 0})).await;

    gone(ids.split_once(' ').unwrap().1).await;
}

#[tokio::test]
async fn it_sees_no_variable_that_may_hold_a_secret() {
    let Some(config) = python_config() else {
        return;
    };
    let server = start(config).await;

    let names = ask(&server, "variables", json!({})).await.text;

    let names: Vec<_> = names.split(' ').collect();
    assert!(names.contains(&"PATH") && names.contains(&"PYTHONDONTWRITEBYTECODE"));
    // Cargo sets it for this process.
    assert!(!names.contains(&"CARGO_MANIFEST_DIR"), "{names:?}");
}

#[tokio::test]
async fn a_program_that_is_no_server_is_refused_with_how_it_ended() {
    let ends = refused(program("sh", &["-c", "echo 'no such file' >&2; exit 7"])).await;
    let missing = refused(program("no-such-program", &[])).await;
    let mut waits = program("sh", &["-c", "echo 'one moment' >&2; sleep 600"]);
    waits.start_timeout = Duration::from_millis(200);
    let waits = refused(waits).await;

    assert_eq!(
        ends.to_string(),
        "tool server tests ended before it was ready (exit code 7); it said: no such file"
    );
    assert_eq!(
        missing.to_string(),
        "tool server tests cannot be started: no-such-program: No such file or directory (os error 2)"
    );
    assert_eq!(
        waits.to_string(),
        "tool server tests was not ready within 200 ms (mcpServers.tests.start_timeout); it said: one \
         moment"
    );
}

#[tokio::test]
async fn a_server_that_was_given_up_is_not_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("id");
    let script = format!("echo $$ > {}; sleep 600", file.display());
    let mut config = program("sh", &["-c", &script]);
    config.start_timeout = Duration::from_secs(1);

    refused(config).await;

    gone(std::fs::read_to_string(file).unwrap().trim()).await;
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Kept {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn what_it_says_beside_the_protocol_is_in_the_log() {
    let kept = Kept::default();
    let log = tracing_subscriber::fmt()
        .with_writer(kept.clone())
        .with_ansi(false)
        .finish();
    let _log = tracing::subscriber::set_default(log);
    let script = "echo 'it is broken' >&2; exit 1";

    refused(program("sh", &["-c", script])).await;

    let logged = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    assert!(
        logged.contains("tool server says server=\"tests\" text=\"it is broken\""),
        "{logged}"
    );
}

#[tokio::test]
async fn it_is_reached_over_http() {
    let Some((_served, config)) = served() else {
        return;
    };
    let server = start(config).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let told = Arc::clone(&told);
        Arc::new(move |progress: ToolProgress| told.lock().unwrap().push(progress.done.unwrap()))
    };

    let counted = server.call(call("count", json!({"to": 3})), sink).await;

    assert_eq!(counted, ToolResult::ok("counted to 3"));
    assert_eq!(*told.lock().unwrap(), [1.0, 2.0, 3.0]);

    let ended = ask(&server, "end", json!({"code": 0})).await;
    let again = ask(&server, "echo", json!({"text": "x"})).await;

    assert_eq!(
        ended,
        ToolResult::error(
            "end failed: tool server tests has closed the connection; \
             what it had begun may be half done"
        )
    );
    let unreachable = "echo failed: tool server tests cannot be reached: no connection: ";
    assert!(
        again.is_error && again.text.starts_with(unreachable),
        "{}",
        again.text
    );
}
