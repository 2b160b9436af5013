//! OpenAI Responses, and the servers that speak it.
//!
//! An answer is a list of items that open, fill and close, told apart by `output_index`: some
//! gateways change an item's id from event to event. Deltas are the truth; final values fill in
//! only what no delta brought, since some servers send an empty snapshot at the end.

use lifesign_core::{Block, BlockKind, FailureCode, WireDefaults};
use serde_json::value::RawValue;

use self::event::{Frame, ItemFields, Payload, Response};
use self::item::{Holds, Item, Slot};
use self::whole::Whole;
use crate::ProviderError;
use crate::answer::Answer;
use crate::beat::Forwarded;
use crate::dialect::Scanned;
use crate::dialect::{
    Decode, Dialect, EventSink, Finishes, Meaning, NotThisWire, Oddities, defaults,
};
use crate::error_body::is_error_frame;
use crate::error_out::ErrorOut;
use crate::event::{Event, ToolPiece};
use crate::frame::SseEvent;
use crate::habits::StreamHabits;
use crate::lenient::{Text, from_json, is_truthy};
use crate::repetition::Kind;
use crate::request::EncodeError;
use crate::request::Request;
use crate::tool_calls::EmptyArguments;
use crate::work;

mod downstream;
mod event;
mod item;
mod request;
mod scan;
mod whole;

/// The dialect.
pub(crate) struct OpenAiResponses;

impl Dialect for OpenAiResponses {
    fn name(&self) -> &'static str {
        "openai-responses"
    }

    fn path(&self) -> &'static str {
        "/responses"
    }

    fn key_variable(&self) -> &'static str {
        "OPENAI_API_KEY"
    }

    fn authorize(&self, key: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {key}"))
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn defaults(&self) -> WireDefaults {
        WireDefaults {
            between_events: false,
            ..defaults(self.name())
        }
    }

    fn encode(&self, request: &Request) -> Result<Vec<u8>, EncodeError> {
        request::encode(request)
    }

    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(Decoder::default())
    }

    fn scan(&self, data: &[u8]) -> Option<Scanned> {
        scan::scan(data)
    }

    fn empty_arguments(&self) -> EmptyArguments {
        EmptyArguments::Kept
    }

    fn habits(&self) -> StreamHabits {
        StreamHabits {
            is_numbered: true,
            ..StreamHabits::default()
        }
    }

    fn beat(&self, forwarded: &Forwarded<'_>) -> Option<Vec<u8>> {
        downstream::beat(forwarded)
    }

    fn early_beat(&self) -> Option<Vec<u8>> {
        Some(downstream::early_beat())
    }

    fn error_body(&self, error: &ErrorOut<'_>) -> Vec<u8> {
        downstream::error_body(error)
    }

    fn error_frame(&self, error: &ErrorOut<'_>, forwarded: &Forwarded<'_>) -> Vec<u8> {
        downstream::error_frame(error, forwarded)
    }

    fn events_of_whole(&self, body: &str) -> Option<Vec<u8>> {
        whole::events(body)
    }
}

/// Decodes one response.
#[derive(Debug, Default)]
struct Decoder {
    is_started: bool,
    items: Vec<Item>,
    calls: usize,
    server_calls: usize,
    /// The items that deltas of unknown kinds went into.
    filled: Vec<u64>,
    last_sequence: Option<u64>,
    oddities: Oddities,
    /// What the whole body needs, where it is asked for.
    whole: Option<Box<Whole>>,
}

impl Decode for Decoder {
    fn event(&mut self, event: SseEvent<'_>, sink: EventSink<'_>) -> Meaning {
        if let Some(error) = event.error {
            return fail(error, sink);
        }
        let data = event.data.trim_ascii();
        if data.starts_with(b"[DONE]") {
            return Meaning::contentless(Kind::new(b"[DONE]"), None);
        }
        if event.name == Some(b"error") {
            return fail(data, sink);
        }
        let Some(frame) = from_json::<Frame<'_>>(data) else {
            self.oddities.unreadable_events += 1;
            return Meaning::UNREADABLE;
        };
        if frame.kind.filled().is_none() && is_error_frame(data) {
            return fail(data, sink);
        }
        self.follow(frame.sequence_number.0);
        let name = event.name.and_then(|name| std::str::from_utf8(name).ok());
        let kind = frame.kind.filled().or(name).unwrap_or_default();
        self.frame(kind, &frame, data, sink)
    }

    fn whole(&mut self, body: &[u8], sink: EventSink<'_>) -> Result<(), NotThisWire> {
        let response: Response<'_> = from_json(body).ok_or(NotThisWire)?;
        if response.object.as_str() != "response" && response.output.0.is_none() {
            return Err(NotThisWire);
        }
        self.start(&response, sink);
        self.take_snapshot(&response, sink);
        // One that still runs in the background has no end.
        if !matches!(response.status.as_str(), "in_progress" | "queued") {
            end(response.status.as_str(), &response, body, sink);
        }
        Ok(())
    }

    /// The finish and the end are one event.
    fn finishes(&self) -> Finishes {
        Finishes::None
    }

    fn round_trip(&mut self, _: &Answer) -> Vec<Box<RawValue>> {
        self.items.sort_by_key(|item| item.index);
        self.items
            .iter()
            .filter_map(|item| item.last.clone())
            .collect()
    }

    fn keep_whole(&mut self) {
        self.whole = Some(Box::default());
    }

    fn whole_body(&self) -> Option<Vec<u8>> {
        Some(self.whole.as_ref()?.body(&self.items)?.to_bytes())
    }

    fn kept(&self) -> usize {
        self.whole.as_ref().map_or(0, |whole| whole.kept())
    }

    fn oddities(&self) -> Oddities {
        self.oddities
    }
}

impl Decoder {
    fn frame(
        &mut self,
        kind: &str,
        frame: &Frame<'_>,
        data: &[u8],
        sink: EventSink<'_>,
    ) -> Meaning {
        let index = frame.output_index.0.unwrap_or_default();
        if let Some(whole) = &mut self.whole {
            whole.add(kind, index, data);
        }
        let part = frame
            .content_index
            .0
            .or(frame.summary_index.0)
            .unwrap_or_default();
        let is_delta = kind.strip_suffix(".delta").is_some();
        let text = if is_delta {
            &frame.delta
        } else {
            frame.final_value()
        };
        let slot = match kind {
            "response.output_text.delta" | "response.output_text.done" => Slot::Text(part),
            "response.refusal.delta" | "response.refusal.done" => Slot::Refusal(part),
            "response.reasoning_summary_text.delta" | "response.reasoning_summary_text.done" => {
                Slot::Summary(part)
            }
            "response.reasoning_text.delta" | "response.reasoning_text.done" => Slot::Raw(part),
            "response.function_call_arguments.delta"
            | "response.function_call_arguments.done"
            | "response.custom_tool_call_input.delta"
            | "response.custom_tool_call_input.done"
            | "response.mcp_call_arguments.delta"
            | "response.mcp_call_arguments.done" => Slot::Arguments,
            "response.content_part.done" | "response.reasoning_summary_part.done" => {
                let told = self.part(index, part, frame, sink);
                return told.unwrap_or_else(|| contentless(kind, data));
            }
            _ => return self.other(kind, frame, data, sink),
        };
        if let Some(whole) = self.whole.as_mut().filter(|_| is_delta) {
            whole.add_text(index, slot, text.as_str());
        }
        let item = self.item(index, slot.holds(kind), sink);
        let told = if is_delta {
            item.tell(slot, text.as_str(), sink)
        } else {
            item.tell_final(slot, text.as_str(), sink)
        };
        let told = match told {
            None if is_delta => self.unknown(kind, index, data, sink),
            told => told,
        };
        told.map_or_else(
            || contentless(kind, data),
            |meaning| meaning.with_block(Some(Block::Fills)),
        )
    }

    /// Takes in a part of an item that is done; returns what it brought that no delta did.
    fn part(
        &mut self,
        index: u64,
        part: u64,
        frame: &Frame<'_>,
        sink: EventSink<'_>,
    ) -> Option<Meaning> {
        let fields = frame.part.0.as_ref()?;
        let (slot, text) = match (fields.text.filled(), fields.refusal.filled()) {
            (Some(text), _) if fields.kind.as_str() == "summary_text" => {
                (Slot::Summary(part), text)
            }
            (Some(text), _) if fields.kind.as_str() == "reasoning_text" => (Slot::Raw(part), text),
            (Some(text), _) => (Slot::Text(part), text),
            (None, Some(refusal)) => (Slot::Refusal(part), refusal),
            (None, None) => return None,
        };
        let item = self.item(index, slot.holds(""), sink);
        item.tell_final(slot, text, sink)
    }

    /// Takes in an event of a kind that nobody knows; returns what it brought. A final value counts
    /// where no delta came before.
    fn unknown(
        &mut self,
        kind: &str,
        index: u64,
        data: &[u8],
        sink: EventSink<'_>,
    ) -> Option<Meaning> {
        let is_done = kind.strip_suffix(".done").is_some();
        if !is_done && kind.strip_suffix(".delta").is_none() {
            return None;
        }
        let payload = from_json::<Payload<'_>>(data)?;
        let value = payload.value()?;
        if is_done && self.filled.contains(&index) {
            return None;
        }
        self.fill(index);
        let is_output = !kind.contains("reasoning");
        sink(Event::Other {
            data: value,
            is_output,
        });
        Some(if is_output {
            Meaning::OUTPUT
        } else {
            Meaning::REASONING
        })
    }

    fn fill(&mut self, index: u64) {
        if !self.filled.contains(&index) {
            self.filled.push(index);
        }
    }

    /// Takes in what is no piece of text or arguments.
    fn other(
        &mut self,
        kind: &str,
        frame: &Frame<'_>,
        data: &[u8],
        sink: EventSink<'_>,
    ) -> Meaning {
        let index = frame.output_index.0.unwrap_or_default();
        let told = match kind {
            "error" => return fail(data, sink),
            "keepalive" | "ping" | "response.heartbeat" | "response.keep_alive" => {
                return Meaning::HEARTBEAT;
            }
            "response.created" | "response.in_progress" | "response.queued" => {
                if let Some(response) = &frame.response.0 {
                    self.start(response, sink);
                }
                None
            }
            "response.completed" | "response.failed" | "response.incomplete" => {
                let empty = Response::default();
                let response = frame.response.0.as_deref().unwrap_or(&empty);
                self.start(response, sink);
                let brought = self.take_snapshot(response, sink);
                let named = kind.strip_prefix("response.").unwrap_or(kind);
                let is_over = end(response.status_at_end(named), response, data, sink);
                Some(if is_over || brought.is_some() {
                    Meaning::OUTPUT
                } else {
                    Meaning::contentless(Kind::new(b"error"), None)
                })
            }
            "response.output_item.added" => frame.item.map(|raw| self.open(index, raw, sink)),
            "response.output_item.done" => frame.item.map(|raw| {
                self.close(index, raw, sink)
                    .unwrap_or_else(|| contentless(kind, data))
                    .with_block(Some(Block::Closes))
            }),
            "response.output_text.annotation.added" => {
                let annotation = frame.annotation.filter(|raw| is_truthy(Some(raw)));
                annotation.map(|raw| {
                    sink(Event::Citation(raw.get()));
                    Meaning::OUTPUT
                })
            }
            _ if kind.strip_suffix(".partial_image").is_some() => {
                let told = media(frame.partial_image, sink);
                let told = told.unwrap_or_else(|| contentless(kind, data));
                Some(told.with_block(Some(Block::Fills)))
            }
            _ if is_audio(kind) => {
                self.fill(index);
                media(frame.raw_delta(data), sink)
            }
            // What a tool of the provider's writes or prints as it runs, and what is not known yet.
            _ => match self.unknown(kind, index, data, sink) {
                Some(told) => Some(told.with_block(Some(Block::Fills))),
                None if is_error_frame(data) => return fail(data, sink),
                None => None,
            },
        };
        told.unwrap_or_else(|| contentless(kind, data))
    }

    /// Follows the numbers of the events: a gap means that some were lost.
    fn follow(&mut self, number: Option<u64>) {
        let Some(number) = number else { return };
        if self
            .last_sequence
            .is_some_and(|last| number > last.saturating_add(1))
        {
            self.oddities.sequence_gaps += 1;
        }
        self.last_sequence = Some(number);
    }

    fn start(&mut self, response: &Response<'_>, sink: EventSink<'_>) {
        let (id, model) = (response.id.filled(), response.model.filled());
        if !self.is_started && (id.is_some() || model.is_some()) {
            self.is_started = true;
            sink(Event::Started { id, model });
        }
    }

    /// Returns the item at `index`; opens it if nobody said that it does.
    fn item(&mut self, index: u64, holds: Holds, sink: EventSink<'_>) -> &mut Item {
        if let Some(at) = self.items.iter().position(|item| item.index == index) {
            return &mut self.items[at];
        }
        let mut item = Item::new(index, holds);
        self.number(&mut item);
        item.tell_identity(&ItemFields::default(), sink);
        self.items.push(item);
        let at = self.items.len() - 1;
        &mut self.items[at]
    }

    fn number(&mut self, item: &mut Item) {
        let count = match item.holds {
            Holds::Call | Holds::CustomCall => &mut self.calls,
            Holds::ServerCall => &mut self.server_calls,
            _ => return,
        };
        item.call = *count;
        *count += 1;
    }

    fn open(&mut self, index: u64, raw: &RawValue, sink: EventSink<'_>) -> Meaning {
        let fields = ItemFields::parse(raw);
        let kind = fields.kind.as_str();
        let holds = Holds::of(kind);
        let mut item = Item::new(index, holds);
        self.number(&mut item);
        item.tell_identity(&fields, sink);
        let told = match holds {
            Holds::Call | Holds::CustomCall | Holds::ServerCall => Some(Meaning::OUTPUT),
            Holds::Hosted => {
                sink(Event::ServerTool(raw.get()));
                Some(Meaning::OUTPUT)
            }
            Holds::Reasoning => item.tell_encrypted(&fields, sink),
            Holds::Message => None,
            Holds::Unknown => item.tell_unknown(&fields, sink),
        };
        // What it holds already comes again with its final value, if that comes.
        let told = told.or_else(|| fields.tell_early(sink));
        self.items.retain(|item| item.index != index);
        self.items.push(item);
        told.unwrap_or(Meaning::contentless(Kind::new(b"output_item.added"), None))
            .with_block(Some(Block::Opens(holds.block())))
    }

    /// Takes in an item's final value; returns what it brought that no delta did.
    fn close(&mut self, index: u64, raw: &RawValue, sink: EventSink<'_>) -> Option<Meaning> {
        let fields = ItemFields::parse(raw);
        let holds = Holds::of(fields.kind.as_str());
        if !self.items.iter().any(|item| item.index == index) {
            let mut item = Item::new(index, holds);
            self.number(&mut item);
            item.tell_identity(&fields, sink);
            self.items.push(item);
        }
        let item = self.items.iter_mut().find(|item| item.index == index)?;
        item.last = Some(raw.to_owned());
        item.tell_rest(&fields, raw, sink)
    }

    /// Fills in from the final snapshot what was not streamed; returns what it brought.
    fn take_snapshot(&mut self, response: &Response<'_>, sink: EventSink<'_>) -> Option<Meaning> {
        let output = response.output.items();
        if !output.is_empty() && !self.items.is_empty() && output.len() != self.items.len() {
            self.oddities.snapshot_mismatches += 1;
        }
        let mut brought = None;
        for (index, raw) in (0..).zip(output) {
            let is_done = self
                .items
                .iter()
                .any(|item| item.index == index && item.last.is_some());
            if !is_done {
                brought = self.close(index, raw, sink).or(brought);
            }
        }
        brought
    }
}

/// Tells how the response ended: `status` is the word for it, `data` the event or body. Returns
/// whether it is an answer.
fn end(status: &str, response: &Response<'_>, data: &[u8], sink: EventSink<'_>) -> bool {
    if let Some(usage) = response.usage() {
        sink(Event::Usage(usage));
    }
    match status {
        "failed" => {
            let error = response.error.filter(|raw| is_truthy(Some(raw)));
            let error = match error {
                Some(_) => ProviderError::of_frame(data),
                None => ProviderError::new(FailureCode::ProviderError, "the response failed"),
            };
            sink(Event::Error(&error));
            return false;
        }
        "incomplete" => {
            let details = response.incomplete_details.0.as_ref();
            match details.and_then(|details| details.reason.filled()) {
                Some(reason) => sink(Event::Finish(&format!("incomplete:{reason}"))),
                None => sink(Event::Finish("incomplete")),
            }
            sink(Event::Terminal);
        }
        "cancelled" => {
            let message = "the response was cancelled at the provider";
            sink(Event::Error(&ProviderError::new(
                FailureCode::ProviderError,
                message,
            )));
            return false;
        }
        _ => {
            sink(Event::Finish("completed"));
            sink(Event::Terminal);
        }
    }
    true
}

fn contentless(kind: &str, data: &[u8]) -> Meaning {
    Meaning::contentless(Kind::new(kind.as_bytes()), work::in_frame(data))
}

fn is_audio(kind: &str) -> bool {
    ["response.audio.delta", "response.output_audio.delta"].contains(&kind)
}

fn fail(data: &[u8], sink: EventSink<'_>) -> Meaning {
    sink(Event::Error(&ProviderError::of_frame(data)));
    Meaning::contentless(Kind::new(b"error"), None)
}

fn media(raw: Option<&RawValue>, sink: EventSink<'_>) -> Option<Meaning> {
    let raw = raw.filter(|raw| is_truthy(Some(raw)))?;
    sink(Event::Media(raw.get()));
    Some(Meaning::OUTPUT)
}

impl Slot {
    /// Returns what an item holds that fills this slot, if nobody said.
    fn holds(self, kind: &str) -> Holds {
        match self {
            Self::Text(_) | Self::Refusal(_) => Holds::Message,
            Self::Summary(_) | Self::Raw(_) => Holds::Reasoning,
            Self::Arguments if kind.starts_with("response.custom") => Holds::CustomCall,
            Self::Arguments if kind.starts_with("response.mcp") => Holds::ServerCall,
            Self::Arguments => Holds::Call,
        }
    }
}

impl Frame<'_> {
    /// Returns the final value that a `done` event brings.
    fn final_value(&self) -> &Text<'_> {
        [&self.text, &self.refusal, &self.arguments, &self.input]
            .into_iter()
            .find(|text| text.get().is_some())
            .unwrap_or(&self.text)
    }
}

impl<'a> Frame<'a> {
    /// Returns the raw value of the delta.
    fn raw_delta(&self, data: &'a [u8]) -> Option<&'a RawValue> {
        self.delta.filled()?;
        from_json::<event::RawDelta<'a>>(data)?.delta
    }
}

impl Holds {
    const fn block(self) -> BlockKind {
        match self {
            Self::Message => BlockKind::Text,
            Self::Reasoning => BlockKind::Thinking,
            Self::Call | Self::CustomCall => BlockKind::Tool,
            Self::ServerCall | Self::Hosted | Self::Unknown => BlockKind::ServerTool,
        }
    }
}

/// Returns a piece of the call that `item` is.
fn piece<'a>(item: &Item, arguments: &'a str) -> ToolPiece<'a> {
    let kind = match item.holds {
        Holds::CustomCall => Some("custom_tool_call"),
        Holds::ServerCall => Some("mcp_call"),
        _ => None,
    };
    ToolPiece {
        call: item.call,
        kind,
        id: None,
        name: None,
        arguments,
    }
}
