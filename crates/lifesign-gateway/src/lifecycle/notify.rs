//! What the service manager is told (`sd_notify(3)`). Without one every call does nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// Returns within what the watchdog wants to hear of us (`WATCHDOG_USEC`), if there is one.
pub(super) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero())
}

pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        // A unit of `Type=notify-reload` needs to know when it began.
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "cannot read the clock of the service manager"),
    }
}

pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot tell the service manager");
    }
}
