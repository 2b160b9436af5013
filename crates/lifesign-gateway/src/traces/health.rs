//! How the sending of spans goes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// How the sending of spans goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TracesHealth {
    /// In one word.
    pub state: TracesState,
    /// Why nothing can be sent, while that is so.
    pub error: Option<String>,
    /// Spans that the collector has taken.
    pub exported: u64,
    /// Spans that found no place, or were given up at the end or after minutes of failing.
    pub dropped: u64,
    /// Spans that the collector refused.
    pub refused: u64,
}

/// How the sending of spans goes, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TracesState {
    /// Everything is taken.
    #[default]
    Exporting,
    /// More comes than the collector takes, and what finds no place is dropped.
    Dropping,
    /// The collector cannot be reached, or refuses what comes.
    Failing,
}

/// What the exporter and those who record share. Each change of state is told to the log once.
#[derive(Debug, Default)]
pub(super) struct Health {
    failing: Mutex<Option<String>>,
    is_dropping: AtomicBool,
    exported: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
}

impl Health {
    pub(super) fn get(&self) -> TracesHealth {
        let error = self.failing().clone();
        let state = if error.is_some() {
            TracesState::Failing
        } else if self.is_dropping.load(Ordering::Relaxed) {
            TracesState::Dropping
        } else {
            TracesState::Exporting
        };
        TracesHealth {
            state,
            error,
            exported: self.exported.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Notes that a span found no place.
    pub(super) fn note_full(&self) {
        self.add_dropped(1);
        if !self.is_dropping.swap(true, Ordering::Relaxed) {
            tracing::warn!("spans are dropped: they come faster than the collector takes them");
        }
    }

    pub(super) fn add_dropped(&self, spans: u64) {
        self.dropped.fetch_add(spans, Ordering::Relaxed);
    }

    /// Notes that the collector has refused spans.
    pub(super) fn set_refused(&self, spans: u64, error: &str) {
        self.refused.fetch_add(spans, Ordering::Relaxed);
        self.set_failing(error);
    }

    /// Notes that spans could not be delivered.
    pub(super) fn set_failing(&self, error: &str) {
        let was_failing = self.failing().replace(error.to_owned()).is_some();
        if !was_failing {
            tracing::warn!(
                error,
                "spans cannot be exported; calls go on, and spans that find no place are dropped"
            );
        }
    }

    pub(super) fn add_exported(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
    }

    /// Notes that the collector has taken all spans of a request; `caught_up` if few wait already.
    pub(super) fn set_exported(&self, spans: u64, caught_up: bool) {
        self.add_exported(spans);
        let was_failing = self.failing().take().is_some();
        let was_dropping = caught_up && self.is_dropping.swap(false, Ordering::Relaxed);
        if was_failing || was_dropping {
            let TracesHealth {
                dropped, refused, ..
            } = self.get();
            tracing::info!(dropped, refused, "spans are exported again");
        }
    }

    fn failing(&self) -> MutexGuard<'_, Option<String>> {
        // Each change is one assignment.
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
