//! How records get into the file, and what becomes of them where they cannot.

use pretty_assertions::assert_eq;

use super::*;

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
