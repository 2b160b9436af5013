//! Admission to one upstream, shared by all workers.
//!
//! A [`Gate`] gives the [`Queue`] a lock and wakers; a [`Lane`] adds the breakers. A slot that comes
//! free is handed to the next call before that call is woken, so that nobody can come in between and
//! no more than one call is woken for it. Wakers are called, and dropped, outside of the lock: what
//! they run is not ours and may enter here again.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::breaker::{
    AttemptMark, BreakerChanges, BreakerPolicy, BreakerState, BreakerStates, Breakers,
};
use crate::queue::{Entered, KeyName, Place, Queue, QueueFull, QueueLimits};

/// The admission of one upstream.
#[derive(Debug)]
pub(crate) struct Lane {
    name: String,
    gate: Arc<Gate>,
    breakers: Mutex<Breakers>,
    opened: Opened,
}

/// How often each breaker opened.
#[derive(Debug, Default)]
struct Opened {
    failures: AtomicU64,
    slowness: AtomicU64,
}

/// How often each breaker opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimesOpened {
    pub(crate) failures: u64,
    pub(crate) slowness: u64,
}

/// How full a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneLoad {
    /// How many calls hold a slot.
    pub(crate) in_flight: usize,
    /// How many calls wait for one.
    pub(crate) waiting: usize,
    /// How many slots there are.
    pub(crate) concurrency: usize,
    /// How many places there are for newcomers that wait.
    pub(crate) queue: usize,
}

impl Lane {
    /// Returns the lane of the upstream `name`, with nobody in it and its breakers closed.
    pub(crate) fn new(name: String, limits: QueueLimits, breaker: BreakerPolicy) -> Arc<Self> {
        Arc::new(Self {
            name,
            gate: Gate::new(limits),
            breakers: Mutex::new(Breakers::new(breaker)),
            opened: Opened::default(),
        })
    }

    /// Returns the name of the upstream.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Changes how many calls may run and wait. Lower limits drain, higher ones admit at once.
    pub(crate) fn set_limits(&self, limits: QueueLimits) {
        self.gate.set_limits(limits).wake();
    }

    /// Changes when the breakers open.
    pub(crate) fn set_breaker(&self, policy: BreakerPolicy) {
        self.breakers().set_policy(policy);
    }

    /// Lets a call of `key` in or puts it into the queue; at its `head` if it comes back after
    /// waiting to retry.
    ///
    /// # Errors
    ///
    /// Fails where the queue has no place for it.
    pub(crate) fn enter(&self, key: &KeyName, head: bool) -> Result<Ticket, QueueFull> {
        self.gate.enter(key, head)
    }

    /// Returns whether a slot is free and nobody waits for it.
    pub(crate) fn has_room(&self) -> bool {
        self.gate.state().queue.has_room()
    }

    /// Returns how full the lane is.
    pub(crate) fn load(&self) -> LaneLoad {
        self.gate.load()
    }

    /// Returns whether a breaker is open, so that other upstreams go first.
    pub(crate) fn is_open(&self, now: Duration) -> bool {
        self.breakers().is_open(now)
    }

    /// Returns where the breakers stand.
    pub(crate) fn breaker_states(&self, now: Duration) -> BreakerStates {
        self.breakers().states(now)
    }

    /// Returns how often each breaker opened.
    pub(crate) fn times_opened(&self) -> TimesOpened {
        TimesOpened {
            failures: self.opened.failures.load(Ordering::Relaxed),
            slowness: self.opened.slowness.load(Ordering::Relaxed),
        }
    }

    /// Tells that an attempt starts. Where it is the one that a half-open breaker waits for, other
    /// calls are sent elsewhere until what is returned is dropped.
    ///
    /// Keep it until the attempt's mark is [recorded](Self::record).
    pub(crate) fn start(self: &Arc<Self>, now: Duration) -> Option<Probe> {
        let is_probe = self.breakers().handle_start(now);
        is_probe.then(|| Probe(Arc::clone(self)))
    }

    /// Records what an attempt of `call` showed.
    pub(crate) fn record(&self, outcome: AttemptMark, now: Duration, call: &str) {
        let BreakerChanges { failures, slowness } = self.breakers().handle_mark(outcome, now);
        let upstream = &*self.name;
        for (breaker, change, opened) in [
            ("failures", failures, &self.opened.failures),
            ("slowness", slowness, &self.opened.slowness),
        ] {
            match change {
                Some(BreakerState::Open) => {
                    opened.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(call, upstream, breaker, "breaker opened");
                }
                Some(BreakerState::Closed | BreakerState::HalfOpen) => {
                    tracing::info!(call, upstream, breaker, "breaker closed");
                }
                None => {}
            }
        }
    }

    fn breakers(&self) -> MutexGuard<'_, Breakers> {
        // Each change is a few assignments, none of which can panic.
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The attempt that decides about a half-open breaker, as long as it is kept.
#[derive(Debug)]
pub(crate) struct Probe(Arc<Lane>);

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.breakers().handle_probe_end();
    }
}

/// A queue whose waiting calls are woken.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
}

#[derive(Debug)]
struct GateState {
    queue: Queue,
    /// Every place that somebody still holds a ticket for.
    tickets: HashMap<Place, Standing>,
}

/// Where the holder of a ticket stands.
#[derive(Debug)]
enum Standing {
    /// In the queue; whom to wake, once it has been polled.
    Waiting(Option<Waker>),
    /// A slot is taken for it, which it has not fetched yet.
    Admitted,
}

impl Gate {
    /// Returns a gate with nobody in or before it.
    pub(crate) fn new(limits: QueueLimits) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(GateState {
                queue: Queue::new(limits),
                tickets: HashMap::new(),
            }),
        })
    }

    /// Lets a call in or puts it into the queue; see [`Queue::enter`].
    pub(crate) fn enter(self: &Arc<Self>, key: &KeyName, head: bool) -> Result<Ticket, QueueFull> {
        let mut state = self.state();
        let entered = state.queue.enter(key, head)?;
        Ok(self.ticket(&mut state, entered, key))
    }

    /// Lets a call in or puts it into the queue, however long that is.
    pub(crate) fn join(self: &Arc<Self>, key: &KeyName, head: bool) -> Ticket {
        let mut state = self.state();
        let entered = state.queue.join(key, head);
        self.ticket(&mut state, entered, key)
    }

    /// Changes the limits, and returns who is to be woken for that.
    pub(crate) fn set_limits(&self, limits: QueueLimits) -> ToWake {
        let mut state = self.state();
        let admitted = state.queue.set_limits(limits);
        let wakers = admitted.into_iter().filter_map(|place| state.admit(place));
        ToWake(wakers.collect())
    }

    /// Returns how full the gate is.
    pub(crate) fn load(&self) -> LaneLoad {
        let state = self.state();
        let limits = state.queue.limits();
        LaneLoad {
            in_flight: state.queue.running(),
            waiting: state.queue.waiting(),
            concurrency: limits.concurrency,
            queue: limits.queue,
        }
    }

    fn ticket(self: &Arc<Self>, state: &mut GateState, entered: Entered, key: &KeyName) -> Ticket {
        let holder = match entered {
            Entered::Admitted => Holder::Admitted(Permit(Arc::clone(self))),
            Entered::Waiting(place) => {
                state.tickets.insert(place, Standing::Waiting(None));
                Holder::Waiting {
                    gate: Arc::clone(self),
                    key: key.clone(),
                    place,
                }
            }
        };
        Ticket(holder)
    }

    /// Frees a slot, and wakes whoever has it now.
    fn free(&self) {
        let waker = self.state().free();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        // Nothing that is done under the lock runs foreign code or panics halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GateState {
    fn free(&mut self) -> Option<Waker> {
        let place = self.queue.finish()?;
        self.admit(place)
    }

    fn admit(&mut self, place: Place) -> Option<Waker> {
        match self.tickets.insert(place, Standing::Admitted)? {
            Standing::Waiting(waker) => waker,
            Standing::Admitted => None,
        }
    }
}

/// The wakers of calls that have been admitted.
#[must_use = "whoever is not woken waits forever"]
#[derive(Debug)]
pub(crate) struct ToWake(Vec<Waker>);

impl ToWake {
    /// Wakes them. Call it outside of any lock.
    pub(crate) fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

/// A call's claim to a slot. Dropping it gives up the place, or passes the slot on.
#[derive(Debug)]
pub(crate) struct Ticket(Holder);

#[derive(Debug)]
enum Holder {
    Admitted(Permit),
    /// The permit has been fetched.
    Done,
    Waiting {
        gate: Arc<Gate>,
        key: KeyName,
        place: Place,
    },
}

impl Ticket {
    /// Returns the permit once the call is admitted, and has the task woken when it is.
    ///
    /// A ticket gives one permit; polled again it stays pending.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Permit> {
        let permit = match mem::replace(&mut self.0, Holder::Done) {
            Holder::Admitted(permit) => permit,
            Holder::Done => return Poll::Pending,
            Holder::Waiting { gate, key, place } => {
                if Self::keep_waiting(&gate, place, cx) {
                    self.0 = Holder::Waiting { gate, key, place };
                    return Poll::Pending;
                }
                Permit(gate)
            }
        };
        Poll::Ready(permit)
    }

    /// Returns how many calls would be admitted before this one, itself included; nothing once it is
    /// admitted.
    pub(crate) fn position(&self) -> Option<usize> {
        match &self.0 {
            Holder::Admitted(_) | Holder::Done => None,
            Holder::Waiting { gate, key, place } => gate.state().queue.position(key, *place),
        }
    }

    /// Returns where the call stands in line, for whoever looks while its own task holds the ticket.
    pub(crate) fn in_line(&self) -> Option<InLine> {
        match &self.0 {
            Holder::Admitted(_) | Holder::Done => None,
            Holder::Waiting { gate, key, place } => Some(InLine {
                gate: Arc::clone(gate),
                key: key.clone(),
                place: *place,
            }),
        }
    }

    /// Returns whether the call still waits, and if so keeps its waker.
    fn keep_waiting(gate: &Gate, place: Place, cx: &Context<'_>) -> bool {
        let mut state = gate.state();
        let Some(Standing::Waiting(kept)) = state.tickets.get_mut(&place) else {
            state.tickets.remove(&place);
            return false;
        };
        if kept
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            return true;
        }
        let old = kept.replace(cx.waker().clone());
        drop(state);
        drop(old);
        true
    }
}

/// A place in line, as others see it.
#[derive(Debug)]
pub(crate) struct InLine {
    gate: Arc<Gate>,
    key: KeyName,
    place: Place,
}

impl InLine {
    /// Returns how many calls would be admitted before the one that stands here, itself included;
    /// nothing once it is admitted or has left.
    pub(crate) fn position(&self) -> Option<usize> {
        let state = self.gate.state();
        state.queue.position(&self.key, self.place)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // A permit that was never fetched frees its slot by itself.
        let Holder::Waiting { gate, key, place } = &self.0 else {
            return;
        };
        let mut state = gate.state();
        let standing = state.tickets.remove(place);
        let next = if let Some(Standing::Admitted) = standing {
            state.free()
        } else {
            state.queue.leave(key, *place);
            None
        };
        drop(state);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

/// A slot. Dropping it frees the slot and wakes the next call.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Gate>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.free();
    }
}

#[cfg(test)]
mod tests;
