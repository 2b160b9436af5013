//! Named steps, each with its time, and a closing line.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A run of named steps that stops at the first one to fail.
#[derive(Debug)]
pub(crate) struct Steps {
    began: Instant,
    done: Vec<(String, Duration)>,
    skipped: Vec<&'static str>,
}

impl Steps {
    /// Starts a run.
    pub(crate) fn new() -> Self {
        Self {
            began: now(),
            done: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Runs `work` as the step `name` and prints how long it took.
    ///
    /// # Errors
    ///
    /// Returns what `work` returns, with the name of the step.
    pub(crate) fn run<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        say(&format!("==> {name}"));
        let began = now();
        let result = work();
        let took = began.elapsed();
        match result {
            Ok(value) => {
                say(&format!("    {name}: ok in {}", seconds(took)));
                self.done.push((name.to_owned(), took));
                Ok(value)
            }
            Err(error) => {
                say(&format!("    {name}: failed after {}", seconds(took)));
                Err(error.context(format!("step `{name}`")))
            }
        }
    }

    /// Says that the step `name` is left out, and why.
    pub(crate) fn skip(&mut self, name: &'static str, why: &str) {
        say(&format!("==> {name}\n    {name}: skipped, {why}"));
        self.skipped.push(name);
    }

    /// Prints the closing line.
    pub(crate) fn finish(self) {
        let Self {
            began,
            done,
            skipped,
        } = self;
        let steps: Vec<String> = done
            .iter()
            .map(|(name, took)| format!("{name} {}", seconds(*took)))
            .collect();
        let skipped = match skipped.as_slice() {
            [] => String::new(),
            names => format!("; skipped: {}", names.join(", ")),
        };
        say(&format!(
            "==> all green in {} ({}{skipped})",
            seconds(began.elapsed()),
            steps.join(", ")
        ));
    }
}

/// Runs `command` to its end and requires that it succeeds.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Returns the command line as somebody would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Prints `text` for the person who watches; standard output is kept for data.
#[expect(clippy::print_stderr, reason = "this is where the chores speak")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[expect(
    clippy::disallowed_methods,
    reason = "steps are timed, and no bound is involved"
)]
fn now() -> Instant {
    Instant::now()
}
