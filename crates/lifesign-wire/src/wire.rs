//! The wires, and what each of them has to say for itself.
//!
//! Adding a wire is adding its module, whose one face outwards is a [`Dialect`], and its line in
//! [`Wire::ALL`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lifesign_core::{Block, WireDefaults};
use serde_json::value::RawValue;

use crate::answer::Answer;
use crate::event::Event;
use crate::frame::SseEvent;
use crate::repetition::Kind;
use crate::request::Request;
use crate::scan::Scanned;
use crate::tool_calls::EmptyArguments;
use crate::{anthropic, openai_chat, openai_responses};

/// A streaming dialect of a model provider.
///
/// This example shows a wire found by its name.
///
/// ```
/// use lifesign_wire::Wire;
///
/// let wire: Wire = "anthropic".parse()?;
/// assert_eq!(wire.path(), "/messages");
/// assert_eq!(wire, Wire::ANTHROPIC);
/// # Ok::<(), lifesign_wire::UnknownWire>(())
/// ```
#[derive(Clone, Copy)]
pub struct Wire(&'static dyn Dialect);

impl Wire {
    /// Anthropic Messages and everything compatible with it.
    pub const ANTHROPIC: Self = Self(&anthropic::Anthropic);
    /// OpenAI Chat Completions and everything compatible with it.
    pub const OPENAI_CHAT: Self = Self(&openai_chat::OpenAiChat);
    /// OpenAI Responses and everything compatible with it.
    pub const OPENAI_RESPONSES: Self = Self(&openai_responses::OpenAiResponses);

    /// Every wire.
    pub const ALL: [Self; 3] = [Self::OPENAI_CHAT, Self::OPENAI_RESPONSES, Self::ANTHROPIC];

    /// Returns the wire called `name`.
    ///
    /// # Errors
    ///
    /// Fails if there is none, naming those that there are.
    pub fn parse(name: &str) -> Result<Self, UnknownWire> {
        Self::ALL
            .into_iter()
            .find(|wire| wire.name() == name)
            .ok_or_else(|| UnknownWire(name.to_owned()))
    }

    /// Returns its name, as it is written in settings.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns the path of its requests, to be put behind a base URL that ends in its version.
    pub fn path(self) -> &'static str {
        self.0.path()
    }

    /// Returns the variable in which its users keep their key.
    pub fn key_variable(self) -> &'static str {
        self.0.key_variable()
    }

    /// Returns the header that carries a key: its name, and its value for `key`.
    pub fn authorize(self, key: &str) -> (&'static str, String) {
        self.0.authorize(key)
    }

    /// Returns the headers that each of its requests needs besides.
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        self.0.headers()
    }

    /// Returns what the watch has to know of it.
    pub fn defaults(self) -> WireDefaults {
        self.0.defaults()
    }

    /// Returns the body of `request`.
    ///
    /// # Errors
    ///
    /// Fails if the request says what this wire has no words for.
    pub fn encode(self, request: &Request) -> Result<Vec<u8>, EncodeError> {
        self.0.encode(request)
    }

    pub(crate) fn decoder(self) -> Box<dyn Decode> {
        self.0.decoder()
    }

    pub(crate) fn scan(self, data: &[u8]) -> Option<Scanned> {
        self.0.scan(data)
    }

    pub(crate) fn empty_arguments(self) -> EmptyArguments {
        self.0.empty_arguments()
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wire").field(&self.name()).finish()
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Wire {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Wire {}

impl FromStr for Wire {
    type Err = UnknownWire;

    fn from_str(name: &str) -> Result<Self, UnknownWire> {
        Self::parse(name)
    }
}

/// There is no wire of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWire(String);

impl fmt::Display for UnknownWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no wire is called {:?}; one of ", self.0)?;
        for (at, wire) in Wire::ALL.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{wire}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownWire {}

/// A request that a wire has no words for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The request cannot be written as JSON.
    #[error("request cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// The arguments of a tool call are not the JSON object that the wire wants.
    #[error("arguments of tool call {id:?} are no JSON object, which {wire} wants")]
    Arguments {
        /// The call.
        id: String,
        /// The wire.
        wire: &'static str,
    },
    /// The wire has no such field.
    #[error("{wire} has no word for {field}")]
    Unknown {
        /// The field of the request.
        field: &'static str,
        /// The wire.
        wire: &'static str,
    },
}

/// What a wire has to say for itself.
pub(crate) trait Dialect: Send + Sync {
    fn name(&self) -> &'static str;
    fn path(&self) -> &'static str;
    fn key_variable(&self) -> &'static str;
    fn authorize(&self, key: &str) -> (&'static str, String);
    fn headers(&self) -> &'static [(&'static str, &'static str)];
    fn defaults(&self) -> WireDefaults;
    fn encode(&self, request: &Request) -> Result<Vec<u8>, EncodeError>;
    fn decoder(&self) -> Box<dyn Decode>;
    /// Judges the data of an event without decoding it, where that is certain.
    fn scan(&self, data: &[u8]) -> Option<Scanned>;
    /// What empty arguments mean in an answer that finished.
    fn empty_arguments(&self) -> EmptyArguments;
}

/// Receives the events of a frame, in their order.
pub(crate) type EventSink<'s> = &'s mut dyn FnMut(Event<'_>);

/// Decodes one answer.
pub(crate) trait Decode: Send + Sync + fmt::Debug {
    /// Decodes one event of a stream.
    fn event(&mut self, event: SseEvent<'_>, sink: EventSink<'_>) -> Meaning;

    /// Decodes a body that holds the whole answer, or an error in its place.
    ///
    /// # Errors
    ///
    /// Fails if it is neither.
    fn whole(&mut self, body: &[u8], sink: EventSink<'_>) -> Result<(), NotThisWire>;

    /// Returns whether every choice seen has a finish.
    fn is_finished(&self) -> bool;

    /// Returns what has to be sent back for the model to go on from this answer: the message, the
    /// content blocks or the output items. `answer` is what the events made.
    fn round_trip(&mut self, answer: &Answer) -> Vec<Box<RawValue>>;

    /// Returns what was odd but not fatal.
    fn oddities(&self) -> Oddities;
}

/// A body that is no answer of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotThisWire;

/// What was odd in a stream, but no reason to give it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Oddities {
    /// Events whose data could not be read.
    pub unreadable_events: u64,
    /// Gaps in the numbers that a wire gives its events.
    pub sequence_gaps: u64,
    /// Items of the final snapshot that differ from what was streamed.
    pub snapshot_mismatches: u64,
}

/// What one event proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    pub(crate) told: Told,
    pub(crate) block: Option<Block>,
}

/// The class of an event, as far as it can be told without those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It says only "still here".
    Heartbeat,
    /// No content: lifecycle, unless it only repeats the one before it.
    Contentless { kind: Kind, work: Option<u64> },
    /// Thinking.
    Reasoning,
    /// More than thinking.
    Output,
    /// Data that is not of this wire.
    Unreadable,
}

impl Meaning {
    pub(crate) const HEARTBEAT: Self = Self::of(Told::Heartbeat);
    pub(crate) const OUTPUT: Self = Self::of(Told::Output);
    pub(crate) const REASONING: Self = Self::of(Told::Reasoning);
    pub(crate) const UNREADABLE: Self = Self::of(Told::Unreadable);

    pub(crate) const fn of(told: Told) -> Self {
        Self { told, block: None }
    }

    pub(crate) const fn contentless(kind: Kind, work: Option<u64>) -> Self {
        Self::of(Told::Contentless { kind, work })
    }

    pub(crate) const fn with_block(self, block: Option<Block>) -> Self {
        Self { block, ..self }
    }
}

/// What both OpenAI wires and the others share unless they say otherwise.
pub(crate) const fn defaults(name: &'static str) -> WireDefaults {
    WireDefaults {
        name,
        raw_silence: Duration::from_mins(4),
        shows_work: false,
        between_events: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_is_found_by_its_name() {
        for wire in Wire::ALL {
            assert_eq!(Wire::parse(wire.name()), Ok(wire));
        }
    }

    #[test]
    fn an_unknown_wire_is_refused_with_those_that_there_are() {
        assert_eq!(
            Wire::parse("smoke").unwrap_err().to_string(),
            "no wire is called \"smoke\"; one of openai-chat, openai-responses, anthropic"
        );
    }

    #[test]
    fn the_defaults_are_those_of_the_design() {
        let defaults = Wire::ALL.map(|wire| {
            let WireDefaults {
                name,
                raw_silence,
                shows_work,
                between_events,
            } = wire.defaults();
            (name, raw_silence.as_secs(), shows_work, between_events)
        });

        assert_eq!(
            defaults,
            [
                ("openai-chat", 240, false, true),
                ("openai-responses", 240, false, false),
                ("anthropic", 180, true, true),
            ]
        );
    }
}
