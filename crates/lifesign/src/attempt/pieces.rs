//! The intake of a client: what the reader finds becomes events.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use lifesign_core::{Commit, Progress, Sign};
use lifesign_wire::{Answer, Event, Incomplete, ProviderError, ReadError, Reader, Sink, State};

use super::intake::Intake;
use crate::event::{CallEvent, ToolCallPiece};
use crate::guard::Guard;

/// Puts the answer together, and hands it up in pieces where the caller takes pieces.
pub(crate) struct Pieces {
    reader: Reader,
    /// Events that the caller has not taken yet.
    ready: VecDeque<CallEvent>,
    /// The id and model of the answer, held back until the commit.
    started: Started,
    hands_out: bool,
}

impl Pieces {
    pub(crate) fn new(reader: Reader, hands_out: bool) -> Self {
        Self {
            reader,
            ready: VecDeque::new(),
            started: Started::default(),
            hands_out,
        }
    }

    fn split(
        &mut self,
        guard: &Guard,
        act: impl FnOnce(&mut Reader, &mut Taker<'_>) -> Taken,
    ) -> Taken {
        let mut taker = Taker {
            guard,
            now: guard.now(),
            ready: &mut self.ready,
            started: &mut self.started,
            hands_out: self.hands_out,
        };
        act(&mut self.reader, &mut taker)
    }
}

type Taken = Result<(), ReadError>;

impl Intake for Pieces {
    type Item = CallEvent;

    fn head(&mut self, _: u16, _: &HeaderMap) {}

    fn read(&mut self, bytes: &Bytes, guard: &Guard) -> Taken {
        self.split(guard, |reader, taker| reader.read(bytes, taker))
    }

    fn end(&mut self, guard: &Guard) -> Taken {
        self.split(guard, |reader, taker| reader.end(taker))
    }

    fn state(&self) -> State {
        self.reader.state()
    }

    fn outcome_at_eof(&self) -> Result<(), Incomplete> {
        self.reader.outcome_at_eof()
    }

    fn failure(&self) -> Option<&ProviderError> {
        self.reader.failure()
    }

    fn is_whole_body(&self) -> bool {
        self.reader.is_whole_body()
    }

    fn commit(&self) -> Commit {
        if !self.reader.is_committed() {
            Commit::Nothing
        } else if self.reader.has_output() || self.hands_out {
            Commit::Content
        } else {
            Commit::HeldReasoning
        }
    }

    fn next_item(&mut self) -> Option<CallEvent> {
        self.ready.pop_front()
    }

    fn take_answer(&mut self, whole: bool) -> Answer {
        self.reader.take_answer(whole)
    }
}

/// Which answer it is, held back until the commit.
#[derive(Default)]
struct Started {
    id: Option<String>,
    model: Option<String>,
    told: bool,
}

/// Takes what the reader finds: signs to the watch, events to the caller.
struct Taker<'a> {
    guard: &'a Guard,
    now: Duration,
    ready: &'a mut VecDeque<CallEvent>,
    started: &'a mut Started,
    hands_out: bool,
}

impl Taker<'_> {
    /// Tells the caller, before the first content, which answer it is.
    fn tell_started(&mut self) {
        if !self.started.told {
            self.started.told = true;
            self.ready.push_back(CallEvent::Started {
                id: self.started.id.clone(),
                model: self.started.model.clone(),
            });
        }
    }
}

impl Sink for Taker<'_> {
    fn sign(&mut self, sign: Sign) {
        self.guard.handle_frame(sign, self.now);
        if let (Progress::Heartbeat, Some(origin)) = (sign.progress, sign.origin) {
            self.ready.push_back(CallEvent::Heartbeat { origin });
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        if let Event::Started { id, model } = event {
            self.started.id = id.map(str::to_owned).or_else(|| self.started.id.take());
            self.started.model = model
                .map(str::to_owned)
                .or_else(|| self.started.model.take());
        }
        if !self.hands_out || !event.is_content() {
            return;
        }
        self.tell_started();
        let told = match event {
            Event::Text(text) | Event::Refusal(text) => CallEvent::Text((*text).to_owned()),
            Event::Reasoning(text) => CallEvent::Reasoning((*text).to_owned()),
            Event::ToolCall(piece) => CallEvent::ToolCall(ToolCallPiece {
                call: piece.call,
                id: piece.id.map(str::to_owned),
                name: piece.name.map(str::to_owned),
                arguments: piece.arguments.to_owned(),
            }),
            // Kept for the answer; there is nothing in them to show piece by piece.
            _ => return,
        };
        self.ready.push_back(told);
    }
}
