//! Every word of the script notation: its arguments, what it means, where it belongs.
//!
//! The parser, the suggestions in its errors and the tables of `docs/reference/script.md` are all
//! made from [`WORDS`].

/// A word of the notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Answer,
    AnthropicBlock,
    AnthropicBlockEnd,
    AnthropicDelta,
    AnthropicError,
    AnthropicJson,
    AnthropicSignature,
    AnthropicStart,
    AnthropicStop,
    AnthropicText,
    AnthropicThink,
    Br,
    Bytes,
    Chunk,
    Comment,
    Cut,
    Delta,
    Done,
    Drip,
    Eof,
    Eol,
    Error,
    Finish,
    Garbage,
    Glue,
    GoAway,
    Gzip,
    Hold,
    Length,
    Ping,
    Raw,
    Repeat,
    ResetStream,
    ResponsesArguments,
    ResponsesArgumentsDone,
    ResponsesCompleted,
    ResponsesCreated,
    ResponsesFailed,
    ResponsesInProgress,
    ResponsesIncomplete,
    ResponsesItem,
    ResponsesItemDone,
    ResponsesText,
    Role,
    Rst,
    Status,
    Text,
    Think,
    Tool,
    Unread,
    Usage,
    Zstd,
}

impl Word {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        WORDS
            .iter()
            .find(|info| info.name == name)
            .map(|info| info.word)
    }

    pub(crate) fn info(self) -> &'static WordInfo {
        // Every word has a row; a test holds it so.
        WORDS
            .iter()
            .find(|info| info.word == self)
            .unwrap_or(&WORDS[0])
    }

    /// The name most like `name`, if one is near enough to be what was meant.
    pub(crate) fn like(name: &str) -> Option<&'static str> {
        nearest(name, WORDS.iter().map(|info| info.name))
    }
}

/// The candidate most like `name`, if one is near enough to be what was meant.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1.max(candidate.len() / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The page that describes scripts.
pub(super) fn reference() -> String {
    let mut page = String::new();
    for line in include_str!("reference.md").lines() {
        let group = line
            .strip_prefix("<!-- ")
            .and_then(|line| line.strip_suffix(" -->"));
        let Some(group) = group else {
            page.extend([line, "\n"]);
            continue;
        };
        page.push_str("| word | what it does |\n| --- | --- |\n");
        for info in WORDS.iter().filter(|info| info.group.name() == group) {
            let blank = if info.usage.is_empty() { "" } else { " " };
            let usage = info.usage.replace('|', "\\|");
            page.extend([
                "| `",
                info.name,
                blank,
                &usage,
                "` | ",
                info.meaning,
                " |\n",
            ]);
        }
    }
    page
}

/// What the notation knows of a word.
#[derive(Debug)]
pub(crate) struct WordInfo {
    pub(crate) word: Word,
    pub(crate) name: &'static str,
    /// How its arguments are written, for people.
    pub(crate) usage: &'static str,
    pub(crate) needed: &'static [Takes],
    pub(crate) allowed: &'static [Takes],
    pub(crate) group: Group,
    pub(crate) meaning: &'static str,
}

/// Where a word belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Frames of the Anthropic wire, whatever wire was asked for.
    Anthropic,
    /// The bytes of the body, whatever they mean.
    Body,
    /// Things said on every wire in its own way.
    Meaning,
    /// Frames of the Responses wire, whatever wire was asked for.
    Responses,
    /// The order of things in time.
    Time,
    /// The response, the connection and how they end.
    Transport,
}

impl Group {
    const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic",
            Self::Body => "Body",
            Self::Meaning => "Meaning",
            Self::Responses => "Responses",
            Self::Time => "Time",
            Self::Transport => "Transport",
        }
    }
}

/// A kind of argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// A JSON object.
    Json,
    /// A whole number.
    Number,
    /// A quoted string, or a bare word without spaces.
    Text,
    /// As many of it as there are.
    ManyJson,
}

impl Takes {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Json | Self::ManyJson => "a JSON object",
            Self::Number => "a whole number",
            Self::Text => "a text",
        }
    }
}

const fn row(
    word: Word,
    name: &'static str,
    usage: &'static str,
    needed: &'static [Takes],
    allowed: &'static [Takes],
    group: Group,
    meaning: &'static str,
) -> WordInfo {
    WordInfo {
        word,
        name,
        usage,
        needed,
        allowed,
        group,
        meaning,
    }
}

use Takes::{Json, ManyJson, Number, Text};

pub(crate) const WORDS: &[WordInfo] = &[
    // The response and the connection.
    row(
        Word::Status,
        "status",
        "N sse|json|text [name: value]...",
        &[],
        &[],
        Group::Transport,
        "status line and headers, flushed; `sse`, `json` or `text`, if given, is the content type. \
         In a header's value, `<date+4>` becomes the HTTP date four seconds ahead, `<seconds+4>` \
         and `<ms+4>` four seconds at the stand-in's speed. A status below 200 is an interim one",
    ),
    row(
        Word::Length,
        "length",
        "N|none",
        &[],
        &[],
        Group::Transport,
        "before `status`: tell the end of the body by a content-length of N bytes, or by closing \
         the connection, instead of by chunks. A body that ends with fewer bytes closes the \
         connection",
    ),
    row(
        Word::Unread,
        "unread",
        "",
        &[],
        &[],
        Group::Transport,
        "as the first step: begin without reading the request's body, and never read it",
    ),
    row(
        Word::Eof,
        "eof",
        "",
        &[],
        &[],
        Group::Transport,
        "end the body properly and keep the connection for the next request",
    ),
    row(
        Word::Cut,
        "cut",
        "",
        &[],
        &[],
        Group::Transport,
        "close the socket with the body unfinished; before `status`, without any response",
    ),
    row(
        Word::Rst,
        "rst",
        "",
        &[],
        &[],
        Group::Transport,
        "TCP reset; over HTTP/2, RST_STREAM INTERNAL_ERROR",
    ),
    row(
        Word::Hold,
        "hold",
        "",
        &[],
        &[],
        Group::Transport,
        "keep the connection open and send nothing more; a script that runs out holds too",
    ),
    row(
        Word::ResetStream,
        "h2.reset",
        "CODE",
        &[],
        &[],
        Group::Transport,
        "RST_STREAM with a code, by number or by name as in `REFUSED_STREAM`; over HTTP/1.1, \
         a TCP reset",
    ),
    row(
        Word::GoAway,
        "h2.goaway",
        "[CODE]",
        &[],
        &[],
        Group::Transport,
        "GOAWAY: graceful, or with a code at once and for good; over HTTP/1.1, `connection: \
         close` after this response, or with a code a cut",
    ),
    row(
        Word::Raw,
        "raw",
        "\"...\"",
        &[],
        &[],
        Group::Transport,
        "these bytes on the socket as they stand, whatever HTTP says of them; over HTTP/2, a cut",
    ),
    // Bytes of the body.
    row(
        Word::Bytes,
        "bytes",
        "\"...\"",
        &[],
        &[],
        Group::Body,
        "these bytes of the body in one write, flushed; two `bytes` steps are two writes",
    ),
    row(
        Word::Garbage,
        "garbage",
        "[N]",
        &[],
        &[],
        Group::Body,
        "N bytes (256 if not said) that are neither text nor frames, the same ones each time",
    ),
    row(
        Word::Drip,
        "drip",
        "T { ... }",
        &[],
        &[],
        Group::Body,
        "what stands in the braces, byte by byte, waiting T seconds before each",
    ),
    row(
        Word::Glue,
        "glue",
        "{ ... }",
        &[],
        &[],
        Group::Body,
        "what stands in the braces, in one write",
    ),
    row(
        Word::Eol,
        "eol",
        "crlf|cr|lf",
        &[],
        &[],
        Group::Body,
        "how the lines of frames end from here on; `bytes` stay as they are",
    ),
    row(
        Word::Gzip,
        "gzip",
        "",
        &[],
        &[],
        Group::Body,
        "compress the body from here on, flushed at each write; say the header yourself: \
         `[content-encoding: gzip]`",
    ),
    row(
        Word::Br,
        "br",
        "",
        &[],
        &[],
        Group::Body,
        "the same with brotli",
    ),
    row(
        Word::Zstd,
        "zstd",
        "",
        &[],
        &[],
        Group::Body,
        "the same with zstd",
    ),
    // Time.
    row(
        Word::Repeat,
        "repeat",
        "T { ... } xN|forever",
        &[],
        &[],
        Group::Time,
        "wait T seconds, then do what stands in the braces; N times or without end",
    ),
    // Meanings.
    row(
        Word::Role,
        "role",
        "",
        &[],
        &[],
        Group::Meaning,
        "the opening of an answer: a role with empty content, `message_start`, \
         `response.created`",
    ),
    row(
        Word::Text,
        "text",
        "\"...\"",
        &[Text],
        &[],
        Group::Meaning,
        "a piece of the answer",
    ),
    row(
        Word::Think,
        "think",
        "\"...\"",
        &[Text],
        &[],
        Group::Meaning,
        "a piece of reasoning: `reasoning_content`, a thinking block, a reasoning summary",
    ),
    row(
        Word::Tool,
        "tool",
        "{...}...",
        &[Json],
        &[ManyJson],
        Group::Meaning,
        "a piece of a tool call, written as an entry of the chat wire's `tool_calls`",
    ),
    row(
        Word::Finish,
        "finish",
        "\"reason\"",
        &[Text],
        &[],
        Group::Meaning,
        "the finish reason, by its name on the chat wire; other wires get their own name for it",
    ),
    row(
        Word::Usage,
        "usage",
        "{...}",
        &[Json],
        &[],
        Group::Meaning,
        "the token counts, by their names on the chat wire or the wire's own",
    ),
    row(
        Word::Done,
        "done",
        "",
        &[],
        &[],
        Group::Meaning,
        "the end marker: `[DONE]`, `message_stop`, `response.completed`",
    ),
    row(
        Word::Error,
        "error",
        "TYPE [\"message\"]",
        &[Text],
        &[Text],
        Group::Meaning,
        "an error in the body, in the wire's own shape",
    ),
    row(
        Word::Comment,
        "comment",
        "[\"...\"]",
        &[],
        &[Text],
        Group::Meaning,
        "an SSE comment, `: keepalive` if not said; white space in a whole JSON body",
    ),
    row(
        Word::Ping,
        "ping",
        "",
        &[],
        &[],
        Group::Meaning,
        "the wire's own heartbeat: a `ping` or `keepalive` event, on the chat wire a comment; \
         white space in a whole JSON body",
    ),
    row(
        Word::Answer,
        "answer",
        "\"...\"",
        &[Text],
        &[],
        Group::Meaning,
        "all that is still missing of a whole good answer with this text, then `eof`",
    ),
    row(
        Word::Delta,
        "delta",
        "{...} [\"finish reason\"]",
        &[Json],
        &[Text],
        Group::Body,
        "one chunk of the chat wire with this `delta`",
    ),
    row(
        Word::Chunk,
        "chunk",
        "{...}",
        &[Json],
        &[],
        Group::Body,
        "one event with this JSON as its data; where the JSON has a `type`, other wires than chat \
         name the event after it",
    ),
    // Anthropic.
    row(
        Word::AnthropicStart,
        "m.start",
        "[INPUT-TOKENS]",
        &[],
        &[Number],
        Group::Anthropic,
        "`message_start`",
    ),
    row(
        Word::AnthropicBlock,
        "m.block",
        "I KIND [ID NAME]",
        &[Number, Text],
        &[Text, Text],
        Group::Anthropic,
        "`content_block_start` of kind `text`, `thinking`, `redacted_thinking` or `tool_use`",
    ),
    row(
        Word::AnthropicText,
        "m.text",
        "I \"...\"",
        &[Number, Text],
        &[],
        Group::Anthropic,
        "`text_delta`",
    ),
    row(
        Word::AnthropicThink,
        "m.think",
        "I \"...\"",
        &[Number, Text],
        &[],
        Group::Anthropic,
        "`thinking_delta`",
    ),
    row(
        Word::AnthropicSignature,
        "m.sig",
        "I \"...\"",
        &[Number, Text],
        &[],
        Group::Anthropic,
        "`signature_delta`",
    ),
    row(
        Word::AnthropicJson,
        "m.json",
        "I \"...\"",
        &[Number, Text],
        &[],
        Group::Anthropic,
        "`input_json_delta`",
    ),
    row(
        Word::AnthropicBlockEnd,
        "m.blockend",
        "I",
        &[Number],
        &[],
        Group::Anthropic,
        "`content_block_stop`",
    ),
    row(
        Word::AnthropicDelta,
        "m.delta",
        "REASON [OUTPUT-TOKENS]",
        &[Text],
        &[Number],
        Group::Anthropic,
        "`message_delta` with a stop reason",
    ),
    row(
        Word::AnthropicStop,
        "m.stop",
        "",
        &[],
        &[],
        Group::Anthropic,
        "`message_stop`",
    ),
    row(
        Word::AnthropicError,
        "m.error",
        "TYPE [\"message\"]",
        &[Text],
        &[Text],
        Group::Anthropic,
        "an `error` event",
    ),
    // Responses.
    row(
        Word::ResponsesCreated,
        "r.created",
        "",
        &[],
        &[],
        Group::Responses,
        "`response.created`",
    ),
    row(
        Word::ResponsesInProgress,
        "r.inprogress",
        "",
        &[],
        &[],
        Group::Responses,
        "`response.in_progress`",
    ),
    row(
        Word::ResponsesText,
        "r.text",
        "\"...\"",
        &[Text],
        &[],
        Group::Responses,
        "`response.output_text.delta`, after the item and its part were opened",
    ),
    row(
        Word::ResponsesItem,
        "r.item",
        "ID NAME",
        &[Text, Text],
        &[],
        Group::Responses,
        "`response.output_item.added` of a function call",
    ),
    row(
        Word::ResponsesArguments,
        "r.args",
        "ID \"...\"",
        &[Text, Text],
        &[],
        Group::Responses,
        "`response.function_call_arguments.delta`",
    ),
    row(
        Word::ResponsesArgumentsDone,
        "r.argsdone",
        "[ID]",
        &[],
        &[Text],
        Group::Responses,
        "`response.function_call_arguments.done`",
    ),
    row(
        Word::ResponsesItemDone,
        "r.itemdone",
        "[ID]",
        &[],
        &[Text],
        Group::Responses,
        "`response.output_item.done`",
    ),
    row(
        Word::ResponsesCompleted,
        "r.completed",
        "",
        &[],
        &[],
        Group::Responses,
        "`response.completed`, after what is open was closed",
    ),
    row(
        Word::ResponsesIncomplete,
        "r.incomplete",
        "REASON",
        &[Text],
        &[],
        Group::Responses,
        "`response.incomplete`, after what is open was closed",
    ),
    row(
        Word::ResponsesFailed,
        "r.failed",
        "CODE [\"message\"]",
        &[Text],
        &[Text],
        Group::Responses,
        "`response.failed`",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_one_row() {
        for (index, info) in WORDS.iter().enumerate() {
            assert_eq!(Word::parse(info.name), Some(info.word), "{}", info.name);
            let same = WORDS.iter().filter(|other| other.word == info.word);
            assert_eq!(same.count(), 1, "{index}");
        }
        // The enum is dense, so its last variant tells how many there are.
        assert_eq!(WORDS.len(), Word::Zstd as usize + 1);
    }

    #[test]
    fn every_row_is_in_the_reference() {
        let page = reference();

        for info in WORDS {
            assert!(page.contains(&format!("| `{}", info.name)), "{}", info.name);
        }
    }
}
