//! How a call ended.

use std::fmt;
use std::time::Duration;

use lifesign_core::{AttemptRecord, Failure, FailureCode, Phase};
use lifesign_wire::Answer;
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
#[derive(Clone)]
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

impl fmt::Debug for Failed {
    /// Shows what a program that ends with it should print: the message, then how to find the rest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{self} [code {}, call {}, attempts {}]",
            self.failure.code.name(),
            self.id,
            self.attempts.len()
        )
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_main_returns_prints_its_message_first_and_on_one_line() {
        let failed = Failed::refused("the key is too short");

        assert_eq!(
            format!("{failed:?}"),
            format!(
                "{failed} [code refused_setting, call {}, attempts 0]",
                failed.id
            )
        );
    }
}
