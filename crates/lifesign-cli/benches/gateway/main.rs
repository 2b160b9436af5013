//! What the gateway costs next to plain reverse proxies, and whether it lasts.
//!
//! ```text
//! cargo xtask bench gateway [--quick]      figures and goals, as a table
//! cargo xtask bench gateway --profile LOAD  where the gateway's time goes: `short`, `paced`, `silent`
//! cargo xtask soak [MINUTES]               500 streams at once with random faults
//! ```
//!
//! The proxy has a core of its own; load and upstream, which are this program again, share another.
//! All figures of a table come from one run, so that their ratios mean something on a machine whose
//! speed does not.

mod bare;
mod caller;
mod measure;
mod process;
mod proxies;
mod soak;
mod table;
mod tls;
mod upstream;
mod watched;
mod wire;

use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::Duration;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[expect(clippy::print_stderr, reason = "where a program says why it fails")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo adds a word of its own.
    let words = arguments.iter().map(String::as_str);
    let words: Vec<&str> = words.filter(|word| *word != "--bench").collect();
    let done = match words.as_slice() {
        [] => pinned("measure", "full"),
        ["--quick"] => pinned("measure", "quick"),
        ["--passing"] => pinned("passing", "full"),
        ["--profile", load] => pinned("profile", load),
        ["soak", seconds] => pinned("soak", seconds),
        ["measure", scale] => measure::run(*scale == "quick"),
        ["passing", _] => measure::passing_alone(),
        ["profile", load] => measure::profile(load),
        ["soaked", seconds] => seconds
            .parse()
            .map_err(Into::into)
            .and_then(|seconds| soak::run(Duration::from_secs(seconds))),
        ["bare", listen, upstream] => bare::serve(listen, upstream),
        _ => Err("usage: gateway [--quick | --passing | --profile LOAD | soak SECONDS]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program again, for load and upstream, on the core that is theirs.
fn pinned(role: &str, argument: &str) -> Result<()> {
    let role = if role == "soak" { "soaked" } else { role };
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CORE]);
    let status = command
        .arg(std::env::current_exe()?)
        .args([role, argument])
        .status()
        .map_err(|error| format!("cannot start taskset: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the run failed: {status}").into())
    }
}

#[expect(clippy::print_stdout, reason = "the figures are what was asked for")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// Where load and upstream run.
const LOAD_CORE: &str = "1";
/// Where the proxy runs.
pub(crate) const PROXY_CORE: &str = "0";
