//! The retry schedule as a pure function.

use std::fmt;
use std::time::Duration;

use super::{Hints, RetryPolicy, Tier};
use crate::duration::human_limit;
use crate::{Failure, FailureCode, Limit};

/// An attempt that failed before the one at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// How it failed.
    pub code: FailureCode,
    /// The wait that followed it.
    pub waited: Duration,
}

/// What is left of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The time, since the call began.
    pub now: Duration,
    /// The bound on the whole call.
    pub wall_clock: Limit,
    /// What the failed attempt had received.
    pub commit: Commit,
}

/// What an attempt has received that a new one would replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// No content: a new attempt replaces it unseen.
    Nothing,
    /// Reasoning alone, none of it handed out: thrown away where `retry.after_reasoning` is on.
    HeldReasoning,
    /// Content: there is never a second attempt.
    Content,
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Start a new attempt.
    Retry {
        /// After this long, jitter included.
        after: Duration,
        /// The tier whose budget it takes from.
        tier: Tier,
    },
    /// Report the failure; see [`Failure::give_up`].
    GiveUp {
        /// Why there is no new attempt.
        reason: GiveUp,
    },
}

/// Why there is no new attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// All requests that `retry.attempts` allows were made.
    AttemptsSpent,
    /// The provider asks for a longer wait than `retry.max_wait`.
    BeyondMaxWait {
        /// The wait asked for.
        asked: Duration,
        /// The longest that is slept.
        max: Duration,
    },
    /// Content was received.
    Committed,
    /// A failure of this kind is not repeated.
    NotRetryable,
    /// `x-should-retry: false`.
    ProviderSaysNo,
    /// A quota is used up; waiting as for a rate limit does not help.
    Quota,
    /// All tries of the failure's tier were made.
    TierSpent(Tier),
    /// The wait would carry the sum of waits past `retry.max_total_wait`.
    TotalWait {
        /// The most that waits may sum to.
        max: Duration,
    },
    /// The wall clock would run out before a new attempt could end by the same bound.
    WallClock,
}

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AttemptsSpent => f.write_str("no attempt left (retry.attempts)"),
            Self::BeyondMaxWait { asked, max } => {
                let (asked, max) = (human_limit(*asked), human_limit(*max));
                write!(
                    f,
                    "the wait asked for, {asked}, is beyond retry.max_wait = {max}"
                )
            }
            Self::Committed => f.write_str("content was already received"),
            Self::NotRetryable => f.write_str("a failure of this kind is not repeated"),
            Self::ProviderSaysNo => f.write_str("the provider said not to retry"),
            Self::Quota => f.write_str("the quota is used up"),
            Self::TierSpent(tier) => write!(f, "no try left (retry.{}.tries)", tier.name()),
            Self::TotalWait { max } => {
                write!(
                    f,
                    "the waits would pass retry.max_total_wait = {}",
                    human_limit(*max)
                )
            }
            Self::WallClock => f.write_str("the wall clock leaves no time for another attempt"),
        }
    }
}

/// Decides whether `failure` is followed by a new attempt, and when.
///
/// `history` holds the attempts that failed before it, oldest first; `random`, from 0 to 1, is the
/// jitter, which only ever lengthens. A wait that the provider asked for is a lower bound and takes
/// the place of our own; one of zero, or in the past, means our own first delay.
///
/// This example shows a first silence, which is attempted again after 750 ms:
///
/// ```
/// use std::time::Duration;
///
/// use lifesign_core::{
///     Budget, Commit, Decision, Failure, FailureCode, Hints, Limit, Phase, RetryPolicy, Tier,
///     decide,
/// };
///
/// let failure = Failure::new(FailureCode::RawSilent, Phase::BeforeContent);
/// let budget = Budget {
///     now: Duration::from_secs(45),
///     wall_clock: Limit::Off,
///     commit: Commit::Nothing,
/// };
///
/// let decision = decide(&RetryPolicy::default(), &[], &failure, &Hints::default(), &budget, 0.0);
///
/// let after = Duration::from_millis(750);
/// assert_eq!(decision, Decision::Retry { after, tier: Tier::Transport });
/// ```
pub fn decide(
    policy: &RetryPolicy,
    history: &[Past],
    failure: &Failure,
    hints: &Hints,
    budget: &Budget,
    random: f64,
) -> Decision {
    match schedule(policy, history, failure, hints, budget, random) {
        Ok((after, tier)) => Decision::Retry { after, tier },
        Err(reason) => Decision::GiveUp { reason },
    }
}

/// Returns the delay and its tier, or why there is none.
///
/// What changes the failure's meaning is looked at before what merely ends the call, so that a
/// quota is called a quota whether or not an attempt was left.
fn schedule(
    policy: &RetryPolicy,
    history: &[Past],
    failure: &Failure,
    hints: &Hints,
    budget: &Budget,
    random: f64,
) -> Result<(Duration, Tier), GiveUp> {
    let tier = failure.tier().ok_or(GiveUp::NotRetryable)?;
    let asked = hints.wait.filter(|wait| !wait.is_zero());
    let max = policy.max_wait.value;
    if hints.quota && tier == Tier::Rate {
        return Err(GiveUp::Quota);
    }
    if let Some(asked) = asked.filter(|asked| *asked > max) {
        return Err(GiveUp::BeyondMaxWait { asked, max });
    }
    match budget.commit {
        Commit::Nothing => {}
        Commit::HeldReasoning if policy.after_reasoning.value => {}
        Commit::HeldReasoning | Commit::Content => return Err(GiveUp::Committed),
    }
    if hints.should_retry == Some(false) {
        return Err(GiveUp::ProviderSaysNo);
    }
    if history.len() + 1 >= policy.attempts.value as usize {
        return Err(GiveUp::AttemptsSpent);
    }
    let earlier = earlier(history, tier);
    if earlier.saturating_add(1) >= policy.tries(tier) {
        return Err(GiveUp::TierSpent(tier));
    }

    let delay = policy.tier(tier);
    let after = match (asked, hints.wait) {
        (Some(asked), _) => lengthen(asked, random, JITTER_OF_ASKED, MOST_JITTER_OF_ASKED),
        (None, Some(_)) => lengthen(delay.delay(0), random, JITTER, Duration::MAX),
        (None, None) => lengthen(delay.delay(earlier), random, JITTER, Duration::MAX),
    };
    if let Limit::After(wall) = budget.wall_clock {
        let bound = failure.bound.and(failure.limit).unwrap_or_default();
        if budget.now.saturating_add(after).saturating_add(bound) >= wall {
            return Err(GiveUp::WallClock);
        }
    }
    if let Limit::After(max) = policy.max_total_wait.value {
        let waited = history
            .iter()
            .fold(after, |sum, past| sum.saturating_add(past.waited));
        if waited > max {
            return Err(GiveUp::TotalWait { max });
        }
    }
    Ok((after, tier))
}

/// Returns how many earlier attempts count against `tier`: of cuts, only those in a row.
fn earlier(history: &[Past], tier: Tier) -> u32 {
    let of_tier = |past: &&Past| past.code.tier() == Some(tier);
    let count = match tier {
        Tier::Cut => history.iter().rev().take_while(of_tier).count(),
        Tier::Overload | Tier::Rate | Tier::Transport => history.iter().filter(of_tier).count(),
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Lengthens `delay` by up to `share` of it and by no more than `most`.
fn lengthen(delay: Duration, random: f64, share: f64, most: Duration) -> Duration {
    // A random number that is none adds nothing.
    let random = if random.is_nan() {
        0.0
    } else {
        random.clamp(0.0, 1.0)
    };
    let longest = Duration::try_from_secs_f64(delay.as_secs_f64() * share).unwrap_or_default();
    delay.saturating_add(longest.min(most).mul_f64(random))
}

/// How much of our own delay jitter may add: enough that calls which failed together spread out.
const JITTER: f64 = 0.25;

/// How much of a wait that was asked for jitter may add: the provider has named the time, and
/// coming much later than that only costs the reader.
const JITTER_OF_ASKED: f64 = 0.05;

/// The most that jitter adds to a wait that was asked for, so that minutes of it do not grow by
/// many seconds.
const MOST_JITTER_OF_ASKED: Duration = Duration::from_secs(1);
