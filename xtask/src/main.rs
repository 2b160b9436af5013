//! The project's own chores: `cargo xtask test`, `bench`, `fuzz`, `mutants`, `llama`,
//! `sdks`, `page`, `screenshots`.
//!
//! Everything that a person or a machine runs on this repository goes through here, so that both run
//! the same commands. It depends on next to nothing, since it is compiled before anything else.

mod bench;
mod fuzz;
mod llama;
mod mutants;
mod npm;
mod page;
mod sdks;
mod step;
mod test;
mod tool;
mod venv;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::step::say;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["bench", "gateway", arguments @ ..] => bench::gateway(arguments),
        ["bench", filter @ ..] => bench::run(filter),
        ["fuzz"] => fuzz::run("30"),
        ["fuzz", seconds] => fuzz::run(seconds),
        ["llama"] => llama::print_variables(),
        ["mutants", extra @ ..] => mutants::run(extra),
        ["page"] => page::print_variables(),
        ["screenshots"] => page::screenshots(),
        ["soak"] => bench::soak("15"),
        ["soak", minutes] => bench::soak(minutes),
        ["sdks"] => sdks::print_variables(),
        ["test", filter @ ..] => test::run(filter),
        [] | ["help" | "--help" | "-h"] => {
            say(USAGE);
            Ok(())
        }
        [other, ..] => bail!("`{other}` is no chore, or has too many arguments\n\n{USAGE}"),
    }
}

const USAGE: &str = "\
usage: cargo xtask CHORE

  test [FILTER]...    everything that has to hold before a change goes in; a filter narrows the tests
  bench [FILTER]...   the benchmarks with short settings, and their figures as a table
  bench gateway       the gateway next to other proxies; --quick, --passing for that alone, or --profile LOAD
  soak [MINUTES]      500 streams at once through the gateway with faults, for 15 minutes by default
  fuzz [SECONDS]      each fuzz target for so long, 30 s by default (nightly Rust and cargo-fuzz)
  mutants [ARG]...    mutation tests of the watch and the retry schedule (cargo-mutants)
  llama               sets up the llama.cpp test server and prints the variables that the tests read
  sdks                sets up the official clients, and prints the variables that the tests read
  page                sets up a browser for the gateway's page, and prints the variables that the tests read
  screenshots         takes the pictures of the page that stand in the documentation";
