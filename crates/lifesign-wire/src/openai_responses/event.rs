//! The events of a response as they are written.

use lifesign_core::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialect::{EventSink, Meaning};
use crate::event::Event;
use crate::lenient::{Count, List, Object, Text, is_truthy};

/// One event: a union of the fields of all its types.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) sequence_number: Count,
    pub(super) output_index: Count,
    pub(super) content_index: Count,
    pub(super) summary_index: Count,
    #[serde(borrow)]
    pub(super) delta: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Text<'a>,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) annotation: Option<&'a RawValue>,
    #[serde(borrow, rename = "partial_image_b64")]
    pub(super) partial_image: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) part: Object<Box<PartFields<'a>>>,
    #[serde(borrow)]
    pub(super) response: Object<Box<Response<'a>>>,
}

/// The delta of an event alone.
#[derive(Debug, Deserialize)]
pub(super) struct RawDelta<'a> {
    #[serde(borrow)]
    pub(super) delta: Option<&'a RawValue>,
}

/// What an event of an unknown kind may bring.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Payload<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    audio: Option<&'a RawValue>,
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    command: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    diff: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    transcript: Option<&'a RawValue>,
}

impl<'a> Payload<'a> {
    pub(super) fn value(&self) -> Option<&'a str> {
        let fields = [
            self.delta,
            self.arguments,
            self.audio,
            self.code,
            self.command,
            self.content,
            self.data,
            self.diff,
            self.input,
            self.output,
            self.text,
            self.transcript,
        ];
        let mut filled = fields.into_iter().flatten();
        filled.find(|raw| is_truthy(Some(raw))).map(RawValue::get)
    }
}

/// A response: a snapshot in an event, or the whole body.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
    #[serde(borrow)]
    pub(super) object: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) output: List<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) incomplete_details: Object<Details<'a>>,
    usage: Object<Tokens>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Details<'a> {
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names are those of the wire")]
struct Tokens {
    input_tokens: Count,
    output_tokens: Count,
    input_tokens_details: Object<InputDetails>,
    output_tokens_details: Object<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
}

impl Response<'_> {
    /// Returns the word for how it ended, where the event is named `named`: a failure or a cut that
    /// the response itself tells stands, whatever the event is called.
    pub(super) fn status_at_end<'n>(&self, named: &'n str) -> &'n str {
        match self.status.as_str() {
            _ if named == "failed" => named,
            "failed" => "failed",
            "cancelled" => "cancelled",
            "incomplete" => "incomplete",
            "" if is_truthy(self.error) => "failed",
            _ => named,
        }
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        let tokens = self.usage.0.as_ref()?;
        let input = tokens.input_tokens_details.0.as_ref();
        let output = tokens.output_tokens_details.0.as_ref();
        let usage = Usage {
            input_tokens: tokens.input_tokens.0,
            output_tokens: tokens.output_tokens.0,
            cached_input_tokens: input.and_then(|details| details.cached_tokens.0),
            reasoning_tokens: output.and_then(|details| details.reasoning_tokens.0),
        };
        (!usage.is_unknown()).then_some(usage)
    }
}

/// The fields of an item, of whatever kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ItemFields<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Text<'a>,
    #[serde(borrow)]
    pub(super) encrypted_content: Text<'a>,
    #[serde(borrow)]
    pub(super) content: List<Object<PartFields<'a>>>,
    #[serde(borrow)]
    pub(super) summary: List<Object<PartFields<'a>>>,
    /// What a tool of the provider's answered.
    #[serde(borrow)]
    pub(super) output: Option<&'a RawValue>,
    // What items of other kinds hold.
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

/// A part of a message or of reasoning.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PartFields<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
}

impl<'a> ItemFields<'a> {
    pub(super) fn parse(raw: &'a RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }

    /// Returns what an item of a kind that nobody knows holds.
    pub(super) fn other(&self) -> Option<&'a str> {
        let fields = [
            self.arguments,
            self.output,
            self.data,
            self.result,
            self.text,
        ];
        let mut filled = fields.into_iter().flatten();
        filled.find(|raw| is_truthy(Some(raw))).map(RawValue::get)
    }

    /// Tells that an item which opens already holds text or thinking.
    pub(super) fn tell_early(&self, sink: EventSink<'_>) -> Option<Meaning> {
        let is_filled = |part: &Object<PartFields<'_>>| {
            part.0
                .as_ref()
                .is_some_and(|part| part.text.filled().is_some() || part.refusal.filled().is_some())
        };
        let has_content = self.content.items().iter().any(is_filled);
        if !has_content && !self.summary.items().iter().any(is_filled) {
            return None;
        }
        let is_output = self.kind.as_str() != "reasoning";
        sink(Event::Other {
            data: "",
            is_output,
        });
        Some(if is_output {
            Meaning::OUTPUT
        } else {
            Meaning::REASONING
        })
    }

    /// Returns the arguments as text: some servers write the object itself.
    pub(super) fn arguments(&self) -> Text<'a> {
        match self.arguments.map(RawValue::get) {
            Some(raw) if raw.starts_with('{') => Text::Some(raw.into()),
            Some(raw) => serde_json::from_str(raw).unwrap_or_default(),
            None => self.input.clone(),
        }
    }
}
