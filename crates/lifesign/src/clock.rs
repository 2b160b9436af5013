//! Time, read in this file alone.
//!
//! Monotonic instants are tokio's, so a test that pauses tokio's clock pauses everything here.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use tokio::time::Instant;

/// The time since a call began, which is the only time that the sans-IO crates know.
#[derive(Clone, Copy, Debug)]
pub struct CallClock {
    began: Instant,
}

impl CallClock {
    /// Starts counting now.
    pub fn start() -> Self {
        Self { began: now() }
    }

    /// Returns how long the call has lasted.
    pub fn elapsed(&self) -> Duration {
        now().saturating_duration_since(self.began)
    }

    /// Returns the instant to sleep to for something that is due `at` after the beginning.
    ///
    /// A time beyond what the platform can express becomes one far in the future.
    pub fn instant(&self, at: Duration) -> Instant {
        self.began
            .checked_add(at)
            .unwrap_or_else(|| self.began + FAR)
    }
}

/// Returns the monotonic time.
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the wall-clock time, for dates that providers state; never for measuring.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
fn wall_now() -> SystemTime {
    SystemTime::now()
}

/// Returns the wall-clock time as a timestamp, for dates that providers state.
pub fn timestamp() -> Timestamp {
    // A clock outside of the years that a timestamp knows states no date worth reading.
    Timestamp::try_from(wall_now()).unwrap_or_default()
}

/// Returns when `wait` from now will be over, if that can be said.
pub fn timestamp_after(wait: Duration) -> Option<Timestamp> {
    timestamp().checked_add(wait).ok()
}

/// About thirty years: beyond any limit, and within what every platform can add.
const FAR: Duration = Duration::from_secs(1_000_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_counts_only_what_it_is_told() {
        let clock = CallClock::start();

        tokio::time::advance(Duration::from_mins(45)).await;

        assert_eq!(clock.elapsed(), Duration::from_mins(45));
        assert_eq!(clock.instant(clock.elapsed()), now());
    }

    #[tokio::test]
    async fn a_due_time_that_overflows_is_far_away_and_no_panic() {
        let clock = CallClock::start();

        assert!(clock.instant(Duration::MAX) > now() + Duration::from_hours(1));
    }
}
