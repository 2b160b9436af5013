//! A message as one body: put together from its events, and taken apart into some.

use serde_json::value::RawValue;

use super::block::Open;
use crate::error_out::event;
use crate::lenient::is_truthy;
use crate::raw_object::{RawObject, object, raw};

/// A message while its events come; its blocks are kept elsewhere.
#[derive(Debug, Default)]
pub(super) struct Whole {
    /// The message as it started, and what was told of it since.
    message: Option<RawObject>,
    usage: RawObject,
}

impl Whole {
    /// Takes in an event.
    pub(super) fn add(&mut self, kind: &str, data: &[u8]) {
        if !matches!(kind, "message_delta" | "message_start") {
            return;
        }
        let data = std::str::from_utf8(data).ok().and_then(RawObject::parse);
        let Some(data) = data else { return };
        if kind == "message_start" {
            if let Some(message) = data.object("message") {
                self.count(message.get("usage"));
                // A gateway may splice a second one in; the first stands.
                self.message.get_or_insert(message);
            }
            return;
        }
        self.count(data.get("usage"));
        let message = self.message.get_or_insert_default();
        let delta = data.object("delta").unwrap_or_default();
        for (name, value) in delta.fields().chain(data.fields()) {
            match name {
                "delta" | "type" | "usage" => {}
                _ if value.get() == "null" => message.set_missing(name, value.to_owned()),
                _ => message.set(name, value.to_owned()),
            }
        }
    }

    /// Takes in cumulative usage. Events that do not know a count say that it is zero.
    fn count(&mut self, usage: Option<&RawValue>) {
        let Some(usage) = usage.and_then(|usage| RawObject::parse(usage.get())) else {
            return;
        };
        for (name, value) in usage.fields() {
            if is_truthy(Some(value)) || name == "output_tokens" {
                self.usage.set(name, value.to_owned());
            } else {
                self.usage.set_missing(name, value.to_owned());
            }
        }
    }

    /// Returns the body.
    pub(super) fn body(&self, blocks: &[Open]) -> RawObject {
        let mut body = self.message.clone().unwrap_or_default();
        body.set("type", raw("message"));
        body.set_missing("role", raw("assistant"));
        let blocks: Vec<_> = blocks.iter().map(Open::body).collect();
        body.set("content", raw(&blocks));
        if !self.usage.is_empty() {
            body.set("usage", self.usage.to_raw());
        }
        body
    }
}

/// Returns a whole message as the events of a stream, or `None` if the body is none.
pub(super) fn events(body: &str) -> Option<Vec<u8>> {
    let body = RawObject::parse(body)?;
    if body.text("type")? != "message" {
        return None;
    }
    let mut start = body.clone();
    start.set("content", raw(&[(); 0]));
    for name in ["stop_reason", "stop_sequence"] {
        start.set(name, raw(&()));
    }
    let start = object([("type", raw("message_start")), ("message", start.to_raw())]);
    let mut events = event("message_start", &start);

    for (index, block) in (0..).zip(body.items("content")) {
        block_events(index, &RawObject::parse(block.get())?, &mut events);
    }

    let field = |name| body.raw(name).map(ToOwned::to_owned).unwrap_or_default();
    let delta = object([
        ("stop_reason", field("stop_reason")),
        ("stop_sequence", field("stop_sequence")),
    ]);
    let mut end = object([("type", raw("message_delta")), ("delta", delta.to_raw())]);
    if let Some(usage) = body.get("usage") {
        end.set("usage", usage.to_owned());
    }
    events.extend(event("message_delta", &end));
    let stop = object([("type", raw("message_stop"))]);
    events.extend(event("message_stop", &stop));
    Some(events)
}

fn block_events(index: u64, block: &RawObject, events: &mut Vec<u8>) {
    let mut start = block.clone();
    let mut deltas = Vec::new();
    let kind = block.text("type").unwrap_or_default();
    // What a delta brings is empty in the block that starts.
    let mut part = |field: &str, empty: Box<RawValue>, delta: &str, name: &str| {
        let Some(value) = start.get(field).map(ToOwned::to_owned) else {
            return;
        };
        if !is_truthy(Some(&value)) {
            return;
        }
        start.set(field, empty);
        let values = match field {
            // Each of them has a delta of its own.
            "citations" => serde_json::from_str(value.get()).unwrap_or_default(),
            // It goes as text: whole JSON, or what is no JSON.
            "input" if !value.get().starts_with('"') => vec![raw(value.get())],
            _ => vec![value],
        };
        for value in values {
            deltas.push(object([("type", raw(delta)), (name, value)]));
        }
    };
    match kind.as_str() {
        "text" => {
            part("text", raw(""), "text_delta", "text");
            part("citations", raw(&[(); 0]), "citations_delta", "citation");
        }
        "thinking" => {
            part("thinking", raw(""), "thinking_delta", "thinking");
            part("signature", raw(""), "signature_delta", "signature");
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let empty = RawObject::default().to_raw();
            part("input", empty, "input_json_delta", "partial_json");
        }
        // The others come whole.
        _ => {}
    }
    let at = |kind: &str, name: &str, value: Option<Box<RawValue>>| {
        let mut frame = object([("type", raw(kind)), ("index", raw(&index))]);
        if let Some(value) = value {
            frame.set(name, value);
        }
        event(kind, &frame)
    };
    events.extend(at(
        "content_block_start",
        "content_block",
        Some(start.to_raw()),
    ));
    for delta in deltas {
        events.extend(at("content_block_delta", "delta", Some(delta.to_raw())));
    }
    events.extend(at("content_block_stop", "", None));
}
