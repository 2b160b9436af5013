//! Anthropic Messages, and the gateways that speak it.
//!
//! An answer is a list of blocks that open, fill and close. The JSON `type` tells what an event is,
//! since some gateways leave the `event:` line away; types that nobody knows are passed over.

use std::time::Duration;

use lifesign_core::{Block, BlockKind, Usage, WireDefaults};
use serde_json::value::RawValue;

use self::block::{Kind as Holds, Open};
use self::event::{Delta, Frame, Message, RawDelta, Tokens};
use self::whole::Whole;
use crate::ProviderError;
use crate::answer::Answer;
use crate::beat::Forwarded;
use crate::dialect::Scanned;
use crate::dialect::{
    Decode, Dialect, EventSink, Finishes, Meaning, NotThisWire, Oddities, Told, defaults,
};
use crate::error_body::is_error_frame;
use crate::error_out::ErrorOut;
use crate::event::{Event, ToolPiece};
use crate::frame::SseEvent;
use crate::habits::StreamHabits;
use crate::lenient::from_json;
use crate::repetition::Kind;
use crate::request::EncodeError;
use crate::request::Request;
use crate::tool_calls::EmptyArguments;
use crate::work;

mod block;
mod downstream;
mod event;
mod request;
mod scan;
mod whole;

/// The dialect.
pub(crate) struct Anthropic;

impl Dialect for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn path(&self) -> &'static str {
        "/messages"
    }

    fn key_variable(&self) -> &'static str {
        "ANTHROPIC_API_KEY"
    }

    fn authorize(&self, key: &str) -> (&'static str, String) {
        ("x-api-key", key.to_owned())
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn defaults(&self) -> WireDefaults {
        WireDefaults {
            raw_silence: Duration::from_mins(3),
            shows_work: true,
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

    fn default_max_tokens(&self) -> Option<u64> {
        Some(DEFAULT_MAX_TOKENS)
    }

    fn empty_arguments(&self) -> EmptyArguments {
        EmptyArguments::Object
    }

    fn habits(&self) -> StreamHabits {
        StreamHabits {
            starts_apart: true,
            ..StreamHabits::default()
        }
    }

    fn beat(&self, _: &Forwarded<'_>) -> Option<Vec<u8>> {
        Some(downstream::beat())
    }

    fn error_body(&self, error: &ErrorOut<'_>) -> Vec<u8> {
        downstream::error_body(error)
    }

    fn error_frame(&self, error: &ErrorOut<'_>, _: &Forwarded<'_>) -> Vec<u8> {
        downstream::error_frame(error)
    }

    fn events_of_whole(&self, body: &str) -> Option<Vec<u8>> {
        whole::events(body)
    }
}

/// Decodes one message.
#[derive(Debug, Default)]
struct Decoder {
    is_started: bool,
    is_finished: bool,
    blocks: Vec<Open>,
    calls: usize,
    server_calls: usize,
    usage: Usage,
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
            // Some gateways put it behind `message_stop`, or in its place.
            if self.is_finished {
                sink(Event::Terminal);
                return Meaning::END;
            }
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
        let name = event.name.and_then(|name| std::str::from_utf8(name).ok());
        let kind = frame.kind.filled().or(name).unwrap_or_default();
        self.frame(kind, &frame, data, sink)
    }

    fn whole(&mut self, body: &[u8], sink: EventSink<'_>) -> Result<(), NotThisWire> {
        let frame: Frame<'_> = from_json(body).ok_or(NotThisWire)?;
        match frame.kind.as_str() {
            "error" => {
                fail(body, sink);
                Ok(())
            }
            "message" => {
                let message: Message<'_> = from_json(body).ok_or(NotThisWire)?;
                self.whole_message(&message, sink);
                Ok(())
            }
            _ => Err(NotThisWire),
        }
    }

    fn finishes(&self) -> Finishes {
        if self.is_finished {
            Finishes::All
        } else {
            Finishes::None
        }
    }

    fn round_trip(&mut self, answer: &Answer) -> Vec<Box<RawValue>> {
        self.blocks
            .iter()
            .filter_map(|block| block.whole(&answer.tool_calls))
            .collect()
    }

    fn keep_whole(&mut self) {
        self.whole = Some(Box::default());
    }

    fn whole_body(&self) -> Option<Vec<u8>> {
        Some(self.whole.as_ref()?.body(&self.blocks).to_bytes())
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
        if let Some(whole) = &mut self.whole {
            whole.add(kind, data);
        }
        let index = frame.index.0.unwrap_or_default();
        match kind {
            "content_block_delta" => match &frame.delta.0 {
                Some(delta) => self.delta(index, delta, data, sink),
                None => contentless(Kind::new(b"content_block_delta"), data),
            },
            "content_block_start" => match frame.content_block {
                Some(block) => self.open(index, block, sink),
                None => Meaning::contentless(Kind::new(b"content_block_start"), None),
            },
            "content_block_stop" => self.close(index, sink),
            "error" => fail(data, sink),
            "message_delta" => self.message_delta(frame, data, sink),
            "message_start" => {
                if let Some(message) = &frame.message.0 {
                    self.start(message, sink);
                }
                Meaning::contentless(Kind::new(b"message_start"), None)
            }
            "message_stop" => {
                sink(Event::Terminal);
                Meaning::END
            }
            "keepalive" | "ping" => Meaning::HEARTBEAT,
            _ if is_error_frame(data) => fail(data, sink),
            unknown => contentless(Kind::new(b"unknown").and(unknown.as_bytes()), data),
        }
    }

    fn start(&mut self, message: &Message<'_>, sink: EventSink<'_>) {
        // A gateway may splice a second one in; the first stands.
        if !self.is_started {
            self.is_started = true;
            sink(Event::Started {
                id: message.id.filled(),
                model: message.model.filled(),
            });
        }
        self.count(message.usage.0.as_ref(), sink);
    }

    /// Takes in cumulative usage. Events that do not know the input say that it is zero: a count
    /// that falls to zero is not told, save that of the output, which they are about.
    fn count(&mut self, tokens: Option<&Tokens>, sink: EventSink<'_>) {
        let Some(tokens) = tokens else { return };
        let told = tokens.usage();
        let known = &mut self.usage;
        let add = |known: &mut Option<u64>, told: Option<u64>| {
            if told.is_some_and(|told| told > 0) || known.is_none() {
                *known = told.or(*known);
            }
        };
        add(&mut known.input_tokens, told.input_tokens);
        known.output_tokens = told.output_tokens.or(known.output_tokens);
        add(&mut known.cached_input_tokens, told.cached_input_tokens);
        add(&mut known.reasoning_tokens, told.reasoning_tokens);
        if !known.is_unknown() {
            sink(Event::Usage(*known));
        }
    }

    fn message_delta(&mut self, frame: &Frame<'_>, data: &[u8], sink: EventSink<'_>) -> Meaning {
        self.count(frame.usage.0.as_deref(), sink);
        let reason = frame
            .delta
            .0
            .as_ref()
            .and_then(|delta| delta.stop_reason.filled());
        if let Some(reason) = reason {
            self.is_finished = true;
            sink(Event::Finish(reason));
            return Meaning::OUTPUT.with_block(Some(Block::Closes));
        }
        contentless(Kind::new(b"message_delta"), data)
    }

    fn open(&mut self, index: u64, raw: &RawValue, sink: EventSink<'_>) -> Meaning {
        let open = Open::new(index, raw);
        let opens = Some(Block::Opens(open.holds.block()));
        let meaning = self.opened(open, sink);
        meaning.with_block(opens)
    }

    /// Takes in a block that opens, and tells what it already holds.
    fn opened(&mut self, mut open: Open, sink: EventSink<'_>) -> Meaning {
        let start = open.first.clone();
        let start = block::Start::parse(&start);
        let meaning = match open.holds {
            Holds::Text => {
                for raw in start.citations.items() {
                    sink(Event::Citation(raw.get()));
                }
                let text = say(start.text.filled(), Event::Text, Meaning::OUTPUT, sink);
                text.or_else(|| (!start.citations.items().is_empty()).then_some(Meaning::OUTPUT))
            }
            Holds::Thinking => {
                // Even an empty one says that the field is there.
                sink(Event::Reasoning(start.thinking.as_str()));
                let thinking = start.thinking.filled().is_some();
                let signature = say(
                    start.signature.filled(),
                    Event::Signature,
                    Meaning::REASONING,
                    sink,
                );
                match (thinking, signature) {
                    (true, _) | (_, Some(_)) => Some(Meaning::REASONING),
                    _ => None,
                }
            }
            Holds::Redacted => say(
                start.data.filled(),
                Event::Signature,
                Meaning::REASONING,
                sink,
            ),
            Holds::Tool | Holds::ServerTool => {
                let is_server = open.holds == Holds::ServerTool;
                let count = if is_server {
                    &mut self.server_calls
                } else {
                    &mut self.calls
                };
                open.call = *count;
                *count += 1;
                let piece = ToolPiece {
                    id: start.id.filled(),
                    name: start.name.filled(),
                    ..open.piece("")
                };
                sink(if is_server {
                    Event::ServerToolCall(piece)
                } else {
                    Event::ToolCall(piece)
                });
                Some(Meaning::OUTPUT)
            }
            Holds::Result => {
                sink(Event::ServerTool(open.first.get()));
                Some(Meaning::OUTPUT)
            }
            Holds::Compaction | Holds::Unknown => {
                say(block::payload(&open.first), other, Meaning::OUTPUT, sink)
            }
        };
        self.blocks.push(open);
        meaning.unwrap_or(Meaning::contentless(
            Kind::new(b"content_block_start"),
            None,
        ))
    }

    fn delta(
        &mut self,
        index: u64,
        delta: &Delta<'_>,
        data: &[u8],
        sink: EventSink<'_>,
    ) -> Meaning {
        let kind = delta.kind.as_str();
        if !self
            .blocks
            .iter()
            .any(|block| block.index == index && !block.is_closed)
        {
            // Its start was lost, or never sent.
            self.blocks.push(Open::without_start(index, kind));
        }
        let Some(block) = self.blocks.iter_mut().rfind(|block| block.index == index) else {
            return contentless(Kind::new(b"content_block_delta"), data);
        };
        let meaning = match kind {
            "citations_delta" => delta.citation.map(|citation| {
                block.citations.push(citation.to_owned());
                sink(Event::Citation(citation.get()));
                Meaning::OUTPUT
            }),
            "compaction_delta" => delta.content.filled().map(|text| {
                block.text.push_str(text);
                sink(other(text));
                Meaning::OUTPUT
            }),
            "input_json_delta" => delta.partial_json.filled().map(|json| {
                block.text.push_str(json);
                let piece = block.piece(json);
                sink(if block.holds == Holds::ServerTool {
                    Event::ServerToolCall(piece)
                } else {
                    Event::ToolCall(piece)
                });
                Meaning::OUTPUT
            }),
            "signature_delta" => delta.signature.filled().map(|signature| {
                block.signature.push_str(signature);
                sink(Event::Signature(signature));
                Meaning::REASONING
            }),
            "text_delta" => delta.text.filled().map(|text| {
                block.text.push_str(text);
                sink(Event::Text(text));
                Meaning::OUTPUT
            }),
            "thinking_delta" => delta.thinking.filled().map(|text| {
                block.text.push_str(text);
                sink(Event::Reasoning(text));
                Meaning::REASONING
            }),
            _ => {
                let delta = from_json::<RawDelta<'_>>(data).map(|frame| frame.delta);
                let payload = delta.and_then(block::payload);
                say(payload, other, Meaning::OUTPUT, sink)
            }
        };
        let empty = || {
            let kind = Kind::new(b"content_block_delta").and(kind.as_bytes());
            contentless(kind, data)
        };
        meaning.map_or_else(empty, |meaning| meaning.with_block(Some(Block::Fills)))
    }

    fn close(&mut self, index: u64, sink: EventSink<'_>) -> Meaning {
        let mut meaning = Meaning::contentless(Kind::new(b"content_block_stop"), None);
        let mut closes = Block::Closes;
        if let Some(block) = self.blocks.iter_mut().rfind(|block| block.index == index) {
            block.is_closed = true;
            if block.holds == Holds::ServerTool {
                // The provider runs it now: its result fills in the dark.
                closes = Block::Opens(BlockKind::ServerTool);
            }
            if let Some(input) = block.input_of_start() {
                // A gateway sent the whole input with the start, and no delta.
                input.clone_into(&mut block.text);
                let piece = block.piece(&input);
                sink(if block.holds == Holds::ServerTool {
                    Event::ServerToolCall(piece)
                } else {
                    Event::ToolCall(piece)
                });
                meaning = Meaning::of(Told::Output);
            }
        }
        meaning.with_block(Some(closes))
    }

    fn whole_message(&mut self, message: &Message<'_>, sink: EventSink<'_>) {
        self.start(message, sink);
        for (index, raw) in (0..).zip(message.content.items()) {
            let open = Open::new(index, raw);
            if matches!(
                open.holds,
                Holds::Text | Holds::Thinking | Holds::Compaction
            ) {
                self.opened(open, sink);
                continue;
            }
            self.opened(open, sink);
            self.close(index, sink);
        }
        if let Some(reason) = message.stop_reason.filled() {
            self.is_finished = true;
            sink(Event::Finish(reason));
        }
        sink(Event::Terminal);
    }
}

fn contentless(kind: Kind, data: &[u8]) -> Meaning {
    Meaning::contentless(kind, work::in_frame(data))
}

const fn other(data: &str) -> Event<'_> {
    Event::Other {
        data,
        is_output: true,
    }
}

fn fail(data: &[u8], sink: EventSink<'_>) -> Meaning {
    sink(Event::Error(&ProviderError::of_frame(data)));
    Meaning::contentless(Kind::new(b"error"), None)
}

fn say<'a>(
    text: Option<&'a str>,
    event: impl FnOnce(&'a str) -> Event<'a>,
    meaning: Meaning,
    sink: EventSink<'_>,
) -> Option<Meaning> {
    text.map(|text| {
        sink(event(text));
        meaning
    })
}

/// What an answer may have where nobody says: the wire wants a number, and every model takes this
/// one.
const DEFAULT_MAX_TOKENS: u64 = 4_096;
