//! A chat completion as one body: put together from its chunks, and taken apart into some.
//!
//! Fields of a message grow as their deltas say: texts are joined, lists are extended, and of
//! everything else the last value stands. Fields that nobody knows are kept as well.

use serde_json::value::RawValue;

use super::chunk::{CallPiece, REASONING_FIELDS};
use super::details::{Detail, Details};
use super::downstream::{DONE, data};
use crate::lenient::{Count, Object, is_truthy};
use crate::raw_object::{RawObject, object, raw};
use crate::tool_calls::{Identities, Identity, ToolCall};

/// A completion while its chunks come.
#[derive(Debug, Default)]
pub(super) struct Whole {
    fields: RawObject,
    usage: RawObject,
    choices: Vec<Choice>,
}

#[derive(Debug, Default)]
struct Choice {
    index: u64,
    fields: RawObject,
    message: Message,
    finish_reason: Option<Box<RawValue>>,
}

#[derive(Debug, Default)]
struct Message {
    fields: RawObject,
    content: Content,
    calls: Vec<Call>,
    identities: Identities,
    function_call: Option<ToolCall>,
    reasoning_details: Details,
    thinking_blocks: Details,
}

#[derive(Debug, Default)]
enum Content {
    #[default]
    Nothing,
    Text(String),
    Parts(Vec<RawObject>),
}

#[derive(Debug, Default)]
struct Call {
    call: ToolCall,
    extra: RawObject,
}

impl Whole {
    /// Takes in a chunk.
    pub(super) fn add(&mut self, chunk: &[u8]) {
        let chunk = std::str::from_utf8(chunk).ok().and_then(RawObject::parse);
        let Some(chunk) = chunk else { return };
        for (name, value) in chunk.fields() {
            match name {
                "choices" => {
                    for choice in chunk.items(name) {
                        if let Some(choice) = RawObject::parse(choice.get()) {
                            self.choice(&choice);
                        }
                    }
                }
                // It stays what it was in the first chunk that knew it.
                "created" | "id" | "model" => {
                    if !self
                        .fields
                        .get(name)
                        .is_some_and(|known| is_truthy(Some(known)))
                    {
                        self.fields.set(name, value.to_owned());
                    }
                }
                // Padding, and the label of a chunk.
                "object" | "obfuscation" => {}
                "usage" => merge(&mut self.usage, value),
                _ => replace(&mut self.fields, name, value),
            }
        }
    }

    fn choice(&mut self, choice: &RawObject) {
        let index = choice.get("index").and_then(count).unwrap_or_default();
        let at = self.choices.iter().position(|known| known.index == index);
        let at = at.unwrap_or_else(|| {
            self.choices.push(Choice {
                index,
                ..Choice::default()
            });
            self.choices.len() - 1
        });
        self.choices[at].add(choice);
    }

    /// Returns the body.
    pub(super) fn body(&self) -> RawObject {
        let mut body = self.fields.clone();
        body.set("object", raw("chat.completion"));
        let mut choices: Vec<_> = self.choices.iter().collect();
        choices.sort_by_key(|choice| choice.index);
        let choices: Vec<_> = choices.into_iter().map(Choice::body).collect();
        body.set("choices", raw(&choices));
        if !self.usage.is_empty() {
            body.set("usage", self.usage.to_raw());
        }
        body
    }
}

impl Choice {
    fn add(&mut self, choice: &RawObject) {
        // The decoder takes the first of these that there is.
        let said = choice.object("delta").or_else(|| choice.object("message"));
        match (said, choice.get("text")) {
            (Some(said), _) => self.message.add(&said),
            (None, Some(text)) => self.message.content.add(text),
            (None, None) => {}
        }
        for (name, value) in choice.fields() {
            match name {
                "delta" | "index" | "message" | "text" => {}
                "finish_reason" => {
                    if self.finish_reason.is_none() && is_truthy(Some(value)) {
                        self.finish_reason = Some(value.to_owned());
                    }
                }
                "logprobs" => extend_each(&mut self.fields, name, value),
                _ if value.get().starts_with('[') => extend(&mut self.fields, name, value),
                _ => replace(&mut self.fields, name, value),
            }
        }
    }

    fn body(&self) -> RawObject {
        let finish_reason = self.finish_reason.clone().unwrap_or_default();
        let mut body = object([
            ("index", raw(&self.index)),
            ("message", self.message.body().to_raw()),
            ("finish_reason", finish_reason),
            ("logprobs", raw(&())),
        ]);
        for (name, value) in self.fields.fields() {
            body.set(name, value.to_owned());
        }
        body
    }
}

impl Message {
    fn add(&mut self, delta: &RawObject) {
        for (name, value) in delta.fields() {
            match name {
                "content" => self.content.add(value),
                "function_call" => {
                    let call = format!(r#"{{"function":{value}}}"#);
                    if let Some(piece) = piece(&call).filter(|piece| piece.function.0.is_some()) {
                        let call = self.function_call.get_or_insert_default();
                        add_piece(call, &piece);
                    }
                }
                "reasoning_details" => add_details(&mut self.reasoning_details, delta, name),
                "thinking_blocks" => add_details(&mut self.thinking_blocks, delta, name),
                "tool_calls" => {
                    for (at, call) in delta.items(name).iter().enumerate() {
                        self.call(call, at > 0);
                    }
                }
                _ if REASONING_FIELDS.contains(&name) || !LABELS.contains(&name) => {
                    grow(&mut self.fields, name, value);
                }
                _ => replace(&mut self.fields, name, value),
            }
        }
    }

    /// Takes in a piece of a call, which belongs to the same one that the decoder puts it to.
    fn call(&mut self, value: &RawValue, follows_in_chunk: bool) {
        let Some(piece) = piece(value.get()) else {
            return;
        };
        let function = piece.custom.0.as_ref().or(piece.function.0.as_ref());
        let resolved = self.identities.resolve(Identity {
            index: piece.index.0,
            id: piece.id.filled(),
            name: function.and_then(|function| function.name.filled()),
            has_arguments: function
                .is_some_and(|function| super::arguments(function).filled().is_some()),
            follows_in_chunk,
        });
        let Some(resolved) = resolved else { return };
        if self.calls.len() <= resolved.call {
            self.calls.resize_with(resolved.call + 1, Call::default);
        }
        let call = &mut self.calls[resolved.call];
        add_piece(&mut call.call, &piece);
        for (name, value) in RawObject::parse(value.get()).unwrap_or_default().fields() {
            if !matches!(name, "custom" | "function" | "id" | "index" | "type") {
                replace(&mut call.extra, name, value);
            }
        }
    }

    fn body(&self) -> RawObject {
        let role = self.fields.raw("role").map(ToOwned::to_owned);
        let mut body = object([
            ("role", role.unwrap_or_else(|| raw("assistant"))),
            ("content", self.content.body(self.calls.is_empty())),
        ]);
        for (name, value) in self.fields.fields() {
            body.set(name, value.to_owned());
        }
        for (name, details) in [
            ("reasoning_details", &self.reasoning_details),
            ("thinking_blocks", &self.thinking_blocks),
        ] {
            if !details.is_empty() {
                body.set(name, raw(&details.whole()));
            }
        }
        if let Some(call) = &self.function_call {
            body.set("function_call", function(call, "arguments").to_raw());
        }
        if !self.calls.is_empty() {
            let calls: Vec<_> = self.calls.iter().map(Call::body).collect();
            body.set("tool_calls", raw(&calls));
        }
        body
    }
}

impl Content {
    fn add(&mut self, value: &RawValue) {
        if let Ok(text) = serde_json::from_str::<String>(value.get()) {
            match self {
                Self::Nothing => *self = Self::Text(text),
                Self::Text(so_far) => so_far.push_str(&text),
                Self::Parts(parts) => add_part(parts, text_part(&text)),
            }
            return;
        }
        let list = match serde_json::from_str::<Vec<Box<RawValue>>>(value.get()) {
            Ok(list) => list,
            // Some send a part by itself.
            Err(_) if value.get().starts_with('{') => vec![value.to_owned()],
            Err(_) => return,
        };
        let mut parts = match std::mem::take(self) {
            Self::Nothing => Vec::new(),
            Self::Text(text) if text.is_empty() => Vec::new(),
            Self::Text(text) => vec![text_part(&text)],
            Self::Parts(parts) => parts,
        };
        for part in list {
            let part = match serde_json::from_str::<String>(part.get()) {
                Ok(text) => Some(text_part(&text)),
                Err(_) => RawObject::parse(part.get()),
            };
            if let Some(part) = part {
                add_part(&mut parts, part);
            }
        }
        *self = Self::Parts(parts);
    }

    /// Returns the content; `is_all` says whether the message holds nothing else.
    fn body(&self, is_all: bool) -> Box<RawValue> {
        match self {
            Self::Text(text) if is_all || !text.is_empty() => raw(text),
            Self::Nothing | Self::Text(_) => raw(&()),
            Self::Parts(parts) => raw(parts),
        }
    }
}

impl Call {
    fn body(&self) -> RawObject {
        let (kind, input) = if self.call.is_custom() {
            ("custom", "input")
        } else {
            ("function", "arguments")
        };
        let mut body = object([
            ("id", raw(&self.call.id)),
            ("type", raw(kind)),
            (kind, function(&self.call, input).to_raw()),
        ]);
        for (name, value) in self.extra.fields() {
            body.set(name, value.to_owned());
        }
        body
    }
}

/// Returns a whole completion as the events of a stream, or `None` if the body is none.
pub(super) fn events(body: &str) -> Option<Vec<u8>> {
    let mut body = RawObject::parse(body)?;
    if is_truthy(body.get("error")) {
        return None;
    }
    body.raw("choices")
        .filter(|raw| raw.get().starts_with('['))?;
    let choices = body.items("choices");
    let usage = body.take("usage");
    body.set("object", raw("chat.completion.chunk"));

    let (mut says, mut ends) = (Vec::new(), Vec::new());
    for choice in &choices {
        let mut says_one = RawObject::parse(choice.get())?;
        let mut ends_one = object([("index", says_one.raw("index")?.to_owned())]);
        ends_one.set("delta", RawObject::default().to_raw());
        let reason = says_one.take("finish_reason").unwrap_or_default();
        ends_one.set("finish_reason", reason);
        if let Some(mut message) = says_one.object("message") {
            let calls = message.items("tool_calls");
            if !calls.is_empty() {
                let calls: Option<Vec<_>> = (0_u64..)
                    .zip(&calls)
                    .map(|(at, call)| {
                        let mut numbered = object([("index", raw(&at))]);
                        for (name, value) in RawObject::parse(call.get())?.fields() {
                            numbered.set(name, value.to_owned());
                        }
                        // A number of the body's own would not be its place.
                        numbered.set("index", raw(&at));
                        Some(numbered)
                    })
                    .collect();
                message.set("tool_calls", raw(&calls?));
            }
            says_one.take("message");
            says_one.set("delta", message.to_raw());
        }
        says_one.set("finish_reason", raw(&()));
        says.push(says_one);
        ends.push(ends_one);
    }
    let mut events = Vec::new();
    body.set("choices", raw(&says));
    events.extend(data(&body));
    body.set("choices", raw(&ends));
    // In a chunk of its own it would have no choices, which readers that did not ask for it do not
    // expect.
    if let Some(usage) = usage {
        body.set("usage", usage);
    }
    events.extend(data(&body));
    events.extend_from_slice(DONE);
    Some(events)
}

fn piece(call: &str) -> Option<CallPiece<'_>> {
    serde_json::from_str::<Object<CallPiece<'_>>>(call).ok()?.0
}

fn add_piece(call: &mut ToolCall, piece: &CallPiece<'_>) {
    if piece.custom.0.is_some() {
        call.kind = Some("custom".to_owned());
    }
    let function = piece.custom.0.as_ref().or(piece.function.0.as_ref());
    if let Some(id) = piece.id.filled() {
        id.clone_into(&mut call.id);
    }
    let Some(function) = function else { return };
    if let Some(name) = function.name.filled() {
        name.clone_into(&mut call.name);
    }
    call.arguments.push_str(super::arguments(function).as_str());
}

fn function(call: &ToolCall, input: &str) -> RawObject {
    object([("name", raw(&call.name)), (input, raw(&call.arguments))])
}

fn add_details(details: &mut Details, delta: &RawObject, name: &str) {
    for raw in delta.items(name) {
        if let Some(detail) = Detail::parse(&raw) {
            details.add(&raw, &detail);
        }
    }
}

fn text_part(text: &str) -> RawObject {
    object([("type", raw("text")), ("text", raw(text))])
}

/// Adds a part, joined to the last one where both are a piece of the same text or thinking.
fn add_part(parts: &mut Vec<RawObject>, part: RawObject) {
    if let Some(last) = parts.last_mut() {
        if join_text(last, &part) {
            return;
        }
        if is_only(last, "thinking") && is_only(&part, "thinking") {
            let mut pieces: Vec<_> = last
                .items("thinking")
                .iter()
                .filter_map(|piece| RawObject::parse(piece.get()))
                .collect();
            for piece in part.items("thinking") {
                if let Some(piece) = RawObject::parse(piece.get()) {
                    add_part(&mut pieces, piece);
                }
            }
            last.set("thinking", raw(&pieces));
            return;
        }
    }
    parts.push(part);
}

fn join_text(last: &mut RawObject, part: &RawObject) -> bool {
    if !is_only(last, "text") || !is_only(part, "text") || last.text("type") != part.text("type") {
        return false;
    }
    let (Some(mut text), Some(more)) = (last.text("text"), part.text("text")) else {
        return false;
    };
    text.push_str(&more);
    last.set("text", raw(&text));
    true
}

/// Returns whether a part holds `field` and nothing but its type besides.
fn is_only(part: &RawObject, field: &str) -> bool {
    part.get(field).is_some()
        && part
            .fields()
            .all(|(name, _)| name == field || name == "type")
        && (field != "thinking"
            || part
                .get(field)
                .is_some_and(|raw| raw.get().starts_with('[')))
}

/// Joins a text, extends a list, replaces everything else.
fn grow(fields: &mut RawObject, name: &str, value: &RawValue) {
    if value.get().starts_with('[') {
        extend(fields, name, value);
        return;
    }
    match (
        fields.text(name),
        serde_json::from_str::<String>(value.get()),
    ) {
        (Some(so_far), Ok(more)) => fields.set(name, raw(&(so_far + &more))),
        _ => replace(fields, name, value),
    }
}

/// Sets a field, unless to nothing; an object keeps the fields that the new one does not have.
fn replace(fields: &mut RawObject, name: &str, value: &RawValue) {
    if value.get() == "null" {
        fields.set_missing(name, value.to_owned());
    } else if let Some(mut known) = fields.object(name) {
        merge(&mut known, value);
        fields.set(name, known.to_raw());
    } else {
        fields.set(name, value.to_owned());
    }
}

/// Sets the fields that an object has; null sets nothing.
pub(crate) fn merge(known: &mut RawObject, value: &RawValue) {
    for (name, value) in RawObject::parse(value.get()).unwrap_or_default().fields() {
        if value.get() == "null" {
            known.set_missing(name, value.to_owned());
        } else {
            known.set(name, value.to_owned());
        }
    }
}

fn extend(fields: &mut RawObject, name: &str, value: &RawValue) {
    let mut items = fields.items(name);
    items.extend(serde_json::from_str::<Vec<Box<RawValue>>>(value.get()).unwrap_or_default());
    fields.set(name, raw(&items));
}

/// Extends each of the lists in an object.
fn extend_each(fields: &mut RawObject, name: &str, value: &RawValue) {
    let mut known = fields.object(name).unwrap_or_default();
    let Some(lists) = RawObject::parse(value.get()) else {
        fields.set_missing(name, value.to_owned());
        return;
    };
    for (name, list) in lists.fields() {
        if list.get().starts_with('[') {
            extend(&mut known, name, list);
        } else {
            replace(&mut known, name, list);
        }
    }
    fields.set(name, known.to_raw());
}

fn count(raw: &RawValue) -> Option<u64> {
    serde_json::from_str::<Count>(raw.get()).ok()?.0
}

/// Texts that each delta repeats whole.
const LABELS: [&str; 6] = ["channel", "id", "name", "object", "role", "type"];
