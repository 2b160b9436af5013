//! What the key of a caller may spend: calls per minute, and calls at once.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Calls per minute of one key, spread evenly once a burst of the whole minute is spent.
///
/// This is the generic cell rate algorithm (ITU-T I.371): one time is remembered, and no call list.
/// Times are since an instant of the owner's choice.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    per_minute: NonZeroU32,
    /// When the burst will be whole again, in `per_minute`th parts of a nanosecond, so that no rate
    /// has to be rounded.
    whole_at: u128,
}

impl Rate {
    /// Returns a rate of which nothing is spent.
    pub(crate) const fn new(per_minute: NonZeroU32) -> Self {
        Self {
            per_minute,
            whole_at: 0,
        }
    }

    /// Changes the rate. What is spent stays spent for as long as it would have been.
    pub(crate) fn set_per_minute(&mut self, per_minute: NonZeroU32) {
        self.whole_at = self.whole_at.div_ceil(self.parts()) * u128::from(per_minute.get());
        self.per_minute = per_minute;
    }

    /// Spends one call, or returns how long the caller has to wait until it may have one.
    ///
    /// # Errors
    ///
    /// Fails where the calls of the last minute are spent; nothing is spent then.
    pub(crate) fn allow(&mut self, now: Duration) -> Result<(), Duration> {
        let now = now.as_nanos() * self.parts();
        let whole_at = self.whole_at.max(now) + MINUTE;
        // The burst is the whole count, which takes a minute to come back.
        let early = whole_at.saturating_sub(now + MINUTE * self.parts());
        if early == 0 {
            self.whole_at = whole_at;
            return Ok(());
        }
        let nanos = early.div_ceil(self.parts());
        Err(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }

    fn parts(&self) -> u128 {
        u128::from(self.per_minute.get())
    }
}

/// How many calls of one key are in flight.
#[derive(Debug)]
pub(crate) struct CallCount {
    limit: AtomicUsize,
    in_flight: AtomicUsize,
}

impl CallCount {
    /// Returns a count that goes up to `limit`.
    pub(crate) const fn new(limit: Option<usize>) -> Self {
        Self {
            limit: AtomicUsize::new(unlimited(limit)),
            in_flight: AtomicUsize::new(0),
        }
    }

    /// Changes the limit. Calls in flight above a lower one go on.
    pub(crate) fn set_limit(&self, limit: Option<usize>) {
        self.limit.store(unlimited(limit), Ordering::Relaxed);
    }

    /// Counts a call until what is returned is dropped; nothing where the limit is reached.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<CountedCall> {
        let limit = self.limit.load(Ordering::Relaxed);
        let more = |in_flight| (in_flight < limit).then_some(in_flight + 1);
        // The count guards no other memory, so the order of other accesses does not matter.
        self.in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(CountedCall(Arc::clone(self)))
    }

    /// Returns how many calls are in flight.
    #[cfg(test)]
    fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// A call in flight, as long as it is kept.
#[derive(Debug)]
pub(crate) struct CountedCall(Arc<CallCount>);

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

const fn unlimited(limit: Option<usize>) -> usize {
    match limit {
        Some(limit) => limit,
        None => usize::MAX,
    }
}

const MINUTE: u128 = Duration::from_mins(1).as_nanos();

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    fn rate(per_minute: u32) -> Rate {
        Rate::new(NonZeroU32::new(per_minute).unwrap())
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_whole_minute_may_be_spent_at_once_and_comes_back_evenly() {
        let mut rate = rate(6);

        for _ in 0..6 {
            assert_eq!(rate.allow(secs(100)), Ok(()));
        }

        assert_eq!(rate.allow(secs(100)), Err(secs(10)));
        assert_eq!(rate.allow(secs(103)), Err(secs(7)));
        assert_eq!(rate.allow(secs(110)), Ok(()));
        assert_eq!(rate.allow(secs(110)), Err(secs(10)));
    }

    #[test]
    fn a_refused_call_spends_nothing() {
        let mut rate = rate(1);
        assert_eq!(rate.allow(secs(0)), Ok(()));

        for at in 1..60 {
            assert_eq!(rate.allow(secs(at)), Err(secs(60 - at)));
        }

        assert_eq!(rate.allow(secs(60)), Ok(()));
    }

    #[test]
    fn rest_saves_up_no_more_than_one_minute() {
        let mut rate = rate(2);

        for _ in 0..2 {
            assert_eq!(rate.allow(secs(86_400)), Ok(()));
        }

        assert_eq!(rate.allow(secs(86_400)), Err(secs(30)));
    }

    #[test]
    fn a_new_rate_gives_nothing_back_that_was_spent() {
        let mut rate = rate(2);
        for _ in 0..2 {
            assert_eq!(rate.allow(secs(0)), Ok(()));
        }

        rate.set_per_minute(NonZeroU32::new(60).unwrap());

        assert_eq!(rate.allow(secs(0)), Err(secs(1)));
        assert_eq!(rate.allow(secs(1)), Ok(()));
    }

    #[test]
    fn calls_at_once_are_counted_while_they_are_kept() {
        let count = Arc::new(CallCount::new(Some(2)));
        let first = count.enter();
        let second = count.enter();
        assert!(first.is_some() && second.is_some());
        assert!(count.enter().is_none());

        drop(first);
        let third = count.enter();
        assert!(third.is_some());

        count.set_limit(Some(1));
        drop(third);
        assert!(count.enter().is_none());
        drop(second);
        assert_eq!(count.in_flight(), 0);
        count.set_limit(None);
        assert!(count.enter().is_some());
    }

    #[test]
    fn many_threads_never_count_more_than_the_limit() {
        let count = Arc::new(CallCount::new(Some(3)));

        let entered: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let calls = (0..2_000).filter_map(|_| count.enter());
                        calls.inspect(|_| assert!(count.in_flight() <= 3)).count()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });

        assert!(entered >= 2_000);
        assert_eq!(count.in_flight(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(256)
        })]

        #[test]
        fn the_wait_is_exact_and_no_window_has_more_than_burst_and_refill(
            per_minute in 1_u32..200,
            gaps in prop::collection::vec(0_u64..20_000_000_000, 1..200),
        ) {
            let mut rate = rate(per_minute);
            let mut now = Duration::ZERO;
            let mut allowed = Vec::new();

            for gap in gaps {
                now += Duration::from_nanos(gap);
                match rate.allow(now) {
                    Ok(()) => allowed.push(now),
                    Err(wait) => {
                        prop_assert!(wait > Duration::ZERO);
                        let early = now + wait.checked_sub(Duration::from_nanos(1)).unwrap();
                        prop_assert!(rate.clone().allow(early).is_err());
                        prop_assert!(rate.clone().allow(now + wait).is_ok());
                    }
                }
            }

            for (first, from) in allowed.iter().enumerate() {
                for (last, to) in allowed.iter().enumerate().skip(first) {
                    let calls = u128::try_from(last - first + 1).unwrap();
                    let refill = to.saturating_sub(*from).as_nanos() * u128::from(per_minute) / MINUTE;
                    prop_assert!(calls <= u128::from(per_minute) + refill);
                }
            }
        }
    }
}
