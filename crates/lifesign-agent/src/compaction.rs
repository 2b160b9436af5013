//! Making room in a context: what a summary may replace, and what is left out where there is none.

use lifesign::{Message, Request, ToolChoice};

use crate::form::Form;
use crate::transcript::{Entry, Said};

/// Returns about how many tokens the conversation has.
///
/// What the provider counted last is taken at its word; what came since, at four bytes a token.
pub(crate) fn tokens(entries: &[Entry]) -> u64 {
    let mut bytes = 0_u64;
    for (at, entry) in entries.iter().enumerate() {
        match entry {
            Entry::Answer(said) => {
                bytes = match counted(said) {
                    Some(tokens) => tokens.saturating_mul(BYTES_PER_TOKEN),
                    None => bytes.saturating_add(entry_bytes(entry)),
                };
            }
            Entry::Compacted { summary, keep_from } => {
                let kept = entries.get(*keep_from..at).unwrap_or_default();
                bytes = summary.len() as u64 + kept.iter().map(entry_bytes).sum::<u64>();
            }
            Entry::Elided { results } => {
                let left_out = results.iter().filter_map(|at| entries.get(*at));
                bytes = bytes.saturating_sub(left_out.map(entry_bytes).sum());
            }
            _ => bytes = bytes.saturating_add(entry_bytes(entry)),
        }
    }
    bytes / BYTES_PER_TOKEN
}

/// Returns how many tokens the context had once the model had said that, where the provider told.
fn counted(said: &Said) -> Option<u64> {
    let usage = said.usage?;
    let cached = match Form::of(&said.wire) {
        Form::Messages => usage.cached_input_tokens.unwrap_or_default(),
        // Those that came from a cache are among the others.
        Form::Chat | Form::Plain | Form::Responses => 0,
    };
    let tokens = usage.input_tokens?.saturating_add(usage.output_tokens?);
    Some(tokens.saturating_add(cached))
}

/// Returns the first entry that a summary leaves as it is: the last whole rounds stay.
///
/// `None` where there is nothing before it that is worth a summary.
pub(crate) fn keep_from(entries: &[Entry]) -> Option<usize> {
    let before = entries
        .iter()
        .rposition(|entry| matches!(entry, Entry::Compacted { .. }));
    let starts: Vec<usize> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| match entry {
            Entry::User { .. } => true,
            Entry::Answer(said) => !said.continues,
            _ => false,
        })
        .map(|(at, _)| at)
        .collect();
    let at = *starts.get(starts.len().checked_sub(ROUNDS_KEPT)?)?;
    // Something must have come since the last summary, or the next one would say the same.
    let least = before.map_or(FIRST_ENTRY, |at| at + 1);
    (at > least + 1).then_some(at)
}

/// Returns which tool results are left out, oldest first, to save `excess` tokens.
///
/// Those of the last answer stay: the model has not seen them yet.
pub(crate) fn to_elide(entries: &[Entry], excess: u64) -> Vec<usize> {
    let is_answer = |entry: &Entry| matches!(entry, Entry::Answer(_));
    let last = entries.iter().rposition(is_answer).unwrap_or_default();
    let from = entries.iter().rev().find_map(|entry| match entry {
        Entry::Compacted { keep_from, .. } => Some(*keep_from),
        _ => None,
    });
    let mut saved = 0;
    let mut chosen = Vec::new();
    for (at, entry) in entries
        .iter()
        .enumerate()
        .take(last)
        .skip(from.unwrap_or(0))
    {
        if saved >= excess {
            break;
        }
        let Entry::ToolEnded(ran) = entry else {
            continue;
        };
        let is_elided = entries.iter().any(|entry| match entry {
            Entry::Elided { results } => results.contains(&at),
            _ => false,
        });
        if !is_elided && ran.text.len() > LEAST_WORTH_ELIDING {
            saved += ran.text.len() as u64 / BYTES_PER_TOKEN;
            chosen.push(at);
        }
    }
    chosen
}

/// Returns the request for a summary, which `messages` end by asking for.
pub(crate) fn request(mut base: Request, messages: Vec<Message>) -> Request {
    base.messages = messages;
    base.max_tokens = Some(SUMMARY_TOKENS);
    base.stream = false;
    if !base.tools.is_empty() {
        base.tool_choice = Some(ToolChoice::None);
    }
    base
}

/// How full the context may get, in hundredths of it.
const FULL: u64 = 80;

/// How full it is after results were left out, in hundredths.
const ROOMY: u64 = 60;

/// By how much more, in hundredths, a summary is tried again that could not be made.
const GROWN: u64 = 10;

/// Returns how many tokens are too many, where they are `tokens` of `limit` and that is near it.
pub(crate) const fn excess(tokens: u64, limit: u64) -> Option<u64> {
    if tokens < limit / 100 * FULL {
        return None;
    }
    Some(tokens.saturating_sub(limit / 100 * ROOMY))
}

/// Returns by how many tokens a context of `limit` has to grow before a summary is tried again that
/// could not be made.
pub(crate) const fn growth(limit: u64) -> u64 {
    limit / 100 * GROWN
}

fn entry_bytes(entry: &Entry) -> u64 {
    let bytes = match entry {
        Entry::User { text, .. } | Entry::Nudge { text, .. } => text.len(),
        Entry::Answer(said) => said_bytes(said),
        Entry::Partial(partial) => said_bytes(&partial.said),
        Entry::ToolEnded(ran) => ran.text.len(),
        _ => 0,
    };
    bytes as u64
}

fn said_bytes(said: &Said) -> usize {
    let calls = said.tool_calls.iter();
    said.text.len() + calls.map(|call| call.arguments.len()).sum::<usize>()
}

/// What a token has on average in English; too few rather than too many.
const BYTES_PER_TOKEN: u64 = 4;

/// The entry behind the first line.
const FIRST_ENTRY: usize = 1;

/// How many things said last stay as they are.
const ROUNDS_KEPT: usize = 2;

/// A shorter result is not longer than what would stand in its place.
const LEAST_WORTH_ELIDING: usize = 200;

const SUMMARY_TOKENS: u64 = 2_048;

/// What asks for a summary.
pub(crate) const SUMMARISE: &str = "Sum up this conversation for yourself, so that you can go on without it: \
    what was asked for, what was decided, what was done and found out (with names, paths and \
    numbers as they are), and what is left to do. Write the summary alone, and call no tool.";

#[cfg(test)]
mod tests;
