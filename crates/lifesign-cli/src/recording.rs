//! `--record`: what the provider sent, written so that the stand-in can play it again.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use http::{HeaderMap, StatusCode};
use lifesign::Recorder;
use lifesign_wire::recording::{End, Ending, Head, Opening, encode_chunk};

/// Keeps the response of the last attempt, and writes it when the call is over.
///
/// The file appears whole or not at all: it is written beside its place and then moved there.
pub(crate) struct RecordingFile {
    path: PathBuf,
    opening: Opening,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    text: String,
    ended: bool,
}

impl RecordingFile {
    /// Returns a recording that will be written to `path`, which must be writable now.
    pub(crate) fn create(path: &Path, wire: &str, model: Option<&str>) -> anyhow::Result<Self> {
        // What is beside a directory may be writable, and yet nothing can be moved onto it.
        ensure!(
            !path.is_dir(),
            "--record: {} is a directory",
            path.display()
        );
        let unwritable = || format!("--record: {} cannot be written", path.display());
        if is_special(path) {
            std::fs::OpenOptions::new()
                .write(true)
                .open(path)
                .with_context(unwritable)?;
        } else {
            let beside = beside(path);
            std::fs::File::create(&beside)
                .and_then(|_| std::fs::remove_file(&beside))
                .with_context(unwritable)?;
        }
        Ok(Self {
            path: path.to_owned(),
            opening: Opening {
                wire: wire.to_owned(),
                model: model.map(str::to_owned),
            },
            lines: Mutex::default(),
        })
    }

    /// Writes what was received. Nothing is written where no attempt got as far as a response.
    pub(crate) fn finish(&self) -> anyhow::Result<bool> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.text.is_empty() {
            return Ok(false);
        }
        let beside = beside(&self.path);
        let write = || -> std::io::Result<()> {
            if is_special(&self.path) {
                let mut file = std::fs::OpenOptions::new().write(true).open(&self.path)?;
                return file.write_all(lines.text.as_bytes());
            }
            let mut file = std::fs::File::create(&beside)?;
            file.write_all(lines.text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, &self.path)
        };
        write().with_context(|| format!("--record: {} cannot be written", self.path.display()))?;
        Ok(true)
    }

    fn add(&self, change: impl FnOnce(&mut Lines)) {
        change(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Recorder for RecordingFile {
    fn head(&self, at: Duration, status: StatusCode, headers: &HeaderMap) {
        let head = Head::new(at, status.as_u16(), headers);
        self.add(|lines| {
            // A new attempt takes the place of the one before it.
            lines.text.clear();
            lines.ended = false;
            lines.text.push_str(&self.opening.encode());
            lines.text.push_str(&head.encode());
        });
    }

    fn chunk(&self, at: Duration, bytes: &[u8]) {
        self.add(|lines| lines.text.push_str(&encode_chunk(at, bytes)));
    }

    fn end(&self, at: Duration, how: Ending) {
        self.add(|lines| {
            if !lines.text.is_empty() && !std::mem::replace(&mut lines.ended, true) {
                lines.text.push_str(&End { at, how }.encode());
            }
        });
    }
}

impl fmt::Debug for RecordingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Returns whether there is something at `path` that is no plain file, such as a pipe or a device:
/// it is written to, and never moved onto.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}
