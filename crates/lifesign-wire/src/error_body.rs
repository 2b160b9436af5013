//! Providers' errors, in the body of a refusal or inside a stream, as one type.
//!
//! Every provider has a shape of its own and every proxy adds one. What they share is a status or a
//! numeric code, a word for the kind of error, and a text. The status decides; the words decide
//! where there is none, and tell quota from rate. The text is for people and decides nothing:
//! wordings change without notice.

use std::time::Duration;

use lifesign_core::{BodyHints, FailureCode, TEXT_CHARS, quote, wait_in_prose};
use serde_json::Value;

pub(crate) use self::in_band::{error_in, is_error_frame};
use self::shape::Shape;

mod in_band;
mod shape;
mod words;

/// What a provider says went wrong.
///
/// This example shows an overload inside a 200, which is the same failure as a 529:
///
/// ```
/// use lifesign_core::FailureCode;
/// use lifesign_wire::ProviderError;
///
/// let frame = br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
/// let error = ProviderError::of_frame(frame);
///
/// assert_eq!(error.code, FailureCode::Overloaded);
/// assert_eq!(error.status, Some(529));
/// assert_eq!(error.message, "Overloaded");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// What it amounts to.
    pub code: FailureCode,
    /// The provider's text, on one line and at most 2,000 characters; our own where it gave none.
    pub message: String,
    /// The provider's word for the kind of error.
    pub kind: Option<String>,
    /// The provider's code, a number written as text.
    pub provider_code: Option<String>,
    /// The HTTP status, or inside a stream the status that the error stands for.
    pub status: Option<u16>,
    /// The wait that the body asks for.
    pub wait: Option<Duration>,
    /// Whether that wait is a `google.rpc.RetryInfo`, which ranks above reset headers.
    pub is_retry_info: bool,
    /// Whether its codes say that a quota is used up.
    pub quota: bool,
    /// Whether a lifesign gateway wrote it, which has tried again as often as there was sense in it:
    /// no other attempt is to follow.
    pub is_final: bool,
}

impl ProviderError {
    /// Returns an error of `code` with `message` and nothing else known.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            kind: None,
            provider_code: None,
            status: None,
            wait: None,
            is_retry_info: false,
            quota: false,
            is_final: false,
        }
    }

    /// Reads the body of a response whose status is no success.
    ///
    /// The body may be JSON under any label, JSON in SSE frames, plain text, a web page, or
    /// nothing. Nothing of a web page is repeated.
    pub fn of_body(status: u16, body: &[u8]) -> Self {
        match json_of(body) {
            Some(value) => Self::of_value(Some(status), &value),
            None => Self::of_text(Some(status), body),
        }
    }

    /// Reads an error inside a stream, or a whole body that came with a status of success.
    pub fn of_frame(data: &[u8]) -> Self {
        match json_of(data) {
            Some(value) => Self::of_value(None, &value),
            None => Self::of_text(None, data),
        }
    }

    /// Reads an error that is JSON already; `status` is the HTTP status, if that is no success.
    pub fn of_value(status: Option<u16>, json: &Value) -> Self {
        let shape = Shape::of(json);
        let status = status.filter(|status| !(200..300).contains(status));
        let kind = shape.kind();
        let provider_code = shape.provider_code();
        let words = [shape.detail_code(), provider_code.as_deref(), kind];
        let word_status = words.into_iter().flatten().find_map(words::status);
        let stands_for = status.or_else(|| shape.numeric_status());
        let quota = words.into_iter().flatten().any(words::is_quota) || shape.is_daily_quota();

        let text = shape.text();
        let wait = shape.wait(text.as_deref());
        let message = text.as_deref().map(said).filter(|text| !text.is_empty());
        Self {
            code: code(stands_for, word_status, quota),
            message: message
                .or_else(|| kind.map(|kind| quote(kind, TEXT_CHARS)))
                .unwrap_or_else(|| UNEXPLAINED.to_owned()),
            kind: kind.map(|kind| quote(kind, WORD_CHARS)),
            provider_code: provider_code.map(|code| quote(&code, WORD_CHARS)),
            status: stands_for.or(word_status),
            wait: wait.map(|wait| wait.length),
            is_retry_info: wait.is_some_and(|wait| wait.is_retry_info),
            quota,
            is_final: shape.is_marked(),
        }
    }

    /// Returns whether the provider said anything about it.
    pub(crate) fn is_explained(&self) -> bool {
        self.message != UNEXPLAINED
    }

    /// Returns what the error asks of whoever wants to try again.
    pub const fn hints(&self) -> BodyHints {
        BodyHints {
            retry_info: if self.is_retry_info { self.wait } else { None },
            wait: self.wait,
            quota: self.quota,
        }
    }

    fn of_text(status: Option<u16>, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let mut message = said(&text);
        if message.is_empty() {
            UNEXPLAINED.clone_into(&mut message);
        }
        Self {
            status,
            wait: if is_web_page(&text) {
                None
            } else {
                wait_in_prose(&text)
            },
            ..Self::new(code(status, None, false), message)
        }
    }
}

/// Returns what a status, the status that a word stands for, and a quota amount to.
fn code(status: Option<u16>, word: Option<u16>, quota: bool) -> FailureCode {
    if quota {
        return FailureCode::Exhausted;
    }
    let status = match (status, word) {
        // A fault of the server's that calls itself overload, or rate limit, is that.
        (Some(500..), Some(word @ (429 | 503 | 529))) | (None, Some(word)) => Some(word),
        (status, _) => status,
    };
    match status {
        Some(402) => FailureCode::Exhausted,
        Some(408 | 409 | 425) | None => FailureCode::ProviderError,
        Some(429) => FailureCode::RateLimited,
        Some(503 | 529) => FailureCode::Overloaded,
        Some(300..=499) => FailureCode::Rejected,
        // Nobody asked for another protocol, and no other of these ends a response.
        Some(100..=199) => FailureCode::Unreadable,
        Some(_) => FailureCode::ProviderError,
    }
}

/// Returns the JSON of a body: bare, or in the first data line of an SSE stream that holds some.
fn json_of(body: &[u8]) -> Option<Value> {
    let body = body
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(body)
        .trim_ascii();
    let is_json = |value: &Value| value.is_object() || value.is_array() || value.is_string();
    if let Some(value) = serde_json::from_slice(body).ok().filter(is_json) {
        return Some(value);
    }
    body.split(|byte| matches!(byte, b'\n' | b'\r'))
        .find_map(|line| {
            let line = line
                .strip_prefix(b"data:")
                .or_else(|| line.strip_prefix(b"error:"))
                .unwrap_or(line);
            serde_json::from_slice(line.trim_ascii())
                .ok()
                .filter(Value::is_object)
        })
}

/// Returns a provider's text as it may be repeated: nothing of a web page.
fn said(text: &str) -> String {
    if is_web_page(text) {
        return "a web page came in place of an explanation".to_owned();
    }
    quote(text, TEXT_CHARS)
}

/// Returns whether a word for a kind of error is one that stands for a status.
pub(crate) fn stands_for_a_status(word: &str) -> bool {
    words::status(word).is_some()
}

fn is_web_page(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with('<') {
        return true;
    }
    let lower = text.to_ascii_lowercase();
    ["<html", "<!doctype", "<body", "<head>"]
        .iter()
        .any(|tag| lower.contains(tag))
}

/// What stands for the text of an error that has none.
const UNEXPLAINED: &str = "no explanation came with it";

/// The most characters of a provider's word or code.
const WORD_CHARS: usize = 100;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn in_band(json: &Value) -> (FailureCode, Option<u16>, String) {
        let error = ProviderError::of_value(None, json);
        (error.code, error.status, error.message)
    }

    fn said(code: FailureCode, status: u16, message: &str) -> (FailureCode, Option<u16>, String) {
        (code, Some(status), message.to_owned())
    }

    #[test]
    fn a_status_decides() {
        for (status, code) in [
            (101, FailureCode::Unreadable),
            (301, FailureCode::Rejected),
            (400, FailureCode::Rejected),
            (401, FailureCode::Rejected),
            (402, FailureCode::Exhausted),
            (404, FailureCode::Rejected),
            (408, FailureCode::ProviderError),
            (409, FailureCode::ProviderError),
            (413, FailureCode::Rejected),
            (425, FailureCode::ProviderError),
            (429, FailureCode::RateLimited),
            (500, FailureCode::ProviderError),
            (502, FailureCode::ProviderError),
            (503, FailureCode::Overloaded),
            (504, FailureCode::ProviderError),
            (529, FailureCode::Overloaded),
            (600, FailureCode::ProviderError),
        ] {
            let error = ProviderError::of_body(status, b"");
            assert_eq!((error.code, error.status), (code, Some(status)), "{status}");
        }
    }

    #[test]
    fn the_types_of_anthropic_stand_for_their_statuses() {
        for (kind, status, code) in [
            ("invalid_request_error", 400, FailureCode::Rejected),
            ("authentication_error", 401, FailureCode::Rejected),
            ("billing_error", 402, FailureCode::Exhausted),
            ("permission_error", 403, FailureCode::Rejected),
            ("not_found_error", 404, FailureCode::Rejected),
            ("conflict_error", 409, FailureCode::ProviderError),
            ("request_too_large", 413, FailureCode::Rejected),
            ("rate_limit_error", 429, FailureCode::RateLimited),
            ("api_error", 500, FailureCode::ProviderError),
            ("timeout_error", 504, FailureCode::ProviderError),
            ("overloaded_error", 529, FailureCode::Overloaded),
        ] {
            let json = json!({"type": "error", "error": {"type": kind, "message": "m"}});
            assert_eq!(in_band(&json), said(code, status, "m"), "{kind}");
        }
    }

    #[test]
    fn the_shapes_of_errors_inside_streams_are_read() {
        let rejected = FailureCode::Rejected;
        for (json, expected) in [
            (
                json!({"error": {"type": "BadRequestError", "code": 400,
                                 "message": "unsupported parameter"}}),
                said(rejected, 400, "unsupported parameter"),
            ),
            (
                json!({"object": "error", "message": "m", "type": "BadRequestError", "code": 400}),
                said(rejected, 400, "m"),
            ),
            (
                json!({"error": {"message": "bad call", "type": "invalid_request_error",
                                 "code": "tool_use_failed", "status_code": 400}}),
                said(rejected, 400, "bad call"),
            ),
            (
                json!({"error": {"code": 429, "message": "slow"}, "choices": [{"delta": {}}]}),
                said(FailureCode::RateLimited, 429, "slow"),
            ),
            (
                json!({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}),
                said(FailureCode::Overloaded, 503, "busy"),
            ),
            (
                json!({"type": "error", "code": "server_error", "message": "sorry"}),
                said(FailureCode::ProviderError, 500, "sorry"),
            ),
            (
                json!({"type": "error", "status": 400, "error": {"code": "y", "message": "m"}}),
                said(rejected, 400, "m"),
            ),
            (
                json!({"type": "response.failed", "response": {"status": "failed",
                       "error": {"code": "rate_limit_exceeded", "message": "m"}}}),
                said(FailureCode::RateLimited, 429, "m"),
            ),
            (
                json!({"type": "error", "error": {"type": "tokens", "message": "m",
                                                  "code": "rate_limit_exceeded"}}),
                said(FailureCode::RateLimited, 429, "m"),
            ),
            (
                json!([{"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}}]),
                said(rejected, 400, "m"),
            ),
            (
                json!({"error": {"code": "401", "message": "m"}}),
                said(rejected, 401, "m"),
            ),
        ] {
            assert_eq!(in_band(&json), expected, "{json}");
        }
    }

    #[test]
    fn an_error_without_a_known_word_is_the_providers() {
        let unknown = |message: &str| (FailureCode::ProviderError, None, message.to_owned());

        assert_eq!(
            in_band(&json!({"error": "model runner stopped"})),
            unknown("model runner stopped")
        );
        assert_eq!(in_band(&json!({"detail": "d"})), unknown("d"));
        assert_eq!(
            in_band(&json!({"error": {"code": 1302, "message": "m"}})),
            unknown("m")
        );
        assert_eq!(in_band(&json!({"error": {}})), unknown(UNEXPLAINED));
        assert_eq!(in_band(&json!({"error": true})), unknown(UNEXPLAINED));
        let error = json!({"detail": "outer", "error": {"message": "inner"}});
        assert_eq!(in_band(&error), unknown("inner"));
    }

    #[test]
    fn a_type_stands_for_a_missing_text() {
        let error = ProviderError::of_body(429, br#"{"error":{"type":"rate_limit_error"}}"#);

        assert_eq!(error.message, "rate_limit_error");
    }

    #[test]
    fn codes_tell_quota_from_rate() {
        let day = json!({"error": {"code": 429, "message": "m", "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
             "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}});
        let spend = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "m",
                           "details": {"error_code": "enforced_spend_limit_reached"}}});
        for json in [
            json!({"error": {"code": "insufficient_quota", "message": "m"}}),
            json!({"error": {"code": "billing_hard_limit_reached", "message": "m"}}),
            day,
            spend,
        ] {
            let error = ProviderError::of_value(Some(429), &json);
            assert_eq!(
                (error.code, error.quota),
                (FailureCode::Exhausted, true),
                "{json}"
            );
        }
        let prose = json!({"error": {"message": "You exceeded your current quota", "code": 429}});
        assert_eq!(in_band(&prose).0, FailureCode::RateLimited);
    }

    #[test]
    fn an_overload_is_one_under_any_server_error() {
        let body =
            br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;

        let code = |status| ProviderError::of_body(status, body).code;

        assert_eq!(code(500), FailureCode::Overloaded);
        assert_eq!(code(529), FailureCode::Overloaded);
        assert_eq!(code(400), FailureCode::Rejected);
    }

    #[test]
    fn waits_in_bodies_are_read_in_their_order() {
        let wait = |json: Value| {
            let error = ProviderError::of_value(Some(429), &json);
            (error.wait.map(|wait| wait.as_millis()), error.is_retry_info)
        };
        let info =
            json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "51820.6s"});

        let prose = "Please retry in 48.9s.";
        assert_eq!(
            wait(json!({"error": {"message": prose, "details": [info]}})),
            (Some(51_820_600), true)
        );
        assert_eq!(
            wait(json!({"error": {"message": prose, "retry_after": 7.5}})),
            (Some(7_500), false)
        );
        assert_eq!(
            wait(json!({"error": {"message": prose}})),
            (Some(48_900), false)
        );
        assert_eq!(
            wait(json!({"error": {"metadata": {"retry_after_ms": "1500"}}})),
            (Some(1_500), false)
        );
        assert_eq!(
            wait(json!({"error": {"retry_after": -7, "message": "m"}})),
            (None, false)
        );
    }

    #[test]
    fn bodies_are_read_under_any_wrapping() {
        for body in [
            &b"data: {\"error\":{\"message\":\"m\"}}\n\ndata: [DONE]\n\n"[..],
            b"event: error\r\ndata: {\"error\":{\"message\":\"m\"}}\r\n\r\n",
            b"\xef\xbb\xbf \n{\"message\":\"m\"}",
            b"{\"error\":\"m\"}\n{\"error\":\"n\"}\n",
            b"\"m\"",
            b" m \n",
        ] {
            let error = ProviderError::of_body(400, body);
            assert_eq!(
                (error.code, error.message.as_str()),
                (FailureCode::Rejected, "m")
            );
        }
    }

    #[test]
    fn nothing_of_a_web_page_is_repeated() {
        let page = "<html><head><title>502 Bad Gateway</title></head>secret</html>";
        let in_json = json!({"error": {"message": page}}).to_string();
        for body in [
            page,
            " <!DOCTYPE html><p>secret",
            "upstream said: <html>secret",
            &in_json,
        ] {
            let error = ProviderError::of_body(502, body.as_bytes());
            assert_eq!(error.message, "a web page came in place of an explanation");
        }
    }

    #[test]
    fn complaints_of_a_validator_name_their_place() {
        let body =
            br#"{"detail":[{"loc":["body","model"],"msg":"field required","type":"value_error"}]}"#;

        let error = ProviderError::of_body(422, body);

        assert_eq!(error.message, "body.model: field required");
        assert_eq!(error.code, FailureCode::Rejected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_body_makes_the_reader_panic(
            status in 0_u16..=999,
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let error = ProviderError::of_body(status, &body);

            prop_assert!(!error.message.is_empty());
            prop_assert!(error.message.chars().count() <= TEXT_CHARS);
        }

        #[test]
        fn no_json_makes_the_reader_panic(
            status in proptest::option::of(0_u16..=999),
            text in "[{}\\[\\]\":,0-9a-z.]{0,60}",
            field in "(error|message|code|details|detail|metadata|response|type|errors)",
        ) {
            let value: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            let error = ProviderError::of_value(status, &json!({field: value}));

            prop_assert!(!error.message.is_empty());
        }
    }
}
