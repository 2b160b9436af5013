//! OpenAI Chat Completions.

use std::fmt::Write as _;

use super::{CREATED, Name, Said, comment, data, error_type, message, null, quoted};
use crate::script::{Saying, Word};

/// Writes chat chunks.
#[derive(Debug)]
pub(super) struct Chat {
    name: Name,
}

impl Chat {
    pub(super) fn new(name: Name) -> Self {
        Self { name }
    }

    /// Writes what a generic word means here.
    pub(super) fn mean(&self, saying: &Saying, frames: &mut String) {
        let text = || quoted(saying.text(0));
        match saying.word {
            Word::Done => data(frames, "[DONE]"),
            Word::Error => data(frames, &error(saying.text(0), &message(saying))),
            Word::Finish => self.delta("{}", Some(saying.text(0)), frames),
            Word::Ping => comment(frames, "ping"),
            Word::Role => self.delta(r#"{"role":"assistant","content":""}"#, None, frames),
            Word::Text => self.delta(&format!(r#"{{"content":{}}}"#, text()), None, frames),
            Word::Think => {
                self.delta(
                    &format!(r#"{{"reasoning_content":{}}}"#, text()),
                    None,
                    frames,
                );
            }
            Word::Tool => {
                let pieces: Vec<&str> = (0..saying.arguments.len())
                    .map(|index| saying.text(index))
                    .collect();
                let delta = format!(r#"{{"tool_calls":[{}]}}"#, pieces.join(","));
                self.delta(&delta, None, frames);
            }
            Word::Usage => {
                let head = self.head("chat.completion.chunk");
                let usage = saying.text(0);
                data(
                    frames,
                    &format!(r#"{{{head},"choices":[],"usage":{usage}}}"#),
                );
            }
            _ => {}
        }
    }

    /// Writes a chunk with this delta.
    pub(super) fn delta(&self, delta: &str, finish: Option<&str>, frames: &mut String) {
        let head = self.head("chat.completion.chunk");
        let finish = finish.map_or_else(null, quoted);
        let choice = format!(r#"{{"index":0,"delta":{delta},"finish_reason":{finish}}}"#);
        data(frames, &format!(r#"{{{head},"choices":[{choice}]}}"#));
    }

    /// Returns the body of an answer that is not streamed.
    pub(super) fn whole(&self, said: &Said, finish: Option<&str>) -> String {
        if let Some((kind, message)) = &said.error {
            return error(kind, message);
        }
        let is_empty = said.text.is_empty() && !said.tools.is_empty();
        let content = if is_empty {
            "null".to_owned()
        } else {
            quoted(&said.text)
        };
        let mut message = format!(r#""role":"assistant","content":{content}"#);
        if let Some(think) = &said.think {
            message.push_str(r#","reasoning_content":"#);
            message.push_str(&quoted(think));
        }
        if !said.tools.is_empty() {
            let mut calls = String::new();
            for call in &said.tools {
                let comma = if calls.is_empty() { "" } else { "," };
                let (id, name) = (quoted(&call.id), quoted(&call.name));
                let arguments = quoted(&call.arguments);
                let function = format!(r#"{{"name":{name},"arguments":{arguments}}}"#);
                // Writing to a string cannot fail.
                write!(
                    calls,
                    r#"{comma}{{"id":{id},"type":"function","function":{function}}}"#
                )
                .unwrap_or_default();
            }
            message.extend([r#","tool_calls":["#, &calls, "]"]);
        }
        let head = self.head("chat.completion");
        let usage = said.usage.unwrap_or_default().chat();
        let finish = finish.map_or_else(null, quoted);
        format!(
            r#"{{{head},"choices":[{{"index":0,"message":{{{message}}},"finish_reason":{finish}}}],"usage":{usage}}}"#
        )
    }

    fn head(&self, object: &str) -> String {
        let Name { model, serial } = &self.name;
        format!(
            r#""id":"chatcmpl-{serial}","object":"{object}","created":{CREATED},"model":{model}"#
        )
    }
}

fn error(kind: &str, message: &str) -> String {
    let (code, message) = (quoted(kind), quoted(message));
    let kind = quoted(error_type(kind));
    format!(r#"{{"error":{{"message":{message},"type":{kind},"param":null,"code":{code}}}}}"#)
}
