//! Where a call under way stands.

use std::time::Duration;

use lifesign::{Doing, Snapshot};
use lifesign_core::duration::whole_millis;
use lifesign_core::{BoundName, BoundReading, Clock, Limit, Phase, Readings, Tally, Watch};

use super::course::WaitNow;
use super::name::shown;
use super::sentence;
use super::snapshot::{BoundNow, CallNow, LastHeartbeat, NextBound, State};
use crate::registry::LiveCall;

/// What can be seen of the attempt under way, beside what its clocks read.
pub(super) struct AttemptNow {
    pub(super) bounds: Vec<BoundReading>,
    pub(super) tally: Tally,
    pub(super) pausing: Option<Duration>,
    pub(super) is_reasoning: bool,
    pub(super) is_streamed: bool,
}

impl AttemptNow {
    pub(super) fn of(watch: &Watch, now: Duration) -> Self {
        Self {
            bounds: watch.bound_readings(now),
            tally: watch.tally(),
            pausing: watch.pausing(now),
            is_reasoning: watch.is_reasoning(),
            is_streamed: watch.is_streamed(),
        }
    }
}

/// Returns what a call is doing, in one word.
pub(super) fn state_now(call: &LiveCall) -> State {
    let snapshot = call.monitor.snapshot();
    let now = snapshot.elapsed;
    let seen = call.monitor.watch(|watch| AttemptNow::of(watch, now));
    state(&snapshot, seen.as_ref())
}

/// Returns what a call is doing.
pub(super) fn call_now(call: &LiveCall) -> CallNow {
    let snapshot = call.monitor.snapshot();
    let now = snapshot.elapsed;
    let seen = call.monitor.watch(|watch| AttemptNow::of(watch, now));
    let seen = seen.as_ref();
    let readings = snapshot.readings.as_ref();
    let (why, is_behind) = match call.with_course(|course| course.wait()) {
        Some(WaitNow::After(why)) => (Some(why), false),
        Some(WaitNow::Behind) => (None, true),
        None => (None, false),
    };
    let until = match snapshot.doing {
        Doing::Holding { until } if !is_behind => Some(until),
        Doing::RetryWait { until } => Some(until),
        _ => None,
    };
    let bounds = match seen {
        Some(seen) => running(&seen.bounds, now),
        None if snapshot.doing == Doing::Ended => Vec::new(),
        None => wall_clock(call, now).into_iter().collect(),
    };
    let started = &call.started;
    let mut call = CallNow {
        id: started.id.clone(),
        at: started.at,
        key: started.key.as_deref().map(shown),
        route: shown(&started.route),
        wire: started.wire.clone(),
        model: started.model.as_deref().map(shown),
        streamed: started.streamed,
        upstream: call.upstream().map(|name| name.to_string()),
        state: state(&snapshot, seen),
        sentence: String::new(),
        doing: doing(snapshot.doing).to_owned(),
        phase: readings.map(|readings| readings.phase),
        stage: readings.and_then(|readings| readings.stage),
        attempt: snapshot.attempt,
        of: snapshot.of,
        elapsed_ms: whole_millis(now),
        clocks_ms: readings.map(|readings| readings.ages),
        next_bound: next(&bounds),
        bounds,
        position: call.position(),
        goes_on_in_ms: until.map(|until| whole_millis(until.saturating_sub(now))),
        why: why.filter(|_| is_waiting(snapshot.doing)),
        unread_ms: seen.and_then(|seen| seen.pausing).map(whole_millis),
        reasoning: seen.is_some_and(|seen| seen.is_reasoning),
        heartbeats: seen.map(|seen| seen.tally.heartbeats).unwrap_or_default(),
        last_heartbeat: readings
            .and_then(|readings| readings.heartbeat)
            .map(|last| LastHeartbeat {
                origin: last.origin,
                age_ms: whole_millis(last.age),
            }),
        beats: call.beats(),
    };
    call.sentence = sentence::of_call(&call);
    call
}

/// Returns the word for what the gateway is doing for a call.
pub(crate) const fn doing(doing: Doing) -> &'static str {
    match doing {
        Doing::Starting => "accepted",
        Doing::Queued => "queued",
        Doing::Holding { .. } => "holding",
        Doing::Attempting => "attempting",
        Doing::RetryWait { .. } => "retry_wait",
        Doing::Ended => "ended",
    }
}

const fn is_waiting(doing: Doing) -> bool {
    matches!(doing, Doing::Holding { .. } | Doing::RetryWait { .. })
}

fn state(snapshot: &Snapshot, seen: Option<&AttemptNow>) -> State {
    match (snapshot.doing, &snapshot.readings, seen) {
        (Doing::Queued, ..) => State::Queued,
        (Doing::Holding { .. }, ..) => State::Held,
        (Doing::RetryWait { .. }, ..) => State::Retrying,
        (Doing::Attempting, Some(readings), Some(seen)) => state_of_attempt(readings, seen),
        (Doing::Ended, ..) => State::Finishing,
        (Doing::Starting | Doing::Attempting, ..) => State::Starting,
    }
}

pub(super) fn state_of_attempt(readings: &Readings, seen: &AttemptNow) -> State {
    let ages = &readings.ages;
    match readings.phase {
        Phase::Queued | Phase::Connecting => return State::Connecting,
        Phase::Ended => return State::Starting,
        Phase::Sending | Phase::WaitingForHeaders if ages.raw < QUIET => return State::Thinking,
        Phase::Sending | Phase::WaitingForHeaders | Phase::BeforeContent | Phase::AfterContent => {}
    }
    if seen.pausing.is_some_and(|pausing| pausing >= UNREAD) {
        return State::Unread;
    }
    let beat = readings.heartbeat.map(|last| last.age);
    let is_beating = beat.is_some_and(|age| age < BEATING && age <= ages.event);
    if ages.raw >= QUIET && !is_beating {
        return State::Silent;
    }
    if !seen.is_streamed {
        // Of a whole body the bytes are the answer.
        let is_coming = seen.tally.bytes > 0;
        return if is_coming {
            State::Answering
        } else {
            State::Thinking
        };
    }
    if ages.event >= QUIET && (is_beating || seen.tally.bytes > 0) {
        return State::Alive;
    }
    let is_answer = readings.phase == Phase::AfterContent && !seen.is_reasoning;
    if is_answer && ages.content < QUIET {
        State::Answering
    } else {
        State::Thinking
    }
}

/// Returns the bounds that run, the first to run out first.
fn running(readings: &[BoundReading], now: Duration) -> Vec<BoundNow> {
    let mut running: Vec<_> = readings
        .iter()
        .filter(|reading| reading.age.is_some())
        .map(|reading| bound_now(reading, now))
        .collect();
    running.sort_by_key(|bound| bound.in_ms.unwrap_or(u64::MAX));
    running
}

/// Returns a bound as it stands; one that does not run has no age.
pub(super) fn bound_now(reading: &BoundReading, now: Duration) -> BoundNow {
    BoundNow {
        bound: reading.name,
        clock: clock_of(reading.name),
        age_ms: whole_millis(reading.age.unwrap_or_default()),
        limit_ms: whole_millis(reading.limit),
        in_ms: reading.due.map(|due| whole_millis(due.saturating_sub(now))),
        setting: reading.name.setting().to_owned(),
        origin: reading.origin.to_string(),
    }
}

/// Returns the one bound that runs while a call waits.
fn wall_clock(call: &LiveCall, now: Duration) -> Option<BoundNow> {
    let wall_clock = call.wall_clock()?;
    let Limit::After(limit) = wall_clock.value else {
        return None;
    };
    let reading = BoundReading {
        name: BoundName::WallClock,
        limit,
        joined: None,
        origin: wall_clock.origin,
        age: Some(now),
        due: Some(limit),
    };
    Some(bound_now(&reading, now))
}

fn next(bounds: &[BoundNow]) -> Option<NextBound> {
    let first = bounds.first()?;
    Some(NextBound {
        bound: first.bound,
        in_ms: first.in_ms?,
    })
}

/// Returns the clock that a bound is a limit on; the others count from the request or the call.
pub(super) const fn clock_of(bound: BoundName) -> Option<Clock> {
    match bound {
        BoundName::RawSilence => Some(Clock::Raw),
        BoundName::BetweenEvents | BoundName::Flat => Some(Clock::Event),
        BoundName::BeforeContent => Some(Clock::Content),
        BoundName::ReasoningOnly => Some(Clock::Output),
        BoundName::WallClock
        | BoundName::Lifetime
        | BoundName::WholeCall
        | BoundName::Connect
        | BoundName::Headers
        | BoundName::UpstreamQuiet => None,
    }
}

/// From when on an upstream that shows nothing is called silent, as in the beats.
const QUIET: Duration = Duration::from_secs(10);
/// Heartbeats come less often than that from nobody whose line is alive.
const BEATING: Duration = Duration::from_secs(30);
/// From when on a caller that does not read is called so.
const UNREAD: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
