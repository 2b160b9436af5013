//! How a call ended, and the one JSON object that says so.

use std::fmt;
use std::time::Duration;

use lifesign_core::{AttemptRecord, Failure, FailureCode, FailureReport, Phase, Usage};
use lifesign_wire::{Answer, ToolCall};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A whole answer, and what it took to get it.
#[derive(Clone, Debug)]
pub struct Answered {
    /// What the model said.
    pub answer: Answer,
    /// The call's id, time-sortable.
    pub id: String,
    /// Every attempt, in order; the last one brought the answer.
    pub attempts: Vec<AttemptRecord>,
    /// From the call's beginning to its end.
    pub elapsed: Duration,
}

/// A call that brought no whole answer, and what it did bring.
#[derive(Clone, Debug)]
pub struct Failed {
    /// What happened.
    pub failure: Failure,
    /// The content that arrived before it: kept, and never to be taken for a whole answer.
    pub partial: Option<Answer>,
    /// The call's id, time-sortable.
    pub id: String,
    /// Every attempt, in order.
    pub attempts: Vec<AttemptRecord>,
    /// From the call's beginning to its end.
    pub elapsed: Duration,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

// The failure speaks for itself; `source` would print the same text twice.
impl std::error::Error for Failed {}

impl From<Box<Failed>> for std::io::Error {
    /// Keeps the kind that the failure has as an I/O error: `TimedOut` for silence.
    fn from(failed: Box<Failed>) -> Self {
        failed.failure.into()
    }
}

/// In one word, how a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The answer is whole.
    Completed,
    /// The answer began and did not end.
    Truncated,
    /// There is a failure, perhaps with a partial answer.
    Failed,
    /// The caller left.
    Cancelled,
}

impl Outcome {
    /// Returns the name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Truncated => "truncated",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl From<FailureCode> for Outcome {
    fn from(code: FailureCode) -> Self {
        match code {
            FailureCode::Cancelled => Self::Cancelled,
            FailureCode::Truncated => Self::Truncated,
            _ => Self::Failed,
        }
    }
}

/// The result of a call as one JSON object, version 1.
///
/// The fields are described in `docs/reference/call-json.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallReport {
    /// The version of this object's shape: 1.
    #[cfg_attr(feature = "schema", schemars(extend("const" = Self::VERSION)))]
    pub v: u32,
    /// The call's id, time-sortable.
    pub id: String,
    /// In one word, how the call ended.
    pub outcome: Outcome,
    /// What happened; null on success.
    pub failure: Option<FailureReport>,
    /// The text that arrived.
    pub text: String,
    /// The reasoning that arrived; absent if the provider sent no such field.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reasoning: Option<String>,
    /// The tool calls, in order of first appearance.
    pub tool_calls: Vec<ToolCall>,
    /// The finish reason as the provider wrote it; null where none came.
    pub finish_reason: Option<String>,
    /// The usage of the last attempt; null when unknown.
    pub usage: Option<Usage>,
    /// Every attempt, in order.
    pub attempts: Vec<AttemptRecord>,
    /// From the call's beginning to its end, in milliseconds.
    pub elapsed_ms: u64,
}

impl CallReport {
    /// The version of the object's shape.
    pub const VERSION: u32 = 1;

    fn new(
        outcome: Outcome,
        failure: Option<&Failure>,
        answer: Option<&Answer>,
        id: &str,
        attempts: &[AttemptRecord],
        elapsed: Duration,
    ) -> Self {
        Self {
            v: Self::VERSION,
            id: id.to_owned(),
            outcome,
            failure: failure.map(FailureReport::from),
            text: answer.map(|answer| answer.text.clone()).unwrap_or_default(),
            reasoning: answer.and_then(|answer| answer.reasoning.clone()),
            tool_calls: answer
                .map(|answer| answer.tool_calls.clone())
                .unwrap_or_default(),
            finish_reason: answer.and_then(|answer| answer.finish_reason.clone()),
            usage: answer.and_then(|answer| answer.usage),
            attempts: attempts.to_vec(),
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl From<&Answered> for CallReport {
    fn from(answered: &Answered) -> Self {
        Self::new(
            Outcome::Completed,
            None,
            Some(&answered.answer),
            &answered.id,
            &answered.attempts,
            answered.elapsed,
        )
    }
}

impl From<&Failed> for CallReport {
    fn from(failed: &Failed) -> Self {
        Self::new(
            failed.outcome(),
            Some(&failed.failure),
            failed.partial.as_ref(),
            &failed.id,
            &failed.attempts,
            failed.elapsed,
        )
    }
}

impl Failed {
    /// Returns the end of a call that was refused before anything was sent.
    ///
    /// `why` names what cannot be used, in one clause.
    pub fn refused(why: impl Into<String>) -> Self {
        let mut failure = Failure::new(FailureCode::RefusedSetting, Phase::Queued);
        failure.detail = Some(why.into());
        Self::unbegun(failure)
    }

    /// Returns the end of a call whose caller left before anything was sent.
    pub fn cancelled() -> Self {
        Self::unbegun(Failure::new(FailureCode::Cancelled, Phase::Queued))
    }

    pub(crate) fn unbegun(failure: Failure) -> Self {
        Self {
            failure,
            partial: None,
            id: Uuid::now_v7().to_string(),
            attempts: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// Returns the exit code of a program whose call failed so.
    ///
    /// A lost connection keeps its own code, whether or not content came before.
    pub const fn exit_code(&self) -> u8 {
        self.failure.exit_code()
    }

    /// Returns in one word how the call ended: a connection lost after content is `truncated` too.
    pub fn outcome(&self) -> Outcome {
        if self.failure.code == FailureCode::ConnectionLost && self.failure.partial {
            return Outcome::Truncated;
        }
        self.failure.code.into()
    }
}
