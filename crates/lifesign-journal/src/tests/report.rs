//! What is told from a journal.

use pretty_assertions::assert_eq;

use super::*;

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
