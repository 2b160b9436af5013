//! The journal: what it keeps, what it loses and says so, and what is told from it.

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
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use lifesign::records::{
    Answered, Asked, AttemptEnded, BeatForms, CallEnded, CallStarted, CutPoint,
};

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

#[test]
fn a_call_and_its_attempts_are_found_again_with_what_was_known_of_them() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    let call = started("a", 0);
    let failure = silent();

    journal.record(&Record::Started(call.clone()));
    journal.record(&attempt(&call, 1, Some(&failure), false));
    journal.record(&attempt(&call, 2, Some(&failure), true));
    journal.record(&ended(call, Some(&failure), 2));

    assert!(journal.flush());
    let connection = Connection::open(&path).unwrap();
    let row: (String, String, String, i64, String, i64, i64) = connection
        .query_row(
            "SELECT key, code, setting, limit_ms, origin, attempts, ended_at - at FROM calls",
            [],
            |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                    row.get(5)?,
                    row.get(6)?,
                ))
            },
        )
        .unwrap();
    let text = str::to_owned;
    assert_eq!(
        row,
        (
            text("me"),
            text("raw_silent"),
            text("bounds.raw_silence"),
            700,
            text("call"),
            2,
            1_200
        )
    );
    let cuts: Vec<(i64, Option<i64>, Option<i64>)> = connection
        .prepare("SELECT n, cut_bytes, output_tokens FROM attempts ORDER BY n")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(cuts, [(1, None, None), (2, Some(9), Some(3))]);
}

/// What a provider says of a request may repeat it.
#[test]
fn words_of_a_provider_that_may_repeat_a_prompt_are_not_kept() {
    let (directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    let call = started("a", 0);
    let mut refused = Failure::new(FailureCode::Rejected, Phase::WaitingForHeaders);
    refused.status = Some(400);
    refused.provider_message = Some("cannot read 'my secret prompt'".to_owned());
    assert!(refused.message().contains("my secret prompt"));

    journal.record(&attempt(&call, 1, Some(&refused), false));
    journal.record(&ended(call, Some(&refused), 1));

    assert!(journal.close());
    for file in fs::read_dir(directory.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(memchr::memmem::find(&bytes, b"secret").is_none());
    }
    let told = "SELECT count(*) FROM calls JOIN attempts ON call = id
                WHERE calls.message = 'the provider refused the request (400)'
                  AND attempts.message = calls.message";
    assert_eq!(number(&path, told), 1);
}

#[cfg(unix)]
#[test]
fn nobody_but_its_owner_may_read_a_journal() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_directory, path) = place();

    let journal = Journal::open(settings(&path)).unwrap();

    assert!(journal.flush());
    for name in ["calls.db", "calls.db-wal", "calls.db-shm"] {
        let file = fs::metadata(path.with_file_name(name)).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_report_tells_who_failed_of_what_and_what_it_cost() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    let failure = silent();
    let now = clock::timestamp().as_millisecond() - EPOCH_MS;
    let at = |at_ms| Timestamp::from_millisecond(EPOCH_MS + at_ms).unwrap();
    for (id, failures) in [("a", 1), ("b", 2), ("c", 0)] {
        let call = started(id, now);
        journal.record(&Record::Started(call.clone()));
        for n in 1..=failures {
            journal.record(&attempt(&call, n, Some(&failure), n == 2));
        }
        if failures == 2 {
            journal.record(&ended(call, Some(&failure), 2));
        } else {
            journal.record(&attempt(&call, failures + 1, None, true));
            journal.record(&ended(call, None, failures + 1));
        }
    }
    journal.record(&Record::Started(started("d", now)));
    let mut old = started("old", now - 7_200_000);
    old.key = Some("you".to_owned());
    journal.record(&ended(old, None, 1));
    assert!(journal.flush());

    let hour = ReportFilter {
        since: Some(Duration::from_hours(1)),
        ..ReportFilter::default()
    };
    let told = report(&path, &hour).unwrap();

    assert_eq!(
        told.calls,
        Calls {
            total: 4,
            completed: 2,
            failed: 1,
            in_flight: 1,
            ..Calls::default()
        }
    );
    assert_eq!(
        told.by_code,
        [FailureCount {
            code: "raw_silent".to_owned(),
            upstream: Some("up".to_owned()),
            calls: 1,
            unsent: 0,
            attempts: 3,
            first: at(now),
            // The call ended after its attempts.
            last: at(now + 1_200),
            message: Some(silent().message()),
            longest_retry_after_ms: None,
        }]
    );
    assert_eq!(
        told.by_upstream,
        [Place {
            name: Some("up".to_owned()),
            attempts: 5,
            failed: 3,
            left: 0,
            mostly: Some("raw_silent".to_owned()),
            last_completed: Some(at(now)),
            first_content_ms: Some(30),
            median_ms: Some(1_090),
            longest_ms: Some(1_090),
        }]
    );
    assert_eq!(told.by_model[0].name.as_deref(), Some("theirs"));
    assert_eq!(
        told.by_bound,
        [Bound {
            bound: "raw_silence".to_owned(),
            cuts: 3,
            upstream: Some("up".to_owned()),
            limit_ms: Some(700),
            setting: Some("bounds.raw_silence".to_owned()),
            origin: Some("call".to_owned()),
            // The longest silence of an attempt that came through.
            longest_completed_ms: Some(1_400),
            message: Some(silent().message()),
        }]
    );
    let slowest: Vec<_> = told.slowest.iter().map(|it| it.ended.as_str()).collect();
    assert_eq!(slowest, ["completed", "completed", "raw_silent"]);
    assert_eq!(told.silences[0].longest_ms, 1_400);
    let [waits] = told.waits.as_slice() else {
        panic!("{:?}", told.waits);
    };
    assert_eq!(waits.upstream.as_deref(), Some("up"));
    assert_eq!((waits.queued, waits.longest_queued_ms), (3, 100));
    let attempts: Vec<_> = told
        .attempts
        .iter()
        .map(|it| (it.attempts, it.calls))
        .collect();
    assert_eq!(attempts, [(1, 1), (2, 2)]);
    assert_eq!(
        told.discarded,
        [Discarded {
            upstream: "up".to_owned(),
            attempts: 2,
            partial: 1,
            unknown: 2,
            input_tokens: 7,
            output_tokens: 3,
        }]
    );
    assert_eq!((told.tokens.attempts, told.tokens.output_tokens), (2, 6));

    let total = |filter: ReportFilter| report(&path, &filter).unwrap().calls.total;
    let some = |text: &str| Some(text.to_owned());
    let all = ReportFilter::default;
    assert_eq!(total(all()), 5);
    assert_eq!(
        total(ReportFilter {
            key: some("you"),
            ..all()
        }),
        1
    );
    assert_eq!(
        total(ReportFilter {
            code: some("raw_silent"),
            ..all()
        }),
        2
    );
    assert_eq!(
        total(ReportFilter {
            upstream: some("nobody"),
            ..all()
        }),
        1,
        "the one under way may be there"
    );
    assert_eq!(
        total(ReportFilter {
            model: some("theirs"),
            ..all()
        }),
        4
    );
}

/// Whom an attempt asks is written when it ends, and a call that hangs is what is looked for.
#[test]
fn calls_under_way_are_not_hidden_by_a_filter_of_an_upstream() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    journal.record(&Record::Started(started("hangs", 0)));
    let mut other = started("of-another-key", 0);
    other.key = Some("you".to_owned());
    journal.record(&Record::Started(other));
    let retried = started("retried", 0);
    journal.record(&Record::Started(retried.clone()));
    journal.record(&attempt(&retried, 1, Some(&silent()), false));
    journal.record(&ended(started("whole", 0), None, 1));
    assert!(journal.flush());
    let told = |upstream: Option<&str>| {
        let filter = ReportFilter {
            upstream: upstream.map(str::to_owned),
            key: Some("me".to_owned()),
            ..ReportFilter::default()
        };
        report(&path, &filter).unwrap()
    };
    let count = |upstream| {
        let calls = told(upstream).calls;
        (calls.total, calls.in_flight, calls.unplaced)
    };

    assert_eq!(count(None), (3, 2, 0));
    assert_eq!(count(Some("up")), (3, 2, 1));
    assert_eq!(count(Some("alpha")), (2, 2, 2));
    assert!(told(Some("alpha")).by_code.is_empty());
    let failed = ReportFilter {
        upstream: Some("alpha".to_owned()),
        code: Some("connect".to_owned()),
        ..ReportFilter::default()
    };
    assert_eq!(report(&path, &failed).unwrap().calls, Calls::default());
}

/// Those of a caller with a limit of its own all leave after the same time.
#[test]
fn a_report_tells_whose_callers_left_and_after_how_long() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    let left = Failure::new(FailureCode::Cancelled, Phase::BeforeContent);
    for (id, elapsed_ms, has_content) in [
        ("a", 5_003, false),
        ("b", 5_001, false),
        ("c", 5_002, true),
        ("d", 9_000, true),
    ] {
        let call = started(id, 0);
        journal.record(&attempt(&call, 1, Some(&left), has_content));
        let Record::Ended(mut end) = ended(call, Some(&left), 1) else {
            panic!("no end");
        };
        end.elapsed_ms = elapsed_ms;
        journal.record(&Record::Ended(end));
    }
    journal.record(&ended(started("whole", 0), None, 1));
    assert!(journal.flush());

    let told = report(&path, &ReportFilter::default()).unwrap();

    assert_eq!(
        told.left,
        [Left {
            key: Some("me".to_owned()),
            upstream: Some("up".to_owned()),
            calls: 4,
            before_content: 2,
            shortest_ms: 5_001,
            median_ms: 5_002,
            longest_ms: 9_000,
        }]
    );
}

/// Those that callers ended, or that failed, may be many and long, and say nothing of how long the
/// model takes.
#[test]
fn what_complete_calls_took_is_told_whatever_became_of_others() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    let left = Failure::new(FailureCode::Cancelled, Phase::BeforeContent);
    for n in 0..12 {
        let call = started(&format!("left{n}"), 0);
        journal.record(&attempt(&call, 1, Some(&left), false));
        let Record::Ended(mut end) = ended(call, Some(&left), 1) else {
            panic!("no end");
        };
        end.elapsed_ms = 60_000;
        journal.record(&Record::Ended(end));
    }
    for (id, ended_ms) in [("a", 1_010), ("b", 9_010), ("c", 2_010)] {
        let call = started(id, 0);
        let Record::Attempt(mut whole) = attempt(&call, 1, None, true) else {
            panic!("no attempt");
        };
        whole.attempt.ended_ms = ended_ms;
        journal.record(&Record::Attempt(whole));
        journal.record(&ended(call, None, 1));
    }
    assert!(journal.flush());

    let told = report(&path, &ReportFilter::default()).unwrap();

    let slowest: Vec<_> = told.slowest.iter().map(|it| it.ended.as_str()).collect();
    assert_eq!(slowest.len(), 13);
    assert_eq!(
        slowest[..4],
        ["completed", "completed", "completed", "cancelled"]
    );
    let up = &told.by_upstream[0];
    assert_eq!((up.attempts, up.failed, up.left), (15, 0, 12));
    assert_eq!((up.median_ms, up.longest_ms), (Some(2_000), Some(9_000)));
}

/// Of a hold on an upstream one attempt learns, and calls that come meanwhile are not sent.
#[test]
fn calls_that_were_never_sent_are_told_from_those_that_failed_there() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    let limited = Failure::new(FailureCode::RateLimited, Phase::WaitingForHeaders);
    let call = started("sent", 0);
    journal.record(&attempt(&call, 1, Some(&limited), false));
    journal.record(&ended(call, Some(&limited), 1));
    for id in ["held", "held-too"] {
        journal.record(&ended(started(id, 0), Some(&limited), 0));
    }
    assert!(journal.flush());

    let told = report(&path, &ReportFilter::default()).unwrap();

    let failed = &told.by_code[0];
    assert_eq!((failed.calls, failed.unsent, failed.attempts), (3, 2, 1));
}

/// A bound that nothing has ever come through under says nothing of how tight it is.
#[test]
fn what_complete_attempts_needed_is_told_of_the_same_upstream_alone() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    let (cut, elsewhere) = (started("a", 0), started("b", 0));
    journal.record(&attempt(&cut, 1, Some(&silent()), false));
    journal.record(&ended(cut, Some(&silent()), 1));
    let Record::Attempt(mut whole) = attempt(&elsewhere, 1, None, true) else {
        panic!("no attempt");
    };
    whole.attempt.upstream = "another".to_owned();
    journal.record(&Record::Attempt(whole));
    journal.record(&ended(elsewhere, None, 1));
    assert!(journal.flush());

    let told = report(&path, &ReportFilter::default()).unwrap();

    assert_eq!(told.by_bound[0].longest_completed_ms, None);
    let last: Vec<_> = told
        .by_upstream
        .iter()
        .map(|place| (place.name.as_deref(), place.last_completed.is_some()))
        .collect();
    assert_eq!(last, [(Some("up"), false), (Some("another"), true)]);
}

/// A run that did not say that it stopped, and was not seen for long, was killed.
#[test]
fn calls_of_a_run_that_was_killed_are_unknown_and_not_in_flight() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    journal.record(&Record::Started(started("a", 0)));
    assert!(journal.flush());
    let count = || report(&path, &ReportFilter::default()).unwrap().calls;
    assert_eq!((count().in_flight, count().unknown), (1, 0));

    let connection = Connection::open(&path).unwrap();
    let sql = "UPDATE runs SET seen_at = seen_at - 31000";
    connection.execute(sql, []).unwrap();

    assert_eq!((count().in_flight, count().unknown), (0, 1));
}

#[test]
fn a_journal_of_version_1_goes_on_as_one_of_this_version() {
    let (_directory, path) = place();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(schema::STEPS[0]).unwrap();
    connection
        .execute_batch(
            "PRAGMA application_id = 0x6c73676e; PRAGMA user_version = 1;
             INSERT INTO starts VALUES ('old', 1, 5, NULL, '/v1/messages', 'anthropic', NULL, 0);",
        )
        .unwrap();
    drop(connection);
    let too_old = report(&path, &ReportFilter::default()).unwrap_err();
    assert!(matches!(
        too_old,
        JournalError::TooOld { found: 1, known: 2 }
    ));

    let journal = Journal::open(settings(&path)).unwrap();
    journal.record(&attempt(&started("new", 0), 1, Some(&silent()), true));

    assert!(journal.flush());
    assert_eq!(number(&path, "PRAGMA user_version"), 2);
    assert_eq!(
        number(&path, "SELECT count(*) FROM calls WHERE id = 'old'"),
        1
    );
    assert_eq!(number(&path, "SELECT cut_bytes FROM attempts"), 9);
}

#[test]
fn what_is_no_journal_of_this_version_is_refused_and_left_alone() {
    let (directory, path) = place();
    let refused = |path: &std::path::Path| {
        let checked = Journal::check(path).unwrap_err().to_string();
        let opened = Journal::open(JournalSettings::new(path)).unwrap_err();
        assert_eq!(opened.to_string(), checked);
        checked
    };

    fs::write(
        &path,
        "a text that is longer than the head of a database and no database",
    )
    .unwrap();
    assert!(
        refused(&path).contains("not a database"),
        "{}",
        refused(&path)
    );

    let other = directory.path().join("other.db");
    let connection = Connection::open(&other).unwrap();
    connection.execute_batch("CREATE TABLE theirs (a)").unwrap();
    assert_eq!(refused(&other), "the file is a database, and no journal");

    let newer = directory.path().join("newer.db");
    drop(Journal::open(JournalSettings::new(&newer)).unwrap());
    let connection = Connection::open(&newer).unwrap();
    connection.execute_batch("PRAGMA user_version = 3").unwrap();
    assert_eq!(
        refused(&newer),
        "the journal has version 3, and this program knows 2"
    );

    assert!(refused(directory.path()).ends_with("is no file"));
    assert!(refused(&path.join("below")).contains("its directory is none"));
}

#[test]
fn what_is_too_old_goes_and_the_rest_stays() {
    let (_directory, path) = place();
    let hour = 3_600_000;
    let journal = Journal::open(JournalSettings {
        keep: Some(Duration::from_hours(1)),
        ..JournalSettings::new(&path)
    })
    .unwrap();
    let now = clock::timestamp().as_millisecond() - EPOCH_MS;
    // More than one step of the oldest.
    for n in 0..700 {
        journal.record(&ended(started(&format!("old{n}"), now - 2 * hour), None, 1));
    }
    for n in 0..3 {
        let call = started(&format!("new{n}"), now);
        journal.record(&attempt(&call, 1, None, true));
        journal.record(&ended(call, None, 1));
    }
    assert!(journal.flush());
    assert!(journal.close());

    let mut store = Store::open(&path).unwrap();
    let retention = Retention {
        keep: Some(Duration::from_hours(1)),
        max_size: JournalSettings::MAX_SIZE,
    };
    store.retain(&retention).unwrap();

    assert_eq!(number(&path, "SELECT count(*) FROM calls"), 3);
    assert_eq!(number(&path, "SELECT count(*) FROM ends"), 3);
    assert_eq!(number(&path, "SELECT count(*) FROM attempts"), 3);
}

#[test]
fn the_file_stays_within_its_size_and_keeps_the_newest() {
    let (_directory, path) = place();
    let max_size = 1 << 20;
    let journal = Journal::open(JournalSettings {
        max_size,
        ..settings(&path)
    })
    .unwrap();

    for n in 0..12_000 {
        let call = started(&format!("{n:08}"), n);
        journal.record(&attempt(&call, 1, Some(&silent()), true));
        journal.record(&ended(call, None, 1));
        if n % 1_000 == 0 {
            assert!(journal.flush());
        }
    }
    assert!(journal.close());

    let mut store = Store::open(&path).unwrap();
    store
        .retain(&Retention {
            keep: None,
            max_size,
        })
        .unwrap();
    drop(store);
    let len = fs::metadata(&path).unwrap().len();
    assert!(len <= max_size, "{len}");
    assert_eq!(
        number(&path, "SELECT CAST(max(id) AS INTEGER) FROM calls"),
        11_999
    );
    let kept = number(&path, "SELECT count(*) FROM calls");
    assert!((500..12_000).contains(&kept), "{kept}");
    assert_eq!(
        number(&path, "SELECT 12000 - min(CAST(id AS INTEGER)) FROM calls"),
        kept,
        "none of the newest is missing"
    );
}

/// The writer is held up by somebody who has the file: what finds no place is counted, nobody
/// waits, and the journal tells how much it was.
#[test]
fn what_finds_no_place_is_dropped_counted_and_told() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    assert!(journal.flush());
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();

    let more = CAPACITY * 2;
    for n in 0..more {
        journal.record(&Record::Started(started(&n.to_string(), 0)));
    }

    let dropped = journal.health().lost;
    assert!(dropped > 0);
    assert_eq!(journal.health().state, JournalState::Dropping);
    other.execute_batch("COMMIT").unwrap();
    wait_until(|| journal.health().state == JournalState::Writing);
    assert!(journal.flush());
    assert_eq!(
        journal.health(),
        JournalHealth {
            state: JournalState::Writing,
            error: None,
            lost: dropped,
        }
    );
    let lost = i64::try_from(dropped).unwrap();
    assert_eq!(number(&path, "SELECT sum(records) FROM lost"), lost);
    let kept = number(&path, "SELECT count(*) FROM starts");
    assert_eq!(kept + lost, i64::try_from(more).unwrap());
    let told = report(&path, &ReportFilter::default()).unwrap();
    assert_eq!(told.lost.records, dropped);
}

/// Batches gather for a while, and a program that ends after each call would wait each time.
#[test]
fn whoever_waits_for_the_file_does_not_wait_for_more_records() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    let began = clock::now();

    for n in 0..20 {
        journal.record(&Record::Started(started(&n.to_string(), 0)));
        assert!(journal.flush());
    }

    assert!(began.elapsed() < writer::GATHER * 20);
    assert_eq!(number(&path, "SELECT count(*) FROM starts"), 20);
}

/// Programs that begin together find no file, and each makes it. That is a matter of luck, so it is
/// tried a few times.
#[test]
fn several_may_make_and_write_one_file_at_once() {
    for _ in 0..20 {
        let (_directory, path) = place();
        let together = Arc::new(Barrier::new(10));
        let writers: Vec<_> = (0..10)
            .map(|writer| {
                let (path, together) = (path.clone(), Arc::clone(&together));
                thread::spawn(move || {
                    together.wait();
                    let journal = Journal::open(settings(&path)).unwrap();
                    assert_eq!(journal.health().state, JournalState::Writing);
                    for n in 0..3 {
                        let call = started(&format!("{writer}-{n}"), 0);
                        journal.record(&attempt(&call, 1, None, true));
                        journal.record(&ended(call, None, 1));
                    }
                    assert!(journal.close());
                })
            })
            .collect();

        for writer in writers {
            writer.join().unwrap();
        }

        assert_eq!(number(&path, "SELECT count(*) FROM ends"), 30);
        assert_eq!(number(&path, "SELECT count(*) FROM attempts"), 30);
        assert_eq!(number(&path, "SELECT count(*) FROM lost"), 0);
    }
}

#[test]
fn a_file_that_was_taken_away_is_begun_anew() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    journal.record(&Record::Started(started("a", 0)));
    assert!(journal.flush());
    for name in ["calls.db", "calls.db-wal", "calls.db-shm"] {
        fs::remove_file(path.with_file_name(name)).unwrap();
    }

    journal.record(&Record::Started(started("b", 0)));

    assert!(journal.flush());
    assert_eq!(
        number(&path, "SELECT count(*) FROM starts WHERE id = 'b'"),
        1
    );
}

/// Its directory is away for a while, which is how a lost mount looks.
#[test]
fn what_comes_while_nothing_can_be_written_is_written_later() {
    let directory = TempDir::new().unwrap();
    let (home, away) = (directory.path().join("home"), directory.path().join("away"));
    fs::create_dir(&home).unwrap();
    let path = home.join("calls.db");
    let journal = Journal::open(settings(&path)).unwrap();
    assert!(journal.flush());
    fs::rename(&home, &away).unwrap();

    journal.record(&Record::Started(started("a", 0)));

    wait_until(|| journal.health().state == JournalState::Failing);
    let error = journal.health().error.unwrap();
    assert!(error.contains("its directory cannot be used"), "{error}");
    fs::rename(&away, &home).unwrap();
    wait_until(|| journal.health().state == JournalState::Writing);
    assert!(journal.flush());
    assert_eq!(journal.health().lost, 0);
    assert_eq!(number(&path, "SELECT count(*) FROM starts"), 1);
}

#[test]
fn closing_does_not_wait_for_a_disk_that_cannot_be_written() {
    let directory = TempDir::new().unwrap();
    let home = directory.path().join("home");
    fs::create_dir(&home).unwrap();
    let journal = Journal::open(JournalSettings::new(home.join("calls.db"))).unwrap();
    assert!(journal.flush());
    fs::remove_dir_all(&home).unwrap();
    for n in 0..2_000 {
        journal.record(&Record::Started(started(&n.to_string(), 0)));
    }
    wait_until(|| journal.health().state == JournalState::Failing);

    let began = clock::now();
    assert!(!journal.close());

    let took = clock::now() - began;
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn the_end_of_a_run_is_written_down() {
    let (_directory, path) = place();
    let journal = Journal::open(settings(&path)).unwrap();
    journal.record(&Record::Started(started("a", 0)));

    assert!(journal.close());

    assert_eq!(
        number(&path, "SELECT count(*) FROM runs WHERE stopped_at > 0"),
        1
    );
    // Whatever comes now finds nobody, and is counted.
    journal.record(&Record::Started(started("b", 0)));
    wait_until(|| {
        journal.record(&Record::Started(started("b", 0)));
        journal.health().lost > 0
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Several threads record as workers do, in bursts that all find a place.
    #[test]
    fn nothing_is_lost_below_the_capacity_of_the_channel(
        bursts in prop::collection::vec((1_usize..5, 1_usize..300), 1..5),
    ) {
        let (_directory, path) = place();
        let journal = Arc::new(Journal::open(settings(&path)).unwrap());
        let mut calls = 0;
        for (burst, (threads, each)) in bursts.iter().enumerate() {
            calls += threads * each;
            let workers: Vec<_> = (0..*threads)
                .map(|thread| {
                    let (journal, each) = (Arc::clone(&journal), *each);
                    thread::spawn(move || {
                        for n in 0..each {
                            let call = started(&format!("{burst}-{thread}-{n}"), 0);
                            journal.record(&Record::Started(call.clone()));
                            journal.record(&attempt(&call, 1, None, true));
                            journal.record(&ended(call, None, 1));
                        }
                    })
                })
                .collect();
            for worker in workers {
                worker.join().unwrap();
            }
        }

        prop_assert!(journal.flush());
        let calls = i64::try_from(calls).unwrap();
        prop_assert_eq!(journal.health().lost, 0);
        let sql = "SELECT count(*) FROM calls JOIN attempts ON call = id WHERE outcome IS NOT NULL";
        prop_assert_eq!(number(&path, &sql.replace("outcome", "calls.outcome")), calls);
    }
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
