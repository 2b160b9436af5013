//! From the protocol's words for a model call to ours, and back.

use lifesign::{Answer, Content, Message, Request, Role, Tool, ToolChoice};
use rmcp::model::{
    self, CreateMessageRequestParams, CreateMessageResult, ErrorData, SamplingMessage,
    SamplingMessageContentBlock, ToolChoiceMode,
};
use serde_json::Value;

use crate::finish::is_length;
use crate::tools::mcp::content_texts;

/// Returns the request that a server makes. It names no model.
pub(super) fn request(params: CreateMessageRequestParams) -> Result<Request, ErrorData> {
    let mut request = Request::new("").max_tokens(params.max_tokens.into());
    request.system = params.system_prompt;
    // As the number reads, not as its nearest neighbour in more digits.
    request.temperature = params.temperature.map(|value| {
        value
            .to_string()
            .parse()
            .unwrap_or_else(|_| f64::from(value))
    });
    request.stop = params.stop_sequences.unwrap_or_default();
    for message in params.messages {
        request.messages.push(Message {
            role: match message.role {
                model::Role::Assistant => Role::Assistant,
                model::Role::User => Role::User,
            },
            content: message
                .content
                .into_vec()
                .into_iter()
                .map(content)
                .collect::<Result<_, _>>()?,
        });
    }
    for tool in params.tools.unwrap_or_default() {
        request.tools.push(Tool {
            name: tool.name.into_owned(),
            description: tool.description.map(std::borrow::Cow::into_owned),
            parameters: Value::Object(tool.input_schema.as_ref().clone()),
        });
    }
    let mode = params.tool_choice.and_then(|choice| choice.mode);
    request.tool_choice = mode.map(|mode| match mode {
        ToolChoiceMode::None => ToolChoice::None,
        ToolChoiceMode::Required => ToolChoice::Required,
        _ => ToolChoice::Auto,
    });
    Ok(request)
}

fn content(part: SamplingMessageContentBlock) -> Result<Content, ErrorData> {
    match part {
        SamplingMessageContentBlock::Text(text) => Ok(Content::Text(text.text)),
        SamplingMessageContentBlock::Image(image) => Ok(Content::Image {
            media_type: image.mime_type,
            data: image.data,
        }),
        SamplingMessageContentBlock::ToolUse(call) => Ok(Content::ToolCall {
            id: call.id,
            name: call.name,
            arguments: Value::Object(call.input).to_string(),
        }),
        SamplingMessageContentBlock::ToolResult(result) => Ok(Content::ToolResult {
            id: result.tool_use_id,
            text: content_texts(&result.content).join("\n"),
            is_error: result.is_error.unwrap_or_default(),
        }),
        _ => {
            let message = "messages: text, images, tool calls and tool results are accepted";
            Err(ErrorData::invalid_params(message, None))
        }
    }
}

/// Returns what a model said in the words of the protocol.
pub(super) fn result(answer: Answer) -> CreateMessageResult {
    let mut stop_reason = answer.finish_reason.as_deref().map(stop_reason);
    let mut parts = Vec::new();
    let calls = answer.tool_calls.into_iter().filter(|call| call.complete);
    let calls: Vec<_> = calls
        .map(|call| {
            let input = match serde_json::from_str(&call.arguments) {
                Ok(Value::Object(input)) => input,
                _ => serde_json::Map::new(),
            };
            SamplingMessageContentBlock::tool_use(call.id, call.name, input)
        })
        .collect();
    // Responses has one word for both.
    if !calls.is_empty() && stop_reason == Some(CreateMessageResult::STOP_REASON_END_TURN) {
        stop_reason = Some(CreateMessageResult::STOP_REASON_TOOL_USE);
    }
    let stop_reason = stop_reason.map(str::to_owned);
    if !answer.text.is_empty() || calls.is_empty() {
        parts.push(SamplingMessageContentBlock::text(answer.text));
    }
    parts.extend(calls);
    let message = match <[SamplingMessageContentBlock; 1]>::try_from(parts) {
        Ok([only]) => SamplingMessage::new(model::Role::Assistant, only),
        Err(parts) => SamplingMessage::new_multiple(model::Role::Assistant, parts),
    };
    let mut result = CreateMessageResult::new(message, answer.model.unwrap_or_default());
    result.stop_reason = stop_reason;
    result
}

/// Returns the protocol's word for why an answer ended, where it has one.
fn stop_reason(finish_reason: &str) -> &str {
    match finish_reason {
        reason if is_length(reason) => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
        "stop" | "end_turn" | "completed" => CreateMessageResult::STOP_REASON_END_TURN,
        "stop_sequence" => CreateMessageResult::STOP_REASON_END_SEQUENCE,
        "tool_calls" | "tool_use" => CreateMessageResult::STOP_REASON_TOOL_USE,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn asked(params: Value) -> Result<Request, ErrorData> {
        request(serde_json::from_value(params).unwrap())
    }

    #[test]
    fn everything_that_a_server_says_is_in_the_request() {
        let made = asked(json!({
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "look"}},
                {"role": "user", "content": [
                    {"type": "image", "mimeType": "image/png", "data": "AAAA"},
                ]},
                {"role": "assistant", "content": {
                    "type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1},
                }},
                {"role": "user", "content": {
                    "type": "tool_result", "toolUseId": "c1",
                    "content": [{"type": "text", "text": "no"}], "isError": true,
                }},
            ],
            "systemPrompt": "be brief",
            "maxTokens": 100,
            "temperature": 0.2,
            "stopSequences": ["END"],
            "tools": [{"name": "f", "description": "does", "inputSchema": {"type": "object"}}],
            "toolChoice": {"mode": "required"},
        }))
        .unwrap();

        let mut expected = Request::new("").system("be brief").max_tokens(100);
        let message = |role, content| Message {
            role,
            content: vec![content],
        };
        expected.messages = vec![
            Message::user("look"),
            message(
                Role::User,
                Content::Image {
                    media_type: "image/png".to_owned(),
                    data: "AAAA".to_owned(),
                },
            ),
            message(
                Role::Assistant,
                Content::ToolCall {
                    id: "c1".to_owned(),
                    name: "f".to_owned(),
                    arguments: r#"{"a":1}"#.to_owned(),
                },
            ),
            message(
                Role::User,
                Content::ToolResult {
                    id: "c1".to_owned(),
                    text: "no".to_owned(),
                    is_error: true,
                },
            ),
        ];
        expected.temperature = Some(0.2);
        expected.stop = vec!["END".to_owned()];
        expected.tools = vec![Tool {
            name: "f".to_owned(),
            description: Some("does".to_owned()),
            parameters: json!({"type": "object"}),
        }];
        expected.tool_choice = Some(ToolChoice::Required);
        assert_eq!(made, expected);
    }

    #[test]
    fn sound_is_refused_with_what_is_accepted() {
        let refused = asked(json!({
            "messages": [{"role": "user", "content": {
                "type": "audio", "mimeType": "audio/wav", "data": "AAAA",
            }}],
            "maxTokens": 1,
        }))
        .unwrap_err();

        assert_eq!(
            refused.message,
            "messages: text, images, tool calls and tool results are accepted"
        );
    }

    #[test]
    fn an_answer_is_told_in_the_words_of_the_protocol() {
        let mut answer = Answer::default();
        answer.text = "hello".to_owned();
        answer.model = Some("m".to_owned());
        answer.finish_reason = Some("length".to_owned());

        let told = serde_json::to_value(result(answer)).unwrap();

        assert_eq!(
            told,
            json!({
                "model": "m",
                "stopReason": "maxTokens",
                "role": "assistant",
                "content": {"type": "text", "text": "hello"},
            })
        );
    }

    #[test]
    fn why_an_answer_ended_is_told_in_the_words_of_the_protocol_whatever_the_wire() {
        for (wire, protocol) in [
            ("stop", "endTurn"),
            ("end_turn", "endTurn"),
            ("completed", "endTurn"),
            ("length", "maxTokens"),
            ("max_tokens", "maxTokens"),
            ("incomplete:max_output_tokens", "maxTokens"),
            ("stop_sequence", "stopSequence"),
            ("tool_calls", "toolUse"),
            ("content_filter", "content_filter"),
        ] {
            assert_eq!(stop_reason(wire), protocol, "{wire}");
        }
    }

    #[test]
    fn an_answer_that_calls_a_tool_ended_for_that() {
        let mut answer = Answer::default();
        answer.finish_reason = Some("completed".to_owned());
        answer.tool_calls = vec![lifesign::ToolCall {
            id: "c1".to_owned(),
            name: "f".to_owned(),
            complete: true,
            ..lifesign::ToolCall::default()
        }];

        assert_eq!(result(answer).stop_reason.as_deref(), Some("toolUse"));
    }
}
