//! How the writing of a journal goes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::JournalError;

/// How the writing of a journal goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JournalHealth {
    /// In one word.
    pub state: JournalState,
    /// Why nothing can be written, while that is so.
    pub error: Option<String>,
    /// Records that were dropped since the journal was opened.
    pub lost: u64,
}

/// How the writing of a journal goes, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalState {
    /// Everything is written.
    #[default]
    Writing,
    /// More comes than can be written, and what finds no place is dropped.
    Dropping,
    /// Nothing can be written now; it is tried again.
    Failing,
}

/// What the writer and those who record share. Each change of state is told to the log once.
#[derive(Debug, Default)]
pub(super) struct Health {
    failing: Mutex<Option<String>>,
    is_dropping: AtomicBool,
    lost: AtomicU64,
    /// Of the lost those of which the journal does not tell yet.
    untold: AtomicU64,
    is_closing: AtomicBool,
    /// Whether somebody waits for what is recorded to be written.
    is_awaited: AtomicBool,
}

impl Health {
    pub(super) fn get(&self) -> JournalHealth {
        let error = self.failing().clone();
        let state = if error.is_some() {
            JournalState::Failing
        } else if self.is_dropping.load(Ordering::Relaxed) {
            JournalState::Dropping
        } else {
            JournalState::Writing
        };
        JournalHealth {
            state,
            error,
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    /// Notes that a record found no place.
    pub(super) fn note_dropped(&self) {
        self.add_lost(1);
        if !self.is_dropping.swap(true, Ordering::Relaxed) {
            tracing::warn!("the journal drops records: they come faster than they can be written");
        }
    }

    pub(super) fn add_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
        self.untold.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn set_closing(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_awaited(&self, is_awaited: bool) {
        self.is_awaited.store(is_awaited, Ordering::Relaxed);
    }

    /// Whether somebody waits for what is recorded to be written.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }

    /// Whether nobody waits any more for a disk that cannot be written.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// Takes the number of lost records of which the journal is to tell.
    pub(super) fn take_untold(&self) -> u64 {
        self.untold.swap(0, Ordering::Relaxed)
    }

    /// Gives it back: it could not be told.
    pub(super) fn return_untold(&self, count: u64) {
        self.untold.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn set_failing(&self, error: &JournalError) {
        let text = error.to_string();
        let mut failing = self.failing();
        if failing.is_none() {
            tracing::error!(
                error = %text,
                "the journal cannot be written; calls go on, and records that find no place are lost"
            );
        }
        *failing = Some(text);
    }

    /// Notes that everything at hand was written; `caught_up` if nothing was lost meanwhile.
    pub(super) fn set_written(&self, caught_up: bool) {
        let was_failing = self.failing().take().is_some();
        let was_dropping = caught_up && self.is_dropping.swap(false, Ordering::Relaxed);
        if was_failing || was_dropping {
            let lost = self.lost.load(Ordering::Relaxed);
            tracing::info!(lost, "the journal is written again");
        }
    }

    fn failing(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        // Each change is one assignment.
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
