//! A timer that a busy stream never touches.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock::CallClock;

/// Sleeps to a deadline that keeps moving away.
///
/// Progress moves deadlines later, and a later deadline does not re-arm the timer: it fires at the
/// old one, and whoever polls it looks again. Only an earlier deadline costs work.
pub struct LazyTimer {
    clock: CallClock,
    sleep: Option<Pin<Box<Sleep>>>,
    armed_for: Option<Duration>,
}

impl LazyTimer {
    /// Returns a timer on `clock` that is not armed.
    pub const fn new(clock: CallClock) -> Self {
        Self {
            clock,
            sleep: None,
            armed_for: None,
        }
    }

    /// Returns ready at `due` or before, as a reason to look at the clock again.
    pub fn poll(&mut self, due: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                if self.armed_for.is_none_or(|armed_for| armed_for > due) {
                    sleep.as_mut().reset(self.clock.instant(due));
                    self.armed_for = Some(due);
                }
                sleep
            }
            empty @ None => {
                self.armed_for = Some(due);
                empty.insert(Box::pin(sleep_until(self.clock.instant(due))))
            }
        };
        let fired = sleep.as_mut().poll(cx);
        if fired.is_ready() {
            self.armed_for = None;
        }
        fired
    }
}

impl fmt::Debug for LazyTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyTimer")
            .field("armed_for", &self.armed_for)
            .finish_non_exhaustive()
    }
}

/// Polls `timer` for `until`, making or moving it where it stands elsewhere.
pub(crate) fn poll_at(
    timer: &mut Option<Pin<Box<Sleep>>>,
    until: Instant,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
    if timer.deadline() != until {
        timer.as_mut().reset(until);
    }
    timer.as_mut().poll(cx)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_later_deadline_does_not_move_the_timer_and_an_earlier_one_does() {
        let clock = CallClock::start();
        let mut timer = LazyTimer::new(clock);

        let at = |seconds| Duration::from_secs(seconds);
        assert!(
            poll_fn(|cx| Poll::Ready(timer.poll(at(10), cx)))
                .await
                .is_pending()
        );
        assert!(
            poll_fn(|cx| Poll::Ready(timer.poll(at(60), cx)))
                .await
                .is_pending()
        );
        assert_eq!(timer.armed_for, Some(at(10)));
        poll_fn(|cx| timer.poll(at(60), cx)).await;
        assert_eq!(clock.elapsed().as_secs(), 10);

        assert!(
            poll_fn(|cx| Poll::Ready(timer.poll(at(60), cx)))
                .await
                .is_pending()
        );
        poll_fn(|cx| timer.poll(at(20), cx)).await;
        assert_eq!(clock.elapsed().as_secs(), 20);
    }
}
