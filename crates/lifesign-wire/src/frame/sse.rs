//! Server-sent events at byte level.
//!
//! The framers on the shelf drop comments and blank lines, which for us are heartbeats, have no
//! caps, or rescan a line at every read. This one looks at each byte once. An event that lies
//! inside one read is handed out as slices of it; only what straddles reads is copied.

use memchr::{memchr, memchr2};

use super::{FrameLimits, Part, TooLarge};

/// One unit of an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SseFrame<'a> {
    /// A blank line that closes neither an event nor a comment, or fields that make no event.
    Blank,
    /// The text of a comment, without its colon and one space after it.
    Comment(&'a [u8]),
    /// An event that carries data or an error.
    Event(SseEvent<'a>),
}

/// An event of an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SseEvent<'a> {
    /// The value of the last `event` field, unless it is empty.
    pub name: Option<&'a [u8]>,
    /// The values of the `data` fields, joined by LF; empty if there is only an error.
    pub data: &'a [u8],
    /// The value of the first field named `error` that starts with `{`: llama-box reports
    /// failures so, and a reader that follows the standard sees nothing of them.
    pub error: Option<&'a [u8]>,
    /// Whether a blank line closed it. The standard discards an event without one, but servers
    /// leave it away after their last: whoever reads it decides by whether it parses whole.
    pub terminated: bool,
}

/// Cuts the bytes of an event stream into frames.
///
/// This example shows an event that arrives in two reads, with a heartbeat behind it.
///
/// ```
/// use lifesign_wire::{FrameLimits, SseFrame, SseFramer};
///
/// let mut framer = SseFramer::new(FrameLimits::default());
/// let mut seen = Vec::new();
/// for chunk in ["data: {\"a\":", "1}\n\n: still here\n\n"] {
///     framer.push(chunk.as_bytes(), |frame| match frame {
///         SseFrame::Event(event) => seen.push(event.data.to_vec()),
///         SseFrame::Comment(text) => seen.push(text.to_vec()),
///         SseFrame::Blank => {}
///     })?;
/// }
/// assert_eq!(seen, [b"{\"a\":1}".as_slice(), b"still here"]);
/// # Ok::<(), lifesign_wire::TooLarge>(())
/// ```
#[derive(Debug)]
pub struct SseFramer {
    /// The beginning of a line whose end has not come. Apart from the rest, so that fields can
    /// borrow from it as they do from a read.
    line: Vec<u8>,
    state: State,
    broken: Option<TooLarge>,
}

impl SseFramer {
    /// Returns a framer at the start of a stream.
    pub fn new(limits: FrameLimits) -> Self {
        Self {
            line: Vec::new(),
            state: State {
                limits,
                mark: Some(0),
                after_cr: false,
                after_comment: false,
                held: Held::default(),
                pending: 0,
            },
            broken: None,
        }
    }

    /// Takes the next bytes of the stream and hands `each` frame to the caller, in their order.
    ///
    /// # Errors
    ///
    /// Fails as soon as a line or frame is known to be larger than its cap, whole or not; what came
    /// before it was handed out. A framer that failed fails again.
    pub fn push(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(SseFrame<'_>),
    ) -> Result<(), TooLarge> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let pushed = self.state.take(chunk, &mut self.line, &mut each);
        if let Err(broken) = pushed {
            self.broken = Some(broken);
        }
        pushed
    }

    /// Ends the stream: hands out an event whose blank line, or line end, has not come.
    ///
    /// # Errors
    ///
    /// Fails if the stream failed before.
    pub fn finish(&mut self, mut each: impl FnMut(SseFrame<'_>)) -> Result<(), TooLarge> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        self.state.finish(&mut self.line, &mut each)
    }

    /// Returns how many of the bytes taken so far belong to a frame that is not whole.
    ///
    /// Everything before them may be passed on as it came.
    pub fn pending(&self) -> usize {
        self.state.pending
    }
}

/// All of a framer but the line that straddles two reads.
#[derive(Debug)]
struct State {
    limits: FrameLimits,
    /// How many bytes of a byte order mark were seen; none once the stream is past its place.
    mark: Option<usize>,
    /// Whether the last read ended in a CR, so that an LF at the start of the next belongs to it.
    after_cr: bool,
    /// Whether a comment came after the last blank line: the next blank line closes it.
    after_comment: bool,
    /// The fields of an open event that came in earlier reads.
    held: Held,
    /// Bytes since the last frame ended. Between lines it is 0 if and only if no event is open.
    pending: usize,
}

impl State {
    fn take(
        &mut self,
        chunk: &[u8],
        carried: &mut Vec<u8>,
        each: &mut impl FnMut(SseFrame<'_>),
    ) -> Result<(), TooLarge> {
        let mut rest = self.skip_line_feed(chunk);
        if let Some(seen) = self.mark {
            rest = self.skip_mark(rest, seen, carried);
        }
        let mut fields = Fields::default();

        if !carried.is_empty() {
            let Some(end) = line_end(rest) else {
                carried.extend_from_slice(rest);
                self.pending += rest.len();
                return self.check(carried.len());
            };
            let is_first = self.pending == carried.len();
            carried.extend_from_slice(&rest[..end]);
            self.pending += end;
            rest = self.take_line(carried, &rest[end..], is_first, &mut fields, each)?;
        }
        while let Some(end) = line_end(rest) {
            let is_first = self.pending == 0;
            let (line, from_end) = rest.split_at(end);
            self.pending += end;
            rest = self.take_line(line, from_end, is_first, &mut fields, each)?;
        }

        self.held.hold(fields);
        carried.clear();
        carried.shrink_to(KEPT_CAPACITY);
        carried.extend_from_slice(rest);
        self.pending += rest.len();
        self.check(rest.len())
    }

    fn finish(
        &mut self,
        carried: &mut Vec<u8>,
        each: &mut impl FnMut(SseFrame<'_>),
    ) -> Result<(), TooLarge> {
        if let Some(seen) = self.mark.take() {
            carried.extend_from_slice(&MARK[..seen]);
        }
        let mut fields = Fields::default();
        if !carried.is_empty() {
            self.take_line(carried, &[], false, &mut fields, each)?;
        }
        if let Some(event) = self.held.event(fields, false) {
            each(SseFrame::Event(event));
        }
        carried.clear();
        self.held.clear();
        self.pending = 0;
        Ok(())
    }

    /// Takes a whole line, the first of its frame or not. Returns what comes behind its end, with
    /// which `from_end` begins, or behind the whole event if it is of the commonest form.
    #[expect(
        clippy::inline_always,
        reason = "a sixth of the throughput at reads of 1,400 bytes"
    )]
    #[inline(always)]
    fn take_line<'a, 'b: 'a>(
        &mut self,
        line: &'a [u8],
        from_end: &'b [u8],
        is_first: bool,
        fields: &mut Fields<'a>,
        each: &mut impl FnMut(SseFrame<'_>),
    ) -> Result<&'b [u8], TooLarge> {
        if is_first
            && let Some((event, after)) = plain_event(line, from_end)
            && line.len() + from_end.len() - after.len() <= self.limits.line.min(self.limits.frame)
        {
            self.pending = 0;
            self.after_comment = false;
            each(SseFrame::Event(event));
            return Ok(after);
        }
        self.check(line.len())?;
        let width = self.end_width(from_end);
        let after = &from_end[width..];
        if let Some(value) = line.strip_prefix(b"data:") {
            self.pending += width;
            self.take_data(strip_space(value), fields);
        } else if line.is_empty() {
            self.pending = 0;
            self.close(std::mem::take(fields), each);
        } else if let Some(text) = line.strip_prefix(b":") {
            let in_event = self.pending > line.len();
            self.pending = if in_event { self.pending + width } else { 0 };
            self.after_comment = true;
            each(SseFrame::Comment(strip_space(text)));
        } else if let Some(name) = line.strip_prefix(b"event:") {
            self.pending += width;
            fields.name = Some(strip_space(name));
        } else {
            self.pending += width;
            self.take_field(line, fields);
        }
        Ok(after)
    }

    fn take_field<'a>(&mut self, line: &'a [u8], fields: &mut Fields<'a>) {
        let (name, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], strip_space(&line[colon + 1..])),
            None => (line, &line[line.len()..]),
        };
        match name {
            b"data" => self.take_data(value, fields),
            b"event" => fields.name = Some(value),
            b"error" if value.starts_with(b"{") && fields.error.is_none() => {
                fields.error = Some(value);
            }
            // `id` and `retry` serve a reader that reconnects; all others are unknown.
            _ => {}
        }
    }

    fn take_data<'a>(&mut self, value: &'a [u8], fields: &mut Fields<'a>) {
        if let Some(first) = fields.data.take() {
            self.held.add_data(first);
            self.held.add_data(value);
        } else if self.held.data.is_set {
            self.held.add_data(value);
        } else {
            fields.data = Some(value);
        }
    }

    fn close(&mut self, fields: Fields<'_>, each: &mut impl FnMut(SseFrame<'_>)) {
        if let Some(event) = self.held.event(fields, true) {
            each(SseFrame::Event(event));
        } else if !self.after_comment {
            each(SseFrame::Blank);
        }
        self.after_comment = false;
        self.held.clear();
    }

    /// Fails if the line that `pending` ends with, `line_len` bytes so far, or its frame is too
    /// large. Names whichever cap was passed first, so that the reads do not matter.
    fn check(&self, line_len: usize) -> Result<(), TooLarge> {
        let FrameLimits { line, frame } = self.limits;
        if line_len <= line && self.pending <= frame {
            return Ok(());
        }
        let room = frame.saturating_sub(self.pending - line_len);
        Err(if line_len > line && line <= room {
            TooLarge {
                what: Part::Line,
                limit: line,
            }
        } else {
            TooLarge {
                what: Part::Frame,
                limit: frame,
            }
        })
    }

    /// Returns the width of the line end that `from_end` begins with, as far as this read holds it.
    fn end_width(&mut self, from_end: &[u8]) -> usize {
        match from_end {
            [b'\r', b'\n', ..] => 2,
            [b'\r'] => {
                self.after_cr = true;
                1
            }
            // At the end of the stream there is none.
            [] => 0,
            _ => 1,
        }
    }

    fn skip_line_feed<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        if chunk.is_empty() || !std::mem::take(&mut self.after_cr) {
            return chunk;
        }
        match chunk.strip_prefix(b"\n") {
            Some(rest) => {
                // It belongs to the frame of its line, if that is still open.
                self.pending += usize::from(self.pending > 0);
                rest
            }
            None => chunk,
        }
    }

    /// Drops the byte order mark, which may come in pieces; what only began like one is a line.
    fn skip_mark<'a>(&mut self, rest: &'a [u8], seen: usize, carried: &mut Vec<u8>) -> &'a [u8] {
        let missing = &MARK[seen..];
        let same = missing.iter().zip(rest).take_while(|(a, b)| a == b);
        let same = same.count();
        if same == missing.len() {
            self.mark = None;
            self.pending = 0;
        } else if same == rest.len() {
            self.mark = Some(seen + same);
            self.pending = seen + same;
        } else {
            self.mark = None;
            self.pending = seen + same;
            carried.extend_from_slice(&MARK[..seen + same]);
        }
        &rest[same..]
    }
}

/// The fields of an open event that lie in the current read.
#[derive(Clone, Copy, Default)]
struct Fields<'a> {
    name: Option<&'a [u8]>,
    data: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
}

impl Fields<'_> {
    fn is_empty(&self) -> bool {
        self.name.is_none() && self.data.is_none() && self.error.is_none()
    }
}

/// The fields of an open event that had to be copied. The buffers are kept from event to event.
#[derive(Debug, Default)]
struct Held {
    any: bool,
    name: Slot,
    data: Slot,
    error: Slot,
}

impl Held {
    /// Copies `fields`, whose bytes are about to go.
    fn hold(&mut self, fields: Fields<'_>) {
        if fields.is_empty() {
            return;
        }
        if let Some(name) = fields.name {
            self.any = true;
            self.name.set(name);
        }
        if let Some(data) = fields.data {
            self.add_data(data);
        }
        if let Some(error) = fields.error.filter(|_| !self.error.is_set) {
            self.any = true;
            self.error.set(error);
        }
    }

    fn add_data(&mut self, value: &[u8]) {
        self.any = true;
        if self.data.is_set {
            self.data.bytes.push(b'\n');
            self.data.bytes.extend_from_slice(value);
        } else {
            self.data.set(value);
        }
    }

    /// Returns the event that these fields and those of the current read make, if any.
    fn event<'a>(&'a self, fields: Fields<'a>, terminated: bool) -> Option<SseEvent<'a>> {
        let data = fields.data.or_else(|| self.data.get());
        let error = self.error.get().or(fields.error);
        if data.is_none() && error.is_none() {
            return None;
        }
        let name = fields.name.or_else(|| self.name.get());
        Some(SseEvent {
            name: name.filter(|name| !name.is_empty()),
            data: data.unwrap_or_default(),
            error,
            terminated,
        })
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.any) {
            self.name.clear();
            self.data.clear();
            self.error.clear();
        }
    }
}

/// A buffer that may hold a value.
#[derive(Debug, Default)]
struct Slot {
    is_set: bool,
    bytes: Vec<u8>,
}

impl Slot {
    fn get(&self) -> Option<&[u8]> {
        self.is_set.then_some(&self.bytes)
    }

    fn set(&mut self, value: &[u8]) {
        self.is_set = true;
        self.bytes.clear();
        self.bytes.extend_from_slice(value);
    }

    fn clear(&mut self) {
        self.is_set = false;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
    }
}

/// Returns the event whose first line is `line`, and what comes behind it, if it is whole and of
/// the commonest form: at most an `event` line, one `data` line and a blank line, all of them ending
/// in LF. `from_end` begins with the end of the line.
#[inline]
fn plain_event<'a, 'b: 'a>(line: &'a [u8], from_end: &'b [u8]) -> Option<(SseEvent<'a>, &'b [u8])> {
    let (name, data, from_end) = if let Some(name) = line.strip_prefix(b"event:") {
        let second = from_end.strip_prefix(b"\n")?;
        let (data, from_end) = second.split_at(memchr2(b'\n', b'\r', second)?);
        (Some(strip_space(name)), data, from_end)
    } else {
        (None, line, from_end)
    };
    let event = SseEvent {
        name: name.filter(|name| !name.is_empty()),
        data: strip_space(data.strip_prefix(b"data:")?),
        error: None,
        terminated: true,
    };
    Some((event, from_end.strip_prefix(b"\n\n")?))
}

/// Returns where the next line of `rest` ends.
fn line_end(rest: &[u8]) -> Option<usize> {
    // The blank line after every event needs no search.
    if rest.first() == Some(&b'\n') {
        return Some(0);
    }
    memchr2(b'\n', b'\r', rest)
}

fn strip_space(value: &[u8]) -> &[u8] {
    value.strip_prefix(b" ").unwrap_or(value)
}

/// The byte order mark.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Bytes of a buffer that a stream keeps for its next frame; one huge frame is not kept for ever.
const KEPT_CAPACITY: usize = 16 << 10;
