//! Whether, when and in whose name a call is attempted again.
//!
//! [`decide`] is a pure function of the history of the call, the failure at hand, what the provider
//! asked for, the budget that is left and a random number. It sleeps for nobody and remembers
//! nothing, so that a schedule can be tested, explained and replayed.

mod decide;
mod hint;
mod policy;
mod prose;

pub use decide::{Budget, Commit, Decision, GiveUp, Past, decide};
pub use hint::{BodyHints, Hints};
pub use policy::{RetryPolicy, Tier, TierPolicy, Tries};
pub use prose::{parse_wait, wait_in_prose};
