//! The log of `lifesign serve` and `lifesign run`: lines on standard error that nobody waits for.
//!
//! Only our own lines are in it: what others log of what they carry may be a secret.
//!
//! A terminal that is stopped, or a pipe that nobody reads, takes no more after a while. Whoever
//! wrote to it from where calls are served would stop with it, and make every upstream look silent.
//! So a thread of its own writes, and lines that find no place before it are lost, and counted. It
//! rests between its writes: to be woken for every line would cost calls more than the line does.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lifesign_gateway::config::LogForm;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::json::JsonLines;

mod json;

/// The levels by their names, the least telling one first.
pub(crate) const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// Keeps the log; dropped, it writes what is left.
pub(crate) struct Log {
    desk: Arc<Desk>,
}

/// Where lines wait for the thread that writes them.
#[derive(Default)]
struct Desk {
    waiting: Mutex<Waiting>,
    /// Tells the writer that there is something to do, and whoever ends the log that all is done.
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    /// How many lines found no place.
    lost: u64,
    /// How much text the writer waits to be told of, while it waits.
    wakes_at: Option<usize>,
    /// Whether no more lines come.
    is_closed: bool,
    /// Whether everything is written.
    is_done: bool,
}

/// Takes the lines of one event.
#[derive(Clone)]
struct LineWriter {
    desk: Arc<Desk>,
}

impl Log {
    /// Sends the log of this process to standard error, as far as it is of `level`.
    pub(crate) fn start(form: LogForm, level: LevelFilter) -> io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let (ours, theirs) = (Arc::clone(&desk), Arc::clone(&desk));
        thread::Builder::new()
            .name("lifesign-log".to_owned())
            .spawn(move || ours.write_to(&mut io::stderr(), PAUSE))?;
        let layer = tracing_subscriber::fmt()
            .with_writer(move || LineWriter {
                desk: Arc::clone(&theirs),
            })
            .with_target(false)
            .with_max_level(level);
        let ours = Targets::new().with_target(OURS, level);
        match form {
            LogForm::Human => layer.with_ansi(false).finish().with(ours).init(),
            LogForm::Json => layer.event_format(JsonLines).finish().with(ours).init(),
        }
        Ok(Self { desk })
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let mut waiting = self.desk.waiting();
        waiting.is_closed = true;
        self.desk.changed.notify_all();
        // Whoever reads nothing does not keep the process.
        let _ended = self
            .desk
            .changed
            .wait_timeout_while(waiting, AT_LAST, |waiting| !waiting.is_done);
    }
}

impl Write for LineWriter {
    /// Takes one event, which comes as a whole.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.desk.take(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Desk {
    fn take(&self, line: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.text.len() + line.len() > MOST_BYTES {
            waiting.lost += 1;
            return;
        }
        waiting.text.extend_from_slice(line);
        let len = waiting.text.len();
        if waiting.wakes_at.take_if(|at| *at <= len).is_some() {
            drop(waiting);
            self.changed.notify_all();
        }
    }

    /// Writes what comes until the log is closed, and rests for so long after each time, unless much
    /// comes meanwhile.
    fn write_to(&self, out: &mut impl Write, pause: Duration) {
        let mut text = Vec::new();
        loop {
            let mut waiting = self.waiting();
            while waiting.text.is_empty() && !waiting.is_closed {
                waiting.wakes_at = Some(1);
                let woken = self.changed.wait(waiting);
                waiting = woken.unwrap_or_else(PoisonError::into_inner);
            }
            if waiting.text.is_empty() {
                waiting.is_done = true;
                drop(waiting);
                self.changed.notify_all();
                return;
            }
            std::mem::swap(&mut waiting.text, &mut text);
            drop(waiting);
            let written = out.write_all(&text);
            text.clear();
            text.shrink_to(MUCH_BYTES);
            // Without standard error there is nobody to tell.
            if written.is_ok() {
                let lost = std::mem::take(&mut self.waiting().lost);
                if lost > 0 {
                    tracing::warn!(lines = lost, "lines of the log were lost: nobody read them");
                }
            }
            self.rest(pause);
        }
    }

    /// Waits until much is to be written, the log is closed, or `pause` is over.
    fn rest(&self, pause: Duration) {
        let mut waiting = self.waiting();
        waiting.wakes_at = Some(MUCH_BYTES);
        let is_early = |waiting: &mut Waiting| waiting.wakes_at.is_some() && !waiting.is_closed;
        let rested = self.changed.wait_timeout_while(waiting, pause, is_early);
        let (mut waiting, _) = rested.unwrap_or_else(PoisonError::into_inner);
        waiting.wakes_at = None;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Each change is whole before anything that could panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the names of our own modules begin with.
const OURS: &str = "lifesign";
/// What waits for whoever reads it.
const MOST_BYTES: usize = 256 * 1024;
/// So much is written at once.
const MUCH_BYTES: usize = 64 * 1024;
/// How long lines are gathered before they are written, at most: no reader is faster.
const PAUSE: Duration = Duration::from_millis(10);
/// How long the end of the log is waited for.
const AT_LAST: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Keeps each write, and says of the first that it has begun.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_wait_are_written_at_once_and_all_of_them() {
        let desk = Desk::default();
        for line in [&b"one\n"[..], b"two\n", b"three\n"] {
            desk.take(line);
        }
        desk.waiting().is_closed = true;
        let mut writes = Writes::default();

        desk.write_to(&mut writes, Duration::ZERO);

        assert_eq!(writes.0, [b"one\ntwo\nthree\n"]);
        assert!(desk.waiting().is_done);
    }

    #[test]
    fn a_line_that_comes_while_nobody_writes_wakes_the_writer() {
        let desk = Arc::new(Desk::default());
        let ours = Arc::clone(&desk);
        let writer = thread::spawn(move || {
            let mut writes = Writes::default();
            ours.write_to(&mut writes, Duration::ZERO);
            writes.0.concat()
        });
        let is_idle = || desk.waiting().wakes_at == Some(1);
        while !is_idle() {
            thread::yield_now();
        }

        desk.take(b"one\n");
        while !is_idle() {
            thread::yield_now();
        }
        desk.take(b"two\n");
        desk.waiting().is_closed = true;
        desk.changed.notify_all();

        assert_eq!(writer.join().expect("the writer ends"), b"one\ntwo\n");
    }

    #[test]
    fn much_wakes_a_writer_that_rests() {
        let desk = Arc::new(Desk::default());
        let ours = Arc::clone(&desk);
        let resting = thread::spawn(move || ours.rest(Duration::from_hours(1)));
        while desk.waiting().wakes_at.is_none() {
            thread::yield_now();
        }

        desk.take(b"little\n");
        assert_eq!(desk.waiting().wakes_at, Some(MUCH_BYTES));
        desk.take(&vec![b'a'; MUCH_BYTES]);

        resting.join().expect("the rest ends");
    }

    #[test]
    fn a_line_that_finds_no_place_is_lost_whole_and_counted() {
        let desk = Desk::default();
        desk.take(&vec![b'a'; MOST_BYTES - 1]);

        desk.take(b"bc");
        desk.take(b"d");

        let waiting = desk.waiting();
        assert_eq!(waiting.text.len(), MOST_BYTES);
        assert_eq!(waiting.text.last(), Some(&b'd'));
        assert_eq!(waiting.lost, 1);
    }
}
