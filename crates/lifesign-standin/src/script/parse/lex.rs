//! The smallest pieces of a script: strings, numbers, times, blanks.

use std::time::Duration;

use super::{Fallible, MAX_GARBAGE, Parser};
use crate::script::Problem;

impl<'a> Parser<'a> {
    /// Seconds, or a number with `ms`, `s`, `m` or `h` behind it.
    pub(super) fn time(&mut self) -> Fallible<Duration> {
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
            (begin, Problem::refused("the time", value, accepted))
        })
    }

    pub(super) fn whole_number(&mut self, expected: &str) -> Fallible<u64> {
        let begin = self.at;
        self.take(|c| c.is_ascii_digit()).parse().map_err(|_| {
            self.at = begin;
            self.expected(expected)
        })
    }

    /// A quoted string, perhaps with `*N` behind it.
    pub(super) fn string(&mut self) -> Fallible<Vec<u8>> {
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
                return Err((begin, Problem::refused("the repetition", value, accepted)));
            };
            bytes = bytes.repeat(times);
        }
        Ok(bytes)
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Fallible<()> {
        let begin = self.at - 1;
        let letter = self.bump();
        let plain = match letter {
            Some('n') => Some(b'\n'),
            Some('r') => Some(b'\r'),
            Some('t') => Some(b'\t'),
            Some('0') => Some(0),
            Some('"') => Some(b'"'),
            Some('\\') => Some(b'\\'),
            Some('/') => Some(b'/'),
            _ => None,
        };
        if let Some(plain) = plain {
            bytes.push(plain);
            return Ok(());
        }
        let digits = match letter {
            None => return Err((begin, Problem::Unclosed { what: "the string" })),
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
    pub(super) fn bare(&mut self) -> &'a str {
        self.take(|c| !(c.is_whitespace() || ";{}[]\"#".contains(c)))
    }

    pub(super) fn is_at_argument(&mut self) -> bool {
        self.skip_blanks();
        !matches!(
            self.peek(),
            None | Some(';' | '\n' | '\r' | '}' | '#' | '/')
        )
    }

    pub(super) fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.bump();
        }
    }

    /// Steps stand apart by `;`, by a new line, or by `/` as prose puts scripts on one line.
    pub(super) fn skip_separators(&mut self) {
        while let Some(next) = self.peek() {
            if next == '#' {
                self.take(|c| c != '\n');
            } else if next.is_whitespace() || matches!(next, ';' | '/') {
                self.bump();
            } else {
                break;
            }
        }
    }

    pub(super) fn expected(&self, expected: &str) -> (usize, Problem) {
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

    pub(super) fn since(&self, begin: usize) -> String {
        self.text.get(begin..self.at).unwrap_or_default().to_owned()
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
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

/// A hundred years.
const MAX_TIME: Duration = Duration::from_hours(100 * 366 * 24);
