//! What one attempt amounted to.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Ages, HeartbeatOrigin};

/// The counts, times and gaps of one attempt.
///
/// Times are since the call began, consumer pauses included; gaps leave them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Body bytes as they came, compressed or not.
    pub bytes: u64,
    /// Whole frames, heartbeats included.
    pub frames: u64,
    /// Heartbeats by origin.
    pub heartbeats: Heartbeats,
    /// Notices given.
    pub notices: u32,
    /// How late the cut came, if there was one. The delay was ours, not the upstream's.
    pub late: Duration,
    /// When the first request byte was written.
    pub sending: Option<Duration>,
    /// When the last request byte was written.
    pub sent: Option<Duration>,
    /// When the response headers came.
    pub headers: Option<Duration>,
    /// When the first body byte came.
    pub first_byte: Option<Duration>,
    /// When the first content came.
    pub first_content: Option<Duration>,
    /// When the attempt ended.
    pub ended: Option<Duration>,
    /// The longest gap of each clock from the first request byte on, the last, open one included.
    pub longest_gap: Ages,
    /// How long the consumer paused in all.
    pub paused: Duration,
}

/// Heartbeats by origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Heartbeats {
    /// Frames of the provider's own dialect.
    pub provider: u64,
    /// Comments, blank lines and white space.
    pub comment: u64,
    /// Beats of a gateway.
    pub proxy: u64,
}

impl Heartbeats {
    /// Returns how many there were in all.
    pub const fn total(&self) -> u64 {
        self.provider + self.comment + self.proxy
    }

    pub(crate) const fn count(&mut self, origin: HeartbeatOrigin) {
        match origin {
            HeartbeatOrigin::Provider => self.provider += 1,
            HeartbeatOrigin::Comment => self.comment += 1,
            HeartbeatOrigin::Proxy => self.proxy += 1,
        }
    }
}
