//! A failure as the readers of a wire know one: the body of a status, or the last event of a stream
//! that has begun.
//!
//! Official SDKs make their own errors from it, by the status or, inside a stream, by the event; so
//! its words are those that the providers use. A `lifesign` object beside them holds what happened.
//! It also marks the error as final: whoever wrote it has tried again as often as there was sense
//! in it, and a gateway above does not do so again.

use lifesign_core::{Failure, FailureCode, FailureReport, Usage};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::ProviderError;
use crate::answer::Answer;
use crate::beat::Forwarded;
use crate::raw_object::{RawObject, object, raw};
use crate::tool_calls::ToolCall;
use crate::wire::Wire;

/// A failure that a caller is told of.
///
/// This example shows what the official SDKs of openai-chat raise their own error for.
///
/// ```
/// use lifesign_core::{Failure, FailureCode, Phase};
/// use lifesign_wire::{ErrorOut, Forwarded, ProviderError, Wire};
///
/// let failure = Failure::new(FailureCode::RawSilent, Phase::AfterContent);
/// let error = ErrorOut::new(504, &failure);
/// let frame = Wire::OPENAI_CHAT.error_frame(&error, &Forwarded::default());
/// assert!(frame.starts_with(br#"data: {"error":{"message":"#));
/// assert!(frame.ends_with(b"\n\ndata: [DONE]\n\n"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ErrorOut<'a> {
    /// The HTTP status of the response, or the one that it would have had.
    pub status: u16,
    /// What happened.
    pub failure: &'a Failure,
    /// What the provider says happened, if that is the failure.
    pub provider: Option<&'a ProviderError>,
    /// Our own word for what went wrong, where that says more than the failure's code.
    pub code: Option<&'a str>,
    /// What arrived of the answer, for a caller who has seen nothing of it.
    pub partial: Option<&'a Answer>,
}

/// What arrived of an answer.
#[derive(Serialize)]
struct Partial<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    tool_calls: &'a [ToolCall],
    finish_reason: Option<&'a str>,
    usage: Option<Usage>,
}

/// What kind of error it is, as far as the providers' words tell kinds apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Authentication,
    Billing,
    Invalid,
    NotFound,
    Overloaded,
    Permission,
    Quota,
    RateLimit,
    Server,
    Timeout,
    TooLarge,
}

impl<'a> ErrorOut<'a> {
    /// Returns the error that `failure` is, of which nobody else said anything.
    pub fn new(status: u16, failure: &'a Failure) -> Self {
        Self {
            status,
            failure,
            provider: None,
            code: None,
            partial: None,
        }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self.failure.code {
            FailureCode::Exhausted if self.status == 402 => ErrorKind::Billing,
            FailureCode::Exhausted if self.provider.is_some_and(|error| error.quota) => {
                ErrorKind::Quota
            }
            FailureCode::Exhausted | FailureCode::QueueFull | FailureCode::RateLimited => {
                ErrorKind::RateLimit
            }
            FailureCode::Overloaded => ErrorKind::Overloaded,
            _ => match self.status {
                401 => ErrorKind::Authentication,
                402 => ErrorKind::Billing,
                403 => ErrorKind::Permission,
                404 => ErrorKind::NotFound,
                408 | 504 => ErrorKind::Timeout,
                413 => ErrorKind::TooLarge,
                429 => ErrorKind::RateLimit,
                503 | 529 => ErrorKind::Overloaded,
                400..=499 => ErrorKind::Invalid,
                _ => ErrorKind::Server,
            },
        }
    }

    /// Returns the provider's words where it gave any, else our own.
    pub(crate) fn message(&self) -> String {
        self.provider
            .filter(|error| error.is_explained())
            .map_or_else(|| self.failure.message(), |error| error.message.clone())
    }

    /// Returns the object that says what happened, for readers that know it.
    pub(crate) fn mark(&self) -> Box<RawValue> {
        let report = raw(&FailureReport::from(self.failure));
        let mut mark = RawObject::parse(report.get()).unwrap_or_default();
        if let Some(answer) = self.partial {
            let partial = Partial {
                text: &answer.text,
                reasoning: answer.reasoning.as_deref(),
                tool_calls: &answer.tool_calls,
                finish_reason: answer.finish_reason.as_deref(),
                usage: answer.usage,
            };
            mark.set("partial", raw(&partial));
        }
        mark.to_raw()
    }

    /// Returns the error as both OpenAI wires write one.
    pub(crate) fn openai(&self) -> RawObject {
        let kind = match self.kind() {
            ErrorKind::Authentication => "authentication_error",
            ErrorKind::Billing | ErrorKind::Quota => "insufficient_quota",
            ErrorKind::Invalid | ErrorKind::TooLarge => "invalid_request_error",
            ErrorKind::NotFound => "not_found_error",
            ErrorKind::Overloaded => "overloaded_error",
            ErrorKind::Permission => "permission_error",
            ErrorKind::RateLimit => "rate_limit_error",
            ErrorKind::Server => "server_error",
            ErrorKind::Timeout => "timeout",
        };
        let code = match self.kind() {
            ErrorKind::Billing | ErrorKind::Quota => "insufficient_quota",
            ErrorKind::Overloaded => "slow_down",
            ErrorKind::RateLimit => "rate_limit_exceeded",
            _ => self.code.unwrap_or_else(|| self.failure.code.name()),
        };
        let said = self.provider;
        let kind = said.and_then(|error| error.kind.as_deref()).unwrap_or(kind);
        let code = said
            .and_then(|error| error.provider_code.as_deref())
            .unwrap_or(code);
        object([
            ("message", raw(&self.message())),
            ("type", raw(kind)),
            ("param", raw(&())),
            ("code", raw(code)),
        ])
    }
}

impl Wire {
    /// Returns the body of a response whose status says that the call failed.
    pub fn error_body(self, error: &ErrorOut<'_>) -> Vec<u8> {
        self.dialect().error_body(error)
    }

    /// Returns the events with which a stream that has begun ends in a failure.
    ///
    /// Nothing may follow them but the end of the body.
    pub fn error_frame(self, error: &ErrorOut<'_>, forwarded: &Forwarded<'_>) -> Vec<u8> {
        self.dialect().error_frame(error, forwarded)
    }
}

/// Returns an event as it goes over the wire.
pub(crate) fn event(name: &str, data: &RawObject) -> Vec<u8> {
    let data = data.to_raw();
    format!("event: {name}\ndata: {}\n\n", data.get()).into_bytes()
}
