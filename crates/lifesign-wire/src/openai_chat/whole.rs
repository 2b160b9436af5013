//! A chat completion as one body: put together from its chunks, and taken apart into some.
//!
//! Fields of a message grow as their deltas say: texts are joined, lists are extended, and of
//! everything else the last value stands. What stands around it, usage and citations among it, is
//! told whole each time. Fields that nobody knows are kept as well.

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
    identity: RawObject,
    fields: Fields,
    choices: Vec<Choice>,
    kept: usize,
}

#[derive(Debug, Default)]
struct Choice {
    index: u64,
    fields: Fields,
    message: Message,
    finish_reason: Option<Box<RawValue>>,
}

#[derive(Debug, Default)]
struct Message {
    fields: Fields,
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
    Parts(Vec<Part>),
}

#[derive(Debug)]
enum Part {
    Other(RawObject),
    /// A piece of text, under the type by which it came.
    Text(String, String),
    /// Thinking, which is a list of parts itself.
    Thinking(Vec<Self>),
}

/// Fields that grow.
#[derive(Debug, Default)]
struct Fields(Vec<(String, Field)>);

#[derive(Debug)]
enum Field {
    List(Vec<Box<RawValue>>),
    Object(Fields),
    Text(String),
    Value(Box<RawValue>),
}

#[derive(Debug, Default)]
struct Call {
    call: ToolCall,
    extra: Fields,
}

/// What grows of a field that comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Nothing,
    Lists,
    All,
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
                    if !is_truthy(self.identity.get(name)) {
                        self.identity.set(name, value.to_owned());
                    }
                }
                // The label of a chunk, and padding.
                "object" | "obfuscation" => {}
                _ => self.kept += self.fields.add(name, value, Growth::Nothing),
            }
        }
    }

    /// Returns how many bytes are kept that no event of the answer tells.
    pub(super) fn kept(&self) -> usize {
        self.kept
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
        self.kept += self.choices[at].add(choice);
    }

    /// Returns the body.
    pub(super) fn body(&self) -> RawObject {
        let mut body = self.identity.clone();
        body.set("object", raw("chat.completion"));
        let mut choices: Vec<_> = self.choices.iter().collect();
        choices.sort_by_key(|choice| choice.index);
        let choices: Vec<_> = choices.into_iter().map(Choice::body).collect();
        body.set("choices", raw(&choices));
        self.fields.write(&mut body);
        // Where there is none, a whole body does not speak of it.
        if body.get("usage").is_none() {
            body.take("usage");
        }
        body
    }
}

impl Choice {
    /// Takes in a piece; returns how many bytes of it are kept that no event tells.
    fn add(&mut self, choice: &RawObject) -> usize {
        let mut kept = 0;
        // The decoder takes the first of these that there is.
        let said = choice.object("delta").or_else(|| choice.object("message"));
        match (said, choice.get("text")) {
            (Some(said), _) => kept += self.message.add(&said),
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
                _ => kept += self.fields.add(name, value, Growth::Lists),
            }
        }
        kept
    }

    fn body(&self) -> RawObject {
        let finish_reason = self.finish_reason.clone().unwrap_or_default();
        let mut body = object([
            ("index", raw(&self.index)),
            ("message", self.message.body().to_raw()),
            ("finish_reason", finish_reason),
        ]);
        self.fields.write(&mut body);
        body
    }
}

impl Message {
    /// Takes in a delta; returns how many bytes of it are kept that no event tells.
    fn add(&mut self, delta: &RawObject) -> usize {
        let mut kept = 0;
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
                "reasoning_details" => {
                    kept += add_details(&mut self.reasoning_details, delta, name);
                }
                "thinking_blocks" => kept += add_details(&mut self.thinking_blocks, delta, name),
                "tool_calls" => {
                    for (at, call) in delta.items(name).iter().enumerate() {
                        kept += self.call(call, at > 0);
                    }
                }
                // Providers take null for reasoning that must come back, and absence for none.
                _ if REASONING_FIELDS.contains(&name) && value.get() == "null" => {}
                _ if LABELS.contains(&name) => {
                    kept += self.fields.add(name, value, Growth::Lists);
                }
                _ => {
                    let more = self.fields.add(name, value, Growth::All);
                    let is_told = name == "refusal" || REASONING_FIELDS.contains(&name);
                    kept += if is_told { 0 } else { more };
                }
            }
        }
        kept
    }

    /// Takes in a piece of a call, which belongs to the same one that the decoder puts it to.
    fn call(&mut self, value: &RawValue, follows_in_chunk: bool) -> usize {
        let Some(piece) = piece(value.get()) else {
            return 0;
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
        let Some(resolved) = resolved else { return 0 };
        if self.calls.len() <= resolved.call {
            self.calls.resize_with(resolved.call + 1, Call::default);
        }
        let call = &mut self.calls[resolved.call];
        add_piece(&mut call.call, &piece);
        let mut kept = 0;
        for (name, value) in RawObject::parse(value.get()).unwrap_or_default().fields() {
            if !matches!(name, "custom" | "function" | "id" | "index" | "type") {
                kept += call.extra.add(name, value, Growth::Lists);
            }
        }
        kept
    }

    fn body(&self) -> RawObject {
        let mut body = object([
            ("role", raw("assistant")),
            ("content", self.content.body(self.calls.is_empty())),
        ]);
        self.fields.write(&mut body);
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
                Self::Parts(parts) => Part::text(text).join(parts),
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
            Self::Text(text) => vec![Part::text(text)],
            Self::Parts(parts) => parts,
        };
        for part in list {
            if let Some(part) = Part::parse(&part) {
                part.join(&mut parts);
            }
        }
        *self = Self::Parts(parts);
    }

    /// Returns the content; `is_all` says whether the message holds nothing else.
    fn body(&self, is_all: bool) -> Box<RawValue> {
        match self {
            Self::Text(text) if is_all || !text.is_empty() => raw(text),
            Self::Nothing | Self::Text(_) => raw(&()),
            Self::Parts(parts) => raw(&parts.iter().map(Part::body).collect::<Vec<_>>()),
        }
    }
}

impl Part {
    fn text(text: String) -> Self {
        Self::Text("text".to_owned(), text)
    }

    /// Returns the part that a value is; some put the texts themselves into the list.
    fn parse(value: &RawValue) -> Option<Self> {
        if let Ok(text) = serde_json::from_str(value.get()) {
            return Some(Self::text(text));
        }
        let part = RawObject::parse(value.get())?;
        if let Some(text) = Self::text_of(&part) {
            return Some(text);
        }
        let list = part
            .get("thinking")
            .filter(|raw| raw.get().starts_with('['));
        if list.is_some() && is_only(&part, "thinking") {
            let mut pieces = Vec::new();
            for piece in part.items("thinking") {
                let piece = RawObject::parse(piece.get())?;
                let piece = Self::text_of(&piece).unwrap_or(Self::Other(piece));
                piece.join(&mut pieces);
            }
            return Some(Self::Thinking(pieces));
        }
        Some(Self::Other(part))
    }

    /// Returns the part if it holds nothing but text.
    fn text_of(part: &RawObject) -> Option<Self> {
        let text = part.text("text").filter(|_| is_only(part, "text"))?;
        Some(Self::Text(part.text("type")?, text))
    }

    /// Adds it to `parts`, joined to the last where both are pieces of the same text or thinking.
    fn join(self, parts: &mut Vec<Self>) {
        match (parts.last_mut(), self) {
            (Some(Self::Text(last, so_far)), Self::Text(kind, more)) if *last == kind => {
                so_far.push_str(&more);
            }
            (Some(Self::Thinking(so_far)), Self::Thinking(more)) => {
                for piece in more {
                    piece.join(so_far);
                }
            }
            (_, part) => parts.push(part),
        }
    }

    fn body(&self) -> RawObject {
        match self {
            Self::Other(part) => part.clone(),
            Self::Text(kind, text) => object([("type", raw(kind)), ("text", raw(text))]),
            Self::Thinking(pieces) => {
                let pieces: Vec<_> = pieces.iter().map(Self::body).collect();
                object([("type", raw("thinking")), ("thinking", raw(&pieces))])
            }
        }
    }
}

impl Fields {
    /// Takes in a field. What does not grow is replaced, but null replaces nothing and an object
    /// field by field. Returns how many bytes there are more.
    fn add(&mut self, name: &str, value: &RawValue, growth: Growth) -> usize {
        self.grow(name, Field::of(value), value.get().len(), growth)
    }

    fn grow(&mut self, name: &str, value: Field, more: usize, growth: Growth) -> usize {
        let Some((_, known)) = self.0.iter_mut().find(|(known, _)| known == name) else {
            self.0.push((name.to_owned(), value));
            return name.len() + more;
        };
        match (known, value) {
            (Field::List(so_far), Field::List(items)) if growth != Growth::Nothing => {
                so_far.extend(items);
                more
            }
            (Field::Text(so_far), Field::Text(text)) if growth == Growth::All => {
                so_far.push_str(&text);
                more
            }
            (Field::Object(so_far), Field::Object(fields)) => {
                let growth = match growth {
                    Growth::Nothing => growth,
                    Growth::Lists | Growth::All => Growth::Lists,
                };
                let mut added = 0;
                for (name, field) in fields.0 {
                    let more = field.len();
                    added += so_far.grow(&name, field, more, growth);
                }
                added
            }
            (_, Field::Value(value)) if value.get() == "null" => 0,
            (known, value) => {
                *known = value;
                0
            }
        }
    }

    fn write(&self, object: &mut RawObject) {
        for (name, field) in &self.0 {
            object.set(name, field.body());
        }
    }
}

impl Field {
    fn of(value: &RawValue) -> Self {
        let fields = Some(value).filter(|value| value.get().starts_with('{'));
        let Some(fields) = fields.and_then(|value| RawObject::parse(value.get())) else {
            return Self::flat(value);
        };
        // An object in an object stays as it is: how deep they nest is not ours to say.
        let fields = fields
            .fields()
            .map(|(name, value)| (name.to_owned(), Self::flat(value)));
        Self::Object(Fields(fields.collect()))
    }

    /// Returns a field that is no object, or is one that stays as it is.
    fn flat(value: &RawValue) -> Self {
        if let Ok(text) = serde_json::from_str(value.get()) {
            return Self::Text(text);
        }
        match serde_json::from_str(value.get()) {
            Ok(list) => Self::List(list),
            Err(_) => Self::Value(value.to_owned()),
        }
    }

    /// Returns how many bytes it is about.
    fn len(&self) -> usize {
        match self {
            Self::List(items) => items.iter().map(|item| item.get().len() + 1).sum(),
            Self::Object(fields) => fields.0.iter().map(|(_, field)| field.len()).sum(),
            Self::Text(text) => text.len(),
            Self::Value(value) => value.get().len(),
        }
    }

    fn body(&self) -> Box<RawValue> {
        match self {
            Self::List(items) => raw(items),
            Self::Object(fields) => {
                let mut object = RawObject::default();
                fields.write(&mut object);
                object.to_raw()
            }
            Self::Text(text) => raw(text),
            Self::Value(value) => value.clone(),
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
        self.extra.write(&mut body);
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
    for (place, choice) in (0_u64..).zip(&choices) {
        let mut says_one = RawObject::parse(choice.get())?;
        says_one.set_missing("index", raw(&place));
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

fn add_details(details: &mut Details, delta: &RawObject, name: &str) -> usize {
    let items = delta.items(name);
    for raw in &items {
        if let Some(detail) = Detail::parse(raw) {
            details.add(raw, &detail);
        }
    }
    items.iter().map(|raw| raw.get().len()).sum()
}

/// Returns whether a part holds `field` and nothing but its type besides.
fn is_only(part: &RawObject, field: &str) -> bool {
    part.fields()
        .all(|(name, _)| name == field || name == "type")
}

fn count(raw: &RawValue) -> Option<u64> {
    serde_json::from_str::<Count>(raw.get()).ok()?.0
}

/// Texts that each delta repeats whole.
const LABELS: [&str; 6] = ["channel", "id", "name", "object", "role", "type"];
