//! Cuts in a row, counted over a whole turn and no further.

use std::sync::Arc;
use std::time::Duration;

use lifesign::CallEvent;
use lifesign_agent::{AgentEvent, Resend};
use pretty_assertions::assert_eq;

use crate::harness::{Case, PINGS, Played, assert_ended, attempts, flat};

/// Asserts that a turn ended by a cut after so many attempts.
#[track_caller]
fn assert_cut(played: &Played, made: u32) {
    assert_ended(
        played,
        ("provider_failed", 5),
        "heartbeats_only",
        "the call timed out; only heartbeats came. The call was made again and failed again.",
        "The line to the model's server was alive for 150 ms, but no answer came over it",
    );
    assert_eq!(played.short(), ["user go", "ended provider_failed"]);
    assert_eq!(played.counts(), attempts(made));
}

#[tokio::test]
async fn cut_twice() {
    let script = format!("attempt 1-2: {PINGS}\nattempt 3: answer \"too late\"");
    let played = flat(Case::new(&script)).play().await;

    assert_cut(&played, 2);
}

#[tokio::test]
async fn cut_then_another_failure_then_cut() {
    let script = format!(
        "attempt 1: {PINGS}\nattempt 2: status 500 json; error server_error; eof\n\
         attempt 3: {PINGS}\nattempt 4: answer \"here\""
    );
    let played = flat(Case::new(&script)).play().await;

    assert_eq!(played.outcome(), ("completed", 0));
    assert_eq!(
        (played.report.counts.attempts, played.report.counts.calls),
        (4, 1)
    );
    assert_eq!(
        (&played.report.note, &played.report.sentence),
        (&None, &None)
    );
    assert_eq!(
        played.short(),
        ["user go", "answer here", "ended completed"]
    );
    played.assert_sound();
}

#[tokio::test]
async fn cut_then_a_refusal_that_is_sent_again_then_cut() {
    let script = format!(
        "attempt 1: {PINGS}\nattempt 2: status 429 json; error rate_limit_error; eof\n\
         attempt 3: {PINGS}\nattempt 4: answer \"too late\""
    );
    let played = flat(Case::new(&script)).play().await;

    assert_cut(&played, 3);
}

#[tokio::test]
async fn a_new_turn_begins_the_count_of_cuts_anew() {
    let script = format!("attempt 1-3: {PINGS}\nattempt 4: answer \"here\"");
    let mut played = flat(Case::new(&script)).play().await;
    assert_eq!(played.report.counts.attempts, 2);

    let report = played.say("again").await;

    assert_eq!(
        (report.outcome.name(), report.counts.attempts),
        ("completed", 2)
    );
}

#[tokio::test]
async fn a_turn_that_is_stopped_takes_its_count_of_cuts_with_it() {
    let script = format!("attempt 1-2: {PINGS}\nattempt 3: answer \"here\"");
    let is_cut = |event: &AgentEvent| matches!(event, AgentEvent::Call(CallEvent::Retrying { .. }));
    let mut played = flat(Case::new(&script)).cancel_when(is_cut).play().await;
    assert_eq!(played.outcome(), ("cancelled", 130));
    assert_eq!(played.report.counts.attempts, 1);

    let report = played.say("again").await;

    // One cut before it was stopped and one after: counted together, they would have been the end.
    assert_eq!(
        (report.outcome.name(), report.counts.attempts),
        ("completed", 2)
    );
}

#[tokio::test]
async fn a_turn_that_was_sent_again_gets_no_fresh_call_for_a_cut() {
    let failing = "status 500 json; error server_error; eof";
    let script = format!("attempt 1-3: {failing}\nattempt 4: {PINGS}\nattempt 5: answer \"no\"");
    let waits = vec![Duration::from_millis(10); 3];
    let played = flat(Case::new(&script))
        .with(|builder| builder.policy(Arc::new(Resend(waits))))
        .play()
        .await;

    assert_eq!(played.outcome(), ("provider_failed", 5));
    assert_eq!(
        (played.report.counts.resends, played.report.counts.attempts),
        (1, 4)
    );
    played.assert_sound();
}
