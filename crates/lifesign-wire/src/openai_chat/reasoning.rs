//! Thinking, whatever field it comes in, and as it goes back.

use serde_json::{Map, Value};

use super::Brought;
use super::chunk::{Delta, REASONING_FIELDS};
use super::details::{Detail, Details};
use crate::dialect::EventSink;
use crate::event::Event;
use crate::lenient::Text;

/// The reasoning fields, each as it came: some servers refuse a next request without them.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    /// Whether any of it, empty or not, was handed on.
    pub(super) is_told: bool,
    /// The text of each of [`REASONING_FIELDS`].
    fields: [Option<String>; REASONING_FIELDS.len()],
    /// Thinking that came as parts of the content.
    pub(super) parts: Option<String>,
    details: Details,
    thinking_blocks: Details,
}

impl Reasoning {
    /// Takes in the reasoning of a delta and tells it.
    pub(super) fn add(&mut self, delta: &Delta<'_>, brought: &mut Brought, sink: EventSink<'_>) {
        let fields = delta.reasoning_fields();
        for (field, so_far) in fields.into_iter().zip(&mut self.fields) {
            if let Some(text) = field.get() {
                so_far.get_or_insert_default().push_str(text);
            }
        }
        // Several fields may carry the same text: the first that holds any speaks for all.
        let field = fields.into_iter().find_map(Text::filled);
        if let Some(text) = field {
            self.tell(text, brought, sink);
        }
        let lists = [
            (&delta.reasoning_details, &mut self.details),
            (&delta.thinking_blocks, &mut self.thinking_blocks),
        ];
        let mut told = field.is_some();
        let mut pieces = Vec::new();
        for (list, details) in lists {
            let before = pieces.len();
            for raw in list.items() {
                if let Some(detail) = Detail::parse(raw) {
                    details.add(raw, &detail);
                    pieces.push((detail, told));
                }
            }
            told |= pieces[before..]
                .iter()
                .any(|(detail, _)| detail.reasoning().is_some());
        }
        for (detail, told) in &pieces {
            if let Some(text) = detail.reasoning().filter(|_| !told) {
                self.tell(text, brought, sink);
            }
            if let Some(data) = detail.opaque() {
                brought.reasoning = true;
                sink(Event::Signature(data));
            }
        }
        let is_empty = fields.into_iter().any(Text::is_seen_empty);
        if is_empty && !self.is_told {
            self.is_told = true;
            sink(Event::Reasoning(""));
        }
    }

    fn tell(&mut self, text: &str, brought: &mut Brought, sink: EventSink<'_>) {
        self.is_told = true;
        brought.reasoning = true;
        sink(Event::Reasoning(text));
    }

    /// Writes the fields under the names they came by.
    pub(super) fn write(&self, message: &mut Map<String, Value>) {
        for (name, text) in REASONING_FIELDS.into_iter().zip(&self.fields) {
            if let Some(text) = text {
                message.insert(name.to_owned(), text.as_str().into());
            }
        }
        if !self.details.is_empty() {
            message.insert(
                "reasoning_details".to_owned(),
                Value::Array(self.details.whole()),
            );
        }
        if !self.thinking_blocks.is_empty() {
            let blocks = self.thinking_blocks.whole();
            message.insert("thinking_blocks".to_owned(), Value::Array(blocks));
        }
    }
}
