//! Pauses on an upstream after a rate limit or an overload.
//!
//! A hold belongs to an upstream, a model and a credential, never to a call: one call learns that
//! the door is shut, and the others need not knock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::FailureCode;

/// What a hold is on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldKey {
    /// What tells upstreams apart, such as name and base URL.
    pub upstream: String,
    /// The model asked for.
    pub model: Option<String>,
    /// A hash of the credential, never the credential.
    pub credential: u64,
}

/// A pause until some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// When it ends, on the table's clock.
    pub until: Duration,
    /// What raised it.
    pub why: FailureCode,
    /// The call whose attempt raised it: its own retry is the hold's probe and does not wait here.
    pub probe: String,
}

/// What a hold asks of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldWait {
    /// How long it still lasts.
    pub remaining: Duration,
    /// What raised it.
    pub why: FailureCode,
}

/// The holds of one owner.
///
/// Times are since an instant of the owner's choice, the same for every call. The table never grows
/// beyond its capacity: where it is full, the hold that ends first makes room.
#[derive(Clone, Debug)]
pub struct Holds<K> {
    holds: BTreeMap<K, Hold>,
    capacity: usize,
}

impl<K: Clone + Ord> Holds<K> {
    /// Returns an empty table for at most `capacity` holds.
    pub const fn new(capacity: usize) -> Self {
        Self {
            holds: BTreeMap::new(),
            capacity,
        }
    }

    /// Pauses `key` until `until` for everyone but the call whose id is `probe`.
    ///
    /// A hold that is already there is never shortened: of two ends the later stands, with whoever
    /// raised it.
    pub fn raise(&mut self, key: K, until: Duration, why: FailureCode, probe: &str, now: Duration) {
        let probe = probe.to_owned();
        if self.capacity == 0 || until <= now {
            return;
        }
        if let Some(hold) = self.holds.get_mut(&key) {
            if hold.until < until {
                *hold = Hold { until, why, probe };
            }
            return;
        }
        if self.holds.len() >= self.capacity {
            self.released(now);
        }
        while self.holds.len() >= self.capacity {
            let first = self.holds.iter().min_by_key(|(_, hold)| hold.until);
            let Some(first) = first.map(|(key, _)| key.clone()) else {
                break;
            };
            self.holds.remove(&first);
        }
        self.holds.insert(key, Hold { until, why, probe });
    }

    /// Ends the hold on `key`, because an attempt got through.
    pub fn release(&mut self, key: &K) -> Option<Hold> {
        self.holds.remove(key)
    }

    /// Removes and returns the keys whose holds have ended by `now`.
    pub fn released(&mut self, now: Duration) -> Vec<K> {
        let ended: Vec<K> = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.until <= now)
            .map(|(key, _)| key.clone())
            .collect();
        for key in &ended {
            self.holds.remove(key);
        }
        ended
    }

    /// Returns the hold on `key`, if one is in force.
    pub fn hold(&self, key: &K, now: Duration) -> Option<&Hold> {
        self.holds.get(key).filter(|hold| hold.until > now)
    }

    /// Returns what the call `call` has to wait for `key`; nothing for the call that is the probe.
    pub fn wait(&self, key: &K, call: &str, now: Duration) -> Option<HoldWait> {
        let hold = self.hold(key, now).filter(|hold| hold.probe != call)?;
        Some(HoldWait {
            remaining: hold.until.saturating_sub(now),
            why: hold.why,
        })
    }

    /// Returns the holds that are in force, in the order of their keys.
    pub fn in_force(&self, now: Duration) -> impl Iterator<Item = (&K, &Hold)> {
        self.holds.iter().filter(move |(_, hold)| hold.until > now)
    }

    /// Returns how many holds the table keeps, ended ones included.
    pub fn len(&self) -> usize {
        self.holds.len()
    }

    /// Returns whether the table keeps no hold.
    pub fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHY: FailureCode = FailureCode::RateLimited;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn held(until: Duration, why: FailureCode, probe: &str) -> Hold {
        Hold {
            until,
            why,
            probe: probe.to_owned(),
        }
    }

    fn remaining(
        holds: &Holds<&'static str>,
        key: &'static str,
        call: &str,
        now: Duration,
    ) -> Option<Duration> {
        holds.wait(&key, call, now).map(|wait| wait.remaining)
    }

    #[test]
    fn a_hold_pauses_everyone_but_its_probe() {
        let mut holds = Holds::new(8);
        holds.raise("a", secs(10), WHY, "call 1", secs(0));

        assert_eq!(remaining(&holds, "a", "call 2", secs(4)), Some(secs(6)));
        assert_eq!(remaining(&holds, "a", "call 1", secs(4)), None);
        assert_eq!(remaining(&holds, "b", "call 2", secs(4)), None);
        assert_eq!(remaining(&holds, "a", "call 2", secs(10)), None);
    }

    #[test]
    fn a_hold_is_lengthened_and_never_shortened() {
        let mut holds = Holds::new(8);
        holds.raise("a", secs(10), WHY, "call 1", secs(0));

        holds.raise("a", secs(5), WHY, "call 2", secs(1));
        assert_eq!(
            holds.hold(&"a", secs(1)),
            Some(&held(secs(10), WHY, "call 1"))
        );

        holds.raise("a", secs(20), FailureCode::Overloaded, "call 2", secs(1));
        let longer = held(secs(20), FailureCode::Overloaded, "call 2");
        assert_eq!(holds.hold(&"a", secs(1)), Some(&longer));
    }

    #[test]
    fn ended_holds_are_released_once() {
        let mut holds = Holds::new(8);
        holds.raise("a", secs(10), WHY, "call 1", secs(0));
        holds.raise("b", secs(20), WHY, "call 1", secs(0));

        assert_eq!(holds.released(secs(10)), ["a"]);
        assert_eq!(holds.released(secs(10)), [""; 0]);
        assert_eq!(holds.len(), 1);
        assert!(holds.release(&"b").is_some());
        assert!(holds.is_empty());
    }

    #[test]
    fn holds_in_force_are_listed_and_ended_ones_are_not() {
        let mut holds = Holds::new(8);
        holds.raise("b", secs(20), WHY, "call 1", secs(0));
        holds.raise("c", secs(10), WHY, "call 1", secs(0));
        holds.raise("a", secs(30), WHY, "call 2", secs(0));

        let listed: Vec<_> = holds.in_force(secs(10)).collect();

        let (a, b) = (held(secs(30), WHY, "call 2"), held(secs(20), WHY, "call 1"));
        assert_eq!(listed, [(&"a", &a), (&"b", &b)]);
    }

    #[test]
    fn a_full_table_lets_the_hold_go_that_ends_first() {
        let mut holds = Holds::new(2);
        for (key, until) in [("a", 30), ("b", 10), ("c", 20), ("past", 0)] {
            holds.raise(key, secs(until), WHY, "call 1", secs(0));
        }

        assert_eq!(holds.len(), 2);
        assert_eq!(holds.hold(&"b", secs(0)), None);
        assert!(holds.hold(&"a", secs(0)).is_some() && holds.hold(&"c", secs(0)).is_some());
    }
}
