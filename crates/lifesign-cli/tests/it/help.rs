//! `--help` that teaches, and completions.

use std::io::Write;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::harness::Program;

#[test]
fn the_program_says_what_it_does_and_where_to_start() {
    assert_snapshot!(said(&["--help"]));
}

#[test]
fn a_call_is_explained_with_examples_and_exit_codes() {
    assert_snapshot!(said(&["call", "--help"]));
}

#[test]
fn a_run_is_explained_with_examples_and_exit_codes() {
    assert_snapshot!(said(&["run", "--help"]));
}

#[test]
fn every_command_explains_itself() {
    for command in [
        "call",
        "config",
        "demo",
        "report",
        "run",
        "serve",
        "standin",
        "top",
        "completions",
        "schema",
    ] {
        let help = said(&[command, "--help"]);

        assert!(
            help.contains(&format!("Usage: lifesign {command}")),
            "{help}"
        );
        assert!(
            help.lines().all(|line| line.chars().count() <= 100),
            "{help}"
        );
    }
    for command in ["explain", "check"] {
        assert!(said(&["config", command, "--help"]).contains("--max-tokens"));
    }
}

#[test]
fn a_mistyped_flag_is_answered_with_the_nearest() {
    let ran = Program::new(&["call", "--promt", "hi"]).run();

    ran.assert_code(2)
        .assert_said("--promt")
        .assert_said("--prompt");
}

#[test]
fn completions_know_the_commands_in_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = said(&["completions", shell]);

        for word in [
            "lifesign",
            "standin",
            "explain",
            "prompt-file",
            "max-tokens",
        ] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn completions_know_the_names_that_an_argument_takes() {
    for (shell, between, behind) in [
        ("bash", " ", "\""),
        ("zsh", " ", ")"),
        ("fish", "\\t''\n", ""),
    ] {
        let script = said(&["completions", shell]);

        for (names, count) in [
            (["openai-chat", "openai-responses", "anthropic"], 5),
            (["progress", "patient", "harness"], 5),
        ] {
            let list = names.join(between) + behind;
            assert_eq!(script.matches(&list).count(), count, "{shell}: {list}");
        }
        assert!(script.contains(&format!("drip{between}")), "{shell}");
    }
}

#[test]
fn bash_can_read_its_completions() {
    let script = said(&["completions", "bash"]);
    let Ok(mut bash) = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn() else {
        println!("skipped: there is no bash");
        return;
    };

    bash.stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();

    assert!(bash.wait().unwrap().success());
}

#[test]
fn a_script_that_nobody_reads_is_no_failure() {
    let ran = Program::new(&["completions", "zsh"])
        .start_without_reader()
        .wait();

    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn the_stand_in_lists_its_scenarios() {
    let list = said(&["standin", "--list"]);

    assert!(
        list.contains("pings-only              Heartbeats and never an answer\n"),
        "{list}"
    );
}

fn said(words: &[&str]) -> String {
    let ran = Program::new(words).run();
    ran.assert_code(0);
    assert_eq!(ran.stderr, "");
    ran.stdout
}
