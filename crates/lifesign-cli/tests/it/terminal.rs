//! The live line, on a terminal that `script` makes.

use std::process::{Command, Stdio};

use crate::harness::Provider;

#[test]
fn a_call_is_told_on_one_row_until_its_text_comes() {
    let provider = Provider::script(
        "status 200 sse; role; repeat 0.1 { ping } x5; think \"Hm.\"; answer \"Hello\"",
    );
    let words = format!(
        "call --base-url {} --wire anthropic --prompt hi --set retry.attempts=1",
        provider.url()
    );

    let Some(shown) = on_terminal(80, &words) else {
        return;
    };

    let rows: Vec<&str> = shown.split("\r\x1b[2K").collect();
    assert!(rows.len() > 4, "{shown:?}");
    let live = &rows[1..rows.len() - 1];
    for row in live {
        assert!(row.chars().count() < 80 && !row.contains('\n'), "{row:?}");
    }
    let live = live.join("|");
    assert!(
        live.contains("attempt 1  no content yet  cut in 9m59s by raw_silence"),
        "{live:?}"
    );
    let after = rows.last().unwrap();
    assert!(
        after.starts_with("Hm.\r\nHello\r\ncompleted in "),
        "{after:?}"
    );
}

#[test]
fn a_wide_row_tells_the_age_of_every_clock_and_whose_sign_of_life_came() {
    let provider =
        Provider::script("status 200 sse; role; repeat 0.1 { ping } x5; answer \"Hello\"");
    let words = format!(
        "call --base-url {} --wire anthropic --prompt hi",
        provider.url()
    );

    let Some(shown) = on_terminal(200, &words) else {
        return;
    };

    for part in [
        "  bytes 0.",
        "  events 0.",
        "  content 0.",
        "  output 0.",
        "  provider alive 0.",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown:?}");
    }
}

#[test]
fn the_demo_shows_its_calls_side_by_side() {
    let Some(shown) = on_terminal(100, "demo --speed 200") else {
        return;
    };

    // Each drawing goes back over the seven rows of the one before.
    assert!(shown.contains("\x1b[7A\x1b[J"), "{shown:?}");
    assert!(shown.contains("thinking-long "), "{shown:?}");
    let rows = shown
        .split("\r\n")
        .map(|row| row.trim_start_matches("\x1b[7A\x1b[J"));
    for row in rows.filter(|row| row.contains("  bytes ")) {
        assert!(row.chars().count() < 100, "{row:?}");
    }
}

/// Runs the program on a terminal of so many columns; returns what the terminal got.
fn on_terminal(columns: u16, words: &str) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_lifesign");
    let command = format!("stty cols {columns} rows 24 && exec {program} {words}");
    let ran = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .output();
    match ran {
        Ok(ran) if ran.status.success() => Some(String::from_utf8(ran.stdout).unwrap()),
        Ok(ran) if !String::from_utf8_lossy(&ran.stderr).contains("usage") => {
            panic!("{ran:?}")
        }
        _ => {
            println!("skipped: there is no `script` that makes a terminal");
            None
        }
    }
}
