//! What programs that watch a gateway are told, while it happens and after.

use lifesign_core::{BoundName, Clock, FailureCode, Phase};
use lifesign_gateway::live::{Happening, Health, Snapshot, State, Timeline};
use lifesign_standin::Standin;
use lifesign_wire::Wire;

use crate::harness::{Ask, Gate, Setup, ms, sleep, upstream};

async fn standin(script: &str) -> Standin {
    Standin::script(script).unwrap().start().await.unwrap()
}

fn setup(standin: &Standin, more: &str) -> Setup {
    Setup::new(&upstream("up", Wire::OPENAI_CHAT, &standin.url(), more)).set("retry.attempts=1")
}

fn ask() -> Ask {
    Ask::stream(Wire::OPENAI_CHAT)
}

async fn snapshot(gate: &Gate) -> Snapshot {
    serde_json::from_value(gate.admin("live").await).unwrap()
}

async fn timeline(gate: &Gate, id: &str) -> Timeline {
    let timeline = gate.admin(&format!("calls/{id}")).await;
    serde_json::from_value(timeline).unwrap()
}

/// Looks until what is seen is as `is` says. A snapshot may be a second old.
async fn when(gate: &Gate, is: impl Fn(&Snapshot) -> bool) -> Snapshot {
    for _ in 0..200 {
        let seen = snapshot(gate).await;
        if is(&seen) {
            return seen;
        }
        sleep(ms(50)).await;
    }
    panic!("it is never seen: {:?}", snapshot(gate).await);
}

#[tokio::test]
async fn a_call_that_waits_for_its_first_token_says_so_and_what_would_cut_it() {
    let standin = standin("status 200 sse; hold").await;
    let gate = setup(&standin, "")
        .set("bounds.raw_silence=90s")
        .start()
        .await;
    let _call = gate.begin(&ask()).await;

    let seen = when(&gate, |seen| {
        seen.calls
            .iter()
            .any(|call| call.phase == Some(Phase::BeforeContent))
    })
    .await;

    let call = &seen.calls[0];
    assert_eq!(call.state, State::Thinking);
    assert_eq!((call.attempt, call.of), (1, 1));
    assert_eq!(call.upstream.as_deref(), Some("up"));
    assert_eq!(call.model.as_deref(), Some("m"));
    assert_eq!(call.doing, "attempting");
    let raw = call
        .bounds
        .iter()
        .find(|bound| bound.clock == Some(Clock::Raw));
    let raw = raw.unwrap();
    assert_eq!((raw.bound, raw.limit_ms), (BoundName::RawSilence, 90_000));
    assert_eq!(
        (raw.setting.as_str(), raw.origin.as_str()),
        ("bounds.raw_silence", "call")
    );
    assert!(raw.in_ms.unwrap() > 80_000, "{raw:?}");
    assert_eq!(call.next_bound.unwrap().bound, BoundName::RawSilence);
    let said = &call.sentence;
    assert!(
        said.starts_with("waiting for the first token at up for "),
        "{said}"
    );
    assert!(said.contains("; raw_silence cuts in 8"), "{said}");
    assert_eq!(seen.summary.states[&State::Thinking], 1);
    assert_eq!(
        seen.summary.sentence,
        "1 call: 1 thinking; last hour: nothing ended"
    );
    assert_eq!(seen.upstreams[0].in_flight, 1);
    assert_eq!(seen.upstreams[0].health, Health::Idle);
    assert_eq!(seen.upstreams[0].last_completed, None);
}

#[tokio::test]
async fn a_cut_call_is_among_the_latest_with_the_bound_and_whose_setting_it_is() {
    let standin = standin("status 200 sse; role; ping; +0.2 ping; hold").await;
    let gate = setup(&standin, "bounds = { raw_silence = \"400ms\" }")
        .start()
        .await;

    gate.ask(&ask()).await;
    gate.ended(1).await;

    let seen = when(&gate, |seen| !seen.recent.is_empty()).await;
    let ended = &seen.recent[0];
    assert_eq!(ended.code, Some(FailureCode::RawSilent));
    let cut = ended.cut.as_ref().unwrap();
    assert_eq!(
        (cut.bound, cut.limit_ms),
        (BoundName::RawSilence, Some(400))
    );
    assert_eq!(cut.setting, "bounds.raw_silence");
    assert!(cut.origin.ends_with("gateway.toml:5"), "{}", cut.origin);
    assert!(
        cut.remedy
            .ends_with("gateway.toml:5: raise raw_silence there"),
        "{}",
        cut.remedy
    );
    assert!(
        ended
            .sentence
            .starts_with("cut by raw_silence at up after "),
        "{}",
        ended.sentence
    );
    assert!(
        ended.told.as_deref().unwrap().contains("went quiet"),
        "{:?}",
        ended.told
    );
    assert_eq!(seen.summary.hour.failed, 1);
    assert!(
        seen.summary
            .sentence
            .ends_with("last hour: 1 ended, 1 failed, raw_silent at up"),
        "{}",
        seen.summary.sentence
    );
    let up = &seen.upstreams[0];
    assert_eq!((up.attempts, up.failed), (1, 1));
    assert_eq!(up.failures[0].code, FailureCode::RawSilent);

    let timeline = timeline(&gate, &ended.id).await;
    let attempt = &timeline.attempts[0];
    assert!(!attempt.live);
    assert_eq!(attempt.cut.as_ref(), Some(cut));
    let beats: u32 = attempt.ticks.iter().map(|tick| tick.count).sum();
    assert_eq!(beats, 2);
    let what: Vec<_> = timeline.events.iter().map(|event| &event.what).collect();
    assert!(
        matches!(what[0], Happening::Attempt { n: 1, .. }),
        "{what:?}"
    );
    assert!(
        what.iter()
            .any(|what| matches!(what, Happening::AttemptEnded { n: 1, .. })),
        "{what:?}"
    );
}

#[tokio::test]
async fn silences_are_told_by_clock_and_phase_with_the_bounds_on_them() {
    let standin = standin("status 200 sse; role; +0.3 text \"a\"; +0.6 answer \"b\"").await;
    let gate = setup(&standin, "")
        .set("bounds.between_events=150s")
        .start()
        .await;

    gate.ask(&ask()).await;
    gate.ended(1).await;

    let seen = when(&gate, |seen| !seen.silence.is_empty()).await;
    let mut silences = seen.silence.iter();
    let after = silences
        .find(|it| it.phase == Phase::AfterContent && it.clock == Clock::Event)
        .unwrap();
    assert_eq!(after.counts.len(), seen.silence_limits_ms.len() + 1);
    // Between half a second and one.
    assert_eq!(after.counts[2], 1);
    assert!(
        (550..1_000).contains(&after.longest_ms),
        "{}",
        after.longest_ms
    );
    let bounds: Vec<_> = after
        .bounds
        .iter()
        .map(|it| (it.bound, it.limit_ms))
        .collect();
    assert_eq!(bounds[0], (BoundName::BetweenEvents, 150_000));
    let first = seen.upstreams[0].first_content.unwrap();
    assert!((250..2_000).contains(&first.p50_ms), "{first:?}");
    assert_eq!(seen.upstreams[0].health, Health::Good);
    let last = seen.upstreams[0].last_completed.unwrap();
    assert!((seen.started..=seen.at).contains(&last), "{last}");
}

#[tokio::test]
async fn an_upstream_that_callers_leave_without_an_answer_is_not_called_good() {
    let standin = standin("status 200 sse; hold").await;
    let gate = setup(&standin, "").start().await;

    let calls = futures_util::future::join_all((0..3).map(|_| async { gate.begin(&ask()).await }));
    let calls = calls.await;
    let is_asked = |seen: &Snapshot| {
        let phases = seen.calls.iter().map(|call| call.phase);
        phases
            .filter(|phase| *phase == Some(Phase::BeforeContent))
            .count()
            == 3
    };
    when(&gate, is_asked).await;
    drop(calls);
    gate.ended(3).await;

    let seen = when(&gate, |seen| seen.upstreams[0].attempts == 3).await;
    assert_eq!(seen.upstreams[0].health, Health::Failing);
    assert_eq!(
        seen.upstreams[0].sentence,
        "none of 3 attempts in the last hour was completed"
    );
}

#[tokio::test]
async fn a_beat_that_opens_the_response_does_not_take_the_reason_of_a_wait() {
    let standin = standin(
        "attempt 1: status 503 json; error overloaded_error; eof\n\
         attempt 2+: status 200 sse; hold",
    )
    .await;
    let gate = Setup::new(&upstream("up", Wire::OPENAI_CHAT, &standin.url(), ""))
        .set("retry.overload.first_delay=20s")
        .set("beats.every=300ms")
        .start()
        .await;
    let _waiting = gate.begin(&ask()).await;

    let seen = when(&gate, |seen| {
        let mut calls = seen.calls.iter();
        calls.any(|call| call.state == State::Retrying && call.beats > 1)
    })
    .await;

    assert_eq!(seen.calls[0].why, Some(FailureCode::Overloaded));
}

#[tokio::test]
async fn a_call_in_line_tells_its_place() {
    let standin = standin("status 200 sse; hold").await;
    let gate = setup(&standin, "concurrency = 1").start().await;
    let _first = gate.begin(&ask()).await;
    when(&gate, |seen| seen.upstreams[0].in_flight == 1).await;
    let _second = gate.begin(&ask()).await;

    let seen = when(&gate, |seen| {
        seen.calls.iter().any(|call| call.state == State::Queued)
    })
    .await;

    let queued = seen.calls.iter().find(|call| call.state == State::Queued);
    let queued = queued.unwrap();
    assert_eq!(queued.position, Some(1));
    assert_eq!(queued.sentence, "in line for up, place 1");
    assert_eq!(
        (seen.upstreams[0].waiting, seen.upstreams[0].health),
        (1, Health::Busy)
    );
    let sentence = "its only place taken, 1 of 256 in line";
    assert_eq!(seen.upstreams[0].sentence, sentence);
}

#[tokio::test]
async fn a_call_that_is_held_tells_for_how_long_and_goes_on_when_the_hold_is_released() {
    let standin = standin(
        "attempt 1: status 429 json [retry-after: 8]; error rate_limit_error; eof\n\
         attempt 2+: status 200 sse; hold",
    )
    .await;
    let gate = setup(&standin, "").start().await;
    gate.ask(&ask()).await;
    let _held = gate.begin(&ask()).await;

    let seen = when(&gate, |seen| {
        seen.calls.iter().any(|call| call.state == State::Held)
    })
    .await;

    let call = &seen.calls[0];
    assert_eq!(call.why, Some(FailureCode::RateLimited));
    assert_eq!(call.upstream.as_deref(), Some("up"));
    let left = call.goes_on_in_ms.unwrap();
    assert!((1..8_000).contains(&left), "{left}");
    assert!(
        call.sentence.starts_with("held for another "),
        "{}",
        call.sentence
    );
    assert_eq!(seen.upstreams[0].health, Health::Held);
    let hold = &seen.upstreams[0].holds[0];
    assert_eq!(hold.why, FailureCode::RateLimited);

    let release = Ask::post(&format!("/lifesign/holds/{}/release", hold.id), "{}");
    assert_eq!(gate.ask(&release).await.status, 200);

    // What an operator has done is seen at once, not a second later.
    let seen = snapshot(&gate).await;
    assert!(seen.upstreams[0].holds.is_empty());
    when(&gate, |seen| {
        seen.calls.iter().any(|call| call.attempt == 1)
    })
    .await;
}

#[tokio::test]
async fn a_running_call_is_told_from_its_beginning_on() {
    let standin = standin(
        "attempt 1: status 500 json; error server_error; eof\n\
         attempt 2: status 200 sse; text \"a\"; hold",
    )
    .await;
    let gate = setup(&standin, "")
        .set("retry.attempts=2")
        .set("bounds.between_events=150s")
        .start()
        .await;
    let mut call = gate.begin(&ask()).await;
    call.until("a").await;
    let seen = when(&gate, |seen| {
        seen.calls
            .iter()
            .any(|call| call.phase == Some(Phase::AfterContent))
    })
    .await;

    let timeline = timeline(&gate, &seen.calls[0].id).await;

    let ends: Vec<_> = timeline
        .attempts
        .iter()
        .map(|it| (it.record.n, it.live))
        .collect();
    assert_eq!(ends, [(1, false), (2, true)]);
    assert_eq!(timeline.attempts[0].record.status, Some(500));
    assert!(timeline.attempts[1].began_ms >= timeline.attempts[0].record.ended_ms);
    assert!(timeline.ended.is_none());
    assert_eq!(timeline.now.unwrap().attempt, 2);
    let between = timeline
        .bounds
        .iter()
        .find(|it| it.bound == BoundName::BetweenEvents);
    assert_eq!(between.unwrap().limit_ms, 150_000);
    let retries = timeline.events.iter().filter(|event| {
        matches!(
            event.what,
            Happening::RetryWait {
                why: FailureCode::ProviderError,
                ..
            }
        )
    });
    assert_eq!(retries.count(), 1);
    assert_eq!(
        gate.ask(&Ask::get("/lifesign/calls/none")).await.status,
        404
    );
}

#[tokio::test]
async fn whoever_watches_is_told_again_and_again_of_one_snapshot() {
    let standin = standin("answer \"ok\"").await;
    let gate = setup(&standin, "").start().await;
    let watch = Ask::get("/lifesign/live/events");
    let (mut one, mut other) = (gate.begin(&watch).await, gate.begin(&watch).await);

    one.until("id: 1\n").await;
    other.until("id: 1\n").await;
    one.until("id: 2\n").await;

    let head = one.head().await;
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(head.header("cache-control"), Some("no-store"));
    let text = head.text();
    let data = text.lines().find_map(|line| line.strip_prefix("data: "));
    let seen: Snapshot = serde_json::from_str(data.unwrap()).unwrap();
    assert_eq!((seen.v, seen.seq), (1, 1));
    // Of two who watch none has a snapshot of its own.
    let polled = snapshot(&gate).await;
    assert!(polled.seq <= 3, "{}", polled.seq);
}

#[tokio::test]
async fn nobody_who_watches_keeps_a_gateway_from_stopping() {
    let standin = standin("answer \"ok\"").await;
    let mut gate = setup(&standin, "").start().await;
    let mut watching = gate.begin(&Ask::get("/lifesign/live/events")).await;
    watching.until("id: 1\n").await;

    gate.stopper.drain(ms(20_000));

    let got = watching.rest().await;
    assert!(got.is_whole);
    gate.stopped().await;
}

#[tokio::test]
async fn names_that_callers_choose_are_bounded_and_on_one_line() {
    let standin = standin("status 404 json; error not_found_error; eof").await;
    let gate = setup(&standin, "").start().await;
    let long = format!("<b>\\n\\u202e{}", "x".repeat(9_000));
    gate.ask(&ask().model(&long)).await;
    gate.ended(1).await;

    let seen = when(&gate, |seen| !seen.recent.is_empty()).await;

    let model = seen.recent[0].model.as_deref().unwrap();
    assert!(model.starts_with("<b>\u{fffd}\u{fffd}xxx"), "{model}");
    assert_eq!(model.chars().count(), 123);
    assert_eq!(seen.summary.hour.failed, 1);
    assert_eq!(
        seen.upstreams[0].failed, 0,
        "a caller's mistake is not the upstream's"
    );
}
