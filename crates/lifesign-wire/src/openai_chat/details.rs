//! Lists of reasoning parts that stream in pieces and go back whole.
//!
//! OpenRouter and others send `reasoning_details`, LiteLLM `thinking_blocks`: entries with a type,
//! often an index, and text, data or a signature. Pieces of one entry are joined; everything else
//! about an entry goes back as it first came.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::lenient::{Count, Text};

/// The entries of one such list so far.
#[derive(Debug, Default)]
pub(super) struct Details {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// The entry as it first came.
    first: Box<RawValue>,
    kind: Box<str>,
    index: Option<u64>,
    /// What its pieces brought, by field, in the order of [`GROWING`].
    grown: [Option<String>; GROWING.len()],
    /// Fields that came later and replace what was there.
    signature: Option<String>,
}

/// A piece of an entry.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Detail<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    index: Count,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) summary: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) data: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
}

impl<'a> Detail<'a> {
    pub(super) fn parse(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// Returns the thinking text that the piece brings.
    pub(super) fn reasoning(&self) -> Option<&str> {
        [&self.text, &self.summary, &self.thinking]
            .into_iter()
            .find_map(Text::filled)
    }

    /// Returns the signature or encrypted data that the piece brings.
    pub(super) fn opaque(&self) -> Option<&str> {
        self.data.filled().or_else(|| self.signature.filled())
    }

    fn growing(&self) -> [&Text<'a>; GROWING.len()] {
        [&self.text, &self.summary, &self.thinking]
    }
}

impl Details {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a piece.
    pub(super) fn add(&mut self, raw: &RawValue, detail: &Detail<'_>) {
        let kind = detail.kind.as_str();
        let index = detail.index.0;
        let is_text = detail.data.get().is_none();
        let open = match index {
            Some(_) => self
                .entries
                .iter_mut()
                .rev()
                .find(|entry| entry.index == index && *entry.kind == *kind),
            None => self.entries.last_mut().filter(|entry| *entry.kind == *kind),
        };
        // Encrypted data always comes whole.
        if let Some(entry) = open.filter(|_| is_text) {
            for (grown, piece) in entry.grown.iter_mut().zip(detail.growing()) {
                if let Some(piece) = piece.get() {
                    grown.get_or_insert_default().push_str(piece);
                }
            }
            if let Some(signature) = detail.signature.filled() {
                entry.signature = Some(signature.to_owned());
            }
            return;
        }
        self.entries.push(Entry {
            first: raw.to_owned(),
            kind: kind.into(),
            index,
            grown: detail.growing().map(|piece| piece.get().map(str::to_owned)),
            signature: detail.signature.filled().map(str::to_owned),
        });
    }

    /// Returns the entries whole.
    pub(super) fn whole(&self) -> Vec<Value> {
        self.entries.iter().filter_map(Entry::whole).collect()
    }
}

impl Entry {
    fn whole(&self) -> Option<Value> {
        let mut whole: Map<String, Value> = serde_json::from_str(self.first.get()).ok()?;
        for (name, grown) in GROWING.into_iter().zip(&self.grown) {
            if let Some(grown) = grown {
                whole.insert(name.to_owned(), Value::String(grown.clone()));
            }
        }
        if let Some(signature) = &self.signature {
            whole.insert("signature".to_owned(), Value::String(signature.clone()));
        }
        Some(Value::Object(whole))
    }
}

/// The fields of an entry that come in pieces.
const GROWING: [&str; 3] = ["text", "summary", "thinking"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_of_one_entry_are_joined_and_the_rest_stays_as_it_came() {
        let mut details = Details::default();
        for piece in [
            json!({"type": "reasoning.text", "text": "a", "format": "f", "index": 0}),
            json!({"type": "reasoning.text", "text": "b", "format": "f", "index": 0}),
            json!({"type": "reasoning.text", "signature": "s", "index": 0}),
            json!({"type": "reasoning.encrypted", "data": "x", "id": "e", "index": 0}),
            json!({"type": "reasoning.encrypted", "data": "y", "id": "f", "index": 0}),
        ] {
            let raw = serde_json::value::to_raw_value(&piece).unwrap();
            details.add(&raw, &Detail::parse(&raw).unwrap());
        }

        assert_eq!(
            details.whole(),
            [
                json!({"type": "reasoning.text", "text": "ab", "format": "f", "index": 0, "signature": "s"}),
                json!({"type": "reasoning.encrypted", "data": "x", "id": "e", "index": 0}),
                json!({"type": "reasoning.encrypted", "data": "y", "id": "f", "index": 0}),
            ]
        );
    }
}
