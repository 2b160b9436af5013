//! What a piece of the wire proves, and the clocks that it renews.

use serde::{Deserialize, Serialize};

/// What a piece of the wire proves; each class includes those before it.
///
/// The order means something: a class renews the clocks of every class below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Progress {
    /// Something arrived, or, while sending, was accepted: half a frame, a byte of a body.
    Byte,
    /// A frame that says only "still here".
    Heartbeat,
    /// A provider event without content.
    Lifecycle,
    /// Thinking text, a thinking signature, encrypted or redacted thinking data.
    Reasoning,
    /// Text, refusal, a tool call's name or arguments, media, the end of the answer.
    Output,
}

/// Time since the last progress of at least the clock's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Renewed by every byte.
    Raw,
    /// Renewed by lifecycle events and everything above them.
    Event,
    /// Renewed by reasoning and output.
    Content,
    /// Renewed by output alone.
    Output,
}

impl Clock {
    /// Every clock, from the most to the least often renewed.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Event, Self::Content, Self::Output];

    /// Returns the name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Event => "event",
            Self::Content => "content",
            Self::Output => "output",
        }
    }

    /// Returns the lowest class of progress that renews this clock.
    pub const fn least(self) -> Progress {
        match self {
            Self::Raw => Progress::Byte,
            Self::Event => Progress::Lifecycle,
            Self::Content => Progress::Reasoning,
            Self::Output => Progress::Output,
        }
    }
}

/// The best progress seen in the window of the bound that cut: the truth about the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Finding {
    /// Not a byte.
    Nothing,
    /// Bytes that made no whole frame.
    Bytes,
    /// Heartbeats at best.
    Heartbeats,
    /// Lifecycle events at best.
    Events,
    /// Reasoning at best.
    Reasoning,
    /// Output.
    Output,
}

impl From<Progress> for Finding {
    fn from(progress: Progress) -> Self {
        match progress {
            Progress::Byte => Self::Bytes,
            Progress::Heartbeat => Self::Heartbeats,
            Progress::Lifecycle => Self::Events,
            Progress::Reasoning => Self::Reasoning,
            Progress::Output => Self::Output,
        }
    }
}

/// Whose life a heartbeat proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeartbeatOrigin {
    /// A frame of the provider's own dialect: `ping`, `keepalive`, an empty chunk.
    Provider,
    /// An SSE comment, blank line or white space: whoever writes the stream, often a hop on the
    /// way.
    Comment,
    /// A beat of a gateway that says so.
    Proxy,
}
