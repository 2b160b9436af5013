//! Fuzzing with libFuzzer.
//!
//! The same entry points run as property tests under `cargo xtask test`; this is for longer looks.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::{Steps, succeed};
use crate::tool::answers;
use crate::workspace;

pub(crate) fn run(seconds: &str) -> Result<()> {
    let seconds: u32 = seconds
        .parse()
        .with_context(|| format!("`{seconds}` is no whole number of seconds"))?;
    if !answers(&mut nightly(&["--version"])) {
        bail!("fuzzing needs nightly Rust: rustup toolchain install nightly");
    }
    if !answers(&mut nightly(&["fuzz", "--version"])) {
        bail!("fuzzing needs cargo-fuzz: cargo install --locked cargo-fuzz");
    }
    let targets = workspace::rust_files(&workspace::root().join("fuzz/fuzz_targets"));
    if targets.is_empty() {
        bail!("there is no target in fuzz/fuzz_targets");
    }

    let mut steps = Steps::new();
    for target in targets {
        let limit = format!("-max_total_time={seconds}");
        steps.run(&target, || {
            succeed(nightly(&["fuzz", "run", &target]).args(["--", &limit]))
        })?;
    }
    steps.finish();
    Ok(())
}

fn nightly(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", "cargo"])
        .args(arguments)
        .current_dir(workspace::root());
    command
}
