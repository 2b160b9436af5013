//! What a call is doing right now, readable while it runs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lifesign_core::{Readings, Watch};

use crate::clock::CallClock;

/// A view of a running call that stays valid after the call has ended.
///
/// The call itself is polled by whoever reads its stream; a monitor lets somebody else, such as a
/// status line, look at its clocks meanwhile. Cloning is cheap.
#[derive(Clone)]
pub struct Monitor {
    clock: CallClock,
    live: Arc<Mutex<Live>>,
}

impl Monitor {
    /// Returns the monitor of a call that may make so many attempts and has begun none.
    pub fn new(clock: CallClock, attempts: u32) -> Self {
        let live = Live {
            attempt: 0,
            of: attempts,
            doing: Doing::Starting,
            watch: None,
        };
        Self {
            clock,
            live: Arc::new(Mutex::new(live)),
        }
    }

    /// Returns what the call is doing now.
    pub fn snapshot(&self) -> Snapshot {
        let now = self.clock.elapsed();
        self.with(|live| Snapshot {
            attempt: live.attempt,
            of: live.of,
            elapsed: now,
            doing: live.doing,
            readings: live.watch.as_ref().map(|watch| watch.readings(now)),
        })
    }

    /// Notes that an attempt begins, and takes its watch.
    pub fn begin_attempt(&self, attempt: u32, watch: Watch) {
        self.with(|live| {
            live.attempt = attempt;
            live.doing = Doing::Attempting;
            live.watch = Some(watch);
        });
    }

    /// Takes the watch of the attempt that has ended.
    pub fn end_attempt(&self) -> Option<Watch> {
        self.with(|live| {
            live.doing = Doing::Ended;
            live.watch.take()
        })
    }

    /// Says how many attempts the call may make after what has happened.
    pub fn set_attempts(&self, of: u32) {
        self.with(|live| live.of = of);
    }

    /// Says what the call is doing from now on.
    pub fn set_doing(&self, doing: Doing) {
        self.with(|live| live.doing = doing);
    }

    /// Runs `act` on the watch of the attempt under way, if there is one.
    pub fn watch<T>(&self, act: impl FnOnce(&mut Watch) -> T) -> Option<T> {
        self.with(|live| live.watch.as_mut().map(act))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Live) -> T) -> T {
        // A panic elsewhere cannot leave `Live` half-changed: each change is one assignment.
        act(&mut self.live.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("snapshot", &self.snapshot())
            .finish()
    }
}

/// What a call was doing when it was looked at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The attempt under way or last made, counted from 1; 0 before the first.
    pub attempt: u32,
    /// The most attempts that the call may make.
    pub of: u32,
    /// Time since the call began.
    pub elapsed: Duration,
    /// What the call is doing.
    pub doing: Doing,
    /// The clocks of the attempt under way.
    pub readings: Option<Readings>,
}

/// What a call is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Nothing yet.
    Starting,
    /// Waiting in line for its upstream.
    Queued,
    /// Waiting for a hold on its upstream to end.
    Holding {
        /// When it ends, since the call began.
        until: Duration,
    },
    /// Making an attempt.
    Attempting,
    /// Waiting before the next attempt.
    RetryWait {
        /// When the next attempt starts, since the call began.
        until: Duration,
    },
    /// Over.
    Ended,
}

struct Live {
    attempt: u32,
    of: u32,
    doing: Doing,
    watch: Option<Watch>,
}
