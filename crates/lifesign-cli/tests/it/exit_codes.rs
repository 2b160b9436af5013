//! One exit code for each kind of ending.

use std::collections::BTreeMap;

use lifesign_core::FailureCode;

use crate::harness::{Program, Provider, Ran};

#[test]
fn completed_is_0() {
    assert_eq!(happened("happy", &[]).code, 0);
}

#[test]
fn an_answer_at_its_limit_is_0_too() {
    assert_eq!(happened("length-finish", &[]).code, 0);
}

#[test]
fn a_refused_setting_is_2_and_nothing_is_sent() {
    let provider = Provider::scenario("happy");

    let ran = Program::call(&provider.url(), "anthropic")
        .set("bounds.headers=-1s")
        .run();

    ran.assert_code(2);
    assert!(provider.requests().is_empty());
}

#[test]
fn an_answer_without_its_end_is_3() {
    assert_eq!(happened("truncated", &[]).code, 3);
}

#[test]
fn a_provider_that_fails_or_refuses_is_4() {
    for scenario in [
        "wrong-key",
        "server-error",
        "html",
        "empty",
        "overload-storm",
        "too-large",
    ] {
        happened(scenario, &[]).assert_code(4);
    }
}

#[test]
fn a_bound_that_ran_out_is_5() {
    let ran = happened("silence", &["bounds.raw_silence=200ms"]);

    ran.assert_code(5)
        .assert_said("The model's server went quiet for 200 ms");
}

#[test]
fn the_wall_clock_is_6() {
    let ran = happened("reasoning-only", &["bounds.wall_clock=300ms"]);

    ran.assert_code(6)
        .assert_said("bounds.wall_clock = 300 ms, call");
}

#[test]
fn a_rate_limit_and_an_empty_purse_are_7() {
    happened("rate-limit-wait", &[]).assert_code(7);
    happened("quota", &[]).assert_code(7);
}

#[test]
fn a_connection_that_fails_is_8() {
    happened("cut-mid-answer", &[]).assert_code(8);
    happened("reset-before-content", &[]).assert_code(8);
    // Nobody listens on the port of discard.
    Program::call("http://127.0.0.1:9", "anthropic")
        .run()
        .assert_code(8);
}

#[test]
fn the_page_has_each_failure_in_the_row_of_its_exit_code_and_what_ends_with_9() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/exit-codes.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
    let rows: Vec<Vec<String>> = page
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(cells)
        .collect();
    let mut expected = BTreeMap::<String, Vec<String>>::new();
    for code in FailureCode::ALL {
        let row = expected.entry(code.exit_code().to_string()).or_default();
        row.push(format!("`{}`", code.name()));
    }

    for (exit, mut codes) in expected {
        codes.sort();
        let row = rows.iter().find(|row| row[1] == exit).unwrap();
        assert_eq!(row[3], codes.join(", "), "{exit}");
    }
    let row = rows.iter().find(|row| row[1] == "9").unwrap();
    assert!(row[2].contains("`no_reply`"), "{row:?}");
}

#[track_caller]
fn happened(scenario: &str, settings: &[&str]) -> Ran {
    let provider = Provider::scenario(scenario);
    let call = Program::call(&provider.url(), "anthropic");
    let call = settings
        .iter()
        .fold(call, |call, setting| call.set(setting));
    call.run()
}

/// A result that could not be written was called a setting that cannot be used.
#[cfg(unix)]
#[test]
fn a_result_that_standard_output_cannot_take_exits_1_whatever_the_command() {
    let provider = Provider::scenario("happy");
    let call = || Program::call(&provider.url(), "anthropic");
    for program in [
        Program::new(&["demo", "--speed", "100"]),
        Program::new(&["demo", "--speed", "100", "--json"]),
        Program::new(&["schema"]),
        Program::new(&["completions", "bash"]),
        Program::new(&["standin", "--list"]),
        Program::new(&[
            "config",
            "explain",
            "--base-url",
            "http://h",
            "--wire",
            "anthropic",
        ]),
        call(),
        call().json(),
    ] {
        let Some(ran) = program.run_on_a_full_disk() else {
            println!("skipped: there is no /dev/full");
            return;
        };

        assert_eq!(
            (ran.code, ran.stderr.lines().last().unwrap_or_default()),
            (
                1,
                "error: standard output cannot be written: No space left on device (os error 28)"
            )
        );
    }
}
