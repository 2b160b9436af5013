//! `/metrics` as a whole: what was counted, and what is looked up when somebody asks: calls under
//! way, lines, holds, breakers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use lifesign::Doing;
use lifesign_core::{Ages, Clock, Phase};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::breaker::BreakerState;
use crate::hub::{Hub, Plan};
use crate::journal::JournalState;
use crate::metrics::labels::{
    OfBreaker, OfBreakerState, OfClock, OfCode, OfJournal, OfSending, OfSpan, OfState, OfUpstream,
};
use crate::metrics::names::{NONE, Name};
use crate::registry::LiveCall;
use crate::server::Stage;
use crate::traces::TracesState;

type Count = Gauge<u64, AtomicU64>;
type Seconds = Gauge<f64, AtomicU64>;

/// Returns everything as text.
///
/// # Errors
///
/// Fails where the text cannot be written, which a `String` never says.
pub(crate) fn text(hub: &Hub, plan: &Plan, stage: Stage) -> Result<String, fmt::Error> {
    let mut text = String::new();
    hub.metrics.write(&mut text)?;
    let mut registry = Registry::default();
    calls(&mut registry, hub, plan);
    lanes(&mut registry, hub);
    holds(&mut registry, hub);
    journal(&mut registry, hub);
    traces(&mut registry, hub);
    let draining = Count::default();
    draining.set(u64::from(stage >= Stage::Draining));
    registry.register(
        "lifesign_draining",
        "Whether the gateway is about to stop",
        draining,
    );
    if let Some(pulse) = hub.pulse() {
        let age = Seconds::default();
        age.set(pulse.oldest().as_secs_f64());
        registry.register_with_unit(
            "lifesign_worker_pulse_age",
            "Time since the worker that moved last of all moved. It looks at itself every second",
            Unit::Seconds,
            age,
        );
    }
    prometheus_client::encoding::prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

/// What the calls at one upstream are doing.
struct AtUpstream {
    states: BTreeMap<&'static str, u64>,
    oldest: Duration,
    silence: Ages,
}

impl AtUpstream {
    fn new() -> Self {
        Self {
            states: STATES.into_iter().map(|state| (state, 0)).collect(),
            oldest: Duration::ZERO,
            silence: Ages::default(),
        }
    }

    fn add(&mut self, call: &LiveCall) {
        let snapshot = call.monitor.snapshot();
        let readings = snapshot.readings.as_ref();
        let state = match (snapshot.doing, readings) {
            (Doing::Queued, _) => "queued",
            (Doing::Holding { .. }, _) => "holding",
            (Doing::RetryWait { .. }, _) => "retry_wait",
            (Doing::Attempting, Some(readings)) if is_under_way(readings.phase) => {
                readings.phase.name()
            }
            (Doing::Attempting, Some(_)) => Phase::Connecting.name(),
            (Doing::Starting | Doing::Attempting | Doing::Ended, _) => "accepted",
        };
        *self.states.entry(state).or_default() += 1;
        self.oldest = self.oldest.max(snapshot.elapsed);
        let is_asking = snapshot.doing == Doing::Attempting;
        if let Some(readings) = readings.filter(|_| is_asking) {
            let silence = self.silence;
            self.silence = Ages::of(|clock| silence.clock(clock).max(readings.ages.clock(clock)));
        }
    }
}

fn calls(registry: &mut Registry, hub: &Hub, plan: &Plan) {
    let configured = plan.targets.iter();
    let configured = configured.map(|target| (Name::from(target.name()), AtUpstream::new()));
    let mut upstreams: BTreeMap<_, _> = configured.collect();
    for call in hub.registry.list() {
        let upstream = call.upstream();
        let upstream = Name::from(upstream.as_deref().unwrap_or(NONE));
        let at = upstreams.entry(upstream).or_insert_with(AtUpstream::new);
        at.add(&call);
    }
    let states = family::<OfState, Count>(
        registry,
        "lifesign_calls_in_flight",
        "Calls under way, by what they do: wait, or the phase of their attempt",
    );
    let oldest = seconds::<OfUpstream>(
        registry,
        "lifesign_oldest_call",
        "Age of the oldest call under way",
    );
    let silence = seconds::<OfClock>(
        registry,
        "lifesign_silence",
        "The greatest age of each clock over all attempts under way: for how long the quietest one \
         has shown nothing",
    );
    for (upstream, at) in upstreams {
        for (state, count) in at.states {
            let upstream = upstream.clone();
            states
                .get_or_create(&OfState { upstream, state })
                .set(count);
        }
        for clock in Clock::ALL {
            let labels = OfClock {
                upstream: upstream.clone(),
                clock: clock.name(),
            };
            let age = at.silence.clock(clock).as_secs_f64();
            silence.get_or_create(&labels).set(age);
        }
        let labels = OfUpstream { upstream };
        oldest.get_or_create(&labels).set(at.oldest.as_secs_f64());
    }
}

fn lanes(registry: &mut Registry, hub: &Hub) {
    let mut gauge = |name, help| family::<OfUpstream, Count>(registry, name, help);
    let places = gauge(
        "lifesign_upstream_slots",
        "Calls that an upstream may have at once",
    );
    let taken = gauge(
        "lifesign_upstream_slots_used",
        "Calls that an upstream has now",
    );
    let queue = gauge("lifesign_queue_size", "Places in line for an upstream");
    let waiting = gauge("lifesign_queue_length", "Calls in line for an upstream");
    let states = family::<OfBreakerState, Count>(
        registry,
        "lifesign_breaker_state",
        "1 for the state that a breaker is in",
    );
    let opened = Family::<OfBreaker, Counter>::default();
    registry.register(
        "lifesign_breaker_opened",
        "How often a breaker opened",
        opened.clone(),
    );
    let now = hub.clock.elapsed();
    for lane in hub.lanes() {
        let upstream = Name::from(lane.name());
        let load = lane.load();
        let labels = OfUpstream {
            upstream: upstream.clone(),
        };
        for (gauge, value) in [
            (&places, load.concurrency),
            (&taken, load.in_flight),
            (&queue, load.queue),
            (&waiting, load.waiting),
        ] {
            gauge.get_or_create(&labels).set(value as u64);
        }
        let (breakers, times) = (lane.breaker_states(now), lane.times_opened());
        for (breaker, is, times) in [
            ("failures", breakers.failures, times.failures),
            ("slowness", breakers.slowness, times.slowness),
        ] {
            for (state, name) in [
                (BreakerState::Closed, "closed"),
                (BreakerState::HalfOpen, "half_open"),
                (BreakerState::Open, "open"),
            ] {
                let labels = OfBreakerState {
                    upstream: upstream.clone(),
                    breaker,
                    state: name,
                };
                states.get_or_create(&labels).set(u64::from(is == state));
            }
            let upstream = upstream.clone();
            let labels = OfBreaker { upstream, breaker };
            opened.get_or_create(&labels).inc_by(times);
        }
    }
}

fn holds(registry: &mut Registry, hub: &Hub) {
    let count = family::<OfUpstream, Count>(
        registry,
        "lifesign_holds",
        "Holds in force: upstreams that asked to be left alone",
    );
    let remaining = seconds::<OfUpstream>(
        registry,
        "lifesign_hold_remaining",
        "Time until the last hold in force ends",
    );
    let raised = Family::<OfCode, Counter>::default();
    registry.register(
        "lifesign_holds_raised",
        "Holds that were raised or made longer",
        raised.clone(),
    );
    for lane in hub.lanes() {
        let upstream = Name::from(lane.name());
        let labels = OfUpstream { upstream };
        drop(count.get_or_create(&labels));
        drop(remaining.get_or_create(&labels));
    }
    for hold in hub.holds.list() {
        let upstream = hold.upstream.as_str().into();
        let labels = OfUpstream { upstream };
        count.get_or_create(&labels).inc();
        let longest = remaining.get_or_create_owned(&labels);
        longest.set(longest.get().max(hold.remaining.as_secs_f64()));
    }
    for (upstream, why, times) in hub.holds.times_raised() {
        let labels = OfCode {
            upstream: upstream.as_str().into(),
            code: why,
        };
        raised.get_or_create(&labels).inc_by(times);
    }
}

/// Where a journal is kept: how its writing goes.
fn journal(registry: &mut Registry, hub: &Hub) {
    let Some(journal) = &hub.beside.journal else {
        return;
    };
    let health = journal.health();
    let states = family::<OfJournal, Count>(
        registry,
        "lifesign_journal_state",
        "1 for how the writing of the journal goes",
    );
    for (state, name) in [
        (JournalState::Writing, "writing"),
        (JournalState::Dropping, "dropping"),
        (JournalState::Failing, "failing"),
    ] {
        let is = u64::from(health.state == state);
        states.get_or_create(&OfJournal { state: name }).set(is);
    }
    let lost: Counter = Counter::default();
    lost.inc_by(health.lost);
    registry.register(
        "lifesign_journal_lost_records",
        "Records that are in no journal, since they found no place",
        lost,
    );
}

/// Where traces are sent: how that goes.
fn traces(registry: &mut Registry, hub: &Hub) {
    let Some(traces) = &hub.beside.traces else {
        return;
    };
    let health = traces.health();
    let states = family::<OfSending, Count>(
        registry,
        "lifesign_traces_state",
        "1 for how the sending of spans goes",
    );
    for (state, name) in [
        (TracesState::Exporting, "exporting"),
        (TracesState::Dropping, "dropping"),
        (TracesState::Failing, "failing"),
    ] {
        let is = u64::from(health.state == state);
        states.get_or_create(&OfSending { state: name }).set(is);
    }
    let spans = Family::<OfSpan, Counter>::default();
    registry.register(
        "lifesign_spans",
        "Spans by what became of them: taken by the collector, refused by it, or dropped since they \
         found no place or nobody took them for minutes",
        spans.clone(),
    );
    for (outcome, count) in [
        ("exported", health.exported),
        ("dropped", health.dropped),
        ("refused", health.refused),
    ] {
        spans.get_or_create(&OfSpan { outcome }).inc_by(count);
    }
}

const fn is_under_way(phase: Phase) -> bool {
    !matches!(phase, Phase::Queued | Phase::Ended)
}

fn family<L, G>(registry: &mut Registry, name: &str, help: &str) -> Family<L, G>
where
    L: EncodeLabelSet + Clone + fmt::Debug + Eq + std::hash::Hash + Send + Sync + 'static,
    Family<L, G>: prometheus_client::registry::Metric + Clone,
    G: Default,
{
    let family = Family::<L, G>::default();
    registry.register(name, help, family.clone());
    family
}

fn seconds<L>(registry: &mut Registry, name: &str, help: &str) -> Family<L, Seconds>
where
    L: EncodeLabelSet + Clone + fmt::Debug + Eq + std::hash::Hash + Send + Sync + 'static,
{
    let family = Family::<L, Seconds>::default();
    registry.register_with_unit(name, help, Unit::Seconds, family.clone());
    family
}

/// What a call can be doing; from `connecting` on, the phase of its attempt.
const STATES: [&str; 9] = [
    "accepted",
    "queued",
    "holding",
    "retry_wait",
    Phase::Connecting.name(),
    Phase::Sending.name(),
    Phase::WaitingForHeaders.name(),
    Phase::BeforeContent.name(),
    Phase::AfterContent.name(),
];
