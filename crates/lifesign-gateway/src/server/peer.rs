//! What is known of one connection, shared between its task and the calls on it.

use std::{
    net::SocketAddr,
    num::NonZeroU32,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::task::AtomicWaker;
use lifesign::clock::CallClock;

use super::{
    drain::{Drain, Stage},
    head::Malformed,
};

/// From where a listener can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// From this machine, by any program and by any page in a browser.
    Loopback,
    /// From elsewhere.
    Other,
    /// By those whom the file system lets in.
    Unix,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Peer {
    reach: Reach,
    remote: Option<SocketAddr>,
    drain: Drain,
    clock: CallClock,
    waker: AtomicWaker,
    is_killed: AtomicBool,
    is_stalled: AtomicBool,
    /// Requests that have come whole, less responses that have ended; a response may be first.
    to_answer: AtomicIsize,
    /// The number of the poll that the task of the connection is in; 0 before the first.
    poll_number: AtomicU32,
    malformed: OnceLock<Malformed>,
    head: Due,
    write: Due,
}

impl Peer {
    pub(super) fn new(
        reach: Reach,
        remote: Option<SocketAddr>,
        drain: Drain,
        clock: CallClock,
    ) -> Self {
        Self {
            reach,
            remote,
            drain,
            clock,
            waker: AtomicWaker::new(),
            is_killed: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            to_answer: AtomicIsize::new(0),
            poll_number: AtomicU32::new(0),
            malformed: OnceLock::new(),
            head: Due::default(),
            write: Due::default(),
        }
    }

    /// Returns from where the listener can be reached.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// Returns the other end's address; a unix socket has none.
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// Returns how far the end of serving has come. The task of the connection is woken whenever it
    /// changes, and polls the response with it.
    pub(crate) fn stage(&self) -> Stage {
        self.drain.stage()
    }

    /// Ends the connection from outside of its task, with a reset where that is possible: what is
    /// still to be written is of no use to somebody who does not read.
    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Returns whether [`kill`](Self::kill) was called.
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Acquire)
    }

    /// Returns whether the connection was ended because its reader had stopped reading.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Acquire)
    }

    /// Whether a request has come whole, and its response has not ended. The task of the connection
    /// alone uses it.
    pub(super) fn is_answering(&self) -> bool {
        self.to_answer.load(Ordering::Relaxed) > 0
    }

    pub(super) fn note_request(&self) {
        self.to_answer.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_response(&self) {
        self.to_answer.fetch_sub(1, Ordering::Relaxed);
    }

    /// Numbers the poll that the task of the connection begins. That task alone uses it.
    pub(super) fn begin_poll(&self) {
        let next = self
            .poll_number
            .load(Ordering::Relaxed)
            .wrapping_add(1)
            .max(1);
        self.poll_number.store(next, Ordering::Relaxed);
    }

    /// Returns which poll of its task the connection is in; none where nobody numbers them.
    pub(crate) fn poll_number(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.poll_number.load(Ordering::Relaxed))
    }

    pub(super) fn mark_stalled(&self) {
        self.is_stalled.store(true, Ordering::Release);
    }

    pub(super) fn malformed(&self) -> Option<Malformed> {
        self.malformed.get().copied()
    }

    pub(super) fn mark_malformed(&self, malformed: Malformed) {
        // The first is the one to be told of.
        self.malformed.get_or_init(|| malformed);
    }

    pub(super) fn waker(&self) -> &AtomicWaker {
        &self.waker
    }

    pub(super) fn clock(&self) -> &CallClock {
        &self.clock
    }

    /// When the head of a request has to be complete.
    pub(super) fn head(&self) -> &Due {
        &self.head
    }

    /// When the reader has to have taken something.
    pub(super) fn write(&self) -> &Due {
        &self.write
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }
}

/// A time that may be set, in the clock of the server.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// Milliseconds, of which 0 says that nothing is due. The task of the connection alone uses it.
    at_ms: AtomicU64,
}

impl Due {
    /// Sets it unless it is set.
    pub(super) fn set(&self, at: impl FnOnce() -> Duration) {
        if self.at_ms.load(Ordering::Relaxed) == 0 {
            // Never sooner than was said.
            let at_ms = u64::try_from(at().as_millis()).unwrap_or(u64::MAX);
            self.at_ms.store(at_ms.saturating_add(1), Ordering::Relaxed);
        }
    }

    pub(super) fn clear(&self) {
        self.at_ms.store(0, Ordering::Relaxed);
    }

    pub(super) fn at(&self) -> Option<Duration> {
        let at_ms = self.at_ms.load(Ordering::Relaxed);
        (at_ms != 0).then(|| Duration::from_millis(at_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_told_apart_once_they_are_numbered() {
        let peer = Peer::new(Reach::Unix, None, Drain::new(), CallClock::start());

        let polls = [0, 1, u32::MAX].map(|last| {
            peer.poll_number.store(last, Ordering::Relaxed);
            let before = peer.poll_number();
            peer.begin_poll();
            (
                before.map(NonZeroU32::get),
                peer.poll_number().map(NonZeroU32::get),
            )
        });

        let first = (None, Some(1));
        // After the last number the first comes again: none would say that nobody counts.
        assert_eq!(
            polls,
            [first, (Some(1), Some(2)), (Some(u32::MAX), Some(1))]
        );
    }
}
