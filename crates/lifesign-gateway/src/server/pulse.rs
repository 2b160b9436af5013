//! Whether workers are alive.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lifesign::clock::CallClock;
use lifesign_core::duration::whole_millis;

/// The signs of life of all workers.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    clock: CallClock,
    workers: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
}

/// The sign of life of one worker.
#[derive(Debug)]
pub(super) struct WorkerPulse {
    clock: CallClock,
    beat_at_ms: Arc<AtomicU64>,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            clock: CallClock::start(),
            workers: Arc::default(),
        }
    }

    /// Returns whether every worker has moved within `limit`.
    pub(crate) fn is_alive(&self, limit: Duration) -> bool {
        let now_ms = whole_millis(self.clock.elapsed());
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().all(|beat_at_ms| {
            now_ms.saturating_sub(beat_at_ms.load(Ordering::Relaxed)) <= whole_millis(limit)
        })
    }

    /// Returns how long ago the worker moved that moved last of all.
    pub(crate) fn oldest(&self) -> Duration {
        let now_ms = whole_millis(self.clock.elapsed());
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let beats = workers.iter();
        let ages =
            beats.map(|beat_at_ms| now_ms.saturating_sub(beat_at_ms.load(Ordering::Relaxed)));
        Duration::from_millis(ages.max().unwrap_or_default())
    }

    /// Adds a worker, which is alive now.
    pub(super) fn worker(&self) -> WorkerPulse {
        let pulse = WorkerPulse {
            clock: self.clock,
            beat_at_ms: Arc::default(),
        };
        pulse.beat();
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(Arc::clone(&pulse.beat_at_ms));
        pulse
    }
}

impl WorkerPulse {
    pub(super) fn beat(&self) {
        let now_ms = whole_millis(self.clock.elapsed());
        self.beat_at_ms.store(now_ms, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_worker_that_stands_still_is_enough() {
        let pulse = Pulse::new();
        let (first, _second) = (pulse.worker(), pulse.worker());

        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(pulse.is_alive(Duration::from_secs(3)));
        first.beat();
        assert!(!pulse.is_alive(Duration::from_secs(2)));
        assert_eq!(pulse.oldest(), Duration::from_secs(3));
    }
}
