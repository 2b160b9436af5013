//! The waits of a call: how long they were in all, and each for itself.

use lifesign_core::FailureCode;
use lifesign_core::duration::whole_millis;

use super::Call;
use crate::records::{Wait, WaitFor};

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
}

/// Waits of one call that are written down each for itself.
const MOST_WAITS: usize = 100;
