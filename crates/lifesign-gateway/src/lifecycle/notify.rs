//! What the service manager is told (`sd_notify(3)`). Without one every call does nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// The way to the service manager that started the process.
#[derive(Debug)]
pub(super) struct Notify {
    watchdog: Option<Duration>,
}

impl Notify {
    /// Finds it by `NOTIFY_SOCKET`, and the watchdog by `WATCHDOG_USEC`.
    pub(super) fn of_environment() -> Self {
        Self {
            watchdog: sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()),
        }
    }

    /// Returns within what the watchdog wants to hear of us.
    pub(super) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    pub(super) fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    pub(super) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            // A unit of `Type=notify-reload` needs to know when it began.
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "cannot read the clock of the service manager"),
        }
    }

    pub(super) fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    pub(super) fn alive(&self) {
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell the service manager");
    }
}
