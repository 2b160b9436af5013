//! Records as spans: one for each call, and below it one for each attempt.
//!
//! Every attribute and event is described in `docs/reference/traces.md`.

use std::time::Duration;

use jiff::Timestamp;
use lifesign::trace_context::{CallTrace, SpanId};
use lifesign_core::duration::whole_millis;
use lifesign_core::{Ages, AttemptOutcome, AttemptRecord, FailureCode, FailureReport, Tier, Usage};

use super::attributes::{Attributes, cut};
use super::otlp::{Event, Span, SpanKind, Status, StatusCode};
use crate::records::{AttemptEnded, CallEnded, Quiet, Record, Wait, WaitFor, words};
use crate::semconv;

/// Returns the span that a record tells of, if it tells of one and its trace is to be seen.
pub(super) fn of(record: &Record) -> Option<Span> {
    match record {
        // The end tells everything once more.
        Record::Started(_) => None,
        Record::Attempt(ended) => of_attempt(ended),
        Record::Ended(ended) => of_call(ended),
    }
}

/// Returns whether a record tells of a span that is to be seen.
pub(super) fn is_seen(record: &Record) -> bool {
    let trace = match record {
        Record::Started(_) => None,
        Record::Attempt(ended) => ended.trace.as_ref().map(|trace| &trace.call),
        Record::Ended(ended) => ended.started.trace.as_deref(),
    };
    trace.is_some_and(CallTrace::is_sampled)
}

fn of_call(ended: &CallEnded) -> Option<Span> {
    let started = &ended.started;
    let trace = started.trace.as_deref().filter(|it| it.is_sampled())?;
    let times = Times(started.at);
    let operation = semconv::operation(&started.route);
    let failure = ended.failure.as_ref();
    let mut attributes = Attributes::default()
        .with("http.request.method", &*started.method)
        .with("url.path", &*started.route)
        .with("http.response.status_code", ended.status)
        .with("error.type", failure.map(|failure| failure.code.name()))
        .with("gen_ai.operation.name", operation)
        .with("gen_ai.request.model", started.model.as_deref());
    if operation.is_some() {
        attributes.add("gen_ai.provider.name", ended.provider);
        attributes.add("gen_ai.request.stream", started.streamed);
        attributes.add("gen_ai.request.max_tokens", started.max_tokens);
        attributes.add("gen_ai.response.id", ended.answer_id.as_deref());
        attributes.add("gen_ai.response.model", ended.answered_by.as_deref());
        let reason = ended.finish_reason.as_deref();
        attributes.add("gen_ai.response.finish_reasons", reason.map(|it| [it]));
    }
    let attributes = attributes
        .with("lifesign.call.id", &*started.id)
        .with("lifesign.outcome", ended.outcome.name())
        .with("lifesign.wire", &*started.wire)
        .with("lifesign.key.name", started.key.as_deref())
        .with("lifesign.upstream.name", ended.upstream.as_deref())
        .with("lifesign.upstream.model", ended.upstream_model.as_deref())
        .with("lifesign.profile", ended.profile.as_deref())
        .with("lifesign.attempts", ended.attempts.len() as u64)
        .with("lifesign.queued_ms", ended.queued_ms)
        .with("lifesign.held_ms", ended.held_ms)
        .with("lifesign.retry_wait_ms", ended.retry_wait_ms)
        .with("lifesign.beats", ended.beats)
        .with("lifesign.bytes_out", ended.bytes_out);
    let mut events: Vec<_> = ended.waits.iter().map(|it| waited(times, it)).collect();
    // What cut an attempt stands at the attempt.
    let is_of_attempt = ended.attempts.last().is_some_and(|it| it.bound.is_some());
    if let Some(failure) = failure.filter(|_| !is_of_attempt) {
        events.extend(cut_by(times, ended.elapsed_ms, failure));
    }
    // A caller's own doing is no error of whoever serves it.
    let status = failure
        .filter(|failure| !matches!(failure.code, FailureCode::Cancelled | FailureCode::Rejected));
    let subject = started.model.as_deref();
    Some(Span {
        name: name(operation, subject, &started.method),
        kind: SpanKind::Server.into(),
        parent_span_id: bytes(trace.parent_span_id),
        start_time_unix_nano: times.at(0),
        end_time_unix_nano: times.at(ended.elapsed_ms),
        attributes: attributes.into_vec(),
        events,
        status: status.map(failed),
        flags: flags(trace, trace.parent_span_id.is_some()),
        ..span(trace, trace.span_id)
    })
}

fn of_attempt(ended: &AttemptEnded) -> Option<Span> {
    let trace = ended.trace.as_ref().filter(|it| it.call.is_sampled())?;
    let AttemptEnded {
        attempt,
        asked,
        answered,
        ..
    } = ended;
    let times = Times(ended.call_at);
    let operation = semconv::operation(&ended.route);
    let failure = ended.failure.as_ref();
    let since = |at: Option<u64>| at.map(|at| at.saturating_sub(ended.began_ms));
    let mut attributes = Attributes::default()
        .with("server.address", &*asked.host)
        .with("server.port", asked.port)
        .with("http.response.status_code", attempt.status)
        .with(
            "http.request.resend_count",
            attempt.n.checked_sub(1).filter(|n| *n > 0),
        )
        .with("error.type", failure.map(|failure| failure.code.name()))
        .with("gen_ai.operation.name", operation)
        .with("gen_ai.request.model", ended.model.as_deref());
    if operation.is_some() {
        attributes.add("gen_ai.provider.name", asked.provider);
        attributes.add("gen_ai.request.stream", asked.streamed);
        attributes.add("gen_ai.request.max_tokens", asked.max_tokens);
        attributes.add("gen_ai.response.id", answered.id.as_deref());
        attributes.add("gen_ai.response.model", answered.model.as_deref());
        let reason = answered.finish_reason.as_deref();
        attributes.add("gen_ai.response.finish_reasons", reason.map(|it| [it]));
        // Only streams have a first chunk.
        let first = since(attempt.first_byte_ms).filter(|_| attempt.frames > 0);
        let first = first.map(|ms| Duration::from_millis(ms).as_secs_f64());
        attributes.add("gen_ai.response.time_to_first_chunk", first);
        attributes = used(attributes, attempt.usage);
    }
    let beats = attempt.heartbeats;
    let attributes = attributes
        .with("lifesign.call.id", &*ended.call)
        .with("lifesign.attempt.number", attempt.n)
        .with("lifesign.upstream.name", &*attempt.upstream)
        .with("lifesign.profile", &*ended.profile)
        .with("lifesign.phase", attempt.phase.name())
        .with("lifesign.request_id", attempt.request_id.as_deref())
        .with("lifesign.waited_ms", attempt.waited_ms)
        .with("lifesign.sent_ms", since(attempt.sent_ms))
        .with("lifesign.headers_ms", since(attempt.headers_ms))
        .with("lifesign.first_byte_ms", since(attempt.first_byte_ms))
        .with("lifesign.first_content_ms", since(attempt.first_content_ms))
        .with("lifesign.bytes", attempt.bytes)
        .with("lifesign.frames", attempt.frames)
        .with("lifesign.heartbeats.provider", beats.provider)
        .with("lifesign.heartbeats.comment", beats.comment)
        .with("lifesign.heartbeats.proxy", beats.proxy)
        .with("lifesign.notices", attempt.notices)
        .with("lifesign.late_ms", attempt.late_ms);
    let attributes = ages(attributes, "lifesign.longest_gap", &attempt.longest_gap_ms);
    let mut events: Vec<_> = ended.quiet.iter().map(|it| quiet(times, it)).collect();
    if let Some(failure) = failure {
        events.extend(cut_by(times, attempt.ended_ms, failure));
    }
    events.extend(raised_hold(times, attempt));
    let status = failure.filter(|failure| failure.code != FailureCode::Cancelled);
    Some(Span {
        name: name(operation, ended.model.as_deref(), &asked.method),
        kind: SpanKind::Client.into(),
        parent_span_id: bytes(Some(trace.call.span_id)),
        start_time_unix_nano: times.at(ended.began_ms),
        end_time_unix_nano: times.at(attempt.ended_ms),
        attributes: attributes.into_vec(),
        dropped_events_count: attempt.notices.saturating_sub(count(ended.quiet.len())),
        events,
        status: status.map(failed),
        flags: flags(&trace.call, false),
        ..span(&trace.call, trace.span_id)
    })
}

/// Moments of a call, as OTLP wants them.
#[derive(Clone, Copy)]
struct Times(Timestamp);

impl Times {
    /// Returns the nanoseconds since 1970 of a moment that is counted from the call's beginning.
    fn at(self, ms: u64) -> u64 {
        let began = u64::try_from(self.0.as_nanosecond()).unwrap_or_default();
        began.saturating_add(ms.saturating_mul(1_000_000))
    }
}

fn span(trace: &CallTrace, id: SpanId) -> Span {
    Span {
        trace_id: trace.trace_id.as_bytes().to_vec(),
        span_id: bytes(Some(id)),
        trace_state: trace.state.as_deref().unwrap_or_default().to_owned(),
        ..Span::default()
    }
}

fn bytes(id: Option<SpanId>) -> Vec<u8> {
    id.map(|id| id.as_bytes().to_vec()).unwrap_or_default()
}

/// Returns the flags of the trace, and whether the parent is another process's.
fn flags(trace: &CallTrace, is_remote: bool) -> u32 {
    let remote = if is_remote { IS_REMOTE } else { 0 };
    u32::from(trace.flags) | KNOWS_REMOTE | remote
}

/// Returns `chat MODEL`, or the method where it is no work of a model's: a path may hold an id.
fn name(operation: Option<&str>, model: Option<&str>, method: &str) -> String {
    match (operation, model) {
        (Some(operation), Some(model)) => format!("{operation} {}", cut(model)),
        (Some(operation), None) => operation.to_owned(),
        (None, _) => method.to_owned(),
    }
}

fn failed(failure: &FailureReport) -> Status {
    Status {
        message: cut(&words(failure)).to_owned(),
        code: StatusCode::Error.into(),
    }
}

fn used(attributes: Attributes, usage: Option<Usage>) -> Attributes {
    let usage = usage.unwrap_or_default();
    attributes
        .with("gen_ai.usage.input_tokens", usage.input_tokens)
        .with("gen_ai.usage.output_tokens", usage.output_tokens)
        .with(
            "gen_ai.usage.cache_read.input_tokens",
            usage.cached_input_tokens,
        )
        .with(
            "gen_ai.usage.reasoning.output_tokens",
            usage.reasoning_tokens,
        )
}

fn waited(times: Times, wait: &Wait) -> Event {
    let name = match wait.wait {
        WaitFor::Turn => "lifesign.wait.turn",
        WaitFor::Hold => "lifesign.wait.hold",
        WaitFor::Retry => "lifesign.wait.retry",
    };
    let waited_ms = wait.ended_ms.saturating_sub(wait.began_ms);
    let attributes = Attributes::default()
        .with("lifesign.waited_ms", waited_ms)
        .with("lifesign.upstream.name", wait.upstream.as_deref())
        .with("lifesign.why", wait.why.map(FailureCode::name));
    event(times, wait.began_ms, name, attributes)
}

fn quiet(times: Times, quiet: &Quiet) -> Event {
    let attributes = Attributes::default()
        .with("lifesign.notice.number", quiet.number)
        .with("lifesign.phase", quiet.phase.name());
    let attributes = ages(attributes, "lifesign.clock", &quiet.clocks_ms);
    event(times, quiet.at_ms, "lifesign.notice", attributes)
}

/// Returns the event of a bound that ran out, if one did.
fn cut_by(times: Times, at_ms: u64, failure: &FailureReport) -> Option<Event> {
    let attributes = Attributes::default()
        .with("lifesign.bound", failure.bound?.name())
        .with("lifesign.limit_ms", failure.limit_ms)
        .with("lifesign.setting", failure.setting.as_deref())
        .with("lifesign.origin", failure.origin.as_deref())
        .with("lifesign.phase", failure.phase.name())
        .with("lifesign.code", failure.code.name());
    let attributes = ages(attributes, "lifesign.clock", &failure.clocks_ms);
    Some(event(times, at_ms, "lifesign.cut", attributes))
}

/// Returns the event of a hold that an attempt raised, if it did: it was refused for load or rate,
/// with a wait.
fn raised_hold(times: Times, attempt: &AttemptRecord) -> Option<Event> {
    let AttemptOutcome::Failed(code) = attempt.outcome else {
        return None;
    };
    if !matches!(code.tier(), Some(Tier::Overload | Tier::Rate)) {
        return None;
    }
    let asked_ms = attempt.retry_after_ms.filter(|asked| *asked > 0)?;
    let attributes = Attributes::default()
        .with("lifesign.hold_ms", asked_ms)
        .with("lifesign.upstream.name", &*attempt.upstream)
        .with("lifesign.why", code.name());
    Some(event(times, attempt.ended_ms, "lifesign.hold", attributes))
}

fn ages(attributes: Attributes, prefix: &str, ages: &Ages) -> Attributes {
    let of = |name: &str| format!("{prefix}.{name}_ms");
    attributes
        .with(&of("raw"), whole_millis(ages.raw))
        .with(&of("event"), whole_millis(ages.event))
        .with(&of("content"), whole_millis(ages.content))
        .with(&of("output"), whole_millis(ages.output))
}

fn event(times: Times, at_ms: u64, name: &str, attributes: Attributes) -> Event {
    Event {
        time_unix_nano: times.at(at_ms),
        name: name.to_owned(),
        attributes: attributes.into_vec(),
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Bits of OTLP's `SpanFlags`: that it is known whether the parent is remote, and that it is.
const KNOWS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

#[cfg(test)]
mod tests;
