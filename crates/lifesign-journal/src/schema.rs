//! The tables, and how those of an earlier version become those of this one.

use rusqlite::Connection;

use super::JournalError;

/// Each step makes of a file of the version that is its index one of the next.
///
/// A step that was released is never changed.
pub(super) const STEPS: [&str; 2] = [V1, V2];

/// The version that this program writes.
pub(super) fn version() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// Brings a file to this version, in one transaction.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), JournalError> {
    let known = version();
    // Another process may do the same at this moment, so the version is read under its lock.
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let found = check(&transaction)?;
    let from = usize::try_from(found).unwrap_or(0);
    for step in STEPS.iter().skip(from) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

/// Returns the version of a file; an error where it is no journal that this program knows.
pub(super) fn check(connection: &Connection) -> Result<i64, JournalError> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (found, known) = (pragma("user_version")?, version());
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 && pragma("application_id")? != APPLICATION {
        return Err(JournalError::Foreign);
    }
    if found > known {
        return Err(JournalError::TooNew { found, known });
    }
    Ok(found)
}

/// What tells a journal from other files of SQLite: `lsgn`.
const APPLICATION: i64 = 0x6c73_676e;

/// Calls, attempts, runs of a gateway, and what was lost. Times are milliseconds since 1970, UTC.
const V1: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    began_at INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    stopped_at INTEGER
);
CREATE TABLE starts (
    id TEXT PRIMARY KEY,
    run INTEGER NOT NULL,
    at INTEGER NOT NULL,
    key TEXT,
    route TEXT NOT NULL,
    wire TEXT NOT NULL,
    model TEXT,
    streamed INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX starts_at ON starts (at);
CREATE TABLE ends (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    code TEXT,
    bound TEXT,
    limit_ms INTEGER,
    setting TEXT,
    origin TEXT,
    phase TEXT,
    message TEXT,
    failure TEXT,
    upstream TEXT,
    upstream_model TEXT,
    profile TEXT,
    answered_by TEXT,
    finish_reason TEXT,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cached_input_tokens INTEGER,
    reasoning_tokens INTEGER,
    status INTEGER,
    attempts INTEGER NOT NULL,
    elapsed_ms INTEGER NOT NULL,
    queued_ms INTEGER NOT NULL,
    held_ms INTEGER NOT NULL,
    retry_wait_ms INTEGER NOT NULL,
    beats INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL
);
CREATE INDEX ends_at ON ends (at);
CREATE TABLE attempts (
    call TEXT NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    upstream TEXT NOT NULL,
    model TEXT,
    profile TEXT NOT NULL,
    outcome TEXT NOT NULL,
    bound TEXT,
    limit_ms INTEGER,
    setting TEXT,
    origin TEXT,
    phase TEXT NOT NULL,
    message TEXT,
    status INTEGER,
    request_id TEXT,
    waited_ms INTEGER NOT NULL,
    began_ms INTEGER NOT NULL,
    sent_ms INTEGER,
    headers_ms INTEGER,
    first_byte_ms INTEGER,
    first_content_ms INTEGER,
    ended_ms INTEGER NOT NULL,
    gap_raw_ms INTEGER NOT NULL,
    gap_event_ms INTEGER NOT NULL,
    gap_content_ms INTEGER NOT NULL,
    gap_output_ms INTEGER NOT NULL,
    gaps TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    frames INTEGER NOT NULL,
    heartbeats_provider INTEGER NOT NULL,
    heartbeats_comment INTEGER NOT NULL,
    heartbeats_proxy INTEGER NOT NULL,
    notices INTEGER NOT NULL,
    late_ms INTEGER NOT NULL,
    retry_after_ms INTEGER,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cached_input_tokens INTEGER,
    reasoning_tokens INTEGER,
    PRIMARY KEY (call, n)
);
CREATE INDEX attempts_at ON attempts (at);
CREATE TABLE lost (
    at INTEGER NOT NULL,
    run INTEGER NOT NULL,
    records INTEGER NOT NULL
);
CREATE VIEW calls AS
    SELECT starts.id, starts.run, starts.at, key, route, wire, model, streamed,
           ends.at AS ended_at, outcome, code, bound, limit_ms, setting, origin, phase, message,
           failure, upstream, upstream_model, profile, answered_by, finish_reason, input_tokens,
           output_tokens, cached_input_tokens, reasoning_tokens, status, attempts, elapsed_ms,
           queued_ms, held_ms, retry_wait_ms, beats, bytes_out
    FROM starts LEFT JOIN ends USING (id);
";

/// Where answers broke off.
const V2: &str = "
ALTER TABLE attempts ADD COLUMN cut_bytes INTEGER;
ALTER TABLE attempts ADD COLUMN cut_frames INTEGER;
ALTER TABLE attempts ADD COLUMN cut_content_ms INTEGER;
ALTER TABLE attempts ADD COLUMN cut_sequence INTEGER;
";
