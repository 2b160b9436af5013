//! Conversations that outlive their program, and turns that are gone on with.

use std::fs::OpenOptions;
use std::io::Write as _;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Program, Provider, wait_until};
use crate::run::{Place, calls};

fn turn(provider: &Provider, place: &Place) -> Program {
    Program::turn(&provider.url()).args(&[
        "--transcript".as_ref(),
        place.path("talk.jsonl").as_os_str(),
    ])
}

/// A turn that may run programs in the shell.
fn working(provider: &Provider, place: &Place) -> Program {
    turn(provider, place)
        .args(&["--tools", "run", "--shell", "--dir"])
        .args(&[place.0.path()])
}

/// Returns the roles and texts of request `at`, counted from 0.
fn sent(provider: &Provider, at: usize) -> Vec<String> {
    let sent = provider.requests()[at].json();
    let messages = sent["messages"].as_array().unwrap();
    let line = |message: &Value| {
        let content = message["content"].as_str().unwrap_or_default();
        format!("{}: {content}", message["role"].as_str().unwrap())
    };
    messages.iter().map(line).collect()
}

#[test]
fn a_conversation_in_a_file_goes_on_with_each_program() {
    let provider =
        Provider::script("attempt 1: answer \"At six.\"\nattempt 2: answer \"A six heures.\"");
    let place = Place::new();

    let first = turn(&provider, &place)
        .args(&["--prompt", "When?"])
        .json()
        .run();
    let second = turn(&provider, &place)
        .args(&["--prompt", "In French?"])
        .json()
        .run();

    let (first, second) = (first.turn_report(), second.turn_report());
    assert_eq!((&first["turn"], &second["turn"]), (&json!(1), &json!(2)));
    assert_eq!(first["id"], second["id"]);
    assert_eq!(
        sent(&provider, 1),
        ["user: When?", "assistant: At six.", "user: In French?"]
    );
}

#[test]
fn a_turn_killed_while_the_model_answers_loses_the_unfinished_call_and_nothing_else() {
    let provider = Provider::script(&format!(
        "attempt 1: text \"I note it.\"; {}\nattempt 2: text \"Half of\"; hold\n\
         attempt 3: answer \"All of it.\"",
        calls(&[("c1", "run", json!({"command": "echo once >> written"}))])
    ));
    let place = Place::new();
    let running = working(&provider, &place).args(&["--prompt", "go"]).start();
    running.wait_for_output("Half of");

    running.signal("KILL");
    wait_until("it is gone", || running.is_over());
    let ran = working(&provider, &place)
        .args(&["--resume", "--json"])
        .run();

    let report = ran.turn_report();
    assert_eq!((ran.code, &report["text"]), (0, &json!("All of it.")));
    assert_eq!(report["turn"], 1);
    assert_eq!(place.text("written"), "once\n");
    let before = sent(&provider, 1);
    assert_eq!(sent(&provider, 2), before);
    assert_eq!(&before[..2], ["user: go", "assistant: I note it."]);
    assert_eq!(
        place.entries("talk.jsonl"),
        [
            "begin",
            "user",
            "answer",
            "tool_began",
            "tool_ended",
            "resumed",
            "answer",
            "ended"
        ]
    );
}

#[test]
fn a_tool_that_ran_when_its_program_was_killed_is_not_run_again() {
    let wait = "echo first >> written; while [ -e written ] && [ ! -e go ]; do sleep 0.02; done";
    let provider = Provider::script(&format!(
        "attempt 1: {}\nattempt 2: answer \"Done.\"",
        calls(&[
            ("c1", "run", json!({"command": wait})),
            ("c2", "run", json!({"command": "echo second >> written"})),
        ])
    ));
    let place = Place::new();
    let running = working(&provider, &place).args(&["--prompt", "go"]).start();
    wait_until("the tool runs", || place.text("written") == "first\n");

    running.signal("KILL");
    wait_until("it is gone", || running.is_over());
    let ran = working(&provider, &place)
        .args(&["--resume", "--json"])
        .run();
    // What the dead program had started is nobody's any more.
    place.write("go", "");

    assert_eq!((ran.code, &ran.turn_report()["text"]), (0, &json!("Done.")));
    assert_eq!(place.text("written"), "first\nsecond\n");
    let told = sent(&provider, 1);
    assert!(told[2].contains("is unknown"), "{told:?}");
    assert_eq!(provider.requests().len(), 2);
}

#[test]
fn whoever_resumes_without_the_tools_of_before_is_told() {
    let provider = Provider::script(&format!(
        "attempt 1: {}\nattempt 2: hold\nattempt 3: answer \"Done.\"",
        calls(&[("c1", "run", json!({"command": "true"}))])
    ));
    let place = Place::new();
    let running = working(&provider, &place).args(&["--prompt", "go"]).start();
    wait_until("the second call", || provider.requests().len() == 2);
    running.signal("KILL");
    wait_until("it is gone", || running.is_over());

    let ran = turn(&provider, &place).args(&["--resume"]).run();

    ran.assert_code(0).assert_said(
        "note: the turn called tools that are not given now: run; --tools and --mcp give them as \
         before\n",
    );
}

#[test]
fn a_long_limit_ends_the_program_and_nobody_is_asked_before_it_has_reset() {
    let provider = Provider::script(
        "attempt 1: status 429 json [retry-after: 600]; error rate_limit_error; eof\n\
         attempt 2: answer \"At last.\"",
    );
    let place = Place::new();

    let ran = turn(&provider, &place).args(&["--prompt", "go"]).run();
    ran.assert_code(7)
        .assert_said("provider_failed: ")
        .assert_said(&format!(
            "on, --transcript {} --resume goes on with it",
            place.path("talk.jsonl").display()
        ));

    let before = place.text("talk.jsonl");
    let early = turn(&provider, &place).args(&["--resume"]).run();
    early
        .assert_code(7)
        .assert_said("the last turn waits for a limit that is reset at 20")
        .assert_said(": --resume goes on with it then, and with --now all the same\n");
    let report = turn(&provider, &place)
        .args(&["--resume"])
        .json()
        .run()
        .turn_report();
    let failure = &report["failure"];
    assert_eq!(report["outcome"], "provider_failed");
    assert_eq!(
        (&failure["code"], &failure["setting"]),
        (&json!("exhausted"), &json!("--now"))
    );
    assert_eq!(report["wake_at"], failure["resets_at"]);
    assert!(before.contains(report["wake_at"].as_str().unwrap()));
    assert_eq!(
        (&report["turn"], &report["counts"]["calls"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(provider.requests().len(), 1);
    assert_eq!(place.text("talk.jsonl"), before);

    let ran = turn(&provider, &place).args(&["--resume", "--now"]).run();
    ran.assert_code(0).assert_told("At last.\n");
    assert_eq!(sent(&provider, 1), ["user: go"]);
}

#[test]
fn the_object_says_when_a_long_limit_resets() {
    let provider =
        Provider::script("status 429 json [retry-after: 600]; error rate_limit_error; eof");

    let ran = Program::turn(&provider.url())
        .args(&["--prompt", "go"])
        .json()
        .run();

    let report = ran.turn_report();
    assert_eq!(
        (ran.code, &report["failure"]["code"]),
        (7, &json!("exhausted"))
    );
    assert!(report["wake_at"].is_string());
    assert!(report["times_ms"]["elapsed"].as_u64().unwrap() < 5_000);
}

#[test]
fn a_turn_that_is_over_is_not_gone_on_with() {
    let provider = Provider::script("answer \"ok\"");
    let place = Place::new();
    turn(&provider, &place)
        .args(&["--prompt", "go"])
        .run()
        .assert_code(0);

    let ran = turn(&provider, &place).args(&["--resume"]).run();

    ran.assert_refused(&format!(
        "--resume: the last turn of {} is over: completed; accepted: a transcript whose last turn \
         did not end or waits for a limit; give a prompt instead to begin the next turn",
        place.path("talk.jsonl").display()
    ));
    let report = turn(&provider, &place)
        .args(&["--resume"])
        .json()
        .run()
        .turn_report();
    assert_eq!(report["failure"]["setting"], "--resume");
    assert_eq!(
        report["failure"]["hint"],
        "give a prompt instead to begin the next turn"
    );
    assert_eq!(provider.requests().len(), 1);
}

#[test]
fn a_prompt_gives_up_an_open_turn_and_says_so() {
    let provider = Provider::script("attempt 1: hold\nattempt 2: answer \"ok\"");
    let place = Place::new();
    let running = turn(&provider, &place).args(&["--prompt", "first"]).start();
    provider.wait_for_request();
    running.signal("KILL");
    wait_until("it is gone", || running.is_over());

    let ran = turn(&provider, &place).args(&["--prompt", "second"]).run();

    ran.assert_code(0)
        .assert_said("note: turn 1 in ")
        .assert_said(
            "did not end and is given up; --resume instead of a prompt would have gone on with it",
        );
    assert_eq!(ran.stdout, "ok\n");
    assert!(sent(&provider, 1)[0].starts_with("user: first"));
}

#[test]
fn a_torn_line_is_taken_off_and_told() {
    let provider = Provider::script("answer \"ok\"");
    let place = Place::new();
    turn(&provider, &place)
        .args(&["--prompt", "one"])
        .run()
        .assert_code(0);
    let mut file = OpenOptions::new()
        .append(true)
        .open(place.path("talk.jsonl"))
        .unwrap();
    file.write_all(b"{\"type\":\"us").unwrap();

    let ran = turn(&provider, &place).args(&["--prompt", "two"]).run();

    ran.assert_code(0)
        .assert_said("note: 11 bytes of a torn line are taken off the end of ");
    assert_eq!(sent(&provider, 1).last().unwrap(), "user: two");
}

#[test]
fn a_transcript_that_another_program_has_is_refused() {
    let provider = Provider::script("attempt 1: hold\nattempt 2: answer \"ok\"");
    let place = Place::new();
    let running = turn(&provider, &place).args(&["--prompt", "one"]).start();
    provider.wait_for_request();

    let second = turn(&provider, &place).args(&["--prompt", "two"]).run();

    second.assert_refused(&format!(
        "--transcript: transcript {} is in use by another program",
        place.path("talk.jsonl").display()
    ));
    drop(running);
}
