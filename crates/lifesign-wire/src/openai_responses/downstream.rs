//! What a gateway itself says to a reader of Responses.

use crate::beat::Forwarded;
use crate::error_out::{ErrorOut, event};
use crate::raw_object::{object, raw};

/// Returns a beat as an event. It repeats the last number, since readers that follow the numbers
/// take another one for a gap; before the first event there is none to repeat.
pub(super) fn beat(forwarded: &Forwarded<'_>) -> Option<Vec<u8>> {
    let beat = object([
        ("type", raw("keepalive")),
        ("sequence_number", raw(&forwarded.last_sequence?)),
    ]);
    Some(event("keepalive", &beat))
}

/// Returns a beat as an event for readers that look at no numbers, when there is none to repeat.
pub(super) fn early_beat() -> Vec<u8> {
    event("keepalive", &object([("type", raw("keepalive"))]))
}

/// Returns the body of a failed call.
pub(super) fn error_body(error: &ErrorOut<'_>) -> Vec<u8> {
    let body = object([
        ("error", error.openai().to_raw()),
        ("lifesign", error.mark()),
    ]);
    body.to_bytes()
}

/// Returns the event with which a stream fails.
///
/// It is `error` and not `response.failed`: openai-python raises its `APIError` only for data with
/// a filled `error` at the top, openai-node for that or for an event named `error`, and both hand
/// `response.failed` on as one more event. The schema has the fields at the top, the provider
/// itself writes them into `error`; here they are in both places.
pub(super) fn error_frame(error: &ErrorOut<'_>, forwarded: &Forwarded<'_>) -> Vec<u8> {
    let inner = error.openai();
    let field = |name| inner.raw(name).map(ToOwned::to_owned).unwrap_or_default();
    let number = forwarded
        .last_sequence
        .map_or(0, |last| last.saturating_add(1));
    let frame = object([
        ("type", raw("error")),
        ("code", field("code")),
        ("message", field("message")),
        ("param", field("param")),
        ("sequence_number", raw(&number)),
        ("error", inner.to_raw()),
        ("lifesign", error.mark()),
    ]);
    event("error", &frame)
}
