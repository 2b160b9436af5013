//! What the model said in one go, whether it came whole or was gone on with.

use lifesign::{Content, RoundTrip, ToolCall, Wire};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::names::{Ids, tool_name};
use super::own_calls::{Sent, as_object, renamed};
use super::rest::without_beginning;
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
        if whole.wire != wire.name() || whole.parts.is_empty() {
            return in_plain_words(whole, self.text(), wire, ids);
        }
        let mut sent = Sent::new();
        let before: String = self.partials.iter().map(|said| said.new_text()).collect();
        let content = if wire == Wire::OPENAI_CHAT {
            match chat_message(&whole.parts, &self.text()) {
                Some(part) if says_something(&part) => {
                    round_trip([renamed(part, wire, ids, &mut sent)].into_iter())
                }
                Some(_) => Vec::new(),
                None => return in_plain_words(whole, self.text(), wire, ids),
            }
        } else if wire == Wire::ANTHROPIC {
            // Thinking stands before text wherever tools are called, so the text goes in between.
            let (thinking, rest): (Vec<_>, Vec<_>) = without_broken_thought(&whole.parts)
                .into_iter()
                .partition(|(kind, _)| matches!(kind.as_str(), "thinking" | "redacted_thinking"));
            let rest = rest.into_iter().filter(|(kind, _)| kind != "text");
            let mut content = round_trip(thinking.into_iter().map(|(_, part)| part));
            content.extend(text(self.text()));
            let rest = rest.map(|(_, part)| renamed(part, wire, ids, &mut sent));
            content.extend(round_trip(rest));
            content
        } else {
            let Some(rest) = without_beginning(&whole.parts, whole.overlap) else {
                return in_plain_words(whole, self.text(), wire, ids);
            };
            let mut content = text(before);
            let own = own_words(&rest, wire);
            content.extend(round_trip(
                own.map(|part| renamed(part, wire, ids, &mut sent)),
            ));
            content
        };
        (content, sent)
    }
}

/// Returns an answer that came in one piece.
fn whole_alone(whole: &Said, wire: Wire, ids: &mut Ids) -> (Vec<Content>, Sent) {
    if whole.wire == wire.name() && !whole.parts.is_empty() {
        let mut sent = Sent::new();
        let own = own_words(&whole.parts, wire);
        let content = round_trip(own.map(|part| renamed(part, wire, ids, &mut sent)));
        return (content, sent);
    }
    in_plain_words(whole, whole.text.clone(), wire, ids)
}

/// Returns the parts that came by `wire` and that it takes back.
fn own_words(parts: &[String], wire: Wire) -> impl Iterator<Item = Box<RawValue>> {
    let mut parts: Vec<_> = if wire == Wire::ANTHROPIC {
        without_broken_thought(parts)
    } else {
        parsed(parts).collect()
    };
    if wire == Wire::OPENAI_CHAT {
        parts.retain(|(_, part)| says_something(part));
    } else if wire == Wire::ANTHROPIC {
        parts.retain(|(kind, part)| kind != "text" || !is_blank(part));
    } else {
        // Reasoning is only taken together with what it led to.
        while parts.pop_if(|(kind, _)| kind == "reasoning").is_some() {}
    }
    parts.into_iter().map(|(_, part)| part)
}

/// Returns the blocks of Anthropic without thinking that the length limit cut before its signature,
/// which is not taken. Servers that sign nothing get theirs back where something followed it.
fn without_broken_thought(parts: &[String]) -> Vec<(String, Box<RawValue>)> {
    let mut parts: Vec<_> = parsed(parts).collect();
    while parts
        .pop_if(|(kind, part)| kind == "thinking" && !is_signed(part))
        .is_some()
    {}
    parts
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
    if partial.wire == wire.name() && wire == Wire::OPENAI_CHAT && !partial.parts.is_empty() {
        return round_trip(own_words(&partial.parts, wire));
    }
    let said = text(partial.new_text().to_owned());
    if said.is_empty() || partial.wire != wire.name() || wire != Wire::ANTHROPIC {
        return said;
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
    if wire != Wire::ANTHROPIC || text.trim().is_empty() {
        return text.to_owned();
    }
    as_object(text).map_or_else(|| text.to_owned(), |object| object.to_string())
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
