//! A walk over JSON that stops where it is not certain.
//!
//! What it accepts is a part of what `serde_json` accepts, and means the same. It checks every
//! byte: a frame that it calls text must be one that the decoder can read.

use std::ops::Range;

/// A place in a JSON text.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    /// Walks over the object that `bytes` are, calling `field` with each key and the walk at its
    /// value. Nothing may stand behind it.
    pub(crate) fn over(
        bytes: &'a [u8],
        field: impl FnMut(&'a [u8], &mut Self) -> Option<()>,
    ) -> Option<()> {
        let mut walk = Self { bytes, at: 0 };
        walk.object(field)?;
        walk.skip_space();
        let is_whole = walk.at == bytes.len();
        // Strings were only looked at byte by byte.
        (is_whole && std::str::from_utf8(bytes).is_ok()).then_some(())
    }

    /// Walks over an object, calling `field` with each key and the walk at its value.
    pub(crate) fn object(
        &mut self,
        mut field: impl FnMut(&'a [u8], &mut Self) -> Option<()>,
    ) -> Option<()> {
        self.skip_space();
        self.expect(b'{')?;
        self.skip_space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let key = self.string()?;
            if key.contains(&b'\\') {
                return None;
            }
            self.skip_space();
            self.expect(b':')?;
            field(key, self)?;
            self.skip_space();
            match self.next()? {
                b',' => self.skip_space(),
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Walks over a list of exactly one value.
    pub(crate) fn only_item(&mut self, item: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.skip_space();
        self.expect(b'[')?;
        item(self)?;
        self.skip_space();
        self.expect(b']')
    }

    /// Returns the text of a string as it is written, or nothing for a null.
    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        self.skip_space();
        if self.peek()? == b'n' {
            self.word(b"null")?;
            return Some(b"");
        }
        self.string()
    }

    /// Returns where the string stands that was walked over last, which is this long.
    pub(crate) fn place_of(&self, text: &[u8]) -> Range<usize> {
        let end = self.at.saturating_sub(1);
        end.saturating_sub(text.len())..end
    }

    /// Returns a small whole number.
    pub(crate) fn count(&mut self) -> Option<u64> {
        self.skip_space();
        let start = self.at;
        self.digits()?;
        let digits = &self.bytes[start..self.at];
        if matches!(self.bytes.get(self.at), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        let add = |sum, digit: &u8| sum * 10 + u64::from(digit - b'0');
        Some(digits.iter().fold(0, add))
    }

    /// Walks over a null.
    pub(crate) fn null(&mut self) -> Option<()> {
        self.skip_space();
        self.word(b"null")
    }

    /// Walks over a null or an empty list.
    pub(crate) fn nothing(&mut self) -> Option<()> {
        self.skip_space();
        if self.peek()? != b'[' {
            return self.word(b"null");
        }
        self.at += 1;
        self.skip_space();
        self.expect(b']')
    }

    /// Walks over a value of any kind.
    pub(crate) fn skip(&mut self) -> Option<()> {
        self.skip_nested(DEEPEST)
    }

    fn skip_nested(&mut self, depth: u32) -> Option<()> {
        self.skip_space();
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'n' => self.word(b"null"),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'-' | b'0'..=b'9' => self.number(),
            b'{' => {
                let depth = depth.checked_sub(1)?;
                self.object(|_, walk| walk.skip_nested(depth))
            }
            b'[' => {
                let depth = depth.checked_sub(1)?;
                self.at += 1;
                self.skip_space();
                if self.peek()? == b']' {
                    self.at += 1;
                    return Some(());
                }
                loop {
                    self.skip_nested(depth)?;
                    self.skip_space();
                    match self.next()? {
                        b',' => {}
                        b']' => return Some(()),
                        _ => return None,
                    }
                }
            }
            _ => None,
        }
    }

    /// Walks over a number without an exponent.
    fn number(&mut self) -> Option<()> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        self.digits()?;
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            let start = self.at;
            self.skip_digits();
            if !(1..=MOST_DIGITS).contains(&(self.at - start)) {
                return None;
            }
        }
        (!matches!(self.bytes.get(self.at), Some(b'e' | b'E'))).then_some(())
    }

    /// Walks over the digits of a whole number, few enough to fit.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        self.skip_digits();
        let len = self.at - start;
        let has_leading_zero = len > 1 && self.bytes[start] == b'0';
        ((1..=MOST_DIGITS).contains(&len) && !has_leading_zero).then_some(())
    }

    fn skip_digits(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    /// Returns the text of a string as it is written. The escapes of one letter may be in it.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let start = self.at;
        self.skip_text()?;
        self.expect(b'"')?;
        Some(&self.bytes[start..self.at - 1])
    }

    /// Walks over the text of a string, up to the quote behind it or the end of everything.
    fn skip_text(&mut self) -> Option<()> {
        loop {
            self.skip_plain();
            match self.peek() {
                None | Some(b'"') => return Some(()),
                Some(b'\\') => {
                    self.at += 1;
                    match self.next()? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        _ => return None,
                    }
                }
                Some(0..0x20) => return None,
                Some(_) => self.at += 1,
            }
        }
    }

    /// Walks, eight bytes at a time, up to a byte that may be no plain part of a string.
    fn skip_plain(&mut self) {
        while let Some(eight) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*eight);
            let special = zero_bytes(word ^ (ONES * u64::from(b'"')))
                | zero_bytes(word ^ (ONES * u64::from(b'\\')))
                | (word.wrapping_sub(ONES * 0x20) & !word & HIGHS);
            if special != 0 {
                // The lowest mark is true; those above it may be carried over from it.
                self.at += special.trailing_zeros() as usize / 8;
                return;
            }
            self.at += 8;
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes[self.at..]
            .starts_with(word)
            .then(|| self.at += word.len())
    }

    fn skip_space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }
}

/// Returns whether these bytes may stand between the quotes of a string, as far as the walk is certain.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    let mut walk = Walk { bytes, at: 0 };
    walk.skip_text().is_some() && walk.at == bytes.len() && std::str::from_utf8(bytes).is_ok()
}

/// The fields of one object that were seen: a second one of a name would make the decoder fail.
#[derive(Debug, Default)]
pub(crate) struct Seen(u32);

impl Seen {
    /// Notes a field by its number; `None` if it was seen before.
    pub(crate) fn once(&mut self, field: u32) -> Option<()> {
        let bit = 1 << field;
        let is_new = self.0 & bit == 0;
        self.0 |= bit;
        is_new.then_some(())
    }
}

/// Marks the highest bit of each byte that is zero; marks above the lowest may be wrong.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

const ONES: u64 = u64::MAX / 0xff;
const HIGHS: u64 = ONES << 7;

/// Digits that fit into any number.
const MOST_DIGITS: usize = 15;

/// How deep a value that is walked over may nest: less than the decoder bears.
const DEEPEST: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the walk is certain of an object with this value in it.
    fn is_certain(value: &[u8]) -> bool {
        Walk::over(&[b"{\"a\":", value, b"}"].concat(), |_, walk| walk.skip()).is_some()
    }

    #[test]
    fn values_of_every_kind_are_walked_over() {
        for value in [
            "null",
            "true",
            "false",
            "0",
            "-1.5",
            "123456789012345",
            "\"\"",
            r#""a \"quoted\" \\ \/ \b\f\n\r\t one, long enough for words""#,
            "\"\u{e9}\"",
            " [ ] ",
            "[1,[2,{}]]",
            r#"{"a":1,"b":[{"c":null}]}"#,
        ] {
            assert!(is_certain(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn what_the_decoder_may_not_bear_is_not_certain() {
        for value in [
            "",
            "nul",
            "+1",
            "01",
            "1.",
            ".5",
            "1e5",
            "1234567890123456",
            "-",
            "\"",
            "\"\\\"",
            r#""\u0041""#,
            r#""\x""#,
            "[1,]",
            "[1 2]",
            "[",
            r#"{"a"}"#,
            r#"{"a":1,}"#,
            r"{a:1}",
            "1}{",
            "1 1",
        ] {
            assert!(!is_certain(value.as_bytes()), "{value}");
        }
        assert!(!is_certain(b"\"\xff\""));
        assert!(!is_certain(&[b"[".repeat(17), b"]".repeat(17)].concat()));
    }

    #[test]
    fn every_byte_in_every_place_of_a_string_is_what_the_decoder_takes_it_for() {
        for byte in 0..=u8::MAX {
            for place in 0..20 {
                let mut value = b"\"aaaaaaaaaaaaaaaaaaaa\"".to_vec();
                value[place + 1] = byte;
                let object = [b"{\"a\":", &*value, b"}"].concat();

                let decoded = serde_json::from_slice::<serde_json::Value>(&object);

                assert_eq!(is_certain(&value), decoded.is_ok(), "{byte} at {place}");
            }
        }
    }

    #[test]
    fn counts_are_whole_and_small() {
        let count = |text: &'static str| {
            let mut count = None;
            Walk::over(text.as_bytes(), |_, walk| {
                count = walk.count();
                count.map(drop)
            })
            .and(count)
        };

        assert_eq!(count("{\"a\": 120 }"), Some(120));
        assert_eq!(count("{\"a\":1.0}"), None);
        assert_eq!(count("{\"a\":-1}"), None);
        assert_eq!(count("{\"a\":null}"), None);
    }

    #[test]
    fn a_field_is_noted_once() {
        let mut seen = Seen::default();

        assert_eq!(
            [3, 4, 3].map(|field| seen.once(field)),
            [Some(()), Some(()), None]
        );
    }
}
