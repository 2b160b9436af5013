//! Sockets to requests: listeners, workers, connections, and how all of them end.
//!
//! Each worker is one thread with a current-thread runtime that accepts for itself, so a worker
//! that is stuck never makes the connections of others look silent. A connection is one task and
//! the only one there is: it polls hyper, which polls the service and after it the body of the
//! response. Nothing here knows what is asked for; that is the [`Service`]'s.
//!
//! Beyond the limit of connections a new one is accepted, told 503 and closed, so that its caller
//! goes elsewhere at once instead of waiting in a line that nobody sees.

use std::{
    error::Error, fmt, future::Future, io, num::NonZeroUsize, sync::Arc, thread, time::Duration,
};

use bytes::Bytes;
use futures_util::future::{self, Either};
use http::{Request, Response};
use hyper::body::Incoming;
use lifesign::clock;
use tokio::sync::oneshot;

pub(crate) use self::{
    descriptors::raise_descriptors,
    drain::{Drain, Stage},
    listen::{Bound, Inherited, ListenError, ListenOn},
    peer::{Peer, Reach},
    pulse::Pulse,
    tls::TlsSlot,
};
use self::{listen::Listener, worker::Shared};
use crate::refusal::Refusal;

mod connection;
mod crowd;
mod descriptors;
mod drain;
mod head;
mod listen;
mod peer;
mod pulse;
mod socket;
pub(crate) mod tls;
mod worker;

#[cfg(test)]
mod tests;

/// What answers requests.
pub(crate) trait Service: Send + Sync + 'static {
    /// What a worker keeps to itself, such as its idle connections to upstreams.
    type Worker: Send + Sync + 'static;
    /// The body of a response. It is polled again whenever the stage of the drain changes, and
    /// dropped when the connection ends, for which [`Peer`] then knows the reason.
    type Body: http_body::Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static;

    /// Makes the state of worker `index`, on its thread and inside of its runtime.
    fn worker(&self, index: usize) -> Self::Worker;

    /// Answers a request.
    fn call(
        &self,
        worker: &Self::Worker,
        peer: &Arc<Peer>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Answers a request that must not be looked at; the connection is closed after it.
    fn refuse(&self, request: &Request<Incoming>, refusal: Refusal) -> Response<Self::Body>;
}

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerLimits {
    /// Connections at once. By default 10,000, or what the descriptors allow if that is less.
    pub(crate) connections: Option<usize>,
    /// From the beginning of a connection or the first byte of a request to the end of its head.
    pub(crate) head: Duration,
    /// From the beginning of a connection to the end of its TLS handshake.
    pub(crate) handshake: Duration,
    /// Between a response and the next request.
    pub(crate) idle: Duration,
    /// How long a reader may take nothing while something is to be written.
    pub(crate) reader_stall: Duration,
    /// Bytes of a head, and of what waits to be written. At least 8 KiB.
    pub(crate) buffer_len_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: None,
            head: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            // Longer than what clients keep an idle connection for (Node 4 s, httpx 5 s, Go 90 s),
            // so that hardly ever one is closed under a request that is on its way.
            idle: Duration::from_secs(95),
            reader_stall: Duration::from_mins(1),
            buffer_len_bytes: 64 << 10,
        }
    }
}

/// Listeners that do not serve yet.
pub(crate) struct Server {
    listeners: Vec<Listener>,
    tls: Option<TlsSlot>,
    limits: ServerLimits,
    drain: Drain,
    pulse: Pulse,
}

impl Server {
    /// Opens the sockets, beside those that were handed over.
    pub(crate) fn bind(
        listen: &[ListenOn],
        inherited: Inherited,
        tls: Option<TlsSlot>,
        limits: ServerLimits,
    ) -> Result<Self, ListenError> {
        let mut listeners = inherited.listeners;
        for on in listen {
            listeners.push(Listener::bind(on)?);
        }
        for listener in &listeners {
            let is_tls = tls.is_some() && listener.is_tcp();
            tracing::info!(address = %listener.bound(), tls = is_tls, "listening");
        }
        Ok(Self {
            listeners,
            tls,
            limits,
            drain: Drain::new(),
            pulse: Pulse::new(),
        })
    }

    /// Returns where it listens.
    pub(crate) fn bound(&self) -> Vec<Bound> {
        self.listeners.iter().map(Listener::bound).collect()
    }

    /// Returns what ends it.
    pub(crate) fn drain(&self) -> Drain {
        self.drain.clone()
    }

    /// Returns what tells whether its workers are alive.
    pub(crate) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Serves until it is drained and every connection has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends every connection at once.
    pub(crate) async fn run<S: Service>(
        self,
        service: Arc<S>,
        workers: NonZeroUsize,
    ) -> Result<(), ServerError> {
        let drain = self.drain.clone();
        let _over = EndWithUs(drain.clone());
        let shared = Arc::new(Shared::new(&self, service));
        let mut ends = Vec::new();
        let mut threads = Vec::new();
        for index in 0..workers.get() {
            let mut listeners = Vec::new();
            for listener in &self.listeners {
                listeners.push(listener.try_clone().map_err(ServerError::Start)?);
            }
            let (ended, end) = oneshot::channel();
            let shared = Arc::clone(&shared);
            let pulse = self.pulse.worker();
            let work = move || worker::run(index, listeners, &shared, pulse, ended);
            let thread = thread::Builder::new().name(format!("lifesign-worker-{index}"));
            threads.push(thread.spawn(work).map_err(ServerError::Start)?);
            ends.push(end);
        }

        let mut all_ended = std::pin::pin!(future::try_join_all(ends));
        let stopped = std::pin::pin!(drain.reached(Stage::Draining));
        let early = match future::select(&mut all_ended, stopped).await {
            Either::Left((ended, _)) => Some(ended),
            Either::Right(_) => None,
        };
        // Whoever connects from here on is to be told at once that nobody listens, and a successor
        // may take the addresses.
        drop(self.listeners);
        let ended = match early {
            None => drain.escort(&mut all_ended).await,
            ended => ended,
        };
        let Some(ended) = ended else {
            tracing::error!("a worker does not end");
            return Err(ServerError::WorkerStuck);
        };
        // Each result says by itself whether the worker could start; a lost sender is a panic.
        for end in ended.map_err(|_| ServerError::WorkerLost)? {
            end.map_err(ServerError::Start)?;
        }
        for thread in threads {
            thread.join().map_err(|_| ServerError::WorkerLost)?;
        }
        tracing::info!("every connection has ended");
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("listeners", &self.bound())
            .field("tls", &self.tls.is_some())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Why serving ended other than by a drain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ServerError {
    /// A worker could not be started.
    #[error("a worker cannot be started")]
    Start(#[source] io::Error),
    /// A worker panicked.
    #[error("a worker was lost")]
    WorkerLost,
    /// A worker held on to its connections after they had been ended.
    #[error("a worker did not end")]
    WorkerStuck,
}

/// Ends the workers with the future that waits for them, however that ends.
struct EndWithUs(Drain);

impl Drop for EndWithUs {
    fn drop(&mut self) {
        self.0.advance(Stage::Over);
    }
}
