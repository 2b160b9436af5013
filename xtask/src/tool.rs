//! Other programs: cargo, its subcommands, whether they are there, and what they were made from.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::workspace;

/// Returns a cargo command to run in the workspace, by the cargo that runs us.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(workspace::root());
    command
}

/// Returns whether the cargo subcommand `name` is installed.
pub(crate) fn has_subcommand(name: &str) -> bool {
    answers(&mut cargo(&[name, "--version"]))
}

/// Returns whether `command` can be started and succeeds, without showing what it prints.
pub(crate) fn answers(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns whether both files are there and hold the same.
pub(crate) fn same(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}
