//! The `lifesign` program: arguments in, exit code and JSON or a live line out.

mod answer_out;
mod args;
mod command;
mod command_line;
mod interrupts;
mod log;
mod output;
mod recording;
mod status_line;
mod table;
mod told;

use std::process::ExitCode;

use crate::args::Command;
use crate::output::complain;

/// Gives pages back to the system when the load has gone, and packs those of many idle streams more
/// tightly than the system's own allocator does.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match command_line::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    // One thread: a stuck worker elsewhere can then never fake silence.
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return complain(&anyhow::Error::new(error).context("no runtime")),
    };
    let ended = runtime.block_on(run(cli.command));
    // A name lookup that hangs cannot be cancelled; nobody waits for it.
    runtime.shutdown_background();
    match ended {
        Ok(code) => code,
        Err(error) => complain(&error),
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Call(args) => command::call::run(*args).await,
        Command::Config(command) => command::config::run(&command),
        Command::Demo(args) => command::demo::run(&args).await,
        Command::Report(args) => command::report::run(args),
        Command::Run(args) => command::run::run(*args).await,
        Command::Serve(args) => command::serve::run(args).await,
        Command::Standin(args) => command::standin::run(args).await,
        Command::Top(args) => command::top::run(args).await,
        Command::Completions { shell } => command::completions::run(shell),
        Command::Schema { of } => command::schema::run(of),
    }
}
