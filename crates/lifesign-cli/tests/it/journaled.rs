//! `--journal`: what is found in the file of a call that ended well, badly, or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Program, Provider, Ran, wait_until};

fn place() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("calls.db");
    (directory, path)
}

/// A call that is written down in a file.
fn call(provider: &Provider, path: &Path) -> Program {
    Program::call(&provider.url(), "openai-chat")
        .args(&["--journal"])
        .args(&[path])
}

fn open(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn number(path: &Path, sql: &str) -> i64 {
    open(path).query_row(sql, [], |row| row.get(0)).unwrap()
}

fn report(path: &Path) -> Value {
    let ran = Program::new(&["report", "--json", "--journal"])
        .args(&[path])
        .run();
    ran.assert_code(0);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_call_and_its_attempts_are_found_with_what_cut_them_and_how_long_each_clock_stood() {
    let (_directory, path) = place();
    let provider = Provider::script(
        "attempt 1: status 200 sse; hold\nattempt 2+: status 200 sse; answer \"ok\"",
    );

    let ran = call(&provider, &path)
        .set("retry.attempts=2")
        .set("retry.cut.first_delay=1ms")
        .set("bounds.raw_silence=300ms")
        .json()
        .run();

    let told = ran.report();
    let (id, attempts): (String, i64) = open(&path)
        .query_row("SELECT id, attempts FROM calls", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!((Value::from(id), attempts), (told["id"].clone(), 2));
    let (setting, origin, gaps): (String, String, String) = open(&path)
        .query_row(
            "SELECT setting, origin, gaps FROM attempts WHERE outcome = 'raw_silent'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert_eq!(
        (setting.as_str(), origin.as_str()),
        ("bounds.raw_silence", "call")
    );
    let gaps: Value = serde_json::from_str(&gaps).unwrap();
    assert!(
        gaps["before_content"]["raw"]["longest_ms"]
            .as_u64()
            .unwrap()
            >= 300
    );
    let report = report(&path);
    assert_eq!(report["calls"]["completed"], 1);
    assert_eq!(report["attempts"][0]["attempts"], 2);
    assert_eq!(report["by_bound"][0]["setting"], "bounds.raw_silence");
    assert_eq!(report["silences"][0]["phase"], "before_content");
    assert_eq!(
        number(&path, "SELECT count(*) FROM runs WHERE stopped_at > 0"),
        1
    );
}

#[test]
fn a_call_that_somebody_ends_is_found_as_cancelled() {
    let (_directory, path) = place();
    let provider = Provider::script("status 200 sse; role; text \"First\"; hold");
    let running = call(&provider, &path).start();
    running.wait_for_output("First");

    running.signal("INT");

    running.wait().assert_code(130);
    let cut = "SELECT count(*) FROM calls JOIN attempts ON call = id
               WHERE calls.outcome = 'cancelled' AND cut_bytes > 0";
    assert_eq!(number(&path, cut), 1);
}

#[test]
fn of_a_call_that_is_killed_its_start_is_found() {
    let (_directory, path) = place();
    let provider = Provider::script("status 200 sse; hold");
    let running = call(&provider, &path).start();
    // The start is written before anything is sent.
    provider.wait_for_request();

    running.signal("KILL");

    wait_until("it is gone", || running.is_over());
    assert_eq!(number(&path, "SELECT count(*) FROM starts"), 1);
    assert_eq!(number(&path, "SELECT count(*) FROM ends"), 0);
    assert_eq!(report(&path)["calls"]["in_flight"], 1);
    // Whom it asks is not written yet, so no filter may hide it.
    let at_another = Program::new(&["report", "--upstream", "another", "--journal"])
        .args(&[path.as_os_str()])
        .run();
    assert_eq!(
        at_another.stdout,
        "1 call in all: 1 in flight; 1 without an end may be elsewhere: where is written when an \
         attempt ends\n"
    );
    // Half a minute later.
    let connection = Connection::open(&path).unwrap();
    let sql = "UPDATE runs SET seen_at = seen_at - 31000";
    connection.execute(sql, []).unwrap();
    assert_eq!(report(&path)["calls"]["unknown"], 1);
}

#[test]
fn ten_calls_at_once_make_one_journal_and_lose_nothing() {
    let (_directory, path) = place();
    let provider = Provider::script("status 200 sse; role; +0.1 answer \"ok\"");

    let running: Vec<_> = (0..10).map(|_| call(&provider, &path).start()).collect();

    for running in running {
        let ran = running.wait();
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "ok\n"), "{ran:?}");
        assert!(!ran.stderr.contains("journal"), "{ran:?}");
    }
    let told = report(&path);
    assert_eq!(told["calls"]["completed"], 10, "{told}");
    assert_eq!(told["attempts"][0]["calls"], 10);
    assert_eq!(told["lost"]["records"], 0);
    assert_eq!(
        number(&path, "SELECT count(*) FROM runs WHERE stopped_at > 0"),
        10
    );
    let integrity: String = open(&path)
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(integrity, "ok");
}

#[test]
fn a_journal_that_cannot_be_used_is_refused_before_anything_is_sent() {
    let (directory, path) = place();
    let provider = Provider::script("answer \"ok\"");
    let away = directory.path().join("nowhere/calls.db");
    fs::write(
        &path,
        "no journal, and long enough to be taken for a database",
    )
    .unwrap();

    let nowhere = call(&provider, &away).run();
    let other = call(&provider, &path).json().run();
    let unnamed = Program::call(&provider.url(), "openai-chat")
        .args(&["--journal"])
        .run();

    nowhere.assert_refused(&format!(
        "--journal: {}: its directory cannot be used: No such file or directory (os error 2)",
        away.display()
    ));
    assert_eq!(other.report()["failure"]["code"], "refused_setting");
    other.assert_said("file is not a database");
    unnamed.assert_refused("--journal: no file is named; give --journal FILE, or set journal.path");
    assert_eq!(provider.requests().len(), 0);
}

#[test]
fn a_journal_without_a_file_is_the_one_of_the_settings_and_a_file_alone_keeps_none() {
    let (directory, path) = place();
    let provider = Provider::script("answer \"ok\"");
    let config = directory.path().join("lifesign.toml");
    fs::write(&config, "[journal]\npath = \"calls.db\"\n").unwrap();
    let ask = || {
        Program::call(&provider.url(), "openai-chat")
            .args(&["--config"])
            .args(&[&config])
    };

    ask().run().assert_code(0);
    assert!(!path.exists());
    ask().args(&["--journal"]).run().assert_code(0);

    assert_eq!(report(&path)["calls"]["completed"], 1);
}

/// A gateway that shares the file may keep calls for longer than the default.
#[test]
fn a_call_removes_only_what_was_said_to_be_too_old() {
    let (_directory, path) = place();
    let provider = Provider::script("answer \"ok\"");
    call(&provider, &path).run().assert_code(0);
    let connection = Connection::open(&path).unwrap();
    let years_ago = "UPDATE starts SET at = 1; UPDATE ends SET at = 1; UPDATE attempts SET at = 1";
    connection.execute_batch(years_ago).unwrap();
    drop(connection);

    call(&provider, &path).run().assert_code(0);
    assert_eq!(report(&path)["calls"]["total"], 2);
    call(&provider, &path)
        .set("journal.keep=7 days")
        .run()
        .assert_code(0);

    assert_eq!(report(&path)["calls"]["total"], 2);
}

#[test]
fn a_journal_that_breaks_midway_is_told_and_changes_nothing_for_the_call() {
    let directory = TempDir::new().unwrap();
    let home = directory.path().join("home");
    fs::create_dir(&home).unwrap();
    let provider = Provider::script("status 200 sse; role; text \"First\"; +0.5 answer \" last\"");
    let running = call(&provider, &home.join("calls.db")).start();
    running.wait_for_output("First");

    fs::rename(&home, directory.path().join("away")).unwrap();

    let ran: Ran = running.wait();
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "First last\n"));
    ran.assert_said("calls.db lacks a call or a part of one: ")
        .assert_said("its directory cannot be used");
}
