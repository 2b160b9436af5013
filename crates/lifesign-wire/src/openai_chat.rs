//! OpenAI Chat Completions, and all the servers that write something like it.
//!
//! One grammar covers them: take each field in whatever type it comes, let nothing but an `error`
//! end the stream early, and let the first of everything that is repeated decide.

use lifesign_core::{Block, BlockKind, FailureCode, WireDefaults};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use self::chunk::{CallPiece, Choice, Chunk, Content, Delta, Function};
use self::reasoning::Reasoning;
use self::whole::Whole;
use crate::ProviderError;
use crate::answer::Answer;
use crate::beat::Forwarded;
use crate::dialect::Scanned;
use crate::dialect::{
    Decode, Dialect, EventSink, Finishes, Meaning, NotThisWire, Oddities, Told, defaults,
};
use crate::error_out::ErrorOut;
use crate::event::{Event, ToolPiece};
use crate::frame::SseEvent;
use crate::habits::StreamHabits;
use crate::lenient::{Object, Text, from_json, is_truthy};
use crate::repetition::Kind;
use crate::request::EncodeError;
use crate::request::Request;
use crate::tool_calls::{EmptyArguments, Identities, Identity};
use crate::work;

mod chunk;
mod details;
mod downstream;
mod reasoning;
mod request;
mod scan;
mod whole;

/// The dialect.
pub(crate) struct OpenAiChat;

impl Dialect for OpenAiChat {
    fn name(&self) -> &'static str {
        "openai-chat"
    }

    fn path(&self) -> &'static str {
        "/chat/completions"
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
        defaults(self.name())
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
            end_marker: Some("[DONE]"),
            tells_usage_if_asked: true,
            fails_by_finish: true,
            ..StreamHabits::default()
        }
    }

    fn beat(&self, forwarded: &Forwarded<'_>) -> Option<Vec<u8>> {
        Some(downstream::beat(forwarded))
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

/// Decodes one chat completion.
#[derive(Debug, Default)]
struct Decoder {
    has_id: bool,
    has_model: bool,
    /// The choices seen, and whether each has a finish.
    choices: Vec<(u64, bool)>,
    /// The choice that the answer is.
    speaker: Option<u64>,
    calls: Identities,
    tool: OpenTool,
    reasoning: Reasoning,
    oddities: Oddities,
    /// What the whole body needs, where it is asked for.
    whole: Option<Box<Whole>>,
}

/// Whether a call is open that has no arguments yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OpenTool {
    #[default]
    None,
    Empty,
    Filling,
}

/// What the choices of a chunk bring.
#[derive(Clone, Copy, Debug, Default)]
struct Brought {
    reasoning: bool,
    output: bool,
    block: Option<Block>,
}

impl Decode for Decoder {
    fn event(&mut self, event: SseEvent<'_>, sink: EventSink<'_>) -> Meaning {
        if let Some(error) = event.error {
            sink(Event::Error(&ProviderError::of_frame(error)));
            return Meaning::contentless(Kind::new(b"error"), None);
        }
        let data = event.data.trim_ascii();
        if data.starts_with(b"[DONE]") {
            sink(Event::Terminal);
            return Meaning::END;
        }
        if event.name == Some(b"error") {
            sink(Event::Error(&ProviderError::of_frame(data)));
            return Meaning::contentless(Kind::new(b"error"), None);
        }
        let Some(chunk) = from_json::<Chunk<'_>>(data) else {
            self.oddities.unreadable_events += 1;
            return Meaning::UNREADABLE;
        };
        if let Some(whole) = &mut self.whole {
            whole.add(data);
        }
        self.chunk(&chunk, data, sink)
    }

    fn whole(&mut self, body: &[u8], sink: EventSink<'_>) -> Result<(), NotThisWire> {
        let chunk: Chunk<'_> = from_json(body).ok_or(NotThisWire)?;
        let is_error = is_error(&chunk);
        if chunk.choices.0.is_none() && !is_error && !is_truthy(chunk.detail) {
            return Err(NotThisWire);
        }
        if chunk.choices.0.is_none() && !is_error {
            sink(Event::Error(&ProviderError::of_frame(body)));
            return Ok(());
        }
        self.chunk(&chunk, body, sink);
        if !is_error {
            sink(Event::Terminal);
        }
        Ok(())
    }

    fn finishes(&self) -> Finishes {
        let finished = self.choices.iter().filter(|(_, is_finished)| *is_finished);
        match finished.count() {
            0 => Finishes::None,
            count if count == self.choices.len() => Finishes::All,
            _ => Finishes::Some,
        }
    }

    fn round_trip(&mut self, answer: &Answer) -> Vec<Box<RawValue>> {
        let mut message = Map::new();
        self.reasoning.write(&mut message);
        let text = answer
            .refusal
            .as_deref()
            .map_or(answer.text.as_str(), |refusal| {
                answer.text.strip_suffix(refusal).unwrap_or(&answer.text)
            });
        if let Some(thinking) = &self.reasoning.parts {
            let mut parts = vec![json!({
                "type": "thinking",
                "thinking": [{"type": "text", "text": thinking}],
            })];
            if !text.is_empty() {
                parts.push(json!({"type": "text", "text": text}));
            }
            message.insert("content".to_owned(), Value::Array(parts));
        } else if !text.is_empty() {
            message.insert("content".to_owned(), text.into());
        }
        if let Some(refusal) = &answer.refusal {
            message.insert("refusal".to_owned(), refusal.as_str().into());
        }
        let calls: Vec<_> = answer
            .tool_calls
            .iter()
            .filter(|call| call.complete)
            .map(|call| request::tool_call(&call.id, &call.name, &call.arguments, call.is_custom()))
            .collect();
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        if message.is_empty() {
            return Vec::new();
        }
        message.entry("content").or_insert(Value::Null);
        message.insert("role".to_owned(), "assistant".into());
        to_raw_value(&message).into_iter().collect()
    }

    fn keep_whole(&mut self) {
        self.whole = Some(Box::default());
    }

    fn whole_body(&self) -> Option<Vec<u8>> {
        Some(self.whole.as_ref()?.body().to_bytes())
    }

    fn kept(&self) -> usize {
        self.whole.as_ref().map_or(0, |whole| whole.kept())
    }

    fn oddities(&self) -> Oddities {
        self.oddities
    }
}

impl Decoder {
    fn chunk(&mut self, chunk: &Chunk<'_>, data: &[u8], sink: EventSink<'_>) -> Meaning {
        self.start(chunk, sink);
        let mut brought = Brought::default();
        let mut failure = None;
        let speaker = self
            .speaker
            .or_else(|| chunk.choices().map(Choice::number).min());
        self.speaker = speaker;
        for choice in chunk.choices() {
            let reason = choice.finish_reason.filled();
            self.see(choice.number());
            if speaker == Some(choice.number()) {
                self.choice(choice, &mut brought, sink);
            } else {
                other_choice(choice, &mut brought, sink);
            }
            if let Some(reason) = reason {
                self.finish(choice, reason, &mut brought, &mut failure, sink);
            }
        }
        let usage = chunk.usage();
        if let Some(usage) = usage {
            sink(Event::Usage(usage));
        }
        if is_error(chunk) {
            sink(Event::Error(&ProviderError::of_frame(data)));
        } else if let Some(failure) = failure {
            sink(Event::Error(&failure));
        }

        let told = if brought.output {
            Told::Output
        } else if brought.reasoning {
            Told::Reasoning
        } else {
            contentless(chunk, data)
        };
        Meaning::of(told).with_block(brought.block)
    }

    fn start(&mut self, chunk: &Chunk<'_>, sink: EventSink<'_>) {
        let id = chunk.id.filled().filter(|_| !self.has_id);
        let model = chunk.model.filled().filter(|_| !self.has_model);
        if id.is_some() || model.is_some() {
            self.has_id |= id.is_some();
            self.has_model |= model.is_some();
            sink(Event::Started { id, model });
        }
    }

    fn choice(&mut self, choice: &Choice<'_>, brought: &mut Brought, sink: EventSink<'_>) {
        if let Some(delta) = &choice.delta.0 {
            self.delta(delta, brought, sink);
        } else if let Some(Object(Some(message))) = choice
            .message
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
        {
            self.delta(&message, brought, sink);
        } else if let Some(text) = choice.text.filled() {
            brought.output = true;
            sink(Event::Text(text));
        }
    }

    fn see(&mut self, index: u64) {
        if !self.choices.iter().any(|(seen, _)| *seen == index) {
            self.choices.push((index, false));
        }
    }

    fn finish(
        &mut self,
        choice: &Choice<'_>,
        reason: &str,
        brought: &mut Brought,
        failure: &mut Option<ProviderError>,
        sink: EventSink<'_>,
    ) {
        let index = choice.number();
        if reason.eq_ignore_ascii_case("error") {
            *failure = Some(ProviderError::new(
                FailureCode::ProviderError,
                "the answer ended with finish_reason \"error\"",
            ));
            return;
        }
        if let Some((_, is_finished)) = self.choices.iter_mut().find(|(seen, _)| *seen == index) {
            *is_finished = true;
        }
        brought.output = true;
        if self.speaker == Some(index) {
            sink(Event::Finish(reason));
            if std::mem::take(&mut self.tool) != OpenTool::None {
                brought.block = Some(Block::Closes);
            }
        }
    }

    fn delta(&mut self, delta: &Delta<'_>, brought: &mut Brought, sink: EventSink<'_>) {
        self.reasoning.add(delta, brought, sink);
        match &delta.content {
            Content::Nothing => {}
            Content::Text(text) => {
                if let Some(text) = text.filled() {
                    brought.output = true;
                    sink(Event::Text(text));
                }
            }
            Content::Parts(parts) => self.parts(parts, brought, sink),
        }
        if let Some(refusal) = delta.refusal.filled() {
            brought.output = true;
            sink(Event::Refusal(refusal));
        }
        let pieces = delta.tool_calls.items().iter();
        for (at, piece) in pieces.filter_map(|piece| piece.0.as_ref()).enumerate() {
            self.call(piece, at > 0, brought, sink);
        }
        if let Some(function) = &delta.function_call.0 {
            let piece = Piece {
                function: Some(function),
                ..Piece::default()
            };
            self.call_piece(&piece, brought, sink);
        }
        for raw in delta.annotations.items() {
            brought.output = true;
            sink(Event::Citation(raw.get()));
        }
        for raw in delta.executed_tools.items() {
            brought.output = true;
            sink(Event::ServerTool(raw.get()));
        }
        let images = delta.images.items().iter().copied();
        for raw in images.chain(delta.audio.filter(|raw| is_truthy(Some(raw)))) {
            brought.output = true;
            sink(Event::Media(raw.get()));
        }
    }

    fn parts(&mut self, parts: &[chunk::Part<'_>], brought: &mut Brought, sink: EventSink<'_>) {
        for part in parts {
            let before = *brought;
            *brought = Brought::default();
            for thinking in part.thinking.0.iter().filter_map(Text::filled) {
                self.reasoning
                    .parts
                    .get_or_insert_default()
                    .push_str(thinking);
                self.reasoning.is_told = true;
                brought.reasoning = true;
                sink(Event::Reasoning(thinking));
            }
            let is_text = matches!(part.kind.as_str(), "" | "text" | "output_text");
            if let Some(text) = part.text.filled().filter(|_| is_text) {
                brought.output = true;
                sink(Event::Text(text));
            }
            if let Some(refusal) = part.refusal.filled() {
                brought.output = true;
                sink(Event::Refusal(refusal));
            }
            if let Some(media) = part.media() {
                brought.output = true;
                sink(Event::Media(media.get()));
            }
            if let Some(data) = part.other().filter(|_| !brought.is_content()) {
                brought.output = true;
                sink(Event::Other {
                    data,
                    is_output: true,
                });
            }
            *brought = before.and(*brought);
        }
    }

    fn call(
        &mut self,
        piece: &CallPiece<'_>,
        follows_in_chunk: bool,
        brought: &mut Brought,
        sink: EventSink<'_>,
    ) {
        let is_custom = piece.custom.0.is_some();
        let piece = Piece {
            index: piece.index.0,
            id: piece.id.filled(),
            function: piece.custom.0.as_ref().or(piece.function.0.as_ref()),
            is_custom,
            follows_in_chunk,
        };
        self.call_piece(&piece, brought, sink);
    }

    fn call_piece(&mut self, piece: &Piece<'_>, brought: &mut Brought, sink: EventSink<'_>) {
        let name = piece.function.and_then(|function| function.name.filled());
        let arguments = piece.function.map(arguments).unwrap_or_default();
        let has_arguments = arguments.filled().is_some();
        let resolved = self.calls.resolve(Identity {
            index: piece.index,
            id: piece.id,
            name,
            has_arguments,
            follows_in_chunk: piece.follows_in_chunk,
        });
        let Some(resolved) = resolved else { return };
        let says_something = resolved.is_new || name.is_some() || has_arguments;
        if !says_something {
            return;
        }
        brought.output = true;
        if resolved.is_new && !has_arguments {
            self.tool = OpenTool::Empty;
            brought.block = Some(Block::Opens(BlockKind::Tool));
        } else if has_arguments && self.tool != OpenTool::None {
            self.tool = OpenTool::Filling;
            brought.block = Some(Block::Fills);
        }
        sink(Event::ToolCall(ToolPiece {
            call: resolved.call,
            kind: piece.is_custom.then_some("custom"),
            id: piece.id,
            name,
            arguments: arguments.as_str(),
        }));
    }
}

/// Takes in a choice that does not speak: whether it brings content matters, what it says does not.
fn other_choice(choice: &Choice<'_>, brought: &mut Brought, sink: EventSink<'_>) {
    let mut content = Brought::default();
    Decoder::default().choice(choice, &mut content, &mut |_| {});
    brought.reasoning |= content.reasoning;
    brought.output |= content.output;
    if content.is_content() {
        sink(Event::Other {
            data: "",
            is_output: content.output,
        });
    }
}

impl Brought {
    const fn is_content(self) -> bool {
        self.reasoning || self.output
    }

    fn and(self, more: Self) -> Self {
        Self {
            reasoning: self.reasoning || more.reasoning,
            output: self.output || more.output,
            block: more.block.or(self.block),
        }
    }
}

/// A piece of a call, whatever field it came in.
#[derive(Clone, Copy, Default)]
struct Piece<'a> {
    index: Option<u64>,
    id: Option<&'a str>,
    function: Option<&'a Function<'a>>,
    is_custom: bool,
    follows_in_chunk: bool,
}

/// Returns the arguments as text: a piece of it, or the object that came in its place.
fn arguments<'a>(function: &'a Function<'a>) -> Text<'a> {
    if let Some(input) = function.input.get() {
        return Text::Some(input.into());
    }
    match function.arguments.map(RawValue::get) {
        Some("null") | None => Text::Nothing,
        Some(raw) if raw.starts_with('"') => serde_json::from_str(raw).unwrap_or_default(),
        Some(raw) => Text::Some(raw.into()),
    }
}

/// Returns whether the chunk says that the provider failed, whatever else it says.
fn is_error(chunk: &Chunk<'_>) -> bool {
    let in_groq = || {
        chunk
            .x_groq
            .0
            .as_ref()
            .is_some_and(|groq| is_truthy(groq.error))
    };
    // Older servers write the error's fields at the top.
    let is_flat = || {
        chunk.choices.0.is_none()
            && chunk.message.filled().is_some()
            && (chunk.object.as_str() == "error"
                || chunk.kind.filled().is_some()
                || chunk.code.filled().is_some())
    };
    is_truthy(chunk.error) || in_groq() || is_flat()
}

/// Judges a chunk that brings no content.
fn contentless(chunk: &Chunk<'_>, data: &[u8]) -> Told {
    let work = work::in_frame(data).or_else(|| chunk.work());
    let has_choices = chunk.choices().next().is_some();
    let kind = if chunk.usage().is_some() && !has_choices {
        Kind::new(b"usage")
    } else if is_truthy(chunk.prompt_progress) {
        Kind::new(b"prompt_progress")
    } else if has_choices {
        let has_role = chunk.choices().any(|choice| {
            choice
                .delta
                .0
                .as_ref()
                .is_some_and(|delta| delta.role.get().is_some())
        });
        Kind::new(b"delta").and(if has_role { b"role" } else { b"" })
    } else if is_truthy(chunk.prompt_filter_results) || is_truthy(chunk.moderation) {
        Kind::new(b"filter")
    } else if is_error(chunk) {
        Kind::new(b"error")
    } else if chunk.choices.0.is_some() && work.is_none()
        || matches!(chunk.kind.as_str(), "heartbeat" | "keepalive" | "ping")
    {
        return Told::Heartbeat;
    } else {
        Kind::new(b"unknown").and(chunk.object.as_str().as_bytes())
    };
    Told::Contentless { kind, work }
}
