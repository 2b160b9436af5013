//! What `/metrics` says, in the text format of Prometheus.
//!
//! What happens is counted from the records, once for each attempt and each call; what is true now is
//! looked up when somebody asks, in [`scrape`](crate::scrape). Nothing is done for a frame, and no label holds an id: its values
//! are names of the settings, words of ours, and a bounded number of models.

use std::fmt;
use std::time::Duration;

use lifesign::{Outcome, clock};
use lifesign_core::{AttemptOutcome, AttemptRecord, Clock, FailureCode, Usage};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use self::counted::Counted;
use self::labels::{
    OfAnswer, OfBound, OfBuild, OfClock, OfCode, OfDiscarded, OfEndedOperation, OfForm, OfKey,
    OfKind, OfOperation, OfOrigin, OfOutcome, OfReason, OfRefusal, OfRequest, OfTokens, OfUpstream,
};
use self::names::Names;
use self::series::SeriesOfUpstreams;
use crate::config::GatewayConfig;
use crate::records::{AttemptEnded, CallEnded, Record, Records};
use crate::semconv;

mod counted;
pub(crate) mod labels;
pub(crate) mod names;
mod series;

/// What is counted, and how it is told.
pub(crate) struct Metrics {
    registry: Registry,
    counted: Counted,
    series: SeriesOfUpstreams,
    names: Names,
    reload_succeeded: Gauge,
    reloaded_at: Gauge,
}

impl Metrics {
    /// Returns metrics at zero, for a gateway with these settings.
    pub(crate) fn new(config: &GatewayConfig) -> Self {
        let mut registry = Registry::default();
        let version = env!("CARGO_PKG_VERSION");
        registry.register(
            "lifesign_build",
            "1, with the version that runs",
            Info::new(OfBuild { version }),
        );
        let started_at = Gauge::<i64>::default();
        started_at.set(clock::timestamp().as_second());
        registry.register_with_unit(
            "process_start_time",
            "When the process started, as seconds since 1970",
            Unit::Seconds,
            started_at,
        );
        let reload_succeeded = Gauge::<i64>::default();
        registry.register(
            "lifesign_config_last_reload_successful",
            "Whether the settings were read the last time that they were to be",
            reload_succeeded.clone(),
        );
        let reloaded_at = Gauge::<i64>::default();
        registry.register_with_unit(
            "lifesign_config_last_reload_success_timestamp",
            "When the settings in force were read, as seconds since 1970",
            Unit::Seconds,
            reloaded_at.clone(),
        );
        let counted = Counted::new(&mut registry);
        let metrics = Self {
            registry,
            counted,
            series: SeriesOfUpstreams::default(),
            names: Names::default(),
            reload_succeeded,
            reloaded_at,
        };
        metrics.configure(config);
        metrics
    }

    /// Takes in that these settings are in force.
    pub(crate) fn configure(&self, config: &GatewayConfig) {
        self.names.configure(config);
        self.reload_succeeded.set(1);
        self.reloaded_at.set(clock::timestamp().as_second());
        for upstream in self.names.upstreams() {
            self.counted.begin_upstream(&upstream);
        }
        let keys = self.names.keys();
        for key in keys {
            self.counted.begin_key(&key);
        }
        if config.keys.is_empty() {
            self.counted.begin_key(&self.names.key(None));
        }
    }

    /// Notes that changed settings could not be used.
    pub(crate) fn handle_refused_reload(&self) {
        self.reload_succeeded.set(0);
    }

    /// Counts a request that was refused before it became a call.
    pub(crate) fn handle_refusal(&self, code: &'static str) {
        self.counted
            .refusals
            .get_or_create(&OfRefusal { code })
            .inc();
    }

    /// Writes what was counted.
    pub(crate) fn write(&self, text: &mut String) -> Result<(), fmt::Error> {
        prometheus_client::encoding::prometheus_text::encode(text, &self.registry)
    }

    fn handle_attempt(&self, ended: &AttemptEnded) {
        let AttemptEnded {
            attempt,
            began_ms,
            route,
            model,
            ..
        } = ended;
        let counted = &self.counted;
        let name = self.names.upstream(Some(&attempt.upstream));
        let upstream = || name.clone();
        let series = self.series.of(&name);
        let of_outcome = |outcome| OfOutcome {
            upstream: upstream(),
            outcome,
        };
        if let Some(error) = error_of(attempt.outcome) {
            counted.attempts.get_or_create(&of_outcome(error)).inc();
        } else {
            let completed = &series.completed_attempts;
            completed
                .of(&counted.attempts, || of_outcome(COMPLETED))
                .inc();
        }
        let labels = OfUpstream {
            upstream: upstream(),
        };
        if let Some(bound) = attempt.bound {
            let cut = OfBound {
                upstream: upstream(),
                bound: bound.name(),
            };
            counted.cuts.get_or_create(&cut).inc();
            let late = seconds(attempt.late_ms);
            counted.lateness.get_or_create(&labels).observe(late);
        }
        let notices = u64::from(attempt.notices);
        if notices > 0 {
            counted.notices.get_or_create(&labels).inc_by(notices);
        }
        let heartbeats = &attempt.heartbeats;
        let heartbeats = [heartbeats.provider, heartbeats.comment, heartbeats.proxy];
        for (origin, count) in ORIGINS.into_iter().zip(heartbeats) {
            if count > 0 {
                let heartbeats = OfOrigin {
                    upstream: upstream(),
                    origin,
                };
                counted.heartbeats.get_or_create(&heartbeats).inc_by(count);
            }
        }
        let received = series
            .received_bytes
            .of(&counted.received_bytes, || labels.clone());
        received.inc_by(attempt.bytes);
        if let (Some(sent), Some(content)) = (attempt.sent_ms, attempt.first_content_ms) {
            let waited = seconds(content.saturating_sub(sent));
            let first_content = &series.first_content;
            first_content
                .of(&counted.first_content, || labels.clone())
                .observe(waited);
        }
        if attempt.sent_ms.is_some() {
            for (clock, gaps) in Clock::ALL.into_iter().zip(&series.gaps) {
                let gap = attempt.longest_gap_ms.clock(clock).as_secs_f64();
                let of_clock = || OfClock {
                    upstream: upstream(),
                    clock: clock.name(),
                };
                gaps.of(&counted.gaps, of_clock).observe(gap);
            }
        }
        self.handle_discarded(attempt, &labels);
        if let Some(operation) = semconv::operation(route) {
            let labels = OfOperation {
                gen_ai_operation_name: operation,
                gen_ai_provider_name: self.names.provider(&attempt.upstream),
                gen_ai_request_model: self.names.model(model.as_deref(), is_taken(attempt)),
                upstream: name,
            };
            self.handle_operation(&labels, attempt, *began_ms);
        }
    }

    /// Tells what an attempt was for a client of a model.
    fn handle_operation(&self, labels: &OfOperation, attempt: &AttemptRecord, began_ms: u64) {
        let counted = &self.counted;
        let ended = OfEndedOperation {
            gen_ai_operation_name: labels.gen_ai_operation_name,
            gen_ai_provider_name: labels.gen_ai_provider_name,
            gen_ai_request_model: labels.gen_ai_request_model.clone(),
            upstream: labels.upstream.clone(),
            error_type: error_of(attempt.outcome),
        };
        let took_ms = attempt.ended_ms.saturating_sub(began_ms);
        let duration = counted.operation_duration.get_or_create(&ended);
        duration.observe(seconds(took_ms));
        // Frames are counted of streams alone, and only those have a first chunk.
        if let Some(first) = attempt.first_byte_ms.filter(|_| attempt.frames > 0) {
            let waited = seconds(first.saturating_sub(began_ms));
            counted.first_chunk.get_or_create(labels).observe(waited);
        }
        for (gen_ai_token_type, tokens) in told(attempt.usage) {
            let labels = OfTokens {
                gen_ai_operation_name: labels.gen_ai_operation_name,
                gen_ai_provider_name: labels.gen_ai_provider_name,
                gen_ai_request_model: labels.gen_ai_request_model.clone(),
                gen_ai_token_type,
                upstream: labels.upstream.clone(),
            };
            counted.tokens.get_or_create(&labels).observe(count(tokens));
        }
    }

    /// Counts what was paid for nothing, or may have been.
    fn handle_discarded(&self, attempt: &AttemptRecord, labels: &OfUpstream) {
        if attempt.outcome == AttemptOutcome::Completed {
            return;
        }
        for (gen_ai_token_type, tokens) in told(attempt.usage) {
            let labels = OfDiscarded {
                upstream: labels.upstream.clone(),
                gen_ai_token_type,
            };
            let discarded = &self.counted.discarded_tokens;
            discarded.get_or_create(&labels).inc_by(tokens);
        }
        let is_refused = attempt.status.is_some_and(|status| status >= 400);
        if attempt.usage.is_none() && attempt.sent_ms.is_some() && !is_refused {
            self.counted.unknown_usage.get_or_create(labels).inc();
        }
    }

    fn handle_end(&self, ended: &CallEnded) {
        let counted = &self.counted;
        let name = self.names.upstream(ended.upstream.as_deref());
        let upstream = || name.clone();
        let outcome = ended.outcome.name();
        let series = self.series.of(&name);
        let labels = || OfOutcome {
            upstream: upstream(),
            outcome,
        };
        if ended.outcome == Outcome::Completed {
            series.completed_calls.of(&counted.calls, labels).inc();
        } else {
            counted.calls.get_or_create(&labels()).inc();
        }
        let key = self.names.key(ended.started.key.as_deref());
        counted
            .key_calls
            .get_or_create(&OfKey { key, outcome })
            .inc();
        let error = ended.failure.as_ref().map(|failure| failure.code.name());
        if let Some(code) = error {
            let labels = OfCode {
                upstream: upstream(),
                code,
            };
            counted.failures.get_or_create(&labels).inc();
        }
        let waited_ms = [ended.queued_ms, ended.held_ms, ended.retry_wait_ms];
        for ((reason, waited_ms), waits) in REASONS.into_iter().zip(waited_ms).zip(&series.waits) {
            let labels = || OfReason {
                upstream: upstream(),
                reason,
            };
            waits.of(&counted.waits, labels).observe(seconds(waited_ms));
        }
        let forms = &ended.beat_forms;
        for (form, beats) in FORMS
            .into_iter()
            .zip([forms.comment, forms.event, forms.space])
        {
            if beats > 0 {
                counted.beats.get_or_create(&OfForm { form }).inc_by(beats);
            }
        }
        counted.sent_bytes.inc_by(ended.bytes_out);
        for pair in ended.attempts.windows(2) {
            let [before, after] = pair else {
                continue;
            };
            let kind = if before.upstream == after.upstream {
                RETRY
            } else {
                FAILOVER
            };
            let labels = OfKind {
                upstream: self.names.upstream(Some(&after.upstream)),
                kind,
            };
            counted.retries.get_or_create(&labels).inc();
        }
        self.handle_answer(ended, error);
    }

    /// Tells what a call was for whoever sees the gateway as the server of a model.
    fn handle_answer(&self, ended: &CallEnded, error_type: Option<&'static str>) {
        let counted = &self.counted;
        let Some(operation) = semconv::operation(&ended.started.route) else {
            return;
        };
        let is_taken = ended.attempts.iter().any(is_taken);
        let upstream = ended.upstream.as_deref();
        let labels = OfAnswer {
            gen_ai_operation_name: operation,
            gen_ai_provider_name: upstream.map_or(names::NONE, |name| self.names.provider(name)),
            gen_ai_request_model: self.names.model(ended.started.model.as_deref(), is_taken),
        };
        let request = OfRequest {
            gen_ai_operation_name: operation,
            gen_ai_provider_name: labels.gen_ai_provider_name,
            gen_ai_request_model: labels.gen_ai_request_model.clone(),
            error_type,
        };
        let duration = counted.request_duration.get_or_create(&request);
        duration.observe(seconds(ended.elapsed_ms));
        let last = ended.attempts.last();
        let Some(last) = last.filter(|_| ended.outcome == Outcome::Completed) else {
            return;
        };
        let Some(first_content) = last.first_content_ms else {
            return;
        };
        let first_token = counted.first_token.get_or_create(&labels);
        first_token.observe(seconds(first_content));
        let output = ended.usage.and_then(|usage| usage.output_tokens);
        if let Some(further) = output.and_then(|tokens| tokens.checked_sub(1))
            && further > 0
        {
            let flowed = seconds(last.ended_ms.saturating_sub(first_content));
            let per_token = counted.per_token.get_or_create(&labels);
            per_token.observe(flowed / count(further));
        }
    }
}

impl Records for Metrics {
    fn record(&self, record: &Record) {
        match record {
            // Who is under way stands in the registry.
            Record::Started(_) => {}
            Record::Attempt(ended) => self.handle_attempt(ended),
            Record::Ended(ended) => self.handle_end(ended),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Returns whether an upstream took the request as one that it knows.
fn is_taken(attempt: &AttemptRecord) -> bool {
    attempt.outcome != AttemptOutcome::Failed(FailureCode::Rejected)
}

fn error_of(outcome: AttemptOutcome) -> Option<&'static str> {
    match outcome {
        AttemptOutcome::Completed => None,
        AttemptOutcome::Failed(code) => Some(code.name()),
    }
}

/// Returns the tokens of each type that are known.
fn told(usage: Option<Usage>) -> impl Iterator<Item = (&'static str, u64)> {
    let usage = usage.unwrap_or_default();
    let types = [
        (semconv::INPUT, usage.input_tokens),
        (semconv::OUTPUT, usage.output_tokens),
    ];
    let known = |(name, tokens): (_, Option<u64>)| Some((name, tokens?));
    types.into_iter().filter_map(known)
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no answer has so many tokens that the last one counts"
)]
const fn count(tokens: u64) -> f64 {
    tokens as f64
}

const OUTCOMES: [Outcome; 4] = [
    Outcome::Completed,
    Outcome::Truncated,
    Outcome::Failed,
    Outcome::Cancelled,
];
const COMPLETED: &str = "completed";
/// Who makes a heartbeat.
const ORIGINS: [&str; 3] = ["provider", "comment", "proxy"];
/// What a beat looks like.
const FORMS: [&str; 3] = ["comment", "event", "space"];
/// What a call waits for, in the order of its record.
const REASONS: [&str; 3] = ["queue", "hold", "retry"];
/// The same upstream again.
const RETRY: &str = "retry";
/// Another upstream.
const FAILOVER: &str = "failover";

#[cfg(test)]
mod tests;
