//! `--journal`: calls are written down, and never fail for it.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use lifesign::records::Records;
use lifesign_core::{Limit, Origin};
use lifesign_gateway::config::JournalConfig;
use lifesign_journal::{Journal, JournalError, JournalSettings};

use crate::interrupts::Interrupts;
use crate::output::note;

/// The journal in which the calls of one command are written down.
pub(super) struct CallJournal {
    journal: Arc<Journal>,
    path: PathBuf,
}

impl CallJournal {
    /// Opens the journal at `path`, or else the one that the settings name.
    pub(super) fn open(path: Option<&Path>, config: &JournalConfig) -> anyhow::Result<Self> {
        let path = path.or(config.path.value.as_deref()).ok_or_else(|| {
            anyhow!("--journal: no file is named; give --journal FILE, or set journal.path")
        })?;
        let journal = Journal::open(settings(path, config)).map_err(|error| match error {
            JournalError::Path { path, problem } => refused(&path, &problem),
            other => refused(path, &other),
        })?;
        // A gateway waits for a disk that is full; whoever makes one call is there to be told.
        if let Some(error) = journal.health().error {
            return Err(refused(path, &error));
        }
        Ok(Self {
            journal: Arc::new(journal),
            path: path.to_owned(),
        })
    }

    /// Returns what takes the records of the calls.
    pub(super) fn records(&self) -> Arc<dyn Records> {
        Arc::clone(&self.journal) as _
    }

    /// Waits a moment until what has begun is in the file, so that it is found there
    /// whatever ends this process.
    pub(super) async fn keep_start(&self) {
        let journal = Arc::clone(&self.journal);
        let written = tokio::task::spawn_blocking(move || journal.flush());
        tokio::select! {
            // Whether everything could be written is told at the end.
            _ = written => {}
            () = tokio::time::sleep(MOMENT) => {}
        }
    }

    /// Writes what is left, unless somebody loses patience, and says so where it is not written.
    pub(super) async fn close(self, interrupts: &mut Interrupts) {
        let journal = Arc::clone(&self.journal);
        let closing = tokio::task::spawn_blocking(move || journal.close());
        let is_written = tokio::select! {
            closed = closing => closed.unwrap_or(false),
            () = interrupts.next() => false,
        };
        let health = self.journal.health();
        if is_written && health.lost == 0 {
            return;
        }
        let path = self.path.display();
        let why = health
            .error
            .unwrap_or_else(|| "it took too long".to_owned());
        note(&format!(
            "error: the journal {path} lacks a call or a part of one: {why}"
        ));
    }
}

fn refused(path: &Path, problem: &dyn Display) -> anyhow::Error {
    anyhow!("--journal: {}: {problem}", path.display())
}

/// Returns how the journal is opened for one command.
///
/// A gateway may share the file, and what is kept is its business: here only what was said to be too
/// old or too much is removed.
fn settings(path: &Path, config: &JournalConfig) -> JournalSettings {
    let mut settings = JournalSettings::new(path);
    settings.keep = match config.keep.value {
        Limit::After(keep) if config.keep.origin != Origin::Default => Some(keep),
        Limit::After(_) | Limit::Off => None,
    };
    settings.max_size = match config.max_size.origin {
        Origin::Default => u64::MAX,
        _ => config.max_size.value as u64,
    };
    settings
}

/// The longest that is waited for a start to be written.
const MOMENT: Duration = Duration::from_secs(1);
