//! The project's own chores: `cargo xtask test`.

use std::process::Command;

use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("test") => test(),
        other => bail!("unknown chore {other:?}; there is: test"),
    }
}

fn test() -> Result<()> {
    run(&["fmt", "--all", "--check"])?;
    run(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])?;
    run(&["test", "--workspace"])
}

fn run(arguments: &[&str]) -> Result<()> {
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .status()
        .with_context(|| format!("cannot start cargo {arguments:?}"))?;
    if !status.success() {
        bail!("cargo {} failed: {status}", arguments.join(" "));
    }
    Ok(())
}
