//! Who decides whether an attempt that failed is made again.

use lifesign_core::{Budget, Decision, Failure, Hints, Past, RetryPolicy};

/// Decides, in the place of the settings' tiers, whether failed attempts are made again.
///
/// It is asked after each attempt that failed before content. After content there is never a second
/// attempt, so it is not asked then. Holds, fresh connections and the books stay the client's.
pub trait Decide: Send + Sync {
    /// Returns what follows on the attempt that failed.
    fn decide(&self, failed: &FailedAttempt<'_>) -> Decision;
}

/// An attempt that failed before content, and what is left of its call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FailedAttempt<'a> {
    /// Why it failed.
    pub failure: &'a Failure,
    /// What the provider asked for.
    pub hints: &'a Hints,
    /// The attempts of the call that failed before it, oldest first.
    pub past: &'a [Past],
    /// The time that is left.
    pub budget: &'a Budget,
    /// The tiers that the settings give.
    pub policy: &'a RetryPolicy,
    /// From 0 to 1: the jitter.
    pub random: f64,
}

impl<'a> FailedAttempt<'a> {
    /// Returns the first attempt of a call, without jitter: for tests of a [`Decide`].
    pub const fn new(
        failure: &'a Failure,
        hints: &'a Hints,
        budget: &'a Budget,
        policy: &'a RetryPolicy,
    ) -> Self {
        Self {
            failure,
            hints,
            past: &[],
            budget,
            policy,
            random: 0.0,
        }
    }

    /// Returns what the settings' tiers decide.
    pub fn by_tiers(&self) -> Decision {
        lifesign_core::decide(
            self.policy,
            self.past,
            self.failure,
            self.hints,
            self.budget,
            self.random,
        )
    }
}
