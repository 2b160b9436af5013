//! What the model has said to the person, put together over what broke off and was gone on with.

use super::entry::{Entry, Said};
use crate::nudge::NudgeRule;

/// Returns the reply of the last turn: the last text that was not said beside a tool call.
pub(super) fn reply(entries: &[Entry]) -> String {
    let begins = |entry: &Entry| matches!(entry, Entry::User { .. });
    let from = entries.iter().rposition(begins).unwrap_or_default();
    let mut last = String::new();
    let mut text = String::new();
    // Whether what comes next goes on with the text.
    let mut goes_on = false;
    for entry in entries.iter().skip(from) {
        match entry {
            Entry::Answer(said) => {
                add(&mut text, &mut last, said, goes_on);
                goes_on = false;
            }
            Entry::Partial(partial) => {
                add(&mut text, &mut last, &partial.said, goes_on);
                goes_on = false;
            }
            Entry::Nudge { rule, .. } => goes_on = rule == NudgeRule::Length.name(),
            // What stood beside the call was no reply.
            Entry::ToolBegan { .. } | Entry::ToolEnded(_) => {
                text.clear();
                last.clear();
            }
            _ => {}
        }
    }
    if text.trim().is_empty() { last } else { text }
}

/// Returns the text of the last thing that was said, with what it goes on from.
pub(super) fn last_text(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        let said = match entry {
            Entry::Answer(said) => said,
            Entry::Partial(partial) => &partial.said,
            _ => continue,
        };
        if !said.continues {
            text.clear();
        }
        text.push_str(said.new_text());
    }
    text
}

fn add(text: &mut String, last: &mut String, said: &Said, goes_on: bool) {
    if !said.continues && !goes_on && !text.trim().is_empty() {
        *last = std::mem::take(text);
    }
    text.push_str(said.new_text());
}
