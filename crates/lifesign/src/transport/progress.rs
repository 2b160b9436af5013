//! How far the opening of a connection has got, for whoever judges it meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use lifesign_core::Stage;

/// How far the opening of a connection has got. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct ConnectProgress(Arc<AtomicU8>);

impl ConnectProgress {
    /// Makes one for an opening that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the stage under way; `None` before the first, while queued, and for a connection
    /// that was open already.
    pub fn stage(&self) -> Option<Stage> {
        match self.0.load(Ordering::Relaxed) {
            DNS => Some(Stage::Dns),
            TCP => Some(Stage::Tcp),
            PROXY => Some(Stage::Proxy),
            TLS => Some(Stage::Tls),
            _ => None,
        }
    }

    /// Whether an open HTTP/2 connection is waited for, which runs no bound but the wall clock.
    pub fn is_queued(&self) -> bool {
        self.0.load(Ordering::Relaxed) == QUEUED
    }

    pub(super) fn reach(&self, stage: Stage) {
        let code = match stage {
            Stage::Dns => DNS,
            Stage::Tcp => TCP,
            Stage::Proxy => PROXY,
            Stage::Tls => TLS,
        };
        self.0.store(code, Ordering::Relaxed);
    }

    pub(super) fn queue(&self) {
        self.0.store(QUEUED, Ordering::Relaxed);
    }

    /// Shows what another opening, which this one waits for, has got to.
    pub(super) fn follow(&self, other: &Self) {
        self.0
            .store(other.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

const DNS: u8 = 1;
const TCP: u8 = 2;
const PROXY: u8 = 3;
const TLS: u8 = 4;
const QUEUED: u8 = 5;
