//! Anthropic Messages.

use super::{Call, Name, Piece, Said, Usage, event, message, null, quoted};
use crate::script::{Saying, Word};

/// Writes message events and keeps the books of blocks for the generic words.
#[derive(Debug)]
pub(super) struct Anthropic {
    name: Name,
    is_started: bool,
    /// The block that generic words write into.
    open: Option<Block>,
    next_block: u64,
    calls: Vec<Call>,
    /// The block of each call.
    call_blocks: Vec<u64>,
    stop_reason: Option<String>,
    usage: Option<Usage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Call(u64),
    Text(u64),
    Thinking(u64),
}

impl Block {
    fn index(self) -> u64 {
        match self {
            Self::Call(index) | Self::Text(index) | Self::Thinking(index) => index,
        }
    }
}

impl Anthropic {
    pub(super) fn new(name: Name) -> Self {
        Self {
            name,
            is_started: false,
            open: None,
            next_block: 0,
            calls: Vec::new(),
            call_blocks: Vec::new(),
            stop_reason: None,
            usage: None,
        }
    }

    /// Writes one of the wire's own words.
    pub(super) fn say(&mut self, saying: &Saying, frames: &mut String) {
        let index = saying.number(0);
        match saying.word {
            Word::AnthropicBlock => {
                self.next_block = self.next_block.max(index.saturating_add(1));
                let (id, name) = (saying.given(2).unwrap_or("toolu_1"), saying.given(3));
                let block = match saying.text(1) {
                    "text" => TEXT_BLOCK.to_owned(),
                    "thinking" => THINKING_BLOCK.to_owned(),
                    "redacted_thinking" => {
                        r#"{"type":"redacted_thinking","data":"cmVkYWN0ZWQ="}"#.to_owned()
                    }
                    "tool_use" => tool_block(id, name.unwrap_or("tool")),
                    other => format!(r#"{{"type":{}}}"#, quoted(other)),
                };
                block_start(frames, index, &block);
            }
            Word::AnthropicBlockEnd => block_stop(frames, index),
            Word::AnthropicDelta => {
                let output = match saying.arguments.get(1) {
                    Some(_) => saying.number(1),
                    None => Usage::default().output,
                };
                let reason = saying.text(0);
                message_delta(
                    frames,
                    Some(reason),
                    &format!(r#"{{"output_tokens":{output}}}"#),
                );
            }
            Word::AnthropicError => error_event(saying, frames),
            Word::AnthropicJson => {
                delta(
                    frames,
                    index,
                    "input_json_delta",
                    "partial_json",
                    saying.text(1),
                );
            }
            Word::AnthropicSignature => {
                delta(
                    frames,
                    index,
                    "signature_delta",
                    "signature",
                    saying.text(1),
                );
            }
            Word::AnthropicStart => {
                let input = match saying.arguments.first() {
                    Some(_) => saying.number(0),
                    None => Usage::default().input,
                };
                self.start(input, frames);
            }
            Word::AnthropicStop => event(frames, "message_stop", r#"{"type":"message_stop"}"#),
            Word::AnthropicText => delta(frames, index, "text_delta", "text", saying.text(1)),
            Word::AnthropicThink => {
                delta(frames, index, "thinking_delta", "thinking", saying.text(1));
            }
            _ => {}
        }
    }

    /// Writes what a generic word means here.
    pub(super) fn mean(&mut self, saying: &Saying, frames: &mut String) {
        match saying.word {
            Word::Done => {
                self.close(frames);
                event(frames, "message_stop", r#"{"type":"message_stop"}"#);
            }
            Word::Error => {
                event(
                    frames,
                    "error",
                    &meant_error(saying.text(0), &message(saying)),
                );
            }
            Word::Finish => {
                self.need_start(frames);
                self.close(frames);
                let reason = stop_reason(saying.text(0)).to_owned();
                self.message_delta(Some(reason), frames);
            }
            Word::Ping => event(frames, "ping", r#"{"type":"ping"}"#),
            Word::Role => self.need_start(frames),
            Word::Text => {
                let index = match self.open {
                    Some(Block::Text(index)) => index,
                    _ => self.open(Block::Text, TEXT_BLOCK, frames),
                };
                delta(frames, index, "text_delta", "text", saying.text(0));
            }
            Word::Think => {
                let index = match self.open {
                    Some(Block::Thinking(index)) => index,
                    _ => self.open(Block::Thinking, THINKING_BLOCK, frames),
                };
                delta(frames, index, "thinking_delta", "thinking", saying.text(0));
            }
            Word::Tool => {
                for index in 0..saying.arguments.len() {
                    self.tool(&Piece::parse(saying.text(index)), frames);
                }
            }
            Word::Usage => {
                self.usage = Some(Usage::parse(saying.text(0)));
                // Counts after the stop reason come in a second `message_delta`.
                if self.stop_reason.is_some() {
                    self.message_delta(None, frames);
                }
            }
            _ => {}
        }
    }

    /// Returns the body of an answer that is not streamed.
    pub(super) fn whole(&self, said: &Said, finish: Option<&str>) -> String {
        if let Some((kind, message)) = &said.error {
            return meant_error(kind, message);
        }
        let mut blocks = Vec::new();
        if let Some(think) = &said.think {
            let think = quoted(think);
            blocks.push(format!(
                r#"{{"type":"thinking","thinking":{think},"signature":"{SIGNATURE}"}}"#
            ));
        }
        if !said.text.is_empty() || said.tools.is_empty() {
            blocks.push(format!(
                r#"{{"type":"text","text":{}}}"#,
                quoted(&said.text)
            ));
        }
        for call in &said.tools {
            let (id, name) = (quoted(&call.id), quoted(&call.name));
            let input: serde_json::Value = serde_json::from_str(&call.arguments)
                .unwrap_or_else(|_| serde_json::Value::Object(serde_json::Map::new()));
            blocks.push(format!(
                r#"{{"type":"tool_use","id":{id},"name":{name},"input":{input}}}"#
            ));
        }
        let Usage { input, output } = said.usage.unwrap_or_default();
        let reason = finish.map(stop_reason).map_or_else(null, quoted);
        let usage = format!(r#"{{"input_tokens":{input},"output_tokens":{output}}}"#);
        self.message(&blocks.join(","), &reason, &usage)
    }

    fn tool(&mut self, piece: &Piece, frames: &mut String) {
        let (place, is_new) = Call::hear(&mut self.calls, piece);
        if is_new {
            let call = &self.calls[place];
            let block = tool_block(&call.id, &call.name);
            let index = self.open(Block::Call, &block, frames);
            self.call_blocks.push(index);
        }
        let index = self.call_blocks.get(place).copied().unwrap_or_default();
        delta(
            frames,
            index,
            "input_json_delta",
            "partial_json",
            &piece.arguments,
        );
    }

    fn need_start(&mut self, frames: &mut String) {
        if !self.is_started {
            self.start(self.usage.unwrap_or_default().input, frames);
        }
    }

    fn start(&mut self, input: u64, frames: &mut String) {
        self.is_started = true;
        let usage = format!(r#"{{"input_tokens":{input},"output_tokens":1}}"#);
        let message = self.message("", "null", &usage);
        let json = format!(r#"{{"type":"message_start","message":{message}}}"#);
        event(frames, "message_start", &json);
    }

    fn message(&self, content: &str, reason: &str, usage: &str) -> String {
        let Name { model, serial } = &self.name;
        format!(
            r#"{{"id":"msg_{serial}","type":"message","role":"assistant","model":{model},"content":[{content}],"stop_reason":{reason},"stop_sequence":null,"usage":{usage}}}"#
        )
    }

    fn open(&mut self, kind: fn(u64) -> Block, block: &str, frames: &mut String) -> u64 {
        self.need_start(frames);
        self.close(frames);
        let index = self.next_block;
        self.next_block = self.next_block.saturating_add(1);
        self.open = Some(kind(index));
        block_start(frames, index, block);
        index
    }

    fn close(&mut self, frames: &mut String) {
        if let Some(block) = self.open.take() {
            if let Block::Thinking(index) = block {
                delta(frames, index, "signature_delta", "signature", SIGNATURE);
            }
            block_stop(frames, block.index());
        }
    }

    fn message_delta(&mut self, reason: Option<String>, frames: &mut String) {
        let usage = match self.usage {
            Some(Usage { input, output }) => {
                format!(r#"{{"input_tokens":{input},"output_tokens":{output}}}"#)
            }
            None => format!(r#"{{"output_tokens":{}}}"#, Usage::default().output),
        };
        if reason.is_some() {
            self.stop_reason = reason;
        }
        message_delta(frames, self.stop_reason.as_deref(), &usage);
    }
}

fn error_event(saying: &Saying, frames: &mut String) {
    event(frames, "error", &error(saying.text(0), &message(saying)));
}

fn block_start(frames: &mut String, index: u64, block: &str) {
    let json =
        format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#);
    event(frames, "content_block_start", &json);
}

fn block_stop(frames: &mut String, index: u64) {
    let json = format!(r#"{{"type":"content_block_stop","index":{index}}}"#);
    event(frames, "content_block_stop", &json);
}

fn delta(frames: &mut String, index: u64, kind: &str, field: &str, text: &str) {
    let text = quoted(text);
    let json = format!(
        r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{field}":{text}}}}}"#
    );
    event(frames, "content_block_delta", &json);
}

fn message_delta(frames: &mut String, reason: Option<&str>, usage: &str) {
    let reason = reason.map_or_else(null, quoted);
    let json = format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":{reason},"stop_sequence":null}},"usage":{usage}}}"#
    );
    event(frames, "message_delta", &json);
}

fn tool_block(id: &str, name: &str) -> String {
    let (id, name) = (quoted(id), quoted(name));
    format!(r#"{{"type":"tool_use","id":{id},"name":{name},"input":{{}}}}"#)
}

/// The wire's own error for a type that other wires have a name for.
fn meant_error(kind: &str, text: &str) -> String {
    match kind {
        "context_length_exceeded" => error("invalid_request_error", text),
        "insufficient_quota" => {
            let text = quoted(text);
            let details = r#"{"error_code":"enforced_spend_limit_reached"}"#;
            format!(
                r#"{{"type":"error","error":{{"type":"rate_limit_error","message":{text},"details":{details}}}}}"#
            )
        }
        kind => error(kind, text),
    }
}

fn error(kind: &str, message: &str) -> String {
    let (kind, message) = (quoted(kind), quoted(message));
    format!(r#"{{"type":"error","error":{{"type":{kind},"message":{message}}}}}"#)
}

/// The wire's own name for a finish reason.
fn stop_reason(finish: &str) -> &str {
    match finish {
        "stop" => "end_turn",
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        "content_filter" => "refusal",
        other => other,
    }
}

const TEXT_BLOCK: &str = r#"{"type":"text","text":""}"#;
const THINKING_BLOCK: &str = r#"{"type":"thinking","thinking":"","signature":""}"#;
const SIGNATURE: &str = "c3RhbmRpbg==";
