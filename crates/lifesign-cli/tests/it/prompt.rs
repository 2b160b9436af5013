//! What is asked: a prompt from anywhere, or a whole body that is sent as it is.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Program, Provider};

#[test]
fn a_prompt_comes_from_the_command_line() {
    let provider = Provider::scenario("happy");

    Program::call(&provider.url(), "openai-chat")
        .run()
        .assert_code(0);

    assert_eq!(
        asked(&provider),
        json!([{"role": "user", "content": "hello"}])
    );
    assert_eq!(provider.request().path, "/v1/chat/completions");
}

#[test]
fn a_prompt_comes_from_standard_input() {
    let provider = Provider::scenario("happy");

    let call = Program::call_without_prompt(&provider.url(), "openai-chat");
    call.input("wie geht's?\n".as_bytes()).run().assert_code(0);

    assert_eq!(
        asked(&provider),
        json!([{"role": "user", "content": "wie geht's?\n"}])
    );
}

#[test]
fn a_prompt_comes_from_a_file() {
    let provider = Provider::scenario("happy");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("prompt.txt");
    fs::write(&file, "a long story").unwrap();

    let call = Program::call_without_prompt(&provider.url(), "openai-chat");
    call.args(&["--prompt-file"])
        .args(&[file])
        .run()
        .assert_code(0);

    assert_eq!(
        asked(&provider),
        json!([{"role": "user", "content": "a long story"}])
    );
}

#[test]
fn model_and_max_tokens_are_asked_for() {
    let provider = Provider::scenario("happy");

    let call = Program::call(&provider.url(), "anthropic").args(&["--max-tokens", "77"]);
    call.run().assert_code(0);

    let body = provider.request().json();
    assert_eq!(
        (&body["model"], &body["max_tokens"]),
        (&json!("m"), &json!(77))
    );
    assert_eq!(body["stream"], true);
}

#[test]
fn a_request_is_sent_byte_for_byte() {
    let body = br#"{ "stream" :true,  "model":"odd",
        "messages":[{"role":"user","content":"\u00e9 1e2"}],"temperature":1.0e0, "x":[1,  2] }
    "#;

    for wire in ["openai-chat", "openai-responses", "anthropic"] {
        let provider = Provider::scenario("happy");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("request.json");
        fs::write(&file, body).unwrap();

        let call = Program::call_without_prompt(&provider.url(), wire);
        let ran = call.args(&["--request"]).args(&[file]).run();

        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (0, "The tide turns twice a day.\n")
        );
        assert_eq!(provider.request().body, body.as_slice());
    }
}

#[test]
fn a_request_without_a_stream_gets_a_whole_answer() {
    let provider = Provider::scenario("happy");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("request.json");
    let body = br#"{"model":"m","messages":[]}"#;
    fs::write(&file, body).unwrap();

    let call = Program::call_without_prompt(&provider.url(), "openai-chat");
    let ran = call.args(&["--request"]).args(&[file]).run();

    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "The tide turns twice a day.\n")
    );
    assert_eq!(provider.request().body, body.as_slice());
}

#[test]
fn a_whole_answer_is_asked_for_and_told() {
    for wire in ["openai-chat", "openai-responses", "anthropic"] {
        let provider = Provider::scenario("happy");

        let ran = Program::call(&provider.url(), wire)
            .args(&["--no-stream"])
            .json()
            .run();

        let report = ran.report();
        assert_eq!(report["text"], "The tide turns twice a day.");
        assert_eq!(
            (
                &report["usage"]["input_tokens"],
                &report["usage"]["output_tokens"]
            ),
            (&json!(12), &json!(3))
        );
        let request = provider.request();
        assert_ne!(request.json()["stream"], true);
        assert_eq!(request.header("accept"), Some("application/json"));
    }
}

#[test]
fn a_request_loses_its_stream_where_none_is_wanted() {
    let provider = Provider::scenario("happy");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("request.json");
    fs::write(&file, r#"{"model":"m","stream":true,"messages":[]}"#).unwrap();

    let call = Program::call_without_prompt(&provider.url(), "openai-chat");
    call.args(&["--no-stream", "--request"])
        .args(&[file])
        .run()
        .assert_code(0);

    assert_eq!(provider.request().json()["stream"], false);
}

#[test]
fn a_base_url_is_taken_with_and_without_its_version() {
    for path in ["", "/", "/v1", "/v1/"] {
        let provider = Provider::scenario("happy");

        let base_url = format!("{}{path}", provider.url());
        Program::call(&base_url, "openai-responses")
            .run()
            .assert_code(0);

        assert_eq!(provider.request().path, "/v1/responses", "{path}");
    }
}

#[track_caller]
fn asked(provider: &Provider) -> serde_json::Value {
    provider.request().json()["messages"].clone()
}
