//! The journal, file by file; here is what all of these tests begin with.

use std::fs;
use std::sync::{Arc, Barrier};
use std::thread;

use jiff::Timestamp;
use lifesign::Outcome;
use lifesign::clock;
use lifesign_core::{
    AttemptRecord, BoundName, Failure, FailureCode, FailureReport, Gaps, Origin, Phase, Tally,
    Usage,
};
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use lifesign::records::{
    Answered, Asked, AttemptEnded, BeatForms, CallEnded, CallStarted, CutPoint,
};

mod report;
mod retention;
mod rows;
mod versions;
mod writing;

/// A call that began so many milliseconds after a certain moment.
fn started(id: &str, at_ms: i64) -> CallStarted {
    CallStarted {
        id: id.to_owned(),
        at: Timestamp::from_millisecond(EPOCH_MS + at_ms).unwrap(),
        key: Some("me".to_owned()),
        method: "POST".to_owned(),
        route: "/v1/chat/completions".to_owned(),
        wire: "openai-chat".to_owned(),
        model: Some("m".to_owned()),
        max_tokens: None,
        streamed: true,
        trace: None,
    }
}

fn ended(started: CallStarted, failure: Option<&Failure>, attempts: u32) -> Record {
    let record = |n| AttemptRecord::new(n, "up", Phase::Ended, &Tally::default(), Duration::ZERO);
    Record::Ended(Box::new(CallEnded {
        outcome: failure.map_or(Outcome::Completed, |failure| failure.code.into()),
        failure: failure.map(FailureReport::from),
        upstream: Some("up".to_owned()),
        provider: Some("openai"),
        upstream_model: Some("theirs".to_owned()),
        profile: Some("progress".to_owned()),
        answered_by: None,
        answer_id: None,
        finish_reason: None,
        usage: None,
        attempts: (1..=attempts).map(record).collect(),
        status: Some(200),
        elapsed_ms: 1_200,
        queued_ms: 100,
        held_ms: 0,
        retry_wait_ms: 20,
        waits: Vec::new(),
        beats: 3,
        beat_forms: BeatForms::default(),
        bytes_out: 5,
        started,
    }))
}

fn attempt(call: &CallStarted, n: u32, failure: Option<&Failure>, partial: bool) -> Record {
    let millis = Duration::from_millis;
    let tally = Tally {
        sent: Some(millis(2)),
        headers: Some(millis(5)),
        first_content: partial.then(|| millis(40)),
        ended: Some(millis(1_100)),
        longest_gap: lifesign_core::Ages::of(|_| millis(u64::from(n) * 700)),
        ..Tally::default()
    };
    let mut record = AttemptRecord::new(n, "up", Phase::Ended, &tally, Duration::ZERO);
    record.status = Some(200);
    record.usage = partial.then_some(Usage {
        input_tokens: Some(7),
        output_tokens: Some(3),
        ..Usage::default()
    });
    if let Some(failure) = failure {
        record = record.failed(failure);
    }
    record.status = Some(200);
    Record::Attempt(Box::new(AttemptEnded {
        call: call.id.clone(),
        call_at: call.at,
        at: call.at,
        attempt: record,
        route: call.route.clone(),
        began_ms: 10,
        model: Some("theirs".to_owned()),
        profile: "progress".to_owned(),
        failure: failure.map(FailureReport::from),
        cut_point: (failure.is_some() && partial).then_some(CutPoint {
            bytes: 9,
            frames: 2,
            last_content_ms: 40,
            sequence: None,
        }),
        gaps: Gaps::default(),
        asked: Asked {
            provider: "openai",
            host: "127.0.0.1".to_owned(),
            port: 443,
            method: "POST".to_owned(),
            streamed: true,
            max_tokens: None,
        },
        answered: Answered::default(),
        quiet: Vec::new(),
        trace: None,
    }))
}

fn silent() -> Failure {
    let mut failure = Failure::new(FailureCode::RawSilent, Phase::BeforeContent);
    failure.bound = Some(BoundName::RawSilence);
    failure.limit = Some(Duration::from_millis(700));
    failure.origin = Some(Origin::Call);
    failure
}

fn place() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("calls.db");
    (directory, path)
}

/// Whatever its age, everything is kept.
fn settings(path: &std::path::Path) -> JournalSettings {
    JournalSettings {
        keep: None,
        ..JournalSettings::new(path)
    }
}

fn number(path: &std::path::Path, sql: &str) -> i64 {
    let connection = Connection::open(path).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn wait_until(is: impl Fn() -> bool) {
    let until = clock::now() + Duration::from_secs(20);
    while !is() {
        assert!(clock::now() < until, "it does not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Some day of 2023.
const EPOCH_MS: i64 = 1_700_000_000_000;
