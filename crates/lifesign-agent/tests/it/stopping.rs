//! Turns that somebody stops, wherever they are.

use std::sync::Arc;
use std::time::Duration;

use lifesign_agent::Resend;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Case, PINGS, Tools, assert_ended, calls};

/// Wherever a turn is stopped, it ends at once, keeps what had come, and blames nobody.
#[tokio::test]
async fn a_turn_can_be_stopped_anywhere() {
    let tools = Arc::new(Tools::default());
    let refused = "status 429 json [retry-after: 30]; error rate_limit_error; eof";
    let hang = calls(&[("c1", "hang", json!({}))]);
    let big = calls(&[("c1", "look", json!({"say": "x".repeat(4_000)}))]);
    let half = "status 200 sse; tool {\"index\":0,\"id\":\"c1\",\"type\":\"function\",\
                \"function\":{\"name\":\"write\",\"arguments\":\"{\"}}; hold";
    let stopped_at: [(&str, String, &[&str]); 10] = [
        ("before any byte", "hold".to_owned(), &[]),
        ("between heartbeats", PINGS.to_owned(), &[]),
        (
            "after content",
            "status 200 sse; text \"and \"; hold".to_owned(),
            &["partial and "],
        ),
        (
            "in a recovery",
            "attempt 1: status 200 sse; text \"and \"; cut\nattempt 2: hold".to_owned(),
            &["partial and "],
        ),
        ("in the wait for a retry", refused.to_owned(), &[]),
        (
            "in a second attempt",
            "attempt 1: status 500 json; error server_error; eof\nattempt 2: hold".to_owned(),
            &[],
        ),
        (
            "before the turn is sent again",
            "status 500 json; error server_error; eof".to_owned(),
            &[],
        ),
        (
            "in a tool call that arrives",
            half.to_owned(),
            &["partial [c1]"],
        ),
        (
            "in a tool",
            hang,
            &[
                "answer [c1]",
                "began c1",
                "ran! c1: This call was stopped on",
            ],
        ),
        (
            "in a compaction",
            format!("attempt 1: {big}\nattempt 2: {big}\nattempt 3: {big}\nattempt 4: hold"),
            &[],
        ),
    ];
    for (at, script, kept) in stopped_at {
        let mut case = Case::new(&script)
            .set("bounds.raw_silence", "20s")
            .tools(&tools)
            .cancel_after(Duration::from_millis(250));
        if at == "before the turn is sent again" {
            let policy = Arc::new(Resend(vec![Duration::from_secs(20)]));
            case = case.with(|builder| builder.policy(policy));
        }
        if at == "in a compaction" {
            case = case.with(|builder| builder.context_tokens(4_000));
        }
        let played = case.play().await;

        assert_ended(
            &played,
            ("cancelled", 130),
            "cancelled",
            "it was stopped on purpose.",
            "You stopped the answer before it was complete",
        );
        assert!(
            (240..2_000).contains(&played.report.times_ms.elapsed),
            "{at}: {:?}",
            played.report.times_ms
        );
        let short = played.short();
        assert_eq!(short.last().unwrap(), "ended cancelled", "{at}");
        if at != "in a compaction" {
            assert_eq!(&short[1..short.len() - 1], kept, "{at}");
        }
        let last = played.standin.requests().len() - 1;
        let waits = [
            "in the wait for a retry",
            "before the turn is sent again",
            "in a tool",
        ];
        if !waits.contains(&at) {
            let left = played
                .standin
                .wait_for_peer_closed(last, Duration::from_secs(1));
            assert!(left.await.is_some(), "{at}: the provider is still working");
        }
    }
}
