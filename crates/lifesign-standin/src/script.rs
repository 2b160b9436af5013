//! What a provider does with a request: steps in time.
//!
//! A [`Script`] is parsed from text (`docs/reference/script.md` lists every word) and printed back
//! by `Display`. It knows nothing of sockets; the server walks it with [`Schedule`].

use std::{fmt, ops::RangeInclusive, str::FromStr, time::Duration};

pub use self::problem::{Problem, ScriptError};
pub(crate) use self::{
    schedule::Schedule,
    words::{Group, Word, nearest},
};

mod parse;
mod problem;
mod schedule;
mod words;

/// What a provider does, request by request. One without sections closes every connection.
///
/// This example shows a provider that is silent once and then answers:
///
/// ```
/// let script: lifesign_standin::Script =
///     "attempt 1: status 200 sse; hold\nattempt 2: answer \"ok\"".parse()?;
/// assert_eq!(script.sections().len(), 2);
/// # Ok::<(), lifesign_standin::ScriptError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    pub(crate) sections: Vec<Section>,
}

impl Script {
    /// Reads a script from its text form.
    ///
    /// # Errors
    ///
    /// Names the line, the column and what was expected where the text is no script.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        parse::parse(text)
    }

    /// Returns `docs/reference/script.md`, whose tables are made from the words themselves.
    pub fn reference() -> String {
        words::reference()
    }

    /// Returns the sections in the order they were written.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns the section played for the `attempt`th request, counted from 1.
    ///
    /// A request beyond the last section gets the last; one in a gap gets the section before it.
    pub fn section_for(&self, attempt: u32) -> Option<&Section> {
        self.sections
            .iter()
            .find(|section| section.attempts.contains(&attempt))
            .or_else(|| {
                self.sections
                    .iter()
                    .rev()
                    .find(|section| *section.attempts.end() < attempt)
            })
            .or_else(|| self.sections.first())
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for section in &self.sections {
            let (first, last) = (section.attempts.start(), section.attempts.end());
            match (*first, *last) {
                (1, u32::MAX) => {}
                (first, last) if first == last => write!(f, "attempt {first}: ")?,
                (first, last) => write!(f, "attempt {first}-{last}: ")?,
            }
            write_steps(f, &section.steps)?;
            f.write_str("\n")?;
        }
        Ok(())
    }
}

/// What happens to the requests of a range of attempts.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    pub(crate) attempts: RangeInclusive<u32>,
    pub(crate) steps: Vec<Step>,
}

impl Section {
    /// Returns which requests, counted from 1, this section answers.
    pub fn attempts(&self) -> RangeInclusive<u32> {
        self.attempts.clone()
    }

    /// Whether it begins before the request's body is read.
    pub(crate) fn begins_unread(&self) -> bool {
        self.steps
            .first()
            .is_some_and(|step| step.action == Action::Unread)
    }

    /// Whether the section can answer a request that asked for no stream with one whole body:
    /// it says what is meant rather than which bytes to write.
    pub(crate) fn can_be_whole(&self) -> bool {
        self.steps.iter().all(|step| can_be_whole(&step.action))
    }
}

fn can_be_whole(action: &Action) -> bool {
    match action {
        Action::Bytes(_)
        | Action::Drip { .. }
        | Action::Eol(_)
        | Action::Garbage(_)
        | Action::Glue(_)
        | Action::Raw(_) => false,
        Action::Repeat { steps, .. } => steps.iter().all(|step| can_be_whole(&step.action)),
        Action::Say(saying) => matches!(saying.word.info().group, Group::Meaning),
        Action::Status(status) => match status.kind {
            None => status.code >= 300 && status.headers.is_empty(),
            Some(Kind::Json | Kind::Sse) => true,
            Some(Kind::Text) => false,
        },
        _ => true,
    }
}

/// One step: a wait, then an action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) delay: Duration,
    pub(crate) action: Action,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Bytes(Vec<u8>),
    Coding(Coding),
    Cut,
    /// The bytes of `what`, one by one, `every` apart.
    Drip {
        every: Duration,
        what: Vec<Self>,
    },
    Eof,
    Eol(Eol),
    Garbage(usize),
    /// The bytes of all of them in one write.
    Glue(Vec<Self>),
    /// HTTP/2 GOAWAY: with a code at once and for good, without one a graceful one.
    GoAway(Option<u32>),
    Hold,
    Length(Length),
    Raw(Vec<u8>),
    Repeat {
        every: Duration,
        steps: Vec<Step>,
        times: Option<u64>,
    },
    /// HTTP/2 `RST_STREAM` with a code.
    ResetStream(u32),
    Rst,
    Say(Saying),
    Status(Status),
    /// Begin before the request's body is read.
    Unread,
}

/// A word that becomes frames of a wire.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Saying {
    pub(crate) word: Word,
    pub(crate) arguments: Vec<Argument>,
}

/// An argument of a word. The parser has checked that each is of the kind its word takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// A JSON object as it was written, on one line.
    Json(String),
    Number(u64),
    Text(String),
}

impl Saying {
    /// Argument `index` as it was written, if it is there.
    pub(crate) fn given(&self, index: usize) -> Option<&str> {
        match self.arguments.get(index)? {
            Argument::Json(text) | Argument::Text(text) => Some(text),
            Argument::Number(_) => None,
        }
    }

    /// Argument `index` as it was written, or `""`.
    pub(crate) fn text(&self, index: usize) -> &str {
        self.given(index).unwrap_or_default()
    }

    /// Argument `index`, or 0.
    pub(crate) fn number(&self, index: usize) -> u64 {
        match self.arguments.get(index) {
            Some(Argument::Number(number)) => *number,
            _ => 0,
        }
    }
}

/// A response head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: u16,
    pub(crate) kind: Option<Kind>,
    pub(crate) headers: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Sse,
    Text,
}

impl Kind {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Sse => "text/event-stream",
            Self::Text => "text/plain",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Sse => "sse",
            Self::Text => "text",
        }
    }
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// By a content-length of so many bytes.
    Bytes(u64),
    /// By the end of the connection.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Brotli,
    Gzip,
    Zstd,
}

impl Coding {
    const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Eol {
    Cr,
    Crlf,
    #[default]
    Lf,
}

impl Eol {
    const fn name(self) -> &'static str {
        match self {
            Self::Cr => "cr",
            Self::Crlf => "crlf",
            Self::Lf => "lf",
        }
    }
}

fn write_steps(f: &mut fmt::Formatter<'_>, steps: &[Step]) -> fmt::Result {
    for (index, step) in steps.iter().enumerate() {
        if index > 0 {
            f.write_str("; ")?;
        }
        if !step.delay.is_zero() {
            write!(f, "+{} ", Seconds(step.delay))?;
        }
        write!(f, "{}", step.action)?;
    }
    Ok(())
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "bytes {}", Quoted(bytes)),
            Self::Coding(coding) => f.write_str(coding.name()),
            Self::Cut => f.write_str("cut"),
            Self::Drip { every, what } => {
                write!(f, "drip {} {{ ", Seconds(*every))?;
                write_actions(f, what)
            }
            Self::Eof => f.write_str("eof"),
            Self::Eol(eol) => write!(f, "eol {}", eol.name()),
            Self::Garbage(len) => write!(f, "garbage {len}"),
            Self::Glue(what) => {
                f.write_str("glue { ")?;
                write_actions(f, what)
            }
            Self::GoAway(None) => f.write_str("h2.goaway"),
            Self::GoAway(Some(code)) => write!(f, "h2.goaway {code}"),
            Self::Hold => f.write_str("hold"),
            Self::Length(Length::Bytes(bytes)) => write!(f, "length {bytes}"),
            Self::Length(Length::None) => f.write_str("length none"),
            Self::Raw(bytes) => write!(f, "raw {}", Quoted(bytes)),
            Self::Repeat {
                every,
                steps,
                times,
            } => {
                write!(f, "repeat {} {{ ", Seconds(*every))?;
                write_steps(f, steps)?;
                match times {
                    Some(times) => write!(f, " }} x{times}"),
                    None => f.write_str(" } forever"),
                }
            }
            Self::ResetStream(code) => write!(f, "h2.reset {code}"),
            Self::Rst => f.write_str("rst"),
            Self::Say(saying) => {
                f.write_str(saying.word.info().name)?;
                for argument in &saying.arguments {
                    match argument {
                        Argument::Json(json) => write!(f, " {json}")?,
                        Argument::Number(number) => write!(f, " {number}")?,
                        Argument::Text(text) => write!(f, " {}", Quoted(text.as_bytes()))?,
                    }
                }
                Ok(())
            }
            Self::Status(status) => {
                write!(f, "status {}", status.code)?;
                if let Some(kind) = status.kind {
                    write!(f, " {}", kind.name())?;
                }
                for (name, value) in &status.headers {
                    write!(f, " [{name}: {value}]")?;
                }
                Ok(())
            }
            Self::Unread => f.write_str("unread"),
        }
    }
}

fn write_actions(f: &mut fmt::Formatter<'_>, actions: &[Action]) -> fmt::Result {
    for (index, action) in actions.iter().enumerate() {
        if index > 0 {
            f.write_str("; ")?;
        }
        write!(f, "{action}")?;
    }
    f.write_str(" }")
}

/// Seconds with as many decimals as they need.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_secs())?;
        let nanos = self.0.subsec_nanos();
        if nanos > 0 {
            let digits = format!("{nanos:09}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// A string as scripts write it.
struct Quoted<'a>(&'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '"' => f.write_str("\\\"")?,
                    '\\' => f.write_str("\\\\")?,
                    '\n' => f.write_str("\\n")?,
                    '\r' => f.write_str("\\r")?,
                    '\t' => f.write_str("\\t")?,
                    other if other.is_ascii_control() => {
                        write!(f, "\\x{:02X}", u32::from(other))?;
                    }
                    other => write!(f, "{other}")?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02X}")?;
            }
        }
        f.write_str("\"")
    }
}
