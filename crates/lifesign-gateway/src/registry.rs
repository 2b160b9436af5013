//! The calls in flight.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use lifesign::{Doing, Monitor};
use lifesign_core::{FailureCode, Limit, Setting};

use crate::lane::InLine;
use crate::live::{Course, Happening};
use crate::records::CallStarted;
use crate::server::{Peer, Stage};

/// Every call that is under way, for whoever wants to see or end one.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    calls: Mutex<HashMap<u64, Arc<LiveCall>>>,
    next: AtomicU64,
}

/// A call that is under way.
#[derive(Debug)]
pub(crate) struct LiveCall {
    number: u64,
    pub(crate) started: CallStarted,
    pub(crate) monitor: Monitor,
    /// Who is asked.
    upstream: Mutex<Option<Arc<str>>>,
    /// Why somebody else ended it.
    ended_as: Mutex<Option<FailureCode>>,
    /// When the wall clock runs out, in milliseconds since the call began; 0 if it does not.
    wall_ms: AtomicU64,
    /// What happened so far, and what is known besides: for whoever looks.
    seen: Mutex<Seen>,
    /// Beats that its caller was sent.
    beats: AtomicU64,
    waker: AtomicWaker,
    peer: Arc<Peer>,
}

#[derive(Debug, Default)]
struct Seen {
    course: Course,
    /// Where it stands in line, or stood last.
    line: Option<InLine>,
    /// Boxed: it is off for nearly all calls.
    wall_clock: Option<Box<Setting<Limit>>>,
}

impl Registry {
    /// Adds a call.
    pub(crate) fn enter(
        &self,
        started: CallStarted,
        monitor: Monitor,
        peer: Arc<Peer>,
    ) -> Arc<LiveCall> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let call = Arc::new(LiveCall {
            number,
            started,
            monitor,
            upstream: Mutex::new(None),
            ended_as: Mutex::new(None),
            wall_ms: AtomicU64::new(0),
            seen: Mutex::default(),
            beats: AtomicU64::new(0),
            waker: AtomicWaker::new(),
            peer,
        });
        self.calls().insert(number, Arc::clone(&call));
        call
    }

    /// Removes a call that has ended.
    pub(crate) fn leave(&self, call: &LiveCall) {
        self.calls().remove(&call.number);
    }

    /// Returns how many calls are under way.
    pub(crate) fn len(&self) -> usize {
        self.calls().len()
    }

    /// Returns the calls under way, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<LiveCall>> {
        let mut calls: Vec<_> = self.calls().values().cloned().collect();
        calls.sort_by_key(|call| call.number);
        calls
    }

    /// Ends the call with this id as cancelled; returns whether there is one.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        let found = self.find(id);
        let is_found = found.is_some();
        if let Some(call) = found {
            call.end_as(FailureCode::Cancelled);
        }
        is_found
    }

    /// Returns the call under way with this id.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<LiveCall>> {
        let calls = self.calls();
        calls.values().find(|call| call.started.id == id).cloned()
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<LiveCall>>> {
        // Each change is one insertion or removal, which no panic can leave half-done.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveCall {
    /// Ends the call from outside: it looks at this the next time it is polled.
    pub(crate) fn end_as(&self, code: FailureCode) {
        *self.ended_as.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
        self.waker.wake();
    }

    /// Ends the call's connection: its reader takes nothing, so that there is no other way.
    pub(crate) fn kill(&self) {
        self.peer.kill();
    }

    /// Returns whether the gateway is about to stop.
    pub(crate) fn is_draining(&self) -> bool {
        self.peer.stage() >= Stage::Draining
    }

    /// Returns whether the call waits, so that nothing is asked for it now.
    pub(crate) fn is_waiting(&self) -> bool {
        let snapshot = self.monitor.snapshot();
        matches!(
            snapshot.doing,
            Doing::Queued | Doing::Holding { .. } | Doing::RetryWait { .. }
        )
    }

    /// Returns why somebody else ended the call.
    pub(crate) fn ended_as(&self) -> Option<FailureCode> {
        *self.ended_as.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever polls the call is woken when it is ended from outside.
    pub(crate) fn register(&self, waker: &std::task::Waker) {
        self.waker.register(waker);
    }

    pub(crate) fn set_upstream(&self, name: &str) {
        let mut upstream = self.upstream.lock().unwrap_or_else(PoisonError::into_inner);
        if upstream.as_deref() != Some(name) {
            *upstream = Some(name.into());
        }
    }

    pub(crate) fn upstream(&self) -> Option<Arc<str>> {
        self.upstream
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set_wall_clock(&self, limit: &Setting<Limit>) {
        let ms = match limit.value {
            Limit::After(at) => u64::try_from(at.as_millis()).unwrap_or(u64::MAX).max(1),
            Limit::Off => 0,
        };
        self.wall_ms.store(ms, Ordering::Relaxed);
        if ms > 0 {
            self.seen().wall_clock = Some(Box::new(limit.clone()));
        }
    }

    /// Returns the bound on the whole call, if there is one.
    pub(crate) fn wall_clock(&self) -> Option<Setting<Limit>> {
        let is_on = self.wall_ms.load(Ordering::Relaxed) > 0;
        let limit = self.seen().wall_clock.as_deref().cloned();
        limit.filter(|_| is_on)
    }

    /// Notes what happened `at` after the call began.
    pub(crate) fn note(&self, at: Duration, what: Happening) {
        self.seen().course.note(at, what);
    }

    /// Notes where the call stands in line.
    pub(crate) fn set_line(&self, line: Option<InLine>) {
        self.seen().line = line;
    }

    /// Returns the call's place in line, from 1, while it waits there.
    pub(crate) fn position(&self) -> Option<usize> {
        let seen = self.seen();
        seen.line.as_ref()?.position()
    }

    /// Looks at, or adds to, what happened so far.
    pub(crate) fn with_course<T>(&self, act: impl FnOnce(&mut Course) -> T) -> T {
        act(&mut self.seen().course)
    }

    /// Notes that the caller was sent a beat.
    pub(crate) fn note_beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many beats the caller was sent.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        // Each change is a push or an assignment.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the wall clock has run out `beyond` ago, so that whoever polls the call
    /// should have ended it.
    pub(crate) fn is_overdue(&self, beyond: Duration) -> bool {
        let wall_ms = self.wall_ms.load(Ordering::Relaxed);
        wall_ms > 0 && self.monitor.snapshot().elapsed > Duration::from_millis(wall_ms) + beyond
    }
}
