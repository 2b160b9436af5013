//! What is written down of calls, and the lines of the log that are made of it.

use lifesign_core::duration::whole_millis;
use lifesign_core::{AttemptOutcome, FailureCode};

pub(crate) use lifesign::records::words;
pub use lifesign::records::{
    Answered, Asked, AttemptEnded, BeatForms, CallEnded, CallStarted, CutPoint, Quiet, Record,
    Records, Wait, WaitFor,
};

/// Writes one line of log for each call that ends, and one for each attempt that fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoggedRecords;

impl Records for LoggedRecords {
    fn record(&self, record: &Record) {
        match record {
            Record::Started(_) => {}
            Record::Attempt(ended) => {
                if let AttemptOutcome::Failed(code) = ended.attempt.outcome {
                    log_failure(ended, code);
                }
            }
            Record::Ended(ended) => log_end(ended),
        }
    }
}

fn log_failure(ended: &AttemptEnded, code: FailureCode) {
    let AttemptEnded {
        call,
        attempt,
        failure,
        ..
    } = ended;
    let cut = failure.as_ref().and_then(|failure| {
        let bound = failure.bound?;
        Some((bound, failure))
    });
    let Some((bound, failure)) = cut else {
        tracing::info!(
            call = %call,
            attempt = attempt.n,
            upstream = %attempt.upstream,
            outcome = code.name(),
            status = attempt.status,
            "attempt failed"
        );
        return;
    };
    tracing::warn!(
        call = %call,
        attempt = attempt.n,
        upstream = %attempt.upstream,
        outcome = code.name(),
        status = attempt.status,
        bound = bound.name(),
        limit_ms = failure.limit_ms,
        setting = failure.setting.as_deref(),
        origin = failure.origin.as_deref(),
        phase = failure.phase.name(),
        raw_ms = whole_millis(failure.clocks_ms.raw),
        event_ms = whole_millis(failure.clocks_ms.event),
        content_ms = whole_millis(failure.clocks_ms.content),
        "attempt cut"
    );
}

fn log_end(ended: &CallEnded) {
    let CallEnded {
        started,
        outcome,
        failure,
        upstream,
        attempts,
        status,
        elapsed_ms,
        ..
    } = ended;
    let upstream = upstream.as_deref();
    let model = started.model.as_deref();
    let key = started.key.as_deref();
    let Some(failure) = failure else {
        tracing::info!(
            call = %started.id, key, model, upstream, status,
            attempts = attempts.len(), elapsed_ms, "completed"
        );
        return;
    };
    let (outcome, code, reason) = (outcome.name(), failure.code.name(), words(failure));
    let setting = failure.setting.as_deref();
    let request_id = failure.request_id.as_deref();
    match failure.code {
        // The caller's own doing.
        FailureCode::Cancelled | FailureCode::Rejected => tracing::info!(
            call = %started.id, key, model, upstream, status, attempts = attempts.len(),
            elapsed_ms, outcome, code, reason = %reason, setting, request_id,
            "not completed"
        ),
        _ => tracing::warn!(
            call = %started.id, key, model, upstream, status, attempts = attempts.len(),
            elapsed_ms, outcome, code, reason = %reason, setting, request_id,
            "not completed"
        ),
    }
}
