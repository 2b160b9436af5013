//! Recordings: what a provider answered to one request, byte for byte and with its timing.
//!
//! A recording is text, one JSON object a line, so that it can be read, cut and edited by hand:
//!
//! ```text
//! {"lifesign_recording":1,"wire":"openai-chat","model":"m"}
//! {"at_us":41000,"status":200,"headers":[["content-type","text/event-stream"]]}
//! {"at_us":52000,"text":"data: {\"choices\":[]}\n\n"}
//! {"at_us":61000,"b64":"w6k="}
//! {"at_us":62000,"end":"eof"}
//! ```
//!
//! The first line names the version and the wire; `model` may be absent. The second is the head of
//! the response and is absent if none came. A line for each read of the body follows, as text
//! where the read is UTF-8 and as base64 where it is not, and a line that says how it ended. Times
//! are whole microseconds since the last byte of the request was accepted and never go back.
//!
//! Nothing of the request is in it, and no cookie, so a recording holds no secret of the caller's.
//! Lines are made one by one, so that a program that dies leaves all but the last behind; the
//! missing end line then tells, and only [`Recording::parse_lenient`] takes such a file.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// A recording, read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// What was asked, as far as a recording tells.
    pub opening: Opening,
    /// The head of the response, if one came.
    pub head: Option<Head>,
    /// The reads of the body.
    pub chunks: Vec<Chunk>,
    /// How it ended; `None` if the recording was cut off.
    pub end: Option<End>,
}

/// The first line: what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The name of the wire.
    pub wire: String,
    /// The model, if the request named one.
    pub model: Option<String>,
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it came.
    pub at: Duration,
    /// The status.
    pub status: u16,
    /// Names and values of the headers, in their order.
    pub headers: Vec<(String, String)>,
}

/// One read of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// When it came.
    pub at: Duration,
    /// The bytes, before content decoding.
    pub bytes: Vec<u8>,
}

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// When it ended.
    pub at: Duration,
    /// How it ended.
    pub how: Ending,
}

/// How a recorded response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The body ended properly.
    Eof,
    /// The reader stopped: the answer was whole, a bound cut, or the caller left.
    Left,
    /// The connection was lost.
    Lost,
}

/// A recording that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the recording: {what}")]
pub struct RecordingError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl Recording {
    /// Reads a whole recording.
    ///
    /// # Errors
    ///
    /// Fails with the line and what is wrong with it, and if the recording has no end line.
    pub fn parse(text: &[u8]) -> Result<Self, RecordingError> {
        let recording = Self::parse_lenient(text)?;
        if recording.end.is_none() {
            return Err(RecordingError {
                line: text.split_inclusive(|byte| *byte == b'\n').count(),
                what: "the recording is cut off: a line with end must be the last".to_owned(),
            });
        }
        Ok(recording)
    }

    /// Reads a recording that may have been cut off anywhere after its first line.
    ///
    /// # Errors
    ///
    /// Fails as [`parse`](Self::parse) does, but for what a missing end explains.
    pub fn parse_lenient(text: &[u8]) -> Result<Self, RecordingError> {
        let mut lines = text.split_inclusive(|byte| *byte == b'\n').zip(1..);
        let (first, number) = lines.next().unwrap_or((b"", 1));
        let mut recording = Self {
            opening: parse_opening(first).map_err(|what| RecordingError { line: number, what })?,
            head: None,
            chunks: Vec::new(),
            end: None,
        };
        let mut latest = Duration::ZERO;
        for (line, number) in lines {
            let taken = parse_json(line).and_then(|line| recording.take(line, &mut latest));
            match taken {
                Err(_) if is_cut_off(line) && recording.end.is_none() => {}
                Err(what) => return Err(RecordingError { line: number, what }),
                Ok(()) => {}
            }
        }
        Ok(recording)
    }

    /// Writes the recording.
    pub fn encode(&self) -> String {
        let mut text = self.opening.encode();
        text.extend(self.head.iter().map(Head::encode));
        text.extend(
            self.chunks
                .iter()
                .map(|chunk| encode_chunk(chunk.at, &chunk.bytes)),
        );
        text.extend(self.end.iter().map(End::encode));
        text
    }

    fn take(&mut self, line: Line, latest: &mut Duration) -> Result<(), String> {
        let at = Duration::from_micros(line.at_us);
        if self.end.is_some() {
            return Err("nothing may follow the line with end".to_owned());
        }
        if at < *latest {
            let before = latest.as_micros();
            return Err(format!(
                "at_us is {} after {before}: times never go back",
                line.at_us
            ));
        }
        *latest = at;
        match line {
            Line {
                status: Some(status),
                headers,
                text: None,
                b64: None,
                end: None,
                ..
            } => {
                if self.head.is_some() || !self.chunks.is_empty() {
                    return Err("a line with status must be the second".to_owned());
                }
                if !(100..1000).contains(&status) {
                    return Err(format!("status is {status}: 100 to 999 is accepted"));
                }
                let headers = headers.unwrap_or_default();
                self.head = Some(Head {
                    at,
                    status,
                    headers,
                });
            }
            Line {
                status: None,
                headers: None,
                text: Some(text),
                b64: None,
                end: None,
                ..
            } => {
                self.take_chunk(at, text.into_bytes())?;
            }
            Line {
                status: None,
                headers: None,
                text: None,
                b64: Some(b64),
                end: None,
                ..
            } => {
                let bytes = STANDARD
                    .decode(b64)
                    .map_err(|error| format!("b64 is no base64: {error}"))?;
                self.take_chunk(at, bytes)?;
            }
            Line {
                status: None,
                headers: None,
                text: None,
                b64: None,
                end: Some(how),
                ..
            } => {
                self.end = Some(End { at, how });
            }
            _ => return Err("exactly one of status, text, b64 and end is accepted".to_owned()),
        }
        Ok(())
    }

    fn take_chunk(&mut self, at: Duration, bytes: Vec<u8>) -> Result<(), String> {
        if self.head.is_none() {
            return Err("the line with status must come before the body".to_owned());
        }
        self.chunks.push(Chunk { at, bytes });
        Ok(())
    }
}

impl Opening {
    /// Writes the first line of a recording.
    pub fn encode(&self) -> String {
        encode_line(&OpeningLine {
            lifesign_recording: VERSION,
            wire: self.wire.clone(),
            model: self.model.clone(),
        })
    }
}

impl Head {
    /// Returns what a recording keeps of a response's head: all but cookies.
    pub fn new(at: Duration, status: u16, headers: &HeaderMap) -> Self {
        let headers = headers
            .iter()
            .filter(|(name, _)| **name != http::header::SET_COOKIE)
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect();
        Self {
            at,
            status,
            headers,
        }
    }

    /// Writes the line of a head.
    pub fn encode(&self) -> String {
        encode_line(&Line {
            status: Some(self.status),
            headers: Some(self.headers.clone()),
            ..Line::at(self.at)
        })
    }
}

impl End {
    /// Writes the last line of a recording.
    pub fn encode(&self) -> String {
        encode_line(&Line {
            end: Some(self.how),
            ..Line::at(self.at)
        })
    }
}

/// Writes the line of one read of the body.
pub fn encode_chunk(at: Duration, bytes: &[u8]) -> String {
    let line = Line::at(at);
    encode_line(&match std::str::from_utf8(bytes) {
        Ok(text) => Line {
            text: Some(text.to_owned()),
            ..line
        },
        Err(_) => Line {
            b64: Some(STANDARD.encode(bytes)),
            ..line
        },
    })
}

/// The first line as it stands in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpeningLine {
    lifesign_recording: u64,
    wire: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

/// Every other line as it stands in the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    at_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    headers: Option<Vec<(String, String)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    b64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<Ending>,
}

impl Line {
    fn at(at: Duration) -> Self {
        Self {
            at_us: u64::try_from(at.as_micros()).unwrap_or(u64::MAX),
            ..Self::default()
        }
    }
}

fn parse_opening(line: &[u8]) -> Result<Opening, String> {
    #[derive(Deserialize)]
    struct Version {
        lifesign_recording: u64,
    }
    let Ok(version) = serde_json::from_slice::<Version>(line) else {
        let accepted = r#"{"lifesign_recording":1,"wire":"..."}"#;
        return Err(format!(
            "no recording begins like this: {accepted} is accepted"
        ));
    };
    let version = version.lifesign_recording;
    if version != VERSION {
        return Err(format!(
            "lifesign_recording is {version}: {VERSION} is accepted"
        ));
    }
    let OpeningLine { wire, model, .. } = parse_json(line)?;
    Ok(Opening { wire, model })
}

fn parse_json<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    if line.trim_ascii().is_empty() {
        return Err("the line is empty".to_owned());
    }
    serde_json::from_slice(line).map_err(|error| {
        // The line that serde_json counts is always the first.
        let text = error.to_string();
        match text.split_once(" at line 1 ") {
            Some((what, place)) => format!("{what} at {place}"),
            None => text,
        }
    })
}

/// Returns whether `line` is the beginning of a line whose rest was never written.
fn is_cut_off(line: &[u8]) -> bool {
    let parsed = serde_json::from_slice::<IgnoredAny>(line);
    !line.ends_with(b"\n") && parsed.is_err_and(|error| error.is_eof())
}

fn encode_line(line: &impl Serialize) -> String {
    // Strings, numbers and lists of them: there is nothing that could fail.
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text
}

const VERSION: u64 = 1;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    const WHOLE: &str = r#"{"lifesign_recording":1,"wire":"anthropic","model":"m"}
{"at_us":1000,"status":200,"headers":[["content-type","text/event-stream"]]}
{"at_us":2000,"text":"data: \"\u00e9\"\n\n"}
{"at_us":2000,"b64":"w6k="}
{"at_us":3000,"end":"eof"}
"#;

    fn at_us(at: u64) -> Duration {
        Duration::from_micros(at)
    }

    fn error(text: &str) -> String {
        Recording::parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_recording_reads_as_documented() {
        let recording = Recording::parse(WHOLE.as_bytes()).unwrap();

        assert_eq!(
            recording,
            Recording {
                opening: Opening {
                    wire: "anthropic".to_owned(),
                    model: Some("m".to_owned()),
                },
                head: Some(Head {
                    at: at_us(1000),
                    status: 200,
                    headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
                }),
                chunks: vec![
                    Chunk {
                        at: at_us(2000),
                        bytes: "data: \"\u{e9}\"\n\n".into()
                    },
                    Chunk {
                        at: at_us(2000),
                        bytes: "\u{e9}".into()
                    },
                ],
                end: Some(End {
                    at: at_us(3000),
                    how: Ending::Eof
                }),
            }
        );
    }

    #[test]
    fn half_a_character_is_recorded_as_base64() {
        assert_eq!(
            encode_chunk(at_us(7), b"\xc3"),
            "{\"at_us\":7,\"b64\":\"ww==\"}\n"
        );
    }

    #[test]
    fn a_head_is_recorded_without_cookies() {
        let mut headers = HeaderMap::new();
        headers.insert("set-cookie", "secret=1".parse().unwrap());
        headers.insert("retry-after", "2".parse().unwrap());

        let head = Head::new(at_us(5), 429, &headers);

        assert_eq!(
            head.encode(),
            "{\"at_us\":5,\"status\":429,\"headers\":[[\"retry-after\",\"2\"]]}\n"
        );
    }

    #[test]
    fn a_recording_cut_off_anywhere_says_so_and_can_be_read_on_request() {
        let first = WHOLE.find('\n').unwrap() + 1;
        let whole = Recording::parse(WHOLE.as_bytes()).unwrap();
        // Without its last line end it is whole.
        for len in first..WHOLE.len() - 1 {
            let cut = &WHOLE.as_bytes()[..len];

            let message = Recording::parse(cut).unwrap_err().to_string();
            let part = Recording::parse_lenient(cut).unwrap();

            assert!(message.contains("is cut off"), "{len}: {message}");
            assert!(whole.chunks.starts_with(&part.chunks));
            assert_eq!(part.end, None);
        }
    }

    #[test]
    fn each_mistake_is_named_with_its_line() {
        let after_head = |line: &str| {
            let head = r#"{"lifesign_recording":1,"wire":"w"}
{"at_us":9,"status":200}
"#;
            error(&format!("{head}{line}\n"))
        };
        for (found, expected) in [
            (
                error(""),
                "line 1 of the recording: no recording begins like this: ",
            ),
            (
                error("data: {}\n"),
                "line 1 of the recording: no recording begins like this: ",
            ),
            (
                error("{\"lifesign_recording\":2}\n"),
                "lifesign_recording is 2: 1 is accepted",
            ),
            (
                error("{\"lifesign_recording\":1}\n"),
                "missing field `wire` at column 24",
            ),
            (
                after_head("{\"at_us\":8,\"end\":\"eof\"}"),
                "at_us is 8 after 9: times never go back",
            ),
            (
                after_head("{\"at_us\":9}"),
                "exactly one of status, text, b64 and end is accepted",
            ),
            (
                after_head("{\"at_us\":9,\"text\":\"\",\"b64\":\"\"}"),
                "exactly one of ",
            ),
            (
                after_head("{\"at_us\":9,\"b64\":\"?\"}"),
                "line 3 of the recording: b64 is no base64",
            ),
            (
                after_head("{\"at_us\":9,\"status\":200}"),
                "a line with status must be the second",
            ),
            (
                after_head("{\"at_us\":9,\"end\":\"oef\"}"),
                "unknown variant `oef`",
            ),
            (
                after_head("{\"at_us\":9,\"txt\":\"\"}"),
                "unknown field `txt`",
            ),
            (
                after_head("{\"at_us\":-1,\"text\":\"\"}"),
                "invalid value: integer `-1`",
            ),
            (after_head(""), "line 3 of the recording: the line is empty"),
            (
                after_head("{\"at_us\":9,\"end\":\"eof\"}\n{\"at_us\":9,\"text\":\"\"}"),
                "line 4 of ",
            ),
            (
                error("{\"lifesign_recording\":1,\"wire\":\"w\"}\n{\"at_us\":1,\"text\":\"\"}\n"),
                "the line with status must come before the body",
            ),
            (
                error("{\"lifesign_recording\":1,\"wire\":\"w\"}\n{\"at_us\":1,\"status\":99}\n"),
                "status is 99: 100 to 999 is accepted",
            ),
        ] {
            assert!(found.contains(expected), "{found} has no {expected}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn what_is_written_reads_the_same(
            model in proptest::option::of(".{0,8}"),
            headers in proptest::collection::vec(("[a-z-]{1,8}", ".{0,8}"), 0..4),
            reads in proptest::collection::vec(
                (0u64..1 << 40, prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..16),
                    ".{0,16}".prop_map(String::into_bytes),
                ]),
                0..8,
            ),
            how in prop_oneof![Just(Ending::Eof), Just(Ending::Left), Just(Ending::Lost)],
        ) {
            let mut at = Duration::ZERO;
            let mut next = |gap| {
                at += at_us(gap);
                at
            };
            let recording = Recording {
                opening: Opening { wire: "w".to_owned(), model },
                head: Some(Head { at: next(3), status: 200, headers }),
                chunks: reads
                    .into_iter()
                    .map(|(gap, bytes)| Chunk { at: next(gap), bytes })
                    .collect(),
                end: Some(End { at: next(1), how }),
            };

            prop_assert_eq!(Recording::parse(recording.encode().as_bytes()), Ok(recording));
        }

        #[test]
        fn no_text_panics(text in proptest::collection::vec(any::<u8>(), 0..64)) {
            let opening = b"{\"lifesign_recording\":1,\"wire\":\"w\"}\n".as_slice();
            let read = Recording::parse(&[opening, &text].concat());

            prop_assert!(read.is_err());
        }
    }
}
