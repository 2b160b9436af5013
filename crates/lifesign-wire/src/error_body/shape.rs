//! Where each provider puts the parts of an error.

use std::borrow::Cow;
use std::time::Duration;

use lifesign_core::{parse_wait, wait_in_prose};
use serde_json::{Map, Value};

use super::is_web_page;

/// The parts of an error, wherever its provider puts them.
pub(super) struct Shape<'j> {
    /// The object around the error.
    outer: Option<&'j Map<String, Value>>,
    /// The error itself; the outer object where there is no inner one.
    inner: Option<&'j Map<String, Value>>,
    /// The error, where it is only a text.
    text: Option<&'j str>,
}

impl<'j> Shape<'j> {
    pub(super) fn of(json: &'j Value) -> Self {
        // Gemini may wrap the error into an array.
        let json = json.as_array().and_then(|all| all.first()).unwrap_or(json);
        let outer = json.as_object();
        let around = outer
            .and_then(|outer| outer.get("response")?.as_object())
            .or(outer);
        let error = around.and_then(|around| {
            let listed = || around.get("errors")?.as_array()?.first();
            around
                .get("error")
                .filter(|error| !error.is_null())
                .or_else(listed)
        });
        Self {
            outer: around,
            inner: error.and_then(Value::as_object).or(around),
            text: error.and_then(Value::as_str).or_else(|| json.as_str()),
        }
    }

    /// Returns a field of the error, or else of the object around it.
    fn field(&self, name: &str) -> Option<&'j Value> {
        let found = |object: Option<&'j Map<String, Value>>| {
            object?.get(name).filter(|value| !value.is_null())
        };
        found(self.inner).or_else(|| found(self.outer))
    }

    /// Returns whether a gateway of ours marked it.
    pub(super) fn is_marked(&self) -> bool {
        self.field("lifesign").is_some_and(Value::is_object)
    }

    pub(super) fn kind(&self) -> Option<&'j str> {
        ["type", "status", "__type"]
            .into_iter()
            .filter_map(|name| self.field(name)?.as_str())
            .find(|kind| !kind.is_empty() && !ENVELOPES.contains(kind))
    }

    pub(super) fn provider_code(&self) -> Option<Cow<'j, str>> {
        match self.field("code")? {
            Value::String(code) if !code.is_empty() => Some(Cow::Borrowed(code)),
            Value::Number(code) => Some(Cow::Owned(code.to_string())),
            _ => None,
        }
    }

    /// Returns the code that Anthropic puts into the details.
    pub(super) fn detail_code(&self) -> Option<&'j str> {
        self.field("details")?.get("error_code")?.as_str()
    }

    /// Returns the HTTP status that a number in the error stands for.
    pub(super) fn numeric_status(&self) -> Option<u16> {
        ["status_code", "raw_status_code", "code", "status"]
            .into_iter()
            .filter_map(|name| match self.field(name)? {
                Value::Number(number) => number.as_u64(),
                Value::String(text) => text.parse().ok(),
                _ => None,
            })
            .find_map(|number| {
                u16::try_from(number)
                    .ok()
                    .filter(|status| (400..600).contains(status))
            })
    }

    /// Returns whether a quota of a day is used up (Gemini).
    pub(super) fn is_daily_quota(&self) -> bool {
        self.details().any(|detail| {
            let violations = detail.get("violations").and_then(Value::as_array);
            violations.into_iter().flatten().any(|violation| {
                let id = violation.get("quotaId").and_then(Value::as_str);
                id.is_some_and(|id| id.contains("PerDay"))
            })
        })
    }

    fn details(&self) -> impl Iterator<Item = &'j Value> {
        self.field("details")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    }

    /// Returns the error's text as the provider wrote it.
    pub(super) fn text(&self) -> Option<Cow<'j, str>> {
        if let Some(text) = self.text {
            return Some(Cow::Borrowed(text));
        }
        let text = ["message", "msg", "detail", "error_description"]
            .into_iter()
            .find_map(|name| text_of(self.field(name)?));
        // OpenRouter's own text says only that the provider failed; the provider's is beside it.
        match (text, self.raw()) {
            (Some(text), Some(raw)) => Some(Cow::Owned(format!("{text}: {raw}"))),
            (text, raw) => text.or(raw),
        }
    }

    fn raw(&self) -> Option<Cow<'j, str>> {
        let raw = self.field("metadata")?.get("raw")?;
        let text = raw.as_str()?;
        match serde_json::from_str::<Value>(text) {
            Ok(json) => {
                let text = Shape::of(&json).text()?.into_owned();
                Some(Cow::Owned(text))
            }
            Err(_) if is_web_page(text) => None,
            Err(_) => Some(Cow::Borrowed(text)),
        }
    }

    /// Returns the wait that the body asks for: a `RetryInfo`, a field, or prose with a unit.
    pub(super) fn wait(&self, text: Option<&str>) -> Option<Wait> {
        let retry_info = self
            .details()
            .filter(|detail| {
                let name = detail.get("@type").and_then(Value::as_str);
                name.is_some_and(|name| name.ends_with("google.rpc.RetryInfo"))
            })
            .find_map(|detail| parse_wait(detail.get("retryDelay")?.as_str()?));
        if let Some(length) = retry_info {
            return Some(Wait {
                length,
                is_retry_info: true,
            });
        }
        let length = WAIT_FIELDS
            .iter()
            .find_map(|(name, unit)| {
                let field = self
                    .field(name)
                    .or_else(|| self.field("metadata")?.get(*name))?;
                length_of(field, unit)
            })
            .or_else(|| wait_in_prose(text?))?;
        Some(Wait {
            length,
            is_retry_info: false,
        })
    }
}

/// A wait that an error asks for.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    pub(super) length: Duration,
    pub(super) is_retry_info: bool,
}

/// Returns a text, the text in an object, or the texts in a list of complaints.
fn text_of(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) if !text.is_empty() => Some(Cow::Borrowed(text)),
        Value::Array(complaints) => {
            let texts: Vec<_> = complaints
                .iter()
                .take(MOST_COMPLAINTS)
                .filter_map(text_of)
                .collect();
            (!texts.is_empty()).then(|| Cow::Owned(texts.join("; ")))
        }
        Value::Object(complaint) => {
            let text = ["message", "msg", "error"]
                .into_iter()
                .find_map(|name| complaint.get(name)?.as_str())?;
            let place = complaint.get("loc").and_then(Value::as_array).map(|place| {
                let names = place.iter().map(|name| {
                    name.as_str()
                        .map_or_else(|| name.to_string(), str::to_owned)
                });
                names.collect::<Vec<_>>().join(".")
            });
            Some(match place {
                Some(place) => Cow::Owned(format!("{place}: {text}")),
                None => Cow::Borrowed(text),
            })
        }
        _ => None,
    }
}

/// Returns the length of a wait: a number of `unit`, as a number or as text, or text with a unit.
fn length_of(field: &Value, unit: &str) -> Option<Duration> {
    match field {
        Value::Number(number) => parse_wait(&format!("{number}{unit}")),
        Value::String(text) => parse_wait(&format!("{text}{unit}")).or_else(|| parse_wait(text)),
        _ => None,
    }
}

/// The most complaints of a validator that are repeated.
const MOST_COMPLAINTS: usize = 4;

/// Types that name the event, not the error.
const ENVELOPES: [&str; 4] = ["error", "response.error", "response.failed", "failed"];

/// Fields that hold a wait, and the unit of a bare number in them.
const WAIT_FIELDS: [(&str, &str); 5] = [
    ("retry_after_ms", "ms"),
    ("retryAfterMs", "ms"),
    ("retry_after_seconds", "s"),
    ("retry_after", "s"),
    ("retryAfter", "s"),
];
