//! Upstreams that die, lie, and never end.

use std::future::Future;
use std::io;
use std::time::Duration;

use pretty_assertions::assert_eq;
use tokio::io::AsyncWriteExt as _;

use super::house::{
    CONTENT, Gateway, Link, ROLE, STREAM, Upstream, chat, eventually, failing, upstream,
    with_length,
};

/// Plays a fault for a caller of a stream and for one of a whole answer; returns the status or the
/// end that each saw, and the code that its one record tells.
async fn fault<F>(more: &str, play: impl Fn(Link) -> F + Send + Sync + 'static) -> [String; 2]
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let faulty = Upstream::start(play).await;
    let settings = format!(
        "[retry]\nattempts = 1\n[bounds]\nheaders = \"1s\"\nraw_silence = \"1s\"\n{more}\n{}",
        upstream("a", faulty.address, "")
    );
    let gateway = Gateway::start(&settings).await;
    let before = gateway.at_rest().await;
    let mut told = Vec::new();
    for (nth, streamed) in [true, false].into_iter().enumerate() {
        let response = gateway.response(&chat("", streamed)).await;
        let frame = response.body.contains("data: {\"error\"");
        let end = if frame { " and an error" } else { "" };
        gateway.ended(nth + 1).await;
        let ends = gateway.ends();
        let code = ends[nth]["code"].as_str().unwrap_or("none").to_owned();
        told.push(format!("{}{end}: {code}", response.status));
    }
    gateway.settles(&before).await;
    eventually("the upstream is left", || faulty.open() == 0).await;
    told.try_into().unwrap()
}

#[tokio::test]
async fn an_upstream_that_dies_before_it_answers_is_a_real_status() {
    let closed = fault("", |link| async move {
        drop(link);
        Ok(())
    });
    assert_eq!(closed.await, ["502: connection_lost"; 2]);
    let read = fault("", |mut link| async move { link.request().await.map(drop) });
    assert_eq!(read.await, ["502: connection_lost"; 2]);
    let reset = fault("", |mut link| async move {
        link.request().await?;
        link.reset()
    });
    assert_eq!(reset.await, ["502: connection_lost"; 2]);
    let half_a_head = fault("", |mut link| async move {
        link.request().await?;
        link.send("HTTP/1.1 200 OK\r\ncontent-ty").await
    });
    assert_eq!(half_a_head.await, ["502: connection_lost"; 2]);
}

#[tokio::test]
async fn an_upstream_that_dies_before_content_is_a_real_status() {
    let head = fault("", |mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.reset()
    });
    assert_eq!(head.await, ["502: connection_lost"; 2]);
    let ended = fault("", |mut link| async move {
        link.request().await?;
        link.send(STREAM).await
    });
    assert_eq!(ended.await, ["502: empty"; 2]);
    let role = fault("", |mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.send(ROLE).await?;
        link.reset()
    });
    assert_eq!(role.await, ["502: connection_lost"; 2]);
    let broken_chunk = fault("", |mut link| async move {
        link.request().await?;
        link.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\ndata: ")
            .await
    });
    assert_eq!(broken_chunk.await, ["502: connection_lost"; 2]);
}

#[tokio::test]
async fn an_upstream_that_dies_after_content_is_an_error_in_the_stream_or_a_status() {
    let reset = fault("", |mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.send(CONTENT).await?;
        // What was sent is taken before the reset can throw it away.
        tokio::time::sleep(Duration::from_millis(100)).await;
        link.reset()
    });
    assert_eq!(
        reset.await,
        ["200 and an error: connection_lost", "502: connection_lost"]
    );
    let ended = fault("", |mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.send(CONTENT).await
    });
    assert_eq!(
        ended.await,
        ["200 and an error: truncated", "502: truncated"]
    );
    let half = fault("", |mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.send(CONTENT).await?;
        link.send("data: {\"choices\":[{").await
    });
    assert_eq!(
        half.await,
        ["200 and an error: truncated", "502: truncated"]
    );
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_cut_wherever_it_stops() {
    let unanswered = fault("", |mut link| async move {
        link.request().await?;
        link.left().await
    });
    assert_eq!(unanswered.await, ["504: raw_silent"; 2]);
    let after_the_head = fault("", |mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.left().await
    });
    assert_eq!(after_the_head.await, ["504: raw_silent"; 2]);
    let after_content = fault("", |mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.send(CONTENT).await?;
        link.left().await
    });
    assert_eq!(
        after_content.await,
        ["200 and an error: raw_silent", "504: raw_silent"]
    );
}

#[tokio::test]
async fn an_upstream_that_half_closes_has_ended() {
    let half_open = fault("", |mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.send(CONTENT).await?;
        link.socket.shutdown().await?;
        link.left().await
    });
    assert_eq!(
        half_open.await,
        ["200 and an error: truncated", "502: truncated"]
    );
}

#[tokio::test]
async fn an_upstream_that_speaks_something_else_is_unreadable() {
    let garbage = fault("", |mut link| async move {
        link.request().await?;
        link.send("SSH-2.0-OpenSSH_9.2\r\n\0\x01\x02\r\n\r\n")
            .await?;
        link.left().await
    });
    assert_eq!(garbage.await, ["502: unreadable"; 2]);
    let page = fault("", |mut link| async move {
        link.request().await?;
        link.send(&with_length("text/html", "<html>It works!</html>"))
            .await?;
        link.left().await
    });
    assert_eq!(page.await, ["502: unreadable"; 2]);
}

#[tokio::test]
async fn an_upstream_whose_head_never_ends_is_cut() {
    let endless_head = fault("", |mut link| async move {
        link.request().await?;
        link.send("HTTP/1.1 200 OK\r\n").await?;
        let many = "x-more: 0123456789\r\n".repeat(100);
        loop {
            link.send(&many).await?;
        }
    });
    assert_eq!(endless_head.await, ["502: unreadable"; 2]);
}

#[tokio::test]
async fn an_upstream_whose_body_never_ends_is_cut_by_size() {
    let limits = "[limits]\nline = \"1 MiB\"\nframe = \"1 MiB\"\nanswer = \"2 MiB\"";
    let endless_line = fault(limits, |mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.send("data: ").await?;
        let many = "0123456789".repeat(10_000);
        loop {
            link.send(&many).await?;
        }
    });
    assert_eq!(endless_line.await, ["502: too_large"; 2]);
    let endless_whole = fault(limits, |mut link| async move {
        link.request().await?;
        link.send("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"x\":\"")
            .await?;
        let many = "0123456789".repeat(10_000);
        loop {
            link.send(&many).await?;
        }
    });
    assert_eq!(endless_whole.await, ["502: too_large"; 2]);
    let endless_error = fault(limits, |mut link| async move {
        link.request().await?;
        link.send("HTTP/1.1 418 No\r\nconnection: close\r\n\r\n{\"x\":\"")
            .await?;
        let many = "0123456789".repeat(10_000);
        loop {
            link.send(&many).await?;
        }
    });
    assert_eq!(endless_error.await, ["418: rejected"; 2]);
}

#[tokio::test]
async fn an_upstream_that_is_gone_is_a_connect_failure_and_one_that_comes_back_is_asked_again() {
    let there = Upstream::answering().await;
    let address = there.address;
    let settings = format!("[retry]\nattempts = 1\n{}", upstream("a", address, ""));
    let gateway = Gateway::start(&settings).await;
    let before = gateway.at_rest().await;

    let first = gateway.response(&chat("", true)).await;
    drop(there);
    let second = gateway.response(&chat("", true)).await;
    let back = Upstream::start_on(address, |mut link| async move {
        link.request().await?;
        link.send(&failing(401, "", "who?")).await
    })
    .await;
    let third = gateway.response(&chat("", true)).await;

    assert_eq!([first.status, second.status, third.status], [200, 502, 401]);
    assert_eq!(gateway.ended(3).await, ["completed", "connect", "rejected"]);
    drop(back);
    gateway.settles(&before).await;
}

#[tokio::test]
async fn a_redirect_to_another_host_is_not_followed() {
    let other = Upstream::answering().await;
    let location = format!("location: http://{}/v1/chat/completions\r\n", other.address);
    let moved = Upstream::start(move |mut link| {
        let location = location.clone();
        async move {
            link.request().await?;
            link.send(&failing(307, &location, "moved")).await?;
            link.left().await
        }
    })
    .await;
    let gateway = Gateway::start(&upstream("a", moved.address, "")).await;

    let response = gateway.response(&chat("", true)).await;

    assert_eq!((other.accepted(), response.header("location")), (0, None));
    assert_eq!(response.status, 502);
}
