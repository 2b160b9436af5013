//! What the model said in one go, whether it came whole or was gone on with.

use lifesign::{Content, RoundTrip, ToolCall, Wire};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::names::{Ids, tool_name};
use super::own_calls::{Sent, as_object, renamed};
use super::rest::without_beginning;
use crate::form::Form;
use crate::transcript::entry::Said;

/// Partials, and what they were completed with, if they were.
#[derive(Default)]
pub(super) struct Spoken<'a> {
    partials: Vec<&'a Said>,
    whole: Option<&'a Said>,
}

impl<'a> Spoken<'a> {
    pub(super) fn add(&mut self, partial: &'a Said) {
        self.partials.push(partial);
    }

    pub(super) fn end_with(&mut self, whole: &'a Said) {
        self.whole = Some(whole);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.partials.is_empty() && self.whole.is_none()
    }

    /// Returns the calls that want a result: those of an answer that is whole.
    pub(super) fn calls(&self) -> Vec<&'a ToolCall> {
        self.whole
            .map(|whole| whole.tool_calls.iter().collect())
            .unwrap_or_default()
    }

    /// Returns what is sent back by `wire`, and the calls in it.
    pub(super) fn content(&self, wire: Wire, ids: &mut Ids) -> (Vec<Content>, Sent) {
        match (self.whole, self.partials.as_slice()) {
            (Some(whole), []) => whole_alone(whole, wire, ids),
            (Some(whole), _) => self.joined(whole, wire, ids),
            (None, [partial]) => (broken_off(partial, wire), Sent::new()),
            (None, _) => (text(self.text()), Sent::new()),
        }
    }

    /// Returns the text from end to end.
    fn text(&self) -> String {
        let said = self.partials.iter().copied().chain(self.whole);
        said.map(Said::new_text).collect()
    }

    /// Returns an answer together with the partials that it goes on from.
    fn joined(&self, whole: &Said, wire: Wire, ids: &mut Ids) -> (Vec<Content>, Sent) {
        let mut sent = Sent::new();
        let content = match own_form(whole, wire) {
            Form::Chat => self.joined_message(whole, wire, ids, &mut sent),
            Form::Messages => Some(self.joined_blocks(whole, wire, ids, &mut sent)),
            Form::Responses => self.joined_items(whole, wire, ids, &mut sent),
            Form::Plain => None,
        };
        match content {
            Some(content) => (content, sent),
            None => in_plain_words(whole, self.text(), wire, ids),
        }
    }

    /// Returns one message of Chat Completions; `None` where it holds more than text.
    fn joined_message(
        &self,
        whole: &Said,
        wire: Wire,
        ids: &mut Ids,
        sent: &mut Sent,
    ) -> Option<Vec<Content>> {
        let part = chat_message(&whole.parts, &self.text())?;
        let part = says_something(&part).then(|| renamed(part, wire, ids, sent));
        Some(round_trip(part.into_iter()))
    }

    /// Returns blocks of Messages. Thinking stands before text wherever tools are called, so the text
    /// goes in between.
    fn joined_blocks(
        &self,
        whole: &Said,
        wire: Wire,
        ids: &mut Ids,
        sent: &mut Sent,
    ) -> Vec<Content> {
        let mut blocks: Vec<_> = parsed(&whole.parts).collect();
        cut_broken_thought(&mut blocks);
        let (thinking, rest): (Vec<_>, Vec<_>) = blocks
            .into_iter()
            .partition(|(kind, _)| matches!(kind.as_str(), "thinking" | "redacted_thinking"));
        let rest = rest.into_iter().filter(|(kind, _)| kind != "text");
        let mut content = round_trip(thinking.into_iter().map(|(_, part)| part));
        content.extend(text(self.text()));
        content.extend(round_trip(
            rest.map(|(_, part)| renamed(part, wire, ids, sent)),
        ));
        content
    }

    /// Returns what came before, and the items of Responses behind it; `None` where they do not begin
    /// with what they repeat.
    fn joined_items(
        &self,
        whole: &Said,
        wire: Wire,
        ids: &mut Ids,
        sent: &mut Sent,
    ) -> Option<Vec<Content>> {
        let rest = without_beginning(&whole.parts, whole.overlap)?;
        let before = self.partials.iter().map(|said| said.new_text()).collect();
        let mut content = text(before);
        let own = own_words(&rest, Form::Responses);
        content.extend(round_trip(own.map(|part| renamed(part, wire, ids, sent))));
        Some(content)
    }
}

/// Returns an answer that came in one piece.
fn whole_alone(whole: &Said, wire: Wire, ids: &mut Ids) -> (Vec<Content>, Sent) {
    let form = own_form(whole, wire);
    if form == Form::Plain {
        return in_plain_words(whole, whole.text.clone(), wire, ids);
    }
    let mut sent = Sent::new();
    let own = own_words(&whole.parts, form);
    let content = round_trip(own.map(|part| renamed(part, wire, ids, &mut sent)));
    (content, sent)
}

/// Returns the form in which `said` goes back by `wire`: its own where it came by it.
fn own_form(said: &Said, wire: Wire) -> Form {
    if said.wire == wire.name() && !said.parts.is_empty() {
        Form::of(wire.name())
    } else {
        Form::Plain
    }
}

/// Returns those of the parts that are taken back.
fn own_words(parts: &[String], form: Form) -> impl Iterator<Item = Box<RawValue>> {
    let mut parts: Vec<_> = parsed(parts).collect();
    match form {
        Form::Chat => parts.retain(|(_, part)| says_something(part)),
        Form::Messages => {
            cut_broken_thought(&mut parts);
            parts.retain(|(kind, part)| kind != "text" || !is_blank(part));
        }
        // Reasoning is only taken together with what it led to.
        Form::Responses => while parts.pop_if(|(kind, _)| kind == "reasoning").is_some() {},
        Form::Plain => parts.clear(),
    }
    parts.into_iter().map(|(_, part)| part)
}

/// Takes thinking off the end of blocks that the length limit cut before its signature, which is not
/// taken. Servers that sign nothing get theirs back where something followed it.
fn cut_broken_thought(blocks: &mut Vec<(String, Box<RawValue>)>) {
    while blocks
        .pop_if(|(kind, part)| kind == "thinking" && !is_signed(part))
        .is_some()
    {}
}

/// Returns an answer in the words that every wire has.
fn in_plain_words(whole: &Said, said: String, wire: Wire, ids: &mut Ids) -> (Vec<Content>, Sent) {
    let mut content = text(said);
    let mut sent = Sent::new();
    for call in whole.tool_calls.iter().filter(|call| call.complete) {
        let id = ids.give(&call.id, &whole.wire);
        sent.insert(call.id.clone(), id.clone());
        content.push(Content::ToolCall {
            id,
            name: tool_name(&call.name, &whole.wire, wire),
            arguments: arguments(&call.arguments, wire),
        });
    }
    (content, sent)
}

/// Returns what may be sent back of a message that broke off.
///
/// Chat verifies nothing, so there its reasoning goes back too. Anthropic takes thinking with its
/// signature alone. Responses wants an item behind each reasoning, which did not come.
fn broken_off(partial: &Said, wire: Wire) -> Vec<Content> {
    let form = own_form(partial, wire);
    let said = text(partial.new_text().to_owned());
    match form {
        Form::Chat => return round_trip(own_words(&partial.parts, form)),
        Form::Messages if !said.is_empty() => {}
        Form::Messages | Form::Plain | Form::Responses => return said,
    }
    let signed = parsed(&partial.parts).filter(|(kind, part)| match kind.as_str() {
        "thinking" => is_signed(part),
        "redacted_thinking" => true,
        _ => false,
    });
    let mut content = round_trip(signed.map(|(_, part)| part));
    content.extend(said);
    content
}

/// Returns the message of Chat Completions with `text` as its content, all else as it came.
fn chat_message(parts: &[String], text: &str) -> Option<Box<RawValue>> {
    let [part] = parts else { return None };
    let mut message: Map<String, Value> = serde_json::from_str(part).ok()?;
    // A list holds parts that are more than text.
    if message.get("content").is_some_and(Value::is_array) {
        return None;
    }
    if !text.is_empty() {
        message.insert("content".to_owned(), text.into());
    }
    to_raw_value(&message).ok()
}

/// Returns whether a message of Chat Completions holds more than thinking; no server takes one that
/// does not.
fn says_something(part: &RawValue) -> bool {
    let message: Map<String, Value> = serde_json::from_str(part.get()).unwrap_or_default();
    ["content", "refusal", "tool_calls"]
        .iter()
        .any(|name| match message.get(*name) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(_) => true,
        })
}

/// Returns arguments as `wire` takes them: an object where it takes nothing else.
fn arguments(text: &str, wire: Wire) -> String {
    let object = match Form::of(wire.name()) {
        Form::Messages if !text.trim().is_empty() => as_object(text),
        Form::Chat | Form::Messages | Form::Plain | Form::Responses => None,
    };
    object.map_or_else(|| text.to_owned(), |object| object.to_string())
}

/// Returns `text` as content; none where it is blank, which not every wire takes.
fn text(text: String) -> Vec<Content> {
    if text.trim().is_empty() {
        Vec::new()
    } else {
        vec![Content::Text(text)]
    }
}

fn round_trip(parts: impl Iterator<Item = Box<RawValue>>) -> Vec<Content> {
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        Vec::new()
    } else {
        vec![Content::RoundTrip(RoundTrip(parts))]
    }
}

/// Returns each part with its type.
fn parsed(parts: &[String]) -> impl Iterator<Item = (String, Box<RawValue>)> {
    parts.iter().filter_map(|part| {
        let raw = RawValue::from_string(part.clone()).ok()?;
        let kind: Kind = serde_json::from_str(part).unwrap_or_default();
        Some((kind.kind.unwrap_or_default(), raw))
    })
}

fn is_blank(part: &RawValue) -> bool {
    let block: Map<String, Value> = serde_json::from_str(part.get()).unwrap_or_default();
    let text = block.get("text").and_then(Value::as_str);
    text.is_none_or(|text| text.trim().is_empty())
}

fn is_signed(part: &RawValue) -> bool {
    serde_json::from_str::<Kind>(part.get()).is_ok_and(|kind| {
        kind.signature
            .is_some_and(|signature| !signature.is_empty())
    })
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Kind {
    #[serde(rename = "type")]
    kind: Option<String>,
    signature: Option<String>,
}
