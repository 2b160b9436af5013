//! Reading scripts.

use std::{ops::RangeInclusive, time::Duration};

use serde_json::value::RawValue;

use super::{
    Action, Argument, Coding, Eol, Kind, Length, Problem, Saying, Script, ScriptError, Section,
    Status, Step,
    words::{Takes, Word},
};

mod lex;

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
            if let Some((at, attempts)) = self.section_head()? {
                if is_taken(&sections, &attempts) {
                    let range = self.text.get(at..self.at).unwrap_or_default();
                    let range = range.trim_end_matches(':').trim_end();
                    let accepted = "attempts that no section before has";
                    return Err((at, Problem::refused(RANGE, range, accepted)));
                }
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
                return Err((begin, Problem::misplaced("unread", "behind another step")));
            }
            self.push(&mut section.steps, step, begin)?;
        }
        match sections.iter().find(|section| section.steps.is_empty()) {
            None if sections.is_empty() => Err((0, Problem::Empty)),
            Some(_) => Err((self.at, Problem::Empty)),
            None => Ok(Script { sections }),
        }
    }

    /// Adds a step that began at `begin`, unless what stands before it ends the response.
    fn push(&self, steps: &mut Vec<Step>, step: Step, begin: usize) -> Fallible<()> {
        let end = match steps.last().map(|step| &step.action) {
            Some(Action::Cut) => "behind `cut`, which ends the response",
            Some(Action::Eof) => "behind `eof`, which ends the response",
            Some(Action::Rst) => "behind `rst`, which ends the response",
            _ => {
                steps.push(step);
                return Ok(());
            }
        };
        let written = self.text.get(begin..self.at).unwrap_or_default();
        let word = written
            .split_whitespace()
            .find(|word| !word.starts_with('+'))
            .unwrap_or(written);
        Err((begin, Problem::misplaced(word, end)))
    }

    /// `attempt N:`, `attempt N-M:` or `attempt N+:`, if that is what stands here, and where its
    /// range begins.
    fn section_head(&mut self) -> Fallible<Option<(usize, RangeInclusive<u32>)>> {
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
        let range = self.since(first_at);
        if self.peek() != Some(':') {
            return Err(self.expected("`:`"));
        }
        self.bump();
        match (u32::try_from(first), u32::try_from(last)) {
            (Ok(first), Ok(last)) if 1 <= first && first <= last => {
                Ok(Some((first_at, first..=last)))
            }
            _ => Err((
                first_at,
                Problem::refused(RANGE, range, "N or N-M with 1 <= N <= M"),
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
                    (begin, Problem::refused("the text", value, accepted))
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
                Problem::refused("the status", self.since(begin), "100 to 999"),
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
            (begin, Problem::refused("the header", value, accepted))
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
        let begin = self.at;
        let every = self.time()?;
        let steps = self.block()?;
        self.skip_blanks();
        let has_x = matches!(self.peek(), Some('x' | '\u{d7}'));
        if has_x {
            self.bump();
            self.skip_blanks();
        }
        let times = if self.rest().starts_with("forever") {
            self.at += "forever".len();
            None
        } else if has_x {
            Some(self.whole_number("`xN` or `forever`")?)
        } else {
            return Err(self.expected("`xN` or `forever`"));
        };
        if times.is_none() && every.is_zero() && steps.iter().all(|step| step.delay.is_zero()) {
            return Err((
                begin,
                Problem::refused(
                    "the time of an endless `repeat`",
                    "0".to_owned(),
                    "more than 0",
                ),
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
            return Err((begin, Problem::refused("the depth", value, accepted)));
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
                        return Err((at, Problem::misplaced("unread", "in a block")));
                    }
                    self.push(&mut steps, step, at)?;
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
                return Err((begin, Problem::misplaced(word, place)));
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
        let within = usize::try_from(len).ok().filter(|len| *len <= MAX_GARBAGE);
        within.ok_or_else(|| {
            (
                begin,
                Problem::refused("the number of bytes", len.to_string(), "up to 16777216"),
            )
        })
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
}

/// Whether `sections` leave nothing of `attempts` to a later one.
fn is_taken(sections: &[Section], attempts: &RangeInclusive<u32>) -> bool {
    let mut next = *attempts.start();
    while let Some(section) = sections
        .iter()
        .find(|section| section.attempts.contains(&next))
    {
        if section.attempts.end() >= attempts.end() {
            return true;
        }
        next = section.attempts.end().saturating_add(1);
    }
    false
}

const RANGE: &str = "the range of attempts";
const MAX_DEPTH: usize = 16;
pub(super) const MAX_GARBAGE: usize = 16 << 20;

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
