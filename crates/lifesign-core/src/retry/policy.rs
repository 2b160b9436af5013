//! How often and how patiently a call is attempted again.

use std::time::Duration;

use crate::{Limit, Origin, Setting};

/// The `[retry]` table: caps over all attempts, and a schedule for each tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The most requests that one call makes, the first included. Default 4, at least 1.
    pub attempts: Setting<u32>,
    /// The longest wait asked for by a provider that is slept. Default 120 s; 0 sleeps for none.
    pub max_wait: Setting<Duration>,
    /// The most that all waits of a call may sum to. Default off, as is 0.
    pub max_total_wait: Setting<Limit>,
    /// Whether reasoning that was not handed out may be thrown away by a new attempt. Default no.
    pub after_reasoning: Setting<bool>,
    /// Nothing, or a broken line: 3 tries, 750 ms doubling up to 8 s.
    pub transport: TierPolicy,
    /// A line that was alive and a model that gave nothing more: 2 tries, 1 s apart.
    pub cut: TierPolicy,
    /// Rate limits: 1 s doubling up to 30 s.
    pub rate: TierPolicy,
    /// Overload: 10 s doubling up to 300 s.
    pub overload: TierPolicy,
}

impl RetryPolicy {
    /// Returns the schedule of `tier`.
    pub const fn tier(&self, tier: Tier) -> &TierPolicy {
        match tier {
            Tier::Cut => &self.cut,
            Tier::Overload => &self.overload,
            Tier::Rate => &self.rate,
            Tier::Transport => &self.transport,
        }
    }

    /// Returns how many attempts of a call may end in `tier`.
    pub fn tries(&self, tier: Tier) -> u32 {
        match self.tier(tier).tries.value {
            Tries::AsAttempts => self.attempts.value,
            Tries::Count(count) => count.min(self.attempts.value),
        }
    }

    /// Returns how many attempts a call may make where each fails in `tier`; a failure without a
    /// tier is not repeated.
    pub fn attempts_for(&self, tier: Option<Tier>) -> u32 {
        tier.map_or(1, |tier| self.tries(tier))
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        let tier = |tries, first_ms, max_ms| TierPolicy {
            tries: Setting::default_value(tries),
            first_delay: Setting::default_value(Duration::from_millis(first_ms)),
            max_delay: Setting::default_value(Duration::from_millis(max_ms)),
        };
        Self {
            attempts: Setting::default_value(4),
            max_wait: Setting::default_value(Duration::from_mins(2)),
            max_total_wait: Setting::default_value(Limit::Off),
            after_reasoning: Setting::default_value(false),
            transport: tier(Tries::Count(3), 750, 8_000),
            cut: tier(Tries::Count(2), 1_000, 1_000),
            rate: tier(Tries::AsAttempts, 1_000, 30_000),
            overload: tier(Tries::AsAttempts, 10_000, 300_000),
        }
    }
}

/// One tier's schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierPolicy {
    /// How many attempts may end in this tier, the first included.
    pub tries: Setting<Tries>,
    /// The first delay; each further one is twice as long.
    pub first_delay: Setting<Duration>,
    /// The longest delay, before jitter.
    pub max_delay: Setting<Duration>,
}

impl TierPolicy {
    /// Returns the delay, without jitter, after `earlier` failures of this tier and one more.
    ///
    /// A `max_delay` that nobody set gives way to a longer `first_delay`, so that raising the one
    /// does something without the other.
    pub fn delay(&self, earlier: u32) -> Duration {
        let first = self.first_delay.value;
        let max = match self.max_delay.origin {
            Origin::Default => self.max_delay.value.max(first),
            _ => self.max_delay.value,
        };
        let factor = 1_u32.checked_shl(earlier).unwrap_or(u32::MAX);
        first.saturating_mul(factor).min(max)
    }
}

/// How many attempts may end in a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tries {
    /// As many as `retry.attempts` allows.
    AsAttempts,
    /// This many, at least 1, and never more than `retry.attempts`.
    Count(u32),
}

/// A budget of attempts that failures of one kind share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The line was alive, the model gave nothing more than that.
    Cut,
    /// 503, 529 and their in-band twins.
    Overload,
    /// 429 and its in-band twins.
    Rate,
    /// Silence, a lost connection, an answer that broke off, a fault of the provider's.
    Transport,
}

impl Tier {
    /// Every tier, in the order in which they are explained.
    pub const ALL: [Self; 4] = [Self::Transport, Self::Cut, Self::Rate, Self::Overload];

    /// Returns the name used in settings, after `retry.`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Overload => "overload",
            Self::Rate => "rate",
            Self::Transport => "transport",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let policy = RetryPolicy::default();

        let delays = |tier| [0, 1, 2, 3, 4, 40].map(|n| policy.tier(tier).delay(n).as_millis());

        assert_eq!(
            delays(Tier::Transport),
            [750, 1_500, 3_000, 6_000, 8_000, 8_000]
        );
        assert_eq!(delays(Tier::Cut), [1_000; 6]);
        assert_eq!(
            delays(Tier::Rate),
            [1_000, 2_000, 4_000, 8_000, 16_000, 30_000]
        );
        assert_eq!(
            delays(Tier::Overload),
            [10_000, 20_000, 40_000, 80_000, 160_000, 300_000]
        );
    }

    #[test]
    fn a_first_delay_above_the_default_cap_is_not_shortened() {
        let mut policy = RetryPolicy::default();
        policy.cut.first_delay = Setting {
            value: Duration::from_secs(5),
            origin: Origin::Call,
        };

        assert_eq!(policy.cut.delay(0), Duration::from_secs(5));

        policy.cut.max_delay = Setting {
            value: Duration::from_secs(2),
            origin: Origin::Call,
        };
        assert_eq!(policy.cut.delay(0), Duration::from_secs(2));
    }

    #[test]
    fn attempts_cap_the_tries_of_every_tier() {
        let mut policy = RetryPolicy::default();
        let tries = |policy: &RetryPolicy| Tier::ALL.map(|tier| policy.tries(tier));
        assert_eq!(tries(&policy), [3, 2, 4, 4]);

        policy.attempts.value = 1;

        assert_eq!(tries(&policy), [1; 4]);
    }

    #[test]
    fn a_failure_without_a_tier_has_one_attempt_and_one_with_a_tier_has_its_tries() {
        let policy = RetryPolicy::default();

        assert_eq!(policy.attempts_for(None), 1);
        assert_eq!(policy.attempts_for(Some(Tier::Transport)), 3);
        assert_eq!(policy.attempts_for(Some(Tier::Overload)), 4);
    }
}
