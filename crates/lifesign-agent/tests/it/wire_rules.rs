//! What each wire demands of a conversation, read off its published request schema.

use std::collections::BTreeSet;

use lifesign::{Request, Wire};
use lifesign_agent::Transcript;
use serde_json::Value;

/// Asserts that `wire` takes what `transcript` is replayed as, and returns the body.
#[track_caller]
pub(crate) fn assert_accepted(transcript: &Transcript, wire: Wire) -> Value {
    let mut request = Request::new("m");
    request.messages = transcript.messages(wire);
    let body = wire.encode(&request).unwrap();
    let body = serde_json::from_slice(&body).unwrap();
    assert_body(&body, wire);
    body
}

/// Asserts that `wire` takes the conversation in `body`.
#[track_caller]
pub(crate) fn assert_body(body: &Value, wire: Wire) {
    let problem = match wire.name() {
        "openai-chat" => chat(body),
        "anthropic" => anthropic(body),
        _ => responses(body),
    };
    assert_eq!(problem, None, "{wire} refuses {body:#}");
}

/// Returns whether a text has between one character and `longest`, all of which are letters, digits,
/// `_` and `-`.
fn is_name(text: &Value, longest: usize) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let text = text.as_str().unwrap_or_default();
    (1..=longest).contains(&text.len()) && text.chars().all(fits)
}

fn is_blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}

/// Each message with calls is followed by one result for each of them, and by nothing else first. An
/// id has at most 40 characters and names one call. The user does not speak twice in a row, which the
/// chat templates of some models refuse.
fn chat(body: &Value) -> Option<String> {
    let mut open = BTreeSet::new();
    let mut known = BTreeSet::new();
    let mut before = "";
    for message in body["messages"].as_array()? {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "user" && before == "user" {
            return Some("a user who speaks twice".to_owned());
        }
        before = role;
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !message["content"].is_string() || !open.remove(id) {
                return Some(format!("a result of no call: {id:?}"));
            }
            continue;
        }
        if !open.is_empty() {
            return Some(format!("no result of {open:?}"));
        }
        if !matches!(role, "assistant" | "system" | "user") {
            return Some(format!("a role {role:?}"));
        }
        let calls = message["tool_calls"].as_array();
        if role != "assistant" && is_blank(&message["content"]) {
            return Some("a message without content".to_owned());
        }
        if role == "assistant" && message["content"].is_null() && calls.is_none() {
            return Some("an answer without content".to_owned());
        }
        for call in calls.into_iter().flatten() {
            let id = call["id"].as_str().unwrap_or_default();
            let is_whole = call["type"] == "function"
                && is_name(&call["function"]["name"], 64)
                && call["function"]["arguments"].is_string();
            if !is_whole || !(1..=40).contains(&id.len()) {
                return Some(format!("a call that is none: {call}"));
            }
            if !known.insert(id) || !open.insert(id) {
                return Some(format!("an id twice: {id:?}"));
            }
        }
    }
    (!open.is_empty()).then(|| format!("no result of {open:?}"))
}

/// Blocks are not empty, thinking is signed, and the message behind one with calls begins with
/// their results. An id is a name, as that of a tool, and names one call.
fn anthropic(body: &Value) -> Option<String> {
    let mut open = BTreeSet::new();
    let mut known = BTreeSet::new();
    for (at, message) in body["messages"].as_array()?.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if at == 0 && role != "user" {
            return Some("does not begin with the user".to_owned());
        }
        let text;
        let blocks = match &message["content"] {
            Value::String(said) => {
                text = vec![serde_json::json!({"type": "text", "text": said})];
                &text
            }
            Value::Array(blocks) => blocks,
            other => return Some(format!("content {other}")),
        };
        if blocks.is_empty() {
            return Some("a message without content".to_owned());
        }
        for block in blocks {
            let id = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
            let kind = block["type"].as_str().unwrap_or_default();
            if kind != "tool_result" && !open.is_empty() {
                return Some(format!("no result of {open:?}"));
            }
            match (kind, role) {
                ("text", _) if !is_blank(&block["text"]) => {}
                ("thinking", "assistant")
                    if block["signature"]
                        .as_str()
                        .is_some_and(|sig| !sig.is_empty()) => {}
                ("tool_use", "assistant")
                    if block["input"].is_object()
                        && is_name(&block["id"], 64)
                        && is_name(&block["name"], 128) => {}
                ("tool_result", "user") if open.remove(&id("tool_use_id")) => {}
                _ => return Some(format!("a block that is none: {block}")),
            }
        }
        for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
            let id = block["id"].as_str().unwrap_or_default();
            if !known.insert(id.to_owned()) || !open.insert(id.to_owned()) {
                return Some(format!("an id twice: {id:?}"));
            }
        }
    }
    (!open.is_empty()).then(|| format!("no result of {open:?}"))
}

/// Each call has one output behind it, and each reasoning item something that it led to. An id has at
/// most 64 characters and names one call.
fn responses(body: &Value) -> Option<String> {
    let mut open = BTreeSet::new();
    let mut known = BTreeSet::new();
    let mut items = BTreeSet::new();
    let mut thought = false;
    for item in body["input"].as_array()? {
        let kind = item["type"].as_str().unwrap_or("message");
        let id = item["call_id"].as_str().unwrap_or_default();
        if thought && !matches!(kind, "message" | "function_call" | "reasoning") {
            return Some("reasoning that led to nothing".to_owned());
        }
        thought = kind == "reasoning";
        match kind {
            "message" => {
                let wanted = if item["role"] == "assistant" {
                    "output_text"
                } else {
                    "input_text"
                };
                let is_whole = match &item["content"] {
                    text @ Value::String(_) => !is_blank(text),
                    Value::Array(parts) => {
                        // Parts of the model's own come with the id of their message.
                        (wanted == "input_text" || item["id"].is_string())
                            && !parts.is_empty()
                            && parts.iter().all(|part| part["type"] == wanted)
                            && (item["role"] == "assistant"
                                || parts.iter().all(|part| !is_blank(&part["text"])))
                    }
                    _ => false,
                };
                if !is_whole {
                    return Some(format!("a message that is none: {item}"));
                }
                if !open.is_empty() {
                    return Some(format!("no output of {open:?}"));
                }
            }
            "function_call" => {
                let is_whole = item["arguments"].is_string() && is_name(&item["name"], 64);
                if !is_whole || !(1..=64).contains(&id.len()) {
                    return Some(format!("a call that is none: {item}"));
                }
                let item_id = item["id"].as_str();
                let is_known = item_id.is_some_and(|id| !items.insert(id));
                if is_known || !known.insert(id) || !open.insert(id) {
                    return Some(format!("an id twice: {id:?}"));
                }
            }
            "function_call_output" => {
                if !item["output"].is_string() || !open.remove(id) {
                    return Some(format!("an output of no call: {id:?}"));
                }
            }
            "reasoning" => {}
            other => return Some(format!("an item {other:?}")),
        }
    }
    if thought {
        return Some("reasoning that led to nothing".to_owned());
    }
    (!open.is_empty()).then(|| format!("no output of {open:?}"))
}
