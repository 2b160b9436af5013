//! A body that passes as it is.

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::lenient::{Count, Object, Text};

/// The body of a request, passed through byte for byte.
///
/// It is looked into only for its model, whether it asks for a stream, and its limit of tokens.
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
    is_stream: bool,
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
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow, deserialize_with = "present")]
    stream: Option<&'a RawValue>,
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
struct Generation {
    #[serde(rename = "maxOutputTokens")]
    max_output_tokens: Count,
}

impl RawRequest {
    /// Returns the request that `body` is.
    ///
    /// # Errors
    ///
    /// Fails if it is no JSON object.
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
        let model = known.model.filled().map(str::to_owned);
        let is_stream = known.stream.is_some_and(|stream| stream.get() == "true");
        Ok(Self {
            model,
            is_stream,
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
        let body = splice(&self.body, stream).map_or(self.body, Bytes::from);
        Self {
            body,
            is_stream: stream,
            ..self
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

/// Returns `body` with the value of its `stream` replaced, or put in where it has none.
fn splice(body: &[u8], stream: bool) -> Option<Vec<u8>> {
    let value = stream.to_string();
    let known = known(body).ok()?;
    let (at, old, new) = if let Some(old) = known.stream {
        let at = old
            .get()
            .as_ptr()
            .addr()
            .checked_sub(body.as_ptr().addr())?;
        (at, old.get().len(), value)
    } else {
        let at = memchr::memchr(b'{', body)? + 1;
        let is_empty = body.get(at..)?.trim_ascii_start().starts_with(b"}");
        (
            at,
            0,
            format!("\"stream\":{value}{}", if is_empty { "" } else { "," }),
        )
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
