//! What a caller sees of a call while it runs.

use std::time::Duration;

use lifesign_core::{Failure, HeartbeatOrigin, Notice};

use crate::outcome::Answered;

/// One thing that happened in a call, in the order in which it happened.
///
/// Content arrives once: everything before an attempt's first content is held back, and after it no
/// second attempt is made, so what was handed out is never repeated or taken back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallEvent {
    /// The upstream is on hold after a rate limit or overload; the call waits for its turn.
    Holding {
        /// How long the wait will be.
        wait: Duration,
    },
    /// The first content is here: this attempt is the one that counts.
    Started {
        /// The provider's id of the answer, where it gave one.
        id: Option<String>,
        /// The model that answers, as the provider names it.
        model: Option<String>,
    },
    /// A piece of thinking.
    Reasoning(String),
    /// A piece of the answer's text, refusals included.
    Text(String),
    /// A piece of a tool call. Run none before [`Finished`](Self::Finished) says that it is
    /// complete.
    ToolCall(ToolCallPiece),
    /// The line is alive; the model has said nothing.
    Heartbeat {
        /// Whose life it proves.
        origin: HeartbeatOrigin,
    },
    /// The content has been quiet for long. The call goes on.
    Notice(Notice),
    /// An attempt failed before content; another one follows.
    Retrying {
        /// Why the attempt failed.
        failure: Box<Failure>,
        /// The next attempt, counted from 1.
        attempt: u32,
        /// The most attempts that the call may make.
        of: u32,
        /// How long the call waits before it.
        wait: Duration,
    },
    /// The whole answer. Nothing follows.
    Finished(Box<Answered>),
}

/// A piece of a tool call as it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCallPiece {
    /// Which call of the answer it belongs to, counted from 0.
    pub call: usize,
    /// The call's id, where this piece carries one.
    pub id: Option<String>,
    /// The tool's name, where this piece carries one.
    pub name: Option<String>,
    /// The next piece of the arguments' JSON text.
    pub arguments: String,
}
