//! `lifesign completions`: a script that completes the program's words in a shell.

use std::io;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;

pub(crate) fn run(shell: Shell) -> ExitCode {
    clap_complete::generate(
        shell,
        &mut Cli::command(),
        "lifesign",
        &mut io::stdout().lock(),
    );
    ExitCode::SUCCESS
}
