//! A response that goes on for as long as somebody watches: what is true now, once a second.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Response};
use lifesign::LazyTimer;
use lifesign::clock::CallClock;

use crate::body::Body;
use crate::hub::{Hub, Plan};
use crate::live::Taken;
use crate::server::{Peer, Stage};

/// What is told of a snapshot.
pub(crate) type Tell = Box<dyn Fn(&Hub, &Taken) -> Bytes + Send>;

/// A stream of events, each with what is true at its time.
pub(crate) struct Watching {
    hub: Arc<Hub>,
    /// The settings by which the watcher was let in.
    plan: Arc<Plan>,
    peer: Arc<Peer>,
    tell: Tell,
    clock: CallClock,
    timer: LazyTimer,
    due: Duration,
}

impl Watching {
    /// Returns the response that `tell` fills.
    pub(crate) fn respond(
        hub: &Arc<Hub>,
        plan: &Arc<Plan>,
        peer: &Arc<Peer>,
        tell: Tell,
    ) -> Response<Body> {
        let clock = CallClock::start();
        let watching = Self {
            hub: Arc::clone(hub),
            plan: Arc::clone(plan),
            peer: Arc::clone(peer),
            tell,
            clock,
            timer: LazyTimer::new(clock),
            due: Duration::ZERO,
        };
        let mut response = Response::new(Body::watching(Box::new(watching)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        );
        response
    }

    /// Returns the next event, or nothing once the gateway stops or whoever may watch has changed.
    pub(crate) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let is_over =
            || self.peer.stage() >= Stage::Draining || !Arc::ptr_eq(&self.plan, &self.hub.plan());
        if is_over() {
            return Poll::Ready(None);
        }
        while self.clock.elapsed() < self.due {
            ready!(self.timer.poll(self.due, cx));
        }
        if is_over() {
            return Poll::Ready(None);
        }
        let seen = self.hub.live.latest(&self.hub, false);
        let told = (self.tell)(&self.hub, &seen);
        let event = event(seen.snapshot.seq, &told);
        let pause = Duration::from_millis(event.len() as u64 * 1_000 / MOST_PER_SECOND);
        self.due = self.clock.elapsed() + EVERY.max(pause);
        Poll::Ready(Some(event))
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").finish_non_exhaustive()
    }
}

fn event(seq: u64, data: &[u8]) -> Bytes {
    let mut event = format!("event: live\nid: {seq}\n").into_bytes();
    for line in data.split(|byte| *byte == b'\n') {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event.into()
}

const EVERY: Duration = Duration::from_secs(1);
/// What a watcher is sent in bytes each second at most, so that many calls under way cost their
/// callers nothing: with more to tell it is told less often.
const MOST_PER_SECOND: u64 = 512 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_lines_is_told_in_lines() {
        assert_eq!(
            event(7, b"<p>\n</p>"),
            "event: live\nid: 7\ndata: <p>\ndata: </p>\n\n"
        );
    }
}
