//! The traces of a gateway as a process: what the end sends, and what the log says of a collector.

use std::net::SocketAddr;

use lifesign::clock::now;
use pretty_assertions::assert_eq;
use tokio::net::TcpListener;

use super::house::{Gateway, Upstream, chat, eventually, upstream};

/// Takes whatever is posted.
async fn collector_at(address: SocketAddr) -> Upstream {
    Upstream::start_on(address, |mut link| async move {
        loop {
            link.request().await?;
            link.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await?;
        }
    })
    .await
}

fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Returns an address that nobody listens at.
async fn nowhere() -> SocketAddr {
    let listener = TcpListener::bind(anywhere()).await.unwrap();
    listener.local_addr().unwrap()
}

fn settings(answering: &Upstream, collector: SocketAddr) -> String {
    let telemetry = format!("[telemetry]\notlp_endpoint = \"http://{collector}\"\n");
    telemetry + &upstream("a", answering.address, "")
}

fn count(gateway: &Gateway, line: &str) -> usize {
    gateway.log().matches(line).count()
}

#[tokio::test]
async fn a_stop_sends_the_last_spans_first() {
    let answering = Upstream::answering().await;
    let collector = collector_at(anywhere()).await;
    let settings = settings(&answering, collector.address);
    let named = |program: crate::harness::Program| {
        program
            .env("OTEL_SERVICE_NAME", "the gateway of the test")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    };
    let gateway = Gateway::start_as(&settings, named).await;
    assert_eq!(gateway.response(&chat("", true)).await.status, 200);
    gateway.ended(1).await;
    let id = gateway.ends()[0]["call"].as_str().unwrap().to_owned();

    gateway.signal("TERM");
    let ran = gateway.wait().await;

    ran.assert_code(0);
    let sent = collector.heads().concat();
    assert!(sent.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{sent}");
    for part in ["chat m", &id, "the gateway of the test"] {
        assert!(sent.contains(part), "{part} in {sent}");
    }
    // One for the call and one for its attempt.
    assert_eq!(sent.matches("lifesign.call.id").count(), 2);
}

#[tokio::test]
async fn a_collector_that_is_gone_is_told_once_and_so_is_its_return() {
    let answering = Upstream::answering().await;
    let address = nowhere().await;
    let gateway = Gateway::start(&settings(&answering, address)).await;
    let fails = "spans cannot be exported; calls go on";
    assert_eq!(gateway.response(&chat("", true)).await.status, 200);
    eventually("the log tells it", || count(&gateway, fails) > 0).await;

    assert_eq!(gateway.response(&chat("", true)).await.status, 200);
    let collector = collector_at(address).await;

    eventually("the spans are there", || {
        collector
            .heads()
            .concat()
            .matches("lifesign.call.id")
            .count()
            == 4
    })
    .await;
    let again = "spans are exported again";
    eventually("the log tells that, too", || count(&gateway, again) > 0).await;
    assert_eq!((count(&gateway, fails), count(&gateway, again)), (1, 1));
}

#[tokio::test]
async fn the_end_does_not_wait_for_a_collector_that_is_gone() {
    let answering = Upstream::answering().await;
    let gateway = Gateway::start(&settings(&answering, nowhere().await)).await;
    assert_eq!(gateway.response(&chat("", true)).await.status, 200);
    gateway.ended(1).await;
    let began = now();

    gateway.signal("TERM");
    let ran = gateway.wait().await;

    ran.assert_code(0);
    assert!(began.elapsed().as_secs() < 4, "{:?}", began.elapsed());
    ran.assert_said("the last spans were not exported");
}
