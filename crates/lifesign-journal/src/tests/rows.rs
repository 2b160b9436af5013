//! What is kept of a call and its attempts, and what is not.

use pretty_assertions::assert_eq;

use super::*;

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
