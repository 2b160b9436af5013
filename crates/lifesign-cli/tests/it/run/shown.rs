//! What is shown of a turn where nobody watches a terminal: plain lines, in their order.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Place, calls};
use crate::harness::{Program, Provider};

/// A turn that says something, reads a file whose text commands terminals, and answers.
fn turn(place: &Place, provider: &Provider) -> Program {
    place.write("evil", "so\x1b[2J\x1b]0;mine\x07\r\nlong");
    let dir = place.path("");
    Program::turn(&provider.url())
        .args(&["--prompt", "go", "--tools", "read", "--dir"])
        .args(&[dir])
}

fn script() -> String {
    let call = calls(&[("c1", "read", json!({"path": "evil"}))]);
    format!(
        "attempt 1:\nstatus 200 sse; role; text \"I look.\"; {call}\nattempt 2:\n\
         answer \"It says \\u001b[1mso.\""
    )
}

#[test]
fn what_is_said_and_what_happens_stand_apart_and_nothing_commands_a_terminal() {
    let (place, provider) = (Place::new(), Provider::script(&script()));

    let ran = turn(&place, &provider).run();

    // What somebody redirects is what the model said, to the letter.
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "I look.\nIt says \x1b[1mso.\n")
    );
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    assert_eq!(lines[0], "tool read: {\"path\":\"evil\"}");
    assert!(lines[1].starts_with("tool read ended after "), "{ran:?}");
    assert!(lines[1].contains("so [2J ]0;mine long"), "{ran:?}");
    let is_plain = |c: char| !c.is_control() || c == '\n';
    assert!(ran.stderr.chars().all(is_plain), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn where_both_go_to_one_file_they_stand_in_their_order_each_on_its_row() {
    let (place, provider) = (Place::new(), Provider::script(&script()));

    let ran = turn(&place, &provider)
        .through(&["sh", "-c", "exec \"$@\" 2>&1", "sh"])
        .run();

    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!((lines.len(), lines[0]), (4, "I look."), "{ran:?}");
    assert!(lines[1].starts_with("tool read: "), "{ran:?}");
    assert!(lines[2].starts_with("tool read ended "), "{ran:?}");
    assert_eq!(lines[3], "It says \x1b[1mso.");
}
