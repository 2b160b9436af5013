//! Holds and their ramps, with calls that wait behind them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use tokio::time::advance;

use super::*;

const WHY: FailureCode = FailureCode::RateLimited;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn key(holds: &Holds, upstream: &str) -> HoldKey {
    holds.key(upstream, Some("model"), Some(b"secret"))
}

/// Returns a table in which call 1 has raised a hold of 10 seconds on the key returned.
fn held() -> (Arc<Holds>, HoldKey) {
    let holds = Holds::new();
    let key = key(&holds, "upstream");
    holds.raise(&key, secs(10), WHY, "call 1");
    (holds, key)
}

#[derive(Debug, Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A call that asks to pass, with a bell that rings when it is woken.
struct Caller {
    passage: Passage,
    bell: Arc<Bell>,
}

impl Caller {
    fn new(holds: &Arc<Holds>, key: &HoldKey, call: &str) -> Self {
        Self {
            passage: holds.pass(key, call),
            bell: Arc::default(),
        }
    }

    fn poll(&mut self) -> Option<Pass> {
        let waker = Waker::from(Arc::clone(&self.bell));
        match self.passage.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(pass) => Some(pass),
            Poll::Pending => None,
        }
    }

    fn rung(&self) -> usize {
        self.bell.0.load(Ordering::SeqCst)
    }
}

/// Returns callers that wait, `count` of them.
fn waiting(holds: &Arc<Holds>, key: &HoldKey, count: usize) -> Vec<Caller> {
    let mut callers: Vec<Caller> = (0..count)
        .map(|_| Caller::new(holds, key, "another"))
        .collect();
    assert_eq!(poll_all(&mut callers).len(), 0);
    callers
}

/// Returns how often each was woken.
fn rung(callers: &[Caller]) -> Vec<usize> {
    callers.iter().map(Caller::rung).collect()
}

/// Returns the passes of those who may go now.
fn poll_all(callers: &mut [Caller]) -> Vec<Pass> {
    callers.iter_mut().filter_map(Caller::poll).collect()
}

#[tokio::test(start_paused = true)]
async fn a_hold_stops_all_calls_of_its_key_but_its_probe() {
    let (holds, key) = held();
    advance(secs(4)).await;

    let wait = HoldWait {
        remaining: secs(6),
        why: WHY,
    };
    assert_eq!(holds.wait(&key, "call 2"), Some(wait));
    assert_eq!(holds.wait(&key, "call 1"), None);
    assert!(Caller::new(&holds, &key, "call 2").poll().is_none());
    assert!(Caller::new(&holds, &key, "call 1").poll().is_some());
    for other in [
        holds.key("other", Some("model"), Some(b"secret")),
        holds.key("upstream", Some("other"), Some(b"secret")),
        holds.key("upstream", Some("model"), Some(b"other")),
        holds.key("upstream", Some("model"), None),
    ] {
        assert_eq!(holds.wait(&other, "call 2"), None);
        assert!(Caller::new(&holds, &other, "call 2").poll().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_ends_by_time_lets_one_call_through() {
    let (holds, key) = held();
    let mut callers = waiting(&holds, &key, 3);

    advance(secs(10)).await;

    let passes = poll_all(&mut callers);
    assert_eq!(passes.len(), 1);
    assert_eq!(holds.wait(&key, "another"), None);
    assert_eq!(rung(&callers), [1, 0, 0]);
    // The slot of an attempt that did not get through goes to the next, and to that one alone.
    drop(passes);
    assert_eq!(rung(&callers), [1, 1, 0]);
    assert_eq!(poll_all(&mut callers).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_success_of_the_probe_ends_the_hold_and_wakes_one_call() {
    let (holds, key) = held();
    let mut callers = waiting(&holds, &key, 3);
    let mut probe = Caller::new(&holds, &key, "call 1").poll().unwrap();

    probe.handle_success();

    assert_eq!(holds.wait(&key, "another"), None);
    assert_eq!(rung(&callers), [1, 0, 0]);
    let passes = poll_all(&mut callers);
    assert_eq!(passes.len(), 1);
    // A success counts once.
    probe.handle_success();
    assert_eq!(poll_all(&mut callers).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn each_success_doubles_what_may_run_at_once_until_there_is_no_ramp() {
    let (holds, key) = held();
    advance(secs(10)).await;
    let mut callers: Vec<Caller> = (0..200)
        .map(|_| Caller::new(&holds, &key, "another"))
        .collect();
    let mut running = poll_all(&mut callers);
    let mut widths = vec![running.len()];

    for success in 0..6 {
        running[success].handle_success();
        running.append(&mut poll_all(&mut callers));
        widths.push(running.len());
    }

    assert_eq!(widths, [1, 2, 4, 8, 16, 32, 200]);
    assert!(holds.table().ramps.is_empty());
    assert!(holds.table().holds.is_empty());
    assert!(Caller::new(&holds, &key, "another").poll().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_new_hold_begins_the_ramp_anew_whatever_gets_through_of_the_old_one() {
    let (holds, key) = held();
    advance(secs(10)).await;
    let mut callers: Vec<Caller> = (0..9)
        .map(|_| Caller::new(&holds, &key, "another"))
        .collect();
    let mut running = poll_all(&mut callers);
    running[0].handle_success();
    running.append(&mut poll_all(&mut callers));
    assert_eq!(running.len(), 2);

    holds.raise(&key, secs(5), WHY, "call 2");
    running[1].handle_success();
    assert_eq!(poll_all(&mut callers).len(), 0);
    assert_eq!(holds.list().len(), 1);
    advance(secs(5)).await;

    // Both of before still run, so nobody comes on top of them.
    assert_eq!(poll_all(&mut callers).len(), 0);
    running.clear();
    assert_eq!(poll_all(&mut callers).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_success_from_before_a_hold_does_not_widen_the_ramp_after_it() {
    let (holds, key) = held();
    advance(secs(10)).await;
    let mut old = Caller::new(&holds, &key, "another").poll().unwrap();
    holds.raise(&key, secs(5), WHY, "call 2");
    advance(secs(5)).await;

    old.handle_success();
    drop(old);

    let mut callers: Vec<Caller> = (0..3)
        .map(|_| Caller::new(&holds, &key, "another"))
        .collect();
    assert_eq!(poll_all(&mut callers).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slot_handed_over_before_a_new_hold_waits_it_out_at_the_head() {
    let (holds, key) = held();
    let mut callers = waiting(&holds, &key, 2);
    let id = holds.list()[0].id.clone();
    assert!(holds.release(&id));
    assert_eq!(callers[0].rung(), 1);

    holds.raise(&key, secs(5), WHY, "call 2");

    assert_eq!(poll_all(&mut callers).len(), 0);
    advance(secs(5)).await;
    assert!(callers[1].poll().is_none());
    assert!(callers[0].poll().is_some());
}

#[tokio::test(start_paused = true)]
async fn holds_are_listed_and_released_by_id_without_their_credential() {
    let (holds, key) = held();
    let other = holds.key("other", None, Some(b"secret"));
    holds.raise(&other, secs(20), FailureCode::Overloaded, "call 2");
    let mut callers = waiting(&holds, &key, 2);
    advance(secs(1)).await;

    let listed = holds.list();
    let [first, second] = &listed[..] else {
        panic!("two holds are in force: {listed:?}");
    };
    let expected = ListedHold {
        id: second.id.clone(),
        upstream: "upstream".to_owned(),
        model: Some("model".to_owned()),
        credential: Some(format!("{:016x}", key.credential)),
        remaining: secs(9),
        until: second.until,
        why: WHY,
        probe: "call 1".to_owned(),
    };
    assert_eq!(second, &expected);
    assert!(second.until.is_some() && first.until > second.until);
    assert_ne!(first.id, second.id);
    assert!(first.credential.is_some());
    assert_eq!(
        (first.model.as_deref(), first.why),
        (None, FailureCode::Overloaded)
    );
    assert!(!format!("{listed:?}{holds:?}").contains("secret"));

    assert!(holds.release(&second.id));

    assert!(!holds.release(&second.id));
    assert_eq!(holds.list().len(), 1);
    assert_eq!(poll_all(&mut callers).len(), 1);
}

#[test]
fn hashes_of_a_credential_differ_from_one_gateway_to_the_next() {
    let credentials: BTreeSet<u64> = (0..4)
        .map(|_| key(&Holds::new(), "upstream").credential)
        .collect();

    assert_eq!(credentials.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_hold_of_no_length_holds_nobody() {
    let holds = Holds::new();
    let key = key(&holds, "upstream");

    holds.raise(&key, Duration::ZERO, WHY, "call 1");

    assert_eq!(holds.list(), []);
    assert!(Caller::new(&holds, &key, "call 2").poll().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_full_table_forgets_the_ramp_without_hold_then_the_hold_that_ends_first() {
    let holds = Holds::with_capacity(2);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|upstream| key(&holds, upstream));
    holds.raise(&a, secs(30), WHY, "call 1");
    holds.raise(&b, secs(1), WHY, "call 1");
    advance(secs(1)).await;
    let upstreams = || -> Vec<String> {
        let listed = holds.list().into_iter();
        listed.map(|hold| hold.upstream).collect()
    };

    holds.raise(&c, secs(20), WHY, "call 1");
    assert_eq!(upstreams(), ["a", "c"]);
    let mut callers = waiting(&holds, &c, 3);
    holds.raise(&d, secs(10), WHY, "call 1");

    assert_eq!(upstreams(), ["a", "d"]);
    assert_eq!(rung(&callers), [1, 1, 1]);
    // What holds for a key is what is in the table, and not what was when the call came.
    holds.raise(&c, secs(20), WHY, "call 1");
    assert_eq!(poll_all(&mut callers).len(), 0);
    assert_eq!(holds.table().ramps.len(), 2);
}

#[derive(Clone, Debug)]
enum Step {
    Arrive,
    Drop(prop::sample::Index),
    Raise(u64),
    Rest(u64),
    Succeed(prop::sample::Index),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Arrive),
        2 => any::<prop::sample::Index>().prop_map(Step::Drop),
        1 => (1_u64..4).prop_map(Step::Raise),
        3 => (1_u64..3).prop_map(Step::Rest),
        5 => any::<prop::sample::Index>().prop_map(Step::Succeed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(128)
    })]

    #[test]
    fn what_runs_is_what_the_hold_and_the_ramp_leave_room_for(
        steps in prop::collection::vec(any_step(), 0..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (holds, key) = held();
            let mut callers: Vec<Caller> = Vec::new();
            // A pass with the ramp it belongs to, and whether it has been a success.
            let mut running: Vec<(Pass, usize, bool)> = Vec::new();
            let (mut now, mut until, mut ramp, mut width) = (0, 10, 0, 1_usize);

            for step in steps {
                match step {
                    Step::Arrive => callers.push(Caller::new(&holds, &key, "another")),
                    Step::Drop(_) | Step::Succeed(_) if running.is_empty() => {}
                    Step::Drop(index) => {
                        running.swap_remove(index.index(running.len()));
                    }
                    Step::Succeed(index) => {
                        let at = index.index(running.len());
                        let (pass, of, done) = &mut running[at];
                        pass.handle_success();
                        if *of == ramp && !*done {
                            width *= 2;
                        }
                        *done = true;
                    }
                    Step::Raise(wait) => {
                        holds.raise(&key, secs(wait), WHY, "call 1");
                        until = until.max(now + wait);
                        (ramp, width) = (ramp + 1, 1);
                    }
                    Step::Rest(seconds) => {
                        advance(secs(seconds)).await;
                        now += seconds;
                    }
                }
                if width >= 64 {
                    break;
                }

                let before = running.len();
                let waited = callers.len();
                callers.retain_mut(|caller| match caller.poll() {
                    Some(pass) => {
                        running.push((pass, ramp, false));
                        false
                    }
                    None => true,
                });

                let room = if now < until { 0 } else { width };
                let expected = room.saturating_sub(before).min(waited);
                prop_assert_eq!(running.len() - before, expected);
            }
            Ok(())
        })?;
    }
}
