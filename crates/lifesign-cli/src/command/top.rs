//! `lifesign top`: what a gateway does now, on the whole terminal or once as a table.

mod app;
mod gateway;
mod plain;
mod screen;
mod view;
mod words;

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};

use self::gateway::{Gateway, Trouble};
use crate::args::TopArgs;
use crate::output::{note, print_line};

pub(crate) async fn run(args: TopArgs) -> anyhow::Result<ExitCode> {
    let key = admin_key(args.admin_key_file.as_deref())?;
    let gateway = Gateway::at(&args.url, key.as_deref())?;
    let shown = if args.json {
        print_json(&gateway).await
    } else if args.once || !io::stdout().is_terminal() {
        print_tables(&gateway).await
    } else {
        screen::run(gateway, &args.url).await
    };
    match shown {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Shown::Trouble(trouble)) => Ok(complain(&args.url, key.is_some(), &trouble)),
        Err(Shown::Other(error)) => Err(error),
    }
}

/// What kept the gateway from being shown.
enum Shown {
    Trouble(Trouble),
    Other(anyhow::Error),
}

impl From<Trouble> for Shown {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<anyhow::Error> for Shown {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

async fn print_json(gateway: &Gateway) -> Result<(), Shown> {
    let told = gateway.live().await?;
    let text = String::from_utf8_lossy(&told);
    print_line(text.trim_end()).map_err(anyhow::Error::new)?;
    Ok(())
}

async fn print_tables(gateway: &Gateway) -> Result<(), Shown> {
    let snapshot = gateway.snapshot().await?;
    for line in plain::lines(&snapshot) {
        print_line(&line).map_err(anyhow::Error::new)?;
    }
    Ok(())
}

/// Says why nothing can be shown, and what to do about it.
fn complain(url: &str, has_key: bool, trouble: &Trouble) -> ExitCode {
    note(&format!("error: the gateway at {url}: {trouble}"));
    let (code, hint) = match trouble {
        Trouble::Gone(_) => (
            GONE,
            Some("check the address, and whether `lifesign serve` runs there"),
        ),
        Trouble::Refused { word, .. } if word == "no_admin" => {
            let hint = if has_key {
                "the key that was shown is not its admin key (serve.admin_key)"
            } else {
                "give its admin key (serve.admin_key) with --admin-key-file or LIFESIGN_ADMIN_KEY"
            };
            (REFUSED, Some(hint))
        }
        Trouble::Refused { .. } => (REFUSED, None),
        Trouble::Strange(_) => (REFUSED, Some("check that the address is that of a gateway")),
    };
    if let Some(hint) = hint {
        note(&format!("hint: {hint}"));
    }
    ExitCode::from(code)
}

/// Reads the admin key from a file, or else from the environment.
fn admin_key(file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let Some(path) = file else {
        let key = std::env::var(KEY_VARIABLE).unwrap_or_default();
        return Ok(Some(key.trim().to_owned()).filter(|key| !key.is_empty()));
    };
    let key = std::fs::read_to_string(path)
        .with_context(|| format!("--admin-key-file: {} cannot be read", path.display()))?;
    ensure!(
        !key.trim().is_empty(),
        "--admin-key-file: {} holds no key",
        path.display()
    );
    Ok(Some(key.trim().to_owned()))
}

/// Where the admin key may stand.
const KEY_VARIABLE: &str = "LIFESIGN_ADMIN_KEY";

/// The exit codes of a gateway that refuses, and of one that is not there.
const REFUSED: u8 = 4;
const GONE: u8 = 8;

#[cfg(test)]
mod tests;
