//! One snapshot for everybody who watches.
//!
//! It is taken when somebody asks and the last one is old: nothing is done while nobody watches, and a
//! thousand watchers cost no more than one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use super::{Live, Snapshot};
use crate::hub::Hub;

/// The latest snapshot.
#[derive(Default)]
pub(crate) struct Feed {
    latest: ArcSwapOption<Taken>,
    /// Held by whoever takes the next one.
    taking: Mutex<()>,
    is_stale: AtomicBool,
    seq: AtomicU64,
}

/// A snapshot that was taken.
pub(crate) struct Taken {
    at: Duration,
    pub(crate) snapshot: Snapshot,
    json: OnceLock<Bytes>,
    /// What is drawn of it, by view.
    drawn: Mutex<BTreeMap<&'static str, Bytes>>,
}

impl Live {
    /// Returns what is true now, or was less than a second ago.
    pub(crate) fn latest(&self, hub: &Hub, draining: bool) -> Arc<Taken> {
        let feed = &self.feed;
        if let Some(seen) = self.fresh() {
            return seen;
        }
        let taking = match feed.taking.try_lock() {
            Ok(taking) => taking,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // Somebody takes one just now. The workers serve calls: they do not wait for it.
                if let Some(seen) = feed.latest.load_full() {
                    return seen;
                }
                feed.taking.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        if let Some(seen) = self.fresh() {
            return seen;
        }
        feed.is_stale.store(false, Ordering::Relaxed);
        let seq = feed.seq.fetch_add(1, Ordering::Relaxed) + 1;
        let seen = Arc::new(Taken {
            at: self.clock.elapsed(),
            snapshot: self.snapshot(hub, seq, draining),
            json: OnceLock::new(),
            drawn: Mutex::default(),
        });
        feed.latest.store(Some(Arc::clone(&seen)));
        drop(taking);
        seen
    }

    /// Says that something has changed that is to be seen at once.
    pub(crate) fn touch(&self) {
        self.feed.is_stale.store(true, Ordering::Relaxed);
    }

    fn fresh(&self) -> Option<Arc<Taken>> {
        if self.feed.is_stale.load(Ordering::Relaxed) {
            return None;
        }
        let seen = self.feed.latest.load_full()?;
        let age = self.clock.elapsed().saturating_sub(seen.at);
        (age < FRESH).then_some(seen)
    }
}

impl Taken {
    /// Returns it as JSON.
    pub(crate) fn json(&self) -> Bytes {
        let json = self.json.get_or_init(|| {
            // It holds text, numbers and maps with names for keys, so that it can be written.
            serde_json::to_vec(&self.snapshot)
                .unwrap_or_default()
                .into()
        });
        json.clone()
    }

    /// Returns what is drawn of it as `view`, which `draw` does the first time.
    pub(crate) fn drawn(&self, view: &'static str, draw: impl FnOnce() -> String) -> Bytes {
        // What is drawn twice at the same time is drawn alike.
        if let Some(drawn) = self.drawings().get(view) {
            return drawn.clone();
        }
        let drawn = Bytes::from(draw());
        self.drawings().insert(view, drawn.clone());
        drawn
    }

    fn drawings(&self) -> MutexGuard<'_, BTreeMap<&'static str, Bytes>> {
        // Each change is an insertion.
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

/// A little less than the time between two events of a stream, so that each has a new one.
const FRESH: Duration = Duration::from_millis(900);
