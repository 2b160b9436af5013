//! Errors under a success: in frames and whole bodies that do not say what they are.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::words;
use crate::lenient::{Object, Text, from_json, is_truthy};

/// The fields that tell an error.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    object: Text<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    message: Text<'a>,
    #[serde(borrow)]
    code: Text<'a>,
}

/// Returns whether a frame of no type that its wire knows is an error: one with an `error` that
/// says anything, or the fields of one at the top.
pub(crate) fn is_error_frame(data: &[u8]) -> bool {
    let Some(Object(Some(fields))) = from_json::<Object<Fields<'_>>>(data) else {
        return false;
    };
    let kind = fields.kind.as_str();
    let is_named = fields.object.as_str() == "error"
        || words::status(kind).is_some()
        || kind.to_ascii_lowercase().contains("error")
        || kind.is_empty() && fields.code.filled().is_some();
    is_truthy(fields.error) || is_named && fields.message.filled().is_some()
}

/// The fields of a whole body that is an error of any kind.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    errors: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Text<'a>,
}

/// Returns the error that a body holds, if it is one: an object, or the only one of a list.
pub(crate) fn error_in(body: &[u8]) -> Option<&str> {
    let body = std::str::from_utf8(body).ok()?.trim();
    let object = match serde_json::from_str::<Vec<&RawValue>>(body) {
        Ok(list) => list.first()?.get(),
        Err(_) => body,
    };
    let error: Body<'_> = object
        .starts_with('{')
        .then(|| serde_json::from_str(object).ok())
        .flatten()?;
    let is_error = is_truthy(error.error)
        || is_truthy(error.errors)
        || is_truthy(error.detail)
        || error.message.filled().is_some();
    is_error.then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_error_is_known_by_its_fields() {
        for frame in [
            r#"{"error":{"message":"m"}}"#,
            r#"{"error":"m"}"#,
            r#"{"error":{"code":503}}"#,
            r#"{"object":"error","message":"m","type":"BadRequestError"}"#,
            r#"{"type":"InternalServerError","message":"m"}"#,
            r#"{"type":"rate_limit_exceeded","message":"m"}"#,
            r#"{"code":429,"message":"m"}"#,
        ] {
            assert!(is_error_frame(frame.as_bytes()), "{frame}");
        }
    }

    #[test]
    fn what_only_looks_like_an_error_is_none() {
        for frame in [
            r#"{"error":null}"#,
            r#"{"error":{}}"#,
            r#"{"type":"status","message":"loading"}"#,
            r#"{"type":"weather","code":7,"message":"m"}"#,
            r#"{"message":{"id":"x"},"code":1}"#,
            r#"{"type":"some_error"}"#,
            "[1]",
            "no JSON",
        ] {
            assert!(!is_error_frame(frame.as_bytes()), "{frame}");
        }
    }
}
