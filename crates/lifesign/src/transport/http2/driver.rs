//! The tasks behind one HTTP/2 connection.
//!
//! hyper needs a task that reads and writes, and one that opens streams. The second is ours: it
//! keeps the link's limit of streams up to date and ends both when the link is over. The first one
//! tells it whenever it has run, since settings and GOAWAY frames arrive there.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Sleep;

use super::greeting::{Greeted, Greeting};
use super::link::{Link, Watch};
use crate::timer::poll_at;
use crate::transport::endpoint::Endpoint;
use crate::transport::error::TransportError;
use crate::transport::meter::Line;
use crate::transport::outgoing::Outgoing;

type Streams = http2::Connection<TokioIo<Greeted>, Outgoing, Spawner>;

/// Starts HTTP/2 on an open line.
pub(super) async fn start(
    line: Line,
    endpoint: Endpoint,
    keep: Duration,
    changed: Arc<Notify>,
) -> Result<Arc<Link>, TransportError> {
    let meter = line.meter();
    let greeting = Arc::new(Greeting::default());
    let line = Greeted::new(line, Arc::clone(&greeting));
    let spawner = Spawner::default();
    let (sender, streams) = http2::Builder::new(spawner.clone())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_LIMIT)
        .keep_alive_while_idle(false)
        .initial_max_send_streams(UNKNOWN)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(TokioIo::new(line))
        .await
        .map_err(|error| TransportError::of_hyper(error, false))?;
    let driver = Arc::clone(&spawner.driver);
    let link = Arc::new(Link::new(
        sender, meter, greeting, endpoint, driver, changed,
    ));
    tokio::spawn(Driver {
        link: Arc::clone(&link),
        streams: Some(streams),
        keep,
        timer: None,
        spawner,
    });
    Ok(link)
}

/// Looks after one connection until it is over.
struct Driver {
    link: Arc<Link>,
    streams: Option<Streams>,
    /// How long the connection is kept without a stream.
    keep: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    spawner: Spawner,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.link.driver.register(cx.waker());
        self.poll_streams(cx);
        loop {
            match self.link.watch() {
                Watch::Busy => return Poll::Pending,
                Watch::Over => return Poll::Ready(()),
                Watch::IdleSince(since) => {
                    let Some(until) = since.checked_add(self.keep) else {
                        return Poll::Pending;
                    };
                    if poll_at(&mut self.timer, until, cx).is_pending() {
                        return Poll::Pending;
                    }
                    // Whoever took a place meanwhile is seen by the next look.
                    self.link.retire();
                }
            }
        }
    }
}

impl Driver {
    fn poll_streams(&mut self, cx: &mut Context<'_>) {
        let Some(streams) = &mut self.streams else {
            return;
        };
        if Pin::new(&mut *streams).poll(cx).is_ready() {
            // No stream can be opened any more; those that are open may still end well.
            self.streams = None;
            self.link.retire();
            return;
        }
        let limit = streams.current_max_send_streams();
        if limit != UNKNOWN {
            self.link.allow(limit);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.link.retire();
        self.spawner.close();
    }
}

/// Runs hyper's tasks for one connection.
#[derive(Clone, Debug, Default)]
struct Spawner {
    driver: Arc<AtomicWaker>,
    /// The task that owns the socket: the first one that hyper spawns.
    socket: Arc<Mutex<Option<AbortHandle>>>,
}

impl Spawner {
    /// Closes the socket.
    fn close(&self) {
        if let Some(socket) = self
            .socket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            socket.abort();
        }
    }
}

impl<F> Executor<F> for Spawner
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, future: F) {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        if socket.is_some() {
            drop(socket);
            tokio::spawn(future);
            return;
        }
        let driver = Arc::clone(&self.driver);
        let mut future = Box::pin(future);
        let telling = std::future::poll_fn(move |cx| {
            let polled = future.as_mut().poll(cx);
            driver.wake();
            polled
        });
        *socket = Some(tokio::spawn(telling).abort_handle());
    }
}

/// What the limit of streams reads before the peer's settings have come.
const UNKNOWN: usize = usize::MAX - 1;

/// How often an open stream's connection is probed, so that what stands between keeps it open.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// How long an answer to a probe may take: longer than any bound. A peer that answers none is dead
/// or deaf; which of the two, and when that ends a call, is for the bounds of the call to say.
const PING_LIMIT: Duration = Duration::from_hours(24 * 365);

/// What a stream may send ahead of its reader; and what all together may, which is enough for every
/// stream's window, so that a reader that pauses holds up no other stream.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 64 * STREAM_WINDOW;
