//! What to say to the model, from wherever somebody put it.

use std::io::{self, IsTerminal, Read};
use std::path::Path;

use anyhow::Context as _;
use lifesign_core::{SettingError, Value};

use crate::output::note;

/// Reads the file that `flag` names.
pub(super) fn of_file(flag: &str, path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path)
        .with_context(|| format!("{flag}: {} cannot be read", path.display()))
}

/// Reads standard input to its end.
pub(super) fn of_standard_input() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        note("reading the prompt from standard input; end it with Ctrl-D");
    }
    let mut prompt = String::new();
    io::stdin()
        .read_to_string(&mut prompt)
        .context("standard input cannot be read")?;
    Ok(prompt)
}

/// Refuses a prompt that says nothing.
pub(super) fn check(prompt: &str) -> Result<(), SettingError> {
    if prompt.trim().is_empty() {
        return Err(SettingError::new("prompt", "is empty")
            .with_value(&Value::Text(prompt))
            .with_accepted("some text"));
    }
    Ok(())
}
