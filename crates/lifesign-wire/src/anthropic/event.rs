//! The events of a message as they are written.

use lifesign_core::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{Count, List, Object, Text};

/// One event: a union of the fields of all its types.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) delta: Object<Delta<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Object<Box<Message<'a>>>,
    pub(super) usage: Object<Box<Tokens>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
    #[serde(borrow)]
    pub(super) partial_json: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Text<'a>,
    #[serde(borrow)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
}

/// The delta of an event as it is written.
#[derive(Debug, Deserialize)]
pub(super) struct RawDelta<'a> {
    #[serde(borrow)]
    pub(super) delta: &'a RawValue,
}

/// A message: empty where it starts, full where it is the whole body.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) content: List<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    pub(super) usage: Object<Tokens>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names are those of the wire")]
pub(super) struct Tokens {
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    output_tokens_details: Object<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Count,
}

impl Tokens {
    pub(super) fn usage(&self) -> Usage {
        let details = self.output_tokens_details.0.as_ref();
        Usage {
            input_tokens: self.input_tokens.0,
            output_tokens: self.output_tokens.0,
            cached_input_tokens: self.cache_read_input_tokens.0,
            reasoning_tokens: details.and_then(|details| details.thinking_tokens.0),
        }
    }
}
