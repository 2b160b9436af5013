//! Records as rows.

use std::borrow::Cow;

use lifesign_core::{AttemptOutcome, BoundName, FailureReport, Usage};
use rusqlite::{Connection, ToSql};
use serde::Serialize;

use lifesign::records::{AttemptEnded, CallEnded, CallStarted, Record, words};

/// Writes one record. One that is there already stays as it is.
pub(super) fn insert(connection: &Connection, run: i64, record: &Record) -> rusqlite::Result<()> {
    match record {
        Record::Started(started) => insert_start(connection, run, started),
        Record::Attempt(ended) => insert_attempt(connection, ended),
        Record::Ended(ended) => {
            // Its start may have found no place.
            insert_start(connection, run, &ended.started)?;
            insert_end(connection, ended)
        }
    }
}

fn insert_start(connection: &Connection, run: i64, started: &CallStarted) -> rusqlite::Result<()> {
    let CallStarted {
        id,
        at,
        key,
        route,
        wire,
        model,
        streamed,
        method: _,
        max_tokens: _,
        trace: _,
    } = started;
    let at = at.as_millisecond();
    put(
        connection,
        "INSERT OR IGNORE INTO starts (id, run, at, key, route, wire, model, streamed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        &[id, &run, &at, key, route, wire, model, streamed],
    )
}

fn insert_end(connection: &Connection, ended: &CallEnded) -> rusqlite::Result<()> {
    let started = ended.started.at.as_millisecond();
    let at = started.saturating_add(int(ended.elapsed_ms));
    let why = Why::of(ended.failure.as_ref());
    let failure = ended.failure.as_ref().map(|failure| {
        json(&FailureReport {
            message: words(failure).into_owned(),
            ..failure.clone()
        })
    });
    let tokens = Tokens::of(ended.usage);
    put(
        connection,
        "INSERT OR IGNORE INTO ends (id, at, outcome, code, bound, limit_ms, setting, origin, phase,
             message, failure, upstream, upstream_model, profile, answered_by, finish_reason,
             input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, status, attempts,
             elapsed_ms, queued_ms, held_ms, retry_wait_ms, beats, bytes_out)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
             ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28)",
        &[
            &ended.started.id,
            &at,
            &ended.outcome.name(),
            &why.code,
            &why.bound,
            &why.limit_ms,
            &why.setting,
            &why.origin,
            &why.phase,
            &why.message,
            &failure,
            &ended.upstream,
            &ended.upstream_model,
            &ended.profile,
            &ended.answered_by,
            &ended.finish_reason,
            &tokens.input,
            &tokens.output,
            &tokens.cached_input,
            &tokens.reasoning,
            &ended.status,
            &int(ended.attempts.len()),
            &int(ended.elapsed_ms),
            &int(ended.queued_ms),
            &int(ended.held_ms),
            &int(ended.retry_wait_ms),
            &int(ended.beats),
            &int(ended.bytes_out),
        ],
    )
}

fn insert_attempt(connection: &Connection, ended: &AttemptEnded) -> rusqlite::Result<()> {
    let attempt = &ended.attempt;
    let why = Why::of(ended.failure.as_ref());
    let outcome = match attempt.outcome {
        AttemptOutcome::Completed => "completed",
        AttemptOutcome::Failed(code) => code.name(),
    };
    let gap = attempt.longest_gap_ms;
    let millis = lifesign_core::duration::whole_millis;
    let tokens = Tokens::of(attempt.usage);
    let cut = ended.cut_point.as_ref();
    put(
        connection,
        "INSERT OR IGNORE INTO attempts (call, n, at, upstream, model, profile, outcome, bound,
             limit_ms, setting, origin, phase, message, status, request_id, waited_ms, began_ms,
             sent_ms, headers_ms, first_byte_ms, first_content_ms, ended_ms, gap_raw_ms,
             gap_event_ms, gap_content_ms, gap_output_ms, gaps, bytes, frames, heartbeats_provider,
             heartbeats_comment, heartbeats_proxy, notices, late_ms, retry_after_ms, input_tokens,
             output_tokens, cached_input_tokens, reasoning_tokens, cut_bytes, cut_frames,
             cut_content_ms, cut_sequence)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
             ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35,
             ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43)",
        &[
            &ended.call,
            &attempt.n,
            &ended.at.as_millisecond(),
            &attempt.upstream,
            &ended.model,
            &ended.profile,
            &outcome,
            &why.bound,
            &why.limit_ms,
            &why.setting,
            &why.origin,
            &attempt.phase.name(),
            &why.message,
            &attempt.status,
            &attempt.request_id,
            &int(attempt.waited_ms),
            &int(ended.began_ms),
            &attempt.sent_ms.map(int),
            &attempt.headers_ms.map(int),
            &attempt.first_byte_ms.map(int),
            &attempt.first_content_ms.map(int),
            &int(attempt.ended_ms),
            &int(millis(gap.raw)),
            &int(millis(gap.event)),
            &int(millis(gap.content)),
            &int(millis(gap.output)),
            &json(&ended.gaps),
            &int(attempt.bytes),
            &int(attempt.frames),
            &int(attempt.heartbeats.provider),
            &int(attempt.heartbeats.comment),
            &int(attempt.heartbeats.proxy),
            &attempt.notices,
            &int(attempt.late_ms),
            &attempt.retry_after_ms.map(int),
            &tokens.input,
            &tokens.output,
            &tokens.cached_input,
            &tokens.reasoning,
            &cut.map(|cut| int(cut.bytes)),
            &cut.map(|cut| int(cut.frames)),
            &cut.map(|cut| int(cut.last_content_ms)),
            &cut.and_then(|cut| cut.sequence).map(int),
        ],
    )
}

/// What a failure says in columns of its own.
#[derive(Default)]
struct Why<'f> {
    code: Option<&'static str>,
    bound: Option<&'static str>,
    limit_ms: Option<i64>,
    setting: Option<&'f str>,
    origin: Option<&'f str>,
    phase: Option<&'static str>,
    /// Without what may repeat a prompt or an answer.
    message: Option<Cow<'f, str>>,
}

impl<'f> Why<'f> {
    fn of(failure: Option<&'f FailureReport>) -> Self {
        let Some(failure) = failure else {
            return Self::default();
        };
        Self {
            code: Some(failure.code.name()),
            bound: failure.bound.map(BoundName::name),
            limit_ms: failure.limit_ms.map(int),
            setting: failure.setting.as_deref(),
            origin: failure.origin.as_deref(),
            phase: Some(failure.phase.name()),
            message: Some(words(failure)),
        }
    }
}

/// Tokens; unknown is null.
#[derive(Default)]
struct Tokens {
    input: Option<i64>,
    output: Option<i64>,
    cached_input: Option<i64>,
    reasoning: Option<i64>,
}

impl Tokens {
    fn of(usage: Option<Usage>) -> Self {
        let Some(usage) = usage else {
            return Self::default();
        };
        Self {
            input: usage.input_tokens.map(int),
            output: usage.output_tokens.map(int),
            cached_input: usage.cached_input_tokens.map(int),
            reasoning: usage.reasoning_tokens.map(int),
        }
    }
}

fn put(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// SQLite knows no integer beyond this, and nothing that is counted here comes near.
fn int<T: TryInto<i64>>(count: T) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

fn json<T: Serialize>(value: &T) -> String {
    // Plain structs of texts and numbers: there is nothing that JSON could not say.
    serde_json::to_string(value).unwrap_or_default()
}
