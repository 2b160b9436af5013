//! What is said beside the turns of a conversation.

use lifesign::{Failure, Phase, Usage};
use lifesign_agent::{Counts, Times, TurnOutcome};
use pretty_assertions::assert_eq;

use super::*;

fn standing(is_open: bool, wake_at: Option<&str>) -> Standing {
    Standing {
        is_open,
        wake_at: wake_at.map(|at| at.parse().unwrap()),
        ..Standing::default()
    }
}

#[test]
fn going_on_is_offered_where_something_can_be_gone_on_with() {
    let now = "2026-11-30T12:00:00Z".parse().unwrap();
    let offered = |is_open, wake_at| offer(&standing(is_open, wake_at), now);

    assert_eq!(offered(false, None), None);
    assert!(
        offered(true, None)
            .unwrap()
            .starts_with("The last turn did not end.")
    );
    assert!(
        offered(false, Some("2026-11-30T11:00:00Z"))
            .unwrap()
            .contains("has been reset")
    );
    assert!(
        offered(false, Some("2026-11-30T13:00:05Z"))
            .unwrap()
            .contains("at 2026-11-30T13:00:05Z")
    );
}

#[test]
fn the_status_of_a_turn_tells_what_it_did_and_where_its_time_went() {
    let report = TurnReport {
        turn: 3,
        outcome: TurnOutcome::Completed,
        counts: Counts {
            turns: 1,
            rounds: 2,
            calls: 2,
            attempts: 3,
            heartbeats: 7,
            tool_calls: 1,
            ..Counts::default()
        },
        times_ms: Times {
            elapsed: 9_500,
            working: 1_500,
            provider: 6_000,
            waiting: 0,
            tools: 2_000,
        },
        usage: Some(Usage {
            input_tokens: Some(12),
            output_tokens: Some(3),
            ..Usage::default()
        }),
        failure: None,
        ..TurnReport::unbegun(&Failure::new(FailureCode::Cancelled, Phase::Queued))
    };

    assert_eq!(
        status::of(&report),
        "turn 3 completed after 9.5 s\n2 calls, 3 attempts, 7 heartbeats, 1 tool call\n\
         1.5 s working, 6 s waiting for the provider, 2 s in tools\n12 tokens in, 3 out"
    );
}

#[test]
fn the_status_of_a_turn_that_failed_says_of_what() {
    let mut failure = Failure::new(FailureCode::RawSilent, Phase::BeforeContent);
    failure.provider_message = Some("x".to_owned());
    let report = TurnReport::unbegun(&failure);

    assert_eq!(
        status::of(&report),
        "turn 0 provider_failed after 0 s\nnothing arrived before the first content"
    );
}

#[test]
fn a_talk_begins_with_whom_it_is_with_and_how_far_it_is() {
    assert_eq!(
        beginning("m at house", None, 0),
        "m at house; not kept (--transcript FILE keeps it)"
    );
    let path = Path::new("talk.jsonl");
    assert_eq!(
        beginning("m at house", Some(path), 2),
        "m at house; kept in talk.jsonl, 2 turns so far"
    );
}
