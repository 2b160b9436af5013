//! A block of a message while it fills, and as it goes back.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lifesign_core::BlockKind;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::event::ToolPiece;
use crate::lenient::{List, Text, is_truthy};
use crate::raw_object::{RawObject, raw};
use crate::tool_calls::ToolCall;

/// A block that has opened.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) index: u64,
    pub(super) holds: Kind,
    /// The block as it opened.
    pub(super) first: Box<RawValue>,
    /// What its deltas brought: text, thinking, or the JSON of an input.
    pub(super) text: String,
    pub(super) signature: String,
    pub(super) citations: Vec<Box<RawValue>>,
    /// Which call it is, of its kind.
    pub(super) call: usize,
    pub(super) is_closed: bool,
    /// The provider's word for what it is.
    kind: Box<str>,
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Compaction,
    Redacted,
    /// What a tool of the provider's answered, whole.
    Result,
    ServerTool,
    Text,
    Thinking,
    Tool,
    Unknown,
}

impl Kind {
    fn of(kind: &str) -> Self {
        match kind {
            "compaction" => Self::Compaction,
            "redacted_thinking" => Self::Redacted,
            "text" => Self::Text,
            "thinking" => Self::Thinking,
            "tool_use" => Self::Tool,
            "server_tool_use" | "mcp_tool_use" => Self::ServerTool,
            "container_upload" => Self::Result,
            _ if kind.ends_with("_tool_result") => Self::Result,
            _ => Self::Unknown,
        }
    }

    pub(super) const fn block(self) -> BlockKind {
        match self {
            Self::Text | Self::Result => BlockKind::Text,
            Self::Thinking | Self::Redacted | Self::Compaction => BlockKind::Thinking,
            Self::Tool => BlockKind::Tool,
            // Nobody knows how an unknown block fills.
            Self::ServerTool | Self::Unknown => BlockKind::ServerTool,
        }
    }
}

/// The fields of a block as it opens.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Start<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
    #[serde(borrow)]
    pub(super) data: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) citations: List<&'a RawValue>,
}

impl<'a> Start<'a> {
    pub(super) fn parse(raw: &'a RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }
}

/// Returns what a block or delta of a kind that nobody knows holds: the first text, list or object
/// in it that is not empty and does not only tell what it is.
pub(super) fn payload(raw: &RawValue) -> Option<&str> {
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(raw.get()).ok()?;
    let is_label = |name: &str| {
        matches!(name, "type" | "id" | "role" | "status" | "cache_control") || name.ends_with("_id")
    };
    let is_filled = |raw: &RawValue| raw.get().starts_with(['"', '[', '{']) && is_truthy(Some(raw));
    fields
        .into_iter()
        .find(|(name, raw)| !is_label(name) && is_filled(raw))
        .map(|(_, raw)| raw.get())
}

impl Open {
    pub(super) fn new(index: u64, raw: &RawValue) -> Self {
        let kind = Start::parse(raw).kind.as_str().into();
        Self::of(index, kind, raw.to_owned())
    }

    /// Returns the block that a delta of `delta` kind belongs to, if nobody said that it opens.
    pub(super) fn without_start(index: u64, delta: &str) -> Self {
        let kind = match delta {
            "thinking_delta" | "signature_delta" => "thinking",
            "input_json_delta" => "tool_use",
            "compaction_delta" => "compaction",
            _ => "text",
        };
        let first = to_raw_value(&serde_json::json!({"type": kind})).unwrap_or_default();
        Self::of(index, kind.into(), first)
    }

    fn of(index: u64, kind: Box<str>, first: Box<RawValue>) -> Self {
        Self {
            index,
            holds: Kind::of(&kind),
            first,
            text: String::new(),
            signature: String::new(),
            citations: Vec::new(),
            call: 0,
            is_closed: false,
            kind,
        }
    }

    pub(super) fn piece<'a>(&'a self, arguments: &'a str) -> ToolPiece<'a> {
        let kind = (self.holds == Kind::ServerTool).then_some(&*self.kind);
        ToolPiece {
            call: self.call,
            kind,
            id: None,
            name: None,
            arguments,
        }
    }

    /// Returns the input that came with the start and not in deltas, if the block is a call.
    pub(super) fn input_of_start(&self) -> Option<String> {
        if !matches!(self.holds, Kind::Tool | Kind::ServerTool) || !self.text.is_empty() {
            return None;
        }
        let input = Start::parse(&self.first).input?.get();
        // Text in its place is what an answer was cut in.
        if input.starts_with('"') {
            let text: String = serde_json::from_str(input).ok()?;
            return Some(text).filter(|text| !text.is_empty());
        }
        let is_empty = input
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .is_none_or(|inside| inside.trim().is_empty());
        (!is_empty).then(|| input.to_owned())
    }

    /// Returns the block as it goes back, unless it is one that no provider takes: empty text, or a
    /// call whose input is not whole.
    pub(super) fn whole(&self, calls: &[ToolCall]) -> Option<Box<RawValue>> {
        if matches!(self.holds, Kind::Redacted | Kind::Result | Kind::Unknown) {
            return Some(self.first.clone());
        }
        let mut block: Map<String, Value> = serde_json::from_str(self.first.get()).ok()?;
        match self.holds {
            Kind::Text => {
                self.grow("text", &mut block);
                if block
                    .get("text")
                    .and_then(Value::as_str)
                    .is_none_or(str::is_empty)
                {
                    return None;
                }
                if !self.citations.is_empty() {
                    let known = block.entry("citations").or_insert(Value::Null);
                    let mut citations = known.as_array().cloned().unwrap_or_default();
                    let news = self.citations.iter();
                    citations.extend(news.filter_map(|raw| serde_json::from_str(raw.get()).ok()));
                    *known = Value::Array(citations);
                }
            }
            Kind::Thinking => {
                self.grow("thinking", &mut block);
                if !self.signature.is_empty() {
                    block.insert("signature".to_owned(), self.signature.as_str().into());
                }
            }
            Kind::Compaction => self.grow("content", &mut block),
            Kind::Tool if !calls.get(self.call).is_some_and(|call| call.complete) => return None,
            Kind::Tool | Kind::ServerTool => {
                if !self.text.is_empty() {
                    let input: Value = serde_json::from_str(&self.text).ok()?;
                    block.insert("input".to_owned(), input);
                }
                block
                    .entry("input")
                    .or_insert_with(|| Value::Object(Map::new()));
            }
            Kind::Redacted | Kind::Result | Kind::Unknown => {}
        }
        to_raw_value(&block).ok()
    }

    /// Returns the block as it stands in a whole body, even one that was cut.
    pub(super) fn body(&self) -> Box<RawValue> {
        let mut block = RawObject::parse(self.first.get()).unwrap_or_default();
        let grown = match self.holds {
            Kind::Redacted | Kind::Result | Kind::Unknown => return self.first.clone(),
            Kind::Text => "text",
            Kind::Thinking => "thinking",
            Kind::Compaction => "content",
            Kind::Tool | Kind::ServerTool => {
                // What is no JSON stays a text, which nobody runs.
                let input = RawValue::from_string(self.text.clone());
                if !self.text.is_empty() {
                    block.set("input", input.unwrap_or_else(|_| raw(&self.text)));
                }
                block.set_missing("input", RawObject::default().to_raw());
                return block.to_raw();
            }
        };
        let before = block.text(grown).unwrap_or_default();
        block.set(grown, raw(&(before + &self.text)));
        if !self.signature.is_empty() {
            block.set("signature", raw(&self.signature));
        }
        if !self.citations.is_empty() {
            let mut citations = block.items("citations");
            citations.extend(self.citations.iter().cloned());
            block.set("citations", raw(&citations));
        }
        block.to_raw()
    }

    /// Appends what the deltas brought to the field that they grew.
    fn grow(&self, field: &str, block: &mut Map<String, Value>) {
        if self.text.is_empty() {
            return;
        }
        let before = block.get(field).and_then(Value::as_str).unwrap_or_default();
        let whole = format!("{before}{}", self.text);
        block.insert(field.to_owned(), whole.into());
    }
}
