//! Callers that leave, and callers that do not read.

use std::io;
use std::time::Duration;

use lifesign::clock::now;
use tokio::time::sleep;

use super::house::{
    CONTENT, Caller, FINISH, Gateway, Link, STREAM, Upstream, WHOLE, chat, chat_of, eventually,
    failing, upstream,
};

#[tokio::test]
async fn a_caller_that_leaves_is_gone_for_the_upstream_within_ten_milliseconds() {
    let silent = Upstream::silent().await;
    let gateway = Gateway::start(&upstream("a", silent.address, "")).await;
    let before = gateway.at_rest().await;
    let mut took = Vec::new();

    for nth in 1..=9 {
        let caller = gateway.ask().await;
        silent.is_asked(nth).await;
        let began = now();
        drop(caller);
        eventually("the upstream is left", || silent.left().len() == nth).await;
        took.push(silent.left()[nth - 1] - began);
    }

    // Others use this machine too, so the quickest tells what the gateway adds.
    took.sort();
    assert!(took[0] < Duration::from_millis(10), "{took:?}");
    assert!(took[8] < Duration::from_secs(1), "{took:?}");
    gateway.settles(&before).await;
    assert_eq!(gateway.ended(9).await, ["cancelled"; 9]);
}

#[tokio::test]
async fn a_thousand_callers_that_leave_at_once_are_gone_at_once() {
    let speaking = Upstream::saying(&[CONTENT]).await;
    let gateway = Gateway::start(&upstream("a", speaking.address, "concurrency = 1000")).await;
    let before = gateway.at_rest().await;
    let mut callers = Vec::new();
    for _ in 0..1_000 {
        callers.push(gateway.ask().await);
    }
    for caller in &mut callers {
        caller.until(CONTENT).await;
    }

    let began = now();
    drop(callers);
    eventually("the upstream is left", || speaking.left().len() == 1_000).await;

    let last = speaking.left().into_iter().max().unwrap() - began;
    assert!(last < Duration::from_secs(2), "{last:?}");
    gateway.settles(&before).await;
    assert_eq!(gateway.ended(1_000).await, vec!["cancelled"; 1_000]);
}

#[tokio::test]
async fn a_thousand_callers_that_leave_at_random_moments_leave_nothing_behind() {
    let speaking = Upstream::start(speak_now_and_then).await;
    let busy = Upstream::start(|mut link| async move {
        link.request().await?;
        link.send(&failing(503, "connection: close\r\n", "busy"))
            .await
    })
    .await;
    // It takes connections and does not shake hands.
    let dark = Upstream::start(|mut link| async move { link.left().await }).await;
    let line = Upstream::silent().await;
    let settings = [
        upstream(
            "speaking",
            speaking.address,
            "models = [\"m\"]\nconcurrency = 500",
        ),
        upstream(
            "busy",
            busy.address,
            "models = [\"busy\"]\nconcurrency = 500",
        ),
        upstream(
            "dark",
            dark.address,
            "models = [\"dark\"]\nconcurrency = 500",
        )
        .replace("http:", "https:"),
        upstream(
            "line",
            line.address,
            "models = [\"line\"]\nconcurrency = 1\nqueue = 500",
        ),
    ]
    .concat();
    let gateway = Gateway::start(&settings).await;
    let before = gateway.at_rest().await;
    let mut moments = Moments(7);
    let mut leaving = tokio::task::JoinSet::new();

    for nth in 0..1_000 {
        let model = ["m", "m", "busy", "dark", "line"][nth % 5];
        let comes = Duration::from_millis(moments.next() % 2_000);
        let stays = Duration::from_millis(moments.next() % 1_500);
        let address = gateway.address;
        let asks = chat_of(model, "", nth % 7 != 0);
        leaving.spawn(async move {
            sleep(comes).await;
            let socket = tokio::net::TcpStream::connect(address).await.unwrap();
            let mut caller = Caller::new(socket);
            caller.send(&asks).await;
            sleep(stays).await;
        });
    }
    leaving.join_all().await;

    gateway.settles(&before).await;
    let all = [&speaking, &busy, &dark, &line];
    eventually("the upstreams are left", || {
        all.iter().all(|it| it.open() == 0)
    })
    .await;
    // The log is written on a thread of its own, which may be behind.
    let mut ends = gateway.ends().len();
    loop {
        sleep(Duration::from_millis(200)).await;
        let now = gateway.ends().len();
        if std::mem::replace(&mut ends, now) == now {
            break;
        }
    }
    // Who leaves before the request was read has made no call; on a busy machine those are many.
    assert!((300..=1_000).contains(&ends), "{ends}");
    assert_eq!(gateway.ended(ends).await, vec!["cancelled"; ends]);
    let log = gateway.log();
    assert!(log.contains("\"attempt failed\""), "nobody waited to retry");
}

/// Answers one request with silence, the next with content and then silence, and so on.
async fn speak_now_and_then(mut link: Link) -> io::Result<()> {
    let request = link.request().await?;
    if request.len() % 2 == 0 {
        link.send(STREAM).await?;
        link.send(CONTENT).await?;
    }
    link.left().await
}

#[tokio::test]
async fn a_caller_that_hangs_up_its_half_has_left() {
    let silent = Upstream::silent().await;
    let gateway = Gateway::start(&upstream("a", silent.address, "")).await;
    let before = gateway.at_rest().await;

    let mut caller = gateway.ask().await;
    silent.is_asked(1).await;
    tokio::io::AsyncWriteExt::shutdown(&mut caller.socket)
        .await
        .unwrap();
    caller.read_to_end().await.unwrap();

    eventually("the upstream is left", || silent.left().len() == 1).await;
    drop(caller);
    gateway.settles(&before).await;
    assert_eq!(gateway.ended(1).await, ["cancelled"]);
}

#[tokio::test]
async fn a_caller_that_has_asked_ahead_is_missed_as_well() {
    let silent = Upstream::silent().await;
    let gateway = Gateway::start(&upstream("a", silent.address, "")).await;
    let before = gateway.at_rest().await;

    for (nth, ahead) in ["\r\n", "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"]
        .into_iter()
        .enumerate()
    {
        let mut caller = gateway.connect().await;
        caller.send(&(chat("", false) + ahead)).await;
        silent.is_asked(nth + 1).await;
        drop(caller);
        eventually("the upstream is left", || silent.left().len() == nth + 1).await;
    }

    gateway.settles(&before).await;
    assert_eq!(gateway.ended(2).await, ["cancelled"; 2]);
}

#[tokio::test]
async fn a_caller_that_asks_again_while_it_waits_is_missed_as_well() {
    let silent = Upstream::silent().await;
    let speaking = Upstream::saying(&[CONTENT]).await;
    let settings = upstream("a", silent.address, "models = [\"silent\"]")
        + &upstream("b", speaking.address, "models = [\"m\"]");
    let gateway = Gateway::start(&settings).await;
    let before = gateway.at_rest().await;
    let again = chat("", true);

    for (nth, piece) in ["\r\n", "P", &*again, &*again.repeat(2)]
        .into_iter()
        .enumerate()
    {
        let mut caller = gateway.connect().await;
        caller.send(&chat_of("silent", "", false)).await;
        silent.is_asked(nth + 1).await;
        caller.send(piece).await;
        // It is to come in before the end does.
        sleep(Duration::from_millis(50)).await;
        drop(caller);
        eventually("the upstream is left", || silent.left().len() == nth + 1).await;

        let mut caller = gateway.ask().await;
        caller.until(CONTENT).await;
        caller.send(piece).await;
        sleep(Duration::from_millis(50)).await;
        drop(caller);
        eventually("the upstream is left", || speaking.left().len() == nth + 1).await;
    }

    gateway.settles(&before).await;
    assert_eq!(gateway.ended(8).await, ["cancelled"; 8]);
}

#[tokio::test]
async fn what_is_asked_while_another_is_answered_is_answered_in_its_turn() {
    let speaking = Upstream::start(|mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.send(CONTENT).await?;
        sleep(Duration::from_millis(300)).await;
        link.send(FINISH).await
    })
    .await;
    let gateway = Gateway::start(&upstream("a", speaking.address, "")).await;
    let live = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let (begun, rest) = live.split_at(9);
    let mut caller = gateway.ask().await;

    caller.until(CONTENT).await;
    caller.send(begun).await;
    let first = caller.response().await;
    caller.send(rest).await;
    let second = caller.response().await;

    assert!(first.body.ends_with(FINISH), "{first:?}");
    assert_eq!(second.body, LIVE);
}

#[tokio::test]
async fn what_is_asked_ahead_is_answered_in_its_turn() {
    let answering = Upstream::answering().await;
    let gateway = Gateway::start(&upstream("a", answering.address, "")).await;
    let live = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut caller = gateway.connect().await;

    caller
        .send(&[&chat("", true), live, &chat("", false), live].concat())
        .await;

    for body in [&*format!("{CONTENT}{FINISH}"), LIVE, WHOLE, LIVE] {
        let response = caller.response().await;
        assert!(
            response.body.contains(r#""hi""#) || response.body == body,
            "{response:?}"
        );
        assert_eq!(response.body == LIVE, body == LIVE, "{response:?}");
    }
    assert_eq!(gateway.ended(2).await, ["completed"; 2]);
}

#[tokio::test]
async fn a_caller_that_leaves_while_it_sends_makes_no_call() {
    let silent = Upstream::silent().await;
    let gateway = Gateway::start(&upstream("a", silent.address, "")).await;
    let before = gateway.at_rest().await;
    let whole = chat("", true);

    for len in [1, 30, whole.len() - 40, whole.len() - 1] {
        let mut caller = gateway.connect().await;
        caller.send(whole.split_at(len).0).await;
        drop(caller);
    }

    gateway.settles(&before).await;
    assert_eq!((silent.accepted(), gateway.ends().len()), (0, 0));
}

#[tokio::test]
async fn two_hundred_callers_that_do_not_read_are_bounded_in_memory_and_time() {
    let endless = Upstream::start(|mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        let many = CONTENT.repeat(1_000);
        loop {
            link.send(&many).await?;
        }
    })
    .await;
    let settings = "[limits]\nreader_stall = \"2s\"\n".to_owned()
        + &upstream("a", endless.address, "concurrency = 200");
    let gateway = Gateway::start(&settings).await;
    let before = gateway.at_rest().await;
    let rest = gateway.memory();
    let mut callers = Vec::new();
    for _ in 0..200 {
        callers.push(gateway.ask().await);
    }

    let mut most = 0;
    eventually("they are cut", || {
        most = most.max(gateway.memory());
        gateway.ends().len() == 200
    })
    .await;

    let each = most.saturating_sub(rest) / 200;
    assert!(each < 448 << 10, "{each} bytes for each");
    gateway.settles(&before).await;
    assert_eq!(gateway.ended(200).await, vec!["consumer_stalled"; 200]);
    let ended = callers[0].read_to_end().await.unwrap_err();
    assert_eq!(ended.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_caller_that_pauses_gets_every_frame_in_the_end() {
    let many = Upstream::start(|mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.send(&CONTENT.repeat(20_000)).await?;
        link.send(FINISH).await
    })
    .await;
    let settings =
        "[limits]\nreader_stall = \"20s\"\n".to_owned() + &upstream("a", many.address, "");
    let gateway = Gateway::start(&settings).await;

    let mut caller = gateway.ask().await;
    caller.until(CONTENT).await;
    sleep(Duration::from_millis(500)).await;
    let response = caller.response().await;

    assert_eq!(response.body, CONTENT.repeat(20_000) + FINISH);
    assert_eq!(gateway.ended(1).await, ["completed"]);
}

const LIVE: &str = r#"{"status":"ok"}"#;

/// Moments that are the same in each run.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> u64 {
        // xorshift64 (Marsaglia, 2003).
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
