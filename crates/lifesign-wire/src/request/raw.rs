//! A body that passes as it is.

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::lenient::{Count, Object, Text};
use crate::wire::Wire;

mod account;
mod assemble;

/// The body of a request, passed through byte for byte.
///
/// It is looked into only for its model, whether it asks for a stream and for usage, and its limit
/// of tokens. A body that says one of these twice is refused: which of the two counts would depend
/// on who reads it.
///
/// This example shows a body that is made to ask for a stream.
///
/// ```
/// use lifesign_wire::RawRequest;
///
/// let request = RawRequest::parse(r#"{"model": "m", "seed": 1.0}"#)?.with_stream(true);
/// assert_eq!(request.body(), br#"{"stream":true,"model": "m", "seed": 1.0}"#.as_slice());
/// # Ok::<(), lifesign_wire::RawRequestError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRequest {
    model: Option<String>,
    has_stream: bool,
    is_stream: bool,
    wants_usage: bool,
    max_tokens: Option<u64>,
    body: Bytes,
}

/// A body that is no request.
#[derive(Debug, thiserror::Error)]
#[error("request body is no JSON object: {0}")]
pub struct RawRequestError(#[from] serde_json::Error);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Known<'a> {
    #[serde(borrow, deserialize_with = "present")]
    model: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    stream: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    stream_options: Option<&'a RawValue>,
    max_tokens: Count,
    max_completion_tokens: Count,
    max_output_tokens: Count,
    #[serde(rename = "maxOutputTokens")]
    max_output_tokens_camel: Count,
    #[serde(rename = "generationConfig")]
    generation: Object<Generation>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamOptions<'a> {
    #[serde(borrow, deserialize_with = "present")]
    include_usage: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Generation {
    #[serde(rename = "maxOutputTokens")]
    max_output_tokens: Count,
}

impl RawRequest {
    /// Returns the request that `body` is.
    ///
    /// # Errors
    ///
    /// Fails if it is no JSON object, or says twice what is looked for in it.
    pub fn parse(body: impl Into<Bytes>) -> Result<Self, RawRequestError> {
        let body = body.into();
        let known = known(&body)?;
        let in_generation = known
            .generation
            .0
            .as_ref()
            .and_then(|is| is.max_output_tokens.0);
        let max_tokens = known
            .max_tokens
            .0
            .or(known.max_completion_tokens.0)
            .or(known.max_output_tokens.0)
            .or(known.max_output_tokens_camel.0)
            .or(in_generation);
        let model = match known.model {
            Some(model) => serde_json::from_str::<Text<'_>>(model.get())?
                .filled()
                .map(str::to_owned),
            None => None,
        };
        let usage = stream_options(&known)?.and_then(|options| options.include_usage);
        Ok(Self {
            model,
            has_stream: known.stream.is_some_and(|stream| stream.get() != "null"),
            is_stream: known.stream.is_some_and(is_true),
            wants_usage: usage.is_some_and(is_true),
            max_tokens,
            body,
        })
    }

    /// Returns the model, as the provider names it.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns whether it asks for a stream.
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Returns whether it says anything about a stream; where it does not, none is asked for.
    pub fn has_stream(&self) -> bool {
        self.has_stream
    }

    /// Returns whether it asks openai-chat for the usage in its stream.
    pub fn wants_usage(&self) -> bool {
        self.wants_usage
    }

    /// Returns whether a stream of `wire` can be put together into the whole body that the request
    /// would have got without one.
    pub fn is_assemblable(&self, wire: Wire) -> bool {
        assemble::is_assemblable(wire.name(), &self.body)
    }

    /// Returns whether it names something that lies in one account of the provider: an earlier
    /// response, a conversation, a container or a file. No other upstream can answer it.
    pub fn is_account_bound(&self) -> bool {
        account::is_bound(&self.body)
    }

    /// Returns the most tokens of the answer.
    pub fn max_tokens(&self) -> Option<u64> {
        self.max_tokens
    }

    /// Returns the body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns the body, to be sent.
    pub fn into_body(self) -> Bytes {
        self.body
    }

    /// Returns the request with its `stream` as given; all other bytes stay as they are.
    #[must_use]
    pub fn with_stream(self, stream: bool) -> Self {
        if self.is_stream == stream {
            return self;
        }
        let value = if stream { "true" } else { "false" };
        let Some(body) = known(&self.body)
            .ok()
            .and_then(|known| splice(&self.body, "stream", known.stream, value))
        else {
            return self;
        };
        Self {
            body: body.into(),
            has_stream: true,
            is_stream: stream,
            ..self
        }
    }

    /// Returns the request with its model as given; all other bytes stay as they are.
    #[must_use]
    pub fn with_model(self, model: &str) -> Self {
        if self.model.as_deref() == Some(model) {
            return self;
        }
        let value = serde_json::Value::from(model).to_string();
        let Some(body) = known(&self.body)
            .ok()
            .and_then(|known| splice(&self.body, "model", known.model, &value))
        else {
            return self;
        };
        Self {
            body: body.into(),
            model: Some(model.to_owned()).filter(|model| !model.is_empty()),
            ..self
        }
    }

    /// Returns the request so that it asks openai-chat for the usage in its stream; all other bytes
    /// stay as they are, and so does one whose `stream_options` are no object.
    #[must_use]
    pub fn with_usage(self) -> Self {
        if self.wants_usage {
            return self;
        }
        match splice_usage(&self.body) {
            Some(body) => Self {
                body: body.into(),
                wants_usage: true,
                ..self
            },
            None => self,
        }
    }
}

/// Keeps a value that is null apart from one that is absent.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

fn known(body: &[u8]) -> Result<Known<'_>, serde_json::Error> {
    let known: Object<Known<'_>> = serde_json::from_slice(body)?;
    known
        .0
        .ok_or_else(|| serde::de::Error::custom("expected an object"))
}

fn is_true(raw: &RawValue) -> bool {
    raw.get() == "true"
}

/// Returns the options of the stream, if they are an object.
fn stream_options<'a>(known: &Known<'a>) -> Result<Option<StreamOptions<'a>>, serde_json::Error> {
    let Some(options) = known.stream_options else {
        return Ok(None);
    };
    serde_json::from_str::<Object<StreamOptions<'a>>>(options.get()).map(|options| options.0)
}

/// Returns `body`, made to ask for usage.
fn splice_usage(body: &[u8]) -> Option<Vec<u8>> {
    let known = known(body).ok()?;
    match known
        .stream_options
        .filter(|options| options.get() != "null")
    {
        None => {
            let value = r#"{"include_usage":true}"#;
            splice(body, "stream_options", known.stream_options, value)
        }
        Some(whole) => {
            let options = stream_options(&known).ok()??;
            let inner = whole.get().as_bytes();
            let spliced = splice(inner, "include_usage", options.include_usage, "true")?;
            let spliced = std::str::from_utf8(&spliced).ok()?;
            splice(body, "stream_options", Some(whole), spliced)
        }
    }
}

/// Returns the object `body` with a value replaced, or put in under `name` where there is none.
/// `old` is a part of `body`.
fn splice(body: &[u8], name: &str, old: Option<&RawValue>, value: &str) -> Option<Vec<u8>> {
    let (at, old, new) = if let Some(old) = old {
        let at = old
            .get()
            .as_ptr()
            .addr()
            .checked_sub(body.as_ptr().addr())?;
        (at, old.get().len(), value.to_owned())
    } else {
        let at = memchr::memchr(b'{', body)? + 1;
        let is_empty = body.get(at..)?.trim_ascii_start().starts_with(b"}");
        let comma = if is_empty { "" } else { "," };
        (at, 0, format!("\"{name}\":{value}{comma}"))
    };
    let (before, after) = (body.get(..at)?, body.get(at + old..)?);
    Some([before, new.as_bytes(), after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_changes() {
        for (body, stream, expected) in [
            (
                r#"{"stream":false, "x": 1.0}"#,
                true,
                r#"{"stream":true, "x": 1.0}"#,
            ),
            (
                r#"{"x":{"stream":false},"stream" : true }"#,
                false,
                r#"{"x":{"stream":false},"stream" : false }"#,
            ),
            (r#"{"stream": null}"#, true, r#"{"stream": true}"#),
            (r" { } ", true, r#" {"stream":true } "#),
            (
                r#"{"x":18446744073709551616}"#,
                true,
                r#"{"stream":true,"x":18446744073709551616}"#,
            ),
            (r#"{"x":1}"#, false, r#"{"x":1}"#),
        ] {
            let request = RawRequest::parse(body).unwrap().with_stream(stream);
            assert_eq!(request.body(), expected.as_bytes());
            assert_eq!(request.is_stream(), stream);
            assert_eq!(
                RawRequest::parse(request.into_body()).unwrap().is_stream(),
                stream
            );
        }
    }

    #[test]
    fn a_model_is_put_in_its_place() {
        for (body, model, expected) in [
            (
                r#"{"x": 1.0, "model" : "a" , "y":[]}"#,
                "b",
                r#"{"x": 1.0, "model" : "b" , "y":[]}"#,
            ),
            (r#"{"x":1}"#, "b", r#"{"model":"b","x":1}"#),
            ("{}", "b", r#"{"model":"b"}"#),
            (r#"{"model":null}"#, "b", r#"{"model":"b"}"#),
            (
                r#"{"mod\u0065l":"a\u0062\"c"}"#,
                "d\\e\"\n\u{e9}",
                "{\"mod\\u0065l\":\"d\\\\e\\\"\\n\u{e9}\"}",
            ),
            (
                r#"{"metadata":{"model":"a"},"model":"a"}"#,
                "b",
                r#"{"metadata":{"model":"a"},"model":"b"}"#,
            ),
        ] {
            let request = RawRequest::parse(body).unwrap().with_model(model);

            assert_eq!(request.body(), expected.as_bytes());
            assert_eq!(request.model(), Some(model));
            assert_eq!(RawRequest::parse(request.body().clone()).unwrap(), request);
        }
    }

    #[test]
    fn usage_is_asked_for_in_the_options_that_are_there() {
        for (body, expected) in [
            (
                r#"{"stream":true}"#,
                r#"{"stream_options":{"include_usage":true},"stream":true}"#,
            ),
            (
                r#"{"stream_options" : null}"#,
                r#"{"stream_options" : {"include_usage":true}}"#,
            ),
            (
                r#"{"stream_options":{ }}"#,
                r#"{"stream_options":{"include_usage":true }}"#,
            ),
            (
                r#"{"stream_options":{"a": 1.0},"b":2}"#,
                r#"{"stream_options":{"include_usage":true,"a": 1.0},"b":2}"#,
            ),
            (
                r#"{"stream_options":{"include_usage": false, "a":1}}"#,
                r#"{"stream_options":{"include_usage": true, "a":1}}"#,
            ),
        ] {
            let before = RawRequest::parse(body).unwrap();
            assert!(!before.wants_usage());

            let request = before.with_usage();

            assert_eq!(request.body(), expected.as_bytes());
            assert!(request.wants_usage());
            assert_eq!(RawRequest::parse(request.body().clone()).unwrap(), request);
            assert_eq!(request.clone().with_usage(), request);
        }
        let odd = RawRequest::parse(r#"{"stream_options":"all"}"#).unwrap();
        assert_eq!(odd.clone().with_usage(), odd);
    }

    #[test]
    fn a_stream_that_is_not_spoken_of_is_told_apart() {
        for (body, has_stream, is_stream) in [
            ("{}", false, false),
            (r#"{"stream":null}"#, false, false),
            (r#"{"stream":false}"#, true, false),
            (r#"{"stream":true}"#, true, true),
            (r#"{"stream":"true"}"#, true, false),
        ] {
            let request = RawRequest::parse(body).unwrap();
            let found = (request.has_stream(), request.is_stream());
            assert_eq!(found, (has_stream, is_stream), "{body}");
        }
    }

    #[test]
    fn what_is_said_twice_is_refused() {
        for body in [
            r#"{"model":"a","model":"b"}"#,
            r#"{"model":"a","mod\u0065l":"b"}"#,
            r#"{"stream":false,"stream":true}"#,
            r#"{"max_tokens":1,"max_tokens":2}"#,
            r#"{"stream_options":{},"stream_options":null}"#,
            r#"{"stream_options":{"include_usage":true,"include_usage":false}}"#,
        ] {
            let error = RawRequest::parse(body).unwrap_err().to_string();
            assert!(error.contains("duplicate field"), "{body}: {error}");
        }
        // What nobody here acts on passes, as it always did.
        assert!(RawRequest::parse(r#"{"seed":1,"seed":2}"#).is_ok());
    }

    #[test]
    fn every_name_of_the_limit_is_known() {
        for name in crate::request::MAX_TOKENS_NAMES {
            let request = RawRequest::parse(format!(r#"{{"model":"m","{name}":64}}"#)).unwrap();
            assert_eq!(
                (request.max_tokens(), request.model()),
                (Some(64), Some("m")),
                "{name}"
            );
        }
        let gemini = r#"{"generationConfig":{"maxOutputTokens":64}}"#;
        assert_eq!(RawRequest::parse(gemini).unwrap().max_tokens(), Some(64));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for body in ["", "[]", "[{}]", "\"x\"", "{", "{} {}"] {
            assert!(RawRequest::parse(body).is_err(), "{body}");
        }
    }
}
