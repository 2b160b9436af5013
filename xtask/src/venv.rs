//! Python environments below the target directory, for the tests that need other people's programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::{say, succeed};
use crate::tool::{answers, same};

/// Returns the Python of the environment `home`, which has what `wanted` lists.
///
/// The environment is made where it is missing, and again where the list has changed or one of
/// `modules` cannot be imported.
///
/// # Errors
///
/// Fails where there is no Python 3, where no virtual environment can be made, and where the wheels
/// cannot be installed.
pub(crate) fn python(home: &Path, wanted: &Path, modules: &str) -> Result<PathBuf> {
    let python = home.join(if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    });
    let installed = home.join("installed.txt");
    let can_import = format!("import {modules}");
    if same(wanted, &installed) && answers(Command::new(&python).args(["-c", &can_import])) {
        return Ok(python);
    }

    let base = base_python()?;
    if home.exists() {
        fs::remove_dir_all(home).with_context(|| format!("cannot remove {}", home.display()))?;
    }
    say(&format!("    making {}", home.display()));
    let mut install = create(&base, home, &python)?;
    install
        .args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
        ])
        .arg(wanted);
    succeed(&mut install).with_context(|| format!("cannot install {}", wanted.display()))?;
    // Last, so that an interrupted installation starts over.
    fs::copy(wanted, &installed)
        .with_context(|| format!("cannot write {}", installed.display()))?;
    Ok(python)
}

/// Makes the virtual environment and returns the start of a pip command for it.
///
/// Debian and its kin split the standard library: `venv` may be there without the pip it installs.
fn create(base: &Path, home: &Path, python: &Path) -> Result<Command> {
    let made = |module: &str, options: &[&str]| {
        answers(
            Command::new(base)
                .args(["-m", module])
                .args(options)
                .arg(home),
        )
    };
    if made("venv", &["--clear"]) || made("virtualenv", &["--quiet"]) {
        let mut pip = Command::new(python);
        pip.args(["-m", "pip"]);
        return Ok(pip);
    }
    let has_pip = answers(Command::new(base).args(["-m", "pip", "--version"]));
    if has_pip && made("venv", &["--clear", "--without-pip"]) {
        let mut pip = Command::new(base);
        pip.args(["-m", "pip", "--python"]).arg(python);
        return Ok(pip);
    }
    bail!(
        "{} can make no virtual environment; install its venv module \
         (on Debian and Ubuntu: apt-get install python3-venv)",
        base.display()
    )
}

fn base_python() -> Result<PathBuf> {
    let is_python_3 = "import sys; sys.exit(sys.version_info < (3, 11))";
    let named = std::env::var_os("PYTHON").map(PathBuf::from);
    let candidates = match &named {
        Some(path) => vec![path.clone()],
        None => vec![PathBuf::from("python3"), PathBuf::from("python")],
    };
    for candidate in &candidates {
        if answers(Command::new(candidate).args(["-c", is_python_3])) {
            return Ok(candidate.clone());
        }
    }
    match named {
        Some(path) => bail!(
            "PYTHON names {}, which is no Python 3.11 or later",
            path.display()
        ),
        None => bail!("no Python 3.11 or later found; install python3, or set PYTHON to its path"),
    }
}
