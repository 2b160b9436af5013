//! `lifesign call --json`: one object, every field, in every outcome.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::harness::{Program, Provider};

#[test]
fn a_completed_call_is_told_in_every_field() {
    let provider = Provider::script(
        r#"status 200 sse [x-request-id: req_7]; role; think "Hm. "; think "Yes."
        text "Hello "; text "there"
        tool {"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\""}}
        tool {"index":0,"function":{"arguments":":1}"}}
        finish tool_calls; usage {"prompt_tokens":12,"completion_tokens":3}; done; eof"#,
    );

    let ran = Program::call(&provider.url(), "openai-chat").json().run();

    ran.assert_code(0);
    assert_eq!(ran.stderr, "");
    let gaps = json!({"raw": "MS", "event": "MS", "content": "MS", "output": "MS"});
    let bytes: usize = provider.request().writes.iter().map(|(_, len)| len).sum();
    assert_eq!(
        without_times(ran.report()),
        json!({
            "v": 1, "id": "ID", "outcome": "completed", "failure": null,
            "text": "Hello there", "reasoning": "Hm. Yes.",
            "tool_calls": [
                {"id": "c1", "name": "f", "arguments": "{\"a\":1}", "complete": true}
            ],
            "finish_reason": "tool_calls", "usage": {"input_tokens": 12, "output_tokens": 3},
            "attempts": [{
                "n": 1, "upstream": "127.0.0.1", "outcome": "completed", "bound": null,
                "phase": "after_content", "status": 200, "request_id": "req_7",
                "waited_ms": "MS", "sent_ms": "MS", "headers_ms": "MS", "first_byte_ms": "MS",
                "first_content_ms": "MS", "ended_ms": "MS", "longest_gap_ms": gaps,
                "bytes": bytes, "frames": 10,
                "heartbeats": {"provider": 0, "comment": 0, "proxy": 0}, "notices": 0,
                "late_ms": "MS", "retry_after_ms": null,
                "usage": {"input_tokens": 12, "output_tokens": 3},
            }],
            "elapsed_ms": "MS",
        })
    );
}

#[test]
fn a_cut_call_is_told_in_every_field() {
    let provider = Provider::script(r"status 200 sse; +0.05 comment; hold");

    let ran = Program::call(&provider.url(), "anthropic")
        .set("bounds.raw_silence=300ms")
        .json()
        .run();

    ran.assert_code(5);
    let report = ran.report();
    let limit = &report["failure"]["limit_ms"];
    assert_eq!(limit, 300);
    let ages = report["failure"]["clocks_ms"].clone();
    assert!(
        (300..2_000).contains(&ages["raw"].as_u64().unwrap()),
        "{ages}"
    );
    assert!(ages["event"].as_u64() > ages["raw"].as_u64(), "{ages}");
    let prose = report["failure"].clone();
    for (field, word) in [
        ("message", "(bounds.raw_silence = 300 ms, call)"),
        ("sentence", "The model's server went quiet for 300 ms"),
        ("hint", "raise bounds.raw_silence"),
    ] {
        assert!(prose[field].as_str().unwrap().contains(word), "{prose}");
    }
    let times = json!({"raw": "MS", "event": "MS", "content": "MS", "output": "MS"});
    assert_eq!(
        without_times(report),
        json!({
            "v": 1, "id": "ID", "outcome": "failed",
            "failure": {
                "code": "raw_silent", "bound": "raw_silence", "limit_ms": "MS",
                "setting": "bounds.raw_silence", "origin": "call", "phase": "before_content",
                "message": prose["message"], "sentence": prose["sentence"], "hint": prose["hint"],
                "retryable": true, "partial": false, "status": 200, "retry_after_ms": null,
                "resets_at": null, "stage": null, "request_id": null, "attempt": 1, "of": 1,
                "clocks_ms": times,
            },
            "text": "", "tool_calls": [], "finish_reason": null, "usage": null,
            "attempts": [{
                "n": 1, "upstream": "127.0.0.1", "outcome": "raw_silent", "bound": "raw_silence",
                "phase": "before_content", "status": 200, "request_id": null, "waited_ms": "MS",
                "sent_ms": "MS", "headers_ms": "MS", "first_byte_ms": "MS",
                "first_content_ms": null, "ended_ms": "MS", "longest_gap_ms": times,
                "bytes": 13, "frames": 1,
                "heartbeats": {"provider": 0, "comment": 1, "proxy": 0}, "notices": 0,
                "late_ms": "MS", "retry_after_ms": null, "usage": null,
            }],
            "elapsed_ms": "MS",
        })
    );
}

#[test]
fn every_field_stands_in_its_order() {
    let provider = Provider::scenario("cut-mid-answer");

    let ran = Program::call(&provider.url(), "openai-responses")
        .json()
        .run();

    let report = ran.report();
    assert_eq!(report["outcome"], "truncated");
    let call = fields(&ran.stdout);
    assert_eq!(
        names(&call),
        "v id outcome failure text tool_calls finish_reason usage attempts elapsed_ms"
    );
    let failure = fields(&call[3].1);
    assert_eq!(
        names(&failure),
        "code bound limit_ms setting origin phase message sentence hint retryable partial status \
         retry_after_ms resets_at stage request_id attempt of clocks_ms"
    );
    assert_eq!(names(&fields(&failure[18].1)), "raw event content output");
    let attempt = fields(call[8].1.trim_matches(['[', ']']));
    assert_eq!(
        names(&attempt),
        "n upstream outcome bound phase status request_id waited_ms sent_ms headers_ms \
         first_byte_ms first_content_ms ended_ms longest_gap_ms bytes frames heartbeats notices \
         late_ms retry_after_ms usage"
    );
    assert_eq!(names(&fields(&attempt[13].1)), "raw event content output");
    assert_eq!(names(&fields(&attempt[16].1)), "provider comment proxy");
}

#[test]
fn what_came_of_a_truncated_answer_is_kept() {
    let provider = Provider::scenario("tool-call-cut");

    let report = Program::call(&provider.url(), "openai-chat")
        .json()
        .run()
        .report();

    assert_eq!(report["outcome"], "truncated");
    assert_eq!(report["failure"]["code"], "connection_lost");
    assert_eq!(report["failure"]["partial"], true);
    assert_eq!(
        report["tool_calls"],
        json!([{
            "id": "call_1", "name": "get_weather", "arguments": "{\"city\":\"Os",
            "complete": false
        }])
    );
    assert_eq!(report["finish_reason"], Value::Null);
}

#[test]
fn every_attempt_is_recorded_with_its_wait() {
    let provider = Provider::scenario("rate-limit-wait");

    let report = Program::call(&provider.url(), "anthropic")
        .set("retry.attempts=3")
        .json()
        .run()
        .report();

    assert_eq!(report["outcome"], "completed");
    assert_eq!(report["text"], "Thank you for waiting.");
    let [first, second] = report["attempts"].as_array().unwrap().as_slice() else {
        panic!("{report}");
    };
    assert_eq!(
        (
            &first["outcome"],
            &first["status"],
            &first["retry_after_ms"]
        ),
        (&json!("rate_limited"), &json!(429), &json!(400))
    );
    assert_eq!(
        (&second["n"], &second["outcome"]),
        (&json!(2), &json!("completed"))
    );
    let waited = second["waited_ms"].as_u64().unwrap();
    assert!((400..1_500).contains(&waited), "{waited}");
    let between = second["sent_ms"].as_u64().unwrap() - first["ended_ms"].as_u64().unwrap();
    assert!(between >= 400, "{between}");
}

#[test]
fn an_object_comes_of_a_refused_setting_too() {
    let ran = Program::call("http://127.0.0.1:9", "anthropic")
        .set("bounds.raw_silence=45")
        .json()
        .run();

    let why = r#"bounds.raw_silence: "45" has no unit; accepted: a duration such as "45s" or "2 min", or "off""#;
    ran.assert_code(2).assert_said(why);
    let report = ran.report();
    assert_eq!(report["failure"]["code"], "refused_setting");
    assert_eq!(report["failure"]["message"], why);
    assert_eq!(report["attempts"], json!([]));
}

#[test]
fn every_call_has_an_id_of_its_own() {
    let provider = Provider::scenario("happy");
    let id = || {
        let report = Program::call(&provider.url(), "openai-chat")
            .json()
            .run()
            .report();
        report["id"].as_str().unwrap().to_owned()
    };

    let (first, second) = (id(), id());

    // Time-sortable.
    assert!(first < second, "{first} {second}");
    assert_eq!(first.len(), 36);
}

#[test]
fn every_scenario_ends_in_an_object_that_fits_the_schema() {
    let quick = [
        "attempts=1",
        "transport.first_delay=1ms",
        "overload.first_delay=1ms",
    ];
    let endings: BTreeMap<&str, (&str, &str)> = ENDINGS.into_iter().collect();

    for (scenario, (outcome, code)) in endings {
        let provider = Provider::scenario(scenario);
        let mut call = Program::call(&provider.url(), "anthropic").json();
        for setting in quick {
            call = call.set(&format!("retry.{setting}"));
        }
        let report = call.set("bounds.raw_silence=1s").run().report();

        assert_eq!(report["outcome"], outcome, "{scenario}: {report}");
        let seen = report["failure"]["code"].as_str().unwrap_or_default();
        assert_eq!(seen, code, "{scenario}: {report}");
    }
}

/// Scenarios, and how a call of one attempt ends.
const ENDINGS: [(&str, (&str, &str)); 24] = [
    ("bad-gateway", ("failed", "provider_error")),
    ("crlf", ("completed", "")),
    ("cut-mid-answer", ("truncated", "connection_lost")),
    ("dead-after-headers", ("failed", "raw_silent")),
    ("double-finish", ("completed", "")),
    ("empty", ("failed", "empty")),
    ("error-first", ("failed", "overloaded")),
    ("error-mid-answer", ("failed", "overloaded")),
    ("garbage", ("failed", "unreadable")),
    ("gzip", ("completed", "")),
    ("html", ("failed", "unreadable")),
    ("json-error-in-200", ("failed", "rejected")),
    ("late-usage", ("completed", "")),
    ("length-finish", ("completed", "")),
    ("open-end", ("completed", "")),
    ("overload-storm", ("failed", "overloaded")),
    ("quota", ("failed", "exhausted")),
    ("redirect", ("failed", "rejected")),
    ("reset-before-content", ("failed", "connection_lost")),
    ("reset-mid-answer", ("truncated", "connection_lost")),
    ("server-error", ("failed", "provider_error")),
    ("silence-mid-answer", ("failed", "raw_silent")),
    ("truncated", ("truncated", "truncated")),
    ("whole-json", ("completed", "")),
];

/// Puts a word in the place of every time and id.
fn without_times(mut report: Value) -> Value {
    fn blank(value: &mut Value) {
        match value {
            Value::Array(elements) => elements.iter_mut().for_each(blank),
            Value::Number(_) => *value = "MS".into(),
            Value::Object(fields) => fields.values_mut().for_each(blank),
            _ => {}
        }
    }
    fn walk(value: &mut Value) {
        match value {
            Value::Array(elements) => elements.iter_mut().for_each(walk),
            Value::Object(fields) => {
                for (name, field) in fields {
                    if name.ends_with("_ms") {
                        blank(field);
                    } else {
                        walk(field);
                    }
                }
            }
            _ => {}
        }
    }
    report["id"] = "ID".into();
    walk(&mut report);
    report
}

/// Returns the fields of a JSON object in the order in which they stand.
fn fields(object: &str) -> Vec<(String, String)> {
    let known: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object).unwrap();
    let mut fields: Vec<(String, String)> = known
        .into_iter()
        .map(|(name, value)| (name, value.get().to_owned()))
        .collect();
    // Each field is found where its own name and value stand together.
    fields.sort_by_key(|(name, value)| object.find(&format!("\"{name}\":{value}")).unwrap());
    fields
}

fn names(fields: &[(String, String)]) -> String {
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    names.join(" ")
}

/// A program that reads standard output got nothing for a mistyped flag.
#[test]
fn a_command_line_that_cannot_be_used_gives_an_object_too() {
    for (words, told) in [
        (
            ["call", "--promt", "hi", "--json"].as_slice(),
            "unexpected argument '--promt' found; a similar argument exists: '--prompt'",
        ),
        (
            &["call", "--json", "--base-url", "http://h", "--prompt", "hi"],
            "the following required arguments were not provided: --wire <WIRE>",
        ),
        (
            &["call", "--json", "--max-tokens", "0"],
            "invalid value '0' for '--max-tokens <N>': 0 is not in 1..18446744073709551615",
        ),
        (
            &["config", "check", "--json", "--prompt", "x"],
            "unexpected argument '--prompt' found; to pass '--prompt' as a value, use '-- --prompt'",
        ),
    ] {
        let ran = Program::new(words).run();

        ran.assert_code(2).assert_said("error: ");
        let failure = &ran.report()["failure"];
        assert_eq!(failure["code"], "refused_setting");
        assert_eq!(failure["message"], told);
        assert_eq!(failure["retryable"], false);
    }
}

#[test]
fn a_command_line_that_cannot_be_used_is_told_in_words_where_no_object_is_wanted() {
    let ran = Program::new(&["call", "--promt", "hi"]).run();

    ran.assert_code(2).assert_said("error: unexpected argument");
    assert_eq!(ran.stdout, "");
}
