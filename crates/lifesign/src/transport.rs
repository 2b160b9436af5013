//! The way to an upstream and back, with everything seen and nothing decided.
//!
//! A transport has no limits of time and makes no second try: an attempt polls it, judges by its
//! own bounds, and drops it when one has run out. Dropping anything here closes its socket (or
//! resets its HTTP/2 stream) at once.

mod certificate;
mod connect;
mod decode;
mod drain;
mod endpoint;
mod error;
mod http1;
mod http2;
mod meter;
mod outgoing;
mod pool;
mod progress;
mod proxy;
mod resolve;
mod roots;
mod tls;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, response};

pub use self::certificate::CertificateFault;
pub use self::decode::{ContentDecoder, EncodingError};
pub use self::endpoint::{Endpoint, EndpointError};
pub use self::error::{Cause, ConnectError, ConnectErrorKind, TransportError, TransportErrorKind};
pub use self::progress::ConnectProgress;
pub use self::proxy::ProxyEnv;
pub(crate) use self::roots::read_roots;
pub use self::roots::{RootsError, RootsProblem};

use self::connect::Connector;
use self::drain::Drain;
use self::http1::{Http1, Http1Exchange};
use self::http2::{Http2Exchange, Lease, Links, Opened};
use self::pool::Pool;
use self::proxy::Proxies;
use self::tls::Tls;

/// What a transport is made from.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// PEM files with certificates to trust besides the system's.
    pub extra_roots: Vec<Vec<u8>>,
    /// The proxies to use.
    pub proxy: ProxyEnv,
    /// The most idle connections kept for one endpoint; 32 unless said otherwise.
    pub pool_idle: usize,
    /// The longest that a connection is kept idle; 90 s unless said otherwise.
    pub pool_idle_for: Duration,
}

impl Default for TransportConfig {
    /// The defaults, with the proxies of this process's environment.
    fn default() -> Self {
        Self {
            extra_roots: Vec::new(),
            proxy: ProxyEnv::from_env(),
            pool_idle: POOL_IDLE,
            pool_idle_for: Duration::from_secs(90),
        }
    }
}

/// Opens connections and keeps those that can be used again. Shared by all calls of a client.
#[derive(Debug)]
pub struct Transport {
    connector: Arc<Connector>,
    pool: Arc<Pool>,
    links: Arc<Links>,
}

impl Transport {
    /// Makes a transport. Nothing is opened, and TLS is not set up before it is needed.
    ///
    /// # Errors
    ///
    /// Fails where an entry of `extra_roots` holds no certificate.
    pub fn new(config: TransportConfig) -> Result<Self, RootsError> {
        let connector = Arc::new(Connector {
            proxies: Proxies::new(config.proxy),
            tls: Tls::new(&config.extra_roots)?,
        });
        Ok(Self {
            pool: Arc::new(Pool::new(config.pool_idle, config.pool_idle_for)),
            links: Arc::new(Links::new(Arc::clone(&connector), config.pool_idle_for)),
            connector,
        })
    }

    /// Opens a connection to `endpoint`, or takes an open one unless it must be `fresh`.
    ///
    /// Where the opening has got to is shown by `progress`, also after it was dropped.
    ///
    /// # Errors
    ///
    /// Fails where a stage fails, naming it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what it had opened.
    pub async fn open(
        &self,
        endpoint: &Endpoint,
        fresh: bool,
        progress: &ConnectProgress,
    ) -> Result<Connection, ConnectError> {
        if endpoint.http2 && !self.links.is_http1(endpoint) {
            return Ok(match self.links.open(endpoint, fresh, progress).await? {
                Opened::Http2(lease, reused) => Connection {
                    kind: ConnectionKind::Http2(lease),
                    reused,
                },
                Opened::Http1(http1) => self.connection(http1, false),
            });
        }
        if !fresh && let Some(idle) = self.pool.take(&endpoint.with_http1()) {
            return Ok(self.connection(Box::new(idle), true));
        }
        let http1 = http2::open_http1(&self.connector, endpoint, progress).await?;
        Ok(self.connection(http1, false))
    }

    /// Returns how many HTTP/1.1 connections are idle.
    pub fn idle(&self) -> usize {
        self.pool.len()
    }

    fn connection(&self, http1: Box<Http1>, reused: bool) -> Connection {
        Connection {
            kind: ConnectionKind::Http1(http1, Arc::clone(&self.pool)),
            reused,
        }
    }
}

/// A connection, or a place on one, that carries one exchange next.
#[derive(Debug)]
pub struct Connection {
    kind: ConnectionKind,
    reused: bool,
}

#[derive(Debug)]
enum ConnectionKind {
    Http1(Box<Http1>, Arc<Pool>),
    Http2(Lease),
}

impl Connection {
    /// Whether the connection was opened for an earlier exchange.
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Whether the exchange will be one of several on an HTTP/2 connection.
    pub fn is_http2(&self) -> bool {
        matches!(self.kind, ConnectionKind::Http2(_))
    }

    /// Begins an exchange. The request is sent as the exchange is polled.
    ///
    /// Of the URI only path and query matter; the rest, and the headers that depend on the way, are
    /// put in here.
    pub fn send(self, request: Request<Bytes>) -> Exchange {
        let kind = match self.kind {
            ConnectionKind::Http1(http1, pool) => {
                ExchangeKind::Http1(Box::new(http1.send(request, pool)))
            }
            ConnectionKind::Http2(lease) => {
                ExchangeKind::Http2(Box::new(Http2Exchange::start(lease, request)))
            }
        };
        Exchange { kind }
    }
}

/// What an exchange does next.
#[derive(Debug)]
pub enum Step {
    /// The socket accepted request bytes.
    Wrote,
    /// The socket accepted the last request byte.
    Sent,
    /// Bytes arrived that nothing can be made of yet. Not on HTTP/2, where they may be another
    /// stream's or the answer to a keep-alive.
    Raw,
    /// The response headers are whole.
    Head(response::Parts),
    /// Bytes of the response body, still as the server encoded them.
    Chunk(Bytes),
    /// The response body ended as it should.
    End,
}

/// One request and its response, polled by whoever waits for it.
///
/// Dropping it closes the connection (or resets the HTTP/2 stream).
#[derive(Debug)]
pub struct Exchange {
    kind: ExchangeKind,
}

#[derive(Debug)]
enum ExchangeKind {
    Http1(Box<Http1Exchange>),
    Http2(Box<Http2Exchange>),
}

impl Exchange {
    /// Waits for the next step. After [`Step::End`] or an error there is none.
    ///
    /// # Errors
    ///
    /// Fails where the exchange ends before its response does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn step(&mut self) -> Result<Step, TransportError> {
        poll_fn(|cx| self.poll_step(cx)).await
    }

    /// Polls for the next step; see [`step`](Self::step).
    pub fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, TransportError>> {
        match &mut self.kind {
            ExchangeKind::Http1(exchange) => exchange.poll_step(cx),
            ExchangeKind::Http2(exchange) => exchange.poll_step(cx),
        }
    }

    /// Returns the trailers that came behind the response body, once it has ended.
    ///
    /// Those of HTTP/1.1 are not kept, since nobody's answer depends on them.
    pub fn trailers(&self) -> Option<&HeaderMap> {
        match &self.kind {
            ExchangeKind::Http1(_) => None,
            ExchangeKind::Http2(exchange) => exchange.trailers(),
        }
    }

    /// Makes the next poll ask the kernel for bytes, whether or not the I/O driver has run since
    /// they came.
    ///
    /// On HTTP/2 only the connection's own task reads, so there this does nothing: let the runtime
    /// turn once instead.
    pub fn look(&self) {
        if let ExchangeKind::Http1(exchange) = &self.kind {
            exchange.meter().look();
        }
    }

    /// Keeps the connection from carrying another exchange, for one that fell silent.
    ///
    /// An HTTP/1.1 connection never outlives an exchange that was dropped, so this matters on
    /// HTTP/2 only: other streams go on, further ones get another connection.
    pub fn poison(&self) {
        if let ExchangeKind::Http2(exchange) = &self.kind {
            exchange.poison();
        }
    }

    /// Returns the bytes read from and written to the socket so far, below TLS and over all of
    /// the connection's life; on HTTP/2 those of all its streams.
    pub fn io_bytes(&self) -> (u64, u64) {
        let meter = match &self.kind {
            ExchangeKind::Http1(exchange) => exchange.meter(),
            ExchangeKind::Http2(exchange) => exchange.meter(),
        };
        (meter.read(), meter.written())
    }

    /// Lets the exchange go after the end of the answer. Returns at once.
    ///
    /// A connection whose body has ended is kept for the next call. One whose body is about to end
    /// has 250 ms and 64 KiB for it, in a task of its own; then it is closed.
    pub fn finish(self) {
        Drain::new(self).start();
    }

    fn give_back(self) {
        if let ExchangeKind::Http1(exchange) = self.kind {
            exchange.give_back();
        }
    }
}

/// How many idle connections are kept for one endpoint where nobody says.
pub(crate) const POOL_IDLE: usize = 32;
