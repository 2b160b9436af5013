//! A request in the words of Messages.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::DEFAULT_MAX_TOKENS;
use crate::request::EncodeError;
use crate::request::{Content, Fields, Message, Request, Tool, ToolChoice};

pub(super) fn encode(request: &Request) -> Result<Vec<u8>, EncodeError> {
    let mut fields = Fields::default();
    fields.set("model", &request.model)?;
    fields.set(
        "max_tokens",
        &request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
    )?;
    fields.set_some("system", request.system.as_ref())?;
    let messages = request
        .messages
        .iter()
        .map(message)
        .collect::<Result<Vec<_>, _>>()?;
    fields.set("messages", &messages)?;
    if !request.tools.is_empty() {
        let tools: Vec<_> = request.tools.iter().map(tool).collect();
        fields.set("tools", &tools)?;
    }
    fields.set_some(
        "tool_choice",
        request.tool_choice.as_ref().map(tool_choice).as_ref(),
    )?;
    fields.set_some("temperature", request.temperature.as_ref())?;
    if !request.stop.is_empty() {
        fields.set("stop_sequences", &request.stop)?;
    }
    fields.set("stream", &request.stream)?;
    fields.finish(&request.extra)
}

fn message(message: &Message) -> Result<Box<RawValue>, EncodeError> {
    let mut fields = Fields::default();
    fields.set("role", message.role.name())?;
    if let [Content::Text(text)] = message.content.as_slice() {
        fields.set("content", text)?;
        return fields.into_raw();
    }
    let mut blocks = Vec::new();
    for content in &message.content {
        let block = match content {
            Content::Image { media_type, data } => json!({
                "type": "image",
                "source": {"type": "base64", "media_type": media_type, "data": data},
            }),
            Content::RoundTrip(whole) => {
                blocks.extend(whole.0.iter().cloned());
                continue;
            }
            Content::Text(text) => json!({"type": "text", "text": text}),
            Content::ToolCall {
                id,
                name,
                arguments,
            } => {
                let input = input(id, arguments)?;
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
            Content::ToolResult { id, text, is_error } => {
                let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": text});
                if *is_error {
                    result["is_error"] = true.into();
                }
                result
            }
        };
        blocks.push(to_raw_value(&block)?);
    }
    fields.set("content", &blocks)?;
    fields.into_raw()
}

fn input(id: &str, arguments: &str) -> Result<Map<String, Value>, EncodeError> {
    if arguments.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(arguments).map_err(|_| EncodeError::Arguments {
        id: id.to_owned(),
        wire: "anthropic",
    })
}

fn tool(tool: &Tool) -> Value {
    let mut written = json!({"name": tool.name, "input_schema": tool.parameters});
    if let Some(description) = &tool.description {
        written["description"] = description.as_str().into();
    }
    written
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!({"type": "auto"}),
        ToolChoice::None => json!({"type": "none"}),
        ToolChoice::Only(name) => json!({"type": "tool", "name": name}),
        ToolChoice::Required => json!({"type": "any"}),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::request::tests::full;

    #[test]
    fn a_request_is_written_in_full() {
        let mut request = full();
        request.stop.push("END".to_owned());

        let body: Value = serde_json::from_slice(&encode(&request).unwrap()).unwrap();

        assert_eq!(
            body,
            json!({
                "model": "m",
                "max_tokens": 64,
                "system": "be brief",
                "messages": [
                    {"role": "user", "content": [
                        {"type": "text", "text": "look"},
                        {"type": "image", "source": {
                            "type": "base64", "media_type": "image/png", "data": "QUI=",
                        }},
                    ]},
                    {"role": "assistant", "content": [
                        {"type": "text", "text": "I look"},
                        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
                    ]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "c1", "content": "seen"},
                    ]},
                ],
                "tools": [{
                    "name": "f", "description": "looks", "input_schema": {"type": "object"},
                }],
                "tool_choice": {"type": "any"},
                "temperature": 0.5,
                "stop_sequences": ["END"],
                "stream": true,
            })
        );
    }

    #[test]
    fn a_limit_is_always_sent() {
        let body: Value =
            serde_json::from_slice(&encode(&Request::prompt("m", "x")).unwrap()).unwrap();

        assert_eq!(body["max_tokens"], 4096);
    }

    #[test]
    fn arguments_that_are_no_object_are_refused() {
        let call = Content::ToolCall {
            id: "c1".to_owned(),
            name: "f".to_owned(),
            arguments: "{\"a\":".to_owned(),
        };
        let message = Message {
            role: crate::request::Role::Assistant,
            content: vec![call],
        };

        let error = encode(&Request::new("m").message(message)).unwrap_err();

        assert_eq!(
            error.to_string(),
            "arguments of tool call \"c1\" are no JSON object, which anthropic wants"
        );
    }
}
