//! What a turn does where the provider fails before content: for each case the transcript, the counts,
//! what the model is told, what the person is told, and the exit code.

use std::sync::Arc;
use std::time::Duration;

use lifesign::CallEvent;
use lifesign_agent::{AgentEvent, Alert, Resend};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Case, PINGS, Tools, assert_ended, calls, flat};

#[tokio::test]
async fn no_raw_progress_before_content() {
    let played = Case::new("status 200 sse; hold").play().await;

    assert_ended(
        &played,
        ("provider_failed", 5),
        "raw_silent",
        "the call timed out; nothing came. The call was made again and failed again.",
        "The model's server went quiet for 150 ms",
    );
    assert_eq!(played.short(), ["user go", "ended provider_failed"]);
    let counts = played.report.counts;
    assert_eq!((counts.calls, counts.attempts, counts.rounds), (1, 3, 0));
    assert_eq!(
        (counts.heartbeats, counts.recoveries, counts.nudges),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn pings_and_no_semantic_event() {
    let played = flat(Case::new(PINGS)).play().await;

    assert_ended(
        &played,
        ("provider_failed", 5),
        "heartbeats_only",
        "the call timed out; only heartbeats came. The call was made again and failed again.",
        "The line to the model's server was alive for 150 ms, but no answer came over it",
    );
    assert_eq!(played.short(), ["user go", "ended provider_failed"]);
    let counts = played.report.counts;
    assert_eq!((counts.calls, counts.attempts), (1, 2));
    assert!(counts.heartbeats >= 6, "{counts:?}");
}

#[tokio::test]
async fn a_provider_error_before_content() {
    let failing = "status 500 json; error server_error \"Out of cheese\"; eof";
    let played = Case::new(failing).play().await;

    assert_ended(
        &played,
        ("provider_failed", 4),
        "provider_error",
        "the model's server reported a fault of its own (Out of cheese). The call was made again \
         and failed again.",
        "The model's server had a fault of its own",
    );
    assert_eq!(played.short(), ["user go", "ended provider_failed"]);
    assert_eq!(played.report.counts.attempts, 3);

    let script = format!("attempt 1: {failing}\nattempt 2: answer \"ok\"");
    let played = Case::new(&script).play().await;
    assert_eq!(played.outcome(), ("completed", 0));
    assert_eq!(played.report.counts.attempts, 2);
    played.assert_sound();
}

#[tokio::test]
async fn a_retry_budget_that_is_exhausted() {
    let script = "attempt 1: status 529 json; error overloaded_error \"Overloaded\"; eof\n\
                  attempt 2+: status 503 json; error overloaded_error \"Overloaded\"; eof";
    let played = Case::new(script).play().await;

    assert_ended(
        &played,
        ("provider_failed", 4),
        "overloaded",
        "the model's server was overloaded. The call was made again and failed again.",
        "The model's server has more to do than it can",
    );
    assert_eq!(played.report.counts.attempts, 7);
    assert_eq!(played.report.counts.resends, 0);
    assert!(played.report.times_ms.waiting >= 10 + 20 + 40 + 80 + 160 + 300);
}

#[tokio::test]
async fn a_wall_clock_that_expires() {
    let case = Case::new("status 200 sse; repeat 0.03 { text \"x\" } forever");
    let played = case
        .with(|builder| builder.wall_clock(Duration::from_millis(300)))
        .play()
        .await;

    assert_ended(
        &played,
        ("wall_timeout", 6),
        "wall_clock",
        "the time allowed for the turn ran out.",
        "The 300 ms you allowed ran out while the answer was still coming",
    );
    let failure = played.report.failure.as_ref().unwrap();
    assert_eq!(failure.setting.as_deref(), Some("wall_clock"));
    assert_eq!(
        failure.message,
        "the time for the turn ran out in the middle of an answer (wall_clock = 300 ms, call)"
    );
    assert_eq!(played.short().len(), 3);
    assert!(
        played.report.text.starts_with("xxx"),
        "{}",
        played.report.text
    );
    assert!((300..2_000).contains(&played.report.times_ms.elapsed));
    assert!(
        played.report.times_ms.working >= 150,
        "{:?}",
        played.report.times_ms
    );
}

/// A call's own wall clock was taken for that of the turn, so that a benchmark blamed its own limit.
#[tokio::test]
async fn a_wall_clock_of_the_call_alone_is_a_failure_of_the_call() {
    let dripping = "status 200 sse; repeat 0.03 { text \"x\" } forever";
    for turn_has_one in [false, true] {
        let mut case = Case::new(dripping).set("bounds.wall_clock", "250ms");
        if turn_has_one {
            case = case.with(|builder| builder.wall_clock(Duration::from_secs(30)));
        }
        let played = case.play().await;

        assert_ended(
            &played,
            ("provider_failed", 6),
            "wall_clock",
            "the time allowed for one call ran out in the middle of the answer.",
            "The 250 ms you allowed ran out while the answer was still coming",
        );
        let failure = played.report.failure.as_ref().unwrap();
        assert_eq!(failure.setting.as_deref(), Some("bounds.wall_clock"));
        assert_eq!(played.report.counts.attempts, 1);
    }

    let played = Case::new("status 200 sse; hold")
        .set("bounds.raw_silence", "20s")
        .set("bounds.wall_clock", "250ms")
        .play()
        .await;
    assert_ended(
        &played,
        ("provider_failed", 6),
        "wall_clock",
        "the time allowed for one call ran out before an answer began.",
        "The 250 ms you allowed ran out",
    );
}

#[tokio::test]
async fn a_wall_clock_that_expires_while_a_tool_runs() {
    let tools = Arc::new(Tools::default());
    let played = Case::new(&calls(&[("c1", "hang", json!({}))]))
        .tools(&tools)
        .with(|builder| builder.wall_clock(Duration::from_millis(300)))
        .play()
        .await;

    assert_ended(
        &played,
        ("wall_timeout", 6),
        "wall_clock",
        "the time allowed for the turn ran out.",
        "The 300 ms you allowed ran out while a tool was running; ask for less or allow more.",
    );
    assert_eq!(
        played.report.failure.as_ref().unwrap().message,
        "the time for the turn ran out while tool `hang` ran (wall_clock = 300 ms, call)"
    );
    assert_eq!(
        played.short()[2..],
        [
            "began c1",
            "ran! c1: This call was stopped wh",
            "ended wall_timeout"
        ]
    );
    assert!(
        played.report.times_ms.tools >= 150,
        "{:?}",
        played.report.times_ms
    );
}

#[tokio::test]
async fn a_call_that_succeeded_at_its_second_attempt_is_not_said_to_have_failed_again() {
    let tools = Arc::new(Tools::default());
    let script = format!(
        "attempt 1: status 500 json; error server_error; eof\nattempt 2+: {}",
        calls(&[("c1", "hang", json!({}))])
    );
    let played = Case::new(&script)
        .tools(&tools)
        .with(|builder| builder.wall_clock(Duration::from_millis(400)))
        .play()
        .await;

    assert_eq!(played.report.counts.attempts, 2);
    assert_ended(
        &played,
        ("wall_timeout", 6),
        "wall_clock",
        "the time allowed for the turn ran out.",
        "The 400 ms you allowed ran out",
    );
}

#[tokio::test]
async fn a_storm_of_429() {
    let script = "status 429 json [retry-after-ms: 20]; error rate_limit_error \"Slow down, you \
                  are over 5 per minute\"; eof";
    let played = Case::new(script).play().await;

    assert_ended(
        &played,
        ("provider_failed", 7),
        "rate_limited",
        "requests came faster than the provider allows (Slow down, you are over 5 per minute). The \
         call was made again and failed again.",
        "Requests came faster than the provider allows",
    );
    assert_eq!(played.short(), ["user go", "ended provider_failed"]);
    assert_eq!(played.report.counts.attempts, 6);
    assert_eq!(played.report.wake_at, None);
}

#[tokio::test]
async fn a_429_with_a_long_wait_is_a_scheduled_wake_and_an_alert_above_an_hour() {
    for (seconds, alerts) in [(600, 0), (7_200, 1)] {
        let script = format!(
            "attempt 1: status 429 json [retry-after: {seconds}]; error rate_limit_error \"Rate limit error\"; eof\n\
             attempt 2: answer \"ok\""
        );
        let mut played = Case::new(&script).play().await;

        assert_ended(
            &played,
            ("provider_failed", 7),
            "exhausted",
            "the provider takes no more requests for a while.",
            "Requests came faster than the provider allows, and it takes no more until",
        );
        assert!(played.report.wake_at.is_some());
        assert!(played.report.times_ms.elapsed < 2_000, "the task was held");
        let told = |event: &&AgentEvent| {
            matches!(event, AgentEvent::Alert(Alert::LongWait { wait, .. })
                if wait.as_secs() >= 7_000)
        };
        assert_eq!(played.events.iter().filter(told).count(), alerts);
        let scheduled = |event: &AgentEvent| matches!(event, AgentEvent::WakeScheduled { .. });
        assert!(played.events.iter().any(scheduled));

        // A client of its own knows nothing of the hold, as after a restart.
        let report = played.resume_elsewhere().await;
        assert_eq!((report.outcome.name(), report.turn), ("completed", 1));
        assert_eq!(
            played.short(),
            [
                "user go",
                "ended provider_failed",
                "resumed",
                "answer ok",
                "ended completed"
            ]
        );
    }
}

/// Whoever lets calls wait for hours still wants to know of it.
#[tokio::test]
async fn a_stated_wait_of_more_than_an_hour_is_an_alert_also_where_it_is_slept() {
    let script = "status 429 json [retry-after: 7200]; error rate_limit_error; eof";
    let is_alert = |event: &AgentEvent| matches!(event, AgentEvent::Alert(_));
    let played = Case::new(script)
        .set("retry.max_wait", "3h")
        .cancel_after(Duration::from_secs(5))
        .cancel_when(is_alert)
        .play()
        .await;

    assert_eq!(played.outcome(), ("cancelled", 130));
    let alerts: Vec<_> = played
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Alert(Alert::LongWait { wait, .. }) => Some(wait.as_secs()),
            _ => None,
        })
        .collect();
    assert!(matches!(alerts[..], [7_200..7_210]), "{alerts:?}");
}

#[tokio::test]
async fn a_stated_wait_that_the_turns_time_does_not_allow_for_is_a_scheduled_wake() {
    let script = "status 429 json [retry-after: 60]; error rate_limit_error; eof";
    let played = Case::new(script)
        .with(|builder| builder.wall_clock(Duration::from_secs(30)))
        .play()
        .await;

    assert_eq!(played.outcome(), ("provider_failed", 7));
    assert_eq!(played.code(), "rate_limited");
    assert!(played.report.wake_at.is_some());
    assert!(played.report.times_ms.elapsed < 5_000, "the task was held");
    played.assert_sound();
}

#[tokio::test]
async fn an_overload_with_a_long_wait_is_a_wake_and_is_not_sent_again_before() {
    let script = "status 503 json [retry-after: 600]; error overloaded_error; eof";
    let played = Case::new(script)
        .with(|builder| builder.policy(Arc::new(Resend::default())))
        .play()
        .await;

    assert_eq!(played.outcome(), ("provider_failed", 4));
    assert_eq!(played.code(), "overloaded");
    assert!(played.report.wake_at.is_some());
    assert_eq!(
        (played.report.counts.resends, played.report.counts.attempts),
        (0, 1)
    );
    played.assert_sound();
}

#[tokio::test]
async fn a_turn_is_sent_again_once_its_attempts_are_used_up_where_that_is_wanted() {
    let failing = "status 500 json; error server_error; eof";
    let script = format!("attempt 1-6: {failing}\nattempt 7: answer \"at last\"");
    let waits = vec![Duration::from_millis(120), Duration::from_millis(120)];
    let played = Case::new(&script)
        .with(|builder| builder.policy(Arc::new(Resend(waits))))
        .play()
        .await;

    assert_eq!(played.outcome(), ("completed", 0));
    let counts = played.report.counts;
    assert_eq!(
        (counts.resends, counts.calls, counts.attempts, counts.turns),
        (2, 3, 7, 1)
    );
    assert!(
        played.report.times_ms.waiting >= 240,
        "{:?}",
        played.report.times_ms
    );
    assert_eq!(
        played.short(),
        ["user go", "answer at last", "ended completed"]
    );
    played.assert_sound();
}

#[tokio::test]
async fn waiting_on_a_hold_is_told_apart_from_waiting_for_the_provider() {
    let script = "attempt 1: status 429 json [retry-after-ms: 400]; error rate_limit_error; eof\n\
                  attempt 2: status 200 sse; +0.1 answer \"ok\"";
    let played = Case::new(script).play().await;

    let times = played.report.times_ms;
    assert!((400..900).contains(&times.waiting), "{times:?}");
    assert!((95..400).contains(&times.provider), "{times:?}");
    let retrying =
        |event: &AgentEvent| matches!(event, AgentEvent::Call(CallEvent::Retrying { .. }));
    assert!(played.events.iter().any(retrying));
    played.assert_sound();
}
