//! Reading an answer that is passed on as it came.

use bytes::{Bytes, BytesMut};
use lifesign_core::{Progress, Sign};
use memchr::memmem;

use self::sorting::Sorting;
use super::{
    BodyState, ContentUse, Expect, Incomplete, ReadError, ReadLimits, Reader, Sink, State,
};
use crate::answer::Answer;
use crate::delta_run::DeltaRun;
use crate::error_body::{ProviderError, is_error_frame};
use crate::event::Event;
use crate::frame::SseFrame;
use crate::wire::Wire;

mod sorting;

/// Reads the answer of one attempt and hands on its bytes, cut into whole frames.
///
/// It judges frames as a [`Reader`] does and keeps nothing of their content. Before the first
/// content everything is held back, and the provider's heartbeats are left out: nobody downstream
/// must see them twice, or of an attempt that is replaced. From the first content on every whole
/// frame passes byte for byte.
///
/// This example shows a stream whose heartbeat and half frame stay behind.
///
/// ```
/// use lifesign_wire::{Expect, ReadLimits, RelayReader, Wire};
///
/// let mut relay = RelayReader::new(Wire::OPENAI_CHAT, Expect::Stream, &ReadLimits::default());
/// let frame = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
/// relay.read(&format!(": wait\n\n{frame}data: {{").into(), |_| {})?;
/// assert_eq!(relay.take().as_deref(), Some(frame.as_bytes()));
/// # Ok::<(), lifesign_wire::ReadError>(())
/// ```
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing of the frames so far"
)]
pub struct RelayReader {
    reader: Reader,
    /// Whole frames that may not pass yet.
    held: BytesMut,
    /// How much of what is held is the event that starts the answer.
    start: Option<usize>,
    /// Whether an earlier attempt's start was passed on, so that this one's is left out.
    swallows_start: bool,
    /// Whole frames that may pass.
    ready: Option<Bytes>,
    /// The beginning of a frame that is not whole.
    tail: BytesMut,
    /// Whether the frame that ended last was left out, and with it the blank line behind it.
    left_out: bool,
    /// Whether the frame that ended last was kept and ends in a CR, whose LF may be to come.
    ends_in_cr: bool,
    sequence: Sequence,
    /// Whether the frame that failed the answer says so in the wire's own words.
    has_error_frame: bool,
}

impl RelayReader {
    /// Returns a reader at the start of a body.
    pub fn new(wire: Wire, expect: Expect, limits: &ReadLimits) -> Self {
        Self {
            reader: Reader::of(
                wire,
                expect,
                limits,
                ContentUse::Judged(DeltaRun::default()),
            ),
            held: BytesMut::new(),
            start: None,
            swallows_start: false,
            ready: None,
            tail: BytesMut::new(),
            left_out: false,
            ends_in_cr: false,
            sequence: Sequence::Ignored,
            has_error_frame: false,
        }
    }

    /// Leaves the event out that starts the answer: an earlier attempt's was passed on.
    #[must_use]
    pub fn swallow_start(mut self) -> Self {
        self.swallows_start = true;
        self
    }

    /// Follows the numbers that events of openai-responses carry.
    #[must_use]
    pub fn follow_sequence(mut self) -> Self {
        self.sequence = Sequence::Followed { last: None };
        self
    }

    /// Takes the next bytes of the body, and tells `each` sign of them.
    ///
    /// # Errors
    ///
    /// Fails as [`Reader::read`] does.
    pub fn read(&mut self, chunk: &Bytes, each: impl FnMut(Sign)) -> Result<(), ReadError> {
        if let Some(broken) = &self.reader.broken {
            return Err((**broken).clone());
        }
        let read = self.take_chunk(chunk, &mut Signs(each));
        if let Err(error) = &read {
            self.reader.broken = Some(Box::new(error.clone()));
            self.reader.body = BodyState::Over;
        }
        read
    }

    /// Takes the end of the body. A last event whose blank line has not come gets it.
    ///
    /// # Errors
    ///
    /// Fails as [`Reader::end`] does.
    pub fn end(&mut self, each: impl FnMut(Sign)) -> Result<(), ReadError> {
        let mut signs = Counted {
            count: 0,
            signs: Signs(each),
        };
        self.reader.end(&mut signs)?;
        let mut tail = std::mem::take(&mut self.tail);
        if signs.count > 0 && matches!(self.reader.body, BodyState::Stream(_)) && !tail.is_empty() {
            let closing: &[u8] = if tail.ends_with(b"\n") || tail.ends_with(b"\r") {
                b"\n"
            } else {
                b"\n\n"
            };
            tail.extend_from_slice(closing);
            // It may be the first content: what was held until then stands before it.
            self.held.extend_from_slice(&tail);
            if self.is_committed() {
                self.release();
            }
        }
        Ok(())
    }

    /// Takes the bytes that may be passed on.
    pub fn take(&mut self) -> Option<Bytes> {
        self.ready.take()
    }

    /// Takes everything that is held back, for an answer that ended without content.
    pub fn take_held(&mut self) -> Option<Bytes> {
        let held = std::mem::take(&mut self.held);
        self.start = None;
        self.follow(&held);
        (!held.is_empty()).then(|| held.freeze())
    }

    /// Takes the event that starts an answer of anthropic ahead of the first content, if it is
    /// here. It says nothing that another attempt could not say.
    pub fn take_start(&mut self) -> Option<Bytes> {
        let start = self.start.take()?;
        let start = self.held.split_to(start).freeze();
        self.follow(&start);
        Some(start)
    }

    /// Takes the whole JSON body that came in the place of a stream, or was asked for.
    pub fn take_whole_body(&mut self) -> Option<Bytes> {
        match &mut self.reader.body {
            BodyState::Json { bytes, .. } => Some(std::mem::take(bytes).into()),
            _ => None,
        }
    }

    /// Returns how far the answer has come.
    pub fn state(&self) -> State {
        self.reader.state()
    }

    /// Returns whether content arrived: from then on no other attempt may replace this one.
    pub fn is_committed(&self) -> bool {
        self.reader.is_committed()
    }

    /// Returns how many bytes are kept: what is held back, and what is not whole.
    pub fn kept_len_bytes(&self) -> usize {
        let body = match &self.reader.body {
            BodyState::Json { bytes, .. } => bytes.len(),
            _ => self.tail.len(),
        };
        self.held.len() + body
    }

    /// Returns whether content arrived that is more than thinking.
    pub fn has_output(&self) -> bool {
        self.reader.has_output()
    }

    /// Returns whether a whole JSON body answers a request for a stream.
    pub fn is_whole_body(&self) -> bool {
        self.reader.is_whole_body()
    }

    /// Returns what is wrong with the answer if its body ends here, as [`Reader::outcome_at_eof`]
    /// does.
    ///
    /// # Errors
    ///
    /// Fails if the answer is not whole.
    pub fn outcome_at_eof(&self) -> Result<(), Incomplete> {
        self.reader.outcome_at_eof()
    }

    /// Returns why the provider failed, if it did.
    pub fn failure(&self) -> Option<&ProviderError> {
        self.reader.failure()
    }

    /// Returns whether the frame that failed the answer was an error in the wire's own words, so
    /// that nothing has to be added for its reader.
    pub fn has_error_frame(&self) -> bool {
        self.has_error_frame
    }

    /// Returns the number of the last event that was handed on, where it is followed. Those of
    /// events that are held do not count.
    pub fn last_sequence(&self) -> Option<u64> {
        match self.sequence {
            Sequence::Followed { last } => last,
            Sequence::Ignored => None,
        }
    }

    /// Takes what is known of the answer besides its content: id, model, finish reason and usage.
    pub fn take_answer(&mut self, complete: bool) -> Answer {
        self.reader.take_answer(complete)
    }

    fn take_chunk<E: FnMut(Sign)>(
        &mut self,
        chunk: &Bytes,
        signs: &mut Signs<E>,
    ) -> Result<(), ReadError> {
        let BodyState::Sniffing(sniffer) = &mut self.reader.body else {
            return self.take_body(chunk, signs);
        };
        let sniffed = sniffer.push(chunk);
        let held = Bytes::copy_from_slice(sniffer.held());
        for _ in 0..sniffed.beats {
            signs.sign(Sign::heartbeat(lifesign_core::HeartbeatOrigin::Comment));
        }
        let Some(body) = sniffed.body else {
            return Ok(());
        };
        self.reader.open(body)?;
        self.take_body(&held, signs)?;
        self.take_body(&chunk.slice(sniffed.from.min(chunk.len())..), signs)
    }

    fn take_body<E: FnMut(Sign)>(
        &mut self,
        chunk: &Bytes,
        signs: &mut Signs<E>,
    ) -> Result<(), ReadError> {
        if chunk.is_empty() {
            return Ok(());
        }
        if !matches!(self.reader.body, BodyState::Stream(_)) {
            return self.reader.take_body(chunk, signs);
        }
        if self.reader.decoding.is_over() {
            return Ok(());
        }
        let taken = if self.is_committed() {
            self.take_committed(chunk, signs)
        } else {
            self.take_uncommitted(chunk, signs)
        };
        self.reader.check_wire()?;
        taken?;
        self.reader.check_answer()
    }

    /// Passes the whole frames of a read on, as one piece, up to the one that ends the answer: what
    /// stands behind that is no part of it, whichever read brought it.
    fn take_committed<E: FnMut(Sign)>(
        &mut self,
        chunk: &Bytes,
        signs: &mut Signs<E>,
    ) -> Result<(), ReadError> {
        let BodyState::Stream(framer) = &mut self.reader.body else {
            return Ok(());
        };
        let decoding = &mut self.reader.decoding;
        let mut end = None;
        let has_error_frame = &mut self.has_error_frame;
        let framed = framer.push_measured(chunk, |frame, extent| {
            decoding.frame(frame, signs);
            if end.is_none() && decoding.is_over() {
                end = Some(chunk.len().saturating_sub(extent.rest));
                *has_error_frame = decoding.failure.is_some() && tells_error(decoding.wire, &frame);
            }
        });
        let pending = framer.pending();
        let whole = end.or_else(|| chunk.len().checked_sub(pending));
        let Some(whole) = whole else {
            self.tail.extend_from_slice(chunk);
            return Ok(framed?);
        };
        if whole > 0 {
            let piece = if self.tail.is_empty() {
                chunk.slice(..whole)
            } else {
                self.tail.extend_from_slice(&chunk[..whole]);
                std::mem::take(&mut self.tail).freeze()
            };
            self.pass(piece);
        }
        if end.is_none() {
            self.tail.extend_from_slice(&chunk[whole..]);
        }
        Ok(framed?)
    }

    /// Sorts the frames of a read into those that are held and those that are left out.
    fn take_uncommitted<E: FnMut(Sign)>(
        &mut self,
        chunk: &Bytes,
        signs: &mut Signs<E>,
    ) -> Result<(), ReadError> {
        let BodyState::Stream(framer) = &mut self.reader.body else {
            return Ok(());
        };
        let decoding = &mut self.reader.decoding;
        // Most of a read is held for a moment, if it is held.
        self.held.reserve(self.tail.len() + chunk.len());
        let mut sorting = Sorting {
            chunk,
            from: 0,
            tail: &mut self.tail,
            held: &mut self.held,
            start: &mut self.start,
            left_out: &mut self.left_out,
            ends_in_cr: &mut self.ends_in_cr,
            swallows_start: self.swallows_start,
        };
        let has_error_frame = &mut self.has_error_frame;
        let framed = framer.push_measured(chunk, |frame, extent| {
            let was_over = decoding.is_over();
            let was_committed = decoding.assembly.has_content;
            let mut last = None;
            decoding.frame(
                frame,
                &mut Last {
                    last: &mut last,
                    signs,
                },
            );
            let is_heartbeat =
                !was_committed && last.is_some_and(|sign| sign.progress == Progress::Heartbeat);
            sorting.sort(&frame, extent, is_heartbeat || was_over);
            if !was_over && decoding.failure.is_some() {
                *has_error_frame = tells_error(decoding.wire, &frame);
            }
        });
        let pending = framer.pending();
        sorting.finish(pending);
        if self.reader.decoding.is_over() {
            self.tail.clear();
        }
        if self.is_committed() {
            self.release();
        } else if self.held.len() > self.reader.limits.answer {
            return Err(self.reader.answer_too_large());
        }
        Ok(framed?)
    }

    /// Passes everything on that is held.
    fn release(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.start = None;
        self.pass(held.freeze());
    }

    fn pass(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        self.follow(&piece);
        self.ready = Some(match self.ready.take() {
            Some(before) => [before, piece].concat().into(),
            None => piece,
        });
    }

    /// Reads the number of the last event of `frames`, if it is followed.
    fn follow(&mut self, frames: &[u8]) {
        let Sequence::Followed { last } = &mut self.sequence else {
            return;
        };
        let Some(at) = memmem::rfind(frames, SEQUENCE) else {
            return;
        };
        let digits = frames[at + SEQUENCE.len()..].trim_ascii_start();
        let end = digits.iter().take_while(|byte| byte.is_ascii_digit());
        let digits = &digits[..end.count()];
        if let Some(number) = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
        {
            *last = Some(number);
        }
    }
}

/// Returns whether a frame is an error that readers of the wire take for one.
fn tells_error(wire: Wire, frame: &SseFrame<'_>) -> bool {
    match frame {
        SseFrame::Event(event) => !wire.habits().fails_by_finish || is_error_frame(event.data),
        SseFrame::Blank | SseFrame::Comment(_) => false,
    }
}

/// Whether the numbers of events are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequence {
    Ignored,
    Followed {
        /// The number of the last event.
        last: Option<u64>,
    },
}

/// Hands signs to a closure.
struct Signs<E>(E);

impl<E: FnMut(Sign)> Sink for Signs<E> {
    fn sign(&mut self, sign: Sign) {
        self.0(sign);
    }

    fn event(&mut self, _: &Event<'_>) {}
}

/// Hands signs on, and counts them.
struct Counted<E> {
    count: usize,
    signs: Signs<E>,
}

impl<E: FnMut(Sign)> Sink for Counted<E> {
    fn sign(&mut self, sign: Sign) {
        self.count += 1;
        self.signs.sign(sign);
    }

    fn event(&mut self, _: &Event<'_>) {}
}

/// Hands signs on, and remembers the last.
struct Last<'a, E> {
    last: &'a mut Option<Sign>,
    signs: &'a mut Signs<E>,
}

impl<E: FnMut(Sign)> Sink for Last<'_, E> {
    fn sign(&mut self, sign: Sign) {
        *self.last = Some(sign);
        self.signs.sign(sign);
    }

    fn event(&mut self, _: &Event<'_>) {}
}

/// What stands before the number of an event of openai-responses.
const SEQUENCE: &[u8] = b"\"sequence_number\":";

#[cfg(test)]
mod tests;
