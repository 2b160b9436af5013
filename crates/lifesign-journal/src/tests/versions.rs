//! Which files are taken for journals, of which version.

use pretty_assertions::assert_eq;

use super::*;

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
