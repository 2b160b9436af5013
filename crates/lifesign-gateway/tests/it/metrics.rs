//! `/metrics` while calls run, and after them.

use lifesign_standin::Standin;
use lifesign_wire::Wire;

use crate::harness::{Ask, Gate, Setup, ms, sleep, upstream};

async fn gate(standin: &Standin, more: &str) -> Gate {
    let settings = upstream("up", Wire::OPENAI_CHAT, &standin.url(), more);
    let setup = Setup::new(&settings).set("retry.attempts=1");
    setup.set("bounds.raw_silence=900ms").start().await
}

async fn metrics(gate: &Gate) -> String {
    let got = gate.ask(&Ask::get("/metrics")).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let kind = got.header("content-type");
    assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));
    got.text()
}

fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    let value = line.unwrap_or_else(|| panic!("no {series} in {metrics}"));
    value.trim().parse().unwrap()
}

async fn eventually(gate: &Gate, series: &str, expected: f64) -> String {
    loop {
        let metrics = metrics(gate).await;
        if (value(&metrics, series) - expected).abs() < f64::EPSILON {
            return metrics;
        }
        sleep(ms(5)).await;
    }
}

#[tokio::test]
async fn a_silent_call_is_seen_while_it_lasts_and_counted_as_a_cut_afterwards() {
    let standin = Standin::script("status 200 sse; hold").unwrap();
    let standin = standin.start().await.unwrap();
    let gate = gate(&standin, "concurrency = 1").await;

    let silent = gate.begin(&Ask::stream(Wire::OPENAI_CHAT)).await;
    let thinking = r#"lifesign_calls_in_flight{upstream="up",state="before_content"}"#;
    let during = eventually(&gate, thinking, 1.0).await;
    let waits = gate.begin(&Ask::stream(Wire::OPENAI_CHAT)).await;
    let queue = r#"lifesign_queue_length{upstream="up"}"#;
    let full = eventually(&gate, queue, 1.0).await;
    drop(waits);
    silent.rest().await;
    gate.ended(2).await;
    let after = metrics(&gate).await;

    let used = r#"lifesign_upstream_slots_used{upstream="up"}"#;
    assert!((value(&during, used) - 1.0).abs() < f64::EPSILON);
    let silence = r#"lifesign_silence_seconds{upstream="up",clock="raw"}"#;
    assert!(value(&full, silence) > 0.0, "{full}");
    let queued = r#"lifesign_calls_in_flight{upstream="up",state="queued"}"#;
    for (metrics, series, expected) in [
        (&full, queued, 1.0),
        (&after, thinking, 0.0),
        (&after, silence, 0.0),
        (&after, used, 0.0),
        (
            &after,
            r#"lifesign_cuts_total{upstream="up",bound="raw_silence"}"#,
            1.0,
        ),
        (
            &after,
            r#"lifesign_call_failures_total{upstream="up",code="raw_silent"}"#,
            1.0,
        ),
        (
            &after,
            r#"lifesign_calls_total{upstream="up",outcome="cancelled"}"#,
            1.0,
        ),
        (
            &after,
            r#"lifesign_key_calls_total{key="none",outcome="failed"}"#,
            1.0,
        ),
        (&after, "lifesign_draining", 0.0),
    ] {
        let told = value(metrics, series);
        assert!(
            (told - expected).abs() < f64::EPSILON,
            "{series} {told}\n{metrics}"
        );
    }
    // Workers have moved since they began.
    assert!(value(&after, "lifesign_worker_pulse_age_seconds") < 10.0);
}

#[tokio::test]
async fn beats_are_counted_by_what_they_look_like() {
    let standin = Standin::script("+0.35 answer \"ok\"").unwrap();
    let standin = standin.start().await.unwrap();
    let settings = upstream("up", Wire::OPENAI_CHAT, &standin.url(), "");
    let gate = Setup::new(&settings).set("beats.every=100ms").start().await;

    gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;

    let ended = gate.only_end().await;
    assert!(ended.beats > 0);
    assert_eq!(ended.beat_forms.comment, ended.beats);
    let metrics = metrics(&gate).await;
    #[expect(clippy::cast_precision_loss, reason = "there are few")]
    let beats = ended.beats as f64;
    let told = value(&metrics, r#"lifesign_beats_sent_total{form="comment"}"#);
    assert!((told - beats).abs() < f64::EPSILON, "{told} {beats}");
}

#[tokio::test]
async fn a_request_that_is_turned_away_is_counted_and_a_post_gets_no_metrics() {
    let standin = Standin::script("answer \"ok\"").unwrap();
    let standin = standin.start().await.unwrap();
    let gate = gate(&standin, "").await;

    let broken = gate.ask(&Ask::post("/v1/chat/completions", "{")).await;
    let posted = gate.ask(&Ask::post("/metrics", "{}")).await;

    assert_eq!((broken.status, posted.status), (400, 405));
    let metrics = metrics(&gate).await;
    for code in ["invalid_request", "method_not_allowed"] {
        let told = value(
            &metrics,
            &format!(r#"lifesign_refusals_total{{code="{code}"}}"#),
        );
        assert!((told - 1.0).abs() < f64::EPSILON, "{code} {told}");
    }
    assert_eq!(standin.requests().len(), 0);
}

#[tokio::test]
async fn a_call_that_found_no_place_is_counted_at_the_upstream_that_had_none() {
    let standin = Standin::script("status 200 sse; hold").unwrap();
    let standin = standin.start().await.unwrap();
    let gate = gate(&standin, "concurrency = 1\nqueue = 0").await;
    let ask = Ask::stream(Wire::OPENAI_CHAT);
    let silent = gate.begin(&ask).await;
    let used = r#"lifesign_upstream_slots_used{upstream="up"}"#;
    eventually(&gate, used, 1.0).await;

    let full = gate.ask(&ask).await;

    assert_eq!(full.header("x-lifesign-upstream"), Some("up"));
    let full = r#"lifesign_call_failures_total{upstream="up",code="queue_full"}"#;
    eventually(&gate, full, 1.0).await;
    drop(silent);
}
