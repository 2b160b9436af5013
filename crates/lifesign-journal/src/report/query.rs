//! What a report asks of a journal, a statement for each table.

use jiff::Timestamp;
use rusqlite::{Connection, Row, named_params};

use super::{
    AttemptCount, Bound, Calls, Discarded, FailureCount, Left, Lost, Place, ReportFilter, Silence,
    Slow, TokenSum, Waits,
};

/// Notes the calls of the filter in a table of this connection alone, and in another those under
/// way that may be at the upstream of the filter: whom an attempt asks is written when it ends.
pub(super) fn choose(
    connection: &Connection,
    filter: &ReportFilter,
    since: Option<i64>,
) -> Rusqlite<()> {
    connection.execute_batch(
        "PRAGMA temp_store = MEMORY;
         CREATE TEMP TABLE chosen (id TEXT PRIMARY KEY) WITHOUT ROWID;
         CREATE TEMP TABLE unplaced (id TEXT PRIMARY KEY) WITHOUT ROWID;
         CREATE TEMP VIEW wanted AS SELECT id FROM chosen UNION ALL SELECT id FROM unplaced;",
    )?;
    let is_at = "upstream = :upstream OR EXISTS
        (SELECT 1 FROM attempts WHERE call = id AND attempts.upstream = :upstream)";
    for (table, place) in [
        ("chosen", format!("(:upstream IS NULL OR {is_at})")),
        (
            "unplaced",
            format!("outcome IS NULL AND :upstream IS NOT NULL AND NOT coalesce({is_at}, 0)"),
        ),
    ] {
        let sql = format!(
            "INSERT INTO {table} SELECT id FROM calls WHERE at >= :since
                 AND (:key IS NULL OR key = :key)
                 AND (:model IS NULL OR model = :model OR upstream_model = :model OR EXISTS
                     (SELECT 1 FROM attempts WHERE call = id AND attempts.model = :model))
                 AND (:code IS NULL OR code = :code OR EXISTS
                     (SELECT 1 FROM attempts WHERE call = id AND attempts.outcome = :code))
                 AND {place}"
        );
        connection.execute(
            &sql,
            named_params! {
                ":since": since.unwrap_or(i64::MIN),
                ":key": filter.key,
                ":model": filter.model,
                ":upstream": filter.upstream,
                ":code": filter.code,
            },
        )?;
    }
    Ok(())
}

pub(super) fn calls(connection: &Connection, until: i64) -> Rusqlite<Calls> {
    let mut calls = Calls::default();
    let mut statement = connection.prepare(
        "SELECT coalesce(outcome, CASE WHEN EXISTS (SELECT 1 FROM runs WHERE runs.id = run
                 AND stopped_at IS NULL AND seen_at >= ?1) THEN 'in_flight' ELSE 'unknown' END),
             id IN (SELECT id FROM unplaced), count(*)
         FROM wanted JOIN calls USING (id) GROUP BY 1, 2",
    )?;
    let mut rows = statement.query([until.saturating_sub(UNSEEN_MS)])?;
    while let Some(row) = rows.next()? {
        let count = count(row, 2)?;
        calls.total += count;
        match row.get_ref(0)?.as_str()? {
            "completed" => calls.completed += count,
            "truncated" => calls.truncated += count,
            "cancelled" => calls.cancelled += count,
            "in_flight" => calls.in_flight += count,
            "unknown" => calls.unknown += count,
            _ => calls.failed += count,
        }
        if row.get(1)? {
            calls.unplaced += count;
        }
    }
    Ok(calls)
}

pub(super) fn by_code(connection: &Connection) -> Rusqlite<Vec<FailureCount>> {
    list(
        connection,
        "WITH failed AS (
             SELECT code, upstream, 1 AS calls, attempts = 0 AS unsent, 0 AS attempts, at, message,
                 NULL AS asked
             FROM chosen JOIN ends USING (id) WHERE code IS NOT NULL
             UNION ALL
             SELECT outcome, upstream, 0, 0, 1, at, message, retry_after_ms
             FROM chosen JOIN attempts ON call = id WHERE outcome <> 'completed')
         SELECT code, upstream, sum(calls), sum(attempts), min(at), max(at),
             (SELECT message FROM failed AS other
              WHERE other.code = failed.code AND other.upstream IS failed.upstream
              ORDER BY at DESC, attempts DESC LIMIT 1),
             max(asked), sum(unsent)
         FROM failed GROUP BY 1, 2 ORDER BY 3 DESC, 4 DESC, 1, 2",
        |row| {
            Ok(FailureCount {
                code: row.get(0)?,
                upstream: row.get(1)?,
                calls: count(row, 2)?,
                attempts: count(row, 3)?,
                first: time(row.get(4)?),
                last: time(row.get(5)?),
                message: row.get(6)?,
                longest_retry_after_ms: maybe(row, 7)?,
                unsent: count(row, 8)?,
            })
        },
    )
}

pub(super) fn places(connection: &Connection, column: &str) -> Rusqlite<Vec<Place>> {
    let sql = format!(
        "WITH asked AS (
             SELECT {column} AS name, outcome, at, first_content_ms - began_ms AS first,
                 iif(outcome = 'completed', ended_ms - began_ms, NULL) AS took,
                 outcome NOT IN ('completed', 'cancelled') AS failed
             FROM chosen JOIN attempts ON call = id),
         ranked AS (
             SELECT name, first, row_number() OVER (PARTITION BY name ORDER BY first) AS place,
                 count(*) OVER (PARTITION BY name) AS count
             FROM asked WHERE first IS NOT NULL),
         whole AS (
             SELECT name, took, row_number() OVER (PARTITION BY name ORDER BY took) AS place,
                 count(*) OVER (PARTITION BY name) AS count
             FROM asked WHERE took IS NOT NULL)
         SELECT name, count(*), sum(failed), sum(outcome = 'cancelled'),
             (SELECT outcome FROM asked AS other WHERE other.name IS asked.name AND other.failed
              GROUP BY outcome ORDER BY count(*) DESC, outcome LIMIT 1),
             max(iif(outcome = 'completed', at, NULL)),
             (SELECT first FROM ranked WHERE ranked.name IS asked.name AND place = (count + 1) / 2),
             (SELECT took FROM whole WHERE whole.name IS asked.name AND place = (count + 1) / 2),
             max(took)
         FROM asked GROUP BY name ORDER BY 3 DESC, 2 DESC, 1"
    );
    list(connection, &sql, |row| {
        Ok(Place {
            name: row.get(0)?,
            attempts: count(row, 1)?,
            failed: count(row, 2)?,
            left: count(row, 3)?,
            mostly: row.get(4)?,
            last_completed: row.get::<_, Option<i64>>(5)?.map(time),
            first_content_ms: maybe(row, 6)?,
            median_ms: maybe(row, 7)?,
            longest_ms: maybe(row, 8)?,
        })
    })
}

pub(super) fn by_bound(connection: &Connection) -> Rusqlite<Vec<Bound>> {
    list(
        connection,
        "WITH cuts AS (SELECT name, count(*) AS count, upstream, limit_ms, setting, origin,
             max(at), message FROM (
             SELECT coalesce(bound, outcome) AS name, upstream, limit_ms, setting, origin, at, message
             FROM chosen JOIN attempts ON call = id
             WHERE bound IS NOT NULL OR setting IS NOT NULL
             UNION ALL
             SELECT coalesce(bound, code), upstream, limit_ms, setting, origin, at, message
             FROM chosen JOIN ends USING (id)
             WHERE (bound IS NOT NULL OR setting IS NOT NULL) AND NOT EXISTS
                 (SELECT 1 FROM attempts WHERE call = id AND attempts.bound IS ends.bound
                      AND attempts.setting IS ends.setting))
         GROUP BY name, upstream, limit_ms, setting, origin)
         SELECT name, count, upstream, limit_ms, setting, origin,
             (SELECT max(CASE name
                  WHEN 'before_content' THEN first_content_ms - sent_ms
                  WHEN 'between_events' THEN gap_event_ms
                  WHEN 'connect' THEN sent_ms - began_ms
                  WHEN 'flat' THEN gap_event_ms
                  WHEN 'headers' THEN headers_ms - sent_ms
                  WHEN 'lifetime' THEN ended_ms
                  WHEN 'raw_silence' THEN gap_raw_ms
                  WHEN 'reasoning_only' THEN gap_output_ms
                  WHEN 'wall_clock' THEN ended_ms
                  WHEN 'whole_call' THEN ended_ms - sent_ms END)
              FROM chosen JOIN attempts ON call = id
              WHERE outcome = 'completed' AND attempts.upstream IS cuts.upstream),
             message
         FROM cuts ORDER BY 2 DESC, 1, 3",
        |row| {
            Ok(Bound {
                bound: row.get(0)?,
                cuts: count(row, 1)?,
                upstream: row.get(2)?,
                limit_ms: maybe(row, 3)?,
                setting: row.get(4)?,
                origin: row.get(5)?,
                longest_completed_ms: maybe(row, 6)?,
                message: row.get(7)?,
            })
        },
    )
}

pub(super) fn slowest(connection: &Connection) -> Rusqlite<Vec<Slow>> {
    list(
        connection,
        "SELECT id, at, key, upstream, model, coalesce(code, outcome), attempts, elapsed_ms,
             queued_ms + held_ms + retry_wait_ms
         FROM (SELECT *, outcome = 'completed' AS is_whole, row_number() OVER
                 (PARTITION BY outcome = 'completed' ORDER BY elapsed_ms DESC, id) AS place
             FROM chosen JOIN calls USING (id) WHERE outcome IS NOT NULL)
         WHERE place <= 10 ORDER BY is_whole DESC, place",
        |row| {
            Ok(Slow {
                call: row.get(0)?,
                at: time(row.get(1)?),
                key: row.get(2)?,
                upstream: row.get(3)?,
                model: row.get(4)?,
                ended: row.get(5)?,
                attempts: count(row, 6)?,
                elapsed_ms: count(row, 7)?,
                waited_ms: count(row, 8)?,
            })
        },
    )
}

pub(super) fn silences(connection: &Connection) -> Rusqlite<Vec<Silence>> {
    let mut silences = Vec::new();
    for clock in ["raw", "content"] {
        let column = format!("gap_{clock}_ms");
        let sql = format!(
            "SELECT {column}, gaps, call, n, upstream, model, outcome
             FROM chosen JOIN attempts ON call = id WHERE {column} > 0
             ORDER BY {column} DESC, call LIMIT 5"
        );
        silences.extend(list(connection, &sql, |row| {
            Ok(Silence {
                clock: clock.to_owned(),
                longest_ms: count(row, 0)?,
                phase: phase_of(row.get_ref(1)?.as_str()?, clock),
                call: row.get(2)?,
                n: count(row, 3)?,
                upstream: row.get(4)?,
                model: row.get(5)?,
                outcome: row.get(6)?,
            })
        })?);
    }
    Ok(silences)
}

/// Returns the phase in which a clock stood longest.
fn phase_of(gaps: &str, clock: &str) -> Option<String> {
    let gaps: serde_json::Map<String, serde_json::Value> = serde_json::from_str(gaps).ok()?;
    let longest = |gaps: &serde_json::Value| gaps[clock]["longest_ms"].as_u64();
    let of_phase = gaps
        .iter()
        .filter_map(|(phase, gaps)| Some((longest(gaps)?, phase)));
    of_phase.max().map(|(_, phase)| phase.clone())
}

pub(super) fn waits(connection: &Connection) -> Rusqlite<Vec<Waits>> {
    list(
        connection,
        "SELECT upstream, count(nullif(queued_ms, 0)), max(queued_ms), count(nullif(held_ms, 0)),
             max(held_ms), count(nullif(retry_wait_ms, 0)), max(retry_wait_ms)
         FROM chosen JOIN ends USING (id) WHERE queued_ms + held_ms + retry_wait_ms > 0
         GROUP BY upstream ORDER BY sum(queued_ms + held_ms + retry_wait_ms) DESC, 1",
        |row| {
            Ok(Waits {
                upstream: row.get(0)?,
                queued: count(row, 1)?,
                longest_queued_ms: count(row, 2)?,
                held: count(row, 3)?,
                longest_held_ms: count(row, 4)?,
                retried: count(row, 5)?,
                longest_retry_ms: count(row, 6)?,
            })
        },
    )
}

pub(super) fn left(connection: &Connection) -> Rusqlite<Vec<Left>> {
    list(
        connection,
        "WITH gone AS (
             SELECT key, upstream, elapsed_ms, NOT EXISTS
                 (SELECT 1 FROM attempts WHERE call = id AND first_content_ms IS NOT NULL) AS early,
                 row_number() OVER (PARTITION BY key, upstream ORDER BY elapsed_ms) AS place,
                 count(*) OVER (PARTITION BY key, upstream) AS count
             FROM chosen JOIN calls USING (id) WHERE outcome = 'cancelled')
         SELECT key, upstream, count(*), sum(early), min(elapsed_ms),
             max(iif(place = (count + 1) / 2, elapsed_ms, NULL)), max(elapsed_ms)
         FROM gone GROUP BY key, upstream ORDER BY 3 DESC, 1, 2",
        |row| {
            Ok(Left {
                key: row.get(0)?,
                upstream: row.get(1)?,
                calls: count(row, 2)?,
                before_content: count(row, 3)?,
                shortest_ms: count(row, 4)?,
                median_ms: count(row, 5)?,
                longest_ms: count(row, 6)?,
            })
        },
    )
}

pub(super) fn attempts(connection: &Connection) -> Rusqlite<Vec<AttemptCount>> {
    list(
        connection,
        "SELECT attempts, count(*) FROM chosen JOIN ends USING (id) GROUP BY 1 ORDER BY 1",
        |row| {
            Ok(AttemptCount {
                attempts: count(row, 0)?,
                calls: count(row, 1)?,
            })
        },
    )
}

pub(super) fn tokens(connection: &Connection) -> Rusqlite<TokenSum> {
    connection.query_row(
        "SELECT count(*), sum(input_tokens IS NULL AND output_tokens IS NULL), sum(input_tokens),
             sum(output_tokens)
         FROM chosen JOIN attempts ON call = id WHERE outcome = 'completed'",
        [],
        |row| {
            Ok(TokenSum {
                attempts: count(row, 0)?,
                unknown: count(row, 1)?,
                input_tokens: count(row, 2)?,
                output_tokens: count(row, 3)?,
            })
        },
    )
}

/// A request that was not sent, or that was answered with an error, is not paid for.
pub(super) fn discarded(connection: &Connection) -> Rusqlite<Vec<Discarded>> {
    list(
        connection,
        "SELECT upstream, sum(NOT told), sum(told),
             sum(input_tokens IS NULL AND output_tokens IS NULL), sum(input_tokens),
             sum(output_tokens)
         FROM (
             SELECT upstream, input_tokens, output_tokens, cut_bytes IS NOT NULL AND NOT EXISTS
                 (SELECT 1 FROM attempts AS later WHERE later.call = id AND later.n > attempts.n)
                 AS told
             FROM chosen JOIN attempts ON call = id
             WHERE outcome <> 'completed' AND sent_ms IS NOT NULL
                 AND (status IS NULL OR status < 300))
         GROUP BY upstream ORDER BY 2 + 3 DESC, 1",
        |row| {
            Ok(Discarded {
                upstream: row.get(0)?,
                attempts: count(row, 1)?,
                partial: count(row, 2)?,
                unknown: count(row, 3)?,
                input_tokens: count(row, 4)?,
                output_tokens: count(row, 5)?,
            })
        },
    )
}

pub(super) fn lost(connection: &Connection, since: Option<i64>) -> Rusqlite<Lost> {
    let sql = "SELECT sum(records) FROM lost WHERE at >= ?1";
    connection.query_row(sql, [since.unwrap_or(i64::MIN)], |row| {
        Ok(Lost {
            records: count(row, 0)?,
        })
    })
}

fn list<T>(
    connection: &Connection,
    sql: &str,
    read: impl FnMut(&Row<'_>) -> Rusqlite<T>,
) -> Rusqlite<Vec<T>> {
    connection.prepare(sql)?.query_map([], read)?.collect()
}

/// Reads a sum or count; that of nothing is 0.
fn count(row: &Row<'_>, column: usize) -> Rusqlite<u64> {
    Ok(maybe(row, column)?.unwrap_or(0))
}

fn maybe(row: &Row<'_>, column: usize) -> Rusqlite<Option<u64>> {
    let value: Option<i64> = row.get(column)?;
    Ok(value.and_then(|value| u64::try_from(value).ok()))
}

pub(super) fn time(at: i64) -> Timestamp {
    Timestamp::from_millisecond(at).unwrap_or_default()
}

pub(super) fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) type Rusqlite<T> = rusqlite::Result<T>;

/// A gateway that has not noted for so long that it runs does not run.
const UNSEEN_MS: i64 = 30_000;
