//! Sets up the browser that tests drive over the gateway's page, and takes its pictures.
//!
//! The browser is Chromium as the machine has it, since what `playwright-core` would download comes from
//! nobody's registry; `tools/page` pins what drives it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::npm::{self, Node};
use crate::sdks;
use crate::step::{say, succeed};
use crate::tool::{answers, cargo};
use crate::workspace;

/// A browser, and what drives it.
#[derive(Debug)]
pub(crate) struct Browser {
    chromium: PathBuf,
    node: PathBuf,
    modules: PathBuf,
}

impl Browser {
    /// Returns the variables that the tests read.
    pub(crate) fn variables(&self) -> [(&'static str, &Path); 3] {
        [
            ("LIFESIGN_CHROMIUM", &self.chromium),
            ("LIFESIGN_PAGE_NODE", &self.node),
            ("LIFESIGN_PAGE_MODULES", &self.modules),
        ]
    }
}

/// Makes what is missing; `node` runs what drives the browser.
///
/// # Errors
///
/// Fails where there is no Chromium and none may be installed, and where the packages cannot be.
pub(crate) fn set_up(node: &Node) -> Result<Browser> {
    let home = workspace::target().join("page");
    let names = ["axe-core", "playwright-core"];
    let modules = npm::modules(node, &tools(), &home, &names)?;
    Ok(Browser {
        chromium: chromium()?,
        node: node.program.clone(),
        modules,
    })
}

/// Sets up and prints shell commands that let a plain `cargo test` find the browser.
#[expect(clippy::print_stdout, reason = "the shell reads these lines")]
pub(crate) fn print_variables() -> Result<()> {
    let sdks = sdks::set_up()?;
    for (name, value) in set_up(&sdks.node)?.variables() {
        println!("export {name}='{}'", value.display());
    }
    Ok(())
}

/// Takes the pictures of the page that stand in the documentation.
pub(crate) fn screenshots() -> Result<()> {
    let sdks = sdks::set_up()?;
    let browser = set_up(&sdks.node)?;
    succeed(&mut cargo(&["build", "--package", "lifesign-cli"]))?;
    let images = workspace::root().join("docs/images");
    succeed(
        Command::new(&browser.node)
            .arg(tools().join("screenshots.mjs"))
            .arg(images)
            .envs(browser.variables())
            .env(
                "LIFESIGN_PROGRAM",
                workspace::target().join("debug/lifesign"),
            ),
    )
}

/// Returns the Chromium of this machine, which is installed where that can be done.
fn chromium() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("LIFESIGN_CHROMIUM") {
        return Ok(named.into());
    }
    if let Some(found) = found() {
        return Ok(found);
    }
    say("    installing Chromium");
    let install = ["install", "--no-install-recommends", "chromium"];
    for before in [&["env"][..], &["sudo", "--non-interactive", "env"]] {
        // A machine that was just made knows of no packages yet.
        let is_there = apt(before, &install) || apt(before, &["update"]) && apt(before, &install);
        if is_there && let Some(found) = found() {
            return Ok(found);
        }
    }
    bail!(
        "there is no Chromium, and it may not be installed from here: install it (on Debian and Ubuntu: \
         apt-get install chromium), or set LIFESIGN_CHROMIUM to the path of one"
    )
}

/// Returns whether a command of apt's succeeds, as `before` runs it.
fn apt(before: &[&str], arguments: &[&str]) -> bool {
    let [program, before @ ..] = before else {
        return false;
    };
    let quiet = [
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "--yes",
        "--quiet=2",
    ];
    answers(
        Command::new(program)
            .args(before)
            .args(quiet)
            .args(arguments),
    )
}

fn found() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let directories: Vec<_> = std::env::split_paths(&path).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names
        .iter()
        .flat_map(|name| {
            directories
                .iter()
                .map(move |directory| directory.join(name))
        })
        .find(|program| answers(Command::new(program).arg("--version")))
}

fn tools() -> PathBuf {
    workspace::root().join("tools/page")
}
