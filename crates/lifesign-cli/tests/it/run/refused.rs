//! Input that cannot be used: one sentence that names it and what is accepted, exit 2, nothing sent.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Program, Provider};
use crate::run::Place;

#[test]
fn what_cannot_be_used_is_refused_before_anything_is_sent() {
    let provider = Provider::script("answer \"ok\"");
    let place = Place::new();
    let dir = place.0.path().to_str().unwrap();
    let away = place.path("nowhere/talk.jsonl");
    let away = away.to_str().unwrap();
    let other = place.write("other.txt", "no transcript\n");
    let other = other.to_str().unwrap();
    let missing = "No such file or directory (os error 2)";
    let config = |text: &str| place.write("mcp.json", text).display().to_string();
    let time = "accepted: a duration such as \"30m\" or \"90s\"";
    for (words, sentence) in [
        (
            vec!["--prompt", "  "],
            "prompt: \"  \" is empty; accepted: some text".to_owned(),
        ),
        (
            vec![],
            "standard input: is empty; accepted: some text; give --prompt or --task".to_owned(),
        ),
        (
            vec!["--prompt", "go", "--extra", "temperature"],
            "--extra: \"temperature\" has no name before a `=`; accepted: a name and a value in \
             JSON, such as temperature=0.2 or stop='[\"END\"]'"
                .to_owned(),
        ),
        (
            vec!["--prompt", "go", "--extra", "model=1"],
            "--extra: \"model=1\" is about `model`, which is made here; accepted: a name and a \
             value in JSON, such as temperature=0.2 or stop='[\"END\"]'"
                .to_owned(),
        ),
        (
            vec!["--task", away],
            format!("--task: {away} cannot be read: {missing}"),
        ),
        (
            vec!["--prompt", "go", "--system-file", away],
            format!("--system-file: {away} cannot be read: {missing}"),
        ),
        (
            vec!["--prompt", "go", "--wall-clock", "30"],
            format!("--wall-clock: \"30\" has no unit; {time}"),
        ),
        (
            vec!["--prompt", "go", "--wall-clock", "0s"],
            format!("--wall-clock: \"0s\" is no time at all; {time}"),
        ),
        (
            vec!["--prompt", "go", "--resend=2m,soon"],
            format!("--resend: \"soon\" is not a duration; {time}"),
        ),
        (
            vec!["--prompt", "go", "--tools", "read,erase", "--dir", dir],
            "--tools: \"erase\" is no tool for a directory; accepted: list, read, write, run"
                .to_owned(),
        ),
        (
            vec!["--prompt", "go", "--tools", "read", "--dir", away],
            format!("--dir: {away} cannot be opened: {missing}"),
        ),
        (
            vec!["--prompt", "go", "--tools", "read", "--dir", dir, "--shell"],
            "--shell: is for `run`, which is not among --tools".to_owned(),
        ),
        (
            vec![
                "--prompt",
                "go",
                "--tools",
                "run",
                "--dir",
                dir,
                "--pass-env",
                "NOT_SET",
            ],
            "--pass-env: \"NOT_SET\" is not set in our environment".to_owned(),
        ),
        (
            vec!["--prompt", "go", "--transcript", away],
            format!("--transcript: transcript {away} cannot be created: {missing}"),
        ),
        (
            vec!["--prompt", "go", "--transcript", other],
            format!("--transcript: {other} is no transcript: its first line does not begin one"),
        ),
        (
            vec!["--prompt", "go", "--transcript", dir],
            format!(
                "--transcript: {dir:?} is no file; accepted: the path of a transcript, or of a file \
                 that is not there yet"
            ),
        ),
        (
            vec!["--resume", "--transcript", away],
            format!("--transcript: transcript {away} cannot be opened: {missing}"),
        ),
        (
            vec!["--prompt", "go", "--log", "loud"],
            "--log: \"loud\" is no level; accepted: off, error, warn, info, debug, trace"
                .to_owned(),
        ),
        (
            vec!["--prompt", "go", "--set", "tools.timeout=1"],
            "tools.timeout: \"1\" has no unit; accepted: a duration such as \"45s\" or \"2 min\", \
             or \"off\""
                .to_owned(),
        ),
        (
            vec!["--prompt", "go", "--mcp", away],
            format!("--mcp: {away} cannot be read: {missing}"),
        ),
    ] {
        Program::turn(&provider.url())
            .args(&words)
            .run()
            .assert_refused(&sentence);

        let ran = Program::turn(&provider.url()).args(&words).json().run();
        let report = ran.turn_report();
        assert_eq!(ran.code, 2);
        assert_eq!(report["failure"]["code"], "refused_setting");
        assert_eq!(report["failure"]["message"], *sentence);
        assert_eq!(report["turn"], 0);
    }

    let mcp = config("{\"mcpServers\": {\"a\": {\"comand\": \"x\"}}}");
    Program::turn(&provider.url())
        .args(&["--prompt", "go", "--mcp", &mcp])
        .run()
        .assert_code(2)
        .assert_said(&format!("error: --mcp: {mcp}: mcpServers.a"));
    assert!(provider.requests().is_empty());
}

/// What a model said has been paid for, and yet nothing may be done that nobody could look up.
#[cfg(unix)]
#[test]
fn a_transcript_that_takes_no_more_ends_the_turn_with_what_is_known() {
    let provider = Provider::script(&format!("answer \"{}\"", "word ".repeat(400)));
    let place = Place::new();
    // A limit to the size of files stands in for a full disk.
    let ran = Program::turn(&provider.url())
        .args(&["--prompt", "go", "--json", "--transcript"])
        .args(&[place.path("talk.jsonl")])
        .through(&["sh", "-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"])
        .run();

    assert_eq!(ran.code, 2, "{ran:?}");
    let report = ran.turn_report();
    let message = format!(
        "transcript {} cannot be written: File too large (os error 27)",
        place.path("talk.jsonl").display()
    );
    assert_eq!(report["failure"]["message"], *message);
    assert_eq!(report["turn"], 1);
    ran.assert_said(&message);
    assert_eq!(place.entries("talk.jsonl"), ["begin", "user"]);
}

/// The reply of the turn before was given for that of the turn that could not begin.
#[cfg(unix)]
#[test]
fn a_turn_that_the_transcript_has_no_room_for_has_no_reply() {
    let provider = Provider::script("answer \"At six.\"");
    let place = Place::new();
    let turn = |prompt: &str| {
        Program::turn(&provider.url())
            .args(&["--prompt", prompt, "--json", "--transcript"])
            .args(&[place.path("talk.jsonl")])
    };
    turn("When?").run().assert_code(0);

    let ran = turn(&"why? ".repeat(400))
        .through(&["sh", "-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"])
        .run();

    assert_eq!(ran.code, 2, "{ran:?}");
    let report = ran.turn_report();
    assert_eq!((&report["text"], &report["turn"]), (&json!(""), &json!(0)));
    assert!(!report["id"].as_str().unwrap().is_empty());
    assert_eq!(provider.requests().len(), 1);
}

#[test]
fn flags_that_contradict_one_another_are_refused_also_as_json() {
    for words in [
        &["--prompt", "a", "--task", "b"][..],
        &["--prompt", "a", "--resume", "--transcript", "t"],
        &["--resume"],
        &["--tools", "read"],
        &["--dir", "."],
        &["--system", "a", "--system-file", "b"],
    ] {
        let ran = Program::turn("http://127.0.0.1:9").args(words).json().run();

        assert_eq!(ran.code, 2, "{ran:?}");
        assert_eq!(ran.turn_report()["failure"]["code"], "refused_setting");
        ran.assert_said("error: ");
    }
}

#[test]
fn a_server_that_does_not_start_is_named_with_its_last_words_and_nothing_is_sent() {
    let provider = Provider::script("answer \"ok\"");
    let place = Place::new();
    let turn = |command: &[&str]| {
        let server = json!({"command": command[0], "args": command[1..]});
        let text = json!({"mcpServers": {"files": server}}).to_string();
        Program::turn(&provider.url())
            .args(&["--prompt", "go", "--mcp"])
            .args(&[place.write("mcp.json", &text)])
    };

    turn(&["sh", "-c", "echo 'no such package' >&2; exit 7"])
        .run()
        .assert_refused(
            "tool server files ended before it was ready (exit code 7); it said: no such package",
        );
    turn(&["no-such-program"]).run().assert_refused(
        "tool server files cannot be started: no-such-program: No such file or directory (os error 2)",
    );
    // The system's words for it are those for a program that is not there.
    let elsewhere = json!({"command": "true", "cwd": "/no/such/place"});
    let text = json!({"mcpServers": {"files": elsewhere}}).to_string();
    Program::turn(&provider.url())
        .args(&["--prompt", "go", "--mcp"])
        .args(&[place.write("mcp.json", &text)])
        .run()
        .assert_refused(
            "tool server files cannot be started: cwd /no/such/place: No such file or directory (os error 2)",
        );
    let report = turn(&["sh", "-c", "exit 7"]).json().run().turn_report();
    assert_eq!(report["failure"]["code"], "refused_setting");
    assert_eq!(
        report["failure"]["message"],
        "tool server files ended before it was ready (exit code 7)"
    );
    assert_eq!(
        report["sentence"],
        "A tool server did not start, so nothing was asked."
    );
    assert_eq!(
        report["failure"]["hint"],
        "see that tool server files starts by hand"
    );
    assert!(provider.requests().is_empty());
}

#[test]
fn two_tools_of_one_name_are_refused_with_what_helps() {
    let place = Place::new();
    let Some(servers) = place.servers("tests", &json!({"tools": ["echo"]})) else {
        return;
    };
    let text = std::fs::read_to_string(&servers).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["mcpServers"]["twin"] = config["mcpServers"]["tests"].clone();
    let servers = place.write("mcp.json", &config.to_string());
    let turn = || {
        Program::turn("http://127.0.0.1:9")
            .args(&["--prompt", "go", "--mcp"])
            .args(&[&servers])
    };

    turn().run().assert_refused(
        "--mcp: tool \"echo\" is offered by tool server tests and by tool server twin: a name may be \
         there once; a `prefix` tells a server's tools apart",
    );

    // Within one server a prefix tells nothing apart.
    let Some(servers) = place.servers("tests", &json!({"env": {"ECHOES": "1"}})) else {
        return;
    };
    Program::turn("http://127.0.0.1:9")
        .args(&["--prompt", "go", "--mcp"])
        .args(&[&servers])
        .run()
        .assert_refused(
            "--mcp: tool \"echo\" is offered by tool server tests and by tool server tests: a name \
             may be there once",
        );
}

/// A name that servers of one model take was sent to a provider of many, which refused it.
#[test]
fn a_provider_of_many_models_is_not_asked_without_one() {
    let turn = |url: &str| {
        Program::new(&[
            "run",
            "--wire",
            "openai-chat",
            "--prompt",
            "go",
            "--base-url",
            url,
        ])
    };

    turn("https://api.openai.com").run().assert_refused(
        "--model: is missing, and api.openai.com has several; accepted: the name of one that the \
         provider has",
    );
    let provider = Provider::script("answer \"ok\"");
    turn(&provider.url()).run().assert_code(0);
}
