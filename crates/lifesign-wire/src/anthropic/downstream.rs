//! What a gateway itself says to a reader of Messages.

use crate::error_body::stands_for_a_status;
use crate::error_out::{ErrorKind, ErrorOut, event};
use crate::raw_object::{RawObject, object, raw};

/// Returns a beat as an event.
pub(super) fn beat() -> Vec<u8> {
    b"event: ping\ndata: {\"type\": \"ping\"}\n\n".to_vec()
}

/// Returns the body of a failed call.
pub(super) fn error_body(error: &ErrorOut<'_>) -> Vec<u8> {
    written(error).to_bytes()
}

/// Returns the event with which a stream fails. The SDKs raise their `APIStatusError` (Python) and
/// `APIError` (TypeScript) for an event named `error`, with its data as the body.
pub(super) fn error_frame(error: &ErrorOut<'_>) -> Vec<u8> {
    event("error", &written(error))
}

fn written(error: &ErrorOut<'_>) -> RawObject {
    let kind = match error.kind() {
        ErrorKind::Authentication => "authentication_error",
        ErrorKind::Billing => "billing_error",
        ErrorKind::Invalid => "invalid_request_error",
        ErrorKind::NotFound => "not_found_error",
        ErrorKind::Overloaded => "overloaded_error",
        ErrorKind::Permission => "permission_error",
        ErrorKind::Quota | ErrorKind::RateLimit => "rate_limit_error",
        ErrorKind::Server => "api_error",
        ErrorKind::Timeout => "timeout_error",
        ErrorKind::TooLarge => "request_too_large",
    };
    let said = error.provider.and_then(|said| said.kind.as_deref());
    let kind = said
        .filter(|said| stands_for_a_status(said))
        .unwrap_or(kind);
    let inner = object([("type", raw(kind)), ("message", raw(&error.message()))]);
    object([
        ("type", raw("error")),
        ("error", inner.to_raw()),
        ("request_id", raw(&error.failure.request_id)),
        ("lifesign", error.mark()),
    ])
}
