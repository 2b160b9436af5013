//! The only file of this crate that reads time.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// Measures the time since a stand-in began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// The instant at `elapsed`, or `None` for one too far away to be waited for.
    pub(crate) fn at(self, elapsed: Duration) -> Option<Instant> {
        self.0.checked_add(elapsed)
    }
}

/// Returns the wall time `ahead` of now, for the dates in response headers.
#[expect(
    clippy::disallowed_methods,
    reason = "a date header speaks of the wall clock"
)]
pub(crate) fn wall_time_in(ahead: i64) -> SystemTime {
    let now = SystemTime::now();
    let distance = Duration::from_secs(ahead.unsigned_abs());
    let moved = if ahead < 0 {
        now.checked_sub(distance)
    } else {
        now.checked_add(distance)
    };
    // A date header has whole seconds: rounding up keeps the wait at least as long as was written.
    moved
        .and_then(|time| time.checked_add(Duration::from_millis(999)))
        .unwrap_or(now)
}
