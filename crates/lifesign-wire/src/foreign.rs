//! Answers of another wire than the one that was promised.
//!
//! A wrong wire looks like a provider that says much and means nothing: each wire passes over what
//! it does not know. What is told here is only what no server of the promised wire writes.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{List, Object, Text, from_json};
use crate::wire::Wire;

/// Looks for frames of another wire until the first that the own one understood.
#[derive(Debug)]
pub(crate) struct Lookout {
    wire: Wire,
    first: Option<Found>,
    /// Set where another wire is certain.
    certain: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    wire: Wire,
    /// The frame that told.
    pub(crate) data: Vec<u8>,
}

impl Lookout {
    pub(crate) const fn new(wire: Wire) -> Self {
        Self {
            wire,
            first: None,
            certain: false,
        }
    }

    /// Looks at a frame in which the own wire found nothing. Two of one other wire are certain.
    pub(crate) fn look(&mut self, data: &[u8]) {
        let Some(wire) = of_frame(data).filter(|wire| *wire != self.wire) else {
            return;
        };
        match &self.first {
            Some(first) => self.certain |= first.wire == wire,
            None => {
                self.first = Some(Found {
                    wire,
                    data: data.to_vec(),
                });
            }
        }
    }

    pub(crate) const fn is_certain(&self) -> bool {
        self.certain
    }

    /// Returns what was found, where it is certain.
    pub(crate) fn found(&self) -> Option<&Found> {
        self.first.as_ref().filter(|_| self.certain)
    }
}

impl Found {
    /// Returns what the body is.
    pub(crate) fn what(&self) -> &'static str {
        if self.wire == Wire::ANTHROPIC {
            "an anthropic stream"
        } else if self.wire == Wire::OPENAI_RESPONSES {
            "an openai-responses stream"
        } else {
            "an openai-chat stream"
        }
    }
}

/// Returns what a whole body is that no answer of the own wire is.
pub(crate) fn what_whole(body: &[u8]) -> &'static str {
    let Some(frame) = from_json::<Frame<'_>>(body) else {
        return OTHER;
    };
    let is_chat = || {
        let mut choices = frame.choices();
        choices.any(|choice| choice.message.is_some())
    };
    match (frame.object.as_str(), frame.kind.as_str()) {
        ("chat.completion", _) => "an openai-chat answer",
        ("response", _) => "an openai-responses answer",
        (_, "message") if frame.content.is_some() => "an anthropic answer",
        _ if is_chat() => "an openai-chat answer",
        _ => OTHER,
    }
}

fn of_frame(data: &[u8]) -> Option<Wire> {
    let frame: Frame<'_> = from_json(data)?;
    let is_chunk = frame.object.as_str() == "chat.completion.chunk"
        || frame.choices().any(|choice| choice.delta.is_some());
    if is_chunk {
        return Some(Wire::OPENAI_CHAT);
    }
    match frame.kind.as_str() {
        "content_block_delta"
        | "content_block_start"
        | "content_block_stop"
        | "message_delta"
        | "message_start"
        | "message_stop" => Some(Wire::ANTHROPIC),
        kind if kind.starts_with("response.") => Some(Wire::OPENAI_RESPONSES),
        _ => None,
    }
}

/// The fields that tell the wires apart.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Frame<'a> {
    #[serde(borrow)]
    choices: List<Object<Choice<'a>>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    object: Text<'a>,
}

impl<'a> Frame<'a> {
    fn choices(&self) -> impl Iterator<Item = &Choice<'a>> {
        let choices = self.choices.items().iter();
        choices.filter_map(|choice| choice.0.as_ref())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

const OTHER: &str = "other JSON";
