//! A response as one body: put together from its events, and taken apart into some.

use serde_json::value::RawValue;

use super::item::{Holds, Item, Slot};
use crate::error_out::event;
use crate::lenient::is_truthy;
use crate::raw_object::{RawObject, object, raw};

/// A response while its events come; the final values of its items are kept elsewhere.
#[derive(Debug, Default)]
pub(super) struct Whole {
    /// The response that the terminal event holds.
    response: Option<RawObject>,
    /// Items as they opened, by their index.
    opened: Vec<(u64, Box<RawValue>)>,
    /// What their deltas brought.
    texts: Vec<(u64, Slot, String)>,
    kept: usize,
}

impl Whole {
    /// Takes in an event.
    pub(super) fn add(&mut self, kind: &str, index: u64, data: &[u8]) {
        let name = match kind {
            "response.completed" | "response.incomplete" => "response",
            "response.output_item.added" => "item",
            _ => return,
        };
        let data = std::str::from_utf8(data).ok().and_then(RawObject::parse);
        let Some(data) = data else { return };
        if name == "item" {
            if let Some(item) = data.get(name) {
                self.kept += item.get().len();
                self.opened.push((index, item.to_owned()));
            }
            return;
        }
        let mut response = data.object(name).unwrap_or_default();
        response.set_missing("object", raw("response"));
        let status = kind.strip_prefix("response.").unwrap_or(kind);
        response.set_missing("status", raw(status));
        self.response = Some(response);
    }

    /// Returns how many bytes are kept that no event of the answer tells.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Takes in a piece of an item.
    pub(super) fn add_text(&mut self, index: u64, slot: Slot, text: &str) {
        let known = self
            .texts
            .iter_mut()
            .find(|(at, of, _)| (*at, *of) == (index, slot));
        match known {
            Some((_, _, so_far)) => so_far.push_str(text),
            None => self.texts.push((index, slot, text.to_owned())),
        }
    }

    /// Returns the body, once the response is over.
    pub(super) fn body(&self, items: &[Item]) -> Option<RawObject> {
        let mut response = self.response.clone()?;
        if response.items("output").is_empty() {
            // Some servers end with a snapshot that is empty.
            let mut items: Vec<_> = items.iter().collect();
            items.sort_by_key(|item| item.index);
            let output: Vec<_> = items.into_iter().map(|item| self.item(item)).collect();
            response.set("output", raw(&output));
        }
        Some(response)
    }

    /// Returns an item's final value, put together where none came.
    fn item(&self, item: &Item) -> Box<RawValue> {
        if let Some(last) = &item.last {
            return last.clone();
        }
        let opened = self.opened.iter().rfind(|(index, _)| *index == item.index);
        let opened = opened.and_then(|(_, raw)| RawObject::parse(raw.get()));
        let mut whole = opened.unwrap_or_default();
        let texts = self.texts.iter().filter(|(index, ..)| *index == item.index);
        let (mut content, mut summary) = (Vec::new(), Vec::new());
        for (_, slot, text) in texts {
            match slot {
                Slot::Arguments if item.holds == Holds::CustomCall => {
                    whole.set("input", raw(text));
                }
                Slot::Arguments => whole.set("arguments", raw(text)),
                Slot::Raw(_) => content.push(part("reasoning_text", "text", text)),
                Slot::Refusal(_) => content.push(part("refusal", "refusal", text)),
                Slot::Summary(_) => summary.push(part("summary_text", "text", text)),
                Slot::Text(_) => {
                    let mut part = part("output_text", "text", text);
                    part.set("annotations", raw(&[(); 0]));
                    content.push(part);
                }
            }
        }
        let kind = match item.holds {
            Holds::Call => "function_call",
            Holds::CustomCall => "custom_tool_call",
            Holds::Message => "message",
            Holds::Reasoning => "reasoning",
            Holds::ServerCall => "mcp_call",
            Holds::Hosted | Holds::Unknown => return whole.to_raw(),
        };
        whole.set_missing("type", raw(kind));
        match item.holds {
            Holds::Message => {
                whole.set_missing("role", raw("assistant"));
                whole.set("content", raw(&content));
            }
            Holds::Reasoning => {
                whole.set("summary", raw(&summary));
                if !content.is_empty() {
                    whole.set("content", raw(&content));
                }
            }
            _ => {}
        }
        whole.set("status", raw("completed"));
        whole.to_raw()
    }
}

fn part(kind: &str, name: &str, text: &str) -> RawObject {
    object([("type", raw(kind)), (name, raw(text))])
}

/// Returns a whole response as the events of a stream, or `None` if the body is no response that is
/// over.
pub(super) fn events(body: &str) -> Option<Vec<u8>> {
    let response = RawObject::parse(body)?;
    let is_response = response.text("object").as_deref() == Some("response");
    if !is_response && !response.get("output")?.get().starts_with('[') {
        return None;
    }
    let end = match response.text("status").as_deref() {
        None if is_truthy(response.get("error")) => "response.failed",
        None | Some("completed") => "response.completed",
        Some("failed") => "response.failed",
        Some("incomplete") => "response.incomplete",
        Some(_) => return None,
    };
    let mut events = Events::default();
    let mut opened = response.clone();
    opened.set("status", raw("in_progress"));
    opened.set("output", raw(&[(); 0]));
    for name in ["error", "incomplete_details", "usage"] {
        if opened.get(name).is_some() {
            opened.set(name, raw(&()));
        }
    }
    for kind in ["response.created", "response.in_progress"] {
        events.tell(kind, [("response", opened.to_raw())]);
    }
    for (index, item) in (0..).zip(response.items("output")) {
        events.item(index, &RawObject::parse(item.get())?);
    }
    events.tell(end, [("response", response.to_raw())]);
    Some(events.bytes)
}

/// Events, numbered as they are told.
#[derive(Default)]
struct Events {
    bytes: Vec<u8>,
    count: u64,
}

impl Events {
    fn tell<'n>(&mut self, kind: &str, fields: impl IntoIterator<Item = (&'n str, Box<RawValue>)>) {
        let mut frame = object([("type", raw(kind)), ("sequence_number", raw(&self.count))]);
        self.count += 1;
        for (name, value) in fields {
            frame.set(name, value);
        }
        self.bytes.extend(event(kind, &frame));
    }

    fn item(&mut self, index: u64, item: &RawObject) {
        let kind = item.text("type").unwrap_or_default();
        let mut opened = item.clone();
        if opened.get("status").is_some() {
            opened.set("status", raw("in_progress"));
        }
        let filled_later = match kind.as_str() {
            "message" => &["content"][..],
            "reasoning" => &["summary", "content"],
            "function_call" | "mcp_call" => &["arguments"],
            "custom_tool_call" => &["input"],
            _ => &[],
        };
        for name in filled_later {
            match opened.get(name).map(RawValue::get) {
                Some(list) if list.starts_with('[') => opened.set(name, raw(&[(); 0])),
                Some(_) => opened.set(name, raw("")),
                None => {}
            }
        }
        let whole = |item: &RawObject| [("output_index", raw(&index)), ("item", item.to_raw())];

        self.tell("response.output_item.added", whole(&opened));
        let at = Place {
            item: index,
            id: item.raw("id").map(ToOwned::to_owned),
            part: None,
        };
        match kind.as_str() {
            "message" => self.parts(&at, item, "content"),
            "reasoning" => {
                self.parts(&at, item, "summary");
                self.parts(&at, item, "content");
            }
            "function_call" => {
                self.text(&at, "response.function_call_arguments", "arguments", item);
            }
            "mcp_call" => self.text(&at, "response.mcp_call_arguments", "arguments", item),
            "custom_tool_call" => {
                self.text(&at, "response.custom_tool_call_input", "input", item);
            }
            _ => {}
        }
        self.tell("response.output_item.done", whole(item));
    }

    /// Tells the parts of an item in one of its lists.
    fn parts(&mut self, at: &Place, item: &RawObject, list: &str) {
        let (part_kind, number) = if list == "summary" {
            ("response.reasoning_summary_part", "summary_index")
        } else {
            ("response.content_part", "content_index")
        };
        for (place, part) in (0..).zip(item.items(list)) {
            let Some(part) = RawObject::parse(part.get()) else {
                continue;
            };
            let kind = part.text("type").unwrap_or_default();
            let (stem, name) = match kind.as_str() {
                "output_text" => ("response.output_text", "text"),
                "reasoning_text" => ("response.reasoning_text", "text"),
                "refusal" => ("response.refusal", "refusal"),
                "summary_text" => ("response.reasoning_summary_text", "text"),
                _ => continue,
            };
            let at = Place {
                part: Some((number, place)),
                id: at.id.clone(),
                ..*at
            };
            let mut empty = part.clone();
            empty.set(name, raw(""));
            self.tell(
                &format!("{part_kind}.added"),
                at.fields([("part", empty.to_raw())]),
            );
            self.text(&at, stem, name, &part);
            for (number, annotation) in (0_u64..).zip(part.items("annotations")) {
                let fields = [
                    ("annotation_index", raw(&number)),
                    ("annotation", annotation),
                ];
                self.tell("response.output_text.annotation.added", at.fields(fields));
            }
            self.tell(
                &format!("{part_kind}.done"),
                at.fields([("part", part.to_raw())]),
            );
        }
    }

    /// Tells the text in a field of a part or item: all of it as one delta, and that it is done.
    fn text(&mut self, at: &Place, stem: &str, name: &str, holder: &RawObject) {
        let Some(text) = holder.get(name) else { return };
        if is_truthy(Some(text)) {
            let fields = at.fields([("delta", text.to_owned())]);
            self.tell(&format!("{stem}.delta"), fields);
        }
        let fields = at.fields([(name, text.to_owned())]);
        self.tell(&format!("{stem}.done"), fields);
    }
}

/// Where an event belongs: an item, and a part of it by the name and the value of its number.
struct Place {
    item: u64,
    id: Option<Box<RawValue>>,
    part: Option<(&'static str, u64)>,
}

impl Place {
    /// Returns the fields of an event: those that say where it belongs, and `more`.
    fn fields<'n, const N: usize>(
        &self,
        more: [(&'n str, Box<RawValue>); N],
    ) -> Vec<(&'n str, Box<RawValue>)> {
        let mut fields = Vec::with_capacity(N + 3);
        if let Some(id) = &self.id {
            fields.push(("item_id", id.clone()));
        }
        fields.push(("output_index", raw(&self.item)));
        if let Some((number, place)) = self.part {
            fields.push((number, raw(&place)));
        }
        fields.extend(more);
        fields
    }
}
