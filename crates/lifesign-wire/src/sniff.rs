//! Judges a body by its first bytes, whatever its content type says.
//!
//! Providers send JSON errors as `text/event-stream`, whole answers where a stream was asked for,
//! and pages of HTML from a hop on the way. The first bytes that are not white space tell them
//! apart. White space before them is a heartbeat, reported as it comes.

use crate::sample::{SAMPLE, sample};

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A page of HTML, or XML: not the provider speaking.
    Html,
    /// A JSON object or array.
    Json,
    /// An event stream.
    Sse,
    /// Something else.
    Unknown,
}

/// What a read told a [`Sniffer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sniffed {
    /// Heartbeats in this read: its blank lines, or one if it brought nothing but spaces.
    pub beats: usize,
    /// What the body is, once that is sure.
    pub body: Option<Body>,
    /// Where in the read the body, or its next part, begins.
    pub from: usize,
}

/// Looks at a body until it is sure what it is.
///
/// Once it is, the body consists of [`held`](Self::held), the rest of the read from
/// [`from`](Sniffed::from) on, and all later reads. White space and a byte order mark in front of
/// it are left out.
///
/// This example shows a JSON body that a provider kept warm with blank lines.
///
/// ```
/// use lifesign_wire::{Body, Sniffer};
///
/// let mut sniffer = Sniffer::new();
/// let waiting = sniffer.push(b"\n\n");
/// assert_eq!((waiting.beats, waiting.body), (2, None));
/// let answer = sniffer.push(b"\n  {\"id\":1}");
/// assert_eq!((answer.beats, answer.body, answer.from), (1, Some(Body::Json), 3));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Sniffer {
    /// The beginning of a byte order mark or field name that earlier reads brought.
    held: Vec<u8>,
    /// Whether the last byte was a CR, so that an LF behind it ends no line of its own.
    after_cr: bool,
    /// Whether anything but the beginning of a byte order mark was seen.
    past_mark: bool,
    body: Option<Body>,
    sample: Vec<u8>,
}

impl Sniffer {
    /// Returns a sniffer at the start of a body.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next read.
    ///
    /// After the body was judged, a read only adds to the [`sample`](Self::sample) of a body that
    /// cannot be read.
    pub fn push(&mut self, chunk: &[u8]) -> Sniffed {
        if self.body.is_some() {
            self.add_sample(chunk);
            return self.sniffed(0, 0);
        }
        let mut from = 0;
        if !self.past_mark {
            match self.skip_mark(chunk) {
                Some(width) => from = width,
                None => return self.sniffed(0, chunk.len()),
            }
        }
        let mut beats = 0;
        if self.held.is_empty() {
            let space = self.count_space(&chunk[from..]);
            beats = space.beats;
            from += space.width;
        }
        let rest = &chunk[from..];
        if rest.is_empty() {
            return self.sniffed(beats, from);
        }

        let held = self.held.len();
        self.held.extend(rest.iter().take(LONGEST_HEAD));
        self.body = judge(&self.held);
        if self.body.is_none() {
            return self.sniffed(beats, chunk.len());
        }
        self.held.truncate(held);
        if !self.held.is_empty() {
            let head = self.held.clone();
            self.add_sample(&head);
        }
        self.add_sample(rest);
        self.sniffed(beats, from)
    }

    /// Judges a body that ended before it was sure; `None` if it was empty but for white space.
    pub fn finish(&mut self) -> Option<Body> {
        if self.body.is_none() && !self.held.is_empty() {
            let is_field = FIELDS.contains(&self.held.as_slice());
            self.body = Some(if is_field { Body::Sse } else { Body::Unknown });
            let head = self.held.clone();
            self.add_sample(&head);
        }
        self.body
    }

    /// Returns the beginning of the body that earlier reads brought, a few bytes at most.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Returns the beginning of a body that cannot be read, at most 512 bytes of it, with what is
    /// no text replaced; of a body that is hardly any text, how many bytes they are and the first.
    pub fn sample(&self) -> String {
        sample(&self.sample)
    }

    fn sniffed(&self, beats: usize, from: usize) -> Sniffed {
        Sniffed {
            beats,
            body: self.body,
            from,
        }
    }

    /// Returns the width of what the read holds of a byte order mark, or `None` if the mark is not
    /// whole.
    fn skip_mark(&mut self, chunk: &[u8]) -> Option<usize> {
        let missing = &MARK[self.held.len()..];
        if let Some(rest) = chunk.strip_prefix(missing) {
            self.past_mark = true;
            self.held.clear();
            return Some(chunk.len() - rest.len());
        }
        if missing.starts_with(chunk) {
            self.held.extend_from_slice(chunk);
            return None;
        }
        self.past_mark = true;
        Some(0)
    }

    fn count_space(&mut self, chunk: &[u8]) -> Space {
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let width = chunk.iter().take_while(is_space).count();
        let mut beats = 0;
        let mut continues = false;
        for byte in &chunk[..width] {
            match byte {
                b'\n' if self.after_cr => continues = true,
                b'\n' | b'\r' => beats += 1,
                _ => {}
            }
            self.after_cr = *byte == b'\r';
        }
        if beats == 0 && width > usize::from(continues) {
            beats = 1;
        }
        Space { beats, width }
    }

    fn add_sample(&mut self, bytes: &[u8]) {
        if matches!(self.body, Some(Body::Html | Body::Unknown)) {
            let room = SAMPLE - self.sample.len();
            self.sample.extend(bytes.iter().take(room));
        }
    }
}

/// White space at the start of a read.
struct Space {
    beats: usize,
    width: usize,
}

/// Judges a body by its `head`, which does not begin with white space.
fn judge(head: &[u8]) -> Option<Body> {
    match head.first()? {
        b'{' | b'[' => return Some(Body::Json),
        b'<' => return Some(Body::Html),
        b':' => return Some(Body::Sse),
        _ => {}
    }
    if let Some(rest) = head.strip_prefix(ERROR) {
        // A line of plain text may begin like this too.
        let value = rest.strip_prefix(b" ").unwrap_or(rest);
        return value.first().map(|first| match first {
            b'{' => Body::Sse,
            _ => Body::Unknown,
        });
    }
    let field = FIELDS.into_iter().find_map(|name| head.strip_prefix(name));
    if let Some(rest) = field {
        return rest.first().map(|next| match next {
            b':' | b'\r' | b'\n' => Body::Sse,
            _ => Body::Unknown,
        });
    }
    let is_prefix = ERROR.starts_with(head) || FIELDS.iter().any(|name| name.starts_with(head));
    (!is_prefix).then_some(Body::Unknown)
}

const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];
const ERROR: &[u8] = b"error:";
const MARK: &[u8] = b"\xef\xbb\xbf";

/// More bytes than it ever takes to be sure.
const LONGEST_HEAD: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a body is, its bytes without what was skipped, and the beats before it.
    fn sniff<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Option<Body>, Vec<u8>, usize) {
        let mut sniffer = Sniffer::new();
        let mut bytes = Vec::new();
        let mut beats = 0;
        let mut is_sure = false;
        for chunk in chunks {
            let sniffed = sniffer.push(chunk);
            beats += sniffed.beats;
            if sniffed.body.is_some() {
                if !is_sure {
                    bytes.extend_from_slice(sniffer.held());
                }
                is_sure = true;
                bytes.extend_from_slice(&chunk[sniffed.from..]);
            }
        }
        if !is_sure {
            bytes.extend_from_slice(sniffer.held());
        }
        (sniffer.finish(), bytes, beats)
    }

    #[test]
    fn a_body_is_what_its_first_bytes_say() {
        for (body, text) in [
            (Body::Json, "{\"a\":1}"),
            (Body::Json, "[1]"),
            (Body::Html, "<!doctype html>"),
            (Body::Sse, ":"),
            (Body::Sse, ": ping"),
            (Body::Sse, "data:x"),
            (Body::Sse, "data\n"),
            (Body::Sse, "data"),
            (Body::Sse, "event: ping"),
            (Body::Sse, "id:1"),
            (Body::Sse, "retry: 1"),
            (Body::Sse, "error: {\"a\":1}"),
            (Body::Sse, "error:{"),
            (Body::Unknown, "error: upstream is away"),
            (Body::Unknown, "error"),
            (Body::Unknown, "database on fire"),
            (Body::Unknown, "da"),
            (Body::Unknown, "upstream connect error"),
            (Body::Unknown, "\"text\""),
            (Body::Unknown, "\u{0}\u{1}"),
        ] {
            let (found, bytes, beats) = sniff([text.as_bytes()]);

            assert_eq!((found, beats), (Some(body), 0), "{text:?}");
            assert_eq!(bytes, text.as_bytes());
        }
    }

    #[test]
    fn a_body_of_white_space_is_nothing() {
        assert_eq!(sniff([b"".as_slice(), b" \n \r\n"]), (None, vec![], 2));
    }

    #[test]
    fn blank_lines_before_a_body_are_beats_and_a_split_line_end_is_one() {
        assert_eq!(
            sniff([b"\n\r".as_slice(), b"\n\r\n  ", b"data: 1"]),
            (Some(Body::Sse), b"data: 1".to_vec(), 3)
        );
    }

    #[test]
    fn spaces_before_a_body_are_one_beat_a_read() {
        assert_eq!(
            sniff([b" ".as_slice(), b"     ", b" {}"]),
            (Some(Body::Json), b"{}".to_vec(), 3)
        );
    }

    #[test]
    fn a_byte_order_mark_is_skipped_once_even_in_pieces() {
        let read = [b"\xef".as_slice(), b"\xbb", b"\xbf{}"];
        assert_eq!(sniff(read), (Some(Body::Json), b"{}".to_vec(), 0));

        let (body, bytes, _) = sniff([b"\xef\xbb\xbf\xef\xbb\xbf{}".as_slice()]);
        assert_eq!((body, bytes.len()), (Some(Body::Unknown), 5));
    }

    #[test]
    fn a_sample_is_bounded_and_readable_text() {
        let mut sniffer = Sniffer::new();

        sniffer.push(b"up");
        sniffer.push("stream \u{e9}".repeat(100).as_bytes());
        sniffer.push(&[0xff; 100]);

        let sample = sniffer.sample();
        assert!(sample.starts_with("upstream \u{e9}stream"));
        assert!(sample.len() <= 512 && sample.len() > 500);
    }

    #[test]
    fn a_body_that_can_be_read_leaves_no_sample() {
        let mut sniffer = Sniffer::new();

        sniffer.push(b"{\"key\":1}");

        assert_eq!(sniffer.sample(), "");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn the_reads_do_not_matter(
            space in "(\u{feff})?[\r\n]{0,4}",
            head in "(data|event|id|error: ?|retry|dat|:|\\{|<|x|[a-z\u{e9}]{1,3})",
            tail in ":?[ -~]{0,20}",
            cuts in proptest::collection::vec(1usize..5, 0..40),
        ) {
            let text = format!("{space}{head}{tail}");

            let whole = sniff([text.as_bytes()]);
            let mut rest = text.as_bytes();
            let mut pieces = Vec::new();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);

            prop_assert_eq!(sniff(pieces), whole);
        }
    }
}
