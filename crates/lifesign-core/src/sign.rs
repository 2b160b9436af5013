//! What one frame tells the clocks.

use std::time::Duration;

use crate::{HeartbeatOrigin, Progress};

/// What one whole frame proves, as the wire that carried it reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    /// The class of progress.
    pub progress: Progress,
    /// Whose life it proves, if it is a heartbeat.
    pub origin: Option<HeartbeatOrigin>,
    /// What it does to the open block, if anything.
    pub block: Option<Block>,
    /// How long a gateway above says that the upstream has been silent.
    pub upstream_silent: Option<Duration>,
}

impl Sign {
    /// Returns a sign of `progress` that says nothing else.
    pub const fn of(progress: Progress) -> Self {
        Self {
            progress,
            origin: None,
            block: None,
            upstream_silent: None,
        }
    }

    /// Returns a heartbeat of `origin`.
    pub const fn heartbeat(origin: HeartbeatOrigin) -> Self {
        Self {
            origin: Some(origin),
            ..Self::of(Progress::Heartbeat)
        }
    }
}

/// What a frame does to the block that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// A block of this kind opens.
    Opens(BlockKind),
    /// The open block brought something: a non-empty delta.
    Fills,
    /// The open block closes.
    Closes,
}

/// The kinds of block, as far as the bounds care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Text, refusal, media: grows where it can be seen.
    Text,
    /// Thinking: may fill in the dark.
    Thinking,
    /// A tool call of the caller's: its arguments may fill in the dark.
    Tool,
    /// A tool the provider runs itself: its result may take long.
    ServerTool,
}

impl BlockKind {
    /// Returns whether such a block may fill without anything to see for as long as the allowance.
    pub const fn is_dark(self) -> bool {
        !matches!(self, Self::Text)
    }
}
