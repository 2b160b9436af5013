//! One file for `call` and `serve`: its gateway tables are read, checked and explained everywhere.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Program, Provider};

/// Two upstreams, a route over them and a key.
const GATEWAY: &str = r#"
[serve]
listen = "127.0.0.1:4000"

[beats]
every = "5s"

[[upstream]]
name = "one"
wire = "openai-chat"
base_url = "http://127.0.0.1:9"
api_key = { env = "ONE" }
concurrency = 7

[[upstream]]
name = "two"
wire = "openai-chat"
base_url = "http://127.0.0.1:9"
api_key = { env = "TWO" }

[[route]]
model = "*"
upstreams = ["two", "one"]

[[key]]
name = "me"
sha256 = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
"#;

#[test]
fn a_call_takes_a_file_with_tables_of_the_gateway() {
    let provider = Provider::scenario("happy");
    let text = GATEWAY.replace("http://127.0.0.1:9", &provider.url());
    let (_directory, path) = file(&text);

    let ran = Program::new(&[
        "call",
        "--prompt",
        "hi",
        "--model",
        "m",
        "--upstream",
        "one",
    ])
    .args(&["--config", path.as_str()])
    .env("ONE", "sk")
    .run();

    ran.assert_code(0);
    assert_eq!(provider.requests().len(), 1);
}

#[test]
fn a_mistake_in_a_table_of_the_gateway_is_refused_by_every_command_in_the_same_words() {
    let (_directory, path) = file(&GATEWAY.replace("every =", "evry ="));
    let told = format!("{path}:6:1: beats.evry: unknown setting; did you mean `beats.every`?");

    for words in [
        ["config", "check"].as_slice(),
        &["config", "explain"],
        &["call", "--prompt", "hi"],
        &["serve"],
    ] {
        Program::new(words)
            .args(&["--config", path.as_str()])
            .run()
            .assert_refused(&told);
    }
}

#[test]
fn a_file_may_be_checked_by_its_name_alone_with_all_its_upstreams() {
    let (_directory, path) = file(GATEWAY);
    let check = |variables: &[&str], sets: &[&str]| {
        let mut program = Program::new(&["config", "check", &path]);
        for variable in variables {
            program = program.env(variable, "sk");
        }
        for set in sets {
            program = program.set(set);
        }
        program.run()
    };

    let fine = check(&["ONE", "TWO"], &[]);
    fine.assert_code(0)
        .assert_told("every setting can be used, and none of them is without effect\n");
    check(&["ONE"], &[]).assert_refused(&format!(
        "{path}:19:11: upstream.api_key: the variable TWO is not set; accepted: {{ env = \"NAME\" }} \
         or {{ file = \"PATH\" }}"
    ));
    check(&["ONE", "TWO"], &["beats.every=90s"])
        .assert_code(1)
        .assert_told(
            "beats.every = 90 s is above 80 s, a third of the silence that a client allows on \
             openai-chat by default (call)\n",
        );
    // Of both upstreams, and told once.
    let ran = check(
        &["ONE", "TWO"],
        &["bounds.wall_clock=5s", "bounds.raw_silence=45s"],
    );
    ran.assert_code(1);
    let told = ran.stdout.matches("bounds.raw_silence = 45 s").count();
    assert_eq!(told, 1, "{ran:?}");
}

#[test]
fn what_keeps_a_gateway_from_starting_is_refused_by_a_check() {
    let route = GATEWAY.replace("upstreams = [\"two\"", "upstreams = [\"twoo\"");
    let open = GATEWAY.replace("127.0.0.1:4000", "0.0.0.0:4000");
    for (text, told) in [
        (
            route,
            "23:13: route.upstreams: \"twoo\" is the name of no upstream; accepted: `one`, `two`; did \
             you mean `two`?",
        ),
        (
            open,
            "3:10: serve.listen: \"0.0.0.0:4000\" is beyond this machine, and there is no \
             serve.admin_key; accepted: a loopback address or a unix socket, or serve.admin_key",
        ),
        (
            "[journal]\npath = \"/nowhere/a.db\"\n[[upstream]]\nname = \"a\"\nwire = \"anthropic\"\n\
             base_url = \"http://127.0.0.1:1\"\n"
                .to_owned(),
            "2:8: journal.path: cannot be used: /nowhere/a.db: its directory cannot be used: No such file \
             or directory (os error 2); accepted: the path of a file in a directory that exists",
        ),
    ] {
        let (_directory, path) = file(&text);

        Program::new(&["config", "check", &path])
            .run()
            .assert_refused(&format!("{path}:{told}"));
    }
}

#[test]
fn a_file_without_settings_of_the_gateway_is_checked_for_it_where_that_is_asked_for() {
    let (_directory, path) = file(
        "[retry]\nmax_wait = \"60s\"\n[[upstream]]\nname = \"a\"\nwire = \"anthropic\"\nbase_url = \
         \"http://h\"\n",
    );

    Program::new(&["config", "check", &path])
        .run()
        .assert_code(0);
    Program::new(&["config", "check", "--serve", &path])
        .run()
        .assert_code(1)
        .assert_told(&format!(
            "retry.max_wait = 60 s can never be waited: retry.max_total_wait = 30 s allows less \
             ({path}:2)\n"
        ));
}

#[test]
fn what_the_gateway_goes_by_is_explained_with_its_origin() {
    let (_directory, path) = file(GATEWAY);
    let explain = |words: &[&str]| -> Vec<Value> {
        let ran = Program::new(&["config", "explain", "--json", "--upstream", "one"])
            .args(&["--config", path.as_str()])
            .args(words)
            .env("LIFESIGN_SERVE__DRAIN", "9s")
            .run();
        ran.assert_code(0);
        serde_json::from_str(&ran.stdout).unwrap()
    };
    let row = |rows: &[Value], key: &str| -> Option<String> {
        let row = rows.iter().find(|row| row["key"] == key)?;
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        Some(format!("{} {}", text("value"), text("origin")))
    };

    let call = explain(&[]);
    let serve = explain(&["--serve"]);

    assert_eq!(row(&call, "retry.attempts").unwrap(), "4 default");
    assert_eq!(row(&call, "serve.drain"), None);
    for (key, told) in [
        ("retry.attempts", "3 default".to_owned()),
        ("serve.drain", "9 s env".to_owned()),
        ("serve.listen", format!("127.0.0.1:4000 {path}:3")),
        ("beats.every", format!("5 s {path}:6")),
        ("upstream.concurrency", format!("7 {path}:13")),
        ("upstream.auth", "own default".to_owned()),
    ] {
        assert_eq!(row(&serve, key).unwrap(), told);
    }
}

#[test]
fn what_a_gateway_would_go_by_is_explained_without_a_file() {
    let ran = Program::new(&["config", "explain", "--serve", "--set", "beats.every=7s"])
        .args(&[
            "--base-url",
            "https://api.openai.com",
            "--wire",
            "openai-chat",
        ])
        .run();

    ran.assert_code(0);
    let words = |key: &str| {
        let line = ran.stdout.lines().find(|line| line.starts_with(key));
        let words: Vec<_> = line.unwrap().split_whitespace().skip(1).take(3).collect();
        words.join(" ")
    };
    assert_eq!(words("beats.every "), "7 s call");
    assert_eq!(words("retry.max_total_wait "), "30 s default");
}

#[test]
fn the_published_schema_of_a_file_is_that_of_the_program() {
    let printed = Program::new(&["config", "schema"]).run();

    printed.assert_code(0);
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/config.schema.json"
    );
    assert_eq!(printed.stdout, fs::read_to_string(page).unwrap());
}

/// Writes a file, and returns its path as the program tells it.
fn file(text: &str) -> (TempDir, String) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("gateway.toml");
    fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (directory, path)
}
