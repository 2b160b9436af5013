//! Breakers: whether an upstream has been failing, or slow, for so long that others go first.
//!
//! An open breaker never refuses a call. It only moves its upstream to the end of the order, so an
//! upstream that no other can stand in for is tried all the same.

use std::time::Duration;

use lifesign_core::Limit;

/// When the breakers of an upstream open, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BreakerPolicy {
    /// After how many failed (or slow) attempts in a row; never with 0. Default 10.
    pub(crate) failures: u32,
    /// After how long without content an attempt counts as slow. Default off.
    pub(crate) slow_after: Limit,
    /// How long an open breaker stays open before one attempt is let through. Default 30 s.
    pub(crate) open_for: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            failures: 10,
            slow_after: Limit::Off,
            open_for: Duration::from_secs(30),
        }
    }
}

/// What an attempt says about its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptMark {
    /// It failed, other than by a bound.
    Failed,
    /// It says nothing: a settled 4xx, or a caller that left.
    Neutral,
    /// A bound cut it for bringing nothing.
    Slow,
    /// It brought content.
    Succeeded {
        /// How long after its start the first content came.
        first_content: Duration,
    },
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerState {
    /// All is well.
    Closed,
    /// The next attempt decides.
    HalfOpen,
    /// Others go first.
    Open,
}

/// Where both breakers of an upstream stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BreakerStates {
    /// The breaker for failures.
    pub(crate) failures: BreakerState,
    /// The breaker for slowness.
    pub(crate) slowness: BreakerState,
}

/// Which breakers an attempt opened or closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BreakerChanges {
    /// The new state of the breaker for failures.
    pub(crate) failures: Option<BreakerState>,
    /// The new state of the breaker for slowness.
    pub(crate) slowness: Option<BreakerState>,
}

/// The two breakers of one upstream.
///
/// They count apart. Once half-open, either is opened again by whatever is no success: an attempt
/// that brought nothing is no proof that failures are over.
#[derive(Clone, Debug)]
pub(crate) struct Breakers {
    policy: BreakerPolicy,
    failures: Breaker,
    slowness: Breaker,
    /// Whether the attempt that decides about half-open breakers is on its way.
    probing: bool,
}

impl Breakers {
    /// Returns closed breakers.
    pub(crate) const fn new(policy: BreakerPolicy) -> Self {
        Self {
            policy,
            failures: Breaker::CLOSED,
            slowness: Breaker::CLOSED,
            probing: false,
        }
    }

    /// Changes what is counted from now on. What is open stays open as long as it was to.
    pub(crate) const fn set_policy(&mut self, policy: BreakerPolicy) {
        self.policy = policy;
    }

    /// Returns whether other upstreams go first: a breaker is open, or half-open and being probed.
    pub(crate) fn is_open(&self, now: Duration) -> bool {
        let BreakerStates { failures, slowness } = self.states(now);
        let either = |state| failures == state || slowness == state;
        either(BreakerState::Open) || self.probing && either(BreakerState::HalfOpen)
    }

    /// Returns where the breakers stand.
    pub(crate) fn states(&self, now: Duration) -> BreakerStates {
        BreakerStates {
            failures: self.failures.state(now),
            slowness: self.slowness.state(now),
        }
    }

    /// Returns whether an attempt that starts now is the probe. Others then stay away until it
    /// [ends](Self::handle_probe_end).
    pub(crate) fn handle_start(&mut self, now: Duration) -> bool {
        let BreakerStates { failures, slowness } = self.states(now);
        let half_open = failures == BreakerState::HalfOpen || slowness == BreakerState::HalfOpen;
        let is_probe = half_open && !self.is_open(now);
        self.probing |= is_probe;
        is_probe
    }

    /// Records that the probe is over, whatever it showed.
    pub(crate) const fn handle_probe_end(&mut self) {
        self.probing = false;
    }

    /// Records what an attempt showed, whether it was the probe or not.
    pub(crate) fn handle_mark(&mut self, mark: AttemptMark, now: Duration) -> BreakerChanges {
        let Self {
            policy,
            failures,
            slowness,
            ..
        } = self;
        match mark {
            AttemptMark::Neutral => BreakerChanges::default(),
            AttemptMark::Failed => BreakerChanges {
                failures: failures.handle_bad(policy, now),
                slowness: slowness.handle_no_success(policy, now),
            },
            AttemptMark::Slow => BreakerChanges {
                failures: failures.handle_no_success(policy, now),
                slowness: slowness.handle_bad(policy, now),
            },
            AttemptMark::Succeeded { first_content } => BreakerChanges {
                failures: failures.handle_success(),
                slowness: match policy.slow_after {
                    Limit::After(limit) if first_content > limit => {
                        slowness.handle_bad(policy, now)
                    }
                    Limit::After(_) | Limit::Off => slowness.handle_success(),
                },
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaker {
    Closed {
        /// How many bad attempts there were in a row.
        in_a_row: u32,
    },
    /// Open until then, and half-open from then on.
    Open { until: Duration },
}

impl Breaker {
    const CLOSED: Self = Self::Closed { in_a_row: 0 };

    fn state(self, now: Duration) -> BreakerState {
        match self {
            Self::Closed { .. } => BreakerState::Closed,
            Self::Open { until } if now < until => BreakerState::Open,
            Self::Open { .. } => BreakerState::HalfOpen,
        }
    }

    fn handle_bad(&mut self, policy: &BreakerPolicy, now: Duration) -> Option<BreakerState> {
        let Self::Closed { in_a_row } = self else {
            return self.handle_no_success(policy, now);
        };
        *in_a_row = in_a_row.saturating_add(1);
        if policy.failures == 0 || *in_a_row < policy.failures {
            return None;
        }
        Some(self.open(policy, now))
    }

    fn handle_no_success(&mut self, policy: &BreakerPolicy, now: Duration) -> Option<BreakerState> {
        // One that is still open is not held open longer by calls that had nowhere else to go.
        (self.state(now) == BreakerState::HalfOpen).then(|| self.open(policy, now))
    }

    fn handle_success(&mut self) -> Option<BreakerState> {
        let was_open = matches!(self, Self::Open { .. });
        *self = Self::CLOSED;
        was_open.then_some(BreakerState::Closed)
    }

    fn open(&mut self, policy: &BreakerPolicy, now: Duration) -> BreakerState {
        let until = now.saturating_add(policy.open_for);
        *self = Self::Open { until };
        BreakerState::Open
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: BreakerPolicy = BreakerPolicy {
        failures: 3,
        slow_after: Limit::After(secs(20)),
        open_for: secs(30),
    };
    const QUICK: AttemptMark = AttemptMark::Succeeded {
        first_content: secs(20),
    };
    const LATE: AttemptMark = AttemptMark::Succeeded {
        first_content: secs(21),
    };

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn after(policy: BreakerPolicy, marks: &[AttemptMark]) -> Breakers {
        let mut breakers = Breakers::new(policy);
        for mark in marks {
            breakers.handle_mark(*mark, secs(0));
        }
        breakers
    }

    fn states(breakers: &Breakers, now: u64) -> (BreakerState, BreakerState) {
        let BreakerStates { failures, slowness } = breakers.states(secs(now));
        (failures, slowness)
    }

    #[test]
    fn by_default_the_tenth_failure_in_a_row_opens_for_30_seconds() {
        let mut breakers = after(BreakerPolicy::default(), &[AttemptMark::Failed; 9]);
        assert!(!breakers.is_open(secs(0)));

        let changes = breakers.handle_mark(AttemptMark::Failed, secs(0));

        let opened = BreakerChanges {
            failures: Some(BreakerState::Open),
            slowness: None,
        };
        assert_eq!(changes, opened);
        assert!(breakers.is_open(secs(29)));
        assert!(!breakers.is_open(secs(30)));
    }

    #[test]
    fn a_success_breaks_the_row_and_a_settled_refusal_does_not() {
        use AttemptMark::{Failed, Neutral};

        assert!(!after(POLICY, &[Failed, Failed, QUICK, Failed, Failed]).is_open(secs(0)));
        assert!(after(POLICY, &[Failed, Neutral, Failed, Neutral, Failed]).is_open(secs(0)));
        assert!(!after(POLICY, &[Neutral; 30]).is_open(secs(0)));
    }

    #[test]
    fn failures_and_slowness_are_counted_apart() {
        use AttemptMark::{Failed, Slow};
        use BreakerState::{Closed, Open};

        assert_eq!(
            states(&after(POLICY, &[Failed, Slow, Failed, Slow]), 0),
            (Closed, Closed)
        );
        assert_eq!(
            states(&after(POLICY, &[Failed, Slow, Failed, Failed]), 0),
            (Open, Closed)
        );
        assert_eq!(
            states(&after(POLICY, &[LATE, Slow, LATE]), 0),
            (Closed, Open)
        );
    }

    #[test]
    fn late_content_is_slow_only_beyond_the_limit_and_where_there_is_one() {
        let off = BreakerPolicy {
            slow_after: Limit::Off,
            ..POLICY
        };

        assert!(after(POLICY, &[LATE; 3]).is_open(secs(0)));
        assert!(!after(POLICY, &[QUICK; 3]).is_open(secs(0)));
        assert!(!after(off, &[LATE; 3]).is_open(secs(0)));
        assert!(after(off, &[AttemptMark::Slow; 3]).is_open(secs(0)));
    }

    #[test]
    fn a_half_open_breaker_lets_one_probe_through_at_a_time() {
        let mut breakers = after(POLICY, &[AttemptMark::Failed; 3]);
        assert!(!breakers.handle_start(secs(29)));

        assert!(breakers.handle_start(secs(30)));
        assert!(breakers.is_open(secs(30)));
        assert!(!breakers.handle_start(secs(30)));

        // A probe whose caller left decides nothing, and the next attempt is the probe.
        breakers.handle_probe_end();
        assert!(!breakers.is_open(secs(31)));
        assert!(breakers.handle_start(secs(31)));
    }

    #[test]
    fn the_success_of_a_probe_closes_and_its_failure_opens_again() {
        use BreakerState::{Closed, HalfOpen, Open};

        for bad in [AttemptMark::Failed, AttemptMark::Slow] {
            let mut breakers = after(POLICY, &[AttemptMark::Failed; 3]);
            assert_eq!(states(&breakers, 30), (HalfOpen, Closed));
            assert!(breakers.handle_start(secs(30)));

            let changes = breakers.handle_mark(bad, secs(35));
            breakers.handle_probe_end();
            assert_eq!(changes.failures, Some(Open));
            assert_eq!(states(&breakers, 64), (Open, Closed));

            assert!(breakers.handle_start(secs(65)));
            let changes = breakers.handle_mark(QUICK, secs(66));
            breakers.handle_probe_end();
            assert_eq!(changes.failures, Some(Closed));
            assert!(!breakers.is_open(secs(66)));
        }
    }

    #[test]
    fn late_content_shows_that_failures_are_over_and_slowness_is_not() {
        let mut breakers = after(POLICY, &[AttemptMark::Failed; 3]);
        for _ in 0..3 {
            breakers.handle_mark(AttemptMark::Slow, secs(0));
        }

        let changes = breakers.handle_mark(LATE, secs(40));

        let expected = BreakerChanges {
            failures: Some(BreakerState::Closed),
            slowness: Some(BreakerState::Open),
        };
        assert_eq!(changes, expected);
    }

    #[test]
    fn failures_while_it_is_open_do_not_keep_it_open() {
        let mut breakers = after(POLICY, &[AttemptMark::Failed; 3]);

        for at in 1..30 {
            let changes = breakers.handle_mark(AttemptMark::Failed, secs(at));
            assert_eq!(changes, BreakerChanges::default());
        }

        assert!(!breakers.is_open(secs(30)));
    }

    #[test]
    fn a_new_policy_holds_from_the_next_attempt_on_and_0_never_opens() {
        let mut breakers = after(POLICY, &[AttemptMark::Failed; 2]);
        let never = BreakerPolicy {
            failures: 0,
            ..POLICY
        };

        breakers.set_policy(never);
        breakers.handle_mark(AttemptMark::Failed, secs(0));
        assert!(!breakers.is_open(secs(0)));

        breakers.set_policy(POLICY);
        breakers.handle_mark(AttemptMark::Failed, secs(0));
        assert!(breakers.is_open(secs(0)));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(256)
        })]

        #[test]
        fn while_time_stands_still_it_is_open_after_so_many_in_a_row(
            marks in prop::collection::vec(
                prop::sample::select(vec![
                    AttemptMark::Failed, AttemptMark::Neutral, AttemptMark::Slow, QUICK, LATE,
                ]),
                0..40,
            ),
        ) {
            let row = |ignored: &[AttemptMark], counted: &[AttemptMark]| {
                let heard = marks.iter().rev().filter(|mark| !ignored.contains(mark));
                heard.take_while(|mark| counted.contains(mark)).count()
            };
            let failed = row(&[AttemptMark::Neutral, AttemptMark::Slow], &[AttemptMark::Failed]);
            let slow = row(&[AttemptMark::Neutral, AttemptMark::Failed], &[AttemptMark::Slow, LATE]);

            let breakers = after(POLICY, &marks);

            let expected = |row| if row >= 3 { BreakerState::Open } else { BreakerState::Closed };
            prop_assert_eq!(states(&breakers, 0), (expected(failed), expected(slow)));
        }
    }
}
