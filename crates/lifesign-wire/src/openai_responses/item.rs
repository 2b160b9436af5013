//! An item of a response while it fills.

use std::mem::discriminant;

use serde_json::value::RawValue;

use super::event::{ItemFields, PartFields};
use super::piece;
use crate::dialect::{EventSink, Meaning};
use crate::event::{Event, ToolPiece};
use crate::lenient::{Object, Text};

/// An item that has opened.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) index: u64,
    pub(super) holds: Holds,
    /// Which call it is, of its kind.
    pub(super) call: usize,
    /// Its final value, as it goes back.
    pub(super) last: Option<Box<RawValue>>,
    /// The slots that deltas filled: final values win only elsewhere.
    filled: Vec<Slot>,
    encrypted: Option<Box<str>>,
}

/// What an item holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Call,
    CustomCall,
    /// A call of a tool of the provider's that has no arguments to speak of.
    Hosted,
    Message,
    Reasoning,
    /// A call of a remote tool, made by the provider.
    ServerCall,
    Unknown,
}

impl Holds {
    pub(super) fn of(kind: &str) -> Self {
        match kind {
            "custom_tool_call" => Self::CustomCall,
            "function_call" => Self::Call,
            "mcp_call" => Self::ServerCall,
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "mcp_list_tools" => Self::Hosted,
            _ if kind.ends_with("_call") || kind.ends_with("_call_output") => Self::Hosted,
            _ => Self::Unknown,
        }
    }
}

/// A part of an item that text goes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Arguments,
    Raw(u64),
    Refusal(u64),
    Summary(u64),
    Text(u64),
}

impl Item {
    pub(super) fn new(index: u64, holds: Holds) -> Self {
        Self {
            index,
            holds,
            call: 0,
            last: None,
            filled: Vec::new(),
            encrypted: None,
        }
    }

    /// Tells a piece that goes into `slot`.
    pub(super) fn tell(&mut self, slot: Slot, text: &str, sink: EventSink<'_>) -> Option<Meaning> {
        if text.is_empty() {
            return None;
        }
        if !self.filled.contains(&slot) {
            self.filled.push(slot);
        }
        Some(match slot {
            Slot::Arguments => {
                self.tell_call(piece(self, text), sink);
                Meaning::OUTPUT
            }
            Slot::Raw(_) | Slot::Summary(_) => {
                sink(Event::Reasoning(text));
                Meaning::REASONING
            }
            Slot::Refusal(_) => {
                sink(Event::Refusal(text));
                Meaning::OUTPUT
            }
            Slot::Text(_) => {
                sink(Event::Text(text));
                Meaning::OUTPUT
            }
        })
    }

    /// Tells the final value of `slot`, unless deltas brought it.
    pub(super) fn tell_final(
        &mut self,
        slot: Slot,
        text: &str,
        sink: EventSink<'_>,
    ) -> Option<Meaning> {
        if self.filled.contains(&slot) {
            return None;
        }
        self.tell(slot, text, sink)
    }

    /// Tells the id and name of the call that the item is.
    pub(super) fn tell_identity(&mut self, fields: &ItemFields<'_>, sink: EventSink<'_>) {
        if !matches!(
            self.holds,
            Holds::Call | Holds::CustomCall | Holds::ServerCall
        ) {
            return;
        }
        let named = ToolPiece {
            id: fields.call_id.filled().or_else(|| fields.id.filled()),
            name: fields.name.filled(),
            ..piece(self, "")
        };
        self.tell_call(named, sink);
    }

    /// Tells encrypted reasoning that was not told yet.
    pub(super) fn tell_encrypted(
        &mut self,
        fields: &ItemFields<'_>,
        sink: EventSink<'_>,
    ) -> Option<Meaning> {
        let data = fields.encrypted_content.filled()?;
        if self.encrypted.as_deref() == Some(data) {
            return None;
        }
        self.encrypted = Some(data.into());
        sink(Event::Signature(data));
        Some(Meaning::REASONING)
    }

    /// Tells what the final value of the item holds and nothing else brought.
    pub(super) fn tell_rest(
        &mut self,
        fields: &ItemFields<'_>,
        raw: &RawValue,
        sink: EventSink<'_>,
    ) -> Option<Meaning> {
        match self.holds {
            Holds::Call | Holds::CustomCall | Holds::ServerCall => {
                let told = self.tell_final(Slot::Arguments, fields.arguments().as_str(), sink);
                let has_output = self.holds == Holds::ServerCall && fields.output.is_some();
                if has_output {
                    sink(Event::ServerTool(raw.get()));
                    return Some(Meaning::OUTPUT);
                }
                told
            }
            Holds::Hosted => {
                sink(Event::ServerTool(raw.get()));
                Some(Meaning::OUTPUT)
            }
            Holds::Message => {
                let parts = fields.content.items();
                let text = self.tell_parts(Slot::Text, parts, |part| &part.text, sink);
                let refusal = self.tell_parts(Slot::Refusal, parts, |part| &part.refusal, sink);
                refusal.or(text)
            }
            Holds::Reasoning => {
                let (summary, raw) = (fields.summary.items(), fields.content.items());
                let summary = self.tell_parts(Slot::Summary, summary, |part| &part.text, sink);
                let raw = self.tell_parts(Slot::Raw, raw, |part| &part.text, sink);
                self.tell_encrypted(fields, sink).or(raw).or(summary)
            }
            Holds::Unknown => self.tell_unknown(fields, sink),
        }
    }

    /// Tells what an item of a kind that nobody knows holds.
    pub(super) fn tell_unknown(
        &mut self,
        fields: &ItemFields<'_>,
        sink: EventSink<'_>,
    ) -> Option<Meaning> {
        let other = fields.other().map(|data| {
            sink(Event::Other {
                data,
                is_output: true,
            });
            Meaning::OUTPUT
        });
        other
            .or_else(|| self.tell_encrypted(fields, sink))
            .or_else(|| fields.tell_early(sink))
    }

    /// Tells the parts of one kind that no delta brought.
    ///
    /// The numbers of deltas need not be the places in the list: some servers count the parts of
    /// the whole answer. So the parts of a kind are matched in order.
    fn tell_parts<'a>(
        &mut self,
        slot: fn(u64) -> Slot,
        parts: &'a [Object<PartFields<'a>>],
        text: impl Fn(&'a PartFields<'a>) -> &'a Text<'a>,
        sink: EventSink<'_>,
    ) -> Option<Meaning> {
        let is_same = |known: &&Slot| discriminant(*known) == discriminant(&slot(0));
        let filled = self.filled.iter().filter(is_same).count();
        let parts = parts.iter().filter_map(|part| part.0.as_ref());
        let texts = parts.filter_map(|part| text(part).filled()).skip(filled);
        let mut told = None;
        for (at, text) in (u64::MAX / 2..).zip(texts) {
            told = self.tell(slot(at), text, sink);
        }
        told
    }

    fn tell_call(&self, piece: ToolPiece<'_>, sink: EventSink<'_>) {
        sink(if self.holds == Holds::ServerCall {
            Event::ServerToolCall(piece)
        } else {
            Event::ToolCall(piece)
        });
    }
}
