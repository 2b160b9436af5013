//! Transcripts on the disk: whole lines, torn ones, and those that are none.

use std::fs;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::Transcript;
use super::*;

fn user(text: &str) -> Entry {
    Entry::User {
        turn: 1,
        text: text.to_owned(),
    }
}

fn written(texts: &[&str]) -> (TempDir, PathBuf, Vec<Entry>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.jsonl");
    let transcript = Transcript::create(&path).unwrap();
    let file = transcript.file.as_ref().unwrap();
    let mut entries = transcript.entries.clone();
    for text in texts {
        file.write(&user(text)).unwrap();
        entries.push(user(text));
    }
    drop(transcript);
    (dir, path, entries)
}

#[test]
fn what_was_written_is_read_back_and_gone_on_with() {
    let (_dir, path, mut entries) = written(&["one", "two\nlines"]);

    let (file, read, repair) = TranscriptFile::open(&path).unwrap();
    file.write(&user("three")).unwrap();
    drop(file);

    assert_eq!((&read, repair), (&entries, None));
    entries.push(user("three"));
    assert_eq!(TranscriptFile::open(&path).unwrap().1, entries);
}

#[test]
fn a_transcript_in_use_is_not_opened_twice() {
    let (_dir, path, _) = written(&[]);
    let _open = TranscriptFile::open(&path).unwrap();

    let again = TranscriptFile::open(&path).map(|_| ()).unwrap_err();

    assert!(
        again.to_string().ends_with("is in use by another program"),
        "{again}"
    );
}

#[test]
fn a_file_that_exists_is_not_begun_anew() {
    let (_dir, path, _) = written(&["one"]);

    let again = Transcript::create(&path).unwrap_err();

    assert!(again.to_string().ends_with("cannot be created"), "{again}");
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_a_transcript() {
    use std::os::unix::fs::PermissionsExt;

    let (_dir, path, _) = written(&["one"]);

    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_broken_line_before_the_last_is_refused_with_its_number() {
    let (_dir, path, _) = written(&["one", "two"]);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("{\"type\":\"user\"", "{\"type\":", 1)).unwrap();

    let error = TranscriptFile::open(&path).map(|_| ()).unwrap_err();

    assert!(
        error.to_string().contains("has no entry in line 2"),
        "{error}"
    );
}

#[test]
fn a_whole_last_line_that_is_not_known_is_refused_and_left_as_it_is() {
    let (_dir, path, _) = written(&["one"]);
    let later = fs::read_to_string(&path).unwrap() + "{\"type\":\"later\"}\n";
    fs::write(&path, &later).unwrap();

    let error = TranscriptFile::open(&path).map(|_| ()).unwrap_err();

    assert!(
        error.to_string().contains("has no entry in line 3"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), later);
}

#[test]
fn other_files_and_newer_versions_are_refused_and_left_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other");
    let newer = "{\"type\":\"begin\",\"v\":2,\"id\":\"x\",\"at\":\"2026-01-01T00:00:00Z\"}\n";
    for (text, says) in [
        ("\n", "is no transcript"),
        ("{\"type\":\"user\"", "is no transcript"),
        ("my diary\nand more\n", "is no transcript"),
        (newer, "is of version 2"),
    ] {
        fs::write(&path, text).unwrap();

        let error = TranscriptFile::open(&path).map(|_| ()).unwrap_err();

        assert!(error.to_string().contains(says), "{text:?}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_file_whose_program_died_before_its_first_line_was_whole_begins_anew() {
    let (_dir, path, _) = written(&[]);
    let first = fs::read(&path).unwrap();
    for len in [0, 1, 14, 15, first.len() - 1] {
        fs::write(&path, &first[..len]).unwrap();

        let (transcript, repair) = Transcript::open(&path).unwrap();

        let id = transcript.id().to_owned();
        let bytes = repair.map_or(0, |repair| repair.bytes);
        assert_eq!(bytes, len as u64, "{len}");
        drop(transcript);
        let (again, repair) = Transcript::open(&path).unwrap();
        assert_eq!((again.id(), repair), (id.as_str(), None));
    }
}

proptest! {
    // Each case waits for a disk.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Wherever the program dies, whole lines are kept, a torn one is taken off, and the file goes
    /// on from there.
    #[test]
    fn a_file_torn_anywhere_keeps_its_whole_lines(
        texts in prop::collection::vec(".{0,20}", 1..5),
        torn in any::<prop::sample::Index>(),
    ) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (_dir, path, entries) = written(&texts);
        let bytes = fs::read(&path).unwrap();
        let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let at = first + torn.index(bytes.len() - first + 1);
        fs::write(&path, &bytes[..at]).unwrap();

        let whole = bytes[..at].split_inclusive(|byte| *byte == b'\n');
        let whole = whole.filter(|line| line.ends_with(b"\n")).count();
        let kept = bytes[..at].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        let (file, read, repair) = TranscriptFile::open(&path).unwrap();
        file.write(&user("on")).unwrap();
        drop(file);

        prop_assert_eq!(&read, &entries[..whole]);
        prop_assert_eq!(repair.map_or(0, |repair| repair.bytes), (at - kept) as u64);
        let again = TranscriptFile::open(&path).unwrap();
        prop_assert_eq!(again.1.len(), whole + 1);
        prop_assert_eq!(again.2, None);
    }
}
