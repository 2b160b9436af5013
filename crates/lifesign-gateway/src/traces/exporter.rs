//! What becomes of recorded spans: gathered, sent, sent again, given up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lifesign::clock;
use prost::Message as _;
use tokio::select;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::health::Health;
use super::otlp::{ExportRequest, Resource, ResourceSpans, Scope, ScopeSpans, Span};
use super::span;
use crate::records::Record;

/// Takes spans, one request of them after the other.
pub(super) trait Deliver {
    /// Delivers an encoded request. It takes no longer than a limit of its own.
    async fn deliver(&mut self, request: Bytes) -> Delivery;
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Its spans were taken, but for so many.
    Taken { refused: u64, message: String },
    /// They never will be.
    Refused(String),
    /// They may be, later.
    Failed {
        error: String,
        retry_after: Option<Duration>,
    },
}

/// When the end begins is when this is set: to when it is over.
pub(super) type Closing = watch::Receiver<Option<Instant>>;

pub(super) struct Exporter<D> {
    records: mpsc::Receiver<Box<Record>>,
    closing: Closing,
    collector: D,
    resource: Resource,
    health: Arc<Health>,
}

impl<D: Deliver> Exporter<D> {
    pub(super) fn new(
        records: mpsc::Receiver<Box<Record>>,
        closing: Closing,
        collector: D,
        resource: Resource,
        health: Arc<Health>,
    ) -> Self {
        Self {
            records,
            closing,
            collector,
            resource,
            health,
        }
    }

    /// Runs until the end has begun, or nobody is left who could record, and nothing waits.
    pub(super) async fn run(mut self) {
        loop {
            let spans = self.gather().await;
            if spans.is_empty() {
                return;
            }
            self.export(spans).await;
        }
    }

    /// Waits for a first span, and then a little for more; returns none at the end alone.
    async fn gather(&mut self) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut len_bytes = 0;
        let mut due = None;
        while spans.len() < BATCH && len_bytes < BATCH_BYTES {
            let late = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let record = select! {
                biased;
                record = self.records.recv() => record,
                () = late => None,
                _ = self.closing.wait_for(Option::is_some) => None,
            };
            let Some(record) = record else {
                break;
            };
            if let Some(span) = span::of(&record) {
                len_bytes += span.encoded_len();
                spans.push(span);
                due.get_or_insert_with(|| clock::now() + GATHER);
            }
        }
        spans
    }

    /// Delivers spans, however often that takes, or gives them up.
    async fn export(&mut self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        let request = self.request(spans);
        let give_up_at = clock::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            let over = over(self.closing.clone());
            let delivery = select! {
                biased;
                delivery = self.collector.deliver(request.clone()) => delivery,
                () = over => return self.give_up(count),
            };
            let (error, retry_after) = match delivery {
                Delivery::Taken { refused: 0, .. } => {
                    let caught_up = self.records.len() < BATCH;
                    return self.health.set_exported(count, caught_up);
                }
                Delivery::Taken { refused, message } => {
                    let refused = refused.min(count);
                    self.health.add_exported(count - refused);
                    return self.health.set_refused(refused, &message);
                }
                Delivery::Refused(error) => return self.health.set_refused(count, &error),
                Delivery::Failed { error, retry_after } => (error, retry_after),
            };
            self.health.set_failing(&error);
            if self.closing.borrow().is_some() {
                return self.give_up(count);
            }
            let wait =
                retry_after.map_or_else(|| jittered(pause), |asked| asked.min(LONGEST_PAUSE));
            let until = clock::now() + wait;
            if until > give_up_at {
                return self.health.add_dropped(count);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            select! {
                () = sleep_until(until) => {}
                // One more try is made at once.
                _ = self.closing.wait_for(Option::is_some) => {}
            }
        }
    }

    /// Gives up these spans and all that wait: it is the end, and nobody takes them.
    fn give_up(&mut self, count: u64) {
        let mut given_up = count;
        while self.records.try_recv().is_ok() {
            given_up += 1;
        }
        self.health.add_dropped(given_up);
    }

    fn request(&self, spans: Vec<Span>) -> Bytes {
        let request = ExportRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(Scope {
                        name: env!("CARGO_PKG_NAME").to_owned(),
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                    }),
                    spans,
                }],
            }],
        };
        request.encode_to_vec().into()
    }
}

/// Returns when the end is over.
async fn over(mut closing: Closing) {
    let until = closing.wait_for(Option::is_some).await;
    // Nobody is left who could say more.
    let Some(until) = until.ok().and_then(|until| *until) else {
        return;
    };
    sleep_until(until).await;
}

/// Gateways that lost their collector at the same moment are not to come back at the same moment.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64())
}

/// Spans that are sent at once, at most, and after how many bytes no more: gRPC servers take 4 MiB
/// unless they are told otherwise.
pub(super) const BATCH: usize = 512;
const BATCH_BYTES: usize = 2 << 20;
/// How long more are waited for after the first.
const GATHER: Duration = Duration::from_secs(1);
/// How long it is waited before the same is sent again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// How long it is tried to deliver the same spans.
const PATIENCE: Duration = Duration::from_mins(5);

#[cfg(test)]
mod tests;
