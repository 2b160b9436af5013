//! Packages for Node below the target directory, as a lock file of ours pins them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::step::{say, succeed};
use crate::tool::{answers, same};

/// A Node and its npm.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) program: PathBuf,
    /// The script that is its npm.
    pub(crate) npm: PathBuf,
}

/// Returns the modules in `home`, which has what the lock file in `tools` pins.
///
/// They are installed where they are missing, and again where the file has changed or one of `names`
/// cannot be required.
///
/// # Errors
///
/// Fails where the packages cannot be installed.
pub(crate) fn modules(node: &Node, tools: &Path, home: &Path, names: &[&str]) -> Result<PathBuf> {
    let modules = home.join("node_modules");
    let installed = home.join("installed.json");
    let lock = tools.join("package-lock.json");
    let requires = names.iter().map(|name| format!("require('{name}')"));
    let requires = requires.collect::<Vec<_>>().join(";");
    let can_require = || {
        let mut node = Command::new(&node.program);
        answers(node.args(["-e", &requires]).current_dir(home))
    };
    if same(&lock, &installed) && can_require() {
        return Ok(modules);
    }

    say(&format!("    making {}", modules.display()));
    fs::create_dir_all(home).with_context(|| format!("cannot make {}", home.display()))?;
    for name in [".npmrc", "package.json", "package-lock.json"] {
        fs::copy(tools.join(name), home.join(name))
            .with_context(|| format!("cannot copy {name} to {}", home.display()))?;
    }
    let quiet = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
    succeed(
        Command::new(&node.program)
            .arg(&node.npm)
            .args(quiet)
            .args(["--omit=optional", "--ignore-scripts"])
            // What the chores print is read by a shell.
            .stdout(std::io::stderr())
            .current_dir(home),
    )?;
    // Last, so that an interrupted installation starts over.
    fs::copy(&lock, &installed).with_context(|| format!("cannot write {}", installed.display()))?;
    Ok(modules)
}
