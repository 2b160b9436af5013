//! The thread that writes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::thread;
use std::time::Duration;

use lifesign::clock;
use tokio::time::Instant;

use super::JournalError;
use super::health::Health;
use super::retention::Retention;
use super::store::Store;
use lifesign::records::Record;

/// What the thread is told.
pub(super) enum Message {
    Record(Box<Record>),
    /// Answers once everything before it is written, or cannot be.
    Flush(SyncSender<bool>),
    /// The same, and the end.
    Close(SyncSender<bool>),
}

pub(super) struct Writer {
    path: PathBuf,
    retention: Retention,
    /// Closed while nothing can be written.
    store: Option<Store>,
    messages: Receiver<Message>,
    health: Arc<Health>,
    /// Taken from the channel and not written yet; at most [`BATCH`].
    pending: Vec<Record>,
    /// Whether the last batch was full, so that there is more already.
    is_behind: bool,
    /// Written since it was last looked at what is too much.
    unretained: usize,
    retain_at: Instant,
}

/// What ended the gathering of a batch.
enum Gathered {
    /// Time has passed, or there are enough.
    Batch,
    Flush(SyncSender<bool>),
    Close(SyncSender<bool>),
    /// Nobody is left who could record.
    Over,
}

impl Writer {
    pub(super) fn new(
        path: PathBuf,
        retention: Retention,
        store: Option<Store>,
        messages: Receiver<Message>,
        health: Arc<Health>,
    ) -> Self {
        Self {
            path,
            retention,
            store,
            messages,
            health,
            pending: Vec::with_capacity(BATCH),
            is_behind: false,
            unretained: 0,
            retain_at: clock::now(),
        }
    }

    pub(super) fn run(mut self) {
        loop {
            let gathered = self.gather();
            let is_written = self.write();
            if !is_written && self.health.is_closing() {
                self.end();
                return;
            }
            match gathered {
                Gathered::Batch => {
                    if is_written {
                        self.retain();
                    } else {
                        thread::sleep(RETRY);
                    }
                }
                Gathered::Flush(reply) => {
                    self.health.set_awaited(false);
                    answer(&reply, is_written);
                }
                Gathered::Close(reply) => {
                    // Whoever makes one call may never come to a batch.
                    self.retain();
                    self.end();
                    answer(&reply, is_written);
                    return;
                }
                Gathered::Over => {
                    self.end();
                    return;
                }
            }
        }
    }

    /// Waits for a first record, and then a little for more.
    fn gather(&mut self) -> Gathered {
        if self.pending.is_empty() {
            match self.messages.recv_timeout(IDLE) {
                Ok(Message::Record(record)) => self.pending.push(*record),
                Ok(Message::Flush(reply)) => return Gathered::Flush(reply),
                Ok(Message::Close(reply)) => return Gathered::Close(reply),
                Err(RecvTimeoutError::Timeout) => return Gathered::Batch,
                Err(RecvTimeoutError::Disconnected) => return Gathered::Over,
            }
            if !self.is_behind {
                self.linger();
            }
        }
        while self.pending.len() < BATCH {
            match self.messages.try_recv() {
                Ok(Message::Record(record)) => self.pending.push(*record),
                Ok(Message::Flush(reply)) => return Gathered::Flush(reply),
                Ok(Message::Close(reply)) => return Gathered::Close(reply),
                Err(TryRecvError::Empty) => return Gathered::Batch,
                Err(TryRecvError::Disconnected) => return Gathered::Over,
            }
        }
        Gathered::Batch
    }

    /// Waits for more, unless somebody waits for what there is.
    ///
    /// One wake-up for all records, and none of those who record has to give it.
    fn linger(&self) {
        let until = clock::now() + GATHER;
        while !self.health.is_awaited() {
            let left = until.saturating_duration_since(clock::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }

    /// Writes what is pending; returns whether it is in the file.
    fn write(&mut self) -> bool {
        match self.try_write() {
            Ok(()) => {
                self.is_behind = self.pending.len() >= BATCH;
                self.unretained += self.pending.len();
                self.pending.clear();
                self.health.set_written(!self.is_behind);
                true
            }
            Err(error) => {
                if !error.is_of_file() {
                    // Another try would end the same.
                    let lost = self.pending.len() as u64;
                    self.health.add_lost(lost);
                    self.pending.clear();
                }
                self.fail(&error);
                false
            }
        }
    }

    fn try_write(&mut self) -> Result<(), JournalError> {
        if self
            .store
            .as_ref()
            .is_some_and(|store| !store.is_in_place())
        {
            self.store = None;
        }
        let store = match &mut self.store {
            Some(store) => store,
            None => self.store.insert(Store::open(&self.path)?),
        };
        store.write(&self.pending, &self.health)
    }

    /// Removes what is too old or too much, from time to time.
    fn retain(&mut self) {
        if self.unretained < RETAIN_ROWS && clock::now() < self.retain_at {
            return;
        }
        self.unretained = 0;
        self.retain_at = clock::now() + RETAIN_EVERY;
        let retention = &self.retention;
        let retained = self.store.as_mut().map(|store| store.retain(retention));
        if let Some(Err(error)) = retained {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &JournalError) {
        self.store = None;
        self.health.set_failing(error);
    }

    fn end(&mut self) {
        self.health.add_lost(self.pending.len() as u64);
        if let Some(Err(error)) = self.store.as_mut().map(Store::end_run) {
            self.fail(&error);
        }
        // The last to close the file empties the write-ahead log into it.
        self.store = None;
    }
}

fn answer(reply: &SyncSender<bool>, is_written: bool) {
    // Whoever asked may have stopped waiting.
    let _gone = reply.try_send(is_written);
}

/// Records that are written at once, at most.
const BATCH: usize = 500;
/// How long more are waited for after the first: with the time of the writing itself, what a crash
/// can cost.
pub(super) const GATHER: Duration = Duration::from_millis(50);
/// How often it is noted that the program runs, though nothing happens.
const IDLE: Duration = Duration::from_secs(10);
/// When it is tried again to write.
const RETRY: Duration = Duration::from_secs(1);
/// How often it is looked at what is too old or too much, and after how many records at most.
const RETAIN_EVERY: Duration = Duration::from_mins(1);
const RETAIN_ROWS: usize = 5_000;
