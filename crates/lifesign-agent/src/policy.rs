//! What is done about failures below the transcript.
//!
//! The default is the tiers of the settings, over a whole turn: the count of cuts in a row goes on
//! from call to call. A host may decide by itself; then it is given that count.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lifesign::{Decide, Decision, FailedAttempt, Failure, GiveUp, Tier};

/// Decides what is done about failures that the transcript does not show.
///
/// # Example
///
/// This example shows a policy that gives up at the first overload, and else keeps to the tiers.
///
/// ```
/// use lifesign::{Decision, GiveUp, Tier};
/// use lifesign_agent::{ErrorPolicy, Fault};
///
/// struct Impatient;
///
/// impl ErrorPolicy for Impatient {
///     fn attempt(&self, fault: &Fault<'_>) -> Decision {
///         match fault.failed.failure.tier() {
///             Some(Tier::Overload) => Decision::GiveUp {
///                 reason: GiveUp::TierSpent(Tier::Overload),
///             },
///             _ => fault.by_tiers(),
///         }
///     }
/// }
/// ```
pub trait ErrorPolicy: Send + Sync {
    /// Decides whether an attempt that failed before content is made again.
    ///
    /// After content there is no second attempt, so it is not asked then; nor for a cut in a turn
    /// that was sent again and has not got through since.
    fn attempt(&self, fault: &Fault<'_>) -> Decision {
        fault.by_tiers()
    }

    /// Decides after how long a turn is sent again whose attempts were used up; `None` for not.
    ///
    /// `resends` is how often it was before. It is asked for failures that may pass; for cuts never.
    fn resend(&self, failure: &Failure, resends: u32) -> Option<Duration> {
        let _ = (failure, resends);
        None
    }
}

/// An attempt that failed before content.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Fault<'a> {
    /// The attempt, and what is left of its call.
    pub failed: &'a FailedAttempt<'a>,
    /// For a cut, how many there were in a row, this one included, in this turn: the count goes on
    /// from call to call. Else how many attempts of the call failed in the same tier, this one
    /// included.
    pub attempt: u32,
}

impl Fault<'_> {
    /// Returns what the settings' tiers decide.
    pub fn by_tiers(&self) -> Decision {
        let is_cut = self.failed.failure.tier() == Some(Tier::Cut);
        if is_cut && self.attempt >= self.failed.policy.tries(Tier::Cut) {
            return Decision::GiveUp {
                reason: GiveUp::TierSpent(Tier::Cut),
            };
        }
        self.failed.by_tiers()
    }
}

/// The tiers of the settings, and nothing sent again after them: for programs that run unattended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tiers;

impl ErrorPolicy for Tiers {}

/// The tiers of the settings, and the turn sent again after each of these waits once they are used
/// up. Default: after 2, 8 and 32 minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resend(pub Vec<Duration>);

impl Default for Resend {
    fn default() -> Self {
        Self([2, 8, 32].map(Duration::from_mins).into())
    }
}

impl ErrorPolicy for Resend {
    fn resend(&self, _: &Failure, resends: u32) -> Option<Duration> {
        self.0.get(usize::try_from(resends).ok()?).copied()
    }
}

/// Returns whether a turn that ended by `failure` may be sent again: the failure may pass, it is no
/// cut, and the provider said neither that it is settled nor when to come back.
pub(crate) const fn is_transient(failure: &Failure) -> bool {
    let is_used_up = matches!(
        failure.give_up,
        None | Some(
            GiveUp::AttemptsSpent
                | GiveUp::Committed
                | GiveUp::TierSpent(_)
                | GiveUp::TotalWait { .. }
        )
    );
    is_used_up
        && matches!(
            failure.tier(),
            Some(Tier::Transport | Tier::Overload | Tier::Rate)
        )
}

/// What a turn has been through. It lives as long as its turn, so that every way out of one ends it.
#[derive(Debug, Default)]
pub(crate) struct Strain {
    /// Cuts in a row.
    cuts: u32,
    /// Whether the turn was sent again and none of its rounds has run since.
    is_unproven: bool,
}

impl Strain {
    /// Takes in a failure of an attempt.
    ///
    /// A refusal that is sent again says nothing of whether the model gets through: it leaves the
    /// count as it is.
    fn handle_failure(&mut self, failure: &Failure) {
        match failure.tier() {
            Some(Tier::Cut) => self.cuts += 1,
            Some(Tier::Overload | Tier::Rate) => {}
            Some(Tier::Transport) | None => self.cuts = 0,
        }
    }
}

/// A policy over the attempts of one turn.
#[derive(Clone)]
pub(crate) struct Below {
    policy: Arc<dyn ErrorPolicy>,
    strain: Arc<Mutex<Strain>>,
}

impl Below {
    pub(crate) fn new(policy: Arc<dyn ErrorPolicy>) -> Self {
        Self {
            policy,
            strain: Arc::default(),
        }
    }

    /// Notes that a call is complete: a round has run.
    pub(crate) fn handle_complete(&self) {
        *self.strain() = Strain::default();
    }

    /// Notes that an answer broke off.
    pub(crate) fn handle_partial(&self, failure: &Failure, was_calling_tools: bool) {
        let mut strain = self.strain();
        strain.handle_failure(failure);
        if was_calling_tools {
            strain.is_unproven = false;
        }
    }

    /// Returns after how long the turn is sent again after `failure`, and notes that it will be.
    pub(crate) fn resend(&self, failure: &Failure, resends: u32) -> Option<Duration> {
        if !is_transient(failure) {
            return None;
        }
        let wait = self.policy.resend(failure, resends)?;
        *self.strain() = Strain {
            cuts: 0,
            is_unproven: true,
        };
        Some(wait)
    }

    fn strain(&self) -> MutexGuard<'_, Strain> {
        self.strain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Decide for Below {
    fn decide(&self, failed: &FailedAttempt<'_>) -> Decision {
        let tier = failed.failure.tier();
        let mut strain = self.strain();
        strain.handle_failure(failed.failure);
        if tier == Some(Tier::Cut) && strain.is_unproven {
            return Decision::GiveUp {
                reason: GiveUp::TierSpent(Tier::Cut),
            };
        }
        let attempt = if tier == Some(Tier::Cut) {
            strain.cuts
        } else {
            let same = failed.past.iter().filter(|past| past.code.tier() == tier);
            u32::try_from(same.count())
                .unwrap_or(u32::MAX)
                .saturating_add(1)
        };
        drop(strain);
        self.policy.attempt(&Fault { failed, attempt })
    }
}

impl fmt::Debug for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Below")
            .field("strain", &*self.strain())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
