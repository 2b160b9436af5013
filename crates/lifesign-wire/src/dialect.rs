//! What a wire has to say for itself: the one face that its module shows.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use lifesign_core::{Block, WireDefaults};
use serde_json::value::RawValue;

use crate::answer::Answer;
use crate::beat::Forwarded;
use crate::error_out::ErrorOut;
use crate::event::Event;
use crate::frame::SseEvent;
use crate::habits::StreamHabits;
use crate::repetition::Kind;
use crate::request::{EncodeError, Request};
use crate::tool_calls::EmptyArguments;

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
    /// The most tokens that an answer may have where nobody says; none where the wire needs no
    /// number.
    fn default_max_tokens(&self) -> Option<u64> {
        None
    }
    /// What empty arguments mean in an answer that finished.
    fn empty_arguments(&self) -> EmptyArguments;
    /// What is particular to its streams, for whoever passes them on.
    fn habits(&self) -> StreamHabits {
        StreamHabits::default()
    }
    /// An event that says nothing; none where none may be sent yet.
    fn beat(&self, forwarded: &Forwarded<'_>) -> Option<Vec<u8>>;
    /// The same for readers that take one ahead of the answer's first event; none where no reader
    /// is known that does and needs it.
    fn early_beat(&self) -> Option<Vec<u8>> {
        None
    }
    /// The body of a failed call.
    fn error_body(&self, error: &ErrorOut<'_>) -> Vec<u8>;
    /// The events with which a stream fails.
    fn error_frame(&self, error: &ErrorOut<'_>, forwarded: &Forwarded<'_>) -> Vec<u8>;
    /// The events of a stream that brings the answer in `body`; none where it holds no answer that
    /// is over.
    fn events_of_whole(&self, body: &str) -> Option<Vec<u8>>;
}

/// What a scan is certain of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scanned {
    pub(crate) meaning: Meaning,
    /// The part that the frame goes into; none if it goes nowhere.
    pub(crate) slot: Option<Slot>,
    /// Where a text of it stands that may be any other, but not empty, without a difference to this.
    pub(crate) text: Option<Range<usize>>,
}

/// A part of an answer that deltas go into: its kind and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u8, pub(crate) [u64; 2]);

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

    /// Returns which of the choices seen have a finish.
    fn finishes(&self) -> Finishes;

    /// Returns what has to be sent back for the model to go on from this answer: the message, the
    /// content blocks or the output items. `answer` is what the events made.
    fn round_trip(&mut self, answer: &Answer) -> Vec<Box<RawValue>>;

    /// Keeps from here on what the whole body needs.
    fn keep_whole(&mut self);

    /// Returns the body that the same request would have got without a stream, if all that it needs
    /// was kept.
    fn whole_body(&self) -> Option<Vec<u8>>;

    /// Returns how many bytes are kept for the whole body that no event of the answer tells.
    fn kept(&self) -> usize {
        0
    }

    /// Returns what was odd but not fatal.
    fn oddities(&self) -> Oddities;
}

/// Which choices of an answer have a finish. Where the finish and the end are one event, none has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finishes {
    None,
    Some,
    All,
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
    /// Events whose text was mended: half a character, or bytes that are no UTF-8.
    pub mended_events: u64,
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
    /// The answer is over. That is output where there was an answer, and lifecycle where there was
    /// none.
    End,
    /// Data that is not of this wire.
    Unreadable,
}

impl Meaning {
    pub(crate) const END: Self = Self::of(Told::End);
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
