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

fn explained(url: &str, wire: &str, words: &[&str]) -> String {
    let ran = Program::new(&["config", "explain", "--base-url", url, "--wire", wire])
        .args(words)
        .run();
    ran.assert_code(0);
    assert_eq!(ran.stderr, "");
    ran.stdout
}
