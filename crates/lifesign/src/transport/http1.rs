//! HTTP/1.1: hyper's connection, polled by whoever waits for the exchange.
//!
//! There is no task between the socket and the attempt, so a chunk costs one wake-up, and a
//! dropped exchange takes its socket with it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::header::{CONNECTION, HOST, HeaderValue, PROXY_AUTHORIZATION};
use http::{Request, Response, Uri, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::Step;
use super::endpoint::Endpoint;
use super::error::TransportError;
use super::meter::{Line, Meter};
use super::outgoing::{Outgoing, SendProgress};
use super::pool::Pool;

type Driver = http1::Connection<TokioIo<Line>, Outgoing>;
type Responding = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

/// One HTTP/1.1 connection between exchanges.
pub(super) struct Http1 {
    sender: http1::SendRequest<Outgoing>,
    driver: Driver,
    meter: Arc<Meter>,
    way: Way,
}

/// What a request must look like on this connection.
#[derive(Clone)]
pub(super) struct Way {
    /// Where the connection leads.
    pub(super) endpoint: Arc<Endpoint>,
    /// The header that says so; none where it cannot be said.
    pub(super) host: Option<HeaderValue>,
    /// Whether a proxy reads our requests, so that it must be told the whole target.
    pub(super) absolute: bool,
    /// What the proxy that reads our requests wants to see.
    pub(super) proxy_authorization: Option<HeaderValue>,
}

impl Http1 {
    /// Starts HTTP/1.1 on an open line. Nothing is sent yet.
    pub(super) async fn start(line: Line, way: Way) -> Result<Self, TransportError> {
        let meter = line.meter();
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(MOST_READ_AHEAD)
            .handshake(TokioIo::new(line))
            .await
            .map_err(|error| TransportError::of_hyper(error, false))?;
        Ok(Self {
            sender,
            driver,
            meter,
            way,
        })
    }

    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.way.endpoint
    }

    /// Returns ready when the connection can carry no further request.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.driver).poll(cx).map(|_| ())
    }

    /// Whether the connection can carry another request, as far as the kernel knows by now.
    pub(super) fn is_usable(&mut self) -> bool {
        self.meter.look();
        self.is_open()
    }

    /// Whether the connection can carry another request, as far as is known here.
    fn is_open(&mut self) -> bool {
        self.poll_gone(&mut Context::from_waker(Waker::noop()))
            .is_pending()
            && self.sender.is_ready()
    }

    pub(super) fn send(mut self, request: Request<Bytes>, pool: Arc<Pool>) -> Http1Exchange {
        let (read, written) = (self.meter.read(), self.meter.written());
        let request = self.way.address(request).map(|body| {
            // hyper is asked for a piece when it has room for one.
            Outgoing::new(body, PIECE, &self.meter)
        });
        let sending = request.body().progress();
        let responding: Responding = Box::pin(self.sender.send_request(request));
        Http1Exchange {
            connection: self,
            pool,
            state: State::Waiting(responding),
            sending,
            lost: None,
            gone: false,
            sent: false,
            seen: Seen { read, written },
            inward: Inward::new(),
        }
    }
}

impl fmt::Debug for Http1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http1")
            .field("endpoint", &self.way.endpoint)
            .finish_non_exhaustive()
    }
}

impl Way {
    /// Gives the request the target form and the headers that HTTP/1.1 wants here.
    fn address(&self, mut request: Request<Bytes>) -> Request<Bytes> {
        *request.version_mut() = Version::HTTP_11;
        if !request.headers().contains_key(HOST)
            && let Some(host) = &self.host
        {
            request.headers_mut().insert(HOST, host.clone());
        }
        request.headers_mut().remove(CONNECTION);
        if let Some(authorization) = &self.proxy_authorization {
            request
                .headers_mut()
                .insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        if let Some(uri) = self.target(request.uri()) {
            *request.uri_mut() = uri;
        }
        request
    }

    fn target(&self, uri: &Uri) -> Option<Uri> {
        if self.absolute {
            return self.endpoint.absolute(uri);
        }
        let path = uri.path_and_query().cloned()?;
        let mut parts = http::uri::Parts::default();
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).ok()
    }
}

/// One request and its response on an HTTP/1.1 connection of its own.
pub(super) struct Http1Exchange {
    connection: Http1,
    pool: Arc<Pool>,
    state: State,
    sending: Arc<SendProgress>,
    /// Why the connection is gone, until something is reported with it.
    lost: Option<TransportError>,
    /// Whether the connection is over, so that it must not be polled again.
    gone: bool,
    sent: bool,
    seen: Seen,
    inward: Inward,
}

enum State {
    Waiting(Responding),
    Reading(Incoming),
    Ended,
}

/// The meter as it stood at the last step.
struct Seen {
    read: u64,
    written: u64,
}

impl Http1Exchange {
    pub(super) fn meter(&self) -> &Meter {
        &self.connection.meter
    }

    /// Polls for the next step; the connection first, since it feeds the rest.
    pub(super) fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, TransportError>> {
        self.inward.enter(cx);
        let waker = self.inward.waker.clone();
        let cx = &mut Context::from_waker(&waker);
        loop {
            self.poll_connection(cx);
            if let Some(step) = self.next_write() {
                return Poll::Ready(Ok(step));
            }
            if let Poll::Ready(step) = self.poll_response(cx) {
                self.seen.read = self.connection.meter.read();
                return Poll::Ready(step);
            }
            let read = self.connection.meter.read();
            if read > self.seen.read {
                self.seen.read = read;
                return Poll::Ready(Ok(Step::Raw));
            }
            if self.inward.leave() {
                return Poll::Pending;
            }
        }
    }

    /// Puts the connection back, if its response has ended and it can carry another request.
    pub(super) fn give_back(mut self) {
        if matches!(self.state, State::Ended) && !self.gone && self.connection.is_open() {
            self.pool.put(self.connection);
        }
    }

    fn poll_connection(&mut self, cx: &mut Context<'_>) {
        if self.gone {
            return;
        }
        if let Poll::Ready(end) = Pin::new(&mut self.connection.driver).poll(cx) {
            self.gone = true;
            let in_body = matches!(self.state, State::Reading(_));
            self.lost = end
                .err()
                .map(|error| TransportError::of_hyper(error, in_body));
        }
    }

    fn next_write(&mut self) -> Option<Step> {
        let written = self.connection.meter.written();
        if !self.sent && self.sending.is_sent() {
            self.sent = true;
            self.seen.written = written;
            return Some(Step::Sent);
        }
        if written > self.seen.written {
            self.seen.written = written;
            return (!self.sent).then_some(Step::Wrote);
        }
        None
    }

    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, TransportError>> {
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
            State::Reading(body) => match Pin::new(body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(chunk) => Poll::Ready(Ok(Step::Chunk(chunk))),
                    // Trailers say nothing that is wanted here, but they are bytes.
                    Err(_) => Poll::Ready(Ok(Step::Raw)),
                },
                Poll::Ready(Some(Err(error))) => Poll::Ready(Err(self.lose(error, true))),
                Poll::Ready(None) => {
                    self.state = State::Ended;
                    Poll::Ready(Ok(Step::End))
                }
                Poll::Pending => Poll::Pending,
            },
            State::Ended => Poll::Ready(Ok(Step::End)),
        }
    }

    /// Prefers what the connection says about its end to what the response could only guess.
    fn lose(&mut self, error: hyper::Error, in_body: bool) -> TransportError {
        self.state = State::Ended;
        self.gone = true;
        let error = TransportError::of_hyper(error, in_body);
        match self.lost.take() {
            Some(lost) if error.is_vague() => lost,
            _ => error,
        }
    }
}

/// Keeps what hyper's two halves of an exchange tell each other among themselves.
///
/// The connection wakes whoever waits for the response, and the response whoever drives the
/// connection, and here both are polled by one and the same: it would be woken for every chunk that
/// it already has.
struct Inward {
    wakes: Arc<Wakes>,
    /// The waker that both halves see.
    waker: Waker,
}

#[derive(Default)]
struct Wakes {
    outward: AtomicWaker,
    stage: AtomicU8,
}

impl Inward {
    fn new() -> Self {
        let wakes = Arc::<Wakes>::default();
        Self {
            waker: Arc::clone(&wakes).into(),
            wakes,
        }
    }

    /// Notes that the halves are polled from here on, and whom to wake after that.
    fn enter(&self, cx: &Context<'_>) {
        self.wakes.outward.register(cx.waker());
        self.wakes.stage.store(POLLED, Ordering::Release);
    }

    /// Returns whether the halves have nothing more for each other; if not they are polled again.
    fn leave(&self) -> bool {
        let stage = &self.wakes.stage;
        let left = stage.compare_exchange(POLLED, LEFT, Ordering::AcqRel, Ordering::Acquire);
        if left.is_err() {
            stage.store(POLLED, Ordering::Release);
        }
        left.is_ok()
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Between a step and the next poll there is nobody to wake: that poll is yet to come.
        let was = self.stage.swap(WOKEN, Ordering::AcqRel);
        if was == LEFT {
            self.outward.wake();
        }
    }
}

/// Nobody polls; a wake goes outward.
const LEFT: u8 = 0;
/// The halves are polled, or were and something came of it.
const POLLED: u8 = 1;
/// Woken since.
const WOKEN: u8 = 2;

impl fmt::Debug for Http1Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http1Exchange")
            .field("connection", &self.connection)
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

/// The most that is read of a response before it is taken, and the longest head. hyper's own 408 KiB
/// would be kept for each answer that nobody reads on.
const MOST_READ_AHEAD: usize = 128 * 1024;

/// The largest piece of a request body that is handed to hyper at once.
const PIECE: usize = 64 * 1024;
