//! Ctrl-C, being asked to terminate, and a terminal that goes away.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for the wish that the program end. From its making on no such wish kills the process.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
    /// Where a hangup is a wish at all.
    #[cfg(unix)]
    hangup: Option<Signal>,
}

impl Interrupts {
    /// Begins to listen.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
            #[cfg(unix)]
            hangup: if hangups_are_meant() {
                Some(signal(SignalKind::hangup())?)
            } else {
                None
            },
        })
    }

    /// Waits for the next one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses none.
    pub(crate) async fn next(&mut self) {
        self.next_wish().await;
    }

    /// Waits for the next one, and returns which it was.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses none.
    #[cfg(unix)]
    pub(crate) async fn next_wish(&mut self) -> Wish {
        tokio::select! {
            _ = self.terminate.recv() => Wish::Terminate,
            () = hung_up(self.hangup.as_mut()) => Wish::Terminate,
            _ = self.interrupt.recv() => Wish::Interrupt,
        }
    }

    /// Waits for the next one, and returns which it was.
    #[cfg(not(unix))]
    pub(crate) async fn next_wish(&mut self) -> Wish {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Wish::Interrupt
    }
}

/// Returns whether nobody has the program live on without its terminal, as `nohup` has: it ignores
/// the signal then, which whoever listens would end.
#[cfg(unix)]
fn hangups_are_meant() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_heeded(&status, SignalKind::hangup())
}

/// Returns whether a process of this `status` does not ignore `signal`; no where it does not tell.
#[cfg(unix)]
fn is_heeded(status: &str, signal: SignalKind) -> bool {
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (signal.as_raw_value() - 1)) == 0)
}

#[cfg(unix)]
async fn hung_up(hangup: Option<&mut Signal>) {
    match hangup {
        Some(hangup) => {
            hangup.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Waits for the program to go on after it was suspended.
#[derive(Debug)]
pub(crate) struct Returns {
    #[cfg(unix)]
    returns: Signal,
}

impl Returns {
    /// Begins to listen.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            returns: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }

    /// Waits for the next time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses none.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        self.returns.recv().await;
        #[cfg(not(unix))]
        std::future::pending::<()>().await;
    }
}

/// What somebody wants who does not want to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// What is under way should stop: Ctrl-C.
    Interrupt,
    /// The program should end.
    #[cfg_attr(
        not(unix),
        expect(dead_code, reason = "only Unix asks for it by a signal")
    )]
    Terminate,
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_that_is_ignored_stays_so_and_so_does_one_of_which_nothing_is_known() {
        let heeded = |status| is_heeded(status, SignalKind::hangup());

        assert!(heeded("Name:\tx\nSigIgn:\t0000000000001000\n"));
        assert!(!heeded("SigIgn:\t0000000000001001\n"));
        assert!(!heeded(""));
    }
}
