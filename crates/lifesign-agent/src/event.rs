//! What a host sees of a turn while it runs.

use std::time::Duration;

use jiff::Timestamp;
use lifesign::{CallEvent, CallReport, Failure, Monitor, ToolCall};

use crate::nudge::NudgeRule;
use crate::outcome::TurnReport;
use crate::recovery::Means;
use crate::tools::{ToolProgress, ToolResult};

/// One thing that happened in a turn, in the order in which it happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AgentEvent {
    /// The turn began, or goes on.
    Began {
        /// The turn, counted from 1.
        turn: u32,
    },
    /// The model is told what became of the turn before.
    Noted {
        /// In these words.
        note: String,
    },
    /// A model call began.
    CallBegan {
        /// What for.
        purpose: Purpose,
        /// A view of its clocks.
        monitor: Monitor,
    },
    /// Something happened in the call under way. [`CallEvent::Finished`] is not among it, nor is what
    /// the model says in a summary.
    Call(CallEvent),
    /// The call under way is over.
    CallEnded {
        /// What for it was.
        purpose: Purpose,
        /// How it ended, with every attempt.
        report: Box<CallReport>,
    },
    /// An answer broke off; what had come is kept.
    BrokeOff {
        /// Why.
        failure: Box<Failure>,
        /// Bytes of text that had come.
        text_bytes: usize,
    },
    /// The turn goes on from what had come.
    Recovering {
        /// Which recovery in a row, counted from 1.
        recovery: u32,
        /// The most in a row.
        of: u32,
        /// By which means.
        means: Means,
    },
    /// The answer that had broken off is whole.
    Recovered {
        /// How many bytes at the seam were a repetition, which is left out.
        overlap: usize,
    },
    /// The turn will be sent again.
    Resending {
        /// Why.
        failure: Box<Failure>,
        /// Which time, counted from 1.
        resend: u32,
        /// After how long.
        wait: Duration,
    },
    /// The turn ends here, and is to be gone on with later.
    WakeScheduled {
        /// When.
        at: Timestamp,
    },
    /// Somebody should look.
    Alert(Alert),
    /// A tool runs.
    ToolBegan {
        /// The call.
        call: ToolCall,
    },
    /// A tool says how far it is. Of what it says faster than the turn is read, this is the newest.
    ToolProgress {
        /// The id of the call.
        id: String,
        /// How far.
        progress: ToolProgress,
    },
    /// A tool call is over, or was not made.
    ToolEnded {
        /// The id of the call.
        id: String,
        /// The tool, by the name that the model gave.
        name: String,
        /// What the model is told.
        result: ToolResult,
        /// How long it took.
        elapsed: Duration,
    },
    /// The model is reminded of what it left undone.
    Nudged {
        /// By which rule.
        rule: NudgeRule,
        /// Which reminder of the exchange, counted from 1.
        nudge: u32,
        /// The most in one exchange.
        of: u32,
    },
    /// What was said long ago is replaced by a summary.
    Compacted {
        /// Entries that are no longer sent.
        entries: usize,
    },
    /// No summary could be made, so the oldest tool results are left out, as far as there are any.
    ///
    /// It follows each summary that failed, and what is left out afterwards without another one.
    Elided {
        /// Why there is none.
        failure: Box<Failure>,
        /// How many results.
        results: usize,
    },
    /// The turn is over. Nothing follows.
    Ended(Box<TurnReport>),
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The next answer.
    Answer,
    /// The rest of an answer that broke off.
    Recovery,
    /// A summary, to save room.
    Compaction,
}

/// What somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alert {
    /// The provider asks for a wait of more than an hour.
    LongWait {
        /// The wait.
        wait: Duration,
        /// When it is over.
        until: Timestamp,
    },
}
