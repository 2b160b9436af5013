//! Input that cannot be used: one sentence that names it and the fix, exit 2, and nothing sent.

use std::fs;
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use crate::harness::{Program, Provider, Ran};

/// Values that no duration bound takes, and what is said of each.
const BAD: [(&str, &str); 11] = [
    ("-5s", "is negative"),
    ("NaN", "is not a duration"),
    ("1e400s", "is written with an exponent"),
    ("45", "has no unit"),
    ("", "is empty"),
    ("18446744073709551616ms", "is too long"),
    ("inf", "is too long"),
    (
        "1 day",
        "has a unit of the calendar, which has no fixed length",
    ),
    ("5 parsecs", "is not a duration"),
    ("s", "is not a duration"),
    ("on", "is not a duration"),
];

const ACCEPTED: &str = r#"accepted: a duration such as "45s" or "2 min", or "off""#;

#[test]
fn a_bad_value_on_the_command_line_is_named() {
    for (value, problem) in BAD {
        let ran = check(&["--set", &format!("bounds.raw_silence={value}")]);

        let value = format!("{value:?}");
        ran.assert_refused(&format!(
            "bounds.raw_silence: {value} {problem}; {ACCEPTED}"
        ));
    }
}

#[test]
fn a_bad_value_in_the_environment_is_named_with_its_variable() {
    for (value, problem) in BAD {
        let ran = checked().env("LIFESIGN_BOUNDS__FLAT", value).run();

        ran.assert_refused(&format!(
            "LIFESIGN_BOUNDS__FLAT: bounds.flat: {value:?} {problem}; {ACCEPTED}"
        ));
    }
}

#[test]
fn a_bad_value_in_a_file_is_named_with_its_position() {
    for (value, problem) in BAD {
        let file = File::new(&format!(
            "profile = \"progress\"\n[bounds]\n  headers = {value:?}\n"
        ));

        check(&file.flag()).assert_refused(&format!(
            "{}:3:13: bounds.headers: {value:?} {problem}; {ACCEPTED}",
            file.name()
        ));
    }
}

#[test]
fn numbers_in_a_file_are_refused_as_they_were_written() {
    for (value, problem) in [
        ("45", "45 has no unit"),
        ("-5", "-5 is negative"),
        ("nan", "NaN is not a number"),
        ("inf", "inf is too long"),
        ("4.5", "4.5 has no unit"),
        ("true", "true is not a duration"),
    ] {
        let file = File::new(&format!("[bounds]\nraw_silence = {value}\n"));

        check(&file.flag()).assert_refused(&format!(
            "{}:2:15: bounds.raw_silence: {problem}; {ACCEPTED}",
            file.name()
        ));
    }
}

#[test]
fn zero_and_off_turn_a_bound_off_and_null_means_the_default() {
    for (value, shown) in [
        ("0", "off"),
        ("0s", "off"),
        ("off", "off"),
        ("null", "10 min"),
    ] {
        let setting = format!("bounds.raw_silence={value}");
        let ran = Program::new(&["config", "explain", "--set", &setting])
            .args(&TARGET)
            .run();

        let row = ran
            .stdout
            .lines()
            .find(|line| line.starts_with("bounds.raw_silence "));
        let words = row.unwrap().split_whitespace().skip(1);
        let value: Vec<&str> = words.take(shown.split(' ').count()).collect();
        assert_eq!(value.join(" "), shown, "{ran:?}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    check(&["--set", "bounds.raw_silenc=1s"])
        .assert_refused("bounds.raw_silenc: unknown setting; did you mean `bounds.raw_silence`?");
    checked()
        .env("LIFESIGN_RETRY__ATEMPTS", "3")
        .run()
        .assert_refused(
            "LIFESIGN_RETRY__ATEMPTS: retry.atempts: unknown setting; did you mean \
             `retry.attempts`?",
        );
    let file = File::new("[bounds]\nheaders = \"2s\"\n  raw_silenc = \"45s\"\n");
    check(&file.flag()).assert_refused(&format!(
        "{}:3:3: bounds.raw_silenc: unknown setting; did you mean `bounds.raw_silence`?",
        file.name()
    ));
    let file = File::new("\n[bouns]\n");
    check(&file.flag()).assert_refused(&format!(
        "{}:2:2: bouns: unknown setting; did you mean `bounds`?",
        file.name()
    ));
    check(&["--profile", "patiant"]).assert_refused(
        "profile: \"patiant\" is not a profile; accepted: \"progress\", \"patient\" or \
         \"harness\"; did you mean `patient`?",
    );
}

#[test]
fn a_file_that_is_no_toml_is_named_with_line_and_column() {
    let file = File::new("[bounds]\nheaders = \"2s\"\nraw_silence = \n");

    let ran = check(&file.flag());

    ran.assert_code(2)
        .assert_said(&format!("error: {}:3:15: ", file.name()));
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let ran = check(&["--config", "/nowhere/lifesign.toml"]);

    ran.assert_refused(
        "/nowhere/lifesign.toml: cannot be read: No such file or directory (os error 2)",
    );
}

#[test]
fn a_bad_value_stops_a_call_before_anything_is_sent() {
    let provider = Provider::scenario("happy");
    for (value, _) in BAD {
        let setting = format!("bounds.before_content={value}");
        Program::call(&provider.url(), "anthropic")
            .set(&setting)
            .run()
            .assert_code(2);
    }

    assert!(provider.requests().is_empty());
}

#[test]
fn counts_and_rates_of_zero_are_refused() {
    for key in [
        "retry.attempts",
        "retry.cut.tries",
        "bounds.think_tokens_per_second",
    ] {
        for value in ["-1", "x", "1.5"] {
            let ran = check(&["--set", &format!("{key}={value}")]);
            ran.assert_code(2)
                .assert_said(&format!("error: {key}: "))
                .assert_said("accepted: ");
        }
    }
    check(&["--set", "retry.attempts=0"])
        .assert_code(2)
        .assert_said("error: retry.attempts: ")
        .assert_said("accepted: a whole number, at least 1");
}

#[test]
fn a_setting_without_a_value_is_refused() {
    check(&["--set", "bounds.raw_silence"]).assert_refused(
        "--set: \"bounds.raw_silence\" has no `=`; accepted: a setting and its value, such as \
         bounds.raw_silence=45s",
    );
}

#[test]
fn a_profile_that_needs_a_wall_clock_says_so() {
    check(&["--profile", "harness"]).assert_refused(
        "bounds.wall_clock: is not set, and the profile `harness` needs it; accepted: a duration \
         such as \"10 min\"; set it, or take the profile `patient`",
    );
    check(&["--profile", "harness", "--set", "bounds.wall_clock=10 min"]).assert_code(0);
}

#[test]
fn settings_that_can_never_act_are_reported_with_exit_code_1() {
    let ran = check(&[
        "--set",
        "bounds.wall_clock=5s",
        "--set",
        "bounds.raw_silence=45s",
    ]);

    ran.assert_code(1);
    assert!(ran.stdout.contains("bounds.raw_silence"), "{ran:?}");
    assert!(ran.stdout.contains("(call)"), "{ran:?}");
}

#[test]
fn settings_that_can_act_pass() {
    let ran = check(&[]);

    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (
            0,
            "every setting can be used, and none of them is without effect\n",
            ""
        )
    );
}

#[test]
fn a_wire_or_a_url_that_is_none_is_named_with_what_is_accepted() {
    let check = |url, wire| Program::new(&["config", "check", "--base-url", url, "--wire", wire]);
    check("http://localhost", "openai-cat")
        .run()
        .assert_refused(
            "--wire: \"openai-cat\" is no wire; accepted: openai-chat, openai-responses, anthropic",
        );
    for url in [
        "ftp://localhost",
        "localhost:8080",
        "http://",
        "",
        "http://a b",
        "http://[::1",
    ] {
        let ran = check(url, "anthropic").run();
        ran.assert_code(2)
            .assert_said("error: --base-url: ")
            .assert_said("; accepted: a URL such as");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
}

/// A check passed files whose roots or key were missing, and the call that followed was refused.
#[test]
fn a_check_opens_what_a_call_opens_and_refuses_it_in_the_same_words() {
    let provider = Provider::scenario("happy");
    let broken = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    for (line, column, problem) in [
        (
            "tls_extra_roots = \"nowhere.pem\"",
            19,
            "upstream.tls_extra_roots: \"DIR/nowhere.pem\" cannot be read: No such file or \
             directory (os error 2); accepted: the path of a PEM file",
        ),
        (
            "tls_extra_roots = \"lifesign.toml\"",
            19,
            "upstream.tls_extra_roots: \"DIR/lifesign.toml\" holds no certificate in PEM form; \
             accepted: the path of a PEM file",
        ),
        (
            "tls_extra_roots = \"broken.pem\"",
            19,
            "upstream.tls_extra_roots: \"DIR/broken.pem\" holds a broken certificate, number 1 in \
             it; accepted: the path of a PEM file",
        ),
        (
            "api_key = { file = \"nowhere.txt\" }",
            11,
            "upstream.api_key: the file DIR/nowhere.txt cannot be read: No such file or directory \
             (os error 2); accepted: { env = \"NAME\" } or { file = \"PATH\" }",
        ),
        (
            "api_key = { env = \"NOWHERE\" }",
            11,
            "upstream.api_key: the variable NOWHERE is not set; accepted: { env = \"NAME\" } or { \
             file = \"PATH\" }",
        ),
    ] {
        let file = File::new(&format!(
            "[[upstream]]\nname = \"a\"\nwire = \"anthropic\"\nbase_url = \"{}\"\n{line}\n",
            provider.url()
        ));
        let directory = file.path.parent().unwrap();
        fs::write(directory.join("broken.pem"), broken).unwrap();
        let problem = problem.replace("DIR", directory.to_str().unwrap());
        let told = format!("{}:5:{column}: {problem}", file.name());

        for words in [["config", "check"].as_slice(), &["call", "--prompt", "hi"]] {
            Program::new(words)
                .args(&file.flag())
                .run()
                .assert_refused(&told);
        }
    }
    assert!(provider.requests().is_empty());
}

#[test]
fn nobody_to_call_is_told_with_the_fix() {
    Program::new(&["call", "--prompt", "hi"])
        .run()
        .assert_refused(
            "nobody to call: no upstream is named; give --base-url URL and --wire WIRE, or \
         --upstream NAME with --config FILE",
        );
}

#[test]
fn a_prompt_or_a_request_that_cannot_be_used_is_named() {
    let directory = TempDir::new().unwrap();
    let at = |name: &str, text: &[u8]| {
        let file = directory.path().join(name);
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let half = at("half.json", b"{\"model\":");
    let list = at("list.json", b"[1]");
    let bytes = at("bytes.txt", b"\xff\xfe");
    let blank = at("blank.txt", b" \n");

    for (flag, value, why) in [
        (
            "--prompt",
            "",
            "prompt: \"\" is empty; accepted: some text".to_owned(),
        ),
        (
            "--request",
            &half,
            format!(
                "--request: {half} cannot be sent: request body is no JSON object: EOF while \
                 parsing a value at line 1 column 9"
            ),
        ),
        (
            "--request",
            &list,
            format!(
                "--request: {list} cannot be sent: request body is no JSON object: expected an \
                 object"
            ),
        ),
        (
            "--prompt-file",
            &bytes,
            format!("--prompt-file: {bytes} cannot be read: stream did not contain valid UTF-8"),
        ),
        (
            "--prompt-file",
            &blank,
            "prompt: \" \\n\" is empty; accepted: some text".to_owned(),
        ),
        (
            "--prompt-file",
            "/nowhere",
            "--prompt-file: /nowhere cannot be read: No such file or directory (os error 2)"
                .to_owned(),
        ),
    ] {
        let ran = Program::call_without_prompt("http://127.0.0.1:9", "openai-chat")
            .args(&[flag, value])
            .run();

        ran.assert_refused(&why);
    }
}

#[test]
fn a_typo_in_a_script_is_named_with_its_place_and_the_nearest_word() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("script.txt");
    fs::write(&file, "status 200 sse\n  +0.2 answr \"x\"\n").unwrap();

    let ran = Program::new(&["standin", "--script"]).args(&[&file]).run();

    ran.assert_refused(&format!(
        "--script: {}: line 2, column 8: unknown word `answr`; did you mean `answer`?",
        file.display()
    ));
}

#[test]
fn a_scenario_that_there_is_not_is_answered_with_the_nearest() {
    let ran = Program::new(&["standin", "--scenario", "pings-onyl"]).run();

    ran.assert_refused(
        "--scenario: no scenario is called `pings-onyl`; did you mean `pings-only`?",
    );
}

#[test]
fn a_file_that_is_no_recording_is_refused() {
    for text in [
        "",
        "hello\n",
        "{}\n",
        "{\"lifesign_recording\":9,\"wire\":\"anthropic\"}\n",
    ] {
        let file = File::new(text);

        let ran = Program::new(&["standin", "--replay", &file.name()]).run();

        ran.assert_code(2)
            .assert_said(&format!("error: --replay: {}: ", file.name()));
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
}

/// Such recordings were accepted, and every request to them failed.
#[test]
fn a_recording_that_cannot_be_played_is_refused_with_its_field() {
    let opening = r#"{"lifesign_recording":1,"wire":"anthropic"}"#;
    let end = r#"{"at_us":1,"end":"eof"}"#;
    let head = |rest: &str| format!("{opening}\n{{\"at_us\":1,{rest}}}\n{end}\n");
    for (text, told) in [
        (
            format!("{}\n{end}\n", opening.replace("anthropic", "gemini")),
            "line 1 of the recording: wire is \"gemini\"; accepted: openai-chat, openai-responses, \
             anthropic",
        ),
        (
            format!("{}\n{end}\n", opening.replace("anthropic", "antropic")),
            "line 1 of the recording: wire is \"antropic\"; accepted: openai-chat, \
             openai-responses, anthropic; did you mean `anthropic`?",
        ),
        (
            head(r#""status":101"#),
            "line 2 of the recording: status is 101; accepted: 200 to 999",
        ),
        (
            head(r#""status":200,"headers":[["a b","c"]]"#),
            "line 2 of the recording: headers: the name is \"a b\"; accepted: letters, digits and \
             !#$%&'*+-.^_`|~",
        ),
        (
            head(r#""status":200,"headers":[["a","b\r\nc: d"]]"#),
            "line 2 of the recording: headers: the value of a is \"b\\r\\nc: d\"; accepted: text \
             without control characters",
        ),
    ] {
        let file = File::new(&text);

        let ran = Program::new(&["standin", "--replay", &file.name()]).run();

        ran.assert_refused(&format!("--replay: {}: {told}", file.name()));
    }
}

#[test]
fn the_stand_in_refuses_a_speed_and_a_place_that_are_none() {
    for speed in ["0", "-1", "nan", "inf"] {
        let ran = Program::new(&["standin", "--scenario", "happy"])
            .args(&[format!("--speed={speed}")])
            .run();
        ran.assert_code(2).assert_said("--speed");
    }
    let listen = |place| Program::new(&["standin", "--scenario", "happy", "--listen", place]).run();
    listen("here").assert_refused(
        "--listen: \"here\" is no address and port; accepted: such as 127.0.0.1:8090",
    );
    listen("0.0.0.0:0").assert_refused(
        "--listen: 0.0.0.0:0 is not on loopback, and the stand-in listens nowhere else",
    );
}

const TARGET: [&str; 4] = [
    "--base-url",
    "http://127.0.0.1:8080",
    "--wire",
    "openai-chat",
];

fn checked() -> Program {
    Program::new(&["config", "check"]).args(&TARGET)
}

#[track_caller]
fn check(words: &[&str]) -> Ran {
    checked().args(words).run()
}

/// A configuration file that goes away with the test.
struct File {
    _directory: TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("lifesign.toml");
        fs::write(&path, text).unwrap();
        Self {
            _directory: directory,
            path,
        }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn flag(&self) -> [&str; 2] {
        ["--config", self.path.to_str().unwrap()]
    }
}
