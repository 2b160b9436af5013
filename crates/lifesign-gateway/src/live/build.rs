//! A snapshot put together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lifesign::clock;
use lifesign_core::duration::whole_millis;
use lifesign_core::{BoundName, CallShape, Clock, Gaps, Phase, rows};

use super::Live;
use super::hour::{Hour, OfUpstream};
use super::sentence;
use super::silences::Silences;
use super::snapshot::{
    Breakers, CallNow, EndedCounts, Health, HoldNow, Silence, SilenceBound, Snapshot, Summary,
    UpstreamNow,
};
use super::standing::{call_now, clock_of, state_now};
use crate::breaker::BreakerState;
use crate::holds::ListedHold;
use crate::hub::{Hub, Plan};
use crate::lane::Lane;
use crate::registry::LiveCall;
use crate::target::Target;

impl Live {
    /// Returns what is true now.
    pub(super) fn snapshot(&self, hub: &Hub, seq: u64, draining: bool) -> Snapshot {
        let plan = hub.plan();
        let (hour, upstreams, silence) = self.ended(hub, &plan);
        let listed = hub.registry.list();
        let count = listed.len();
        let mut states = BTreeMap::new();
        let calls: Vec<CallNow> = if count <= MOST_CALLS {
            listed.iter().map(|call| call_now(call)).collect()
        } else {
            for call in &listed {
                *states.entry(state_now(call)).or_default() += 1;
            }
            nearest(&listed).iter().map(|call| call_now(call)).collect()
        };
        if count <= MOST_CALLS {
            for call in &calls {
                *states.entry(call.state).or_default() += 1;
            }
        }
        let mut summary = Summary {
            sentence: String::new(),
            calls: count,
            states,
            hour,
        };
        summary.sentence = sentence::of_all(&summary);
        Snapshot {
            v: 1,
            seq,
            at: clock::timestamp(),
            started: self.started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            draining,
            summary,
            more_calls: count - calls.len(),
            calls,
            upstreams,
            recent: self.recent.latest(MOST_RECENT),
            silence_limits_ms: Gaps::LIMITS_MS.to_vec(),
            silence,
        }
    }

    /// Returns what ended lately: in all, and by upstream; and how long clocks stood still there.
    fn ended(&self, hub: &Hub, plan: &Plan) -> (EndedCounts, Vec<UpstreamNow>, Vec<Silence>) {
        let now = self.clock.elapsed();
        let holds = hub.holds.list();
        let is_known = |name: &str| plan.targets.iter().any(|target| target.name() == name);
        let mut counted = self.counted();
        let super::Counted { hour, silences } = &mut *counted;
        hour.forget(now, is_known);
        silences.forget(is_known);
        let mut upstreams = Vec::new();
        let mut silence = Vec::new();
        for target in &plan.targets {
            upstreams.push(upstream_now(
                hub,
                &target.lane,
                target.name(),
                &holds,
                hour,
                now,
            ));
            silence.extend(silences_at(plan, target, silences));
        }
        // One that was taken away is there until its last call has ended.
        for lane in hub.lanes() {
            let load = lane.load();
            let mut targets = plan.targets.iter();
            let is_configured = targets.any(|target| Arc::ptr_eq(&target.lane, &lane));
            if !is_configured && load.in_flight + load.waiting > 0 {
                let name = lane.name().to_owned();
                upstreams.push(upstream_now(hub, &lane, &name, &holds, hour, now));
            }
        }
        let is_only = plan.targets.len() == 1;
        for upstream in &mut upstreams {
            upstream.sentence = sentence::of_upstream(upstream, is_only);
        }
        (hour.calls(now), upstreams, silence)
    }
}

/// Returns those of many calls that are nearest to a cut, oldest first.
fn nearest(listed: &[Arc<LiveCall>]) -> Vec<Arc<LiveCall>> {
    let left = |call: &LiveCall| {
        let snapshot = call.monitor.snapshot();
        let next = snapshot.readings.and_then(|readings| readings.next);
        next.map_or(Duration::MAX, |(_, due)| {
            due.saturating_sub(snapshot.elapsed)
        })
    };
    let mut at: Vec<_> = listed
        .iter()
        .enumerate()
        .map(|(at, call)| (left(call), at))
        .collect();
    at.sort_unstable();
    let mut chosen: Vec<_> = at.into_iter().take(MOST_CALLS).map(|(_, at)| at).collect();
    chosen.sort_unstable();
    let chosen = chosen.into_iter().filter_map(|at| listed.get(at));
    chosen.cloned().collect()
}

fn upstream_now(
    hub: &Hub,
    lane: &Lane,
    name: &str,
    holds: &[ListedHold],
    hour: &mut Hour,
    now: Duration,
) -> UpstreamNow {
    let load = lane.load();
    let states = lane.breaker_states(hub.clock.elapsed());
    let OfUpstream {
        attempts,
        failed,
        failures,
        first_content,
        last_completed,
    } = hour.of_upstream(name, now);
    let holds: Vec<_> = holds
        .iter()
        .filter(|hold| hold.upstream == lane.name())
        .map(hold_now)
        .collect();
    let fails = failed >= ENOUGH && failed * 2 >= attempts;
    // Its callers may all have left before a bound did.
    let completes_nothing = attempts >= SEVERAL && last_completed.is_none();
    let is_open = [states.failures, states.slowness].contains(&BreakerState::Open);
    let health = if !holds.is_empty() {
        Health::Held
    } else if is_open {
        Health::Broken
    } else if fails || completes_nothing {
        Health::Failing
    } else if load.waiting > 0 {
        Health::Busy
    } else if attempts == 0 {
        Health::Idle
    } else {
        Health::Good
    };
    UpstreamNow {
        name: name.to_owned(),
        health,
        sentence: String::new(),
        in_flight: load.in_flight,
        concurrency: load.concurrency,
        waiting: load.waiting,
        queue: load.queue,
        breakers: Breakers {
            failures: breaker(states.failures).to_owned(),
            slowness: breaker(states.slowness).to_owned(),
        },
        holds,
        first_content,
        last_completed,
        attempts,
        failed,
        failures,
    }
}

fn hold_now(hold: &ListedHold) -> HoldNow {
    HoldNow {
        id: hold.id.clone(),
        model: hold.model.as_deref().map(super::name::shown),
        credential: hold.credential.clone(),
        why: hold.why,
        remaining_ms: whole_millis(hold.remaining),
        until: hold.until,
        probe: hold.probe.clone(),
    }
}

fn silences_at(plan: &Plan, target: &Target, silences: &Silences) -> Vec<Silence> {
    let counted: Vec<_> = silences.of(target.name()).collect();
    if counted.is_empty() {
        return Vec::new();
    }
    // Without a call's own settings there is nothing in them that could be refused.
    let Ok(settings) = plan.config.settings(&target.config, None, None) else {
        return Vec::new();
    };
    let shape = CallShape {
        streamed: true,
        max_tokens: None,
        wire: target.wire().defaults(),
    };
    let rows = rows(&settings.bounds, &shape);
    let bounds = |phase, clock| {
        let mut bounds: Vec<_> = rows
            .iter()
            .filter(|row| is_on(row.name, phase, clock))
            .filter_map(|row| {
                Some(SilenceBound {
                    bound: row.name,
                    limit_ms: whole_millis(row.in_force()?),
                    setting: row.name.setting().to_owned(),
                    origin: row.origin.to_string(),
                })
            })
            .collect();
        bounds.sort_by_key(|bound| bound.limit_ms);
        bounds
    };
    counted
        .into_iter()
        .map(|(phase, clock, of_clock)| Silence {
            upstream: target.name().to_owned(),
            phase,
            clock,
            counts: of_clock.counts.to_vec(),
            longest_ms: of_clock.longest_ms,
            bounds: bounds(phase, clock),
        })
        .collect()
}

/// Returns whether a gap of `clock` in `phase` can run into `bound`.
fn is_on(bound: BoundName, phase: Phase, clock: Clock) -> bool {
    match bound {
        BoundName::Headers => phase == Phase::WaitingForHeaders && clock == Clock::Raw,
        BoundName::BeforeContent => phase < Phase::AfterContent && clock == Clock::Content,
        BoundName::BetweenEvents => phase == Phase::AfterContent && clock == Clock::Event,
        _ => clock_of(bound) == Some(clock),
    }
}

/// Returns the word for the state of a breaker.
pub(crate) const fn breaker(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::HalfOpen => "half_open",
        BreakerState::Open => "open",
    }
}

/// More are no longer a list that anybody reads.
const MOST_CALLS: usize = 200;
const MOST_RECENT: usize = 60;
/// One failure may be anybody's.
const ENOUGH: u64 = 2;
/// Two callers may leave an upstream that is well.
const SEVERAL: u64 = 3;
