//! How a call ended, as one JSON object.

use std::time::Duration;

use lifesign_core::duration::whole_millis;
use lifesign_core::{AttemptRecord, Failure, FailureReport, Usage};
use lifesign_wire::{Answer, ToolCall};
use serde::{Deserialize, Serialize};

use crate::outcome::{Answered, Failed, Outcome};

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
            elapsed_ms: whole_millis(elapsed),
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
