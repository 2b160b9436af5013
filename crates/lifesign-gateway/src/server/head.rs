//! The heads of requests as bytes, for what hyper forgives and a gateway must not.
//!
//! hyper takes a line that ends in a bare LF, takes `Transfer-Encoding` where a `Content-Length`
//! is there too (and does not show the latter), takes two lengths that agree, and any coding that
//! ends in `chunked`. Another server before us may read each of these differently, and then the
//! two disagree on where the next request begins. It refuses by itself a folded line, white space
//! before a colon, lengths that differ, and a coding that does not end in `chunked`.
//!
//! A body is counted to find the next head. One that is chunked is not followed: the server closes
//! the connection after it, so there is no next one.

/// Why a head is refused. Displayed to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// Watches the bytes of one connection pass by.
#[derive(Debug)]
pub(super) struct HeadWatch {
    state: State,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    head_len_bytes: usize,
    most_len_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first line of a head.
    Between,
    Head(Framing),
    /// So many bytes of a body are still to come.
    Body(u64),
    /// Nothing is looked at any more.
    Done,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Framing {
    length: Option<u64>,
    is_chunked: bool,
}

impl HeadWatch {
    /// Returns a watch that refuses a head of more than `most_len_bytes`.
    pub(super) fn new(most_len_bytes: usize) -> Self {
        Self {
            state: State::Between,
            line: Vec::new(),
            head_len_bytes: 0,
            most_len_bytes,
        }
    }

    /// Looks at what was read, as far as the end of a request; returns how much that is if a request
    /// has ended in it. What comes behind belongs to the next one.
    pub(super) fn handle(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let has_ended = match self.state {
                State::Done => return Ok(None),
                State::Body(left) => {
                    let here =
                        usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    rest = rest.get(here..).unwrap_or_default();
                    let left = left - here as u64;
                    self.state = if left == 0 {
                        State::Between
                    } else {
                        State::Body(left)
                    };
                    left == 0
                }
                State::Between | State::Head(_) => {
                    let was_inside = matches!(self.state, State::Head(_));
                    let passed = self.handle_head(rest);
                    rest = passed.inspect_err(|_| self.finish())?;
                    was_inside && self.state == State::Between
                }
            };
            if has_ended {
                return Ok(Some(bytes.len() - rest.len()));
            }
        }
        Ok(None)
    }

    /// Returns whether a head has begun and not ended.
    pub(super) fn is_inside(&self) -> bool {
        matches!(self.state, State::Head(_)) || !self.line.is_empty()
    }

    fn finish(&mut self) {
        self.state = State::Done;
        self.line = Vec::new();
    }

    /// Takes one line, or the beginning of one; returns what follows.
    fn handle_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let len = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
        let (piece, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
        self.head_len_bytes = self.head_len_bytes.saturating_add(piece.len());
        if self.head_len_bytes > self.most_len_bytes {
            return Err(TOO_LONG);
        }
        if piece.last() != Some(&b'\n') {
            self.line.extend_from_slice(piece);
            return Ok(rest);
        }
        if self.line.is_empty() {
            self.handle_line(piece)?;
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(piece);
            self.handle_line(&line)?;
        }
        Ok(rest)
    }

    fn handle_line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let line = line.strip_suffix(b"\r\n").ok_or(BARE_LF)?;
        if line.contains(&b'\r') {
            return Err(BARE_CR);
        }
        self.state = match (self.state, line) {
            // Empty lines before a request are to be ignored (RFC 9112, 2.2).
            (State::Between, []) => State::Between,
            (State::Between, _) => State::Head(Framing::default()),
            (State::Head(framing), []) => {
                self.head_len_bytes = 0;
                framing.body()
            }
            (State::Head(framing), field) => State::Head(framing.with_field(field)?),
            (state @ (State::Body(_) | State::Done), _) => state,
        };
        Ok(())
    }
}

impl Framing {
    fn with_field(mut self, field: &[u8]) -> Result<Self, Malformed> {
        if field.first().is_some_and(u8::is_ascii_whitespace) {
            return Err(FOLDED);
        }
        let colon = memchr::memchr(b':', field).ok_or(NO_FIELD)?;
        let (name, value) = field.split_at_checked(colon).ok_or(NO_FIELD)?;
        if name.is_empty() || name.iter().any(u8::is_ascii_whitespace) {
            return Err(NO_FIELD);
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            if self.length.is_some() {
                return Err(TWO_LENGTHS);
            }
            self.length = Some(read_length(value).ok_or(NO_LENGTH)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(NOT_CHUNKED);
            }
            self.is_chunked = true;
        }
        if self.is_chunked && self.length.is_some() {
            return Err(TWO_LENGTHS);
        }
        Ok(self)
    }

    fn body(self) -> State {
        match self {
            Self {
                is_chunked: true, ..
            } => State::Done,
            Self {
                length: Some(length @ 1..),
                ..
            } => State::Body(length),
            Self { .. } => State::Between,
        }
    }
}

fn read_length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| str::from_utf8(value).ok()?.parse().ok())?
}

const BARE_CR: Malformed = Malformed("a line of the head contains a bare CR");
const BARE_LF: Malformed = Malformed("a line of the head ends in a bare LF");
const FOLDED: Malformed = Malformed("a line of the head is folded");
const NO_FIELD: Malformed = Malformed("a line of the head is no header field");
const NO_LENGTH: Malformed = Malformed("the content-length is no number");
const NOT_CHUNKED: Malformed = Malformed("the transfer-encoding is not chunked, once");
pub(super) const TOO_LONG: Malformed = Malformed("the head is too long");
const TWO_LENGTHS: Malformed = Malformed("the length of the body is given twice");

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn watch(bytes: &[u8]) -> Result<HeadWatch, Malformed> {
        let mut watch = HeadWatch::new(1000);
        handle_all(&mut watch, bytes).map(|()| watch)
    }

    fn handle_all(watch: &mut HeadWatch, mut bytes: &[u8]) -> Result<(), Malformed> {
        while let Some(len) = watch.handle(bytes)? {
            bytes = &bytes[len..];
        }
        Ok(())
    }

    fn with(fields: &str) -> Result<(), Malformed> {
        watch(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()).map(drop)
    }

    #[test]
    fn what_two_servers_could_read_differently_is_refused() {
        assert_eq!(
            with("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
            Err(TWO_LENGTHS)
        );
        assert_eq!(
            with("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"),
            Err(TWO_LENGTHS)
        );
        assert_eq!(
            with("Content-Length: 3\r\ncontent-length: 3\r\n"),
            Err(TWO_LENGTHS)
        );
        assert_eq!(with("Content-Length: +3\r\n"), Err(NO_LENGTH));
        assert_eq!(with("Content-Length: 3, 3\r\n"), Err(NO_LENGTH));
        assert_eq!(with("Content-Length:\r\n"), Err(NO_LENGTH));
        assert_eq!(
            with("Content-Length: 99999999999999999999\r\n"),
            Err(NO_LENGTH)
        );
        assert_eq!(
            with("Transfer-Encoding: gzip, chunked\r\n"),
            Err(NOT_CHUNKED)
        );
        assert_eq!(with("Transfer-Encoding: xchunked\r\n"), Err(NOT_CHUNKED));
        assert_eq!(with("Transfer-Encoding: \x0bchunked\r\n"), Err(NOT_CHUNKED));
        assert_eq!(
            with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            Err(NOT_CHUNKED)
        );
        assert_eq!(with("Transfer-Encoding : chunked\r\n"), Err(NO_FIELD));
        assert_eq!(with("X: y\r\n Transfer-Encoding: chunked\r\n"), Err(FOLDED));
        assert_eq!(with("X: y\nTransfer-Encoding: chunked\r\n"), Err(BARE_LF));
        assert_eq!(with("X: y\rTransfer-Encoding: chunked\r\n"), Err(BARE_CR));
        assert_eq!(with("X\r\n"), Err(NO_FIELD));
        assert_eq!(with("\n"), Err(BARE_LF));
    }

    #[test]
    fn a_head_beyond_the_limit_is_refused_and_heads_are_counted_one_by_one() {
        let long = format!("X: {}\r\n", "y".repeat(1000));
        let plain = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

        assert_eq!(with(&long), Err(TOO_LONG));
        assert!(watch(plain.repeat(100).as_bytes()).is_ok());
    }

    #[test]
    fn a_body_is_not_taken_for_a_head() {
        let post = b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nno\nheader";
        let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;\n\r\nx\r\n\n";

        assert_eq!(watch(post).unwrap().state, State::Between);
        assert_eq!(watch(chunked).unwrap().state, State::Done);
        assert_eq!(watch(&[post, &b"\n"[..]].concat()).unwrap_err(), BARE_LF);
    }

    #[test]
    fn a_request_ends_where_the_next_begins() {
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let post = "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
        let mut watch = HeadWatch::new(1000);

        for request in [get, post, get] {
            let bytes = format!("{request}{post}\n");
            assert_eq!(watch.handle(bytes.as_bytes()), Ok(Some(request.len())));
        }
        assert_eq!(watch.handle(&post.as_bytes()[..20]), Ok(None));
        assert_eq!(
            watch.handle(&post.as_bytes()[20..]),
            Ok(Some(post.len() - 20))
        );
    }

    #[test]
    fn it_is_inside_of_a_head_from_its_first_byte_to_its_last() {
        let mut watch = HeadWatch::new(1000);

        assert!(!watch.is_inside());
        for byte in b"GET / HTTP/1.1\r\nHost: a\r\n\r" {
            watch.handle(&[*byte]).unwrap();
            assert!(watch.is_inside());
        }
        watch.handle(b"\n").unwrap();
        assert!(!watch.is_inside());
    }

    proptest! {
        #[test]
        fn how_bytes_are_cut_changes_nothing(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "GET / HTTP/1.1\r\n", "Host: a\r\n", "\r\n", "Content-Length: 4\r\n", "body", "\n",
                "Transfer-Encoding: chunked\r\n", " folded\r\n", "\r",
            ]), 0..20),
            cuts in prop::collection::vec(1_usize..9, 1..9),
        ) {
            let bytes = pieces.concat().into_bytes();
            let mut cut = HeadWatch::new(1000);
            let mut rest = &bytes[..];
            let mut result = Ok(());

            for len in cuts.iter().cycle() {
                if rest.is_empty() || result.is_err() {
                    break;
                }
                let (piece, after) = rest.split_at((*len).min(rest.len()));
                result = handle_all(&mut cut, piece);
                rest = after;
            }

            let whole = watch(&bytes);
            prop_assert_eq!(whole.as_ref().err(), result.as_ref().err());
            if let Ok(whole) = whole {
                prop_assert_eq!(whole.state, cut.state);
                prop_assert_eq!(whole.line, cut.line);
            }
        }
    }
}
