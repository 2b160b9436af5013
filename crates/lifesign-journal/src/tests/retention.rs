//! What goes, by age and by size.

use pretty_assertions::assert_eq;

use super::*;

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
