//! `lifesign completions`: a script that completes the program's words in a shell.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::output::print_line;

pub(crate) fn run(shell: Shell) -> anyhow::Result<ExitCode> {
    // The generator panics where it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lifesign", &mut script);
    let script = String::from_utf8(script).context("the script cannot be written")?;
    print_line(script.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
