//! `lifesign config explain`: every setting, what it does here, and where it comes from.

use std::fs;

use insta::assert_snapshot;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::Program;

#[test]
fn the_settings_of_openai() {
    assert_snapshot!(explained("https://api.openai.com", "openai-responses", &[]));
}

#[test]
fn the_settings_of_anthropic_with_a_limit_of_tokens() {
    let words = ["--max-tokens", "32000", "--model", "claude-opus-4-5"];

    assert_snapshot!(explained("https://api.anthropic.com", "anthropic", &words));
}

#[test]
fn the_settings_of_loopback_under_a_profile() {
    let words = ["--profile", "patient", "--set", "bounds.raw_silence=2 min"];

    assert_snapshot!(explained("http://127.0.0.1:8080", "openai-chat", &words));
}

#[test]
fn the_strongest_origin_wins_and_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lifesign.toml");
    let text = r#"
        bounds = { raw_silence = "41s", headers = "42s", flat = "43s" }
        [[upstream]]
        name = "house"
        wire = "anthropic"
        base_url = "https://api.anthropic.com"
        bounds = { headers = "44s" }
    "#;
    fs::write(&file, text).unwrap();

    let ran = Program::new(&["config", "explain", "--json", "--config"])
        .args(&[&file])
        .args(&["--set", "bounds.flat=46s"])
        .env("LIFESIGN_BOUNDS__RAW_SILENCE", "45s")
        .run();

    ran.assert_code(0);
    let rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let row = |key: &str| {
        let row = rows.iter().find(|row| row["key"] == key).unwrap();
        format!(
            "{} {}",
            row["value"].as_str().unwrap(),
            row["origin"].as_str().unwrap()
        )
    };
    assert_eq!(row("bounds.raw_silence"), "45 s env");
    assert_eq!(row("bounds.headers"), format!("44 s {}:7", file.display()));
    assert_eq!(row("bounds.flat"), "46 s call");
    assert_eq!(row("bounds.connect"), "10 s default");
}

#[test]
fn what_an_agent_goes_by_has_its_tools_and_bears_with_refusals_for_longer() {
    let words = ["--run", "--set", "tools.timeout=5 min"];
    let told = explained("http://127.0.0.1:8080", "openai-chat", &words);

    let row = |key: &str| {
        let mut lines = told.lines();
        let line = lines.find(|line| line.starts_with(key)).unwrap();
        let words: Vec<_> = line.split_whitespace().skip(1).take(3).collect();
        words.join(" ")
    };
    assert!(row("tools.timeout ").starts_with("5 min call"));
    assert!(row("tools.max_output ").starts_with("64 KiB default"));
    assert!(row("retry.overload.tries ").starts_with("7 default"));
    assert!(!explained("http://127.0.0.1:8080", "openai-chat", &[]).contains("tools."));
    Program::new(&["config", "explain", "--run", "--serve"])
        .run()
        .assert_code(2);
}

#[test]
fn of_several_upstreams_each_is_explained_and_json_is_for_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lifesign.toml");
    let text = r#"
        [[upstream]]
        name = "one"
        wire = "anthropic"
        base_url = "http://127.0.0.1:1"
        [[upstream]]
        name = "two"
        wire = "openai-chat"
        base_url = "http://127.0.0.1:2"
        bounds = { raw_silence = "44s" }
    "#;
    fs::write(&file, text).unwrap();
    let explain = |words: &[&str]| {
        let explain = Program::new(&["config", "explain", "--config"]).args(&[&file]);
        explain.args(words).run()
    };

    for serve in [&[][..], &["--serve"]] {
        let ran = explain(serve);
        ran.assert_code(0);
        let upstreams: Vec<_> = ran.stdout.split("upstream    ").skip(1).collect();
        let [one, two] = upstreams[..] else {
            panic!("{}", ran.stdout);
        };
        assert!(one.starts_with("one (anthropic, "), "{one}");
        assert!(!one.contains("44 s"), "{one}");
        assert!(two.starts_with("two (openai-chat, "), "{two}");
        assert!(two.contains("44 s"), "{two}");
    }
    explain(&["--json"])
        .assert_refused("--upstream: is not given, and there are several; accepted: one, two");
}

fn explained(url: &str, wire: &str, words: &[&str]) -> String {
    let ran = Program::new(&["config", "explain", "--base-url", url, "--wire", wire])
        .args(words)
        .run();
    ran.assert_code(0);
    assert_eq!(ran.stderr, "");
    ran.stdout
}
