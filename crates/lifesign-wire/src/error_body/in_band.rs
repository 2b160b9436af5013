//! Errors in frames that do not say what they are.

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
