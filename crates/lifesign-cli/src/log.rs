//! The log of `lifesign serve`: lines on standard error that nobody waits for.
//!
//! A terminal that is stopped, or a pipe that nobody reads, takes no more after a while. Whoever
//! wrote to it from where calls are served would stop with it, and make every upstream look silent.
//! So a thread of its own writes, and lines that find no place before it are lost, and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use lifesign_gateway::config::LogForm;
use tracing_subscriber::filter::LevelFilter;

/// Keeps the log; dropped, it writes what is left.
pub(crate) struct Log {
    lines: SyncSender<Line>,
    ended: Receiver<()>,
}

enum Line {
    Text(Vec<u8>),
    End,
}

/// Takes the lines of one event.
#[derive(Clone)]
struct LineWriter {
    lines: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

impl Log {
    /// Sends the log of this process to standard error, one line for each change of state.
    pub(crate) fn start(form: LogForm) -> io::Result<Self> {
        let (lines, to_write) = sync_channel(MOST_LINES);
        let (end, ended) = sync_channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = LineWriter {
            lines: lines.clone(),
            lost: Arc::clone(&lost),
        };
        thread::Builder::new()
            .name("lifesign-log".to_owned())
            .spawn(move || write(&to_write, &lost, &end))?;
        let layer = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_target(false)
            .with_max_level(LevelFilter::INFO);
        match form {
            LogForm::Human => layer.with_ansi(false).init(),
            LogForm::Json => layer.json().flatten_event(true).init(),
        }
        Ok(Self { lines, ended })
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        for _ in 0..LAST_LOOKS {
            match self.lines.try_send(Line::End) {
                Err(TrySendError::Full(_)) => thread::sleep(LAST_LOOK),
                Err(TrySendError::Disconnected(_)) => return,
                Ok(()) => {
                    // Whoever reads nothing does not keep the process.
                    let _late = self.ended.recv_timeout(LAST_LOOK * LAST_LOOKS);
                    return;
                }
            }
        }
    }
}

impl Write for LineWriter {
    /// Takes one event, which comes as a whole.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.try_send(Line::Text(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(lines: &Receiver<Line>, lost: &AtomicU64, end: &SyncSender<()>) {
    while let Ok(Line::Text(line)) = lines.recv() {
        // Without standard error there is nobody to tell.
        if io::stderr().write_all(&line).is_err() {
            continue;
        }
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(lines = lost, "lines of the log were lost: nobody read them");
        }
    }
    // The process may end without waiting.
    let _unheard = end.try_send(());
}

/// Lines that wait for whoever reads them: some hundred kilobytes.
const MOST_LINES: usize = 1_024;
/// How often, and with which pauses, the end of the log is tried to be written.
const LAST_LOOKS: u32 = 100;
const LAST_LOOK: Duration = Duration::from_millis(5);
