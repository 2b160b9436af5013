//! How much of a journal is kept.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};

/// How much of a journal is kept.
#[derive(Clone, Debug)]
pub(super) struct Retention {
    pub(super) keep: Option<Duration>,
    pub(super) max_size: u64,
}

impl Retention {
    /// Removes the oldest rows until the rest is neither too old nor too much.
    ///
    /// It goes in small steps, and stops after some: records wait meanwhile.
    pub(super) fn apply(&self, connection: &mut Connection, now: i64) -> rusqlite::Result<()> {
        let keep = self
            .keep
            .and_then(|keep| i64::try_from(keep.as_millis()).ok());
        let cutoff = keep.map_or(i64::MIN, |keep| now.saturating_sub(keep));
        // A little more than must be goes, so that not every record has to make room for itself.
        let is_too_much = used(connection)? > self.max_size;
        let enough = self.max_size - self.max_size / 10;
        for _ in 0..MOST_STEPS {
            let Some(step) = oldest(connection)? else {
                break;
            };
            if step <= cutoff || is_too_much && used(connection)? > enough {
                remove(connection, step)?;
            } else if first(connection)?.is_some_and(|first| first <= cutoff) {
                remove(connection, cutoff)?;
            } else {
                break;
            }
        }
        if file_len(connection)? > self.max_size {
            // The statement gives back a page with each row.
            let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
            let mut pages = vacuum.query([])?;
            while pages.next()?.is_some() {}
        }
        Ok(())
    }
}

/// Returns the time of the row that is the last of one step, counted from the oldest.
fn oldest(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT max(at) FROM (
                 SELECT at FROM starts UNION ALL SELECT at FROM ends UNION ALL
                 SELECT at FROM attempts ORDER BY at LIMIT ?1)",
        )?
        .query_row([STEP], |row| row.get(0))
}

fn first(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection
        .query_row("SELECT at FROM starts ORDER BY at LIMIT 1", [], |row| {
            row.get(0)
        })
        .optional()
}

/// Removes everything up to a time. Of a call that began before and ended later the end goes later.
fn remove(connection: &mut Connection, until: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for sql in [
        "DELETE FROM starts WHERE at <= ?1",
        "DELETE FROM ends WHERE at <= ?1",
        "DELETE FROM attempts WHERE at <= ?1",
        "DELETE FROM lost WHERE at <= ?1",
        "DELETE FROM runs WHERE seen_at <= ?1",
    ] {
        transaction.prepare_cached(sql)?.execute([until])?;
    }
    transaction.commit()
}

/// Returns how many bytes of the file are in use.
fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let free = pragma(connection, "freelist_count")? * pragma(connection, "page_size")?;
    Ok(file_len(connection)?.saturating_sub(free))
}

fn file_len(connection: &Connection) -> rusqlite::Result<u64> {
    Ok(pragma(connection, "page_count")? * pragma(connection, "page_size")?)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    let count: i64 = connection.pragma_query_value(None, name, |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Rows of one step.
const STEP: i64 = 500;
/// Steps before records have their turn again.
const MOST_STEPS: usize = 50;
/// Pages that are given back to the disk at once.
const PAGES: u32 = 2_000;
