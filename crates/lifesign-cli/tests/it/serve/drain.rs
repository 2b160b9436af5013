//! How a gateway ends: asked to, asked twice, and killed.

use std::time::Duration;

use lifesign::clock::now;
use pretty_assertions::assert_eq;
use tokio::net::TcpStream;

use super::house::{
    CONTENT, FINISH, Gateway, STREAM, Upstream, chat, eventually, note, request, upstream,
};
use crate::harness::Program;

#[tokio::test]
async fn what_runs_is_finished_and_nothing_new_begins() {
    let finishing = Upstream::start(|mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.send(CONTENT).await?;
        tokio::time::sleep(Duration::from_millis(700)).await;
        link.send(FINISH).await
    })
    .await;
    let gateway = Gateway::start(&upstream("a", finishing.address, "")).await;
    let mut caller = gateway.ask().await;
    caller.until(CONTENT).await;
    let mut half_asked = gateway.connect().await;
    half_asked.send("GET /readyz HTTP/1.1\r\nhost: loc").await;
    let mut late = gateway.connect().await;
    let whole = chat("", true);
    let (begun, rest) = whole.split_at(60);
    late.send(begun).await;
    // Both are read before the signal comes.
    tokio::time::sleep(Duration::from_millis(100)).await;

    gateway.signal("TERM");
    let address = gateway.address;
    eventually("nobody listens", || {
        std::net::TcpStream::connect(address).is_err()
    })
    .await;
    half_asked.send("alhost\r\n\r\n").await;
    let readyz = half_asked.response().await;
    late.send(rest).await;
    let refused = late.response().await;
    let finished = caller.response().await;
    let ran = gateway.wait().await;

    assert_eq!(
        (readyz.status, &*readyz.json()["status"].to_string()),
        (503, "\"draining\"")
    );
    assert_eq!(refused.refused(503), "the gateway is stopping");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(finished.body, format!("{CONTENT}{FINISH}"));
    ran.assert_code(0);
}

#[tokio::test]
async fn beats_tell_that_the_gateway_is_about_to_stop() {
    let silent = Upstream::silent().await;
    let settings = "[beats]\nevery = \"50ms\"\n".to_owned() + &upstream("a", silent.address, "");
    let gateway = Gateway::start(&settings).await;
    let mut caller = gateway.ask().await;
    caller.until(r#"{"state":"attempt","#).await;

    gateway.signal("TERM");

    caller.until(r#"{"state":"draining","#).await;
    drop(caller);
    gateway.wait().await.assert_code(0);
}

#[tokio::test]
async fn what_runs_longer_than_the_drain_ends_with_an_error() {
    let endless = Upstream::saying(&[CONTENT]).await;
    let settings = "[serve]\ndrain = \"500ms\"\n".to_owned() + &upstream("a", endless.address, "");
    let gateway = Gateway::start(&settings).await;
    let mut streaming = gateway.ask().await;
    streaming.until(CONTENT).await;
    let mut waiting = gateway.connect().await;
    waiting.send(&chat("", false)).await;
    endless.is_asked(2).await;

    let began = now();
    gateway.signal("TERM");
    let streamed = streaming.response().await;
    let whole = waiting.response().await;
    let took = began.elapsed();
    let ran = gateway.wait().await;

    assert!(took >= Duration::from_millis(500), "{took:?}");
    let (content, rest) = streamed.body.split_at(CONTENT.len());
    assert_eq!(content, CONTENT);
    assert!(rest.starts_with("data: {\"error\":"), "{rest}");
    assert!(rest.ends_with("\n\ndata: [DONE]\n\n"), "{rest}");
    assert!(
        whole.refused(503).contains("the gateway is stopping"),
        "{whole:?}"
    );
    ran.assert_code(0);
    eventually("the upstream is left", || endless.open() == 0).await;
    let ends = ran.stderr.matches("\"elapsed_ms\"").count();
    assert_eq!(ends, 2, "{}", ran.stderr);
}

#[tokio::test]
async fn a_second_signal_ends_what_runs_at_once() {
    let endless = Upstream::saying(&[CONTENT]).await;
    let gateway = Gateway::start(&upstream("a", endless.address, "")).await;
    let mut caller = gateway.ask().await;
    caller.until(CONTENT).await;

    let began = now();
    gateway.signal("TERM");
    eventually("it drains", || gateway.log().contains("\"draining\"")).await;
    gateway.signal("INT");
    let streamed = caller.response().await;
    let ran = gateway.wait().await;

    assert!(
        began.elapsed() < Duration::from_secs(20),
        "it waited for the drain"
    );
    assert!(streamed.body.contains("data: {\"error\":"), "{streamed:?}");
    ran.assert_code(0);
}

#[tokio::test]
async fn a_gateway_without_calls_ends_at_once() {
    let answering = Upstream::answering().await;
    let gateway = Gateway::start(&upstream("a", answering.address, "")).await;
    let mut kept = gateway.connect().await;
    kept.send(&chat("", true)).await;
    kept.response().await;

    let began = now();
    gateway.signal("INT");
    kept.read_to_end().await.unwrap();
    let ran = gateway.wait().await;

    assert!(began.elapsed() < Duration::from_secs(20));
    ran.assert_code(0);
}

#[tokio::test]
async fn after_a_kill_callers_see_their_connections_end_and_a_successor_serves_at_once() {
    let speaking = Upstream::saying(&[CONTENT]).await;
    let settings = upstream("a", speaking.address, "concurrency = 300");
    let gateway = Gateway::start(&settings).await;
    let address = gateway.address;
    let mut callers = Vec::new();
    for _ in 0..200 {
        callers.push(gateway.ask().await);
    }
    for caller in callers.iter_mut().take(100) {
        caller.until(CONTENT).await;
    }

    let directory = gateway.kill().await;
    let path = directory.path().join("gateway.toml");
    let successor = Program::new(&["serve", "--listen", &address.to_string(), "--config"])
        .args(&[path.as_os_str()])
        .start();
    note(&successor, "listening on ").await;

    for caller in &mut callers {
        // An end that looks whole would be a lie: the last chunk is missing.
        let read = caller.read_to_end().await;
        let is_whole = read.is_ok_and(|read| read.ends_with("0\r\n\r\n"));
        assert!(!is_whole);
    }
    eventually("the upstream is left", || speaking.open() == 0).await;
    let socket = TcpStream::connect(address).await.unwrap();
    let mut caller = super::house::Caller::new(socket);
    caller.send(&chat("", true)).await;
    caller.until(CONTENT).await;
    caller.send(&request("GET", "/livez", "", "")).await;
}

#[tokio::test]
async fn a_gateway_is_alive_and_ready_as_long_as_it_serves() {
    let answering = Upstream::answering().await;
    let gateway = Gateway::start(&upstream("a", answering.address, "")).await;

    let live = gateway.response(&request("GET", "/livez", "", "")).await;
    let ready = gateway.response(&request("GET", "/readyz", "", "")).await;

    assert_eq!(
        (live.status, live.body.as_str()),
        (200, r#"{"status":"ok"}"#)
    );
    assert_eq!(ready.status, 200);
    assert_eq!(ready.json()["status"], "ready");
    assert_eq!(answering.accepted(), 0);
}
