//! Everything that has to hold before a change goes in, in order of cost.

use anyhow::Result;

use crate::bench;
use crate::llama;
use crate::page;
use crate::sdks;
use crate::step::{Steps, say, succeed};
use crate::tool::{cargo, has_subcommand};

pub(crate) fn run(filter: &[&str]) -> Result<()> {
    let mut steps = Steps::new();
    let llama = steps.run("llama", llama::set_up)?;
    let sdks = steps.run("sdks", sdks::set_up)?;
    let browser = steps.run("browser", || page::set_up(&sdks.node))?;
    steps.run("format", || {
        succeed(&mut cargo(&["fmt", "--all", "--check"]))
    })?;
    steps.run("lint", || {
        let everything = ["clippy", "--workspace", "--all-targets", "--all-features"];
        succeed(cargo(&everything).args(["--", "--deny", "warnings"]))
    })?;
    steps.run("tests", || {
        let mut tests = if has_subcommand("nextest") {
            cargo(&[
                "nextest",
                "run",
                "--workspace",
                "--all-features",
                "--no-tests",
                "warn",
            ])
        } else {
            say("    cargo-nextest is not installed; `cargo test` runs them as well, only slower");
            cargo(&[
                "test",
                "--workspace",
                "--all-features",
                "--lib",
                "--bins",
                "--tests",
                "--examples",
            ])
        };
        // Here a test that has no server, client or browser fails instead of skipping itself, and every run
        // tries the same inputs: new ones are sought by `cargo xtask fuzz`, and without this variable.
        tests
            .args(filter)
            .envs(llama.variables())
            .envs(sdks.variables())
            .envs(browser.variables())
            .env("LIFESIGN_REQUIRE_LLAMA", "1")
            .env("LIFESIGN_REQUIRE_SDKS", "1")
            .env("LIFESIGN_REQUIRE_BROWSER", "1")
            .env("PROPTEST_RNG_SEED", "1");
        succeed(&mut tests)
    })?;
    if filter.is_empty() {
        steps.run("soak", bench::smoke)?;
    }
    steps.run("doctests", || {
        succeed(cargo(&["test", "--workspace", "--all-features", "--doc"]).args(filter))
    })?;
    steps.run("docs", || {
        let mut docs = cargo(&["doc", "--workspace", "--all-features", "--no-deps"]);
        succeed(docs.env("RUSTDOCFLAGS", "--deny warnings"))
    })?;
    if has_subcommand("deny") {
        steps.run("dependencies", || {
            succeed(&mut cargo(&[
                "deny",
                "--log-level",
                "error",
                "check",
                "bans",
                "licenses",
                "sources",
            ]))
        })?;
    } else {
        steps.skip(
            "dependencies",
            "cargo-deny is not installed: cargo install --locked cargo-deny",
        );
    }
    steps.finish();
    Ok(())
}
