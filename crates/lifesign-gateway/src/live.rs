//! What an operator sees while it happens: calls under way, those that ended lately, upstreams, and
//! how long clocks stood still.
//!
//! Little is done before somebody looks: a call notes its changes of state, and what has ended is
//! counted. Nothing is done for a frame. A [`Snapshot`] is put together when it is asked for, at most
//! one in a second, and shared by everybody who watches.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use lifesign::clock::{self, CallClock};

pub(crate) use self::build::breaker;
pub(crate) use self::course::Course;
pub(crate) use self::feed::{Feed, Taken};
use self::hour::Hour;
use self::recent::Recent;
pub(crate) use self::sentence::{limit_of_ms, of_ms};
use self::silences::Silences;
pub use self::snapshot::{
    BoundNow, Breakers, CallNow, CutBy, EndedCall, EndedCounts, FailureCount, FirstContent, Health,
    HoldNow, LastHeartbeat, NextBound, Silence, SilenceBound, Snapshot, State, Summary,
    UpstreamNow,
};
pub(crate) use self::standing::doing;
pub use self::timeline::{Happening, Timeline, TimelineAttempt, TimelineEvent};
use crate::records::{CallEnded, Record, Records};

mod build;
mod course;
mod feed;
mod hour;
mod name;
mod recent;
mod sentence;
mod setting;
mod silences;
mod snapshot;
mod standing;
mod story;
mod timeline;

/// What is kept for whoever looks.
pub(crate) struct Live {
    clock: CallClock,
    started: Timestamp,
    counted: Mutex<Counted>,
    recent: Recent,
    pub(crate) feed: Feed,
}

/// What is counted of what has ended.
#[derive(Default)]
struct Counted {
    hour: Hour,
    silences: Silences,
}

impl Live {
    /// Returns what is kept of a gateway that has just started: nothing.
    pub(crate) fn new() -> Self {
        Self {
            clock: CallClock::start(),
            started: clock::timestamp(),
            counted: Mutex::default(),
            recent: Recent::default(),
            feed: Feed::default(),
        }
    }

    /// Keeps a call that has ended, for whoever looks.
    pub(crate) fn keep(&self, ended: &CallEnded, course: &Course) {
        self.recent.keep(ended, course, self.clock.elapsed());
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        // It counts; half a count is no worse than none.
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Records for Live {
    fn record(&self, record: &Record) {
        let now = self.clock.elapsed();
        match record {
            Record::Started(_) => {}
            Record::Attempt(ended) => {
                let mut counted = self.counted();
                counted.hour.handle_attempt(&ended.attempt, ended.at, now);
                counted.silences.add(&ended.attempt.upstream, &ended.gaps);
            }
            Record::Ended(ended) => self.counted().hour.handle_end(ended, now),
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}
