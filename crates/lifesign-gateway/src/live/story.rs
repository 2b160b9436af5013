//! One call's timeline put together, whether it runs or has ended.

use std::time::Duration;

use jiff::Timestamp;
use lifesign_core::duration::whole_millis;
use lifesign_core::{AttemptRecord, Clock, FailureReport, Silence, Watch};

use super::Live;
use super::course::{Course, PastAttempt};
use super::name::shown;
use super::sentence;
use super::setting::remedy;
use super::snapshot::{CutBy, EndedCall};
use super::standing::{bound_now, call_now};
use super::timeline::{Timeline, TimelineAttempt};
use crate::hub::Hub;
use crate::records::{CallEnded, words};
use crate::registry::LiveCall;

impl Live {
    /// Returns the timeline of the call with this id, if it runs or ended lately.
    pub(crate) fn timeline(&self, hub: &Hub, id: &str) -> Option<Timeline> {
        if let Some(call) = hub.registry.find(id) {
            return Some(of_running(&call));
        }
        self.recent.find(id)
    }
}

fn of_running(call: &LiveCall) -> Timeline {
    let now = call_now(call);
    let elapsed = Duration::from_millis(now.elapsed_ms);
    let under_way = call.monitor.watch(|watch| {
        let bounds = watch.bound_readings(elapsed);
        let attempt = attempt_now(watch, now.attempt, now.upstream.as_deref(), elapsed);
        (attempt, bounds)
    });
    let (mut attempts, events, lost_events) = call.with_course(|course| {
        let attempts: Vec<_> = course.attempts.iter().map(past_attempt).collect();
        (attempts, course.events.clone(), course.lost)
    });
    let mut bounds = Vec::new();
    if let Some((mut attempt, readings)) = under_way {
        attempt.began_ms = events
            .iter()
            .rev()
            .find(|event| matches!(event.what, super::Happening::Attempt { n, .. } if n == attempt.record.n))
            .map_or(attempt.began_ms, |event| event.at_ms);
        attempts.push(attempt);
        bounds = readings.iter().map(|it| bound_now(it, elapsed)).collect();
    }
    Timeline {
        v: 1,
        id: now.id.clone(),
        at: now.at,
        elapsed_ms: now.elapsed_ms,
        now: Some(now),
        ended: None,
        attempts,
        events,
        lost_events,
        bounds,
    }
}

/// Returns the timeline of a call that has ended; how it did stands elsewhere.
pub(super) fn of_past(ended: &EndedCall, course: &Course) -> Timeline {
    Timeline {
        v: 1,
        id: ended.id.clone(),
        at: ended.at,
        elapsed_ms: ended.elapsed_ms,
        now: None,
        ended: None,
        attempts: course.attempts.iter().map(past_attempt).collect(),
        events: course.events.clone(),
        lost_events: course.lost,
        bounds: Vec::new(),
    }
}

fn attempt_now(watch: &Watch, n: u32, upstream: Option<&str>, now: Duration) -> TimelineAttempt {
    let readings = watch.readings(now);
    let upstream = upstream.unwrap_or_default();
    let tally = watch.tally();
    let mut record = AttemptRecord::new(n, upstream, readings.phase, &tally, Duration::ZERO);
    record.ended_ms = whole_millis(now);
    let mut silences = watch.trace().silences();
    // Those that last still.
    for clock in Clock::ALL {
        let age = readings.ages.clock(clock);
        if age >= SHORTEST_DRAWN {
            silences.push(Silence {
                clock,
                from_ms: whole_millis(now.saturating_sub(age)),
                to_ms: whole_millis(now),
            });
        }
    }
    silences.sort_by_key(|silence| (silence.clock, silence.from_ms));
    TimelineAttempt {
        live: true,
        began_ms: tally.sending.map(whole_millis).unwrap_or_default(),
        model: None,
        profile: None,
        cut: None,
        reason: None,
        ticks: watch.trace().ticks(),
        silences,
        record,
    }
}

fn past_attempt(past: &PastAttempt) -> TimelineAttempt {
    let PastAttempt { ended, trace } = past;
    let failure = ended.failure.as_ref();
    TimelineAttempt {
        record: ended.attempt.clone(),
        live: false,
        began_ms: ended.began_ms,
        model: ended.model.as_deref().map(shown),
        profile: Some(ended.profile.clone()),
        cut: failure.and_then(|failure| cut_by(failure, Some(&ended.attempt.upstream))),
        reason: failure.map(|failure| words(failure).into_owned()),
        ticks: trace.ticks(),
        silences: trace.silences(),
    }
}

/// Returns how a call ended that is over since `ended_at`.
pub(super) fn ended(ended: &CallEnded, ended_at: Timestamp) -> EndedCall {
    let failure = ended.failure.as_ref();
    let started = &ended.started;
    let upstream = ended.upstream.as_deref();
    let last = ended.attempts.last();
    let mut call = EndedCall {
        id: started.id.clone(),
        at: started.at,
        ended_at,
        key: started.key.as_deref().map(shown),
        route: shown(&started.route),
        model: started.model.as_deref().map(shown),
        upstream: upstream.map(str::to_owned),
        outcome: ended.outcome,
        sentence: String::new(),
        told: failure.map(|failure| failure.sentence.clone()),
        hint: failure.and_then(|failure| failure.hint.clone()),
        code: failure.map(|failure| failure.code),
        cut: failure.and_then(|failure| cut_by(failure, upstream)),
        status: ended.status,
        attempts: ended.attempts.len(),
        elapsed_ms: ended.elapsed_ms,
        first_content_ms: last.and_then(|last| last.first_content_ms),
        queued_ms: ended.queued_ms,
        held_ms: ended.held_ms,
        retry_wait_ms: ended.retry_wait_ms,
        beats: ended.beats,
    };
    call.sentence = sentence::of_end(&call, failure.map(words).as_deref());
    call
}

fn cut_by(failure: &FailureReport, upstream: Option<&str>) -> Option<CutBy> {
    let bound = failure.bound?;
    let origin = failure.origin.clone().unwrap_or_default();
    Some(CutBy {
        bound,
        limit_ms: failure.limit_ms,
        setting: bound.setting().to_owned(),
        remedy: remedy(bound, &origin, upstream),
        origin,
    })
}

/// As in a trace.
const SHORTEST_DRAWN: Duration = Duration::from_secs(1);
