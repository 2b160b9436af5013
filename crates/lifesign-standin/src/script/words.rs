//! Every word of the script notation: its arguments, what it means, where it belongs.
//!
//! The parser, the suggestions in its errors and the tables of `docs/reference/script.md` are all
//! made from [`WORDS`].

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
        let words = WORDS.iter().map(|info| info.name);
        nearest(name, words.chain(["attempt"]))
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

macro_rules! words {
    ($($word:ident: $group:ident, $name:literal, $usage:literal, [$($needed:ident),*],
        [$($allowed:ident),*], $meaning:literal;)*) => {
        /// A word of the notation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Word {
            $($word,)*
        }

        /// What is known of each word, in the order of the enum.
        const WORDS: &[WordInfo] = &[$(WordInfo {
            word: Word::$word,
            name: $name,
            usage: $usage,
            needed: &[$(Takes::$needed),*],
            allowed: &[$(Takes::$allowed),*],
            group: Group::$group,
            meaning: $meaning,
        },)*];
    };
}

// The word, its group, how it is written, how its arguments are written, what they have to be, what
// they may be, and what it means.
words! {
    Status: Transport, "status", "N sse|json|text [name: value]...", [], [],
        "status line and headers, flushed; `sse`, `json` or `text`, if given, is the content \
         type. In a header's value, `<date+4>` becomes the HTTP date four seconds ahead, \
         `<seconds+4>` and `<ms+4>` four seconds at the stand-in's speed. A status below 200 is \
         an interim one";
    Length: Transport, "length", "N|none", [], [],
        "before `status`: tell the end of the body by a content-length of N bytes, or by closing \
         the connection, instead of by chunks. A body that ends with fewer bytes closes the \
         connection";
    Unread: Transport, "unread", "", [], [],
        "as the first step: begin without reading the request's body, and never read it";
    Eof: Transport, "eof", "", [], [],
        "end the body properly and keep the connection for the next request";
    Cut: Transport, "cut", "", [], [],
        "close the socket with the body unfinished; before `status`, without any response";
    Rst: Transport, "rst", "", [], [], "TCP reset; over HTTP/2, RST_STREAM INTERNAL_ERROR";
    Hold: Transport, "hold", "", [], [],
        "keep the connection open and send nothing more; a script that runs out holds too";
    ResetStream: Transport, "h2.reset", "CODE", [], [],
        "RST_STREAM with a code, by number or by name as in `REFUSED_STREAM`; over HTTP/1.1, a \
         TCP reset";
    GoAway: Transport, "h2.goaway", "[CODE]", [], [],
        "GOAWAY: graceful, or with a code at once and for good; over HTTP/1.1, `connection: \
         close` after this response, or with a code a cut";
    Raw: Transport, "raw", "\"...\"", [], [],
        "these bytes on the socket as they stand, whatever HTTP says of them; over HTTP/2, a cut";

    Bytes: Body, "bytes", "\"...\"", [], [],
        "these bytes of the body in one write, flushed; two `bytes` steps are two writes";
    Garbage: Body, "garbage", "[N]", [], [],
        "N bytes (256 if not said) that are neither text nor frames, the same ones each time";
    Drip: Body, "drip", "T { ... }", [], [],
        "what stands in the braces, byte by byte, waiting T seconds before each";
    Glue: Body, "glue", "{ ... }", [], [], "what stands in the braces, in one write";
    Eol: Body, "eol", "crlf|cr|lf", [], [],
        "how the lines of frames end from here on; `bytes` stay as they are";
    Gzip: Body, "gzip", "", [], [],
        "compress the body from here on, flushed at each write; say the header yourself: \
         `[content-encoding: gzip]`";
    Br: Body, "br", "", [], [], "the same with brotli";
    Zstd: Body, "zstd", "", [], [], "the same with zstd";

    Repeat: Time, "repeat", "T { ... } xN|forever", [], [],
        "wait T seconds, then do what stands in the braces; N times or without end";

    Role: Meaning, "role", "", [], [],
        "the opening of an answer: a role with empty content, `message_start`, \
         `response.created`";
    Text: Meaning, "text", "\"...\"", [Text], [], "a piece of the answer";
    Think: Meaning, "think", "\"...\"", [Text], [],
        "a piece of reasoning: `reasoning_content`, a thinking block, a reasoning summary";
    Tool: Meaning, "tool", "{...}...", [Json], [ManyJson],
        "a piece of a tool call, written as an entry of the chat wire's `tool_calls`";
    Finish: Meaning, "finish", "\"reason\"", [Text], [],
        "the finish reason, by its name on the chat wire; other wires get their own name for it";
    Usage: Meaning, "usage", "{...}", [Json], [],
        "the token counts, by their names on the chat wire or the wire's own";
    Done: Meaning, "done", "", [], [],
        "the end marker: `[DONE]`, `message_stop`, `response.completed`";
    Error: Meaning, "error", "TYPE [\"message\"]", [Text], [Text],
        "an error in the body, in the wire's own shape";
    Comment: Meaning, "comment", "[\"...\"]", [], [Text],
        "an SSE comment, `: keepalive` if not said; white space in a whole JSON body";
    Ping: Meaning, "ping", "", [], [],
        "the wire's own heartbeat: a `ping` or `keepalive` event, on the chat wire a comment; \
         white space in a whole JSON body";
    Answer: Meaning, "answer", "\"...\"", [Text], [],
        "all that is still missing of a whole good answer with this text, then `eof`";

    Delta: Body, "delta", "{...} [\"finish reason\"]", [Json], [Text],
        "one chunk of the chat wire with this `delta`";
    Chunk: Body, "chunk", "{...}", [Json], [],
        "one event with this JSON as its data; where the JSON has a `type`, other wires than chat \
         name the event after it";

    AnthropicStart: Anthropic, "m.start", "[INPUT-TOKENS]", [], [Number], "`message_start`";
    AnthropicBlock: Anthropic, "m.block", "I KIND [ID NAME]", [Number, Text], [Text, Text],
        "`content_block_start` of kind `text`, `thinking`, `redacted_thinking` or `tool_use`";
    AnthropicText: Anthropic, "m.text", "I \"...\"", [Number, Text], [], "`text_delta`";
    AnthropicThink: Anthropic, "m.think", "I \"...\"", [Number, Text], [], "`thinking_delta`";
    AnthropicSignature: Anthropic, "m.sig", "I \"...\"", [Number, Text], [], "`signature_delta`";
    AnthropicJson: Anthropic, "m.json", "I \"...\"", [Number, Text], [], "`input_json_delta`";
    AnthropicBlockEnd: Anthropic, "m.blockend", "I", [Number], [], "`content_block_stop`";
    AnthropicDelta: Anthropic, "m.delta", "REASON [OUTPUT-TOKENS]", [Text], [Number],
        "`message_delta` with a stop reason";
    AnthropicStop: Anthropic, "m.stop", "", [], [], "`message_stop`";
    AnthropicError: Anthropic, "m.error", "TYPE [\"message\"]", [Text], [Text], "an `error` event";

    ResponsesCreated: Responses, "r.created", "", [], [], "`response.created`";
    ResponsesInProgress: Responses, "r.inprogress", "", [], [], "`response.in_progress`";
    ResponsesText: Responses, "r.text", "\"...\"", [Text], [],
        "`response.output_text.delta`, after the item and its part were opened";
    ResponsesItem: Responses, "r.item", "ID NAME", [Text, Text], [],
        "`response.output_item.added` of a function call";
    ResponsesArguments: Responses, "r.args", "ID \"...\"", [Text, Text], [],
        "`response.function_call_arguments.delta`";
    ResponsesArgumentsDone: Responses, "r.argsdone", "[ID]", [], [Text],
        "`response.function_call_arguments.done`";
    ResponsesItemDone: Responses, "r.itemdone", "[ID]", [], [Text], "`response.output_item.done`";
    ResponsesCompleted: Responses, "r.completed", "", [], [],
        "`response.completed`, after what is open was closed";
    ResponsesIncomplete: Responses, "r.incomplete", "REASON", [Text], [],
        "`response.incomplete`, after what is open was closed";
    ResponsesFailed: Responses, "r.failed", "CODE [\"message\"]", [Text], [Text],
        "`response.failed`";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_own_row() {
        for info in WORDS {
            assert_eq!(Word::parse(info.name), Some(info.word), "{}", info.name);
            assert_eq!(info.word.info().name, info.name);
        }
    }

    #[test]
    fn every_row_is_in_the_reference() {
        let page = reference();

        for info in WORDS {
            assert!(page.contains(&format!("| `{}", info.name)), "{}", info.name);
        }
    }
}
