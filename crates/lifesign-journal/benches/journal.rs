//! What the journal costs whoever serves a call, and how many calls it can take in.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run ends, which is how it fails"
)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lifesign::clock;
use lifesign::records::{
    Answered, Asked, AttemptEnded, BeatForms, CallEnded, CallStarted, Record, Records,
};
use lifesign_core::{AttemptRecord, Phase, Tally};
use lifesign_journal::{Journal, JournalSettings};

/// Returns the three records of a call that took one attempt.
fn call(number: u64) -> [Record; 3] {
    let started = CallStarted {
        id: format!("0193{number:032}"),
        at: clock::timestamp(),
        key: Some("team".to_owned()),
        method: "POST".to_owned(),
        route: "/v1/chat/completions".to_owned(),
        wire: "openai-chat".to_owned(),
        model: Some("a-model".to_owned()),
        max_tokens: None,
        streamed: true,
        trace: None,
    };
    let tally = Tally {
        sent: Some(Duration::from_millis(2)),
        bytes: 2_000,
        frames: 40,
        ..Tally::default()
    };
    let attempt = AttemptRecord::new(1, "upstream", Phase::Ended, &tally, Duration::ZERO);
    let ended = AttemptEnded {
        call: started.id.clone(),
        call_at: clock::timestamp(),
        at: clock::timestamp(),
        attempt: attempt.clone(),
        route: started.route.clone(),
        began_ms: 1,
        model: started.model.clone(),
        profile: "progress".to_owned(),
        failure: None,
        cut_point: None,
        gaps: lifesign_core::Gaps::default(),
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
    };
    let end = CallEnded {
        outcome: lifesign::Outcome::Completed,
        failure: None,
        upstream: Some("upstream".to_owned()),
        provider: Some("openai"),
        upstream_model: started.model.clone(),
        profile: Some("progress".to_owned()),
        answered_by: started.model.clone(),
        answer_id: None,
        finish_reason: Some("stop".to_owned()),
        usage: None,
        attempts: vec![attempt],
        status: Some(200),
        elapsed_ms: 900,
        queued_ms: 0,
        held_ms: 0,
        retry_wait_ms: 0,
        waits: Vec::new(),
        beats: 0,
        beat_forms: BeatForms::default(),
        bytes_out: 2_000,
        started: started.clone(),
    };
    [
        Record::Started(started),
        Record::Attempt(Box::new(ended)),
        Record::Ended(Box::new(end)),
    ]
}

fn journal(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("journal");
    let directory = tempfile::tempdir().unwrap();
    let mut number = 0;

    group.throughput(Throughput::Elements(CALLS));
    // From the first record of so many calls until the last is in the file. Calls that come slower
    // than that are kept up with.
    group.bench_function("calls_written", |bencher| {
        let path = directory.path().join("written.db");
        let journal = Journal::open(JournalSettings::new(path)).unwrap();
        bencher.iter_custom(|rounds| {
            let mut took = Duration::ZERO;
            for _ in 0..rounds {
                let records: Vec<_> = (number..number + CALLS).flat_map(call).collect();
                number += CALLS;
                let began = clock::now();
                for record in &records {
                    journal.record(record);
                }
                assert!(journal.flush());
                took += began.elapsed();
            }
            assert_eq!(journal.health().lost, 0);
            took
        });
    });

    // What a worker spends on it.
    group.bench_function("calls_recorded", |bencher| {
        let path = directory.path().join("recorded.db");
        let journal = Journal::open(JournalSettings::new(path)).unwrap();
        bencher.iter_custom(|rounds| {
            let mut took = Duration::ZERO;
            for _ in 0..rounds {
                let records: Vec<_> = (number..number + CALLS).flat_map(call).collect();
                number += CALLS;
                let began = clock::now();
                for record in &records {
                    journal.record(black_box(record));
                }
                took += began.elapsed();
                assert!(journal.flush());
            }
            took
        });
    });
    group.finish();
}

/// Fewer records than the channel holds.
const CALLS: u64 = 4_000;

criterion_group!(benches, journal);
criterion_main!(benches);
