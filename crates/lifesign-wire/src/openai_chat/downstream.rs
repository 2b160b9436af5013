//! What a gateway itself says to a reader of Chat Completions.

use crate::beat::Forwarded;
use crate::error_out::ErrorOut;
use crate::raw_object::{RawObject, object, raw};

/// Returns a beat as an event: a chunk without choices.
pub(super) fn beat(forwarded: &Forwarded<'_>) -> Vec<u8> {
    let chunk = object([
        ("id", raw(forwarded.id.unwrap_or_default())),
        ("object", raw("chat.completion.chunk")),
        ("created", raw(&0)),
        ("model", raw(forwarded.model.unwrap_or_default())),
        ("choices", raw(&[(); 0])),
    ]);
    data(&chunk)
}

/// Returns the body of a failed call.
pub(super) fn error_body(error: &ErrorOut<'_>) -> Vec<u8> {
    written(error).to_bytes()
}

/// Returns the events with which a stream fails. The SDKs raise their `APIError` for any data with
/// a filled `error`; other readers wait for `[DONE]` whatever came before it.
pub(super) fn error_frame(error: &ErrorOut<'_>) -> Vec<u8> {
    let mut frame = data(&written(error));
    frame.extend_from_slice(DONE);
    frame
}

/// Returns an event without a name.
pub(super) fn data(data: &RawObject) -> Vec<u8> {
    format!("data: {}\n\n", data.to_raw().get()).into_bytes()
}

fn written(error: &ErrorOut<'_>) -> RawObject {
    object([
        ("error", error.openai().to_raw()),
        ("lifesign", error.mark()),
    ])
}

/// The event that ends a stream.
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";
