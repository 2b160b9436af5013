//! Keys reach the provider and nobody else.

use std::fs;

use tempfile::TempDir;

use crate::harness::{Program, Provider, Ran};

#[test]
fn a_key_reaches_the_provider_in_the_header_of_its_wire() {
    for (wire, header, value) in [
        ("openai-chat", "authorization", format!("Bearer {KEY}")),
        ("openai-responses", "authorization", format!("Bearer {KEY}")),
        ("anthropic", "x-api-key", KEY.to_owned()),
    ] {
        let provider = Provider::scenario("happy");

        let ran = Program::call(&provider.url(), wire)
            .env("LIFESIGN_API_KEY", KEY)
            .run();

        assert_silent(&ran);
        assert_eq!(provider.request().header(header), Some(value.as_str()));
    }
}

#[test]
fn the_named_variable_wins_over_ours_and_ours_over_the_wires() {
    let sent = |program: Program, provider: &Provider| {
        let all = [
            ("MINE", "first"),
            ("LIFESIGN_API_KEY", "second"),
            ("ANTHROPIC_API_KEY", "third"),
        ];
        let program = all
            .iter()
            .fold(program, |program, (name, key)| program.env(name, key));
        program.run().assert_code(0);
        provider.request().header("x-api-key").unwrap().to_owned()
    };

    let provider = Provider::scenario("happy");
    let call = Program::call(&provider.url(), "anthropic").args(&["--api-key-env", "MINE"]);
    assert_eq!(sent(call, &provider), "first");

    let provider = Provider::scenario("happy");
    assert_eq!(
        sent(Program::call(&provider.url(), "anthropic"), &provider),
        "second"
    );

    let provider = Provider::scenario("happy");
    let call = Program::call(&provider.url(), "anthropic").env("ANTHROPIC_API_KEY", "third");
    call.run().assert_code(0);
    assert_eq!(provider.request().header("x-api-key"), Some("third"));
}

#[test]
fn no_output_holds_the_key_whatever_happens() {
    for scenario in [
        "happy",
        "wrong-key",
        "cut-mid-answer",
        "html",
        "silence",
        "quota",
        "redirect",
    ] {
        for json in [false, true] {
            let provider = Provider::scenario(scenario);
            let directory = TempDir::new().unwrap();
            let file = directory.path().join("call.rec");
            let call = Program::call(&provider.url(), "anthropic")
                .env("ANTHROPIC_API_KEY", KEY)
                .set("bounds.raw_silence=200ms")
                .args(&["--record"])
                .args(&[&file]);

            let ran = if json { call.json() } else { call }.run();

            assert_silent(&ran);
            assert!(!provider.requests().is_empty());
            if let Ok(recording) = fs::read_to_string(&file) {
                assert!(!recording.contains(KEY), "{recording}");
            }
        }
    }
}

#[test]
fn a_key_that_the_provider_repeats_in_an_error_is_not_repeated() {
    let provider = Provider::script(&format!(
        "status 401 json; error authentication_error \"Incorrect API key provided: {KEY}\"; eof"
    ));

    for json in [false, true] {
        let call = Program::call(&provider.url(), "openai-chat").env("OPENAI_API_KEY", KEY);

        let ran = if json { call.json() } else { call }.run();

        ran.assert_code(4);
        assert_silent(&ran);
    }
}

#[test]
fn a_key_in_the_wrong_place_is_refused_without_being_repeated() {
    let url = |url: &str| {
        Program::new(&[
            "config",
            "check",
            "--wire",
            "openai-chat",
            "--base-url",
            url,
        ])
        .run()
    };
    assert_silent(url(&format!("http://user:{KEY}@127.0.0.1")).assert_code(2));
    assert_silent(url(&format!("http://127.0.0.1/v1?key={KEY}")).assert_code(2));

    let directory = TempDir::new().unwrap();
    let file = directory.path().join("lifesign.toml");
    for line in [
        format!("api_key = \"{KEY}\""),
        format!("api_key = {{ token = \"{KEY}\" }}"),
        format!("key = \"{KEY}\""),
        format!("api_key = \"{KEY}"),
    ] {
        let upstream =
            "[[upstream]]\nname = \"a\"\nwire = \"anthropic\"\nbase_url = \"http://h\"\n";
        fs::write(&file, format!("{upstream}{line}\n")).unwrap();

        let ran = Program::new(&["config", "check", "--config"])
            .args(&[&file])
            .run();

        assert_silent(ran.assert_code(2).assert_said(":5:"));
    }
}

#[test]
fn a_key_that_is_missing_or_cannot_be_sent_is_named_by_its_variable() {
    let call = || Program::call("http://127.0.0.1:9", "anthropic");
    call()
        .args(&["--api-key-env", "NOWHERE"])
        .run()
        .assert_refused("api_key: the variable NOWHERE is not set");
    let ran = call().env("LIFESIGN_API_KEY", &format!("{KEY}\nx")).run();
    assert_silent(ran.assert_code(2).assert_said("LIFESIGN_API_KEY"));
}

#[test]
fn a_key_comes_from_a_file_too() {
    let provider = Provider::scenario("happy");
    let directory = TempDir::new().unwrap();
    let config = directory.path().join("lifesign.toml");
    let text = format!(
        "[[upstream]]\nname = \"a\"\nwire = \"anthropic\"\nbase_url = \"{}\"\n\
         api_key = {{ file = \"key.txt\" }}\n",
        provider.url()
    );
    fs::write(&config, text).unwrap();
    fs::write(directory.path().join("key.txt"), format!("{KEY}\n")).unwrap();

    let call = Program::new(&["call", "--prompt", "hi", "--config"]).args(&[&config]);
    let ran = call.args(&["--upstream", "a"]).run();

    assert_silent(ran.assert_code(0));
    assert_eq!(provider.request().header("x-api-key"), Some(KEY));
}

#[track_caller]
fn assert_silent(ran: &Ran) {
    let secret = "0123456789abcdef";
    assert!(KEY.contains(secret));
    assert!(
        !ran.stdout.contains(secret) && !ran.stderr.contains(secret),
        "{ran:?}"
    );
}

const KEY: &str = "sk-test-0123456789abcdef0123456789abcdef";
