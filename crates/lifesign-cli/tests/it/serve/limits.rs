//! What the gateway takes at most, of requests, connections and memory.

use pretty_assertions::assert_eq;

use super::house::{
    CONTENT, FINISH, Gateway, STREAM, Upstream, WHOLE, chat, eventually, failing, request,
    upstream, with_length,
};

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_before_it_is_read() {
    let answering = Upstream::answering().await;
    let settings =
        "[limits]\nrequest = \"1 KiB\"\n".to_owned() + &upstream("a", answering.address, "");
    let gateway = Gateway::start(&settings).await;
    let before = gateway.at_rest().await;
    let json = "content-type: application/json\r\n";
    let start = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n";

    let mut told = gateway.connect().await;
    told.send(&format!("{start}{json}content-length: 1025\r\n\r\n"))
        .await;
    let told = told.response().await;
    let mut chunked = gateway.connect().await;
    let long = "x".repeat(1025);
    chunked
        .send(&format!(
            "{start}{json}transfer-encoding: chunked\r\n\r\n401\r\n{long}\r\n"
        ))
        .await;
    let chunked = chunked.response().await;
    let mut expecting = gateway.connect().await;
    expecting
        .send(&format!(
            "{start}{json}content-length: 1025\r\nexpect: 100-continue\r\n\r\n"
        ))
        .await;
    let expecting = expecting.response().await;

    for refused in [told, chunked, expecting] {
        assert!(
            refused.refused(413).contains("limits.request"),
            "{refused:?}"
        );
        assert_eq!(refused.header("connection"), Some("close"));
    }
    assert_eq!(answering.accepted(), 0);
    gateway.settles(&before).await;
}

#[tokio::test]
async fn a_connection_too_many_is_told_so() {
    let answering = Upstream::answering().await;
    let settings = "[limits]\nconnections = 2\n".to_owned() + &upstream("a", answering.address, "");
    let gateway = Gateway::start(&settings).await;

    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut caller = gateway.connect().await;
        caller.send(&request("GET", "/livez", "", "")).await;
        assert_eq!(caller.response().await.status, 200);
        kept.push(caller);
    }
    let refused = gateway.response(&request("GET", "/livez", "", "")).await;
    kept.pop();
    let mut last = 0;
    for _ in 0..200 {
        last = gateway
            .response(&request("GET", "/livez", "", ""))
            .await
            .status;
        if last == 200 {
            break;
        }
    }

    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(last, 200);
}

#[tokio::test]
async fn beyond_what_may_be_kept_for_replays_a_call_has_one_attempt() {
    let failing_first = async || {
        Upstream::start(|mut link| async move {
            link.request().await?;
            link.send(&failing(500, "connection: close\r\n", "no"))
                .await
        })
        .await
    };
    let (roomy, tight) = (failing_first().await, failing_first().await);
    let fast = "[retry.transport]\nfirst_delay = \"1ms\"\n";
    let roomy_gateway =
        Gateway::start(&format!("{fast}{}", upstream("a", roomy.address, ""))).await;
    let total = "[limits]\nreplay_total = \"16 B\"\n";
    let settings = format!("{fast}{total}{}", upstream("a", tight.address, ""));
    let tight_gateway = Gateway::start(&settings).await;

    let often = roomy_gateway.response(&chat("", true)).await;
    let once = tight_gateway.response(&chat("", true)).await;

    assert_eq!((often.status, roomy.asked()), (500, 3));
    assert_eq!((once.status, tight.asked()), (500, 1));
    // Nothing stays counted, so that what is small enough is kept again.
    let small = request(
        "POST",
        "/v1/chat/completions",
        "content-type: application/json\r\n",
        "{\"model\":\"m\"}",
    );
    tight_gateway.response(&small).await;
    assert_eq!(tight.asked(), 4);
}

#[tokio::test]
async fn beyond_what_may_be_kept_of_answers_a_call_fails_and_names_the_setting() {
    let long = "0123456789".repeat(2_000);
    let whole = WHOLE.replace("\"content\":\"hi\"", &format!("\"content\":\"{long}\""));
    let piece = CONTENT.replace("hi", &long);
    let large = Upstream::start(move |mut link| {
        let (whole, piece) = (whole.clone(), piece.clone());
        async move {
            let request = link.request().await?;
            if request.contains("\"stream\":true") {
                link.send(STREAM).await?;
                link.send(&piece).await?;
                link.send(FINISH).await
            } else {
                link.send(&with_length("application/json", &whole)).await
            }
        }
    })
    .await;
    let settings = |total: &str, assemble: &str| {
        let more = format!("assemble = \"{assemble}\"");
        format!(
            "[limits]\nbuffered_total = \"{total}\"\n{}",
            upstream("a", large.address, &more)
        )
    };

    for assemble in ["auto", "off"] {
        let gateway = Gateway::start(&settings("10 KiB", assemble)).await;
        let before = gateway.at_rest().await;

        let response = gateway.response(&chat("", false)).await;
        let code = gateway.ended(1).await;
        let again = gateway.response(&chat("", false)).await;

        let told = response.refused(502);
        assert!(told.contains("limits.buffered_total"), "{told}");
        let mark = &response.json()["lifesign"];
        assert_eq!(mark["code"], "too_large", "{mark}");
        assert_eq!(mark["setting"], "limits.buffered_total", "{mark}");
        assert_eq!((code, again.status), (vec!["too_large".to_owned()], 502));
        gateway.settles(&before).await;
    }
    // What is given back is free again, however often.
    let gateway = Gateway::start(&settings("64 KiB", "auto")).await;
    for _ in 0..8 {
        assert_eq!(gateway.response(&chat("", false)).await.status, 200);
    }
}

#[tokio::test]
async fn a_full_line_is_a_status_at_once_and_a_free_place_is_taken() {
    let speaking = Upstream::saying(&[CONTENT]).await;
    let more = "concurrency = 1\nqueue = 1\n";
    let gateway = Gateway::start(&upstream("a", speaking.address, more)).await;
    let before = gateway.at_rest().await;
    let mut first = gateway.ask().await;
    first.until(CONTENT).await;
    let mut second = gateway.ask().await;
    eventually("the second waits", || gateway.log().contains("listening")).await;
    let lane =
        async || gateway.admin("GET", "/lifesign/upstreams").await.json()["upstreams"][0].clone();
    while lane().await["waiting"] != 1 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }

    let third = gateway.response(&chat("", true)).await;
    drop(first);
    second.until(CONTENT).await;

    assert_eq!(third.refused(429).is_empty(), false);
    assert_eq!(third.header("retry-after"), Some("1"));
    drop(second);
    gateway.settles(&before).await;
    assert_eq!(
        gateway.ended(3).await,
        ["cancelled", "cancelled", "queue_full"]
    );
}
