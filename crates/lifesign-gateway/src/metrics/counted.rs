//! What is counted as it happens: once for each attempt and each call, never for a frame.

use lifesign::Outcome;
use lifesign_core::{BoundName, FailureCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{
    OfAnswer, OfBound, OfClock, OfCode, OfDiscarded, OfEndedOperation, OfForm, OfKey, OfKind,
    OfOperation, OfOrigin, OfOutcome, OfReason, OfRefusal, OfRequest, OfTokens, OfUpstream,
};
use super::names::Name;
use crate::semconv;

/// A histogram for each set of labels.
pub(super) type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;
/// A counter for each set of labels.
pub(super) type Counters<L> = Family<L, Counter>;

/// Everything that is counted.
pub(super) struct Counted {
    pub(super) request_duration: Histograms<OfRequest>,
    pub(super) first_token: Histograms<OfAnswer>,
    pub(super) per_token: Histograms<OfAnswer>,
    pub(super) operation_duration: Histograms<OfEndedOperation>,
    pub(super) first_chunk: Histograms<OfOperation>,
    pub(super) tokens: Histograms<OfTokens>,

    pub(super) calls: Counters<OfOutcome>,
    pub(super) key_calls: Counters<OfKey>,
    pub(super) failures: Counters<OfCode>,
    pub(super) refusals: Counters<OfRefusal>,
    pub(super) waits: Histograms<OfReason>,
    pub(super) beats: Counters<OfForm>,
    pub(super) sent_bytes: Counter,

    pub(super) attempts: Counters<OfOutcome>,
    pub(super) retries: Counters<OfKind>,
    pub(super) cuts: Counters<OfBound>,
    pub(super) notices: Counters<OfUpstream>,
    pub(super) first_content: Histograms<OfUpstream>,
    pub(super) gaps: Histograms<OfClock>,
    pub(super) lateness: Histograms<OfUpstream>,
    pub(super) heartbeats: Counters<OfOrigin>,
    pub(super) received_bytes: Counters<OfUpstream>,
    pub(super) discarded_tokens: Counters<OfDiscarded>,
    pub(super) unknown_usage: Counters<OfUpstream>,
}

impl Counted {
    /// Returns everything at zero, and puts it into `registry`.
    pub(super) fn new(registry: &mut Registry) -> Self {
        let mut add = Add(registry);
        let counted = Self {
            request_duration: add.seconds(
                semconv::SERVER_REQUEST_DURATION,
                "Duration of calls as their callers saw them, waits and retries included",
                || Histogram::new(semconv::DURATION),
            ),
            first_token: add.seconds(
                semconv::SERVER_TIME_TO_FIRST_TOKEN,
                "Time from the start of a call to its first content, of calls that were completed",
                || Histogram::new(semconv::FIRST_TOKEN),
            ),
            per_token: add.seconds(
                semconv::SERVER_TIME_PER_OUTPUT_TOKEN,
                "Mean time of each output token after the first content, of calls that were \
                 completed and told their usage",
                || Histogram::new(semconv::PER_TOKEN),
            ),
            operation_duration: add.seconds(
                semconv::CLIENT_OPERATION_DURATION,
                "Duration of attempts at an upstream",
                || Histogram::new(semconv::DURATION),
            ),
            first_chunk: add.seconds(
                semconv::CLIENT_TIME_TO_FIRST_CHUNK,
                "Time from the start of an attempt to the first byte of its stream, which may be a \
                 heartbeat",
                || Histogram::new(semconv::FIRST_TOKEN),
            ),
            tokens: add.histogram(
                semconv::CLIENT_TOKEN_USAGE,
                "Tokens of attempts that told their usage, discarded ones included",
                || Histogram::new(semconv::TOKENS),
            ),
            calls: add.counter("lifesign_calls", "Calls that ended"),
            key_calls: add.counter(
                "lifesign_key_calls",
                "Calls that ended, by the caller's key",
            ),
            failures: add.counter(
                "lifesign_call_failures",
                "Calls that failed, by failure code",
            ),
            refusals: add.counter(
                "lifesign_refusals",
                "Requests that were refused before they became calls",
            ),
            waits: add.seconds(
                "lifesign_call_wait",
                "Time that a call waited: in line, for a hold to end, and to retry",
                || Histogram::new(semconv::DURATION),
            ),
            beats: add.counter("lifesign_beats_sent", "Beats that were sent to callers"),
            sent_bytes: {
                let counter = Counter::default();
                add.0.register_with_unit(
                    "lifesign_sent",
                    "Bytes of answers that were handed to callers, beats not counted",
                    Unit::Bytes,
                    counter.clone(),
                );
                counter
            },
            attempts: add.counter("lifesign_attempts", "Attempts that ended"),
            retries: add.counter(
                "lifesign_retries",
                "Attempts that followed a failed one: at the same upstream, or at another",
            ),
            cuts: add.counter("lifesign_cuts", "Attempts that a bound cut"),
            notices: add.counter(
                "lifesign_notices",
                "Notices that content was quiet for longer than bounds.notice_after",
            ),
            first_content: add.seconds(
                "lifesign_attempt_first_content",
                "Time from the sent request to the first content of an attempt",
                || Histogram::new(semconv::FIRST_TOKEN),
            ),
            gaps: add.seconds(
                "lifesign_attempt_longest_gap",
                "The longest gap of each clock in an attempt",
                || Histogram::new(GAP),
            ),
            lateness: add.seconds(
                "lifesign_cut_lateness",
                "How late a cut came. That delay is the gateway's own",
                || Histogram::new(LATENESS),
            ),
            heartbeats: add.counter(
                "lifesign_heartbeats_received",
                "Heartbeats of upstreams, by who makes them",
            ),
            received_bytes: add.bytes(
                "lifesign_received",
                "Bytes of answers as they came from upstreams, compressed or not",
            ),
            discarded_tokens: add.counter(
                "lifesign_discarded_tokens",
                "Tokens of attempts that did not end in a whole answer, where their usage is known",
            ),
            unknown_usage: add.counter(
                "lifesign_unknown_usage_attempts",
                "Attempts without a whole answer that may have cost tokens, of unknown number",
            ),
        };
        for form in super::FORMS {
            begin(&counted.beats, &OfForm { form });
        }
        counted
    }

    /// Makes the counters of an upstream, so that the first of a kind is seen as an increase.
    pub(super) fn begin_upstream(&self, name: &Name) {
        let upstream = || name.clone();
        for outcome in super::OUTCOMES.map(Outcome::name) {
            let upstream = upstream();
            begin(&self.calls, &OfOutcome { upstream, outcome });
        }
        let codes = FailureCode::ALL.map(FailureCode::name);
        for code in codes {
            let upstream = upstream();
            begin(&self.failures, &OfCode { upstream, code });
        }
        for outcome in codes.into_iter().chain([super::COMPLETED]) {
            let upstream = upstream();
            begin(&self.attempts, &OfOutcome { upstream, outcome });
        }
        for bound in BoundName::ALL.map(BoundName::name) {
            let upstream = upstream();
            begin(&self.cuts, &OfBound { upstream, bound });
        }
        for kind in [super::RETRY, super::FAILOVER] {
            let upstream = upstream();
            begin(&self.retries, &OfKind { upstream, kind });
        }
        for origin in super::ORIGINS {
            let upstream = upstream();
            begin(&self.heartbeats, &OfOrigin { upstream, origin });
        }
        for gen_ai_token_type in [semconv::INPUT, semconv::OUTPUT] {
            let labels = OfDiscarded {
                upstream: upstream(),
                gen_ai_token_type,
            };
            begin(&self.discarded_tokens, &labels);
        }
        for counters in [&self.notices, &self.received_bytes, &self.unknown_usage] {
            let upstream = upstream();
            begin(counters, &OfUpstream { upstream });
        }
    }

    /// Makes the counters of a caller's key.
    pub(super) fn begin_key(&self, name: &Name) {
        for outcome in super::OUTCOMES.map(Outcome::name) {
            let key = name.clone();
            begin(&self.key_calls, &OfKey { key, outcome });
        }
    }
}

fn begin<L: Labels>(counters: &Counters<L>, labels: &L) {
    drop(counters.get_or_create(labels));
}

struct Add<'r>(&'r mut Registry);

impl Add<'_> {
    fn counter<L: Labels>(&mut self, name: &str, help: &str) -> Counters<L> {
        let counters = Counters::<L>::default();
        self.0.register(name, help, counters.clone());
        counters
    }

    fn bytes<L: Labels>(&mut self, name: &str, help: &str) -> Counters<L> {
        let counters = Counters::<L>::default();
        let unit = Unit::Bytes;
        self.0
            .register_with_unit(name, help, unit, counters.clone());
        counters
    }

    fn histogram<L: Labels>(
        &mut self,
        name: &str,
        help: &str,
        new: fn() -> Histogram,
    ) -> Histograms<L> {
        let histograms = Histograms::<L>::new_with_constructor(new);
        self.0.register(name, help, histograms.clone());
        histograms
    }

    fn seconds<L: Labels>(
        &mut self,
        name: &str,
        help: &str,
        new: fn() -> Histogram,
    ) -> Histograms<L> {
        let histograms = Histograms::<L>::new_with_constructor(new);
        let unit = Unit::Seconds;
        self.0
            .register_with_unit(name, help, unit, histograms.clone());
        histograms
    }
}

/// What a set of labels has to be.
trait Labels:
    EncodeLabelSet + Clone + std::fmt::Debug + Eq + std::hash::Hash + Send + Sync + 'static
{
}

impl<L> Labels for L where
    L: EncodeLabelSet + Clone + std::fmt::Debug + Eq + std::hash::Hash + Send + Sync + 'static
{
}

/// Close to where the limits of bounds lie.
const GAP: [f64; 18] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0,
    600.0, 1_200.0,
];
const LATENESS: [f64; 10] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
