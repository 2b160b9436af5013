//! Waiting for the wire under the bounds of an attempt.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lifesign_core::{Cut, Notice, Sign, Verdict, Watch};

use crate::clock::CallClock;
use crate::monitor::Monitor;
use crate::timer::LazyTimer;

/// Waits for one attempt's wire, and wakes for its bounds.
///
/// What is already on the socket is read before a verdict: a due timer lets the I/O driver turn
/// once, polls the wire again, and only then judges, as [`Verdict::Look`] asks.
pub struct Guard {
    clock: CallClock,
    monitor: Monitor,
    timer: LazyTimer,
    looking: Looking,
}

/// Why a wait ended.
#[derive(Debug)]
pub(crate) enum Woken<T> {
    /// The wire had something.
    Ready(T),
    /// The content clock has been quiet for long.
    Notice(Notice),
    /// A bound ran out.
    Cut(Cut),
    /// The wait's own deadline passed.
    Deadline,
}

/// Why the wire is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// As a matter of course: whoever waits is woken when there is something.
    Usual,
    /// Because a verdict is due: what the kernel has must be read now.
    Last,
}

enum Looking {
    /// No verdict is due.
    Away,
    /// The I/O driver gets a turn.
    Yielding {
        turn: Pin<Box<dyn Future<Output = ()> + Send>>,
        until: Duration,
    },
    /// The wire is asked once more; no verdict falls before `until`.
    Probing { until: Duration },
}

impl Guard {
    /// Returns a guard over the attempt whose watch is on `monitor`, on the call's clock.
    pub const fn new(clock: CallClock, monitor: Monitor) -> Self {
        Self {
            timer: LazyTimer::new(clock),
            clock,
            monitor,
            looking: Looking::Away,
        }
    }

    pub(crate) const fn clock(&self) -> CallClock {
        self.clock
    }

    pub(crate) const fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Returns how long the call has lasted.
    pub fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Tells the watch what a whole frame proves, which came at `now`.
    pub fn handle_frame(&self, sign: Sign, now: Duration) {
        self.monitor.watch(|watch| watch.handle_frame(sign, now));
    }

    /// Runs `act` on the attempt's watch with the time that it is now.
    pub(crate) fn watch<T>(&self, act: impl FnOnce(&mut Watch, Duration) -> T) -> Option<T> {
        let now = self.now();
        self.monitor.watch(|watch| act(watch, now))
    }

    /// Polls until `wire` is ready, `deadline` has passed, or the watch has something to say.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        deadline: Option<Duration>,
        mut wire: impl FnMut(&mut Context<'_>, Ask) -> Poll<T>,
    ) -> Poll<Woken<T>> {
        loop {
            let now = self.now();
            if deadline.is_some_and(|at| at <= now) {
                return Poll::Ready(Woken::Deadline);
            }
            let due = self.monitor.watch(|watch| watch.poll_deadline()).flatten();
            if due.is_none_or(|due| due > now) && !matches!(self.looking, Looking::Probing { .. }) {
                self.looking = Looking::Away;
                if let Poll::Ready(found) = wire(cx, Ask::Usual) {
                    return Poll::Ready(Woken::Ready(found));
                }
                match [due, deadline].into_iter().flatten().min() {
                    Some(wake) => ready!(self.timer.poll(wake, cx)),
                    None => return Poll::Pending,
                }
                continue;
            }
            match &mut self.looking {
                Looking::Away => {}
                Looking::Yielding { turn, until } => {
                    let until = *until;
                    ready!(turn.as_mut().poll(cx));
                    self.looking = Looking::Probing { until };
                    continue;
                }
                Looking::Probing { until } => {
                    let until = *until;
                    if let Poll::Ready(found) = wire(cx, Ask::Last) {
                        self.looking = Looking::Away;
                        return Poll::Ready(Woken::Ready(found));
                    }
                    if now < until {
                        ready!(self.timer.poll(until, cx));
                        continue;
                    }
                }
            }
            self.looking = Looking::Away;
            match self.monitor.watch(|watch| watch.handle_time(now)) {
                Some(Verdict::Cut(cut)) => return Poll::Ready(Woken::Cut(cut)),
                Some(Verdict::Look { until }) => {
                    let turn = Box::pin(tokio::task::yield_now());
                    self.looking = Looking::Yielding { turn, until };
                }
                Some(Verdict::Notice(notice)) => return Poll::Ready(Woken::Notice(notice)),
                Some(Verdict::Wait) | None => {}
            }
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("timer", &self.timer)
            .finish_non_exhaustive()
    }
}
