//! What the official clients would send: what they have no types for, nobody has to take.

use std::io::Write;
use std::process::{Command, Stdio};

use lifesign::Wire;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// Asserts that the types of each wire's official client take these bodies.
pub(crate) fn assert_taken(bodies: Vec<(Wire, Value)>) {
    let Some(python) = std::env::var_os("LIFESIGN_SDK_PYTHON") else {
        assert!(
            std::env::var_os("LIFESIGN_REQUIRE_SDKS").is_none(),
            "LIFESIGN_SDK_PYTHON is not set"
        );
        println!("no official clients, so they are left out; see `cargo xtask sdks`");
        return;
    };
    let count = bodies.len();
    let lines = bodies.into_iter().map(|(wire, body)| {
        let line = json!({"wire": wire.name(), "body": body});
        format!("{line}\n")
    });
    let lines: String = lines.collect();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/sdk/accepts.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let told = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();

    let told = String::from_utf8(told.stdout).unwrap();
    assert_eq!(told, format!("read {count}\n"));
}
