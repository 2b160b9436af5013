//! Reading scripts.

use std::time::Duration;

use serde_json::value::RawValue;

use super::{
    Action, Argument, Coding, Eol, Kind, Length, Saying, Script, Section, Status, Step,
    words::{Takes, Word},
};

/// Why a text is no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct ScriptError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A script without a single step.
    #[error("a script needs at least one step")]
    Empty,
    /// Something else was expected here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What may stand here.
        expected: String,
        /// What stands here.
        found: String,
    },
    /// A word where it cannot stand.
    #[error("`{word}` cannot stand {place}")]
    Misplaced {
        /// The word.
        word: String,
        /// Where it stands.
        place: &'static str,
    },
    /// A value that is not accepted.
    #[error("{field} is `{value}`; accepted: {accepted}")]
    Refused {
        /// What the value is for.
        field: &'static str,
        /// The value as written.
        value: String,
        /// What is accepted.
        accepted: &'static str,
    },
    /// An escape that no string knows.
    #[error("unknown escape `{escape}`; strings know \\n \\r \\t \\0 \\\" \\\\ \\/ \\xHH \\uHHHH")]
    UnknownEscape {
        /// The escape as written.
        escape: String,
    },
    /// A word of no meaning.
    #[error("unknown word `{word}`{}", meant(.like))]
    UnknownWord {
        /// The word as written.
        word: String,
        /// The word it is most like.
        like: Option<&'static str>,
    },
    /// A string, a block or a header without its end.
    #[error("{what} is never closed")]
    Unclosed {
        /// What was opened.
        what: &'static str,
    },
}

fn meant(like: &Option<&'static str>) -> String {
    like.map(|like| format!("; did you mean `{like}`?"))
        .unwrap_or_default()
}

pub(super) fn parse(text: &str) -> Result<Script, ScriptError> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
    };
    parser.script().map_err(|(at, problem)| {
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        ScriptError {
            line,
            column,
            problem,
        }
    })
}

type Fallible<T> = Result<T, (usize, Problem)>;

struct Parser<'a> {
    text: &'a str,
    /// The byte where reading stands, always at a character.
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn script(&mut self) -> Fallible<Script> {
        let mut sections: Vec<Section> = Vec::new();
        loop {
            self.skip_separators();
            if self.is_at_end() {
                break;
            }
            if let Some(attempts) = self.section_head()? {
                sections.push(Section {
                    attempts,
                    steps: Vec::new(),
                });
                continue;
            }
            if self.peek() == Some('}') {
                return Err(self.expected("a word"));
            }
            let begin = self.at;
            let step = self.step()?;
            let every = 1..=u32::MAX;
            if sections.is_empty() {
                sections.push(Section {
                    attempts: every,
                    steps: Vec::new(),
                });
            }
            let Some(section) = sections.last_mut() else {
                continue;
            };
            if matches!(step.action, Action::Unread) && !section.steps.is_empty() {
                return Err((begin, misplaced("unread", "behind another step")));
            }
            section.steps.push(step);
        }
        match sections.iter().find(|section| section.steps.is_empty()) {
            None if sections.is_empty() => Err((0, Problem::Empty)),
            Some(_) => Err((self.at, Problem::Empty)),
            None => Ok(Script { sections }),
        }
    }

    /// `attempt N:`, `attempt N-M:` or `attempt N+:`, if that is what stands here.
    fn section_head(&mut self) -> Fallible<Option<std::ops::RangeInclusive<u32>>> {
        let begin = self.at;
        if self.bare() != "attempt" {
            self.at = begin;
            return Ok(None);
        }
        self.skip_blanks();
        let first_at = self.at;
        let first = self.whole_number("an attempt, counted from 1")?;
        self.skip_blanks();
        let last = match self.peek() {
            Some('-' | '\u{2013}') => {
                self.bump();
                self.skip_blanks();
                self.whole_number("the last attempt of a range")?
            }
            Some('+') => {
                self.bump();
                u64::from(u32::MAX)
            }
            _ => first,
        };
        self.skip_blanks();
        if self.peek() != Some(':') {
            return Err(self.expected("`:`"));
        }
        self.bump();
        match (u32::try_from(first), u32::try_from(last)) {
            (Ok(first), Ok(last)) if 1 <= first && first <= last => Ok(Some(first..=last)),
            _ => Err((
                first_at,
                Problem::Refused {
                    field: "the range of attempts",
                    value: self.since(first_at),
                    accepted: "N or N-M with 1 <= N <= M",
                },
            )),
        }
    }

    fn step(&mut self) -> Fallible<Step> {
        let mut delay = Duration::ZERO;
        if self.peek() == Some('+') {
            self.bump();
            delay = self.time()?;
            self.skip_blanks();
        }
        let action = self.action()?;
        self.skip_blanks();
        match self.peek() {
            None | Some(';' | '\n' | '\r' | '}' | '#' | '/') => Ok(Step { delay, action }),
            Some(_) => Err(self.expected("`;` or a new line behind the step")),
        }
    }

    fn action(&mut self) -> Fallible<Action> {
        let begin = self.at;
        let name = self.bare();
        if name.is_empty() {
            return Err(self.expected("a word"));
        }
        let Some(word) = Word::parse(name) else {
            let like = Word::like(name);
            return Err((
                begin,
                Problem::UnknownWord {
                    word: name.to_owned(),
                    like,
                },
            ));
        };
        self.skip_blanks();
        Ok(match word {
            Word::Br => Action::Coding(Coding::Brotli),
            Word::Bytes => Action::Bytes(self.string()?),
            Word::Cut => Action::Cut,
            Word::Drip => {
                let every = self.time()?;
                Action::Drip {
                    every,
                    what: self.what("in `drip`")?,
                }
            }
            Word::Eof => Action::Eof,
            Word::Eol => Action::Eol(self.eol()?),
            Word::Garbage => Action::Garbage(self.garbage()?),
            Word::Glue => Action::Glue(self.what("in `glue`")?),
            Word::GoAway => Action::GoAway(if self.is_at_argument() {
                Some(self.h2_code()?)
            } else {
                None
            }),
            Word::Gzip => Action::Coding(Coding::Gzip),
            Word::Hold => Action::Hold,
            Word::Length => Action::Length(self.length()?),
            Word::Raw => Action::Raw(self.string()?),
            Word::Repeat => self.repeat()?,
            Word::ResetStream => Action::ResetStream(self.h2_code()?),
            Word::Rst => Action::Rst,
            Word::Status => Action::Status(self.status()?),
            Word::Unread => Action::Unread,
            Word::Zstd => Action::Coding(Coding::Zstd),
            word => Action::Say(self.saying(word)?),
        })
    }

    fn saying(&mut self, word: Word) -> Fallible<Saying> {
        let info = word.info();
        let mut arguments = Vec::new();
        for kind in info.needed {
            if !self.is_at_argument() {
                return Err(self.expected(kind.name()));
            }
            arguments.push(self.argument(*kind)?);
        }
        for kind in info.allowed {
            while self.is_at_argument() {
                arguments.push(self.argument(*kind)?);
                if *kind != Takes::ManyJson {
                    break;
                }
            }
        }
        Ok(Saying { word, arguments })
    }

    fn argument(&mut self, kind: Takes) -> Fallible<Argument> {
        let begin = self.at;
        let value = match kind {
            Takes::Json | Takes::ManyJson => Argument::Json(self.json()?),
            Takes::Number => Argument::Number(self.whole_number(kind.name())?),
            Takes::Text if self.peek() == Some('"') => {
                let bytes = self.string()?;
                let text = String::from_utf8(bytes).map_err(|_| {
                    let value = self.since(begin);
                    let accepted = "UTF-8 (`bytes` takes any bytes)";
                    (
                        begin,
                        Problem::Refused {
                            field: "the text",
                            value,
                            accepted,
                        },
                    )
                })?;
                Argument::Text(text)
            }
            Takes::Text => {
                let bare = self.bare();
                if bare.is_empty() {
                    return Err(self.expected(kind.name()));
                }
                Argument::Text(bare.to_owned())
            }
        };
        self.skip_blanks();
        Ok(value)
    }

    fn json(&mut self) -> Fallible<String> {
        if self.peek() != Some('{') {
            return Err(self.expected("a JSON object"));
        }
        let mut values =
            serde_json::Deserializer::from_str(self.rest()).into_iter::<&'a RawValue>();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                // A line break in JSON is only white space, but would end a `data:` line.
                Ok(value.get().replace(['\n', '\r'], " "))
            }
            Some(Err(error)) => {
                let (expected, found) = ("a JSON object".to_owned(), error.to_string());
                Err((self.at, Problem::Expected { expected, found }))
            }
            None => Err(self.expected("a JSON object")),
        }
    }

    fn status(&mut self) -> Fallible<Status> {
        let begin = self.at;
        let code = self.whole_number("a status")?;
        let code = u16::try_from(code)
            .ok()
            .filter(|code| (100..=999).contains(code));
        let Some(code) = code else {
            return Err((
                begin,
                Problem::Refused {
                    field: "the status",
                    value: self.since(begin),
                    accepted: "100 to 999",
                },
            ));
        };
        let mut status = Status {
            code,
            kind: None,
            headers: Vec::new(),
        };
        loop {
            self.skip_blanks();
            if self.peek() == Some('[') {
                status.headers.push(self.header()?);
                continue;
            }
            if !self.is_at_argument() {
                return Ok(status);
            }
            let begin = self.at;
            status.kind = Some(match self.bare() {
                "json" => Kind::Json,
                "sse" => Kind::Sse,
                "text" => Kind::Text,
                _ => {
                    self.at = begin;
                    return Err(self.expected("`sse`, `json`, `text` or `[name: value]`"));
                }
            });
        }
    }

    fn header(&mut self) -> Fallible<(String, String)> {
        let begin = self.at;
        self.bump();
        let line = self.rest().split('\n').next().unwrap_or_default();
        let Some((inside, _)) = line.split_once(']') else {
            return Err((begin, Problem::Unclosed { what: "the header" }));
        };
        self.at += inside.len() + 1;
        let refused = || {
            let value = inside.to_owned();
            let accepted = "name: value, printable ASCII";
            (
                begin,
                Problem::Refused {
                    field: "the header",
                    value,
                    accepted,
                },
            )
        };
        let (name, value) = inside.split_once(':').ok_or_else(refused)?;
        let (name, value) = (name.trim(), value.trim());
        let is_name = http::HeaderName::from_bytes(name.as_bytes()).is_ok();
        let is_value = value
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if is_name && is_value {
            Ok((name.to_ascii_lowercase(), value.to_owned()))
        } else {
            Err(refused())
        }
    }

    fn repeat(&mut self) -> Fallible<Action> {
        let every = self.time()?;
        let begin = self.at;
        let steps = self.block()?;
        self.skip_blanks();
        if matches!(self.peek(), Some('x' | '\u{d7}')) {
            self.bump();
            self.skip_blanks();
        }
        let times = if self.rest().starts_with("forever") {
            self.at += "forever".len();
            None
        } else {
            Some(self.whole_number("`xN` or `forever`")?)
        };
        if times.is_none() && every.is_zero() && steps.iter().all(|step| step.delay.is_zero()) {
            return Err((
                begin,
                Problem::Refused {
                    field: "the time of an endless `repeat`",
                    value: "0".to_owned(),
                    accepted: "more than 0",
                },
            ));
        }
        Ok(Action::Repeat {
            every,
            steps,
            times,
        })
    }

    fn block(&mut self) -> Fallible<Vec<Step>> {
        self.skip_blanks();
        let begin = self.at;
        if self.peek() != Some('{') {
            return Err(self.expected("`{`"));
        }
        self.bump();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let value = self.depth.to_string();
            let accepted = "up to 16 blocks in each other";
            return Err((
                begin,
                Problem::Refused {
                    field: "the depth",
                    value,
                    accepted,
                },
            ));
        }
        let mut steps = Vec::new();
        loop {
            self.skip_separators();
            match self.peek() {
                None => return Err((begin, Problem::Unclosed { what: "the block" })),
                Some('}') => break,
                Some(_) => {
                    let at = self.at;
                    let step = self.step()?;
                    if matches!(step.action, Action::Unread) {
                        return Err((at, misplaced("unread", "in a block")));
                    }
                    steps.push(step);
                }
            }
        }
        self.bump();
        self.depth -= 1;
        if steps.is_empty() {
            return Err((begin, Problem::Empty));
        }
        Ok(steps)
    }

    /// A block of words that are nothing but bytes of the body.
    fn what(&mut self, place: &'static str) -> Fallible<Vec<Action>> {
        self.skip_blanks();
        let begin = self.at;
        let mut actions = Vec::new();
        for step in self.block()? {
            let is_bytes = match &step.action {
                Action::Bytes(_) | Action::Garbage(_) => true,
                Action::Say(saying) => saying.word != Word::Answer,
                _ => false,
            };
            if !is_bytes || !step.delay.is_zero() {
                let printed = step.action.to_string();
                let word = printed.split(' ').next().unwrap_or_default();
                let word = if is_bytes { "+T" } else { word };
                return Err((begin, misplaced(word, place)));
            }
            actions.push(step.action);
        }
        Ok(actions)
    }

    fn eol(&mut self) -> Fallible<Eol> {
        let begin = self.at;
        match self.bare() {
            "cr" => Ok(Eol::Cr),
            "crlf" => Ok(Eol::Crlf),
            "lf" => Ok(Eol::Lf),
            _ => {
                self.at = begin;
                Err(self.expected("`crlf`, `cr` or `lf`"))
            }
        }
    }

    fn garbage(&mut self) -> Fallible<usize> {
        if !self.is_at_argument() {
            return Ok(256);
        }
        let begin = self.at;
        let len = self.whole_number("a number of bytes")?;
        usize::try_from(len)
            .ok()
            .filter(|len| *len <= MAX_GARBAGE)
            .ok_or((
                begin,
                Problem::Refused {
                    field: "the number of bytes",
                    value: len.to_string(),
                    accepted: "up to 16777216",
                },
            ))
    }

    fn length(&mut self) -> Fallible<Length> {
        if self.rest().starts_with("none") {
            self.at += "none".len();
            return Ok(Length::None);
        }
        Ok(Length::Bytes(
            self.whole_number("a number of bytes or `none`")?,
        ))
    }

    fn h2_code(&mut self) -> Fallible<u32> {
        let begin = self.at;
        let bare = self.bare();
        let named = H2_CODES.iter().position(|name| *name == bare);
        let code = named
            .and_then(|code| u32::try_from(code).ok())
            .or_else(|| bare.parse().ok());
        code.ok_or_else(|| {
            self.at = begin;
            self.expected("an HTTP/2 error code, as a number or as in `REFUSED_STREAM`")
        })
    }

    /// Seconds, or a number with `ms`, `s`, `m` or `h` behind it.
    fn time(&mut self) -> Fallible<Duration> {
        self.skip_blanks();
        let begin = self.at;
        let number = self.take(|c| c.is_ascii_digit() || c == '.');
        if number.is_empty() {
            return Err(self.expected("a time in seconds"));
        }
        let unit = self.take(|c| c.is_ascii_alphabetic());
        time_of(number, unit).ok_or_else(|| {
            let value = self.since(begin);
            let accepted = "seconds as in `1.5`, or a number with ms, s, m or h, up to 100 years";
            (
                begin,
                Problem::Refused {
                    field: "the time",
                    value,
                    accepted,
                },
            )
        })
    }

    fn whole_number(&mut self, expected: &str) -> Fallible<u64> {
        let begin = self.at;
        self.take(|c| c.is_ascii_digit()).parse().map_err(|_| {
            self.at = begin;
            self.expected(expected)
        })
    }

    /// A quoted string, perhaps with `*N` behind it.
    fn string(&mut self) -> Fallible<Vec<u8>> {
        let begin = self.at;
        if self.peek() != Some('"') {
            return Err(self.expected("a string in double quotes"));
        }
        self.bump();
        let mut bytes = Vec::new();
        loop {
            match self.bump() {
                None => return Err((begin, Problem::Unclosed { what: "the string" })),
                Some('"') => break,
                Some('\\') => self.escape(&mut bytes)?,
                Some(other) => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        if self.peek() == Some('*') {
            self.bump();
            let begin = self.at;
            let times = self.whole_number("how often the string is repeated")?;
            let times = usize::try_from(times).ok();
            let times = times.filter(|times| bytes.len().saturating_mul(*times) <= MAX_GARBAGE);
            let Some(times) = times else {
                let value = self.since(begin);
                let accepted = "what makes up to 16777216 bytes";
                return Err((
                    begin,
                    Problem::Refused {
                        field: "the repetition",
                        value,
                        accepted,
                    },
                ));
            };
            bytes = bytes.repeat(times);
        }
        Ok(bytes)
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Fallible<()> {
        let begin = self.at - 1;
        let digits = match self.bump() {
            None => return Err((begin, Problem::Unclosed { what: "the string" })),
            Some('n') => return Ok(bytes.push(b'\n')),
            Some('r') => return Ok(bytes.push(b'\r')),
            Some('t') => return Ok(bytes.push(b'\t')),
            Some('0') => return Ok(bytes.push(0)),
            Some(same @ ('"' | '\\' | '/')) => return Ok(bytes.push(same as u8)),
            Some('x') => 2,
            Some('u') => 4,
            Some(_) => 0,
        };
        let hex = self.rest().get(..digits).filter(|_| digits > 0);
        let code = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let unknown = |end: usize| {
            let escape = self.text.get(begin..end).unwrap_or_default().to_owned();
            (begin, Problem::UnknownEscape { escape })
        };
        let Some(code) = code else {
            return Err(unknown(self.at));
        };
        if digits == 2 {
            bytes.extend(u8::try_from(code));
        } else {
            let Some(character) = char::from_u32(code) else {
                return Err(unknown(self.at + digits));
            };
            bytes.extend(character.encode_utf8(&mut [0; 4]).bytes());
        }
        self.at += digits;
        Ok(())
    }

    /// The characters up to the next blank or mark.
    fn bare(&mut self) -> &'a str {
        self.take(|c| !(c.is_whitespace() || ";{}[]\"#".contains(c)))
    }

    fn is_at_argument(&mut self) -> bool {
        self.skip_blanks();
        !matches!(
            self.peek(),
            None | Some(';' | '\n' | '\r' | '}' | '#' | '/')
        )
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.bump();
        }
    }

    /// Steps stand apart by `;`, by a new line, or by `/` as prose puts scripts on one line.
    fn skip_separators(&mut self) {
        while let Some(next) = self.peek() {
            if next == '#' {
                let line = self.rest().find('\n').unwrap_or(self.rest().len());
                self.at += line;
            } else if next.is_whitespace() || matches!(next, ';' | '/') {
                self.bump();
            } else {
                break;
            }
        }
    }

    fn expected(&self, expected: &str) -> (usize, Problem) {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some('\n' | '\r') => "the end of the line".to_owned(),
            Some(_) => {
                let token = self
                    .rest()
                    .split([' ', '\n', ';'])
                    .next()
                    .unwrap_or_default();
                format!("`{}`", token.chars().take(40).collect::<String>())
            }
        };
        (
            self.at,
            Problem::Expected {
                expected: expected.to_owned(),
                found,
            },
        )
    }

    fn take(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !accepts(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn since(&self, begin: usize) -> String {
        self.text.get(begin..self.at).unwrap_or_default().to_owned()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }
}

fn misplaced(word: &str, place: &'static str) -> Problem {
    Problem::Misplaced {
        word: word.to_owned(),
        place,
    }
}

fn time_of(number: &str, unit: &str) -> Option<Duration> {
    let nanos_per_unit: u128 = match unit {
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3600 * 1_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || whole.len() > 12 || fraction.len() > 9 {
        return None;
    }
    let all: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let nanos = all.checked_mul(nanos_per_unit)? / scale;
    let time = Duration::new(
        u64::try_from(nanos / 1_000_000_000).ok()?,
        u32::try_from(nanos % 1_000_000_000).ok()?,
    );
    (time <= MAX_TIME).then_some(time)
}

const MAX_DEPTH: usize = 16;
const MAX_GARBAGE: usize = 16 << 20;
const MAX_TIME: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// The codes of RFC 9113, section 7, each at its number.
const H2_CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];
