//! Named scenarios, recordings, and addresses that swallow.

use std::{net::TcpStream, time::Duration};

use lifesign_standin::{Blackhole, Dialect, End, Scenario, Standin};
use pretty_assertions::assert_eq;

use crate::client::{Client, LIMIT, ask_at};

/// Fast enough that the longest scenario takes a quarter of a second.
const SPEED: f64 = 1000.0;

#[tokio::test]
async fn every_scenario_plays_on_every_wire() {
    let standin = Standin::scenarios().speed(SPEED).start().await.unwrap();
    let endless = ["comments-only", "open-end", "pings-only", "reasoning-only"];

    for (index, scenario) in Scenario::all().iter().enumerate() {
        for (wire, dialect) in Dialect::ALL.iter().enumerate() {
            let path = format!("/{}{}", scenario.name(), dialect.path());
            let mut client = Client::connect(&standin).await;
            client.post(&path).await;
            let number = index * Dialect::ALL.len() + wire;
            assert!(standin.wait_for_requests(number + 1, LIMIT).await);
            let text = scenario.text();
            let holds = text.contains("hold") || endless.contains(&scenario.name());
            if holds {
                tokio::time::sleep(Duration::from_millis(5)).await;
                drop(client);
                standin.wait_for_peer_closed(number, LIMIT).await.unwrap();
            }

            let request = standin.wait_for_end(number, LIMIT).await.unwrap();

            assert_eq!(request.attempt, 1, "{path}");
            let (end, _) = request.ended.unwrap();
            assert_eq!(end == End::PeerLeft, holds, "{path}: {end:?}");
        }
    }
}

#[tokio::test]
async fn a_scenario_has_its_attempts_under_each_prefix_of_its_own() {
    let standin = Standin::scenarios().speed(SPEED).start().await.unwrap();

    for prefix in ["/overload", "/overload/again"] {
        for expected in ["529", "529", "200"] {
            let (head, _) = ask_at(&standin, &format!("{prefix}/v1/messages")).await;
            assert_eq!(head.split(' ').nth(1), Some(expected));
        }
    }
}

#[tokio::test]
async fn a_scenario_that_does_not_exist_is_not_found() {
    let standin = Standin::scenarios().start().await.unwrap();

    let (head, body) = ask_at(&standin, "/overlaod/v1/messages").await;

    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    assert!(body.contains("did you mean `overload`?"), "{body}");
    assert!(
        ask_at(&standin, "/v1/messages")
            .await
            .1
            .contains("The tide")
    );
}

#[tokio::test]
async fn an_error_behind_a_json_head_has_the_shape_of_the_wire() {
    let standin = Standin::scenario("quota").unwrap().start().await.unwrap();

    let (_, chat) = ask_at(&standin, "/v1/chat/completions").await;
    let (_, anthropic) = ask_at(&standin, "/v1/messages").await;

    assert!(
        chat.starts_with(r#"{"error":{"message":"You exceeded"#),
        "{chat}"
    );
    assert!(chat.contains(r#""code":"insufficient_quota""#), "{chat}");
    assert!(
        anthropic.contains(r#""type":"rate_limit_error""#),
        "{anthropic}"
    );
    assert!(
        anthropic.contains("enforced_spend_limit_reached"),
        "{anthropic}"
    );
}

#[tokio::test]
async fn half_of_a_whole_body_comes_before_a_cut() {
    let standin = Standin::scenario("cut-mid-answer").unwrap().speed(SPEED);
    let standin = standin.start().await.unwrap();
    let mut client = Client::connect(&standin).await;
    client.post_body("/v1/messages", "{}").await;

    let all = String::from_utf8(client.rest().await).unwrap();

    assert!(all.contains("content-type: application/json"), "{all}");
    assert!(all.contains(r#"{"id":"msg_1","type":"message""#), "{all}");
    assert!(!all.contains("stop_reason"), "{all}");
}

#[tokio::test]
async fn a_recording_is_played_with_its_bytes_and_its_timing() {
    let recording = concat!(
        "{\"lifesign_recording\":1,\"wire\":\"openai-chat\"}\n",
        "{\"at_us\":500000,\"status\":418,\"headers\":[[\"x-a\",\"<b>\"],[\"Content-Length\",\"9\"]]}\n",
        "{\"at_us\":600000,\"text\":\"data: 1\\n\\n\"}\n",
        "{\"at_us\":1000000,\"b64\":\"w6k=\"}\n",
        "{\"at_us\":1000000,\"end\":\"eof\"}\n",
    );
    let standin = Standin::replay(recording.as_bytes()).unwrap().speed(10.0);
    let standin = standin.start().await.unwrap();

    let (head, body) = ask_at(&standin, "/v1/chat/completions").await;

    assert!(
        head.starts_with("HTTP/1.1 418 I'm a teapot\r\nx-a: <b>\r\ntransfer-"),
        "{head}"
    );
    assert_eq!(body, "data: 1\n\n\u{e9}");
    let request = standin.requests().remove(0);
    for ((at, _), due) in request.writes.iter().zip([60, 100]) {
        let (since, due) = (at.saturating_sub(request.at), Duration::from_millis(due));
        assert!(
            since >= due && since < due + Duration::from_millis(400),
            "{since:?}"
        );
    }
}

#[tokio::test]
async fn a_recording_is_not_played_on_the_path_of_another_wire() {
    let recording = concat!(
        "{\"lifesign_recording\":1,\"wire\":\"openai-chat\"}\n",
        "{\"at_us\":1,\"status\":200,\"headers\":[]}\n",
        "{\"at_us\":2,\"text\":\"data: 1\\n\\n\"}\n",
        "{\"at_us\":3,\"end\":\"eof\"}\n",
    );
    let replay = || Standin::replay(recording.as_bytes()).unwrap();

    let standin = replay().start().await.unwrap();
    let (head, body) = ask_at(&standin, "/v1/messages").await;
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    let said = "the recording is of openai-chat; /v1/messages was asked";
    assert_eq!(body, format!("{{\"error\":{{\"message\":\"{said}\"}}}}"));
    let (_, body) = ask_at(&standin, "/some/where").await;
    assert_eq!(body, "data: 1\n\n");

    let standin = replay().dialect(Dialect::Anthropic).start().await.unwrap();
    let (_, body) = ask_at(&standin, "/v1/messages").await;
    assert_eq!(body, "data: 1\n\n");
}

#[tokio::test]
async fn a_recording_ends_as_its_connection_did() {
    let begin = "{\"lifesign_recording\":1,\"wire\":\"anthropic\"}\n{\"at_us\":1,\"status\":200}\n";

    let lost = format!("{begin}{{\"at_us\":2,\"end\":\"lost\"}}\n");
    let standin = Standin::replay(lost.as_bytes())
        .unwrap()
        .start()
        .await
        .unwrap();
    let mut client = Client::connect(&standin).await;
    client.post("/v1/messages").await;
    client.rest().await;
    assert_eq!(
        standin
            .wait_for_end(0, LIMIT)
            .await
            .unwrap()
            .ended
            .unwrap()
            .0,
        End::Cut
    );

    let left = format!("{begin}{{\"at_us\":2,\"end\":\"left\"}}\n");
    let standin = Standin::replay(left.as_bytes())
        .unwrap()
        .start()
        .await
        .unwrap();
    let mut client = Client::connect(&standin).await;
    client.post("/v1/messages").await;
    client.until("\r\n\r\n").await;
    assert!(
        standin
            .wait_for_end(0, Duration::from_millis(20))
            .await
            .is_none()
    );
}

#[test]
fn a_recording_that_breaks_off_is_refused() {
    let begin =
        b"{\"lifesign_recording\":1,\"wire\":\"anthropic\"}\n{\"at_us\":1,\"status\":200}\n{\"at";

    let error = Standin::replay(begin).unwrap_err().to_string();

    assert!(
        error.contains("line 3") && error.contains("cut off"),
        "{error}"
    );
}

#[test]
fn a_black_hole_lets_nobody_connect() {
    let blackhole = Blackhole::open().unwrap();

    let error = TcpStream::connect_timeout(&blackhole.address(), Duration::from_millis(300));

    assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}
