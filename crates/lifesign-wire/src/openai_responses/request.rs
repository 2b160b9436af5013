//! A request in the words of Responses.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::request::EncodeError;
use crate::request::{Content, Fields, Message, Request, Role, Tool, ToolChoice};

pub(super) fn encode(request: &Request) -> Result<Vec<u8>, EncodeError> {
    if !request.stop.is_empty() {
        return Err(unknown("stop"));
    }
    let mut input = Vec::new();
    for message in &request.messages {
        write(message, &mut input)?;
    }

    let mut fields = Fields::default();
    fields.set("model", &request.model)?;
    fields.set_some("instructions", request.system.as_ref())?;
    fields.set("input", &input)?;
    if !request.tools.is_empty() {
        let tools: Vec<_> = request.tools.iter().map(tool).collect();
        fields.set("tools", &tools)?;
    }
    fields.set_some(
        "tool_choice",
        request.tool_choice.as_ref().map(tool_choice).as_ref(),
    )?;
    fields.set_some("max_output_tokens", request.max_tokens.as_ref())?;
    fields.set_some("temperature", request.temperature.as_ref())?;
    fields.set("stream", &request.stream)?;
    fields.finish(&request.extra)
}

/// Writes a message as the items that it is, in order.
fn write(message: &Message, input: &mut Vec<Box<RawValue>>) -> Result<(), EncodeError> {
    let mut parts = Vec::new();
    for content in &message.content {
        match content {
            // What the model said is text alone.
            Content::Image { .. } if message.role == Role::Assistant => {
                return Err(unknown("an image in an assistant's message"));
            }
            Content::Image { media_type, data } => {
                let url = format!("data:{media_type};base64,{data}");
                parts.push(json!({"type": "input_image", "image_url": url}));
            }
            Content::RoundTrip(whole) => {
                flush(message.role, &mut parts, input)?;
                input.extend(whole.0.iter().cloned());
            }
            Content::Text(text) => parts.push(json!({"type": "input_text", "text": text})),
            Content::ToolCall {
                id,
                name,
                arguments,
            } => {
                flush(message.role, &mut parts, input)?;
                input.push(to_raw_value(&json!({
                    "type": "function_call", "call_id": id, "name": name, "arguments": arguments,
                }))?);
            }
            Content::ToolResult { id, text, .. } => {
                flush(message.role, &mut parts, input)?;
                input.push(to_raw_value(&json!({
                    "type": "function_call_output", "call_id": id, "output": text,
                }))?);
            }
        }
    }
    flush(message.role, &mut parts, input)
}

/// Writes the parts so far as one message.
fn flush(
    role: Role,
    parts: &mut Vec<Value>,
    input: &mut Vec<Box<RawValue>>,
) -> Result<(), EncodeError> {
    if parts.is_empty() {
        return Ok(());
    }
    let parts = std::mem::take(parts);
    let content = match role {
        Role::Assistant => spoken(&parts),
        Role::User => Value::Array(parts),
    };
    input.push(to_raw_value(
        &json!({"role": role.name(), "content": content}),
    )?);
    Ok(())
}

/// Returns what the model said as one text: a part of its own it may only have with an id, which
/// text that is told in our words has not.
fn spoken(parts: &[Value]) -> Value {
    let texts = parts.iter().filter_map(|part| part["text"].as_str());
    texts.collect::<String>().into()
}

const fn unknown(field: &'static str) -> EncodeError {
    EncodeError::Unknown {
        field,
        wire: "openai-responses",
    }
}

/// Returns a tool with its schema as it is. Unless told so, OpenAI makes a strict one of it, in which
/// nothing may be left out.
fn tool(tool: &Tool) -> Value {
    let mut written = json!({
        "type": "function", "name": tool.name, "parameters": tool.parameters, "strict": false,
    });
    if let Some(description) = &tool.description {
        written["description"] = description.as_str().into();
    }
    written
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Only(name) => json!({"type": "function", "name": name}),
        ToolChoice::Required => "required".into(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::request::tests::full;

    #[test]
    fn a_request_is_written_in_full() {
        let body: Value = serde_json::from_slice(&encode(&full()).unwrap()).unwrap();

        assert_eq!(
            body,
            json!({
                "model": "m",
                "instructions": "be brief",
                "input": [
                    {"role": "user", "content": [
                        {"type": "input_text", "text": "look"},
                        {"type": "input_image", "image_url": "data:image/png;base64,QUI="},
                    ]},
                    {"role": "assistant", "content": "I look"},
                    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}"},
                    {"type": "function_call_output", "call_id": "c1", "output": "seen"},
                ],
                "tools": [{
                    "type": "function", "name": "f", "description": "looks",
                    "parameters": {"type": "object"}, "strict": false,
                }],
                "tool_choice": "required",
                "max_output_tokens": 64,
                "temperature": 0.5,
                "stream": true,
            })
        );
    }

    #[test]
    fn a_word_that_the_wire_does_not_know_is_refused() {
        let mut request = Request::prompt("m", "x");
        request.stop.push("END".to_owned());

        assert_eq!(
            encode(&request).unwrap_err().to_string(),
            "openai-responses has no word for stop"
        );
    }

    #[test]
    fn an_image_is_a_persons_and_what_the_model_said_is_never_input() {
        let image = || Content::Image {
            media_type: "image/png".to_owned(),
            data: "QUI=".to_owned(),
        };
        let said = |content| {
            let role = Role::Assistant;
            let request = Request::new("m").message(Message { role, content });
            encode(&request).map(|body| serde_json::from_slice::<Value>(&body).unwrap())
        };

        let refused = said(vec![Content::Text("so".to_owned()), image()]);
        let texts = said(vec![
            Content::Text("so".to_owned()),
            Content::Text(" it is".to_owned()),
        ]);

        assert_eq!(
            refused.unwrap_err().to_string(),
            "openai-responses has no word for an image in an assistant's message"
        );
        assert_eq!(
            texts.unwrap()["input"],
            json!([{"role": "assistant", "content": "so it is"}])
        );
    }
}
