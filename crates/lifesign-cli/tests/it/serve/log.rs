//! The log: one line for each event, which nobody waits for.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use pretty_assertions::assert_eq;
use tokio::net::UnixStream;
use tokio::time::sleep;

use super::house::{Caller, Gateway, Upstream, chat, chat_of, eventually, failing, upstream};
use crate::harness::signal;

#[tokio::test]
async fn a_line_of_the_log_is_one_line_whatever_is_in_it() {
    let mean = Upstream::start(|mut link| async move {
        link.request().await?;
        let told = r"one\ntwo\u001b[31m {\u0022level\u0022:\u0022ERROR\u0022}";
        link.send(&failing(400, "connection: close\r\n", told))
            .await
    })
    .await;
    let settings = upstream("a", mean.address, "");
    let gateway = Gateway::start_as(&settings, |it| it.set("telemetry.log=human")).await;

    let model = r"m\nINFO forged\u001b[0m";
    assert_eq!(
        gateway.response(&chat_of(model, "", true)).await.status,
        400
    );

    eventually("it is told", || gateway.log().contains("rejected")).await;
    let log = gateway.log();
    assert!(!log.contains('\u{1b}'), "{log:?}");
    for line in log.lines() {
        let is_ours = line.starts_with("listening on ") || line.starts_with("20");
        assert!(is_ours, "{line:?} in {log}");
    }
}

#[tokio::test]
async fn a_log_that_nobody_reads_stops_nobody_and_tells_what_was_lost() {
    let answering = Upstream::answering().await;
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("gateway.sock");
    let mut child = Command::new(env!("CARGO_BIN_EXE_lifesign"))
        .args(["serve", "--listen", &format!("unix:{}", path.display())])
        .args([
            "--upstream",
            &format!("openai=http://{}", answering.address),
        ])
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("it listens", || path.exists()).await;
    let connected = async || loop {
        match UnixStream::connect(&path).await {
            Ok(socket) => return socket,
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    };
    let mut caller = Caller::new(connected().await);

    // More than the pipe and the line behind it hold.
    for _ in 0..2_000 {
        caller.send(&chat("", false)).await;
        assert_eq!(caller.response().await.status, 200);
    }
    let mut stderr = child.stderr.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).map(|_| log)
    });
    sleep(Duration::from_millis(200)).await;
    drop(caller);
    signal(child.id(), "TERM");
    let log = tokio::task::spawn_blocking(|| reading.join()).await;
    let log = log.unwrap().unwrap().unwrap();

    assert!(child.wait().unwrap().success());
    let told = log.matches(" completed ").count();
    assert!((1_024..2_000).contains(&told), "{told}");
    assert!(log.contains("lines of the log were lost"), "{log}");
    // The end is there again.
    assert!(log.contains("every connection has ended"), "{log}");
}
