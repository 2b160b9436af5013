//! Where a conversation stands: what has begun in it and not ended.

use jiff::Timestamp;
use lifesign::ToolCall;

use super::entry::Entry;

/// Where a conversation stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// How many turns have begun.
    pub turns: u32,
    /// Whether the last of them has not ended.
    pub is_open: bool,
    /// When the last turn is to be gone on with, if it ended so.
    pub wake_at: Option<Timestamp>,
    /// What the next turn begins with.
    pub note: Option<String>,
    /// The tool calls of the last answer that have no result, in the order in which they were asked.
    pub open_calls: Vec<OpenCall>,
    /// Whether the last thing said by the model broke off and nothing has followed on it.
    pub is_broken_off: bool,
    /// Whether the last thing said is an answer that asks for no tool.
    pub is_answered: bool,
}

/// A tool call without a result.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenCall {
    /// What the model asked for.
    pub call: ToolCall,
    /// Whether it had begun to run, so that nobody knows what came of it.
    pub has_begun: bool,
}

impl Standing {
    pub(super) fn of(entries: &[Entry]) -> Self {
        let mut standing = Self::default();
        for entry in entries {
            standing.add(entry);
        }
        standing
    }

    fn add(&mut self, entry: &Entry) {
        match entry {
            Entry::User { turn, .. } => {
                *self = Self {
                    turns: *turn,
                    is_open: true,
                    ..Self::default()
                };
            }
            Entry::Nudge { .. } => {
                self.is_broken_off = false;
                self.is_answered = false;
            }
            Entry::Answer(said) => {
                self.is_broken_off = false;
                self.is_answered = said.tool_calls.is_empty();
                let calls = said.tool_calls.iter().map(|call| OpenCall {
                    call: call.clone(),
                    has_begun: false,
                });
                self.open_calls = calls.collect();
            }
            Entry::Partial(_) => {
                self.is_broken_off = true;
                self.is_answered = false;
                self.open_calls.clear();
            }
            Entry::ToolBegan { id, .. } => {
                let open = self.open_calls.iter_mut().find(|open| open.call.id == *id);
                if let Some(open) = open {
                    open.has_begun = true;
                }
            }
            Entry::ToolEnded(ran) => self.open_calls.retain(|open| open.call.id != ran.id),
            Entry::Ended(ended) => {
                self.is_open = false;
                self.note.clone_from(&ended.note);
                self.wake_at = ended.wake_at;
            }
            Entry::Resumed => {
                self.is_open = true;
                self.note = None;
                self.wake_at = None;
            }
            Entry::Begin(_) | Entry::Compacted { .. } | Entry::Elided { .. } => {}
        }
    }
}
