//! What is kept of calls that have ended, and what goes.

use std::time::Duration;

use jiff::Timestamp;
use pretty_assertions::assert_eq;

use super::*;
use crate::live::Happening;
use crate::records::{BeatForms, CallStarted};

fn ended(id: &str, outcome: Outcome) -> CallEnded {
    CallEnded {
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
    }
}

/// Keeps calls that end so many in a second.
fn keep(recent: &Recent, count: u32, in_a_second: u32, outcome: Outcome) {
    for number in 0..count {
        let now = Duration::from_secs(1) * number / in_a_second;
        let call = ended(&format!("{outcome:?}-{number}"), outcome);
        recent.keep(&call, &Course::default(), now);
    }
}

fn ids(recent: &Recent) -> Vec<String> {
    let latest = recent.latest(usize::MAX);
    latest.into_iter().map(|call| call.id).collect()
}

#[test]
fn the_latest_are_kept_and_more_of_those_that_did_not_complete() {
    let recent = Recent::default();
    keep(&recent, 300, 10, Outcome::Failed);
    keep(&recent, 300, 10, Outcome::Completed);

    let ids = ids(&recent);

    assert_eq!(ids.len(), 128 + 256);
    assert_eq!(ids[0], "Completed-299");
    assert_eq!(ids[127..129], ["Completed-172", "Failed-299"]);
    assert_eq!(ids.last().unwrap(), "Failed-44");
    assert!(recent.find("Completed-172").is_some());
    assert!(recent.find("Completed-171").is_none());
    assert_eq!(recent.latest(2).len(), 2);
}

#[test]
fn of_many_that_end_at_the_same_time_some_are_kept_in_each_second() {
    let recent = Recent::default();
    keep(&recent, 3_000, 1_000, Outcome::Completed);
    keep(&recent, 2_000, 1_000, Outcome::Cancelled);

    let ids = ids(&recent);

    let count = |word: &str| ids.iter().filter(|id| id.starts_with(word)).count();
    assert_eq!((count("Completed"), count("Cancelled")), (3 * 20, 2 * 100));
    assert!(ids.contains(&"Completed-2000".to_owned()));
}

#[test]
fn a_timeline_is_read_as_it_was_written() {
    let recent = Recent::default();
    let mut course = Course::default();
    let opened = Happening::Opened {
        early: true,
        status: 200,
    };
    course.note(Duration::from_secs(3), opened.clone());
    let call = ended("a", Outcome::Truncated);

    recent.keep(&call, &course, Duration::ZERO);

    let timeline = recent.find("a").unwrap();
    let told = timeline.ended.unwrap();
    assert_eq!((&*told.id, told.outcome), ("a", Outcome::Truncated));
    // A name without end is kept in part.
    assert_eq!(told.model.map(|model| model.len()), Some(123));
    let event = &timeline.events[0];
    assert_eq!((event.at_ms, &event.what), (3_000, &opened));
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
