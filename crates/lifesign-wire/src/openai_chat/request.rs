//! A request in the words of Chat Completions.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::request::EncodeError;
use crate::request::{Content, Fields, Message, Request, Role, Tool, ToolChoice};

pub(super) fn encode(request: &Request) -> Result<Vec<u8>, EncodeError> {
    let mut messages = Vec::new();
    if let Some(system) = &request.system {
        messages.push(to_raw_value(&json!({"role": "system", "content": system}))?);
    }
    for message in &request.messages {
        write(message, &mut messages)?;
    }

    let mut fields = Fields::default();
    fields.set("model", &request.model)?;
    fields.set("messages", &messages)?;
    if !request.tools.is_empty() {
        let tools: Vec<_> = request.tools.iter().map(tool).collect();
        fields.set("tools", &tools)?;
    }
    fields.set_some(
        "tool_choice",
        request.tool_choice.as_ref().map(tool_choice).as_ref(),
    )?;
    let limit = if request.uses_max_completion_tokens {
        "max_completion_tokens"
    } else {
        "max_tokens"
    };
    fields.set_some(limit, request.max_tokens.as_ref())?;
    fields.set_some("temperature", request.temperature.as_ref())?;
    if !request.stop.is_empty() {
        fields.set("stop", &request.stop)?;
    }
    fields.set("stream", &request.stream)?;
    if request.stream {
        fields.set("stream_options", &json!({"include_usage": true}))?;
    }
    fields.finish(&request.extra)
}

/// Returns a call as an assistant's message holds it.
pub(super) fn tool_call(id: &str, name: &str, arguments: &str, is_custom: bool) -> Value {
    if is_custom {
        return json!({"id": id, "type": "custom", "custom": {"name": name, "input": arguments}});
    }
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// Writes a message, and the answers of tools in it as messages of their own before it.
fn write(message: &Message, messages: &mut Vec<Box<RawValue>>) -> Result<(), EncodeError> {
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for content in &message.content {
        match content {
            Content::Image { media_type, data } => {
                let url = format!("data:{media_type};base64,{data}");
                parts.push(json!({"type": "image_url", "image_url": {"url": url}}));
            }
            Content::RoundTrip(whole) => messages.extend(whole.0.iter().cloned()),
            Content::Text(text) => parts.push(json!({"type": "text", "text": text})),
            Content::ToolCall {
                id,
                name,
                arguments,
            } => {
                calls.push(tool_call(id, name, arguments, false));
            }
            Content::ToolResult { id, text, .. } => {
                let result = json!({"role": "tool", "tool_call_id": id, "content": text});
                messages.push(to_raw_value(&result)?);
            }
        }
    }
    if parts.is_empty() && calls.is_empty() {
        return Ok(());
    }
    let mut fields = Fields::default();
    fields.set("role", message.role.name())?;
    fields.set("content", &content(message.role, parts))?;
    if !calls.is_empty() {
        fields.set("tool_calls", &calls)?;
    }
    messages.push(fields.into_raw()?);
    Ok(())
}

/// Returns text alone as text, since not every server knows lists.
fn content(role: Role, parts: Vec<Value>) -> Value {
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
    match texts.as_deref() {
        Some([]) => Value::Null,
        Some([text]) => (*text).into(),
        Some(texts) if role == Role::Assistant => texts.concat().into(),
        _ => Value::Array(parts),
    }
}

fn tool(tool: &Tool) -> Value {
    let mut function = json!({"name": tool.name, "parameters": tool.parameters});
    if let Some(description) = &tool.description {
        function["description"] = description.as_str().into();
    }
    json!({"type": "function", "function": function})
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Only(name) => json!({"type": "function", "function": {"name": name}}),
        ToolChoice::Required => "required".into(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::request::tests::full;

    fn encoded(request: &Request) -> Value {
        serde_json::from_slice(&encode(request).unwrap()).unwrap()
    }

    #[test]
    fn a_request_is_written_in_full() {
        assert_eq!(
            encoded(&full()),
            json!({
                "model": "m",
                "messages": [
                    {"role": "system", "content": "be brief"},
                    {"role": "user", "content": [
                        {"type": "text", "text": "look"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUI="}},
                    ]},
                    {"role": "assistant", "content": "I look", "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}},
                    ]},
                    {"role": "tool", "tool_call_id": "c1", "content": "seen"},
                ],
                "tools": [{"type": "function", "function": {
                    "name": "f", "description": "looks", "parameters": {"type": "object"},
                }}],
                "tool_choice": "required",
                "max_tokens": 64,
                "temperature": 0.5,
                "stream": true,
                "stream_options": {"include_usage": true},
            })
        );
    }

    #[test]
    fn a_prompt_is_small() {
        let mut request = Request::prompt("m", "x").stream(false).max_tokens(7);
        request.uses_max_completion_tokens = true;

        assert_eq!(
            encoded(&request),
            json!({
                "model": "m",
                "messages": [{"role": "user", "content": "x"}],
                "max_completion_tokens": 7,
                "stream": false,
            })
        );
    }
}
