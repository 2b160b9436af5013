//! Ctrl-C, and being asked to terminate.

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
}

impl Interrupts {
    /// Begins to listen.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
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
