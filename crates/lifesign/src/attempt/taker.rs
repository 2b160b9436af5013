//! Where what the reader finds goes.

use std::collections::VecDeque;
use std::time::Duration;

use lifesign_core::{Progress, Sign};
use lifesign_wire::{Event, Sink};

use crate::event::{CallEvent, ToolCallPiece};
use crate::guard::Guard;

/// Which answer it is, held back until the commit.
#[derive(Default)]
pub(super) struct Started {
    id: Option<String>,
    model: Option<String>,
    told: bool,
}

/// Takes what the reader finds: signs to the watch, events to the caller.
pub(super) struct Taker<'a> {
    guard: &'a Guard,
    now: Duration,
    ready: &'a mut VecDeque<CallEvent>,
    started: &'a mut Started,
    hands_out: bool,
}

impl<'a> Taker<'a> {
    pub(super) fn of(
        guard: &'a Guard,
        ready: &'a mut VecDeque<CallEvent>,
        started: &'a mut Started,
        hands_out: bool,
    ) -> Self {
        Self {
            guard,
            now: guard.now(),
            ready,
            started,
            hands_out,
        }
    }

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
        let now = self.now;
        self.guard
            .monitor()
            .watch(|watch| watch.handle_frame(sign, now));
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
