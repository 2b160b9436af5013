//! Holds that all calls share, and the ramp after each.
//!
//! A key of the table is an upstream, a model and a credential. While a hold on it is in force,
//! calls wait at its gate, which has no slots. When the hold ends, by time, by its probe's success
//! or by hand, the gate has one slot, and each success doubles them, so that those who waited do not
//! knock all at once and raise the next hold. Once enough got through there is no gate.
//!
//! Nothing here has a timer: whoever waits polls again when [`Holds::wait`] says that the hold ends.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::Timestamp;
use lifesign::clock::{CallClock, timestamp_after};
use lifesign_core::duration::whole_millis;
use lifesign_core::{FailureCode, HoldKey, HoldWait};

use crate::lane::{Gate, Permit, Ticket, ToWake};
use crate::queue::{KeyName, QueueLimits};

/// The holds of a gateway.
pub(crate) struct Holds {
    /// Counts from the gateway's beginning.
    clock: CallClock,
    /// Keyed at random, so that no hash that is shown lets anybody try credentials out.
    hasher: RandomState,
    capacity: usize,
    table: Mutex<Table>,
}

/// A hold in force, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedHold {
    /// What [`Holds::release`] knows it by.
    pub(crate) id: String,
    /// The upstream.
    pub(crate) upstream: String,
    /// The model.
    pub(crate) model: Option<String>,
    /// A hash of the caller's own credential, which tells credentials apart for as long as the
    /// gateway runs; none where the hold concerns every caller.
    pub(crate) credential: Option<String>,
    /// How long it lasts from now.
    pub(crate) remaining: Duration,
    /// When it ends, if that can be said as a date.
    pub(crate) until: Option<Timestamp>,
    /// What raised it.
    pub(crate) why: FailureCode,
    /// The call that raised it, and whose success ends it.
    pub(crate) probe: String,
}

impl Holds {
    /// Returns a table without holds.
    pub(crate) fn new() -> Arc<Self> {
        Self::with_capacity(MOST_HOLDS)
    }

    fn with_capacity(capacity: usize) -> Arc<Self> {
        let table = Table {
            holds: lifesign_core::Holds::new(capacity),
            ramps: BTreeMap::new(),
            raised: BTreeMap::new(),
        };
        Arc::new(Self {
            clock: CallClock::start(),
            hasher: RandomState::new(),
            capacity,
            table: Mutex::new(table),
        })
    }

    /// Returns what a hold of this upstream, model and credential is on.
    ///
    /// The credential goes in as a hash alone.
    pub(crate) fn key(
        &self,
        upstream: &str,
        model: Option<&str>,
        credential: Option<&[u8]>,
    ) -> HoldKey {
        HoldKey {
            upstream: upstream.to_owned(),
            model: model.map(str::to_owned),
            credential: self.hasher.hash_one(credential),
        }
    }

    /// Returns which hold `call` has to wait out, if any. A hold's probe does not wait for it.
    pub(crate) fn wait(&self, key: &HoldKey, call: &str) -> Option<HoldWait> {
        self.table().holds.wait(key, call, self.clock.elapsed())
    }

    /// Holds `key` for `wait` from now; `call` is its probe. A hold is never shortened by that.
    ///
    /// The ramp of an earlier hold begins anew.
    pub(crate) fn raise(&self, key: &HoldKey, wait: Duration, why: FailureCode, call: &str) {
        let now = self.clock.elapsed();
        let until = now.saturating_add(wait);
        let mut table = self.table();
        let evicted = table.make_room(key, self.capacity, now);
        let before = table.holds.hold(key, now).map(|hold| hold.until);
        table.holds.raise(key.clone(), until, why, call, now);
        let Some(hold) = table.holds.hold(key, now).cloned() else {
            drop(table);
            return wake_all(evicted);
        };
        let ramp = table.ramps.entry(key.clone()).or_insert_with(Ramp::new);
        ramp.probe = hold.probe;
        ramp.raised += 1;
        let none = ramp.set_width(0);
        let is_longer = before != Some(hold.until);
        if is_longer {
            let times = table.raised.entry((key.upstream.clone(), why.name()));
            *times.or_default() += 1;
        }
        drop(table);
        wake_all(evicted.into_iter().chain([none]));
        if is_longer {
            let HoldKey {
                upstream, model, ..
            } = key;
            let wait_ms = whole_millis(wait);
            tracing::warn!(
                call,
                upstream,
                model,
                why = why.name(),
                wait_ms,
                "hold raised"
            );
        }
    }

    /// Asks to make an attempt on `key` for `call`. Ask when nothing else stands in its way.
    pub(crate) fn pass(self: &Arc<Self>, key: &HoldKey, call: &str) -> Passage {
        if !self.table().ramps.contains_key(key) {
            return Passage(Stage::Clear);
        }
        Passage(Stage::Asking(Box::new(Asking {
            holds: Arc::clone(self),
            key: key.clone(),
            call: call.to_owned(),
            stand: None,
            has_waited: false,
        })))
    }

    /// Returns the holds in force.
    pub(crate) fn list(&self) -> Vec<ListedHold> {
        let now = self.clock.elapsed();
        let of_everybody = self.hasher.hash_one(None::<&[u8]>);
        let table = self.table();
        let listed = table.holds.in_force(now).map(|(key, hold)| {
            let remaining = hold.until.saturating_sub(now);
            ListedHold {
                id: self.id(key),
                upstream: key.upstream.clone(),
                model: key.model.clone(),
                credential: (key.credential != of_everybody)
                    .then(|| format!("{:016x}", key.credential)),
                remaining,
                until: timestamp_after(remaining),
                why: hold.why,
                probe: hold.probe.clone(),
            }
        });
        listed.collect()
    }

    /// Returns how often a hold of an upstream was raised or made longer, and for which failure.
    pub(crate) fn times_raised(&self) -> Vec<(String, &'static str, u64)> {
        let table = self.table();
        let raised = table.raised.iter();
        let raised = raised.map(|((upstream, why), times)| (upstream.clone(), *why, *times));
        raised.collect()
    }

    /// Ends the hold that is [listed](Self::list) as `id`. Returns whether there is one.
    pub(crate) fn release(&self, id: &str) -> bool {
        let now = self.clock.elapsed();
        let mut table = self.table();
        let listed = |(key, _): (&HoldKey, _)| (self.id(key) == id).then(|| key.clone());
        let Some(key) = table.holds.in_force(now).find_map(listed) else {
            return false;
        };
        let to_wake = table.release(&key);
        drop(table);
        wake_all(to_wake);
        released(&key, "hand", None);
        true
    }

    /// Records that an attempt that had passed got through.
    fn handle_success(&self, proof: &Proof) {
        let now = self.clock.elapsed();
        let Proof {
            key, call, raised, ..
        } = proof;
        let mut table = self.table();
        if let Some(hold) = table.holds.hold(key, now) {
            // Only the probe of a hold shows that it is over; others set out before it.
            if hold.probe == *call {
                let to_wake = table.release(key);
                drop(table);
                wake_all(to_wake);
                released(key, "probe", Some(call));
            }
            return;
        }
        let Some(ramp) = table.ramps.get_mut(key) else {
            return;
        };
        if ramp.raised != *raised {
            return;
        }
        let width = ramp.width.max(1) * 2;
        let to_wake = if width < FULL_WIDTH {
            Some(ramp.set_width(width))
        } else {
            table.remove(key)
        };
        drop(table);
        wake_all(to_wake);
    }

    /// Returns where a call stands that asks to pass, having opened the gate if its hold has ended.
    fn look(&self, key: &HoldKey, call: &str) -> Look {
        let now = self.clock.elapsed();
        let mut table = self.table();
        let is_held = table.holds.hold(key, now).is_some();
        let Some(ramp) = table.ramps.get_mut(key) else {
            return Look::Clear;
        };
        let raised = ramp.raised;
        if ramp.probe == call {
            return Look::Probe { raised };
        }
        let ended = (!is_held && ramp.width == 0).then(|| ramp.set_width(1));
        let (gate, line) = (Arc::clone(&ramp.gate), ramp.line.clone());
        drop(table);
        wake_all(ended);
        Look::Gate {
            gate,
            line,
            is_held,
            raised,
        }
    }

    fn id(&self, key: &HoldKey) -> String {
        format!("{:016x}", self.hasher.hash_one(key))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A panic elsewhere cannot leave it between two states: nothing under the lock panics.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ramps = self.table().ramps.len();
        f.debug_struct("Holds")
            .field("ramps", &ramps)
            .finish_non_exhaustive()
    }
}

/// Every hold has a ramp, so the ramps bound both.
struct Table {
    holds: lifesign_core::Holds<HoldKey>,
    ramps: BTreeMap<HoldKey, Ramp>,
    /// How often holds were raised or made longer, by upstream and failure.
    raised: BTreeMap<(String, &'static str), u64>,
}

impl Table {
    /// Ends the hold on `key`; its ramp begins.
    fn release(&mut self, key: &HoldKey) -> Option<ToWake> {
        self.holds.release(key);
        self.ramps.get_mut(key).map(|ramp| ramp.set_width(1))
    }

    /// Forgets `key`: whoever waits may go.
    fn remove(&mut self, key: &HoldKey) -> Option<ToWake> {
        self.holds.release(key);
        let mut ramp = self.ramps.remove(key)?;
        Some(ramp.set_width(usize::MAX))
    }

    /// Makes room for `key`. A ramp without a hold goes first, then the hold that ends first.
    fn make_room(&mut self, key: &HoldKey, capacity: usize, now: Duration) -> Option<ToWake> {
        if self.ramps.len() < capacity || self.ramps.contains_key(key) {
            return None;
        }
        let until = |key: &&HoldKey| self.holds.hold(key, now).map(|hold| hold.until);
        let first = self.ramps.keys().min_by_key(until)?.clone();
        self.remove(&first)
    }
}

struct Ramp {
    gate: Arc<Gate>,
    /// All calls stand in one line of the gate.
    line: KeyName,
    /// How many slots the gate has: 0 while the key is held.
    width: usize,
    /// How often a hold was raised. A success counts only for the ramp in which its attempt began.
    raised: u64,
    /// The call whose retry passes the gate whenever it is due.
    probe: String,
}

impl Ramp {
    fn new() -> Self {
        Self {
            gate: Gate::new(gate_limits(0)),
            line: KeyName::new(""),
            width: 0,
            raised: 0,
            probe: String::new(),
        }
    }

    fn set_width(&mut self, width: usize) -> ToWake {
        self.width = width;
        self.gate.set_limits(gate_limits(width))
    }
}

enum Look {
    /// Nothing is in the way.
    Clear,
    Gate {
        gate: Arc<Gate>,
        line: KeyName,
        is_held: bool,
        raised: u64,
    },
    /// The hold is this call's own.
    Probe { raised: u64 },
}

/// A call that asks to make an attempt. Dropping it takes the question back.
#[derive(Debug)]
pub(crate) struct Passage(Stage);

#[derive(Debug)]
enum Stage {
    Asking(Box<Asking>),
    /// There was neither hold nor ramp, which is nearly always so and costs nothing.
    Clear,
    Done,
}

#[derive(Debug)]
struct Asking {
    holds: Arc<Holds>,
    key: HoldKey,
    call: String,
    /// Where it waits, while it does.
    stand: Option<(Arc<Gate>, Ticket)>,
    /// Whether it has waited before, so that it goes to the head of the line.
    has_waited: bool,
}

impl Passage {
    /// Returns the pass once neither hold nor ramp is in the way, and has the task woken when a slot
    /// of the ramp is there.
    ///
    /// Nothing wakes it when a hold ends by time: poll again when [`Holds::wait`] says that it does.
    /// A passage gives one pass; polled again it stays pending.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Pass> {
        let pass = match &mut self.0 {
            Stage::Asking(asking) => match asking.poll(cx) {
                Poll::Ready(pass) => pass,
                Poll::Pending => return Poll::Pending,
            },
            Stage::Clear => Pass::CLEAR,
            Stage::Done => return Poll::Pending,
        };
        self.0 = Stage::Done;
        Poll::Ready(pass)
    }
}

impl Asking {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Pass> {
        loop {
            let (gate, line, is_held, raised) = match self.holds.look(&self.key, &self.call) {
                Look::Clear => return Poll::Ready(Pass::CLEAR),
                Look::Gate {
                    gate,
                    line,
                    is_held,
                    raised,
                } => (gate, line, is_held, raised),
                Look::Probe { raised } => return Poll::Ready(self.pass(raised, None)),
            };
            let ticket = match &mut self.stand {
                Some((at, ticket)) if Arc::ptr_eq(at, &gate) => ticket,
                stand => {
                    let ticket = gate.join(&line, self.has_waited);
                    self.has_waited = true;
                    &mut stand.insert((gate, ticket)).1
                }
            };
            let Poll::Ready(permit) = ticket.poll(cx) else {
                return Poll::Pending;
            };
            if !is_held {
                return Poll::Ready(self.pass(raised, Some(permit)));
            }
            // A hold was raised after the slot had been handed over: back to the head of the line.
            drop(permit);
            self.stand = None;
        }
    }

    fn pass(&self, raised: u64, slot: Option<Permit>) -> Pass {
        Pass {
            proof: Some(Box::new(Proof {
                holds: Arc::clone(&self.holds),
                key: self.key.clone(),
                call: self.call.clone(),
                raised,
            })),
            _slot: slot,
        }
    }
}

/// Leave to make one attempt. Keep it until the attempt has ended: then its slot is free.
#[derive(Debug)]
pub(crate) struct Pass {
    /// What a success proves, until it has. Boxed: hardly any attempt comes after a hold.
    proof: Option<Box<Proof>>,
    /// The slot of the ramp that the attempt takes; a probe takes none.
    _slot: Option<Permit>,
}

#[derive(Debug)]
struct Proof {
    holds: Arc<Holds>,
    key: HoldKey,
    call: String,
    raised: u64,
}

impl Pass {
    const CLEAR: Self = Self {
        proof: None,
        _slot: None,
    };

    /// Tells that the attempt got through: that ends the hold whose probe it is, or widens the ramp.
    pub(crate) fn handle_success(&mut self) {
        if let Some(proof) = self.proof.take() {
            proof.holds.handle_success(&proof);
        }
    }
}

fn wake_all(to_wake: impl IntoIterator<Item = ToWake>) {
    to_wake.into_iter().for_each(ToWake::wake);
}

fn released(key: &HoldKey, by: &str, call: Option<&str>) {
    let HoldKey {
        upstream, model, ..
    } = key;
    tracing::info!(call, upstream, model, by, "hold released");
}

const fn gate_limits(width: usize) -> QueueLimits {
    QueueLimits {
        concurrency: width,
        // Calls join it whatever its queue is.
        queue: usize::MAX,
        share_keys: false,
    }
}

/// The ramp is over before so many calls of a key run at once.
const FULL_WIDTH: usize = 64;

/// More keys than are held at a time in earnest.
const MOST_HOLDS: usize = 1_024;

#[cfg(test)]
mod tests;
