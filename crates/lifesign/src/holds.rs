//! Holds that the calls of one client share.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lifesign_core::{FailureCode, HoldKey, HoldWait};

use crate::clock::CallClock;

/// Pauses on (upstream, model, credential), shared by all calls of a client.
pub(crate) struct Holds {
    /// Counts from the client's beginning.
    clock: CallClock,
    table: Mutex<lifesign_core::Holds<HoldKey>>,
}

impl Holds {
    pub(crate) fn new() -> Self {
        Self {
            clock: CallClock::start(),
            table: Mutex::new(lifesign_core::Holds::new(MOST_HOLDS)),
        }
    }

    /// Returns what `call` has to wait for, if anything.
    pub(crate) fn wait(&self, key: &HoldKey, call: &str) -> Option<HoldWait> {
        self.table().wait(key, call, self.clock.elapsed())
    }

    /// Holds `key` for `wait` from now; `call` is its probe and does not wait for it.
    pub(crate) fn raise(&self, key: HoldKey, wait: Duration, why: FailureCode, call: &str) {
        let now = self.clock.elapsed();
        self.table()
            .raise(key, now.saturating_add(wait), why, call, now);
    }

    /// Ends the hold on `key` if `call` is its probe, because an attempt of it got through.
    pub(crate) fn release(&self, key: &HoldKey, call: &str) {
        let now = self.clock.elapsed();
        let mut table = self.table();
        if table.hold(key, now).is_some_and(|hold| hold.probe == call) {
            table.release(key);
        }
    }

    fn table(&self) -> MutexGuard<'_, lifesign_core::Holds<HoldKey>> {
        // A panic elsewhere cannot leave a hold half-raised: each change is one insertion.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holds")
            .field("count", &self.table().len())
            .finish()
    }
}

/// Returns what a hold of this upstream, model and credential is on.
///
/// The credential goes in as a hash alone.
pub(crate) fn hold_key(upstream: String, model: Option<&str>, credential: Option<&str>) -> HoldKey {
    let mut hasher = DefaultHasher::new();
    credential.hash(&mut hasher);
    HoldKey {
        upstream,
        model: model.map(str::to_owned),
        credential: hasher.finish(),
    }
}

/// More pairs of upstream and model than any one program talks to.
const MOST_HOLDS: usize = 1_024;
