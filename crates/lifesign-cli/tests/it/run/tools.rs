//! Tools in a turn: those for a directory, those of a server, and a server's own model calls.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Program, Provider, Ran};
use crate::run::{Place, calls};

/// Returns what the model was told of its last call.
fn told(provider: &Provider) -> String {
    let requests = provider.requests();
    let sent = requests.last().unwrap().json();
    let messages = sent["messages"].as_array().unwrap();
    let is_result = |message: &&Value| message["role"] == "tool";
    messages.iter().rfind(is_result).unwrap()["content"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Lets a model call one tool and answer; returns what it was told of that, too.
fn called(name: &str, arguments: Value, more: &[&str], place: &Place) -> (String, Ran) {
    let provider = Provider::script(&format!(
        "attempt 1: {}\nattempt 2: answer \"Done.\"",
        calls(&[("c1", name, arguments)])
    ));
    let ran = Program::turn(&provider.url())
        .args(&["--prompt", "go", "--json", "--dir"])
        .args(&[place.0.path()])
        .args(more)
        .run();
    ran.assert_code(0);
    (told(&provider), ran)
}

#[test]
fn the_tools_for_a_directory_are_those_that_were_asked_for() {
    let place = Place::new();
    place.write("a.txt", "hello");

    let (read, ran) = called(
        "read",
        json!({"path": "a.txt"}),
        &["--tools", "list, read"],
        &place,
    );
    assert_eq!(read, "hello");
    assert_eq!(ran.turn_report()["counts"]["tool_calls"], 1);
    assert_eq!(ran.turn_report()["text"], "Done.");

    let content = json!({"path": "b.txt", "content": "new"});
    let (refused, ran) = called("write", content.clone(), &["--tools", "list,read"], &place);
    assert_eq!(refused, "There is no tool `write`.");
    assert_eq!(ran.turn_report()["counts"]["tool_failures"], 1);
    assert!(!place.path("b.txt").exists());

    called("write", content, &["--tools", "write"], &place);
    assert_eq!(place.text("b.txt"), "new");
}

#[test]
fn a_program_gets_a_shell_and_variables_only_where_that_was_asked_for() {
    let place = Place::new();
    let tools = ["--tools", "run"];
    let (plain, _) = called("run", json!({"command": ["echo", "$HOME"]}), &tools, &place);
    assert!(plain.contains("$HOME"), "{plain}");

    let shell = ["--tools", "run", "--shell"];
    let (shell, _) = called(
        "run",
        json!({"command": "echo $((40 + 2))"}),
        &shell,
        &place,
    );
    assert!(shell.contains("42"), "{shell}");

    let provider = Provider::script(&format!(
        "attempt 1: {}\nattempt 2: answer \"Done.\"",
        calls(&[("c1", "run", json!({"command": ["env"]}))])
    ));
    let turn = || {
        Program::turn(&provider.url())
            .args(&["--prompt", "go", "--tools", "run", "--dir"])
            .args(&[place.0.path()])
            .env("ALLOWED", "seen")
            .env("OPENAI_API_KEY", "secret")
    };
    turn().args(&["--pass-env", "ALLOWED"]).run().assert_code(0);
    let told = told(&provider);
    assert!(
        told.contains("ALLOWED=seen") && !told.contains("secret"),
        "{told}"
    );
}

#[test]
fn the_limits_of_tools_are_settings() {
    let place = Place::new();
    place.write("long.txt", &"x".repeat(10_000));
    let config = place.write("lifesign.toml", "[tools]\nmax_output = \"1 KiB\"\n");
    let config = config.to_str().unwrap();

    let more = ["--tools", "read", "--config", config];
    let (read, _) = called("read", json!({"path": "long.txt"}), &more, &place);
    assert!(
        read.len() < 1_500 && read.contains("tools.max_output"),
        "{read}"
    );

    let slow = json!({"command": ["sleep", "60"]});
    let more = ["--tools", "run", "--set", "tools.run_timeout=200ms"];
    let (ran, _) = called("run", slow.clone(), &more, &place);
    assert!(
        ran.contains("200 ms") && ran.contains("tools.run_timeout"),
        "{ran}"
    );

    let provider = Provider::script(&format!(
        "attempt 1: {}\nattempt 2: answer \"Done.\"",
        calls(&[("c1", "run", slow)])
    ));
    Program::turn(&provider.url())
        .args(&["--prompt", "go", "--tools", "run", "--dir", "."])
        .env("LIFESIGN_TOOLS__RUN_TIMEOUT", "300ms")
        .run()
        .assert_code(0);
    assert!(told(&provider).contains("300 ms"));
}

#[test]
fn a_server_is_started_asked_and_ended() {
    let place = Place::new();
    let Some(servers) = place.servers("tests", &json!({"env": {"TOKEN": "${A_TOKEN}"}})) else {
        return;
    };
    let provider = Provider::script(&format!(
        "attempt 1: {}\nattempt 2: {}\nattempt 3: answer \"Done.\"",
        calls(&[
            ("c1", "echo", json!({"text": "hello"})),
            ("c2", "echo", json!({"text": 5}))
        ]),
        calls(&[("c3", "variable", json!({"name": "TOKEN"}))]),
    ));

    let ran = Program::turn(&provider.url())
        .args(&["--prompt", "go", "--json", "--mcp"])
        .args(&[&servers])
        .env("A_TOKEN", "s3cret")
        .run();

    let report = ran.turn_report();
    assert_eq!(
        (&report["text"], ran.stderr.as_str()),
        (&json!("Done."), "")
    );
    assert_eq!(report["counts"]["tool_calls"], 2);
    assert_eq!(report["counts"]["tool_failures"], 1);
    assert_eq!(told(&provider), "s3cret");
    let sent = provider.requests()[1].json();
    assert_eq!(sent["messages"][2]["content"], "hello");
    let misfit = sent["messages"][3]["content"].as_str().unwrap();
    assert!(misfit.contains("5 is not of type \"string\""), "{misfit}");
}

#[test]
fn a_tool_that_takes_too_long_is_a_result_that_names_its_limit() {
    let place = Place::new();
    let Some(servers) = place.servers("tests", &json!({})) else {
        return;
    };
    let wait = json!({"file": place.path("began")});
    let more = [
        "--mcp",
        servers.to_str().unwrap(),
        "--tools",
        "list",
        "--set",
        "tools.timeout=300ms",
    ];

    let (waited, _) = called("wait", wait, &more, &place);

    assert!(
        waited.starts_with("wait was stopped after 300 ms (tools.timeout)"),
        "{waited}"
    );
    assert_eq!(place.text("began"), "began\n");
}

#[test]
fn a_server_has_model_calls_under_the_same_settings_and_all_are_in_the_journal() {
    let place = Place::new();
    let Some(servers) = place.servers("tests", &json!({})) else {
        return;
    };
    let script = |sampled: &str| {
        format!(
            "attempt 1: {}\nattempt 2: {sampled}\nattempt 3: answer \"Done.\"",
            calls(&[("c1", "ask", json!({"text": "hi"}))])
        )
    };
    let journal = place.path("calls.db");
    let ask = |provider: &Provider, more: &[&str]| {
        let ran = Program::turn(&provider.url())
            .args(&["--prompt", "go", "--json", "--mcp"])
            .args(&[&servers])
            .args(&["--journal"])
            .args(&[&journal])
            .args(more)
            .run();
        ran.assert_code(0);
        (ran.turn_report(), told(provider))
    };

    let provider = Provider::script(&script("answer \"a word\""));
    let (report, told) = ask(&provider, &[]);
    assert_eq!(told, "it said a word");
    assert_eq!(report["text"], "Done.");
    let sampled = provider.requests()[1].json();
    assert_eq!(
        (&sampled["model"], &sampled["stream"]),
        (&json!("m"), &json!(true))
    );
    let written = Program::new(&["report", "--json", "--journal"])
        .args(&[&journal])
        .run();
    let written: Value = serde_json::from_str(&written.stdout).unwrap();
    assert_eq!(written["calls"]["completed"], 3, "{written}");

    let provider = Provider::script(&script("status 200 sse; hold"));
    let more = [
        "--set",
        "bounds.raw_silence=200ms",
        "--set",
        "retry.attempts=1",
    ];
    let (_, told) = ask(&provider, &more);
    assert!(
        told.starts_with("refused: The model's server went quiet for 200 ms")
            && told.ends_with("(bound raw_silence, set by bounds.raw_silence)"),
        "{told}"
    );

    let provider = Provider::script(&format!(
        "attempt 1: {}\nattempt 2: answer \"Done.\"",
        calls(&[("c1", "ask", json!({"text": "hi"}))])
    ));
    let (_, told) = ask(&provider, &["--set", "tools.sampling=0"]);
    assert!(told.starts_with("refused: "), "{told}");
    assert_eq!(provider.requests().len(), 2);
}

#[test]
fn a_servers_model_calls_bear_with_refusals_for_as_long_as_those_of_the_turn() {
    let place = Place::new();
    let Some(servers) = place.servers("tests", &json!({})) else {
        return;
    };
    let provider = Provider::script(&format!(
        "attempt 1: {}\nattempt 2-6: status 429 json [retry-after-ms: 5]; error rate_limit_error; eof\n\
         attempt 7: answer \"a word\"\nattempt 8: answer \"Done.\"",
        calls(&[("c1", "ask", json!({"text": "hi"}))])
    ));

    Program::turn(&provider.url())
        .args(&["--prompt", "go", "--json", "--mcp"])
        .args(&[&servers])
        .run()
        .assert_code(0);

    assert_eq!(told(&provider), "it said a word");
}

/// The library behind the servers logs whole messages, secrets in them included.
#[test]
fn no_level_of_the_log_tells_what_is_in_a_message() {
    let place = Place::new();
    let Some(servers) = place.servers("tests", &json!({})) else {
        return;
    };
    let provider = Provider::script(&format!(
        "attempt 1: {}\nattempt 2: answer \"Done.\"",
        calls(&[("c1", "echo", json!({"text": "hunter2"}))])
    ));
    let logged = |level: &str| {
        let ran = Program::turn(&provider.url())
            .args(&["--prompt", "go", "--json", "--log", level, "--mcp"])
            .args(&[&servers])
            .env("RUST_LOG", "trace")
            .run();
        ran.assert_code(0);
        ran.stderr
    };

    let all = logged("trace");
    assert!(all.contains("server for tests says hello"), "{all}");
    assert!(!all.contains("hunter2"), "{all}");
    assert_eq!(logged("warn"), "");
}
