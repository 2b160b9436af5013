//! Idle HTTP/1.1 connections, newest first.
//!
//! One task watches all of them: it drops what the server closes, what the server sends without
//! having been asked, and what has been idle for too long. It ends with the last of them. A
//! connection that was silent or broke is simply never put here.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep};

use super::endpoint::Endpoint;
use super::http1::Http1;
use crate::clock::now;
use crate::timer::poll_at;

/// Idle connections by where they lead.
pub(super) struct Pool {
    /// The most connections kept for one endpoint.
    limit: usize,
    /// The longest that one is kept.
    keep: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: BTreeMap<Arc<Endpoint>, Vec<Idle>>,
    /// Whether the task runs, and how to wake it.
    watched: bool,
    waker: Option<Waker>,
}

struct Idle {
    connection: Http1,
    until: Instant,
}

impl Pool {
    pub(super) fn new(limit: usize, keep: Duration) -> Self {
        Self {
            limit,
            keep,
            state: Mutex::default(),
        }
    }

    /// Takes the newest connection to `endpoint` that is still good.
    pub(super) fn take(&self, endpoint: &Endpoint) -> Option<Http1> {
        let mut state = self.state();
        let idle = state.idle.get_mut(endpoint)?;
        let now = now();
        let mut found = None;
        while let Some(mut candidate) = idle.pop() {
            if candidate.until > now && candidate.connection.is_usable() {
                found = Some(candidate.connection);
                break;
            }
        }
        if idle.is_empty() {
            state.idle.remove(endpoint);
        }
        found
    }

    /// Keeps `connection` for the next call; the oldest makes room where there is none.
    pub(super) fn put(self: &Arc<Self>, mut connection: Http1) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if self.limit == 0 || self.keep.is_zero() {
            return;
        }
        let Some(until) = now().checked_add(self.keep) else {
            return;
        };
        let mut state = self.state();
        // The task has nothing to do until something happens to the connection: it is the youngest,
        // and so the last to have been idle for too long.
        if let Some(waker) = &state.waker
            && connection
                .poll_gone(&mut Context::from_waker(waker))
                .is_ready()
        {
            return;
        }
        let endpoint = Arc::clone(connection.endpoint());
        let idle = state.idle.entry(endpoint).or_default();
        if idle.len() >= self.limit {
            idle.remove(0);
        }
        idle.push(Idle { connection, until });
        if !state.watched {
            state.watched = true;
            let watcher = Watcher {
                pool: Arc::downgrade(self),
                timer: None,
                done: false,
            };
            drop(state);
            runtime.spawn(watcher.run());
        }
    }

    /// Returns how many connections are idle.
    pub(super) fn len(&self) -> usize {
        self.state().idle.values().map(Vec::len).sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("limit", &self.limit)
            .field("keep", &self.keep)
            .field("idle", &self.len())
            .finish_non_exhaustive()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // The watcher finds the pool gone and ends.
        if let Some(waker) = self.state().waker.take() {
            waker.wake();
        }
    }
}

/// The task that looks after idle connections. It does not keep the pool alive.
struct Watcher {
    pool: Weak<Pool>,
    timer: Option<Pin<Box<Sleep>>>,
    done: bool,
}

impl Watcher {
    async fn run(mut self) {
        poll_fn(|cx| self.poll_empty(cx)).await;
    }

    /// Returns ready when there is nothing left to look after.
    fn poll_empty(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(pool) = self.pool.upgrade() else {
            return Poll::Ready(());
        };
        let mut state = pool.state();
        loop {
            let now = now();
            state.idle.retain(|_, idle| {
                idle.retain_mut(|idle| {
                    idle.until > now && idle.connection.poll_gone(cx).is_pending()
                });
                !idle.is_empty()
            });
            let first = state.idle.values().flatten().map(|idle| idle.until).min();
            let Some(until) = first else {
                state.watched = false;
                state.waker = None;
                self.done = true;
                return Poll::Ready(());
            };
            if poll_at(&mut self.timer, until, cx).is_pending() {
                state.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // A runtime that shuts down drops the task; the next connection must get a new one.
        if !self.done
            && let Some(pool) = self.pool.upgrade()
        {
            let mut state = pool.state();
            state.watched = false;
            state.waker = None;
        }
    }
}
