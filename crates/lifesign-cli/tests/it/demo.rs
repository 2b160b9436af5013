//! `lifesign demo`: seven calls, judged side by side.

use std::time::Duration;

use lifesign::clock::now;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::Program;
use crate::schema::Schema;

#[test]
fn every_scene_ends_as_it_should_and_soon() {
    let began = now();

    let ran = Program::new(&["demo", "--json", "--speed", "100"]).run();

    ran.assert_code(0);
    assert_eq!(ran.stderr, "");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    let ended: Vec<(String, String, usize)> = ran
        .stdout
        .lines()
        .map(|line| {
            assert!(line.starts_with("{\"scenario\":\""), "{line}");
            let line: Value = serde_json::from_str(line).unwrap();
            let report = &line["report"];
            Schema::of("call").check(report);
            let code = report["failure"]["code"].as_str().unwrap_or("completed");
            let attempts = report["attempts"].as_array().unwrap().len();
            (
                line["scenario"].as_str().unwrap().to_owned(),
                code.to_owned(),
                attempts,
            )
        })
        .collect();
    let expected = [
        ("thinking-long", "completed", 1),
        ("pings-only", "no_content", 2),
        ("silence-then-recovery", "completed", 2),
        ("drip", "completed", 1),
        ("cut-mid-answer", "connection_lost", 1),
        ("rate-limit-wait", "completed", 2),
        ("overload", "completed", 3),
    ];
    let expected = expected.map(|(scene, code, tries)| (scene.to_owned(), code.to_owned(), tries));
    assert_eq!(ended, expected);
}

#[test]
fn every_scene_is_told_in_plain_words() {
    let ran = Program::new(&["demo", "--speed", "100"]).run();

    ran.assert_code(0);
    assert_eq!(ran.stderr, "");
    assert!(!ran.stdout.contains('\x1b'), "{}", ran.stdout);
    for told in [
        "Seven calls to a provider that misbehaves, side by side, 100 times faster than life.\n",
        "The provider says that it is thinking, sends only signs of life for four minutes, then answers.\n",
        "    COMPLETED in 4 min",
        ": \"42\"\n",
        "The provider sends signs of life for ever, and never a word.\n",
        "    FAILED after 2 min",
        "The provider accepts the request and says nothing; asked again, it answers.\n",
        ": \"Here I am again.\"\n",
        "The provider sends its answer byte by byte.\n",
        ": \"drop by drop.\"\n",
        "The provider loses the connection in the middle of the answer.\n",
        "    TRUNCATED after ",
        "    kept: \"The answer is\"\n",
        "    the person waiting is told: The connection broke in the middle of the answer; what \
         had come is kept.\n",
        "The provider answers 429 and asks to come back in four seconds.\n",
        ": \"Thank you for waiting.\"\n",
        "The provider is overloaded twice, then has room.\n",
        ": \"Room at last.\"\n",
    ] {
        assert!(ran.stdout.contains(told), "no {told:?} in {}", ran.stdout);
    }
    assert_eq!(ran.stdout.matches("    why: ").count(), 7);
}

#[test]
fn a_speed_that_is_none_is_refused() {
    for speed in ["0", "-1", "nan", "100000", "fast"] {
        let ran = Program::new(&["demo"])
            .args(&[format!("--speed={speed}")])
            .run();

        ran.assert_code(2).assert_said("--speed");
        assert_eq!(ran.stdout, "");
    }
}
