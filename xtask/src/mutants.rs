//! Mutation tests of the code that decides: the watch and the retry schedule.

use anyhow::{Result, bail};

use crate::step::succeed;
use crate::tool::{cargo, has_subcommand};
use crate::workspace;

pub(crate) fn run(extra: &[&str]) -> Result<()> {
    if !has_subcommand("mutants") {
        bail!("mutation tests need cargo-mutants: cargo install --locked cargo-mutants");
    }
    let mut mutants = cargo(&["mutants", "--package", "lifesign-core"]);
    for file in DECIDING {
        mutants.args(["--file", file]);
    }
    mutants.arg("--output").arg(workspace::target());
    succeed(mutants.args(extra))
}

const DECIDING: [&str; 4] = [
    "crates/lifesign-core/src/watch.rs",
    "crates/lifesign-core/src/watch/**",
    "crates/lifesign-core/src/retry.rs",
    "crates/lifesign-core/src/retry/**",
];
