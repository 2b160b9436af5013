//! One line of a transcript.

use jiff::Timestamp;
use lifesign::{Answer, ToolCall, Usage, Wire};
use serde::{Deserialize, Serialize};

use crate::outcome::TurnOutcome;

/// One thing that was said or done, as it is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Entry {
    /// The conversation began.
    Begin(Begin),
    /// A turn began with what a person said.
    User {
        /// The turn, counted from 1.
        turn: u32,
        /// What was said.
        text: String,
    },
    /// The model was reminded of what it had left undone.
    Nudge {
        /// The rule of the table.
        rule: String,
        /// The reminder.
        text: String,
    },
    /// The model said something whole.
    Answer(Said),
    /// The model said something that broke off.
    Partial(Partial),
    /// A tool call is about to run. What stands behind it may or may not have happened, until its
    /// result is written.
    ToolBegan {
        /// The id of the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// A tool call came to its end.
    ToolEnded(Ran),
    /// What came before `keep_from` is replaced by a summary when it is sent.
    Compacted {
        /// The summary.
        summary: String,
        /// The first entry that is sent as it is, counted from 0.
        keep_from: usize,
    },
    /// The results of these tool calls are left out when they are sent.
    Elided {
        /// The entries, counted from 0.
        results: Vec<usize>,
    },
    /// The turn is over.
    Ended(Ended),
    /// A turn goes on that had ended, or whose program had.
    Resumed,
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The version of the entries' shape.
    pub v: u32,
    /// The conversation's id, time-sortable.
    pub id: String,
    /// When it began.
    pub at: Timestamp,
}

/// What the model said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// The wire that it came by.
    pub wire: String,
    /// The model, as the provider names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The text.
    pub text: String,
    /// The reasoning. Empty is not absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The tool calls, in the order in which they were asked. Each has an id of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The parts of the answer in its provider's own words, byte for byte, to be sent back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// Why it ended, as the provider wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Tokens, if the provider told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether it goes on from the partial before it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continues: bool,
    /// How many bytes at the beginning of the text repeat the end of what it continues.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overlap: usize,
}

impl Said {
    /// Returns what is kept of `answer`, which came by `wire`.
    ///
    /// Calls without an id, or with that of another, get one of their own. The provider's own words
    /// are then left out, since nothing could be paired with them.
    pub fn of(answer: &Answer, wire: Wire) -> Self {
        let mut tool_calls = answer.tool_calls.clone();
        let has_own_ids = give_ids(&mut tool_calls);
        let parts = if has_own_ids {
            answer.round_trip.parts().map(str::to_owned).collect()
        } else {
            Vec::new()
        };
        Self {
            wire: wire.name().to_owned(),
            model: answer.model.clone(),
            text: answer.text.clone(),
            reasoning: answer.reasoning.clone(),
            tool_calls,
            parts,
            finish_reason: answer.finish_reason.clone(),
            usage: answer.usage,
            continues: false,
            overlap: 0,
        }
    }

    /// Returns the text without what repeats the end of what it continues.
    pub fn new_text(&self) -> &str {
        self.text.get(self.overlap..).unwrap_or_default()
    }
}

/// What the model said before it broke off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Partial {
    /// What arrived.
    #[serde(flatten)]
    pub said: Said,
    /// Where it broke off.
    pub cut: CutPoint,
}

impl Partial {
    /// Returns what is kept of an answer that broke off, which came by `wire`.
    pub fn of(answer: &Answer, wire: Wire) -> Self {
        let said = Said::of(answer, wire);
        let cut = CutPoint {
            text_bytes: said.text.len(),
            reasoning_bytes: said.reasoning.as_deref().unwrap_or_default().len(),
            tool_call: said.tool_calls.last().map(|call| call.id.clone()),
        };
        Self { said, cut }
    }
}

/// Where a message broke off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutPoint {
    /// Bytes of text that had come.
    pub text_bytes: usize,
    /// Bytes of reasoning that had come.
    pub reasoning_bytes: usize,
    /// The tool call that was being written, which is never run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
}

/// The end of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// The id of the call.
    pub id: String,
    /// What the model is told.
    pub text: String,
    /// Whether the tool failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The turn, counted from 1.
    pub turn: u32,
    /// How.
    pub outcome: TurnOutcome,
    /// What the next turn begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When the turn is to be gone on with, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
}

/// Gives each call an id of its own, and returns whether each had one.
fn give_ids(calls: &mut [ToolCall]) -> bool {
    let mut had_own = true;
    for at in 0..calls.len() {
        let (before, rest) = calls.split_at_mut(at);
        let Some(call) = rest.first_mut() else { break };
        let is_taken = |id: &str| before.iter().any(|other| other.id == id);
        if !call.id.is_empty() && !is_taken(&call.id) {
            continue;
        }
        had_own = false;
        let mut number = at + 1;
        let mut id = format!("call_{number}");
        while is_taken(&id) {
            number += 1;
            id = format!("call_{number}");
        }
        call.id = id;
    }
    had_own
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: "f".to_owned(),
            arguments: "{}".to_owned(),
            complete: true,
            kind: None,
        }
    }

    #[test]
    fn calls_without_an_id_or_with_that_of_another_get_one_of_their_own() {
        let mut calls = [call("call_2"), call(""), call("call_2"), call("x")];

        let had_own = give_ids(&mut calls);

        let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["call_2", "call_3", "call_4", "x"]);
        assert!(!had_own);
        assert!(give_ids(&mut calls));
    }

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let entry = Entry::Partial(Partial {
            said: Said {
                wire: "anthropic".to_owned(),
                text: "one\ntwo".to_owned(),
                reasoning: Some(String::new()),
                parts: vec!["{ \"type\" : \"text\" }\n".to_owned()],
                tool_calls: vec![call("c1")],
                continues: true,
                overlap: 3,
                ..Said::default()
            },
            cut: CutPoint {
                text_bytes: 7,
                reasoning_bytes: 0,
                tool_call: Some("c1".to_owned()),
            },
        });

        let line = serde_json::to_string(&entry).unwrap();

        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
    }
}
