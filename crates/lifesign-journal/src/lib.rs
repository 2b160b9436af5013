//! The journal: every call and attempt in an SQLite file, written beside the calls.
//!
//! A bounded channel leads to one thread that writes in batches. What finds no place in the channel
//! is dropped and counted; nobody who serves or makes a call ever waits for the disk. The tables are
//! described in `docs/reference/journal.md`.
//!
//! A [`Journal`] takes the records of a `lifesign::Client`, of a gateway, or of both.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, Thread};
use std::time::Duration;

use lifesign::records::{Record, Records};

use self::health::Health;
use self::retention::Retention;
use self::store::Store;
use self::writer::{Message, Writer};

pub use self::age::{age_text, parse_age};
pub use self::error::JournalError;
pub use self::health::{JournalHealth, JournalState};
pub use self::report::{
    AttemptCount, Bound, Calls, Discarded, FailureCount, Left, Lost, Place, Report, ReportFilter,
    Silence, Slow, TokenSum, Waits, report,
};

mod age;
mod error;
mod health;
mod report;
mod retention;
mod rows;
mod schema;
mod store;
mod writer;

/// Where a journal is, and how much of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalSettings {
    /// The file. Its directory must exist.
    pub path: PathBuf,
    /// How long calls are kept; `None` for as long as there is room.
    pub keep: Option<Duration>,
    /// The most bytes of the file; the oldest calls make room for new ones.
    pub max_size: u64,
}

impl JournalSettings {
    /// How long calls are kept where nobody says otherwise: 30 days.
    pub const KEEP: Duration = Duration::from_hours(24 * 30);
    /// The most bytes of a file where nobody says otherwise: 2 GiB.
    pub const MAX_SIZE: u64 = 2 << 30;

    /// A journal at `path` that keeps 30 days and 2 GiB.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            keep: Some(Self::KEEP),
            max_size: Self::MAX_SIZE,
        }
    }
}

/// Writes every record into an SQLite file.
///
/// # Example
///
/// This example shows a program that writes down every call of its client. A gateway inside of
/// another program takes a journal the same way, as `GatewayServer::embed(config, journal)`.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use lifesign::{CallRequest, Client, Request, Upstream, Wire};
/// use lifesign_journal::{Journal, JournalSettings, ReportFilter, report};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Arc::new(Journal::open(JournalSettings::new("calls.db"))?);
/// let client = Client::new()?.with_records(Arc::clone(&journal) as _);
///
/// let upstream = Upstream::new(Wire::OPENAI_CHAT, "http://127.0.0.1:8080")?;
/// let request = CallRequest::new(upstream, Request::prompt("any", "Say hello"));
/// let answered = client.answer(request).await;
///
/// // At the end of the program, and off the runtime where that serves others meanwhile.
/// assert!(journal.close());
/// let told = report("calls.db".as_ref(), &ReportFilter::default())?;
/// println!("{} of {} calls failed", told.calls.failed, told.calls.total);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Journal {
    messages: SyncSender<Message>,
    health: Arc<Health>,
    writer: Thread,
}

impl Journal {
    /// Opens the file, makes it where there is none, and starts the thread that writes.
    ///
    /// A disk that is full or broken is no error here: the journal begins once it can, and
    /// [`health`](Self::health) says so meanwhile.
    ///
    /// # Errors
    ///
    /// Returns an error where waiting would not help: the path leads nowhere, or to something that
    /// is not a journal this version knows.
    pub fn open(settings: JournalSettings) -> Result<Self, JournalError> {
        let health = Arc::new(Health::default());
        let retention = Retention {
            keep: settings.keep,
            max_size: settings.max_size,
        };
        let store = match Store::open(&settings.path) {
            Ok(store) => Some(store),
            Err(error) if error.may_pass() => {
                health.set_failing(&error);
                None
            }
            Err(error) => return Err(error),
        };
        let (messages, received) = sync_channel(CAPACITY);
        let writer = Writer::new(
            settings.path,
            retention,
            store,
            received,
            Arc::clone(&health),
        );
        let thread = thread::Builder::new()
            .name("lifesign-journal".to_owned())
            .spawn(move || writer.run())
            .map_err(JournalError::thread)?;
        Ok(Self {
            messages,
            health,
            writer: thread.thread().clone(),
        })
    }

    /// Says whether a journal can be kept at a path, without making one.
    ///
    /// # Errors
    ///
    /// Returns an error where [`open`](Self::open) would.
    pub fn check(path: &std::path::Path) -> Result<(), JournalError> {
        match Store::check(path) {
            Err(error) if !error.may_pass() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns how the writing goes.
    pub fn health(&self) -> JournalHealth {
        self.health.get()
    }

    /// Waits until everything recorded so far is in the file; returns whether it is.
    pub fn flush(&self) -> bool {
        self.ask(Message::Flush)
    }

    /// Writes what there is and ends the writing; returns whether everything is in the file.
    ///
    /// It waits for a few seconds at most. What is recorded later is lost.
    pub fn close(&self) -> bool {
        self.health.set_closing();
        self.ask(Message::Close)
    }

    fn ask(&self, message: fn(SyncSender<bool>) -> Message) -> bool {
        let (reply, answer) = sync_channel(1);
        let mut message = message(reply);
        self.health.set_awaited(true);
        for _ in 0..LOOKS {
            match self.messages.try_send(message) {
                Ok(()) => {
                    self.writer.unpark();
                    // Whoever does not answer has not written.
                    return answer.recv_timeout(LOOK * LOOKS).unwrap_or(false);
                }
                Err(TrySendError::Full(back)) => message = back,
                Err(TrySendError::Disconnected(_)) => return false,
            }
            thread::sleep(LOOK);
        }
        self.health.set_awaited(false);
        false
    }
}

impl Records for Journal {
    fn record(&self, record: &Record) {
        let message = Message::Record(Box::new(record.clone()));
        if self.messages.try_send(message).is_err() {
            self.health.note_dropped();
        }
    }
}

/// Records that wait to be written: two and a half seconds of 2,000 calls a second.
const CAPACITY: usize = 16_384;

/// How often, and with which pauses, a place in a full channel is looked for.
const LOOKS: u32 = 500;
const LOOK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
