//! What has happened to one call, kept while it runs and for a while after.

use std::time::Duration;

use lifesign_core::duration::whole_millis;
use lifesign_core::{FailureCode, Gaps, Trace};

use super::name::shorten;
use super::timeline::{Happening, TimelineEvent};
use crate::records::{Answered, AttemptEnded};

/// What has happened to one call. It is bounded, however long the call lasts.
#[derive(Debug, Default)]
pub(crate) struct Course {
    pub(super) events: Vec<TimelineEvent>,
    /// How many events found no room.
    pub(super) lost: u32,
    pub(super) attempts: Vec<PastAttempt>,
    wait: Option<WaitNow>,
}

/// What a call waits for now, beside its turn. It is known even where the history is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitNow {
    /// The end of a hold, or the next attempt.
    After(FailureCode),
    /// Those whom a hold had kept back as well.
    Behind,
}

/// An attempt that has ended.
#[derive(Debug)]
pub(super) struct PastAttempt {
    pub(super) ended: Box<AttemptEnded>,
    pub(super) trace: Trace,
}

impl Course {
    /// Notes what happened `at` after the call began.
    pub(crate) fn note(&mut self, at: Duration, what: Happening) {
        self.wait = match &what {
            Happening::Held { why, .. } | Happening::RetryWait { why, .. } => {
                Some(WaitNow::After(*why))
            }
            Happening::Behind { .. } => Some(WaitNow::Behind),
            // A beat opens the response in the middle of a wait.
            Happening::Opened { .. } => self.wait,
            Happening::Queued { .. }
            | Happening::Attempt { .. }
            | Happening::Notice { .. }
            | Happening::AttemptEnded { .. }
            | Happening::MovedOn { .. } => None,
        };
        if self.events.len() == MOST_EVENTS {
            self.lost = self.lost.saturating_add(1);
            return;
        }
        let at_ms = whole_millis(at);
        self.events.push(TimelineEvent { at_ms, what });
    }

    /// Keeps an attempt that has ended.
    pub(crate) fn keep(&mut self, mut ended: Box<AttemptEnded>, trace: Trace) {
        let at = Duration::from_millis(ended.attempt.ended_ms);
        let (n, outcome) = (ended.attempt.n, ended.attempt.outcome);
        self.note(at, Happening::AttemptEnded { n, outcome });
        shorten(&mut ended.route);
        ended.model.iter_mut().for_each(shorten);
        // What nobody is shown here, and has no bound of its own or much room.
        ended.gaps = Gaps::default();
        ended.answered = Answered::default();
        ended.quiet = Vec::new();
        ended.cut_point = None;
        ended.trace = None;
        if self.attempts.len() < MOST_ATTEMPTS {
            self.attempts.push(PastAttempt { ended, trace });
        }
    }

    /// Returns what the call waits for now, beside its turn.
    pub(super) const fn wait(&self) -> Option<WaitNow> {
        self.wait
    }
}

/// More than a call has that is not repeated without end.
const MOST_EVENTS: usize = 96;
const MOST_ATTEMPTS: usize = 16;
