//! What a server's tool brought, as text for a model.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, ServerResult};

use crate::tools::ToolResult;

/// Returns the result of a call of `tool`.
pub(super) fn result_of(tool: &str, answer: ServerResult) -> ToolResult {
    match answer {
        ServerResult::CallToolResult(result) => from_call(&result),
        ServerResult::InputRequiredResult(_) => ToolResult::error(format!(
            "{tool} wants to be told more by a person, who is not asked here"
        )),
        ServerResult::CreateTaskResult(_) => ToolResult::error(format!(
            "{tool} goes on as a task of its server, which is not waited for"
        )),
        // An answer with nothing in it.
        ServerResult::EmptyResult(_) => ToolResult::ok(""),
        _ => ToolResult::error(format!("{tool} answered with something that is no result")),
    }
}

fn from_call(result: &CallToolResult) -> ToolResult {
    let mut parts = texts(&result.content);
    if let (true, Some(structured)) = (parts.is_empty(), &result.structured_content) {
        parts.push(structured.to_string());
    }
    ToolResult {
        text: parts.join("\n"),
        is_error: result.is_error.unwrap_or_default(),
    }
}

/// Returns each part as text; what is none is named.
pub(in crate::tools) fn texts(content: &[ContentBlock]) -> Vec<String> {
    content.iter().map(text).collect()
}

fn text(part: &ContentBlock) -> String {
    match part {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => not_shown(&image.mime_type, &image.data),
        ContentBlock::Audio(audio) => not_shown(&audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[{uri}]\n{text}"),
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => {
                let kind = mime_type.as_deref().unwrap_or("data");
                format!("[{uri}]\n{}", not_shown(kind, blob))
            }
            _ => "[a resource of an unknown kind]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[{}: {}]", link.name, link.uri),
        _ => "[content of an unknown kind]".to_owned(),
    }
}

fn not_shown(kind: &str, base64: &str) -> String {
    format!(
        "[{kind} of about {} bytes, not shown]",
        base64.len() / 4 * 3
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn result(answer: serde_json::Value) -> ToolResult {
        from_call(&serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn parts_are_joined_and_what_is_no_text_is_named() {
        let told = result(json!({"content": [
            {"type": "text", "text": "two files"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "one"}},
            {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "a/b", "blob": "AAAA"}},
            {"type": "image", "mimeType": "image/png", "data": "AAAAAAAA"},
            {"type": "resource_link", "name": "c", "uri": "file:///c"},
        ]}));

        assert_eq!(
            told,
            ToolResult::ok(
                "two files\n[file:///a]\none\n[file:///b]\n[a/b of about 3 bytes, not shown]\n\
                 [image/png of about 6 bytes, not shown]\n[c: file:///c]"
            )
        );
    }

    #[test]
    fn a_structured_result_speaks_where_no_text_does() {
        let alone = result(json!({"content": [], "structuredContent": {"n": 1}}));
        let beside = result(json!({
            "content": [{"type": "text", "text": "n is 1"}],
            "structuredContent": {"n": 1},
        }));

        assert_eq!(alone, ToolResult::ok(r#"{"n":1}"#));
        assert_eq!(beside, ToolResult::ok("n is 1"));
    }

    #[test]
    fn a_failure_of_the_tool_is_one() {
        let told = result(json!({"content": [{"type": "text", "text": "no"}], "isError": true}));

        assert_eq!(told, ToolResult::error("no"));
    }
}
