//! The file of a journal.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use lifesign::clock;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use super::health::Health;
use super::retention::Retention;
use super::{JournalError, rows, schema};
use lifesign::records::Record;

/// An open journal.
#[derive(Debug)]
pub(super) struct Store {
    connection: Connection,
    path: PathBuf,
    /// This run of the program, to tell calls that a crash ended from calls under way.
    run: i64,
}

impl Store {
    /// Opens a journal, and makes it where there is none.
    pub(super) fn open(path: &Path) -> Result<Self, JournalError> {
        let until = clock::now() + BUSY;
        loop {
            match Self::try_open(path) {
                // While another process makes it, SQLite says so at once instead of waiting.
                Err(error) if error.is_busy() && clock::now() < until => thread::sleep(AGAIN),
                opened => return opened,
            }
        }
    }

    fn try_open(path: &Path) -> Result<Self, JournalError> {
        check_place(path)?;
        create(path)?;
        let mut connection = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(32);
        // It can be chosen before the first table alone.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update_and_check(None, "journal_size_limit", WAL_LIMIT, |_| Ok(()))?;
        schema::migrate(&mut connection)?;
        let run = begin_run(&connection)?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            run,
        })
    }

    /// Says whether what is at a path can be a journal.
    pub(super) fn check(path: &Path) -> Result<(), JournalError> {
        check_place(path)?;
        if fs::metadata(path).is_ok_and(|file| file.len() > 0) {
            schema::check(&open_to_read(path)?)?;
        }
        Ok(())
    }

    /// Writes these records and how many were lost, all or nothing.
    pub(super) fn write(
        &mut self,
        records: &[Record],
        health: &Health,
    ) -> Result<(), JournalError> {
        let run = self.run;
        let lost = health.take_untold();
        let written = (|| {
            let transaction = self.connection.transaction()?;
            for record in records {
                rows::insert(&transaction, run, record)?;
            }
            if lost > 0 {
                transaction
                    .prepare_cached("INSERT INTO lost (at, run, records) VALUES (?1, ?2, ?3)")?
                    .execute(params![now(), run, i64::try_from(lost).unwrap_or(i64::MAX)])?;
            }
            transaction
                .prepare_cached("UPDATE runs SET seen_at = ?1, stopped_at = NULL WHERE id = ?2")?
                .execute([now(), run])?;
            transaction.commit()
        })();
        if written.is_err() {
            health.return_untold(lost);
        }
        Ok(written?)
    }

    /// Removes what is too old or too much.
    pub(super) fn retain(&mut self, retention: &Retention) -> Result<(), JournalError> {
        Ok(retention.apply(&mut self.connection, now())?)
    }

    /// Returns whether the file is still where it was opened.
    pub(super) fn is_in_place(&self) -> bool {
        self.path.exists()
    }

    /// Notes that this run has ended in order.
    pub(super) fn end_run(&mut self) -> Result<(), JournalError> {
        let sql = "UPDATE runs SET seen_at = ?1, stopped_at = ?1 WHERE id = ?2";
        self.connection.execute(sql, [now(), self.run])?;
        Ok(())
    }
}

/// Opens a file that somebody else may be writing.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, JournalError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

pub(super) fn now() -> i64 {
    clock::timestamp().as_millisecond()
}

fn check_place(path: &Path) -> Result<(), JournalError> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    match fs::metadata(directory) {
        Ok(directory) if directory.is_dir() => {}
        Ok(_) => return Err(JournalError::path(path, "its directory is none")),
        Err(error) => {
            return Err(JournalError::path(
                path,
                format!("its directory cannot be used: {error}"),
            ));
        }
    }
    match fs::metadata(path) {
        Ok(file) if !file.is_file() => Err(JournalError::path(path, "is no file")),
        _ => Ok(()),
    }
}

/// Makes the file where there is none, for its owner alone: names of callers and models are in it.
fn create(path: &Path) -> Result<(), JournalError> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    match options.open(path) {
        Ok(_) => Ok(()),
        // A disk without room for a name has room later.
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => Ok(()),
        Err(error) => Err(JournalError::path(
            path,
            format!("cannot be written: {error}"),
        )),
    }
}

/// Returns the number of this run: that of its first opening where the file was opened before.
fn begin_run(connection: &Connection) -> Result<i64, JournalError> {
    let (pid, began) = (std::process::id(), *BEGAN);
    let sql = "SELECT id FROM runs WHERE began_at = ?1 AND pid = ?2";
    let known = connection
        .query_row(sql, params![began, pid], |row| row.get(0))
        .optional()?;
    if let Some(run) = known {
        return Ok(run);
    }
    connection.execute(
        "INSERT INTO runs (began_at, pid, version, seen_at) VALUES (?1, ?2, ?3, ?1)",
        params![began, pid, env!("CARGO_PKG_VERSION")],
    )?;
    Ok(connection.last_insert_rowid())
}

/// When this process first opened a journal.
static BEGAN: std::sync::LazyLock<i64> = std::sync::LazyLock::new(now);

/// How long another who writes is waited for.
const BUSY: Duration = Duration::from_secs(2);
/// How long it is waited before a file is opened again that another is making.
const AGAIN: Duration = Duration::from_millis(10);

/// The most that the write-ahead log keeps of the disk once it was emptied, in bytes.
const WAL_LIMIT: i64 = 16 << 20;
