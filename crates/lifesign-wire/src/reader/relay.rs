//! Reading an answer that is passed on as it came.

use bytes::{Bytes, BytesMut};
use lifesign_core::{Progress, Sign};
use memchr::memmem;

use super::{
    BodyState, ContentUse, Expect, Incomplete, ReadError, ReadLimits, Reader, Sink, State,
};
use crate::answer::Answer;
use crate::error_body::ProviderError;
use crate::event::Event;
use crate::frame::{Extent, SseFrame};
use crate::wire::Wire;

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
}

impl RelayReader {
    /// Returns a reader at the start of a body.
    pub fn new(wire: Wire, expect: Expect, limits: &ReadLimits) -> Self {
        Self {
            reader: Reader::of(wire, expect, limits, ContentUse::Judged { slot: None }),
            held: BytesMut::new(),
            start: None,
            swallows_start: false,
            ready: None,
            tail: BytesMut::new(),
            left_out: false,
            ends_in_cr: false,
            sequence: Sequence::Ignored,
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
            return Err(broken.clone());
        }
        let read = self.take_chunk(chunk, &mut Signs(each));
        if let Err(error) = &read {
            self.reader.broken = Some(error.clone());
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
            self.follow(&tail);
            if self.is_committed() {
                self.pass(tail.freeze());
            } else {
                self.held.extend_from_slice(&tail);
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
        (!held.is_empty()).then(|| held.freeze())
    }

    /// Takes the event that starts an answer of anthropic ahead of the first content, if it is
    /// here. It says nothing that another attempt could not say.
    pub fn take_start(&mut self) -> Option<Bytes> {
        let start = self.start.take()?;
        Some(self.held.split_to(start).freeze())
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

    /// Returns the number of the last event that was passed on or held, where it is followed.
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
        let taken = if self.is_committed() {
            self.take_committed(chunk, signs)
        } else {
            self.take_uncommitted(chunk, signs)
        };
        self.reader.check_wire()?;
        taken?;
        self.reader.check_answer()
    }

    /// Passes the whole frames of a read on, as one piece.
    fn take_committed<E: FnMut(Sign)>(
        &mut self,
        chunk: &Bytes,
        signs: &mut Signs<E>,
    ) -> Result<(), ReadError> {
        let BodyState::Stream(framer) = &mut self.reader.body else {
            return Ok(());
        };
        let decoding = &mut self.reader.decoding;
        let framed = framer.push(chunk, |frame| decoding.frame(frame, signs));
        let pending = framer.pending();
        let Some(whole) = chunk.len().checked_sub(pending) else {
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
            self.follow(&piece);
            self.pass(piece);
        }
        self.tail.extend_from_slice(&chunk[whole..]);
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
        let framed = framer.push_measured(chunk, |frame, extent| {
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
            sorting.sort(&frame, extent, is_heartbeat);
        });
        let pending = framer.pending();
        sorting.finish(pending);
        let is_committed = self.is_committed();
        if self.sequence != Sequence::Ignored {
            let held = std::mem::take(&mut self.held);
            self.follow(&held);
            self.held = held;
        }
        if is_committed {
            let held = std::mem::take(&mut self.held);
            self.start = None;
            self.pass(held.freeze());
        } else if self.held.len() > self.reader.limits.answer {
            return Err(self.reader.answer_too_large());
        }
        Ok(framed?)
    }

    fn pass(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
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

/// Whether the numbers of events are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequence {
    Ignored,
    Followed {
        /// The number of the last event.
        last: Option<u64>,
    },
}

/// Sorts the frames of one read.
struct Sorting<'a> {
    chunk: &'a [u8],
    /// Where in the read the frame at hand begins.
    from: usize,
    tail: &'a mut BytesMut,
    held: &'a mut BytesMut,
    start: &'a mut Option<usize>,
    left_out: &'a mut bool,
    ends_in_cr: &'a mut bool,
    swallows_start: bool,
}

impl Sorting<'_> {
    fn sort(&mut self, frame: &SseFrame<'_>, extent: Extent, is_heartbeat: bool) {
        // A comment inside an open event goes with the event.
        if !extent.is_whole {
            return;
        }
        let is_start =
            matches!(frame, SseFrame::Event(event) if event.name == Some(START.as_bytes()));
        let leaves_out = is_heartbeat || is_start && self.swallows_start;
        let end = self.chunk.len().saturating_sub(extent.rest);
        self.move_to(end, leaves_out);
        if is_start && !leaves_out && self.start.is_none() {
            *self.start = Some(self.held.len());
        }
    }

    /// Keeps what is not whole for the next read.
    fn finish(mut self, pending: usize) {
        let before = self.tail.len() + self.chunk.len() - self.from;
        if let Some(whole) = before.checked_sub(pending).filter(|whole| *whole > 0) {
            // What closes the last frame behind its end: it goes where the frame went.
            let end = self.from + whole.saturating_sub(self.tail.len());
            let leaves_out = *self.left_out;
            self.move_to(end, leaves_out);
        }
        self.tail.extend_from_slice(&self.chunk[self.from..]);
    }

    fn move_to(&mut self, end: usize, leaves_out: bool) {
        let mut piece = self.chunk.get(self.from..end).unwrap_or_default();
        if self.tail.is_empty() && *self.left_out && !leaves_out {
            // The line end that closed a comment that was left out.
            let closing = piece
                .iter()
                .take_while(|byte| matches!(byte, b'\r' | b'\n'));
            piece = &piece[closing.count()..];
        }
        if self.tail.is_empty() && *self.ends_in_cr && leaves_out && piece.starts_with(b"\n") {
            // The rest of the line end that closed a frame that was not.
            self.held.extend_from_slice(b"\n");
        }
        let tail = std::mem::take(self.tail);
        if !leaves_out {
            self.held.extend_from_slice(&tail);
            self.held.extend_from_slice(piece);
        }
        *self.ends_in_cr = !leaves_out && piece.last().or_else(|| tail.last()) == Some(&b'\r');
        *self.left_out = leaves_out;
        self.from = end;
    }
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

/// The name of the event that starts an answer of anthropic.
const START: &str = "message_start";

/// What stands before the number of an event of openai-responses.
const SEQUENCE: &[u8] = b"\"sequence_number\":";

#[cfg(test)]
mod tests {
    use lifesign_core::FailureCode;
    use proptest::prelude::*;

    use super::*;

    const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n";
    const USAGE: &str =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n";
    const DONE: &str = "data: [DONE]\n\n";

    fn text(text: &str) -> String {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    }

    fn finish() -> &'static str {
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    }

    fn chat() -> RelayReader {
        RelayReader::new(Wire::OPENAI_CHAT, Expect::Stream, &ReadLimits::default())
    }

    fn read(relay: &mut RelayReader, bytes: &str) -> String {
        relay
            .read(&Bytes::copy_from_slice(bytes.as_bytes()), |_| {})
            .unwrap();
        passed(relay)
    }

    fn passed(relay: &mut RelayReader) -> String {
        String::from_utf8(relay.take().unwrap_or_default().to_vec()).unwrap()
    }

    #[test]
    fn nothing_passes_before_content_and_heartbeats_never_do() {
        let mut relay = chat();
        let hello = text("hello");

        assert_eq!(
            read(&mut relay, ": one\n\n\n\nevent: ping\ndata: 1\n\n"),
            ""
        );
        assert_eq!(read(&mut relay, &format!("{ROLE}: two\n\n")), "");
        assert!(!relay.is_committed());
        assert_eq!(
            read(&mut relay, &format!(": three\n\n{hello}: four\n\n")),
            format!("{ROLE}{hello}: four\n\n")
        );
        assert_eq!(read(&mut relay, ": five\n\n"), ": five\n\n");
    }

    #[test]
    fn a_half_frame_waits_and_is_passed_with_its_rest() {
        let mut relay = chat();
        let (one, two) = (text("one"), text("two"));
        let (half, rest) = two.split_at(30);

        assert_eq!(read(&mut relay, &format!("{one}{half}")), one);
        assert_eq!(read(&mut relay, "\n"), "");
        let mut relay = chat();
        read(&mut relay, &format!("{one}{half}"));
        assert_eq!(read(&mut relay, rest), two);
    }

    #[test]
    fn a_last_frame_that_parses_gets_its_missing_line_ends() {
        for (end, closing) in [("data: [DONE]", "\n\n"), ("data: [DONE]\n", "\n")] {
            let mut relay = chat();
            read(&mut relay, &format!("{}{}", text("hi"), finish()));

            assert_eq!(read(&mut relay, end), "");
            relay.end(|_| {}).unwrap();

            assert_eq!(passed(&mut relay), format!("{end}{closing}"));
            assert_eq!(relay.state(), State::Ended);
        }
        let mut relay = chat();
        read(&mut relay, &text("hi"));
        read(&mut relay, "data: {\"choi");
        relay.end(|_| {}).unwrap();
        assert_eq!(passed(&mut relay), "");
    }

    #[test]
    fn usage_finish_and_errors_are_known_of_what_passed() {
        let mut relay = chat();
        let mut stream = String::new();
        for word in ["a", "b", "c"] {
            stream.push_str(&text(word));
        }
        stream.push_str(finish());
        stream.push_str(USAGE);
        stream.push_str(DONE);

        assert_eq!(read(&mut relay, &stream), stream);
        assert_eq!(relay.state(), State::Ended);
        let answer = relay.take_answer(true);
        assert_eq!(answer.finish_reason.as_deref(), Some("stop"));
        assert_eq!(answer.usage.unwrap().output_tokens, Some(3));
        assert_eq!(answer.text, "");
        assert!(!answer.is_empty());

        let mut relay = chat();
        let error = "data: {\"error\":{\"message\":\"no\",\"code\":429}}\n\n";
        assert_eq!(
            read(&mut relay, &format!("{}{error}", text("a"))),
            format!("{}{error}", text("a"))
        );
        assert_eq!(relay.failure().unwrap().code, FailureCode::RateLimited);
    }

    #[test]
    fn a_line_end_that_is_cut_in_two_goes_with_its_frame() {
        let crlf = |text: &str| text.replace('\n', "\r\n");
        let (role, wait, hello) = (crlf(ROLE), crlf(": wait\n\n"), crlf(&text("hello")));
        let stream = format!("{role}{wait}{wait}{hello}");
        for cut in 1..stream.len() {
            let (first, rest) = stream.split_at(cut);
            let mut relay = chat();
            let passed = read(&mut relay, first) + &read(&mut relay, rest);
            assert_eq!(passed, format!("{role}{hello}"), "cut at {cut}");
        }
    }

    #[test]
    fn a_start_may_pass_ahead_and_the_next_attempts_is_swallowed() {
        let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{}}}\n\n";
        let block = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
        let delta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n";
        let relay = || RelayReader::new(Wire::ANTHROPIC, Expect::Stream, &ReadLimits::default());

        let mut first = relay();
        assert_eq!(first.take_start(), None);
        assert_eq!(read(&mut first, &format!("{start}{block}")), "");
        assert_eq!(first.take_start().as_deref(), Some(start.as_bytes()));
        assert_eq!(first.take_start(), None);
        assert_eq!(read(&mut first, delta), format!("{block}{delta}"));

        let mut second = relay().swallow_start();
        assert_eq!(
            read(&mut second, &format!("{start}{block}{delta}")),
            format!("{block}{delta}")
        );
    }

    #[test]
    fn a_whole_body_is_kept_as_it_came() {
        let body = r#"{"id":"x", "choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
        let mut relay = chat();

        assert_eq!(read(&mut relay, body), "");
        assert!(relay.is_whole_body());
        assert_eq!(relay.state(), State::Ended);
        assert_eq!(relay.take_whole_body().as_deref(), Some(body.as_bytes()));
    }

    #[test]
    fn the_number_of_the_last_event_is_followed_where_it_is_asked_for() {
        let event = |number| {
            format!(
                "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"sequence_number\":{number},\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"x\"}}\n\n"
            )
        };
        let mut relay = RelayReader::new(
            Wire::OPENAI_RESPONSES,
            Expect::Stream,
            &ReadLimits::default(),
        )
        .follow_sequence();

        assert_eq!(relay.last_sequence(), None);
        read(&mut relay, &event(3));
        assert_eq!(relay.last_sequence(), Some(3));
        read(&mut relay, &format!("{}{}", event(4), event(5)));
        assert_eq!(relay.last_sequence(), Some(5));
    }

    proptest! {
        #[test]
        fn however_it_is_cut_the_same_bytes_pass(
            frames in prop::collection::vec(0_usize..7, 0..12),
            cuts in prop::collection::vec(1_usize..60, 0..40),
            crlf in any::<bool>(),
        ) {
            let mut stream = String::new();
            let mut expected = String::new();
            let mut is_committed = false;
            for kind in frames {
                let frame = match kind {
                    0 => ": wait\n\n".to_owned(),
                    1 => "\n".to_owned(),
                    2 => text("hi"),
                    3 => "event: ping\ndata: 1\n\n".to_owned(),
                    4 => ": a\n: b\n\n".to_owned(),
                    5 => format!(": inside\n{}", text("yo")),
                    _ => "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],\n: in\ndata: \"x\":1}\n\n".to_owned(),
                };
                let frame = if crlf { frame.replace('\n', "\r\n") } else { frame };
                stream.push_str(&frame);
                is_committed |= matches!(kind, 2 | 5 | 6);
                if is_committed {
                    let kept = if expected.is_empty() && kind == 5 {
                        frame.split_once('\n').unwrap().1
                    } else {
                        &frame
                    };
                    expected.push_str(kept);
                }
            }
            let mut relay = chat();
            let mut got = String::new();
            let mut rest = stream.as_str();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                got.push_str(&read(&mut relay, piece));
                rest = after;
            }
            got.push_str(&read(&mut relay, rest));
            prop_assert_eq!(got, expected);
        }
    }
}
