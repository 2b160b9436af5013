//! All HTTP/2 connections of a transport, and the opening of more.
//!
//! Callers that need a connection at the same time wait for one opening together: it is polled by
//! whichever of them runs, fails for all of them, and is dropped with the last of them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use tokio::sync::Notify;

use super::driver;
use super::link::{Lease, Link, Place};
use crate::transport::connect::{self, Connector};
use crate::transport::endpoint::Endpoint;
use crate::transport::error::ConnectError;
use crate::transport::http1::{Http1, Way};
use crate::transport::progress::ConnectProgress;

/// The HTTP/2 connections of a transport.
#[derive(Debug)]
pub(in crate::transport) struct Links {
    connector: Arc<Connector>,
    /// How long a connection without a stream is kept.
    keep: Duration,
    changed: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    links: BTreeMap<Endpoint, Vec<Arc<Link>>>,
    opening: BTreeMap<Endpoint, WeakOpening>,
    /// Endpoints that chose HTTP/1.1 when both were offered.
    http1: BTreeSet<Endpoint>,
}

/// A way for one exchange.
pub(in crate::transport) enum Opened {
    /// A place on a connection; whether somebody had used it before.
    Http2(Lease, bool),
    /// The endpoint chose HTTP/1.1.
    Http1(Box<Http1>),
}

/// The outcome of an opening that several callers share.
#[derive(Clone)]
enum Outcome {
    Link,
    /// A connection for whoever takes it first.
    Http1(Arc<Mutex<Option<Box<Http1>>>>),
}

type Boxed = Pin<Box<dyn Future<Output = Result<Outcome, ConnectError>> + Send>>;

#[derive(Clone)]
struct Opening {
    outcome: Shared<Boxed>,
    progress: ConnectProgress,
}

#[derive(Debug)]
struct WeakOpening {
    outcome: WeakShared<Boxed>,
    progress: ConnectProgress,
}

impl Links {
    pub(in crate::transport) fn new(connector: Arc<Connector>, keep: Duration) -> Self {
        Self {
            connector,
            keep,
            changed: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// Whether the endpoint is known to speak only HTTP/1.1.
    pub(in crate::transport) fn is_http1(&self, endpoint: &Endpoint) -> bool {
        self.state().http1.contains(endpoint)
    }

    /// Takes a place for a stream to `endpoint`, on a new connection where there is none.
    pub(in crate::transport) async fn open(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        fresh: bool,
        progress: &ConnectProgress,
    ) -> Result<Opened, ConnectError> {
        let mut share = !fresh;
        let mut waited = false;
        let mut opened_one = false;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let find = if share {
                self.find(endpoint)
            } else {
                Find::Nothing
            };
            match find {
                Find::Place(lease) => return Ok(Opened::Http2(lease, !opened_one)),
                Find::Wait => {
                    progress.queue();
                    waited = true;
                    changed.await;
                    continue;
                }
                // The connection never told its limit; the next one is nobody else's.
                Find::Nothing if waited => share = false,
                Find::Full | Find::Nothing => {}
            }
            let opening = if share {
                self.join(endpoint)
            } else {
                self.begin(endpoint)
            };
            let mut outcome = opening.outcome;
            let outcome = poll_fn(|cx| {
                let polled = outcome.poll_unpin(cx);
                progress.follow(&opening.progress);
                polled
            })
            .await?;
            opened_one = true;
            waited = false;
            share = true;
            if let Outcome::Http1(connection) = outcome {
                let taken = connection
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                let connection = match taken {
                    Some(connection) => connection,
                    None => open_http1(&self.connector, endpoint, progress).await?,
                };
                return Ok(Opened::Http1(connection));
            }
        }
    }

    /// Looks for a place, newest connection first.
    fn find(&self, endpoint: &Endpoint) -> Find {
        let mut state = self.state();
        let Some(links) = state.links.get_mut(endpoint) else {
            return Find::Nothing;
        };
        links.retain(|link| !link.is_retired());
        let mut found = Find::Nothing;
        for link in links.iter().rev() {
            match link.take() {
                Place::Free(lease) => return Find::Place(lease),
                Place::Unknown => found = Find::Wait,
                Place::Full if matches!(found, Find::Nothing) => found = Find::Full,
                Place::Full | Place::Retired => {}
            }
        }
        if links.is_empty() {
            state.links.remove(endpoint);
        }
        found
    }

    /// Joins the opening that is under way, or begins one.
    fn join(self: &Arc<Self>, endpoint: &Endpoint) -> Opening {
        let mut state = self.state();
        if let Some(known) = state.opening.get(endpoint)
            && let Some(outcome) = known.outcome.upgrade()
            && outcome.peek().is_none()
        {
            return Opening {
                outcome,
                progress: known.progress.clone(),
            };
        }
        let opening = self.begin(endpoint);
        if let Some(outcome) = opening.outcome.downgrade() {
            let progress = opening.progress.clone();
            state
                .opening
                .insert(endpoint.clone(), WeakOpening { outcome, progress });
        }
        opening
    }

    fn begin(self: &Arc<Self>, endpoint: &Endpoint) -> Opening {
        let progress = ConnectProgress::new();
        let links = Arc::downgrade(self);
        let connector = Arc::clone(&self.connector);
        let (keep, changed) = (self.keep, Arc::clone(&self.changed));
        let (endpoint, stages) = (endpoint.clone(), progress.clone());
        let outcome: Boxed = Box::pin(async move {
            let opened = connector.open(&endpoint, &stages).await?;
            if !opened.http2 {
                let http1 = start_http1(opened, &endpoint).await?;
                if let Some(links) = Weak::upgrade(&links) {
                    links.state().http1.insert(endpoint);
                }
                return Ok(Outcome::Http1(Arc::new(Mutex::new(Some(http1)))));
            }
            let link = driver::start(opened.line, endpoint.clone(), keep, changed)
                .await
                .map_err(|error| ConnectError::of_http(&endpoint, error))?;
            match Weak::upgrade(&links) {
                Some(links) => links.add(&endpoint, link),
                None => link.retire(),
            }
            Ok(Outcome::Link)
        });
        Opening {
            outcome: outcome.shared(),
            progress,
        }
    }

    fn add(&self, endpoint: &Endpoint, link: Arc<Link>) {
        let mut state = self.state();
        state.opening.remove(endpoint);
        state.links.entry(endpoint.clone()).or_default().push(link);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // The tasks end with their last stream.
        for link in self.state().links.values().flatten() {
            link.retire();
        }
    }
}

enum Find {
    Place(Lease),
    /// There may be a place once a connection's limit is known.
    Wait,
    /// All places are taken.
    Full,
    /// There is no connection.
    Nothing,
}

/// Opens a connection that speaks HTTP/1.1.
pub(in crate::transport) async fn open_http1(
    connector: &Connector,
    endpoint: &Endpoint,
    progress: &ConnectProgress,
) -> Result<Box<Http1>, ConnectError> {
    let endpoint = endpoint.with_http1();
    let opened = connector.open(&endpoint, progress).await?;
    start_http1(opened, &endpoint).await
}

async fn start_http1(
    opened: connect::Opened,
    endpoint: &Endpoint,
) -> Result<Box<Http1>, ConnectError> {
    let way = Way {
        endpoint: Arc::new(endpoint.with_http1()),
        host: endpoint.authority().try_into().ok(),
        absolute: opened.absolute,
        proxy_authorization: opened.proxy_authorization,
    };
    Http1::start(opened.line, way)
        .await
        .map(Box::new)
        .map_err(|error| ConnectError::of_http(endpoint, error))
}
