//! What each request did, and when the peer left.
//!
//! The log is a plain record that tests read; each entry is also told to an observer as an
//! [`Event`], which is what `lifesign standin` prints.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Notify;

use crate::clock::Clock;

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The stand-in closed the socket with the body unfinished.
    Cut,
    /// The body ended properly.
    Eof,
    /// The peer left first.
    PeerLeft,
    /// The stand-in reset the connection or the stream.
    Reset,
    /// The stand-in was stopped.
    Stopped,
}

/// One request as it was seen, and what was sent in answer.
///
/// All times are since the stand-in began.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Which connection it came on, counted from 1.
    pub connection: u64,
    /// Which request on that connection it was, counted from 1.
    pub on_connection: u64,
    /// Which request to its script it was, counted from 1.
    pub attempt: u32,
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Whether it came as HTTP/2.
    pub http2: bool,
    /// The headers in the order they came, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// When it was whole (its head, for a script that leaves the body unread).
    pub at: Duration,
    /// The status that was sent last.
    pub status: Option<u16>,
    /// When each write of the body was handed to the socket and how long it was before any
    /// compression. The first 100,000 are kept.
    pub writes: Vec<(Duration, usize)>,
    /// How the response ended and when.
    pub ended: Option<(End, Duration)>,
    /// When the peer was seen to close or reset the connection, or reset the stream.
    pub peer_closed: Option<Duration>,
}

impl Request {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON, `null` if it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// One connection as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// When it was accepted.
    pub opened: Duration,
    /// When the peer was seen to close or reset it.
    pub peer_closed: Option<Duration>,
}

/// Something that happened, as told to an observer.
///
/// `Display` gives one line for people, serialising it one JSON object for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When, in milliseconds since the stand-in began.
    pub at_ms: u64,
    /// The connection, counted from 1.
    pub connection: u64,
    /// The request on the connection, counted from 1; 0 for the connection itself.
    pub request: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// A connection was accepted.
    Connected,
    /// A response ended.
    Ended {
        /// How.
        how: End,
        /// Bytes of the body written, before any compression.
        bytes: u64,
    },
    /// The peer closed or reset the connection.
    PeerClosed,
    /// A request came.
    Request {
        /// Which request to its script it is, counted from 1.
        attempt: u32,
        /// The method.
        method: String,
        /// The path with its query.
        path: String,
        /// The length of its body in bytes.
        body_bytes: usize,
        /// Whether it came as HTTP/2.
        http2: bool,
    },
    /// A response head was sent.
    Status {
        /// Its status.
        status: u16,
    },
    /// A TLS hello came where plain HTTP is spoken; the connection was closed.
    TlsHello,
    /// Bytes of the body were written.
    Wrote {
        /// How many, before any compression.
        bytes: usize,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ms) = (self.at_ms / 1000, self.at_ms % 1000);
        write!(f, "{seconds:>5}.{ms:03} s  {}", self.connection)?;
        if self.request > 0 {
            write!(f, ".{}", self.request)?;
        }
        f.write_str("  ")?;
        match &self.what {
            What::Connected => f.write_str("connected"),
            What::Ended { how, bytes } => {
                let how = match how {
                    End::Cut => "cut",
                    End::Eof => "ended properly",
                    End::PeerLeft => "left by the peer",
                    End::Reset => "reset",
                    End::Stopped => "stopped",
                };
                write!(f, "{how} after {bytes} bytes of body")
            }
            What::PeerClosed => f.write_str("the peer closed the connection"),
            What::Request {
                attempt,
                method,
                path,
                body_bytes,
                http2,
            } => {
                let version = if *http2 { "HTTP/2" } else { "HTTP/1.1" };
                write!(
                    f,
                    "{method} {path} {version}, attempt {attempt}, {body_bytes} bytes"
                )
            }
            What::Status { status } => write!(f, "status {status}"),
            What::TlsHello => {
                f.write_str("a TLS hello came to a plain port; http, not https, is spoken here")
            }
            What::Wrote { bytes } => write!(f, "wrote {bytes} bytes"),
        }
    }
}

/// Told of every event, in order. It must not block.
pub type Observer = dyn Fn(&Event) + Send + Sync;

/// The shared record of a stand-in.
pub(crate) struct Log {
    clock: Clock,
    state: Mutex<State>,
    changed: Notify,
    observer: Option<Arc<Observer>>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Request>,
    connections: Vec<Connection>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl Log {
    pub(crate) fn new(clock: Clock, observer: Option<Arc<Observer>>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            changed: Notify::new(),
            observer,
        }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    pub(crate) fn connections(&self) -> Vec<Connection> {
        self.state().connections.clone()
    }

    /// Waits until `test` holds for the requests, or `limit` has passed; says which.
    pub(crate) async fn wait_until(
        &self,
        limit: Duration,
        test: impl Fn(&[Request]) -> bool,
    ) -> bool {
        let until = self.clock.at(self.clock.elapsed().saturating_add(limit));
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Registered before the look, so that no change falls between look and wait.
            changed.as_mut().enable();
            if test(&self.state().requests) {
                return true;
            }
            let Some(until) = until else {
                changed.await;
                continue;
            };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(until) => return test(&self.state().requests),
            }
        }
    }

    /// Enters a connection and returns its number.
    pub(crate) fn connected(&self) -> u64 {
        let opened = self.clock.elapsed();
        let mut state = self.state();
        state.connections.push(Connection {
            opened,
            peer_closed: None,
        });
        let connection = state.connections.len() as u64;
        drop(state);
        self.tell(opened, connection, 0, What::Connected);
        connection
    }

    /// Notes that the peer closed a connection, for it and for every request it carried.
    pub(crate) fn peer_closed(&self, connection: u64) {
        let at = self.clock.elapsed();
        let mut state = self.state();
        let entry = usize::try_from(connection)
            .ok()
            .and_then(|number| number.checked_sub(1));
        if let Some(entry) = entry.and_then(|index| state.connections.get_mut(index)) {
            if entry.peer_closed.is_some() {
                return;
            }
            entry.peer_closed = Some(at);
        }
        for request in state
            .requests
            .iter_mut()
            .filter(|entry| entry.connection == connection)
        {
            request.peer_closed.get_or_insert(at);
        }
        drop(state);
        self.tell(at, connection, 0, What::PeerClosed);
    }

    /// Notes that a TLS hello came where plain HTTP is spoken.
    pub(crate) fn tls_hello(&self, connection: u64) {
        self.tell(self.clock.elapsed(), connection, 0, What::TlsHello);
    }

    /// Enters a request.
    pub(crate) fn request(self: &Arc<Self>, mut request: Request) -> Ticket {
        request.at = self.clock.elapsed();
        let (at, connection, number) = (request.at, request.connection, request.on_connection);
        let what = What::Request {
            attempt: request.attempt,
            method: request.method.clone(),
            path: request.path.clone(),
            body_bytes: request.body.len(),
            http2: request.http2,
        };
        let mut state = self.state();
        // Entries are never removed, so that a request is found by its place.
        let index = (state.requests.len() < MOST_REQUESTS).then_some(state.requests.len());
        if index.is_some() {
            state.requests.push(request);
        }
        drop(state);
        self.tell(at, connection, number, what);
        Ticket {
            log: Arc::clone(self),
            index,
            connection,
            number,
            bytes: 0,
            has_ended: false,
        }
    }

    fn tell(&self, at: Duration, connection: u64, request: u64, what: What) {
        self.changed.notify_waiters();
        if let Some(observer) = &self.observer {
            let at_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
            observer(&Event {
                at_ms,
                connection,
                request,
                what,
            });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of one request.
#[derive(Debug)]
pub(crate) struct Ticket {
    log: Arc<Log>,
    index: Option<usize>,
    connection: u64,
    number: u64,
    bytes: u64,
    has_ended: bool,
}

impl Ticket {
    pub(crate) fn status(&mut self, status: u16) {
        self.update(What::Status { status }, |request, _| {
            request.status = Some(status);
        });
    }

    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.update(What::Wrote { bytes }, |request, at| {
            if request.writes.len() < MOST_WRITES {
                request.writes.push((at, bytes));
            }
        });
    }

    pub(crate) fn ended(&mut self, how: End) {
        if !std::mem::replace(&mut self.has_ended, true) {
            let bytes = self.bytes;
            self.update(What::Ended { how, bytes }, |request, at| {
                request.ended = Some((how, at));
                if how == End::PeerLeft {
                    request.peer_closed.get_or_insert(at);
                }
            });
        }
    }

    fn update(&mut self, what: What, change: impl FnOnce(&mut Request, Duration)) {
        let at = self.log.clock.elapsed();
        if let Some(index) = self.index
            && let Some(request) = self.log.state().requests.get_mut(index)
        {
            change(request, at);
        }
        self.log.tell(at, self.connection, self.number, what);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // A response that nobody went on with was stopped with its connection: by whom?
        let state = self.log.state();
        let request = self.index.and_then(|index| state.requests.get(index));
        let has_left = request.is_some_and(|request| request.peer_closed.is_some());
        drop(state);
        self.ended(if has_left {
            End::PeerLeft
        } else {
            End::Stopped
        });
    }
}

const MOST_REQUESTS: usize = 100_000;
const MOST_WRITES: usize = 100_000;
