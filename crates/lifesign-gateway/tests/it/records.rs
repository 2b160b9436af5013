//! What is written down of attempts.

use lifesign_core::{AttemptOutcome, Clock, FailureCode, Phase};
use lifesign_gateway::{AttemptEnded, Record};
use lifesign_standin::Standin;
use lifesign_wire::Wire;
use pretty_assertions::assert_eq;

use crate::harness::{Ask, Gate, Setup, upstream};

fn attempts(gate: &Gate) -> Vec<AttemptEnded> {
    let records = gate.records().into_iter();
    let attempts = records.filter_map(|record| match record {
        Record::Attempt(attempt) => Some(*attempt),
        Record::Started(_) | Record::Ended(_) => None,
    });
    attempts.collect()
}

#[tokio::test]
async fn an_attempt_is_written_down_with_its_silences_by_phase_and_where_it_broke_off() {
    let script = "status 200 sse; +0.3 text \"a\"; hold";
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let settings = upstream(
        "up",
        Wire::OPENAI_CHAT,
        &standin.url(),
        "rename = { m = \"theirs\" }",
    );
    let gate = Setup::new(&settings)
        .set("bounds.raw_silence=700ms")
        .set("profile=patient")
        .start()
        .await;

    gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;

    let end = gate.only_end().await;
    assert_eq!(end.started.wire, "openai-chat");
    assert_eq!(end.upstream_model.as_deref(), Some("theirs"));
    assert_eq!(end.profile.as_deref(), Some("patient"));
    let attempts = attempts(&gate);
    let [attempt] = attempts.as_slice() else {
        panic!("{attempts:?}");
    };
    assert_eq!(attempt.call, end.started.id);
    assert_eq!(attempt.model.as_deref(), Some("theirs"));
    assert_eq!(attempt.profile, "patient");
    assert_eq!(
        attempt.attempt.outcome,
        AttemptOutcome::Failed(FailureCode::RawSilent)
    );
    let failure = attempt.failure.as_ref().unwrap();
    assert_eq!(failure.setting.as_deref(), Some("bounds.raw_silence"));
    assert_eq!(failure.limit_ms, Some(700));
    let longest = |phase| attempt.gaps.longest(phase, Clock::Content).as_millis();
    assert!(longest(Phase::BeforeContent) >= 250, "{:?}", attempt.gaps);
    assert!(longest(Phase::AfterContent) >= 650, "{:?}", attempt.gaps);
    let cut = attempt.cut_point.unwrap();
    assert_eq!(cut.frames, attempt.attempt.frames);
    let first = attempt.attempt.first_content_ms.unwrap();
    assert!(cut.last_content_ms.abs_diff(first) <= 1, "{cut:?} {first}");
}

#[tokio::test]
async fn an_attempt_that_brought_nothing_or_everything_has_no_point_where_it_broke_off() {
    let script = "attempt 1: status 500 json; error server_error \"boom\"; eof\n\
                  attempt 2+: status 200 sse; text \"a\"; finish \"stop\"; done; eof";
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let settings = upstream("up", Wire::OPENAI_CHAT, &standin.url(), "");
    let gate = Gate::start(&settings).await;

    gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;

    gate.only_end().await;
    let attempts = attempts(&gate);
    let told: Vec<_> = attempts
        .iter()
        .map(|it| (it.attempt.n, it.failure.is_some(), it.cut_point))
        .collect();
    assert_eq!(told, [(1, true, None), (2, false, None)]);
}
