//! A conversation in the words of a wire: what is sent with the next call.
//!
//! What came by the same wire goes back byte for byte; what came by another is told in the words
//! that every wire has. Whatever the transcript holds, each call is followed by exactly one result.

mod fields;
mod names;
mod own_calls;
mod rest;
mod spoken;

use std::collections::BTreeSet;

use lifesign::{Content, Message, Role, Wire};

use self::names::Ids;
use self::spoken::Spoken;
use super::entry::{Ended, Entry};

/// Returns the conversation up to but without entry `to` as the messages of a request, and behind it
/// what the user `says`, if anything.
pub(super) fn messages(
    entries: &[Entry],
    to: usize,
    wire: Wire,
    says: Option<&str>,
) -> Vec<Message> {
    let elided: BTreeSet<usize> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Elided { results } => Some(results),
            _ => None,
        })
        .flatten()
        .copied()
        .collect();
    let entries = entries.get(..to).unwrap_or(entries);
    let mut writer = Writer::new(wire);
    let from = writer.begin(entries);
    for (at, entry) in entries.iter().enumerate().skip(from) {
        writer.add(entry, elided.contains(&at));
    }
    writer.close();
    if let Some(text) = says {
        writer.user(text);
    }
    writer.messages
}

/// Writes messages, and keeps open what later entries may still add to.
struct Writer<'a> {
    wire: Wire,
    messages: Vec<Message>,
    /// What the model is saying, until something else follows.
    spoken: Spoken<'a>,
    /// The calls that want a result, in their order.
    wanted: Vec<Wanted>,
    note: Option<&'a str>,
    ids: Ids,
}

/// A call that wants a result.
struct Wanted {
    /// The id that the transcript has for it.
    id: String,
    name: String,
    /// The id that the request has for it, where it holds the call.
    sent: Option<String>,
    has_begun: bool,
    result: Option<(String, bool)>,
}

impl<'a> Writer<'a> {
    fn new(wire: Wire) -> Self {
        Self {
            wire,
            messages: Vec::new(),
            spoken: Spoken::default(),
            wanted: Vec::new(),
            note: None,
            ids: Ids::new(wire),
        }
    }

    /// Writes the summary of what was compacted, and returns the first entry behind it.
    fn begin(&mut self, entries: &'a [Entry]) -> usize {
        let compacted = entries.iter().rev().find_map(|entry| match entry {
            Entry::Compacted { summary, keep_from } => Some((summary, *keep_from)),
            _ => None,
        });
        let Some((summary, keep_from)) = compacted else {
            return 0;
        };
        self.user(&format!("{SUMMARY_FOLLOWS}\n\n{summary}"));
        let mut asked = None;
        for entry in entries.iter().take(keep_from) {
            match entry {
                Entry::User { text, .. } => asked = Some(text),
                Entry::Ended(Ended { note, .. }) => self.note = note.as_deref(),
                Entry::Resumed => self.note = None,
                _ => {}
            }
        }
        // What the kept entries are about is never left to the summary alone.
        let begins_a_turn = matches!(entries.get(keep_from), Some(Entry::User { .. }));
        if let Some(text) = asked.filter(|_| !begins_a_turn) {
            self.user(&format!("{ASKED_FOR}\n\n{text}"));
        }
        keep_from
    }

    fn add(&mut self, entry: &'a Entry, is_elided: bool) {
        match entry {
            Entry::User { text, .. } => {
                self.close();
                if let Some(note) = self.note.take() {
                    self.user(note);
                }
                self.user(text);
            }
            Entry::Nudge { text, .. } => {
                self.close();
                self.user(text);
            }
            Entry::Answer(said) => {
                if !said.continues {
                    self.close();
                }
                self.spoken.end_with(said);
                self.want();
            }
            Entry::Partial(partial) => {
                if !partial.said.continues {
                    self.close();
                }
                self.spoken.add(&partial.said);
            }
            Entry::ToolBegan { id, .. } => {
                if let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.id == *id) {
                    wanted.has_begun = true;
                }
            }
            Entry::ToolEnded(ran) => {
                if let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.id == ran.id) {
                    let text = if is_elided {
                        format!(
                            "[left out to save room: {} characters of this result]",
                            ran.text.chars().count()
                        )
                    } else {
                        ran.text.clone()
                    };
                    wanted.result = Some((text, ran.is_error));
                }
            }
            Entry::Ended(Ended { note, .. }) => self.note = note.as_deref(),
            Entry::Resumed => self.note = None,
            Entry::Begin(_) | Entry::Compacted { .. } | Entry::Elided { .. } => {}
        }
    }

    /// Writes what the model has said, and notes which calls in it want a result.
    fn want(&mut self) {
        let spoken = std::mem::take(&mut self.spoken);
        let calls = spoken.calls();
        let (content, sent) = spoken.content(self.wire, &mut self.ids);
        for call in &calls {
            self.wanted.push(Wanted {
                id: call.id.clone(),
                name: call.name.clone(),
                sent: sent.get(&call.id).cloned(),
                has_begun: false,
                result: None,
            });
        }
        if !content.is_empty() {
            self.messages.push(Message {
                role: Role::Assistant,
                content,
            });
        }
    }

    /// Closes what the model has said: every call in it gets its result.
    fn close(&mut self) {
        if !self.spoken.is_empty() {
            self.want();
        }
        let wanted = std::mem::take(&mut self.wanted);
        let mut untold = Vec::new();
        for call in wanted {
            let (text, is_error) = call.result.unwrap_or_else(|| {
                let text = if call.has_begun { UNKNOWN } else { NOT_RUN };
                (text.to_owned(), true)
            });
            match call.sent {
                Some(id) => self.push(Content::ToolResult { id, text, is_error }),
                // The provider has no such call, so its result is told in words.
                None => untold.push(format!("The call of the tool `{}`: {text}", call.name)),
            }
        }
        for text in untold {
            self.user(&text);
        }
    }

    /// Adds what the user says; texts that follow one another become one.
    fn user(&mut self, text: &str) {
        // No wire need take a message of nothing, and one does not.
        let text = if text.trim().is_empty() {
            NOTHING
        } else {
            text
        };
        if let Some(Message {
            role: Role::User,
            content,
        }) = self.messages.last_mut()
            && let Some(Content::Text(last)) = content.last_mut()
        {
            last.push_str("\n\n");
            last.push_str(text);
            return;
        }
        self.push(Content::Text(text.to_owned()));
    }

    fn push(&mut self, content: Content) {
        match self.messages.last_mut() {
            Some(message) if message.role == Role::User => message.content.push(content),
            _ => self.messages.push(Message {
                role: Role::User,
                content: vec![content],
            }),
        }
    }
}

const SUMMARY_FOLLOWS: &str = "What was said before this was summed up to save room. The summary:";

const NOTHING: &str = "[a message without text]";

const ASKED_FOR: &str = "What was asked for last, word for word:";

/// The result of a call that had begun when its program died.
pub(crate) const UNKNOWN: &str = "This call had begun when it was interrupted. Whether it ran, and \
    how far, is unknown: look before you make it again.";

/// The result of a call that never began.
pub(crate) const NOT_RUN: &str = "This call was not run.";

/// The result of a call whose arguments did not arrive whole.
pub(crate) const UNREADABLE_CALL: &str =
    "This call was not run: its arguments are not whole. Make it again if it is still wanted.";
