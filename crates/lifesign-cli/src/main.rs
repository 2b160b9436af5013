//! The `lifesign` program: arguments in, exit code and JSON or a live line out.

mod args;
mod command;
mod output;
mod recording;
mod status_line;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::output::complain;

/// One thread: a stuck worker elsewhere can then never fake silence.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Call(args) => command::call::run(*args).await,
        Command::Config(args) => command::config::run(&args),
        Command::Demo(args) => command::demo::run(&args).await,
        Command::Standin(args) => command::standin::run(args).await,
        Command::Completions { shell } => command::completions::run(shell),
    };
    match ended {
        Ok(code) => code,
        Err(error) => complain(&error),
    }
}
