//! The rhythm of heartbeats.

use std::time::Duration;

/// The heartbeats since the last event, as far as their rhythm goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pulse {
    last: Option<Duration>,
    gaps: u32,
    longest: Duration,
}

impl Pulse {
    /// Records a heartbeat at `now`. Heartbeats of one instant came together and are one.
    pub(super) fn beat(&mut self, now: Duration) {
        if let Some(last) = self.last.replace(now)
            && now > last
        {
            self.gaps = self.gaps.saturating_add(1);
            self.longest = self.longest.max(now.saturating_sub(last));
        }
    }

    /// Returns the longest silence that this rhythm lets one expect, once it is known.
    pub(super) fn learned(&self) -> Option<Duration> {
        (self.gaps >= GAPS).then(|| self.longest.saturating_mul(MISSED).max(SHORTEST))
    }
}

/// So many gaps make a rhythm.
const GAPS: u32 = 3;
/// So many of the longest gaps without a heartbeat are silence.
const MISSED: u32 = 6;
/// Nothing shorter is learned.
const SHORTEST: Duration = Duration::from_secs(45);
