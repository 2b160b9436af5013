//! One shared connection and the places on it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::task::AtomicWaker;
use hyper::client::conn::http2;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::greeting::Greeting;
use crate::clock::now;
use crate::transport::endpoint::Endpoint;
use crate::transport::meter::Meter;
use crate::transport::outgoing::Outgoing;

/// One HTTP/2 connection.
pub(super) struct Link {
    sender: http2::SendRequest<Outgoing>,
    meter: Arc<Meter>,
    greeting: Arc<Greeting>,
    endpoint: Endpoint,
    state: Mutex<LinkState>,
    /// Wakes the task that looks after the connection.
    pub(super) driver: Arc<AtomicWaker>,
    /// Tells those who wait for a place that something has changed.
    changed: Arc<Notify>,
}

#[derive(Clone, Copy)]
struct LinkState {
    streams: usize,
    /// How many streams may be open; `None` until the peer's settings are here.
    limit: Option<usize>,
    /// Whether no further stream may be opened.
    retired: bool,
    /// Since when no stream has been open.
    idle_since: Instant,
}

/// What a link can do for a caller that needs a stream.
pub(super) enum Place {
    Free(Lease),
    Full,
    Retired,
    /// One stream is open already, and how many may be is not known yet.
    Unknown,
}

/// What the task that looks after a link does next.
pub(super) enum Watch {
    /// Wait for a stream to end.
    Busy,
    /// Close the connection, unless a stream opens within the idle limit from here on.
    IdleSince(Instant),
    /// Close the connection now.
    Over,
}

impl Link {
    pub(super) fn new(
        sender: http2::SendRequest<Outgoing>,
        meter: Arc<Meter>,
        greeting: Arc<Greeting>,
        endpoint: Endpoint,
        driver: Arc<AtomicWaker>,
        changed: Arc<Notify>,
    ) -> Self {
        Self {
            sender,
            meter,
            greeting,
            endpoint,
            state: Mutex::new(LinkState {
                streams: 0,
                limit: None,
                retired: false,
                idle_since: now(),
            }),
            driver,
            changed,
        }
    }

    pub(super) fn sender(&self) -> http2::SendRequest<Outgoing> {
        self.sender.clone()
    }

    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    pub(super) fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Takes a place for a stream, if there is one.
    pub(super) fn take(self: &Arc<Self>) -> Place {
        let mut state = self.state();
        if state.retired || self.sender.is_closed() {
            return Place::Retired;
        }
        // Before the peer's settings are here one stream is always allowed.
        if state.streams < state.limit.unwrap_or(1) {
            state.streams += 1;
            return Place::Free(Lease {
                link: Arc::clone(self),
            });
        }
        if state.limit.is_none() {
            Place::Unknown
        } else {
            Place::Full
        }
    }

    /// Lets no further stream be opened. Those that are open go on.
    pub(super) fn retire(&self) {
        let was_retired = {
            let mut state = self.state();
            std::mem::replace(&mut state.retired, true)
        };
        if !was_retired {
            self.tell();
        }
    }

    pub(super) fn is_retired(&self) -> bool {
        self.state().retired
    }

    /// Records how many streams the peer allows.
    pub(super) fn allow(&self, peer_limit: usize) {
        let limit = Some(peer_limit.min(STREAMS));
        let changed = {
            let mut state = self.state();
            let changed = state.limit != limit;
            state.limit = limit;
            changed
        };
        if changed {
            self.changed.notify_waiters();
        }
    }

    pub(super) fn watch(&self) -> Watch {
        let state = self.state();
        match (state.streams, state.retired) {
            (0, true) => Watch::Over,
            (0, false) => Watch::IdleSince(state.idle_since),
            _ => Watch::Busy,
        }
    }

    fn release(&self) {
        {
            let mut state = self.state();
            state.streams = state.streams.saturating_sub(1);
            state.idle_since = now();
        }
        self.tell();
    }

    fn tell(&self) {
        self.driver.wake();
        self.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkState {
            streams,
            limit,
            retired,
            ..
        } = *self.state();
        f.debug_struct("Link")
            .field("endpoint", &self.endpoint)
            .field("streams", &streams)
            .field("limit", &limit)
            .field("retired", &retired)
            .finish_non_exhaustive()
    }
}

/// A place for one stream, given back when dropped.
#[derive(Debug)]
pub(in crate::transport) struct Lease {
    link: Arc<Link>,
}

impl Lease {
    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.link.release();
    }
}

/// The most streams on one connection, whatever the peer allows.
const STREAMS: usize = 64;
