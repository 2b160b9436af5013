//! The waits of a call and the quiet of its attempts: how long in all, and each for itself.

use lifesign_core::duration::whole_millis;
use lifesign_core::{FailureCode, Notice};

use super::{Call, State};
use crate::records::{Quiet, Wait, WaitFor};

impl Call {
    /// Notes that a wait begins; `why` tells what raised the hold, or failed the attempt before.
    pub(super) fn begin_wait(&mut self, why: Option<FailureCode>) {
        self.began_waiting = self.clock.elapsed();
        self.waits_because = why;
    }

    /// Notes that the wait under way, which was about the upstream `at`, has ended.
    pub(super) fn end_wait(&mut self, what: WaitFor, at: Option<usize>) {
        let (began, now) = (self.began_waiting, self.clock.elapsed());
        let waited = now.saturating_sub(began);
        let times = &mut self.times;
        *match what {
            WaitFor::Turn => &mut times.queued,
            WaitFor::Hold => &mut times.held,
            WaitFor::Retry => &mut times.retry_wait,
        } += waited;
        if whole_millis(waited) == 0 || self.times.waits.len() >= MOST_WAITS {
            return;
        }
        let upstream = at.and_then(|at| self.target_name(at)).map(str::to_owned);
        self.times.waits.push(Wait {
            wait: what,
            upstream,
            why: self.waits_because.take(),
            began_ms: whole_millis(began),
            ended_ms: whole_millis(now),
        });
    }

    /// Notes that the content of the attempt under way is quiet.
    pub(super) fn note_quiet(&mut self, notice: &Notice) {
        let at_ms = whole_millis(self.clock.elapsed());
        let State::Attempting(attempting) = &mut self.state else {
            return;
        };
        if attempting.quiet.len() < MOST_NOTICES {
            attempting.quiet.push(Quiet {
                at_ms,
                number: notice.number,
                phase: notice.phase,
                clocks_ms: notice.ages,
            });
        }
    }
}

/// Waits of one call that are written down each for itself.
const MOST_WAITS: usize = 100;
/// Notices of one attempt, likewise.
const MOST_NOTICES: usize = 100;
