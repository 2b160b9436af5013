//! `lifesign run` as a person, a script or a benchmark meets it.

mod harness_view;
mod outcomes;
mod plain;
mod recorded;
mod refused;
mod resume;
mod shown;
mod stopped;
mod talk;
mod tools;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns the words of a script that call these tools, whole: id, name, arguments.
fn calls(calls: &[(&str, &str, Value)]) -> String {
    let mut steps: Vec<String> = calls
        .iter()
        .enumerate()
        .map(|(index, (id, name, arguments))| {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            let call = json!({"index": index, "id": id, "type": "function", "function": function});
            format!("tool {call}")
        })
        .collect();
    steps.push("finish \"tool_calls\"; done; eof".to_owned());
    steps.join("; ")
}

/// A directory for tools and transcripts.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a file of servers in which `server.py` is `name`, with these fields besides.
    fn servers(&self, name: &str, more: &Value) -> Option<PathBuf> {
        let python = std::process::Command::new("python3")
            .arg("--version")
            .output();
        if python.is_err() {
            println!("skipped: there is no python3");
            return None;
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/run/server.py");
        let mut server = json!({"command": "python3", "args": [script]});
        for (key, value) in more.as_object().unwrap() {
            server[key] = value.clone();
        }
        Some(self.write(
            "mcp.json",
            &json!({"mcpServers": {name: server}}).to_string(),
        ))
    }

    /// Returns the types of the transcript's lines.
    fn entries(&self, name: &str) -> Vec<String> {
        self.text(name)
            .lines()
            .map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                line["type"].as_str().unwrap().to_owned()
            })
            .collect()
    }
}
