//! HTTP/2: streams on connections that several calls share.
//!
//! Each connection has tasks of its own, since nobody who waits for one stream may hold up the
//! others. A stream whose exchange is dropped is reset; a connection that fell silent is poisoned
//! and carries no further stream.

mod driver;
mod greeting;
mod link;
mod links;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderMap};
use http::{Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;

pub(super) use self::link::Lease;
pub(super) use self::links::{Links, Opened, open_http1};

use super::Step;
use super::error::TransportError;
use super::meter::Meter;
use super::outgoing::{Outgoing, SendProgress};

type Responding = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

/// One request and its response on a stream of its own.
pub(super) struct Http2Exchange {
    state: State,
    sending: Arc<SendProgress>,
    /// The body bytes whose acceptance was told.
    told: u64,
    sent: bool,
    trailers: Option<HeaderMap>,
    // Last, so that the stream is gone before its place is free.
    lease: Lease,
}

enum State {
    Waiting(Responding),
    Reading(Incoming),
    Ended,
}

impl Http2Exchange {
    pub(super) fn start(lease: Lease, request: Request<Bytes>) -> Self {
        let link = lease.link();
        let mut request = request.map(|body| Outgoing::new(body, PIECE, link.meter()));
        *request.version_mut() = Version::HTTP_2;
        request.headers_mut().remove(HOST);
        request.headers_mut().remove(CONNECTION);
        if let Some(uri) = link.endpoint().absolute(request.uri()) {
            *request.uri_mut() = uri;
        }
        let sending = request.body().progress();
        let responding: Responding = Box::pin(link.sender().send_request(request));
        Self {
            state: State::Waiting(responding),
            sending,
            told: 0,
            sent: false,
            trailers: None,
            lease,
        }
    }

    pub(super) fn meter(&self) -> &Meter {
        self.lease.link().meter()
    }

    pub(super) const fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }

    /// Keeps the connection from carrying any further stream.
    pub(super) fn poison(&self) {
        self.lease.link().retire();
    }

    pub(super) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, TransportError>> {
        if !self.sent {
            self.sending.register(cx);
            if self.sending.is_sent() {
                self.sent = true;
                return Poll::Ready(Ok(Step::Sent));
            }
            let handed_out = self.sending.handed_out();
            if handed_out > self.told {
                self.told = handed_out;
                return Poll::Ready(Ok(Step::Wrote));
            }
        }
        match &mut self.state {
            State::Waiting(responding) => match responding.as_mut().poll(cx) {
                Poll::Ready(Ok(response)) => {
                    let (head, body) = response.into_parts();
                    self.state = State::Reading(body);
                    Poll::Ready(Ok(Step::Head(head)))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(self.lose(error, false))),
                Poll::Pending => Poll::Pending,
            },
            State::Reading(body) => loop {
                match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(chunk) => return Poll::Ready(Ok(Step::Chunk(chunk))),
                        Err(frame) => self.trailers = frame.into_trailers().ok(),
                    },
                    Some(Err(error)) => return Poll::Ready(Err(self.lose(error, true))),
                    None => {
                        self.state = State::Ended;
                        return Poll::Ready(Ok(Step::End));
                    }
                }
            },
            State::Ended => Poll::Ready(Ok(Step::End)),
        }
    }

    fn lose(&mut self, error: hyper::Error, in_body: bool) -> TransportError {
        self.state = State::Ended;
        let error = self
            .lease
            .link()
            .greeting()
            .explain(TransportError::of_hyper(error, in_body));
        if error.is_of_connection() {
            self.poison();
        }
        error
    }
}

impl fmt::Debug for Http2Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2Exchange")
            .field("lease", &self.lease)
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

/// The largest piece of a request body that is handed out at once: one frame of the size that
/// every peer takes (RFC 9113, section 4.2), so that what is handed out is nearly on its way.
const PIECE: usize = 16 * 1024;
