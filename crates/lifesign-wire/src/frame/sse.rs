//! Server-sent events at byte level.
//!
//! The framers on the shelf drop comments and blank lines, which for us are heartbeats, have no
//! caps, or rescan a line at every read. This one looks at each byte once. An event that lies
//! inside one read is handed out as slices of it; only what straddles reads is copied.
#![expect(
    clippy::inline_always,
    reason = "a quarter of the throughput at reads of 1,400 bytes"
)]

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
                named: 0,
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
        self.push_measured(chunk, |frame, _| each(frame))
    }

    /// Takes the next bytes as [`push`](Self::push) does, and says of each frame where it ended.
    pub(crate) fn push_measured(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(SseFrame<'_>, Extent),
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
        self.state
            .finish(&mut self.line, &mut |frame, _| each(frame))
    }

    /// Returns how many of the bytes taken so far belong to a frame that is not whole.
    ///
    /// Everything before them may be passed on as it came.
    pub fn pending(&self) -> usize {
        self.state.pending
    }
}

/// Where a frame ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes of the read that come behind it.
    pub(crate) rest: usize,
    /// Whether everything up to there is whole: not so for a comment inside an open event.
    pub(crate) is_whole: bool,
}

impl Extent {
    const fn whole(after: &[u8]) -> Self {
        Self {
            rest: after.len(),
            is_whole: true,
        }
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
    /// Bytes of the `event` line, its LF included, that the carried line has before it.
    named: usize,
    /// Bytes since the last frame ended. Between lines it is 0 if and only if no event is open.
    pending: usize,
}

impl State {
    fn take(
        &mut self,
        chunk: &[u8],
        carried: &mut Vec<u8>,
        each: &mut impl FnMut(SseFrame<'_>, Extent),
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
                return self.check(carried.len() - self.named);
            };
            let is_first = self.pending == carried.len();
            carried.extend_from_slice(&rest[..end]);
            self.pending += end;
            let (named, line) = carried.split_at(std::mem::take(&mut self.named));
            let from_end = &rest[end..];
            fields.name = name_in(named);
            rest = match plain_event(fields.name, line, from_end) {
                Some((event, after)) if is_first && self.fits(from_end, after) => {
                    fields.name = None;
                    self.hand_out(event, after, each);
                    after
                }
                _ => self.take_line(line, from_end, &mut fields, each)?,
            };
        }
        while let Some(end) = line_end(rest) {
            let (line, from_end) = rest.split_at(end);
            let is_first = self.pending == 0;
            self.pending += end;
            rest = match if is_first {
                begin(line, from_end)
            } else {
                Begun::Other
            } {
                Begun::Event(event, after) if self.fits(from_end, after) => {
                    self.hand_out(event, after, each);
                    after
                }
                Begun::Name => {
                    // The name waits with the data that is cut off, so that both are one event
                    // again when its end has come.
                    self.check(end)?;
                    self.named = end + 1;
                    self.pending += 1;
                    break;
                }
                _ => self.take_line(line, from_end, &mut fields, each)?,
            };
        }

        self.held.hold(fields);
        carried.clear();
        carried.shrink_to(KEPT_CAPACITY);
        carried.extend_from_slice(rest);
        let line_len = rest.len() - self.named;
        self.pending += line_len;
        self.check(line_len)
    }

    fn finish(
        &mut self,
        carried: &mut Vec<u8>,
        each: &mut impl FnMut(SseFrame<'_>, Extent),
    ) -> Result<(), TooLarge> {
        if let Some(seen) = self.mark.take() {
            carried.extend_from_slice(&MARK[..seen]);
        }
        let (named, line) = carried.split_at(std::mem::take(&mut self.named));
        let mut fields = Fields {
            name: name_in(named),
            ..Fields::default()
        };
        if !line.is_empty() {
            self.take_line(line, &[], &mut fields, each)?;
        }
        if let Some(event) = self.held.event(fields, false) {
            each(SseFrame::Event(event), Extent::whole(&[]));
        }
        carried.clear();
        self.held.clear();
        self.pending = 0;
        Ok(())
    }

    /// Returns whether the frame that ends where `after` begins is within both caps, whatever its
    /// lines: `pending` counts it up to where `from_end` begins.
    fn fits(&self, from_end: &[u8], after: &[u8]) -> bool {
        let most = self.limits.line.min(self.limits.frame);
        self.pending + from_end.len() - after.len() <= most
    }

    fn hand_out(
        &mut self,
        event: SseEvent<'_>,
        after: &[u8],
        each: &mut impl FnMut(SseFrame<'_>, Extent),
    ) {
        self.pending = 0;
        self.after_comment = false;
        each(SseFrame::Event(event), Extent::whole(after));
    }

    /// Takes a whole line. Returns what comes behind its end, with which `from_end` begins.
    #[inline(always)]
    fn take_line<'a, 'b>(
        &mut self,
        line: &'a [u8],
        from_end: &'b [u8],
        fields: &mut Fields<'a>,
        each: &mut impl FnMut(SseFrame<'_>, Extent),
    ) -> Result<&'b [u8], TooLarge> {
        self.check(line.len())?;
        let width = self.end_width(from_end);
        let after = &from_end[width..];
        if line.is_empty() {
            self.pending = 0;
            self.close(std::mem::take(fields), after, each);
        } else if let Some(text) = line.strip_prefix(b":") {
            let in_event = self.pending > line.len();
            self.pending = if in_event { self.pending + width } else { 0 };
            self.after_comment = true;
            let extent = Extent {
                rest: after.len(),
                is_whole: !in_event,
            };
            each(SseFrame::Comment(strip_space(text)), extent);
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

    fn close(
        &mut self,
        fields: Fields<'_>,
        after: &[u8],
        each: &mut impl FnMut(SseFrame<'_>, Extent),
    ) {
        let extent = Extent::whole(after);
        if let Some(event) = self.held.event(fields, true) {
            each(SseFrame::Event(event), extent);
        } else if !self.after_comment {
            each(SseFrame::Blank, extent);
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

/// How a frame begins.
enum Begun<'a> {
    /// With a whole event of the commonest form; what comes behind it.
    Event(SseEvent<'a>, &'a [u8]),
    /// With an `event` line, behind which a line has begun or will.
    Name,
    /// With something else.
    Other,
}

/// Looks at a frame that begins with `line`, whose end `from_end` begins with.
#[inline(always)]
fn begin<'a>(line: &'a [u8], from_end: &'a [u8]) -> Begun<'a> {
    let event = if let Some(name) = line.strip_prefix(b"event:") {
        let Some(second) = from_end.strip_prefix(b"\n") else {
            return Begun::Other;
        };
        let Some(end) = line_end(second) else {
            return Begun::Name;
        };
        let (data, from_end) = second.split_at(end);
        plain_event(Some(strip_space(name)), data, from_end)
    } else {
        plain_event(None, line, from_end)
    };
    event.map_or(Begun::Other, |(event, after)| Begun::Event(event, after))
}

/// Returns the event that a `data` line makes, and what comes behind it, if a blank line follows
/// and both end in LF: nearly all events have this form. `from_end` begins with the line's end.
#[inline(always)]
fn plain_event<'a, 'b>(
    name: Option<&'a [u8]>,
    line: &'a [u8],
    from_end: &'b [u8],
) -> Option<(SseEvent<'a>, &'b [u8])> {
    let event = SseEvent {
        name: name.filter(|name| !name.is_empty()),
        data: strip_space(line.strip_prefix(b"data:")?),
        error: None,
        terminated: true,
    };
    Some((event, from_end.strip_prefix(b"\n\n")?))
}

/// Returns the name in a whole `event` line, if there is one.
fn name_in(line: &[u8]) -> Option<&[u8]> {
    let value = line.strip_suffix(b"\n")?.strip_prefix(b"event:")?;
    Some(strip_space(value))
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
