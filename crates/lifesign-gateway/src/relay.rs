//! What an attempt's bytes become on their way to the caller.

use std::collections::VecDeque;

use bytes::Bytes;
use http::HeaderMap;
use lifesign::attempt::{Guard, Intake};
use lifesign_core::{Commit, Progress, Sign};
use lifesign_wire::{
    Answer, Event, Expect, Incomplete, Part, ProviderError, ReadError, ReadLimits, Reader,
    RelayReader, Sink, State, TooLarge, Wire,
};

use crate::room::{Kept, NoRoom};

/// How an answer is carried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// A stream, frame by frame.
    Frames,
    /// A stream that is put together to the whole answer that the caller asked for.
    Assembled,
    /// A whole answer.
    Whole,
    /// Whatever it is, as it comes: nothing of it is understood.
    Plain,
    /// The same, for whoever keeps it until it has ended: no more than one answer may be.
    Collected,
}

impl Manner {
    /// Whether the upstream is asked for a stream.
    pub(crate) const fn is_streamed(self) -> bool {
        matches!(self, Self::Frames | Self::Assembled)
    }
}

/// What goes on to the caller.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Bytes that may be sent as they are: whole frames, or a part of a body that nobody reads.
    Bytes(Bytes),
    /// The response's head is here, and what follows passes as it comes.
    Head,
}

/// Takes the answer of an attempt, and hands on what the caller is to get.
#[derive(Debug)]
pub(crate) struct Relay {
    taking: Taking,
    /// What is kept of the answer, as it counts among that of others.
    kept: Kept,
    /// The whole body, once the attempt has succeeded and there is one.
    whole: Option<Bytes>,
    /// What was held back, once an answer has succeeded without any content.
    held: Option<Bytes>,
}

#[derive(Debug)]
enum Taking {
    Relay(Box<RelayReader>),
    Assemble(Box<Reader>),
    Plain(Plain),
}

#[derive(Debug, Default)]
struct Plain {
    pieces: VecDeque<Piece>,
    /// The most that may come, where it is kept; it is counted there alone.
    most_len: Option<usize>,
    len: usize,
    has_head: bool,
    has_ended: bool,
}

impl Relay {
    pub(crate) fn new(
        manner: Manner,
        wire: Wire,
        limits: &ReadLimits,
        of: Start,
        kept: Kept,
    ) -> Self {
        let taking = match manner {
            Manner::Frames | Manner::Whole => {
                let expect = if manner == Manner::Frames {
                    Expect::Stream
                } else {
                    Expect::Whole
                };
                let mut reader = RelayReader::new(wire, expect, limits);
                if of.is_out {
                    reader = reader.swallow_start();
                }
                if of.follows_sequence {
                    reader = reader.follow_sequence();
                }
                Taking::Relay(Box::new(reader))
            }
            Manner::Assembled => Taking::Assemble(Box::new(
                Reader::new(wire, Expect::Stream, limits).keep_whole(),
            )),
            Manner::Plain => Taking::Plain(Plain::default()),
            Manner::Collected => Taking::Plain(Plain {
                most_len: Some(limits.answer),
                ..Plain::default()
            }),
        };
        Self {
            taking,
            kept,
            whole: None,
            held: None,
        }
    }

    /// Takes the event that starts an answer ahead of its content, where the wire has one that
    /// commits to nothing.
    pub(crate) fn take_start(&mut self) -> Option<Bytes> {
        match &mut self.taking {
            Taking::Relay(reader) => reader.take_start(),
            Taking::Assemble(_) | Taking::Plain(_) => None,
        }
    }

    /// Takes the whole body of an attempt that succeeded.
    pub(crate) fn take_whole(&mut self) -> Option<Bytes> {
        self.whole.take()
    }

    /// Takes what was held back of an attempt that succeeded without content.
    pub(crate) fn take_held(&mut self) -> Option<Bytes> {
        self.held.take()
    }

    /// Returns whether the failure went on to the caller in words that its reader takes for one.
    pub(crate) fn has_error_frame(&self) -> bool {
        match &self.taking {
            Taking::Relay(reader) => reader.has_error_frame(),
            Taking::Assemble(_) | Taking::Plain(_) => false,
        }
    }

    /// Returns the number of the last event that passed.
    pub(crate) fn last_sequence(&self) -> Option<u64> {
        match &self.taking {
            Taking::Relay(reader) => reader.last_sequence(),
            Taking::Assemble(_) | Taking::Plain(_) => None,
        }
    }
}

/// What an earlier attempt of the call has let pass already, and what is to be followed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Start {
    /// Whether the event that starts the answer is out.
    pub(crate) is_out: bool,
    /// Whether the numbers of events are followed.
    pub(crate) follows_sequence: bool,
}

impl Plain {
    /// Takes a piece, and returns how much is kept.
    fn take(&mut self, bytes: &Bytes) -> Result<usize, ReadError> {
        if let Some(limit) = self.most_len {
            self.len = self.len.saturating_add(bytes.len());
            if self.len > limit {
                let what = Part::Answer;
                return Err(ReadError::TooLarge(TooLarge { what, limit }));
            }
        }
        self.pieces.push_back(Piece::Bytes(bytes.clone()));
        Ok(self.len)
    }
}

impl Intake for Relay {
    type Item = Piece;

    fn head(&mut self, _: u16, _: &HeaderMap) {
        if let Taking::Plain(plain) = &mut self.taking {
            plain.has_head = true;
            plain.pieces.push_back(Piece::Head);
        }
    }

    fn read(&mut self, bytes: &Bytes, guard: &Guard) -> Result<(), ReadError> {
        let now = guard.now();
        let kept_len = match &mut self.taking {
            Taking::Relay(reader) => {
                reader.read(bytes, |sign| guard.handle_frame(sign, now))?;
                reader.kept_len_bytes()
            }
            Taking::Assemble(reader) => {
                reader.read(bytes, &mut Signs(guard))?;
                reader.kept_len_bytes()
            }
            Taking::Plain(plain) => {
                guard.handle_frame(Sign::of(Progress::Output), now);
                plain.take(bytes)?
            }
        };
        self.kept.set(kept_len).map_err(|NoRoom { limit }| {
            ReadError::TooLarge(TooLarge {
                what: Part::Buffered,
                limit,
            })
        })
    }

    fn end(&mut self, guard: &Guard) -> Result<(), ReadError> {
        let now = guard.now();
        match &mut self.taking {
            Taking::Relay(reader) => reader.end(|sign| guard.handle_frame(sign, now)),
            Taking::Assemble(reader) => reader.end(&mut Signs(guard)),
            Taking::Plain(plain) => {
                plain.has_ended = true;
                Ok(())
            }
        }
    }

    fn state(&self) -> State {
        match &self.taking {
            Taking::Relay(reader) => reader.state(),
            Taking::Assemble(reader) => reader.state(),
            Taking::Plain(_) => State::Open,
        }
    }

    fn outcome_at_eof(&self) -> Result<(), Incomplete> {
        match &self.taking {
            Taking::Relay(reader) => reader.outcome_at_eof(),
            Taking::Assemble(reader) => reader.outcome_at_eof(),
            Taking::Plain(_) => Ok(()),
        }
    }

    fn failure(&self) -> Option<&ProviderError> {
        match &self.taking {
            Taking::Relay(reader) => reader.failure(),
            Taking::Assemble(reader) => reader.failure(),
            Taking::Plain(_) => None,
        }
    }

    fn is_whole_body(&self) -> bool {
        match &self.taking {
            Taking::Relay(reader) => reader.is_whole_body(),
            Taking::Assemble(reader) => reader.is_whole_body(),
            Taking::Plain(_) => false,
        }
    }

    fn commit(&self) -> Commit {
        let (is_committed, has_output, is_shown) = match &self.taking {
            Taking::Relay(reader) => (reader.is_committed(), reader.has_output(), true),
            Taking::Assemble(reader) => (reader.is_committed(), reader.has_output(), false),
            Taking::Plain(plain) => (plain.has_head, true, true),
        };
        match (is_committed, has_output || is_shown) {
            (false, _) => Commit::Nothing,
            (true, true) => Commit::Content,
            (true, false) => Commit::HeldReasoning,
        }
    }

    fn next_item(&mut self) -> Option<Piece> {
        match &mut self.taking {
            Taking::Relay(reader) => reader.take().map(Piece::Bytes),
            Taking::Assemble(_) => None,
            Taking::Plain(plain) => plain.pieces.pop_front(),
        }
    }

    fn take_answer(&mut self, whole: bool) -> Answer {
        match &mut self.taking {
            Taking::Relay(reader) => {
                if whole {
                    let body = reader.take_whole_body();
                    self.whole = body.map(|body| self.kept.hand_on(body));
                    self.held = reader.take_held();
                }
                reader.take_answer(whole)
            }
            Taking::Assemble(reader) => {
                if whole {
                    let body = reader.whole_body().map(Bytes::from);
                    self.whole = body.map(|body| self.kept.hand_on(body));
                }
                reader.take_answer(whole)
            }
            Taking::Plain(_) => Answer::default(),
        }
    }
}

/// Hands signs to the watch.
struct Signs<'a>(&'a Guard);

impl Sink for Signs<'_> {
    fn sign(&mut self, sign: Sign) {
        self.0.handle_frame(sign, self.0.now());
    }

    fn event(&mut self, _: &Event<'_>) {}
}
