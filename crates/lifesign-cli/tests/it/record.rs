//! `--record`, and the stand-in that plays it again.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Program, Provider, Running};

#[test]
fn a_replayed_recording_gives_the_same_answer_at_its_own_pace_and_faster() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("call.rec");
    // A second and a half of real time.
    let script =
        "status 200 sse; role; think \"Hm.\"; repeat 0.3 { text \"tick \" } x5; answer \".\"";
    let provider = Provider::script(script);
    let recorded = Program::call(&provider.url(), "anthropic")
        .args(&["--record"])
        .args(&[&file])
        .json()
        .run()
        .report();
    assert_eq!(recorded["text"], "tick tick tick tick tick .");

    for (speed, duration_ms) in [("1", 1_500), ("10", 150)] {
        let (standin, url) = replay(&file, speed);
        let replayed = Program::call(&url, "anthropic").json().run().report();
        drop(standin);

        for field in ["text", "reasoning", "tool_calls", "finish_reason", "usage"] {
            assert_eq!(replayed[field], recorded[field]);
        }
        let attempt = &replayed["attempts"][0];
        assert_eq!(attempt["bytes"], recorded["attempts"][0]["bytes"]);
        let took = attempt["ended_ms"].as_u64().unwrap();
        assert!(
            (duration_ms..duration_ms + 700).contains(&took),
            "{speed}: {took}"
        );
    }
}

#[test]
fn a_call_that_was_cut_is_recorded_as_left() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("call.rec");
    let provider = Provider::scenario("silence-mid-answer");

    let call = Program::call(&provider.url(), "openai-chat")
        .args(&["--record"])
        .args(&[&file]);
    call.set("bounds.raw_silence=300ms").run().assert_code(5);

    let lines = lines(&file);
    assert_eq!(lines.first().unwrap()["lifesign_recording"], 1);
    assert_eq!(lines.last().unwrap()["end"], "left");
}

#[test]
fn a_lost_connection_is_recorded_and_replayed_as_lost() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("call.rec");
    let provider = Provider::scenario("cut-mid-answer");
    let call = Program::call(&provider.url(), "openai-chat")
        .args(&["--record"])
        .args(&[&file]);
    call.run().assert_code(8);
    assert_eq!(lines(&file).last().unwrap()["end"], "lost");

    let (_standin, url) = replay(&file, "5");
    let replayed = Program::call(&url, "openai-chat").run();

    assert_eq!(
        (replayed.code, replayed.stdout.as_str()),
        (8, "The answer is\n")
    );
}

#[test]
fn a_recording_holds_the_attempt_that_answered() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("call.rec");
    let provider = Provider::scenario("bad-gateway");

    Program::call(&provider.url(), "openai-chat")
        .args(&["--record"])
        .args(&[&file])
        .set("retry.attempts=3")
        .set("retry.transport.first_delay=1ms")
        .run()
        .assert_code(0);

    let lines = lines(&file);
    assert_eq!(lines[1]["status"], 200);
    // The answer was whole before its body was.
    assert_eq!(lines.last().unwrap()["end"], "left");
}

#[test]
fn nothing_is_left_where_no_response_came() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("call.rec");

    let ran = Program::call("http://127.0.0.1:9", "openai-chat")
        .args(&["--record"])
        .args(&[&file])
        .run();

    ran.assert_code(8)
        .assert_said("note: nothing was recorded, since no attempt got a response");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_recording_is_whole_or_not_there() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("call.rec");
    let provider = Provider::script("status 200 sse; role; text \"Once\"; hold");

    let call = Program::call(&provider.url(), "openai-chat")
        .args(&["--record"])
        .args(&[&file]);
    let running = call.start();
    running.wait_for_output("Once");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    running.signal("INT");
    running.wait().assert_code(130);

    assert_eq!(lines(&file).last().unwrap()["end"], "left");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_the_call() {
    let provider = Provider::scenario("happy");
    let directory = TempDir::new().unwrap();
    let nowhere = directory.path().join("none/call.rec");

    for (place, why) in [
        (directory.path(), "is a directory"),
        (
            &nowhere,
            "cannot be written: No such file or directory (os error 2)",
        ),
    ] {
        let call = Program::call(&provider.url(), "openai-chat").args(&["--record"]);
        let ran = call.args(&[place]).run();

        ran.assert_refused(&format!("--record: {} {why}", place.display()));
    }
    assert!(provider.requests().is_empty());
}

#[test]
fn a_recording_that_breaks_off_is_refused() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("call.rec");
    let provider = Provider::scenario("happy");
    let call = Program::call(&provider.url(), "openai-chat")
        .args(&["--record"])
        .args(&[&file]);
    call.run().assert_code(0);
    let whole = fs::read(&file).unwrap();
    let last_line = whole[..whole.len() - 1]
        .iter()
        .rposition(|&byte| byte == b'\n')
        .unwrap()
        + 1;

    let lines = lines(&file).len() - 1;

    fs::write(&file, &whole[..last_line]).unwrap();
    let ran = Program::new(&["standin", "--replay"]).args(&[&file]).run();
    ran.assert_refused(&format!(
        "--replay: {}: line {} of the recording: the recording is cut off: a line with end must be \
         the last",
        file.display(),
        lines
    ));

    fs::write(&file, &whole[..last_line - 20]).unwrap();
    let ran = Program::new(&["standin", "--replay"]).args(&[&file]).run();
    ran.assert_code(2)
        .assert_said(&format!("error: --replay: {}: ", file.display()));
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
}

/// Starts the stand-in on a recording; returns it and where it listens.
fn replay(file: &Path, speed: &str) -> (Running, String) {
    let standin = Program::new(&["standin", "--speed", speed, "--replay"])
        .args(&[file])
        .start();
    let rest = standin.wait_for_note("listening at ");
    let url = rest.split(';').next().unwrap().to_owned();
    (standin, url)
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
