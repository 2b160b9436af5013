//! Lanes under many calls and threads: no slot and no wake-up is lost.

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
    lane.record(AttemptMark::Failed, Duration::ZERO, "c");
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
    lane.record(AttemptMark::Succeeded { first_content }, later, "c");
    lane.set_breaker(never);
    lane.record(AttemptMark::Failed, later, "c");
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
