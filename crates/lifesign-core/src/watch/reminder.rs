//! When notices are due.

use std::time::Duration;

use crate::Notices;

/// The notices given during one quiet of the content clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reminder {
    notices: Notices,
    /// The start of the quiet that the rest of this is about.
    since: Option<Duration>,
    given: u32,
    due: Option<Duration>,
    interval: Duration,
}

impl Reminder {
    pub(super) const fn new(notices: Notices) -> Self {
        Self {
            notices,
            since: None,
            given: 0,
            due: None,
            interval: Duration::ZERO,
        }
    }

    /// Returns when the next notice of a quiet that began at `since` is due.
    pub(super) fn due(&self, since: Duration) -> Option<Duration> {
        if self.since == Some(since) {
            self.due
        } else {
            since.checked_add(self.first()?)
        }
    }

    /// Returns the number of the notice that is due by `now` in a quiet that began at `since`.
    ///
    /// However many were missed, one is given.
    pub(super) fn give(&mut self, since: Duration, now: Duration) -> Option<u32> {
        let due = self.due(since).filter(|due| *due <= now)?;
        if self.since != Some(since) {
            self.since = Some(since);
            self.given = 0;
            self.interval = self.first()?;
        }
        self.given = self.given.saturating_add(1);
        self.interval = self.following();
        self.due = due
            .checked_add(self.interval)
            .filter(|next| *next > now)
            .or_else(|| now.checked_add(self.interval));
        Some(self.given)
    }

    const fn first(&self) -> Option<Duration> {
        match self.notices {
            Notices::Doubling { first, .. } | Notices::Every(first) if !first.is_zero() => {
                Some(first)
            }
            Notices::Doubling { .. } | Notices::Every(_) | Notices::Off => None,
        }
    }

    fn following(&self) -> Duration {
        match self.notices {
            Notices::Doubling { first, cap } => self.interval.saturating_mul(2).min(cap.max(first)),
            Notices::Every(_) | Notices::Off => self.interval,
        }
    }
}
