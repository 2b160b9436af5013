//! What the words of a script look like on each wire.

use std::borrow::Cow;

use serde_json::Value;

use self::{anthropic::Anthropic, chat::Chat, responses::Responses};
use crate::script::{Eol, Group, Saying, Word};

mod anthropic;
mod chat;
mod responses;

/// A wire the stand-in speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Anthropic Messages, `/v1/messages`.
    Anthropic,
    /// OpenAI Chat Completions, `/v1/chat/completions`.
    OpenAiChat,
    /// OpenAI Responses, `/v1/responses`.
    OpenAiResponses,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic];

    /// Returns its name: `openai-chat`, `openai-responses` or `anthropic`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
        }
    }

    /// Returns the path it is served at.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAiChat => "/v1/chat/completions",
            Self::OpenAiResponses => "/v1/responses",
        }
    }

    /// Returns the dialect of that name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// The dialect of a request's path, with or without `/v1`; chat where the path names none.
    pub(crate) fn of_path(path: &str) -> Self {
        Self::named_by(path).unwrap_or(Self::OpenAiChat)
    }

    /// The dialect that a request's path names, with or without `/v1`.
    pub(crate) fn named_by(path: &str) -> Option<Self> {
        let path = path
            .split('?')
            .next()
            .unwrap_or_default()
            .trim_end_matches('/');
        Self::ALL
            .into_iter()
            .find(|dialect| path.ends_with(dialect.path().trim_start_matches("/v1")))
    }

    /// What stands before the wire's own path, and before its `/v1`.
    pub(crate) fn prefix_of(path: &str) -> &str {
        let path = path
            .split('?')
            .next()
            .unwrap_or_default()
            .trim_end_matches('/');
        let tail = Self::of_path(path).path().trim_start_matches("/v1");
        let prefix = path.strip_suffix(tail).unwrap_or(path);
        prefix.strip_suffix("/v1").unwrap_or(prefix)
    }
}

/// What a request asked for, as far as the frames depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) model: String,
    pub(crate) stream: bool,
}

impl Asked {
    pub(crate) fn of_body(body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let model = body
            .get("model")
            .and_then(Value::as_str)
            .unwrap_or("standin");
        let stream = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
        Self {
            model: model.to_owned(),
            stream,
        }
    }
}

/// Writes the frames of one response.
#[derive(Debug)]
pub(crate) struct Writer {
    dialect: Dialect,
    eol: Eol,
    said: Said,
    chat: Chat,
    anthropic: Anthropic,
    responses: Responses,
}

impl Writer {
    /// A writer for the `serial`th request of a stand-in.
    pub(crate) fn new(dialect: Dialect, model: &str, serial: u64) -> Self {
        let name = Name {
            model: quoted(model),
            serial,
        };
        Self {
            dialect,
            eol: Eol::Lf,
            said: Said::default(),
            chat: Chat::new(name.clone()),
            anthropic: Anthropic::new(name.clone()),
            responses: Responses::new(name),
        }
    }

    pub(crate) fn end_lines_with(&mut self, eol: Eol) {
        self.eol = eol;
    }

    /// Returns the frames of one word.
    pub(crate) fn frames(&mut self, saying: &Saying) -> Vec<u8> {
        let mut frames = String::new();
        match saying.word.info().group {
            Group::Anthropic => self.anthropic.say(saying, &mut frames),
            Group::Responses => self.responses.say(saying, &mut frames),
            _ => self.say(saying, &mut frames),
        }
        match self.eol {
            Eol::Lf => frames.into_bytes(),
            Eol::Cr => frames.replace('\n', "\r").into_bytes(),
            Eol::Crlf => frames.replace('\n', "\r\n").into_bytes(),
        }
    }

    fn say(&mut self, saying: &Saying, frames: &mut String) {
        match saying.word {
            Word::Chunk => {
                let json = saying.text(0);
                let value: Value = serde_json::from_str(json).unwrap_or_default();
                match value.get("type").and_then(Value::as_str) {
                    Some(name) if self.dialect != Dialect::OpenAiChat => event(frames, name, json),
                    _ => data(frames, json),
                }
            }
            Word::Comment => comment(frames, saying.given(0).unwrap_or("keepalive")),
            Word::Delta => self.chat.delta(saying.text(0), saying.given(1), frames),
            _ => {
                self.said.hear(saying);
                match self.dialect {
                    Dialect::Anthropic => self.anthropic.mean(saying, frames),
                    Dialect::OpenAiChat => self.chat.mean(saying, frames),
                    Dialect::OpenAiResponses => self.responses.mean(saying, frames),
                }
            }
        }
    }

    /// Returns what is still missing of a whole good answer with `text`, a word to a write.
    pub(crate) fn answer(&mut self, text: &str) -> Vec<Vec<u8>> {
        let mut missing = Vec::new();
        if !self.said.role {
            missing.push(saying(Word::Role, None));
        }
        missing.push(saying(Word::Text, Some(text)));
        if self.said.finish.is_none() {
            missing.push(saying(Word::Finish, Some(self.said.good_finish())));
        }
        if self.said.usage.is_none() && self.dialect == Dialect::OpenAiChat {
            let usage = Usage::default();
            missing.push(Saying {
                word: Word::Usage,
                arguments: vec![crate::script::Argument::Json(usage.chat())],
            });
        }
        if !self.said.done {
            missing.push(saying(Word::Done, None));
        }
        missing
            .iter()
            .map(|saying| self.frames(saying))
            .filter(|frame| !frame.is_empty())
            .collect()
    }

    /// Takes in a word for the whole body without writing a frame.
    pub(crate) fn hear(&mut self, saying: &Saying) {
        self.said.hear(saying);
    }

    /// Whether anything was said that a whole body could hold.
    pub(crate) fn has_said(&self) -> bool {
        let said = &self.said;
        let is_content = said.think.is_some() || !said.text.is_empty() || !said.tools.is_empty();
        is_content || said.finish.is_some() || said.error.is_some() || said.done
    }

    /// Returns the body of an answer that was not asked for as a stream.
    pub(crate) fn whole(&self) -> String {
        let (said, finish) = (&self.said, self.said.finish.as_deref());
        match self.dialect {
            Dialect::Anthropic => self.anthropic.whole(said, finish),
            Dialect::OpenAiChat => self.chat.whole(said, finish),
            Dialect::OpenAiResponses => self.responses.whole(said, finish),
        }
    }
}

/// What was said so far in words that mean the same on every wire.
#[derive(Debug, Default)]
struct Said {
    role: bool,
    text: String,
    think: Option<String>,
    tools: Vec<Call>,
    finish: Option<String>,
    usage: Option<Usage>,
    error: Option<(String, String)>,
    done: bool,
}

impl Said {
    fn hear(&mut self, saying: &Saying) {
        let text = saying.text(0);
        match saying.word {
            Word::Answer => {
                self.text.push_str(text);
                self.finish = Some(self.good_finish().to_owned());
            }
            Word::Done => self.done = true,
            Word::Error => self.error = Some((text.to_owned(), message(saying).into_owned())),
            Word::Finish => self.finish = Some(text.to_owned()),
            Word::Role => self.role = true,
            Word::Text => self.text.push_str(text),
            Word::Think => self.think.get_or_insert_default().push_str(text),
            Word::Tool => {
                for index in 0..saying.arguments.len() {
                    Call::hear(&mut self.tools, &Piece::parse(saying.text(index)));
                }
            }
            Word::Usage => self.usage = Some(Usage::parse(text)),
            _ => {}
        }
    }

    /// The finish reason that was said, or the one that fits.
    fn good_finish(&self) -> &str {
        match &self.finish {
            Some(finish) => finish,
            None if self.tools.is_empty() => "stop",
            None => "tool_calls",
        }
    }
}

/// A tool call put together from its pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Call {
    /// Adds `piece` to the call it belongs to and returns that call's place and whether it is new.
    fn hear(calls: &mut Vec<Self>, piece: &Piece) -> (usize, bool) {
        let last = calls.len().saturating_sub(1);
        let is_other = |call: &Self| !piece.id.is_empty() && call.id != piece.id;
        let place = match piece.index {
            Some(index) => index.min(calls.len()),
            None if calls.get(last).is_some_and(is_other) => calls.len(),
            None => last,
        };
        let is_new = place == calls.len();
        if is_new {
            calls.push(Self::default());
        }
        let call = &mut calls[place];
        if !piece.id.is_empty() {
            call.id.clone_from(&piece.id);
        } else if call.id.is_empty() {
            call.id = format!("call_{place}");
        }
        if !piece.name.is_empty() {
            call.name.clone_from(&piece.name);
        }
        call.arguments.push_str(&piece.arguments);
        (place, is_new)
    }
}

/// An entry of the chat wire's `tool_calls`.
#[derive(Debug, Default)]
struct Piece {
    index: Option<usize>,
    id: String,
    name: String,
    arguments: String,
}

impl Piece {
    fn parse(json: &str) -> Self {
        let value: Value = serde_json::from_str(json).unwrap_or_default();
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_string(),
        };
        let function = value.get("function");
        let index = value.get("index").and_then(Value::as_u64);
        Self {
            index: index.and_then(|index| usize::try_from(index).ok()),
            id: text(value.get("id")),
            name: text(function.and_then(|function| function.get("name"))),
            arguments: text(function.and_then(|function| function.get("arguments"))),
        }
    }
}

/// Token counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    input: u64,
    output: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            input: 12,
            output: 3,
        }
    }
}

impl Usage {
    fn parse(json: &str) -> Self {
        let value: Value = serde_json::from_str(json).unwrap_or_default();
        let count = |names: [&str; 2]| {
            names
                .into_iter()
                .find_map(|name| value.get(name).and_then(Value::as_u64))
        };
        Self {
            input: count(["prompt_tokens", "input_tokens"]).unwrap_or_default(),
            output: count(["completion_tokens", "output_tokens"]).unwrap_or_default(),
        }
    }

    fn chat(self) -> String {
        let Self { input, output } = self;
        let total = input.saturating_add(output);
        format!(
            r#"{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total}}}"#
        )
    }
}

/// How a response names itself.
#[derive(Clone, Debug)]
struct Name {
    /// The model, quoted.
    model: String,
    serial: u64,
}

fn saying(word: Word, text: Option<&str>) -> Saying {
    let arguments = text.map(|text| crate::script::Argument::Text(text.to_owned()));
    Saying {
        word,
        arguments: arguments.into_iter().collect(),
    }
}

/// The message of an error word.
fn message(saying: &Saying) -> Cow<'_, str> {
    match saying.given(1) {
        Some(message) => message.into(),
        None => format!("{} from the provider", saying.text(0)).into(),
    }
}

/// The type that goes with an error code on the two wires of OpenAI.
fn error_type(code: &str) -> &str {
    match code {
        "context_length_exceeded" => "invalid_request_error",
        other => other,
    }
}

fn data(frames: &mut String, json: &str) {
    frames.extend(["data: ", json, "\n\n"]);
}

fn event(frames: &mut String, name: &str, json: &str) {
    frames.extend(["event: ", name, "\ndata: ", json, "\n\n"]);
}

fn comment(frames: &mut String, text: &str) {
    for line in text.split('\n') {
        frames.extend([": ", line, "\n"]);
    }
    frames.push('\n');
}

/// `text` as a JSON string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn null() -> String {
    "null".to_owned()
}

/// A fixed time, so that the same script gives the same bytes.
const CREATED: u64 = 1_700_000_000;
