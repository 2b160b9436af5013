//! What is kept of calls that have ended, and what goes.

use std::time::Duration;

use jiff::Timestamp;
use lifesign::trace_context::CallTrace;
use pretty_assertions::assert_eq;

use super::*;
use crate::live::Happening;
use crate::records::{BeatForms, CallStarted, Wait, WaitFor};

fn ended(id: &str, outcome: Outcome) -> Box<CallEnded> {
    Box::new(CallEnded {
        started: CallStarted {
            id: id.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            key: None,
            method: "POST".to_owned(),
            route: "/v1/chat/completions".to_owned(),
            wire: "openai-chat".to_owned(),
            model: Some("m".repeat(100_000)),
            max_tokens: None,
            streamed: true,
            trace: None,
        },
        outcome,
        failure: None,
        upstream: None,
        provider: None,
        upstream_model: None,
        profile: None,
        answered_by: None,
        answer_id: None,
        finish_reason: None,
        usage: None,
        attempts: Vec::new(),
        status: None,
        elapsed_ms: 0,
        queued_ms: 0,
        held_ms: 0,
        retry_wait_ms: 0,
        waits: Vec::new(),
        beats: 0,
        beat_forms: BeatForms::default(),
        bytes_out: 0,
    })
}

#[test]
fn a_flood_of_calls_that_complete_leaves_those_that_did_not() {
    let recent = Recent::default();
    recent.keep(ended("failed", Outcome::Failed), Course::default());
    for number in 0..1_000 {
        let id = number.to_string();
        recent.keep(ended(&id, Outcome::Completed), Course::default());
    }

    assert!(recent.find("failed").is_some());
    assert!(recent.find("871").is_none());
    assert!(recent.find("872").is_some());
    let latest = recent.latest(2);
    let ids: Vec<_> = latest.iter().map(|call| &*call.ended.started.id).collect();
    assert_eq!(ids, ["999", "998"]);
    for number in 0..256 {
        let id = format!("later-{number}");
        recent.keep(ended(&id, Outcome::Cancelled), Course::default());
    }
    assert!(recent.find("failed").is_none());
    assert_eq!(recent.latest(usize::MAX).len(), 128 + 256);
}

#[test]
fn a_name_without_end_is_kept_in_part() {
    let recent = Recent::default();

    recent.keep(ended("a", Outcome::Completed), Course::default());

    let call = recent.find("a").unwrap();
    assert_eq!(
        call.ended.started.model.as_ref().map(String::len),
        Some(512)
    );
}

#[test]
fn a_call_that_goes_on_and_on_is_noted_to_a_point_and_the_rest_counted() {
    let mut course = Course::default();

    for at in 0..1_000 {
        let opened = Happening::Opened {
            early: false,
            status: 200,
        };
        course.note(Duration::from_secs(at), opened);
    }

    assert_eq!((course.events.len(), course.lost), (96, 904));
    assert_eq!(course.events[95].at_ms, 95_000);
}

#[test]
fn what_is_not_shown_of_a_call_is_not_kept() {
    let recent = Recent::default();
    let mut long = ended("long", Outcome::Failed);
    long.waits.push(Wait {
        wait: WaitFor::Hold,
        upstream: None,
        why: None,
        began_ms: 0,
        ended_ms: 1,
    });
    long.started.trace = Some(Box::new(CallTrace::of(&http::HeaderMap::new())));

    recent.keep(long, Course::default());

    let kept = recent.find("long").unwrap();
    assert!(kept.ended.waits.is_empty());
    assert_eq!(kept.ended.started.trace, None);
}
