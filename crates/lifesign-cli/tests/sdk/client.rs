//! A client under test: one of the scripts in `tools/sdk`, which wraps one official client.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::process::Process;

/// A client under test, running. It answers one case after the other.
pub(crate) struct Client {
    process: Process,
    /// Whether it leaves repeating to us where we say so.
    pub(crate) obeys_should_retry: bool,
}

impl Client {
    /// Starts a client for Python; says why and returns `None` where there is none.
    pub(crate) fn python(script: &str) -> Option<Self> {
        Self::start("LIFESIGN_SDK_PYTHON", script)
    }

    /// Starts a client for Node; says why and returns `None` where there is none.
    pub(crate) fn node(script: &str) -> Option<Self> {
        Self::start("LIFESIGN_SDK_NODE", script)
    }

    fn start(runs_it: &str, script: &str) -> Option<Self> {
        let Some(program) = std::env::var_os(runs_it) else {
            assert!(
                std::env::var_os("LIFESIGN_REQUIRE_SDKS").is_none(),
                "{runs_it} is not set"
            );
            println!("skipped: no clients; see `cargo xtask sdks`");
            return None;
        };
        let tools = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/sdk");
        let mut command = Command::new(program);
        command.arg(tools.join(script)).env_clear();
        for kept in ["PATH", "HOME", "TMPDIR", "SYSTEMROOT", MODULES] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        // The scripts lie in the repository, which is not the place for what Python compiles.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        Some(Self {
            process: Process::reading_output(&mut command),
            obeys_should_retry: false,
        })
    }

    /// Says that it leaves repeating to us where we say so.
    pub(crate) fn obeys_should_retry(mut self) -> Self {
        self.obeys_should_retry = true;
        self
    }

    /// Hands it a case.
    pub(crate) fn begin(&mut self, case: &Value) {
        self.process.write(&case.to_string());
    }

    /// Tells it to leave the call under way.
    pub(crate) fn leave(&mut self) {
        self.process.write("leave");
    }

    /// Returns what came of the case under way.
    #[track_caller]
    pub(crate) fn came(&self) -> Value {
        let line = self.process.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

const MODULES: &str = "LIFESIGN_SDK_NODE_MODULES";
