//! Bytes to frames: whole units of a wire, however the reads cut them.
//!
//! A framer holds only what straddles two reads, never sees a clock and gives the same frames for
//! any way to cut the same bytes.

use std::fmt;

pub(crate) use self::sse::Extent;
pub use self::sse::{SseEvent, SseFrame, SseFramer};

mod sse;

/// The longest line and frame that a framer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Bytes of a line without its end. Default 16 MiB.
    pub line: usize,
    /// Bytes of a frame as it came, line ends included. Default 16 MiB.
    pub frame: usize,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self {
            line: 16 << 20,
            frame: 16 << 20,
        }
    }
}

/// A part of a stream is larger than its cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} larger than {limit} bytes (limits.{what})")]
pub struct TooLarge {
    /// What grew too large.
    pub what: Part,
    /// The cap it passed, in bytes.
    pub limit: usize,
}

/// The parts of a stream that have a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole answer, assembled.
    Answer,
    /// Everything together that whoever reads many answers keeps of them.
    Buffered,
    /// One frame.
    Frame,
    /// One line.
    Line,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answer => "answer",
            Self::Buffered => "buffered_total",
            Self::Frame => "frame",
            Self::Line => "line",
        })
    }
}
