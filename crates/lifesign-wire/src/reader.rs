//! Bytes in, signs and events out, and the answer at the end.
//!
//! A byte goes one way: the first ones are judged, then a stream is framed, each frame decoded by
//! its wire, what it proves is told to the clocks and what it says is put together. Any way to cut
//! the same bytes gives the same events.

use std::fmt;

use lifesign_core::{FailureCode, HeartbeatOrigin, Progress, Sign};

use self::extent::JsonExtent;
pub use self::relay::RelayReader;
pub use self::signs::SignReader;
use crate::ProviderError;
use crate::answer::{Answer, Assembly};
use crate::delta_run::DeltaRun;
use crate::dialect::{Decode, Finishes, Meaning, Oddities, Told};
use crate::error_body::error_in;
use crate::event::Event;
use crate::foreign::{self, Lookout};
use crate::frame::{FrameLimits, Part, SseEvent, SseFrame, SseFramer, TooLarge};
use crate::judge::{self, Judge};
use crate::mend::Mender;
use crate::sample::sample;
use crate::sniff::{Body, Sniffer};
use crate::wire::Wire;

mod extent;
mod relay;
mod signs;
mod whole;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// A stream.
    Stream,
    /// One whole body.
    Whole,
}

/// The most that a reader takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Bytes of a line without its end. Default 16 MiB.
    pub line: usize,
    /// Bytes of a frame as it came. Default 16 MiB.
    pub frame: usize,
    /// Bytes of the answer, put together. Default 64 MiB.
    pub answer: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        let FrameLimits { line, frame } = FrameLimits::default();
        Self {
            line,
            frame,
            answer: 64 << 20,
        }
    }
}

/// Receives what a reader finds.
pub trait Sink {
    /// Receives what one whole frame proves. It comes after the events of the frame.
    fn sign(&mut self, sign: Sign);

    /// Receives one thing that a frame says.
    fn event(&mut self, event: &Event<'_>);
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It goes on.
    Open,
    /// Every choice seen has a finish; only late usage and the terminal event are missing.
    Finished,
    /// It is whole, and nothing more is read.
    Ended,
    /// [`Reader::failure`] says why.
    Failed,
}

/// What is wrong with an answer whose body ended properly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomplete {
    /// No event at all, or neither content nor a finish.
    #[error("the body ended without content or a finish reason")]
    Empty,
    /// Content, but no finish.
    #[error("the body ended in the middle of the answer")]
    Truncated,
}

impl Incomplete {
    /// Returns the failure that this is.
    pub const fn code(self) -> FailureCode {
        match self {
            Self::Empty => FailureCode::Empty,
            Self::Truncated => FailureCode::Truncated,
        }
    }
}

/// Bytes that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A part of the answer is past its cap.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Not the wire that was promised.
    #[error("body is {what}, not an answer of {wire}: {sample:?}")]
    Unreadable {
        /// What it is.
        what: &'static str,
        /// The wire that was promised.
        wire: Wire,
        /// The beginning of it, at most 512 bytes.
        sample: String,
    },
}

/// Reads the answer of one attempt.
///
/// This example shows a stream that is read to its end.
///
/// ```
/// use lifesign_core::Sign;
/// use lifesign_wire::{Event, Expect, ReadLimits, Reader, Sink, State, Wire};
///
/// struct Print;
/// impl Sink for Print {
///     fn sign(&mut self, _: Sign) {}
///     fn event(&mut self, event: &Event<'_>) {
///         println!("{event:?}");
///     }
/// }
///
/// let mut reader = Reader::new(Wire::OPENAI_CHAT, Expect::Stream, &ReadLimits::default());
/// for chunk in [
///     "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n",
///     "data: [DONE]\n\n",
/// ] {
///     reader.read(chunk.as_bytes(), &mut Print)?;
/// }
/// assert_eq!(reader.state(), State::Ended);
/// assert_eq!(reader.into_answer(true).text, "hi");
/// # Ok::<(), lifesign_wire::ReadError>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    wire: Wire,
    expect: Expect,
    limits: ReadLimits,
    body: BodyState,
    decoding: Decoding,
    /// In a box, since a reader is kept for as long as its call, and hardly any breaks.
    broken: Option<Box<ReadError>>,
}

#[derive(Debug)]
enum BodyState {
    Sniffing(Sniffer),
    Stream(SseFramer),
    Json {
        bytes: Vec<u8>,
        extent: JsonExtent,
    },
    /// Ended, broken, or being changed.
    Over,
}

/// What frames go through once they are cut.
#[derive(Debug)]
struct Decoding {
    wire: Wire,
    content: ContentUse,
    decoder: Mender,
    judge: Judge,
    assembly: Assembly,
    /// Whether any frame was an event that could be read.
    has_event: bool,
    has_finish: bool,
    end: End,
    failure: Option<Box<ProviderError>>,
    /// The beginning of the first data that could not be read.
    unreadable: Option<String>,
    /// Whether the wire found anything that it knows.
    is_own: bool,
    lookout: Lookout,
}

/// What becomes of content.
#[derive(Debug)]
enum ContentUse {
    /// It is put together.
    Kept,
    /// It is judged and passed on. The decoder sees the first delta of each run alone.
    Judged(DeltaRun),
}

/// Whether the answer said that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A whole body stopped in the middle.
    CutShort,
    Open,
    Terminal,
    /// A whole body says that the answer is not done.
    Unfinished,
}

impl Reader {
    /// Returns a reader at the start of a body.
    pub fn new(wire: Wire, expect: Expect, limits: &ReadLimits) -> Self {
        Self::of(wire, expect, limits, ContentUse::Kept)
    }

    fn of(wire: Wire, expect: Expect, limits: &ReadLimits, content: ContentUse) -> Self {
        Self {
            wire,
            expect,
            limits: *limits,
            body: BodyState::Sniffing(Sniffer::new()),
            decoding: Decoding {
                wire,
                content,
                decoder: wire.decoder(),
                judge: Judge::default(),
                assembly: Assembly::default(),
                has_event: false,
                has_finish: false,
                end: End::Open,
                failure: None,
                unreadable: None,
                is_own: false,
                lookout: Lookout::new(wire),
            },
            broken: None,
        }
    }

    /// Takes the next bytes of the body. After the end of the answer they are ignored.
    ///
    /// # Errors
    ///
    /// Fails if a part of the answer is past its cap, or if the body is not of the wire. A reader
    /// that failed fails again.
    pub fn read(&mut self, chunk: &[u8], sink: &mut impl Sink) -> Result<(), ReadError> {
        if let Some(broken) = &self.broken {
            return Err((**broken).clone());
        }
        let read = self.take(chunk, sink);
        if let Err(error) = &read {
            self.broken = Some(Box::new(error.clone()));
            self.body = BodyState::Over;
        }
        read
    }

    /// Takes the proper end of the body.
    ///
    /// # Errors
    ///
    /// Fails as [`read`](Self::read) does, and where nothing of the body could be read.
    pub fn end(&mut self, sink: &mut impl Sink) -> Result<(), ReadError> {
        if let Some(broken) = &self.broken {
            return Err((**broken).clone());
        }
        let ended = self.finish(sink);
        self.broken = ended.clone().err().map(Box::new);
        ended
    }

    /// Returns how far the answer has come.
    pub fn state(&self) -> State {
        if self.decoding.failure.is_some() {
            State::Failed
        } else if self.decoding.end == End::Terminal {
            State::Ended
        } else if self.decoding.decoder.finishes() == Finishes::All {
            State::Finished
        } else {
            State::Open
        }
    }

    /// Returns whether content arrived: from then on no other attempt may replace this one.
    pub fn is_committed(&self) -> bool {
        self.decoding.assembly.has_content
    }

    /// Returns how many bytes are kept of the answer so far, nearly: of what is put together, and
    /// of a frame or a body that is not whole.
    pub fn kept_len_bytes(&self) -> usize {
        let body = match &self.body {
            BodyState::Stream(framer) => framer.pending(),
            BodyState::Json { bytes, .. } => bytes.len(),
            BodyState::Sniffing(_) | BodyState::Over => 0,
        };
        self.answer_len().saturating_add(body)
    }

    /// Returns whether content arrived that is more than thinking.
    pub fn has_output(&self) -> bool {
        self.decoding.assembly.has_output
    }

    /// Returns whether a whole JSON body answers a request for a stream.
    pub fn is_whole_body(&self) -> bool {
        self.expect == Expect::Stream && matches!(self.body, BodyState::Json { .. })
    }

    /// Returns what is wrong with the answer if its body ends here, in the way that bodies should.
    ///
    /// # Errors
    ///
    /// Fails if the answer is not whole.
    pub fn outcome_at_eof(&self) -> Result<(), Incomplete> {
        let Decoding { end, decoder, .. } = &self.decoding;
        match end {
            End::Terminal => Ok(()),
            End::CutShort => Err(Incomplete::Truncated),
            End::Open if decoder.finishes() == Finishes::All => Ok(()),
            End::Open | End::Unfinished if self.decoding.has_answer() => Err(Incomplete::Truncated),
            End::Open | End::Unfinished => Err(Incomplete::Empty),
        }
    }

    /// Returns why the provider failed, if it did.
    pub fn failure(&self) -> Option<&ProviderError> {
        self.decoding.failure.as_deref()
    }

    /// Returns the answer as far as it has come. Its tool calls are not settled, and there is no
    /// round trip yet.
    pub fn answer(&self) -> &Answer {
        &self.decoding.assembly.answer
    }

    /// Returns the answer; `complete` says whether the attempt succeeded. Without it no tool call
    /// is complete.
    pub fn into_answer(mut self, complete: bool) -> Answer {
        self.take_answer(complete)
    }

    /// Takes the answer out, as [`into_answer`](Self::into_answer) does.
    pub fn take_answer(&mut self, complete: bool) -> Answer {
        let Decoding {
            assembly, decoder, ..
        } = &mut self.decoding;
        assembly.take(complete, self.wire.empty_arguments(), |answer| {
            decoder.round_trip(answer)
        })
    }

    /// Returns what was odd but not fatal.
    pub fn oddities(&self) -> Oddities {
        self.decoding.decoder.oddities()
    }

    /// Returns how many of the bytes taken so far belong to a frame that is not whole.
    pub fn pending(&self) -> usize {
        match &self.body {
            BodyState::Stream(framer) => framer.pending(),
            BodyState::Json { bytes, .. } => bytes.len(),
            BodyState::Sniffing(_) | BodyState::Over => 0,
        }
    }

    fn take(&mut self, chunk: &[u8], sink: &mut impl Sink) -> Result<(), ReadError> {
        if let BodyState::Sniffing(sniffer) = &mut self.body {
            let sniffed = sniffer.push(chunk);
            for _ in 0..sniffed.beats {
                sink.sign(Sign::heartbeat(HeartbeatOrigin::Comment));
            }
            let Some(body) = sniffed.body else {
                return Ok(());
            };
            let held = sniffer.held().to_vec();
            self.open(body)?;
            self.take_body(&held, sink)?;
            return self.take_body(chunk.get(sniffed.from..).unwrap_or_default(), sink);
        }
        self.take_body(chunk, sink)
    }

    fn open(&mut self, body: Body) -> Result<(), ReadError> {
        let what = match body {
            Body::Sse => {
                let ReadLimits { line, frame, .. } = self.limits;
                self.body = BodyState::Stream(SseFramer::new(FrameLimits { line, frame }));
                return Ok(());
            }
            Body::Json => {
                self.body = BodyState::Json {
                    bytes: Vec::new(),
                    extent: JsonExtent::default(),
                };
                return Ok(());
            }
            Body::Html => "a page of HTML or XML",
            Body::Unknown => "no event stream and no JSON",
        };
        let sample = match &self.body {
            BodyState::Sniffing(sniffer) => sniffer.sample(),
            _ => String::new(),
        };
        Err(self.unreadable(what, sample))
    }

    fn take_body(&mut self, chunk: &[u8], sink: &mut impl Sink) -> Result<(), ReadError> {
        if self.decoding.is_over() {
            return Ok(());
        }
        match &mut self.body {
            BodyState::Stream(framer) => {
                let decoding = &mut self.decoding;
                let framed = framer.push(chunk, |frame| decoding.frame(frame, sink));
                self.check_wire()?;
                framed?;
                self.check_answer()
            }
            BodyState::Json { bytes, extent } => {
                let end = extent.push(chunk);
                bytes.extend_from_slice(&chunk[..end.unwrap_or(chunk.len())]);
                if bytes.len() > self.limits.answer {
                    return Err(self.answer_too_large());
                }
                if end.is_some() {
                    return self.decode_whole(sink);
                }
                Ok(())
            }
            BodyState::Sniffing(_) | BodyState::Over => Ok(()),
        }
    }

    fn finish(&mut self, sink: &mut impl Sink) -> Result<(), ReadError> {
        if let BodyState::Sniffing(sniffer) = &mut self.body {
            let Some(body) = sniffer.finish() else {
                return Ok(());
            };
            let held = sniffer.held().to_vec();
            self.open(body)?;
            self.take_body(&held, sink)?;
        }
        if self.decoding.is_over() {
            return Ok(());
        }
        match &mut self.body {
            BodyState::Stream(framer) => {
                let decoding = &mut self.decoding;
                let framed = framer.finish(|frame| decoding.frame(frame, sink));
                self.check_wire()?;
                framed?;
                self.check_answer()?;
            }
            BodyState::Json { .. } => {
                self.decoding.end = End::CutShort;
                return Ok(());
            }
            BodyState::Sniffing(_) | BodyState::Over => {}
        }
        // Data that cannot be read is passed over, unless there is nothing else.
        match &self.decoding.unreadable {
            Some(sample) if !self.decoding.has_event => {
                let sample = sample.clone();
                Err(self.unreadable("an event stream of something else", sample))
            }
            _ => Ok(()),
        }
    }

    fn decode_whole(&mut self, sink: &mut impl Sink) -> Result<(), ReadError> {
        let BodyState::Json { bytes, .. } = &mut self.body else {
            return Ok(());
        };
        let body = std::mem::take(bytes);
        if !self.decoding.whole(&body, sink) {
            return Err(self.unreadable(foreign::what_whole(&body), sample(&body)));
        }
        if matches!(self.decoding.content, ContentUse::Judged(_))
            && let BodyState::Json { bytes, .. } = &mut self.body
        {
            *bytes = body;
        }
        self.check_answer()
    }

    fn check_wire(&self) -> Result<(), ReadError> {
        match self.decoding.lookout.found() {
            Some(found) => Err(self.unreadable(found.what(), sample(&found.data))),
            None => Ok(()),
        }
    }

    fn check_answer(&self) -> Result<(), ReadError> {
        if self.answer_len() > self.limits.answer {
            return Err(self.answer_too_large());
        }
        Ok(())
    }

    fn answer_len(&self) -> usize {
        let Decoding {
            assembly, decoder, ..
        } = &self.decoding;
        assembly.size.saturating_add(decoder.kept())
    }

    fn answer_too_large(&self) -> ReadError {
        ReadError::TooLarge(TooLarge {
            what: Part::Answer,
            limit: self.limits.answer,
        })
    }

    fn unreadable(&self, what: &'static str, sample: String) -> ReadError {
        ReadError::Unreadable {
            what,
            wire: self.wire,
            sample,
        }
    }
}

impl Decoding {
    fn is_over(&self) -> bool {
        self.end == End::Terminal || self.failure.is_some() || self.lookout.is_certain()
    }

    /// Returns whether content or a finish came.
    fn has_answer(&self) -> bool {
        self.assembly.has_content || self.has_finish || self.decoder.finishes() != Finishes::None
    }

    fn frame(&mut self, frame: SseFrame<'_>, sink: &mut impl Sink) {
        if self.is_over() {
            return;
        }
        match frame {
            SseFrame::Blank => sink.sign(Sign::heartbeat(HeartbeatOrigin::Comment)),
            SseFrame::Comment(text) => sink.sign(judge::comment(text)),
            SseFrame::Event(event) => {
                if judge::is_beat(&event) {
                    sink.sign(Sign::heartbeat(HeartbeatOrigin::Provider));
                    return;
                }
                if let Some(meaning) = self.go_on(&event) {
                    self.has_event = true;
                    self.is_own = true;
                    self.assembly.note_content(meaning.told == Told::Output);
                    sink.sign(self.judge.judge(meaning));
                    return;
                }
                let meaning = self.decode(|decoder, sink| decoder.event(event, sink), sink);
                if meaning.told == Told::Unreadable {
                    // The standard throws an event away whose end has not come, and so do we
                    // unless it parses.
                    if !event.terminated {
                        return;
                    }
                    self.unreadable.get_or_insert_with(|| sample(event.data));
                } else {
                    self.has_event = true;
                }
                if !self.is_own {
                    self.lookout.look(event.data.trim_ascii());
                }
                sink.sign(self.judge.judge(meaning));
            }
        }
    }

    /// Judges one more delta of a run without decoding it, where nothing of it is kept.
    fn go_on(&mut self, event: &SseEvent<'_>) -> Option<Meaning> {
        match &mut self.content {
            ContentUse::Kept => None,
            ContentUse::Judged(run) => run.go_on(self.wire, event),
        }
    }

    /// Decodes a whole body; returns whether it is an answer of the wire, or an error.
    fn whole(&mut self, body: &[u8], sink: &mut impl Sink) -> bool {
        let whole = self.decode(|decoder, sink| decoder.whole(body, sink), sink);
        if whole.is_err() {
            let Some(error) = error_in(body) else {
                return false;
            };
            self.fail(ProviderError::of_frame(error.as_bytes()), sink);
        }
        if !self.is_over() {
            self.end = End::Unfinished;
            let incomplete = if self.has_answer() {
                Incomplete::Truncated
            } else {
                Incomplete::Empty
            };
            let message = "the body holds an answer that is not done";
            self.fail(ProviderError::new(incomplete.code(), message), sink);
        }
        self.has_event = true;
        let is_output = self.failure.is_none() || self.assembly.has_content;
        sink.sign(Sign::of(if is_output {
            Progress::Output
        } else {
            Progress::Lifecycle
        }));
        true
    }

    fn decode<T>(
        &mut self,
        decode: impl FnOnce(&mut dyn Decode, &mut dyn FnMut(Event<'_>)) -> T,
        sink: &mut impl Sink,
    ) -> T {
        let Self {
            decoder,
            assembly,
            has_finish,
            end,
            failure,
            is_own,
            content,
            ..
        } = self;
        let decoded = decode(decoder, &mut |event| {
            *is_own = true;
            match content {
                ContentUse::Kept => assembly.add(&event),
                ContentUse::Judged(_) => assembly.note(&event),
            }
            match event {
                Event::Finish(_) => *has_finish = true,
                Event::Terminal => *end = End::Terminal,
                Event::Error(error) => {
                    failure.get_or_insert_with(|| Box::new(error.clone()));
                }
                _ => {}
            }
            sink.event(&event);
        });
        if self.end == End::Terminal && self.failure.is_none() && !self.has_answer() {
            self.fail(
                ProviderError::new(
                    FailureCode::Empty,
                    "the answer ended without content or a finish reason",
                ),
                sink,
            );
        }
        decoded
    }

    fn fail(&mut self, error: ProviderError, sink: &mut impl Sink) {
        sink.event(&Event::Error(&error));
        self.failure = Some(Box::new(error));
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Finished => "finished",
            Self::Ended => "ended",
            Self::Failed => "failed",
        })
    }
}
