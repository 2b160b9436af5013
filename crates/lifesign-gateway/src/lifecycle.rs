//! The life of the process: signals, the configuration file, the service manager.
//!
//! It knows no settings. What a reload does is the business of a [`Reload`]; here is only when.

use std::{fmt, io, path::Path, time::Duration};

use lifesign::clock;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep_until},
};

use self::file::Watched;
use crate::chain::Chain;
use crate::server::{Drain, Pulse, Stage};

mod file;
mod notify;

/// What puts a changed configuration in force.
pub(crate) trait Reload {
    /// Reads the configuration again and puts it in force as a whole, or says why it stays as it
    /// was.
    fn reload(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// What the process listens to beside its sockets.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    signals: Signals,
    file: Option<Watched>,
}

impl Lifecycle {
    /// Begins to listen; from here on a signal does not end the process by itself. Belongs before
    /// the sockets are opened. `file` is the configuration to watch, as it was just read.
    ///
    /// # Errors
    ///
    /// Says which signal cannot be listened to.
    pub(crate) fn start(file: Option<&Path>) -> io::Result<Self> {
        Ok(Self {
            signals: Signals::start()?,
            file: file.map(|path| Watched::new(path.to_owned())),
        })
    }

    /// Tells the service manager that the sockets are open, and then turns what happens into
    /// drains and reloads until serving ends. Runs beside [`Server::run`](crate::server::Server),
    /// and is dropped when that returns.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped at any time; then nothing is listened to any more.
    pub(crate) async fn run(
        mut self,
        drain: Drain,
        patience: Duration,
        pulse: Pulse,
        reload: &mut impl Reload,
    ) {
        notify::ready();
        let mut asked = 0_u32;
        let mut look_at = clock::now() + FILE_LOOK;
        let watchdog = notify::watchdog();
        let mut pat_at = watchdog.map(|every| clock::now() + every / 2);
        loop {
            let happened = tokio::select! {
                biased;
                happened = self.signals.next() => happened,
                () = drained(&drain, asked) => Happened::Drained,
                () = sleep_until(look_at), if self.file.is_some() => Happened::Look,
                () = sleep_or_never(pat_at) => Happened::Pat,
            };
            match happened {
                Happened::End(name) => {
                    asked += 1;
                    tracing::info!(signal = name, asked, "asked to end");
                    end(&drain, asked, patience);
                }
                Happened::Drained => {
                    // Something else than a signal has asked.
                    asked += 1;
                    notify::stopping();
                }
                // Nothing new begins, so nothing would be served by it.
                Happened::Reload(_) if asked > 0 => {}
                Happened::Reload(why) => self.reload(why, reload),
                Happened::Look => {
                    look_at = clock::now() + FILE_LOOK;
                    if asked == 0 && self.file.as_mut().is_some_and(Watched::has_changed) {
                        self.reload(Why::File, reload);
                    }
                }
                Happened::Pat => {
                    if let Some(limit) = watchdog {
                        pat_at = Some(clock::now() + limit / 2);
                        pat(&pulse, limit);
                    }
                }
            }
        }
    }

    fn reload(&mut self, why: Why, reload: &mut impl Reload) {
        notify::reloading();
        // What is read now is what changes are counted from, whatever woke us.
        if let Some(file) = &mut self.file {
            file.mark_read();
        }
        match reload.reload() {
            Ok(()) => tracing::info!(%why, "configuration reloaded"),
            Err(error) => {
                tracing::error!(%why, error = %Chain(&*error), "configuration stays as it was");
            }
        }
        notify::ready();
    }
}

/// The first word drains; the second ends what still runs.
fn end(drain: &Drain, asked: u32, patience: Duration) {
    if asked == 1 {
        drain.begin(patience);
        notify::stopping();
    } else {
        drain.end_now();
    }
}

fn pat(pulse: &Pulse, limit: Duration) {
    if pulse.is_alive(limit.max(LEAST_PULSE)) {
        notify::alive();
    } else {
        tracing::error!(
            ?limit,
            "a worker stands still: the watchdog is not told otherwise"
        );
    }
}

enum Happened {
    /// Somebody else has begun to drain.
    Drained,
    End(&'static str),
    /// It is time to look at the file.
    Look,
    /// It is time to tell the watchdog.
    Pat,
    Reload(Why),
}

#[derive(Clone, Copy, Debug)]
enum Why {
    File,
    Signal,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "file changed",
            Self::Signal => "SIGHUP",
        })
    }
}

#[derive(Debug)]
struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn start() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Happened {
        tokio::select! {
            _ = self.interrupt.recv() => Happened::End("SIGINT"),
            _ = self.terminate.recv() => Happened::End("SIGTERM"),
            _ = self.hangup.recv() => Happened::Reload(Why::Signal),
        }
    }
}

async fn drained(drain: &Drain, asked: u32) {
    if asked > 0 {
        std::future::pending::<()>().await;
    }
    drain.reached(Stage::Draining).await;
}

async fn sleep_or_never(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// How often the file is looked at. Watching it instead would miss what is mounted over it.
const FILE_LOOK: Duration = Duration::from_secs(1);
/// Workers show each second that they move, however impatient the watchdog is.
const LEAST_PULSE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
