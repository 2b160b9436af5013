//! What is asked of a model: one request for every wire, or a body that passes as it is.

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::answer::RoundTrip;

pub use self::raw::{RawRequest, RawRequestError};

mod raw;

/// A request to a model, in no wire's words yet.
///
/// This example shows a request written for a wire.
///
/// ```
/// use lifesign_wire::{Request, Wire};
///
/// let request = Request::prompt("m", "Say hello").max_tokens(64);
/// let body = Wire::ANTHROPIC.encode(&request)?;
/// assert!(String::from_utf8_lossy(&body).contains("\"max_tokens\":64"));
/// # Ok::<(), lifesign_wire::EncodeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// The model, as the provider names it.
    pub model: String,
    /// What the model is told beforehand.
    pub system: Option<String>,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The tools that the model may ask for.
    pub tools: Vec<Tool>,
    /// Which of them it may or must ask for. Default: as the provider does.
    pub tool_choice: Option<ToolChoice>,
    /// The most tokens of the answer. Default: none, which anthropic does not allow; there it is
    /// 4096.
    pub max_tokens: Option<u64>,
    /// Whether openai-chat calls it `max_completion_tokens`, as OpenAI's own reasoning models want.
    /// Default: `max_tokens`, which all other servers know.
    pub uses_max_completion_tokens: bool,
    /// The sampling temperature. Default: as the provider does.
    pub temperature: Option<f64>,
    /// Texts at which the answer stops.
    pub stop: Vec<String>,
    /// Whether the answer comes as a stream. Default: yes.
    pub stream: bool,
    /// Fields that are put into the body as they are; they win over all others.
    pub extra: Map<String, Value>,
}

impl Request {
    /// Returns a request for a stream that asks `model` nothing yet.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            stream: true,
            ..Self::default()
        }
    }

    /// Returns a request for a stream in which the user says `text`.
    pub fn prompt(model: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(model).message(Message::user(text))
    }

    /// Adds a message.
    #[must_use]
    pub fn message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// Sets what the model is told beforehand.
    #[must_use]
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Sets the most tokens of the answer.
    #[must_use]
    pub fn max_tokens(mut self, max_tokens: u64) -> Self {
        self.max_tokens = Some(max_tokens);
        self
    }

    /// Sets whether the answer comes as a stream.
    #[must_use]
    pub fn stream(mut self, stream: bool) -> Self {
        self.stream = stream;
        self
    }

    /// Returns the most tokens that the request itself allows, whichever field says so.
    pub(crate) fn written_max_tokens(&self) -> Option<u64> {
        let written = |name: &&str| self.extra.get(*name).and_then(Value::as_u64);
        MAX_TOKENS_NAMES
            .iter()
            .find_map(written)
            .or(self.max_tokens)
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Content>,
}

impl Message {
    /// Returns a message in which the user says `text`.
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            content: vec![Content::Text(text.into())],
        }
    }

    /// Returns a message in which the model said `text`.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self {
            role: Role::Assistant,
            content: vec![Content::Text(text.into())],
        }
    }

    /// Returns an earlier answer in its provider's own words.
    pub fn answer(round_trip: RoundTrip) -> Self {
        Self {
            role: Role::Assistant,
            content: vec![Content::RoundTrip(round_trip)],
        }
    }

    /// Returns what the tool answered to the call `id`.
    pub fn tool_result(id: impl Into<String>, text: impl Into<String>) -> Self {
        let content = Content::ToolResult {
            id: id.into(),
            text: text.into(),
            is_error: false,
        };
        Self {
            role: Role::User,
            content: vec![content],
        }
    }
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The model.
    Assistant,
    /// Whoever asks it, and the tools that answer it.
    User,
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Assistant => "assistant",
            Self::User => "user",
        }
    }
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// An image: its media type, such as `image/png`, and its bytes in base64.
    Image {
        /// The media type.
        media_type: String,
        /// The bytes in base64.
        data: String,
    },
    /// An earlier answer, or a part of it, in its provider's own words. Only for the wire that it
    /// came by.
    RoundTrip(RoundTrip),
    /// Text.
    Text(String),
    /// A call that the model made.
    ToolCall {
        /// Its id.
        id: String,
        /// The tool.
        name: String,
        /// The arguments as JSON text.
        arguments: String,
    },
    /// What a tool answered.
    ToolResult {
        /// The id of the call.
        id: String,
        /// The answer.
        text: String,
        /// Whether the tool failed.
        is_error: bool,
    },
}

/// A tool that the model may ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, for the model to read.
    pub description: Option<String>,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

/// Which tools a model may or must ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any or none, as it likes.
    Auto,
    /// None.
    None,
    /// The one of this name.
    Only(String),
    /// At least one.
    Required,
}

/// The body of a request, in order.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// Sets a field; a later value replaces an earlier one.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<(), EncodeError> {
        let value = to_raw_value(value)?;
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name.to_owned(), value)),
        }
        Ok(())
    }

    /// Sets a field if there is a value for it.
    pub(crate) fn set_some(
        &mut self,
        name: &str,
        value: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<(), EncodeError> {
        value.map_or(Ok(()), |value| self.set(name, value))
    }

    /// Returns the body with what the caller wants in it as it is.
    pub(crate) fn finish(mut self, extra: &Map<String, Value>) -> Result<Vec<u8>, EncodeError> {
        for (name, value) in extra {
            self.set(name, value)?;
        }
        Ok(serde_json::to_vec(&self)?)
    }

    /// Returns them as one part of a larger body.
    pub(crate) fn into_raw(self) -> Result<Box<RawValue>, EncodeError> {
        Ok(to_raw_value(&self)?)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

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

/// The names under which a request says how long its answer may be.
pub(crate) const MAX_TOKENS_NAMES: [&str; 4] = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxOutputTokens",
];

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use crate::Wire;

    use super::*;

    /// A request that uses every word there is.
    pub(crate) fn full() -> Request {
        Request {
            system: Some("be brief".to_owned()),
            messages: vec![
                Message {
                    role: Role::User,
                    content: vec![
                        Content::Text("look".to_owned()),
                        Content::Image {
                            media_type: "image/png".to_owned(),
                            data: "QUI=".to_owned(),
                        },
                    ],
                },
                Message {
                    role: Role::Assistant,
                    content: vec![
                        Content::Text("I look".to_owned()),
                        Content::ToolCall {
                            id: "c1".to_owned(),
                            name: "f".to_owned(),
                            arguments: "{\"a\":1}".to_owned(),
                        },
                    ],
                },
                Message::tool_result("c1", "seen"),
            ],
            tools: vec![Tool {
                name: "f".to_owned(),
                description: Some("looks".to_owned()),
                parameters: json!({"type": "object"}),
            }],
            tool_choice: Some(ToolChoice::Required),
            max_tokens: Some(64),
            temperature: Some(0.5),
            ..Request::new("m")
        }
    }

    #[test]
    fn the_limit_that_the_watch_sees_is_the_one_that_is_sent() {
        let unlimited = Request::prompt("m", "x");
        let mut written = unlimited.clone().max_tokens(7);
        written
            .extra
            .insert("max_completion_tokens".to_owned(), json!(9));

        assert_eq!(Wire::OPENAI_CHAT.max_tokens(&unlimited), None);
        assert_eq!(Wire::ANTHROPIC.max_tokens(&unlimited), Some(4096));
        assert_eq!(Wire::OPENAI_CHAT.max_tokens(&written), Some(9));
    }

    #[test]
    fn extra_fields_win() {
        let mut request = Request::prompt("m", "x");
        request.extra.insert("model".to_owned(), json!("other"));

        for wire in Wire::ALL {
            let body: Value = serde_json::from_slice(&wire.encode(&request).unwrap()).unwrap();
            assert_eq!(body["model"], "other", "{wire}");
        }
    }
}
