//! Each sentence that the page, the terminal and the JSON share.

use lifesign_core::{Ages, BoundName, FailureCode, Heartbeats, Stage};
use pretty_assertions::assert_eq;

use super::*;
use crate::live::{EndedCounts, HoldNow, LastHeartbeat, NextBound};

fn ages(raw: u64, event: u64, content: u64, output: u64) -> Ages {
    let [raw, event, content, output] = [raw, event, content, output].map(Duration::from_secs);
    Ages {
        raw,
        event,
        content,
        output,
    }
}

fn call(state: State, phase: Phase, ages: Ages) -> CallNow {
    CallNow {
        upstream: Some("acme".to_owned()),
        state,
        phase: Some(phase),
        attempt: 1,
        of: 3,
        clocks_ms: Some(ages),
        next_bound: Some(NextBound {
            bound: BoundName::RawSilence,
            in_ms: 78_400,
        }),
        ..CallNow::default()
    }
}

#[test]
fn what_an_attempt_is_doing_is_said_with_since_when_and_what_cuts_it() {
    let beat = LastHeartbeat {
        origin: HeartbeatOrigin::Provider,
        age_ms: 3_000,
    };
    for (now, said) in [
        (
            call(State::Thinking, Phase::Sending, ages(0, 0, 0, 0)),
            "sending the request to acme",
        ),
        (
            call(State::Thinking, Phase::WaitingForHeaders, ages(4, 4, 4, 4)),
            "waiting for acme to respond, for 4 s",
        ),
        (
            call(State::Thinking, Phase::BeforeContent, ages(1, 2, 42, 42)),
            "waiting for the first token at acme for 42 s",
        ),
        (
            CallNow {
                reasoning: true,
                ..call(State::Thinking, Phase::BeforeContent, ages(1, 2, 42, 42))
            },
            "thinking at acme, first token awaited for 42 s",
        ),
        (
            CallNow {
                reasoning: true,
                ..call(State::Thinking, Phase::AfterContent, ages(0, 0, 0, 130))
            },
            "reasoning at acme for 2 min 10 s, last words just now",
        ),
        (
            call(State::Thinking, Phase::AfterContent, ages(1, 2, 15, 15)),
            "no content from acme for 15 s, but it works: last event 2 s ago",
        ),
        (
            call(State::Answering, Phase::AfterContent, ages(0, 0, 0, 0)),
            "answering from acme, last content just now",
        ),
        (
            CallNow {
                heartbeats: Heartbeats {
                    provider: 4,
                    ..Heartbeats::default()
                },
                last_heartbeat: Some(beat),
                ..call(State::Alive, Phase::BeforeContent, ages(3, 42, 42, 42))
            },
            "only heartbeats from acme for 42 s: the provider is alive, the model shows no work",
        ),
        (
            call(State::Alive, Phase::BeforeContent, ages(0, 42, 42, 42)),
            "only bytes from acme for 42 s, and no whole frame",
        ),
        (
            call(State::Silent, Phase::Sending, ages(12, 12, 12, 12)),
            "acme has taken none of the request for 12 s",
        ),
        (
            call(
                State::Silent,
                Phase::WaitingForHeaders,
                ages(12, 12, 12, 12),
            ),
            "acme has not responded for 12 s",
        ),
        (
            call(State::Silent, Phase::BeforeContent, ages(12, 12, 12, 12)),
            "nothing from acme for 12 s, before the first token",
        ),
        (
            call(State::Silent, Phase::AfterContent, ages(12, 12, 12, 12)),
            "nothing from acme for 12 s, in the middle of the answer",
        ),
        (
            CallNow {
                stage: Some(Stage::Tls),
                ..call(State::Connecting, Phase::Connecting, ages(0, 0, 0, 0))
            },
            "connecting to acme (tls)",
        ),
    ] {
        assert_eq!(of_call(&now), format!("{said}; raw_silence cuts in 78 s"));
    }
    let unbounded = CallNow {
        next_bound: None,
        ..call(State::Silent, Phase::BeforeContent, ages(12, 12, 12, 12))
    };
    let said = "nothing from acme for 12 s, before the first token; no bound cuts it";
    assert_eq!(of_call(&unbounded), said);
}

#[test]
fn what_a_call_waits_for_is_said_with_how_long_still() {
    let waiting = |state| CallNow {
        upstream: Some("acme".to_owned()),
        state,
        attempt: 1,
        of: 3,
        ..CallNow::default()
    };
    for (now, said) in [
        (waiting(State::Starting), "looking for an upstream"),
        (
            call(State::Finishing, Phase::Ended, ages(9, 9, 9, 9)),
            "over: its caller has not taken the end yet",
        ),
        (
            CallNow {
                position: Some(3),
                ..waiting(State::Queued)
            },
            "in line for acme, place 3",
        ),
        (
            CallNow {
                goes_on_in_ms: Some(18_900),
                why: Some(FailureCode::RateLimited),
                ..waiting(State::Held)
            },
            "held for another 18 s, since acme answered rate_limited",
        ),
        (
            waiting(State::Held),
            "waiting behind a hold on acme that has ended: calls go one after the other",
        ),
        (
            CallNow {
                goes_on_in_ms: Some(2_140),
                why: Some(FailureCode::RawSilent),
                ..waiting(State::Retrying)
            },
            "waiting 2.1 s for attempt 2 of 3, after raw_silent",
        ),
        (
            CallNow {
                unread_ms: Some(12_000),
                ..waiting(State::Unread)
            },
            "its caller has not read for 12 s, so the clocks of acme stand still",
        ),
    ] {
        assert_eq!(of_call(&now), said);
    }
    let limited = CallNow {
        next_bound: Some(NextBound {
            bound: BoundName::WallClock,
            in_ms: 5_000,
        }),
        ..waiting(State::Queued)
    };
    assert_eq!(
        of_call(&limited),
        "in line for acme; wall_clock cuts in 5 s"
    );
}

#[test]
fn all_calls_and_the_last_hour_are_one_line() {
    let mut summary = Summary {
        calls: 4,
        states: [(State::Silent, 1), (State::Answering, 2), (State::Alive, 1)].into(),
        ..Summary::default()
    };
    let now = "4 calls: 2 answering, 1 heartbeats only, 1 silent";
    assert_eq!(of_all(&summary), format!("{now}; last hour: nothing ended"));
    summary.hour.ended = 30;
    assert_eq!(
        of_all(&summary),
        format!("{now}; last hour: 30 ended, none failed")
    );

    let failure = |code, upstream: Option<&str>, count| FailureCount {
        code,
        upstream: upstream.map(str::to_owned),
        count,
    };
    for (failures, said) in [
        (
            vec![failure(FailureCode::RawSilent, Some("acme"), 3)],
            "3 failed, raw_silent at acme",
        ),
        (
            vec![
                failure(FailureCode::RawSilent, Some("acme"), 3),
                failure(FailureCode::QueueFull, None, 2),
            ],
            "5 failed, most of them raw_silent at acme",
        ),
        (
            vec![
                failure(FailureCode::QueueFull, None, 2),
                failure(FailureCode::RawSilent, Some("acme"), 2),
            ],
            "4 failed, 2 of them queue_full",
        ),
    ] {
        summary.hour = EndedCounts {
            ended: 30,
            failed: failures.iter().map(|failure| failure.count).sum(),
            cancelled: 1,
            failures,
        };
        let expected = format!("{now}; last hour: 30 ended, {said}");
        assert_eq!(of_all(&summary), expected);
    }
    let none = Summary::default();
    assert_eq!(of_all(&none), "no calls; last hour: nothing ended");
}

#[test]
fn how_an_upstream_does_is_said_by_what_is_worst() {
    let hold = |model: Option<&str>| HoldNow {
        id: "1".to_owned(),
        model: model.map(str::to_owned),
        credential: None,
        why: FailureCode::RateLimited,
        remaining_ms: 18_000,
        until: None,
        probe: "call".to_owned(),
    };
    let upstream = |health| UpstreamNow {
        health,
        in_flight: 2,
        concurrency: 2,
        waiting: 3,
        queue: 8,
        attempts: 10,
        failed: 6,
        failures: vec![FailureCount {
            code: FailureCode::Connect,
            upstream: None,
            count: 6,
        }],
        ..UpstreamNow::default()
    };
    for (now, said) in [
        (
            UpstreamNow {
                holds: vec![hold(Some("m"))],
                ..upstream(Health::Held)
            },
            "held for m for another 18 s, after rate_limited",
        ),
        (
            UpstreamNow {
                holds: vec![hold(None)],
                ..upstream(Health::Held)
            },
            "held for another 18 s, after rate_limited",
        ),
        (
            UpstreamNow {
                holds: vec![hold(None), hold(Some("m"))],
                ..upstream(Health::Held)
            },
            "held by 2 holds for another 18 s, after rate_limited",
        ),
        (
            upstream(Health::Broken),
            "a breaker is open, so others that serve the model are asked first: 6 of 10 attempts \
             failed in the last hour, connect",
        ),
        (
            upstream(Health::Failing),
            "6 of 10 attempts failed in the last hour, connect",
        ),
        (
            UpstreamNow {
                failed: 0,
                ..upstream(Health::Failing)
            },
            "none of 10 attempts in the last hour was completed",
        ),
        (upstream(Health::Busy), "all 2 places taken, 3 of 8 in line"),
        (
            UpstreamNow {
                concurrency: 1,
                ..upstream(Health::Busy)
            },
            "its only place taken, 3 of 8 in line",
        ),
        (
            UpstreamNow {
                in_flight: 1,
                concurrency: 1,
                waiting: 8,
                ..upstream(Health::Busy)
            },
            "full: 1 of 1 place taken and all 8 in line",
        ),
        (
            UpstreamNow {
                waiting: 8,
                ..upstream(Health::Busy)
            },
            "full: 2 of 2 places taken and all 8 in line",
        ),
        (
            UpstreamNow {
                in_flight: 0,
                ..upstream(Health::Idle)
            },
            "nothing ended here in the last hour",
        ),
        (
            UpstreamNow {
                failed: 0,
                ..upstream(Health::Good)
            },
            "10 attempts in the last hour, none failed",
        ),
    ] {
        assert_eq!(of_upstream(&now, false), said);
    }
    assert_eq!(
        of_upstream(&upstream(Health::Broken), true),
        "a breaker is open, and there is no other: 6 of 10 attempts failed in the last hour, connect"
    );
}

#[test]
fn a_time_is_said_in_tenths_and_then_in_seconds() {
    for (ms, said) in [
        (0, "0 s"),
        (99, "0 s"),
        (450, "400 ms"),
        (3_270, "3.2 s"),
        (42_900, "42 s"),
        (150_000, "2 min 30 s"),
    ] {
        assert_eq!(of_ms(ms), said);
    }
    assert_eq!(limit_of_ms(600), "600 ms");
}
