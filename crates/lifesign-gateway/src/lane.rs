//! Admission to one upstream, shared by all workers.
//!
//! A [`Gate`] gives the [`Queue`] a lock and wakers; a [`Lane`] adds the breakers. A slot that comes
//! free is handed to the next call before that call is woken, so that nobody can come in between and
//! no more than one call is woken for it. Wakers are called, and dropped, outside of the lock: what
//! they run is not ours and may enter here again.

use std::collections::HashMap;
use std::mem;
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

    /// Tells that an attempt starts. Where it is the one that a half-open breaker waits for, other
    /// calls are sent elsewhere until what is returned is dropped.
    ///
    /// Keep it until the attempt's mark is [recorded](Self::record).
    pub(crate) fn start(self: &Arc<Self>, now: Duration) -> Option<Probe> {
        let is_probe = self.breakers().handle_start(now);
        is_probe.then(|| Probe(Arc::clone(self)))
    }

    /// Records what an attempt showed.
    pub(crate) fn record(&self, outcome: AttemptMark, now: Duration) {
        let BreakerChanges { failures, slowness } = self.breakers().handle_mark(outcome, now);
        let upstream = &*self.name;
        for (breaker, change) in [("failures", failures), ("slowness", slowness)] {
            match change {
                Some(BreakerState::Open) => {
                    tracing::warn!(upstream, breaker, "breaker opened");
                }
                Some(BreakerState::Closed | BreakerState::HalfOpen) => {
                    tracing::info!(upstream, breaker, "breaker closed");
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
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::thread;

    use lifesign::clock::now;
    use pretty_assertions::assert_eq;

    use super::*;

    const fn limits(concurrency: usize, queue: usize) -> QueueLimits {
        QueueLimits {
            concurrency,
            queue,
            share_keys: false,
        }
    }

    fn lane(concurrency: usize, queue: usize) -> Arc<Lane> {
        let name = String::from("upstream");
        Lane::new(name, limits(concurrency, queue), BreakerPolicy::default())
    }

    fn key() -> KeyName {
        KeyName::new("key")
    }

    fn enter(lane: &Lane) -> Ticket {
        lane.enter(&key(), false).unwrap()
    }

    /// Counts how often it is woken.
    #[derive(Debug, Default)]
    struct Bell(AtomicUsize);

    impl Bell {
        fn rung(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll(ticket: &mut Ticket, bell: &Arc<Bell>) -> Option<Permit> {
        let waker = Waker::from(Arc::clone(bell));
        match ticket.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    /// Enters a call that waits, with a bell that rings when it is woken.
    fn wait(lane: &Lane) -> (Ticket, Arc<Bell>) {
        let (mut ticket, bell) = (enter(lane), Arc::default());
        assert!(poll(&mut ticket, &bell).is_none());
        (ticket, bell)
    }

    fn run(lane: &Lane) -> Permit {
        poll(&mut enter(lane), &Arc::default()).unwrap()
    }

    fn in_flight_and_waiting(lane: &Lane) -> (usize, usize) {
        let LaneLoad {
            in_flight, waiting, ..
        } = lane.load();
        (in_flight, waiting)
    }

    #[test]
    fn a_permit_that_drops_wakes_exactly_the_next_call() {
        let lane = lane(1, 8);
        let permit = run(&lane);
        let mut line = [wait(&lane), wait(&lane), wait(&lane)];
        assert_eq!(
            line.each_ref().map(|(ticket, _)| ticket.position()),
            [Some(1), Some(2), Some(3)]
        );

        drop(permit);

        assert_eq!(line.each_ref().map(|(_, bell)| bell.rung()), [1, 0, 0]);
        assert_eq!(
            line.each_ref().map(|(ticket, _)| ticket.position()),
            [None, Some(1), Some(2)]
        );
        let (first, bell) = &mut line[0];
        assert!(poll(first, bell).is_some());
        assert_eq!(line.each_ref().map(|(_, bell)| bell.rung()), [1, 1, 0]);
    }

    #[test]
    fn a_slot_handed_over_is_taken_before_it_is_fetched() {
        let lane = lane(1, 1);
        let permit = run(&lane);
        let (mut ticket, bell) = wait(&lane);

        drop(permit);

        assert!(!lane.has_room());
        assert_eq!(in_flight_and_waiting(&lane), (1, 0));
        let (_other, other_bell) = wait(&lane);
        let permit = poll(&mut ticket, &bell).unwrap();
        assert!(poll(&mut ticket, &bell).is_none());
        assert_eq!(other_bell.rung(), 0);
        drop(permit);
        assert_eq!(other_bell.rung(), 1);
    }

    #[test]
    fn a_ticket_dropped_between_admission_and_poll_passes_its_slot_on() {
        let lane = lane(1, 8);
        let permit = run(&lane);
        let (first, _) = wait(&lane);
        let (mut second, bell) = wait(&lane);
        drop(permit);
        assert_eq!(bell.rung(), 0);

        drop(first);

        assert_eq!(bell.rung(), 1);
        let permit = poll(&mut second, &bell);
        assert!(permit.is_some());
        assert_eq!(in_flight_and_waiting(&lane), (1, 0));
        drop(permit);
        // The same for one that was admitted as it entered.
        drop(enter(&lane));
        assert_eq!(in_flight_and_waiting(&lane), (0, 0));
    }

    #[test]
    fn a_ticket_dropped_while_it_waits_frees_its_place_and_wakes_nobody() {
        let lane = lane(1, 2);
        let permit = run(&lane);
        let (first, first_bell) = wait(&lane);
        let (second, second_bell) = wait(&lane);
        assert_eq!(lane.enter(&key(), false).err(), Some(QueueFull));

        drop(first);

        assert_eq!(second.position(), Some(1));
        assert_eq!(in_flight_and_waiting(&lane), (1, 1));
        let (third, _) = wait(&lane);
        assert_eq!(third.position(), Some(2));
        drop(permit);
        assert_eq!((first_bell.rung(), second_bell.rung()), (0, 1));
    }

    #[test]
    fn the_waker_of_the_last_poll_is_the_one_that_is_woken() {
        let lane = lane(1, 1);
        let permit = run(&lane);
        let (mut ticket, old) = wait(&lane);
        let new = Arc::default();
        assert!(poll(&mut ticket, &new).is_none());

        drop(permit);

        assert_eq!((old.rung(), new.rung()), (0, 1));
    }

    #[test]
    fn a_call_that_was_never_polled_finds_its_slot_when_it_is() {
        let lane = lane(1, 1);
        let permit = run(&lane);
        let mut ticket = enter(&lane);

        drop(permit);

        assert!(poll(&mut ticket, &Arc::default()).is_some());
    }

    #[test]
    fn raised_limits_wake_as_many_as_they_admit() {
        let lane = lane(1, 8);
        let _permit = run(&lane);
        let line = [wait(&lane), wait(&lane), wait(&lane)];

        lane.set_limits(limits(3, 8));

        assert_eq!(line.each_ref().map(|(_, bell)| bell.rung()), [1, 1, 0]);
        let expected = LaneLoad {
            in_flight: 3,
            waiting: 1,
            concurrency: 3,
            queue: 8,
        };
        assert_eq!(lane.load(), expected);
    }

    #[test]
    fn a_waker_may_use_the_lane_while_it_is_woken_or_dropped() {
        #[derive(Debug)]
        struct Nosy(Arc<Lane>);
        impl Wake for Nosy {
            fn wake(self: Arc<Self>) {
                self.0.load();
            }
        }
        impl Drop for Nosy {
            fn drop(&mut self) {
                self.0.load();
            }
        }
        let lane = lane(1, 8);
        let permit = run(&lane);
        let mut tickets = [enter(&lane), enter(&lane)];
        for ticket in &mut tickets {
            for _ in 0..2 {
                let waker = Waker::from(Arc::new(Nosy(Arc::clone(&lane))));
                assert!(ticket.poll(&mut Context::from_waker(&waker)).is_pending());
            }
        }

        drop(permit);
        drop(tickets);

        assert_eq!(in_flight_and_waiting(&lane), (0, 0));
    }

    #[test]
    fn a_half_open_breaker_is_probed_by_one_attempt_until_that_is_dropped() {
        let policy = BreakerPolicy {
            failures: 1,
            ..BreakerPolicy::default()
        };
        let lane = Lane::new(String::from("upstream"), limits(1, 1), policy);
        assert_eq!(lane.name(), "upstream");
        assert!(lane.start(Duration::ZERO).is_none());
        lane.record(AttemptMark::Failed, Duration::ZERO);
        assert!(lane.is_open(Duration::ZERO));

        let later = policy.open_for;
        let probe = lane.start(later);
        assert!(probe.is_some() && lane.is_open(later));
        assert!(lane.start(later).is_none());
        drop(probe);
        assert!(!lane.is_open(later));

        let never = BreakerPolicy {
            failures: 0,
            ..policy
        };
        let first_content = Duration::ZERO;
        lane.record(AttemptMark::Succeeded { first_content }, later);
        lane.set_breaker(never);
        lane.record(AttemptMark::Failed, later);
        assert_eq!(lane.breaker_states(later).failures, BreakerState::Closed);
    }

    /// Runs `CALLS` calls of every worker, some of which leave before they are admitted, and checks
    /// that no more run at once than may.
    async fn work(lane: Arc<Lane>, running: Arc<AtomicUsize>, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let key = KeyName::new(if seed.is_multiple_of(2) {
            "even"
        } else {
            "odd"
        });
        for _ in 0..CALLS {
            let head = random.u8(0..8) == 0;
            let Ok(mut ticket) = lane.enter(&key, head) else {
                tokio::task::yield_now().await;
                continue;
            };
            if random.u8(0..4) == 0 {
                let polled = poll_fn(|cx| Poll::Ready(ticket.poll(cx))).await;
                tokio::task::yield_now().await;
                drop((polled, ticket));
                continue;
            }
            let permit = poll_fn(|cx| ticket.poll(cx)).await;
            assert!(running.fetch_add(1, Ordering::SeqCst) < SLOTS);
            if random.bool() {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            drop(permit);
        }
    }

    const CALLS: usize = 200;
    const SLOTS: usize = 3;

    #[test]
    fn many_workers_and_tasks_lose_no_wake_up_and_no_slot() {
        let lane = lane(SLOTS, 40);
        let running = Arc::new(AtomicUsize::new(0));

        thread::scope(|scope| {
            for worker in 0..6 {
                let (lane, running) = (&lane, &running);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_time()
                        .build()
                        .unwrap();
                    let tasks = (0..20).map(|task| {
                        let seed = worker * 100 + task;
                        runtime.spawn(work(Arc::clone(lane), Arc::clone(running), seed))
                    });
                    let tasks: Vec<_> = tasks.collect();
                    runtime.block_on(async {
                        let all = futures_util::future::join_all(tasks);
                        tokio::select! {
                            done = all => done.into_iter().for_each(|task| task.unwrap()),
                            () = tokio::time::sleep_until(now() + Duration::from_mins(1)) => {
                                panic!("a call was never woken: {:?}", lane.load());
                            }
                        }
                    });
                });
            }
        });

        assert_eq!(in_flight_and_waiting(&lane), (0, 0));
        assert!(lane.gate.state().tickets.is_empty());
    }
}
