//! `--json`: one object for each way in which a turn ends, and the exit code that agrees with it.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Program, Provider, Ran};
use crate::run::calls;

/// Plays a turn against a script; `more` are arguments besides.
fn played(script: &str, more: &[&str]) -> (Ran, Value) {
    let provider = Provider::script(script);
    let ran = Program::turn(&provider.url())
        .set("bounds.raw_silence=200ms")
        .args(&["--prompt", "6 * 7?"])
        .args(more)
        .json()
        .run();
    let report = ran.turn_report();
    assert_eq!(ran.stderr, "");
    assert_eq!(report["counts"]["attempts"], provider.requests().len());
    (ran, report)
}

#[track_caller]
fn assert_ends(script: &str, more: &[&str], outcome: &str, code: Option<&str>, exit: i32) -> Value {
    let (ran, report) = played(script, more);
    let failure = report["failure"]["code"].as_str();
    assert_eq!(
        (report["outcome"].as_str(), failure, ran.code),
        (Some(outcome), code, exit)
    );
    report
}

#[test]
fn an_answer_is_completed_and_0() {
    let report = assert_ends("answer \"42\"", &[], "completed", None, 0);

    assert_eq!((&report["v"], &report["turn"]), (&json!(1), &json!(1)));
    assert_eq!(report["text"], "42");
    assert_eq!(report["finish_reason"], "stop");
    assert_eq!(report["counts"]["rounds"], 1);
    assert!(report["usage"]["output_tokens"].is_number());
}

#[test]
fn a_model_that_says_nothing_is_no_reply_and_9() {
    let report = assert_ends("answer \"\"", &[], "no_reply", None, 9);

    assert_eq!(report["counts"]["nudges"], 3);
    assert!(report["note"].is_null());
}

#[test]
fn no_fault_of_a_provider_is_a_missing_reply() {
    let script = "status 200 sse; eof";
    assert_ends(script, &[], "provider_failed", Some("empty"), 4);
    let script = "status 200 sse; hold";
    assert_ends(script, &[], "provider_failed", Some("raw_silent"), 5);
    let script = "status 401 json; error authentication_error; eof";
    assert_ends(script, &[], "provider_failed", Some("rejected"), 4);
    let script = "status 429 json [retry-after-ms: 5]; error rate_limit_error; eof";
    assert_ends(script, &[], "provider_failed", Some("rate_limited"), 7);
    let report = assert_ends("rst", &[], "provider_failed", Some("connection_lost"), 8);
    assert!(report["note"].as_str().unwrap().contains("made again"));
}

#[test]
fn an_answer_without_its_end_is_truncated_with_the_code_of_what_ended_it() {
    let part = |(n, text)| format!("attempt {n}: status 200 sse; text \"{text}\"; rst");
    let parts: Vec<_> = (1..=4).zip(["a", "b", "c", "d"]).map(part).collect();
    let script = parts.join("\n");
    let report = assert_ends(&script, &[], "truncated", Some("connection_lost"), 8);
    assert_eq!(report["text"], "abcd");
    assert_eq!(report["counts"]["recoveries"], 3);
    let script = "status 200 sse; text \"4\"; eof";
    assert_ends(script, &[], "truncated", Some("truncated"), 3);
    let script = "text \"4\"; finish \"length\"; done; eof";
    assert_ends(script, &[], "truncated", None, 3);
}

#[test]
fn the_wall_clock_of_the_turn_is_6_whatever_is_under_way() {
    let more = ["--wall-clock", "400ms"];
    let script = "status 200 sse; repeat 0.02 { text \"4\" } forever";
    let report = assert_ends(script, &more, "wall_timeout", Some("wall_clock"), 6);
    assert!(report["text"].as_str().unwrap().starts_with("444"));
    assert_eq!(report["failure"]["limit_ms"], 400);

    let script = calls(&[("c1", "run", json!({"command": ["sleep", "60"]}))]);
    let more = ["--wall-clock", "400ms", "--tools", "run", "--dir", "."];
    let report = assert_ends(&script, &more, "wall_timeout", Some("wall_clock"), 6);
    assert!(
        report["times_ms"]["tools"].as_u64().unwrap() >= 100,
        "{report}"
    );
    let failure = &report["failure"];
    assert_eq!(failure["setting"], "--wall-clock");
    assert_eq!(
        failure["message"],
        "the time for the turn ran out while tool `run` ran (--wall-clock = 400 ms, call)"
    );
    assert_eq!(
        report["sentence"],
        "The 400 ms you allowed ran out while a tool was running; ask for less or allow more."
    );
}

#[test]
fn fields_of_the_body_and_the_most_reminders_can_be_given() {
    let provider = Provider::script("answer \"\"");
    let ran = Program::turn(&provider.url())
        .args(&["--prompt", "go", "--reminders", "0", "--json"])
        .args(&["--extra", "temperature=0.2", "--extra", "stop=[\"END\"]"])
        .run();

    assert_eq!(
        (ran.code, &ran.turn_report()["counts"]["nudges"]),
        (9, &json!(0))
    );
    let sent = provider.request().json();
    assert_eq!(
        (&sent["temperature"], &sent["stop"]),
        (&json!(0.2), &json!(["END"]))
    );
}

#[test]
fn an_answer_that_a_filter_holds_back_is_the_providers_doing() {
    let script = "text \"\"; finish \"content_filter\"; done; eof";
    assert_ends(script, &[], "provider_failed", None, 4);
    let script = "text \"4\"; finish \"content_filter\"; done; eof";
    assert_ends(script, &[], "truncated", None, 3);
}

/// The profile asks for a wall clock, and that of the turn is one.
#[test]
fn the_wall_clock_of_the_turn_is_enough_for_a_profile_that_wants_one() {
    let more = ["--profile", "harness", "--wall-clock", "10s"];
    assert_ends("answer \"42\"", &more, "completed", None, 0);

    let more = ["--profile", "harness"];
    let provider = Provider::script("answer \"42\"");
    let ran = Program::turn(&provider.url())
        .args(&["--prompt", "6 * 7?"])
        .args(&more)
        .run();
    ran.assert_code(2)
        .assert_said("bounds.wall_clock: is not set")
        .assert_said("give --wall-clock for the whole turn");
}

#[test]
fn a_model_that_does_nothing_but_call_tools_is_ended_as_no_reply() {
    let script = calls(&[("c1", "list", json!({}))]);
    let more = ["--max-rounds", "3", "--tools", "list", "--dir", "."];

    let report = assert_ends(&script, &more, "no_reply", None, 9);

    assert_eq!(report["counts"]["tool_calls"], 3);
    assert!(
        report["sentence"]
            .as_str()
            .unwrap()
            .contains("in 3 answers"),
        "{report}"
    );
}

#[test]
fn a_turn_is_sent_again_only_where_that_is_asked_for() {
    let script = "attempt 1-6: status 500 json; error server_error; eof\nattempt 7: answer \"42\"";
    let report = assert_ends(script, &["--resend=20ms,30ms"], "completed", None, 0);
    assert_eq!(report["counts"]["resends"], 2);
    assert!(report["times_ms"]["waiting"].as_u64().unwrap() >= 50);

    let report = assert_ends(script, &[], "provider_failed", Some("provider_error"), 4);
    assert_eq!(report["counts"]["resends"], 0);
}

#[test]
fn a_context_that_is_nearly_full_is_summed_up() {
    let provider = Provider::script(&format!(
        "attempt 1: {}\nattempt 2: {}\nattempt 3+: answer \"42\"",
        calls(&[("c1", "read", json!({"path": "Cargo.toml"}))]),
        calls(&[("c2", "read", json!({"path": "Cargo.toml"}))]),
    ));

    let ran = Program::turn(&provider.url())
        .args(&["--prompt", "Look.", "--context-tokens", "900"])
        .args(&["--tools", "read", "--dir", env!("CARGO_MANIFEST_DIR")])
        .json()
        .run();

    let counts = &ran.turn_report()["counts"];
    let saved = counts["compactions"].as_u64().unwrap() + counts["elisions"].as_u64().unwrap();
    assert!(saved > 0, "{counts}");
}
