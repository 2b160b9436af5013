//! Plain sentences: what a call is doing, how one ended, how an upstream does, and all together.
//!
//! For whoever runs the gateway and was woken for it. They are put together here and nowhere else, and
//! say the same on the page, in a terminal and in JSON. Like a line of log they begin small and have no
//! full stop.

use std::fmt::Write as _;
use std::time::Duration;

use lifesign::Outcome;
use lifesign_core::duration::{human, human_limit};
use lifesign_core::{HeartbeatOrigin, Phase};

use super::snapshot::{CallNow, EndedCall, FailureCount, Health, State, Summary, UpstreamNow};

/// Returns what a call is doing: since when, at whom, and what will end it.
pub(super) fn of_call(call: &CallNow) -> String {
    let upstream = call.upstream.as_deref().unwrap_or("its upstream");
    let ages = call.clocks_ms.unwrap_or_default();
    let (raw, event) = (spoken(ages.raw), spoken(ages.event));
    let (content, output) = (spoken(ages.content), spoken(ages.output));
    let (last_event, last_content) = (ago(ages.event), ago(ages.content));
    let phase = call.phase.unwrap_or(Phase::Queued);
    let mut sentence = match call.state {
        State::Starting => "looking for an upstream".to_owned(),
        State::Finishing => return "over: its caller has not taken the end yet".to_owned(),
        State::Queued => {
            let place = call.position.map(|at| format!(", place {at}"));
            format!("in line for {upstream}{}", place.unwrap_or_default())
        }
        State::Held => match (call.goes_on_in_ms, call.why) {
            (Some(left), Some(why)) => format!(
                "held for another {}, since {upstream} answered {}",
                of_ms(left),
                why.name()
            ),
            (Some(left), None) => format!("held at {upstream} for another {}", of_ms(left)),
            (None, _) => format!(
                "waiting behind a hold on {upstream} that has ended: calls go one after the other"
            ),
        },
        State::Retrying => {
            let next = call.attempt.saturating_add(1);
            let why = call.why.map(|why| format!(", after {}", why.name()));
            let why = why.unwrap_or_default();
            let left = of_ms(call.goes_on_in_ms.unwrap_or_default());
            format!("waiting {left} for attempt {next} of {}{why}", call.of)
        }
        State::Connecting => {
            let stage = call.stage.map(|stage| format!(" ({})", stage.name()));
            format!("connecting to {upstream}{}", stage.unwrap_or_default())
        }
        State::Unread => {
            let unread = of_ms(call.unread_ms.unwrap_or_default());
            format!("its caller has not read for {unread}, so the clocks of {upstream} stand still")
        }
        State::Thinking => match phase {
            Phase::Sending => format!("sending the request to {upstream}"),
            Phase::WaitingForHeaders => format!("waiting for {upstream} to respond, for {raw}"),
            Phase::AfterContent if call.reasoning => {
                format!("reasoning at {upstream} for {output}, last words {last_content}")
            }
            Phase::AfterContent => {
                format!(
                    "no content from {upstream} for {content}, but it works: last event {last_event}"
                )
            }
            _ if call.reasoning => {
                format!("thinking at {upstream}, first token awaited for {content}")
            }
            _ => format!("waiting for the first token at {upstream} for {content}"),
        },
        State::Answering => format!("answering from {upstream}, last content {last_content}"),
        State::Alive => match call.last_heartbeat {
            Some(last) => format!(
                "only heartbeats from {upstream} for {event}: {} is alive, the model shows no work",
                whose(last.origin)
            ),
            None => format!("only bytes from {upstream} for {event}, and no whole frame"),
        },
        State::Silent => match phase {
            Phase::Sending => format!("{upstream} has taken none of the request for {raw}"),
            Phase::WaitingForHeaders => format!("{upstream} has not responded for {raw}"),
            Phase::AfterContent => {
                format!("nothing from {upstream} for {raw}, in the middle of the answer")
            }
            _ => format!("nothing from {upstream} for {raw}, before the first token"),
        },
    };
    match call.next_bound {
        Some(next) => {
            let left = of_ms(next.in_ms);
            // A string takes everything.
            let _infallible = write!(sentence, "; {} cuts in {left}", next.bound.name());
        }
        None if call.state == State::Unread => {}
        None if call.clocks_ms.is_some() => sentence.push_str("; no bound cuts it"),
        None => {}
    }
    sentence
}

/// Returns how a call ended; `why` is what is written down of its failure.
pub(super) fn of_end(call: &EndedCall, why: Option<&str>) -> String {
    let took = of_ms(call.elapsed_ms);
    let at = call.upstream.as_deref();
    let at = at
        .map(|upstream| format!(" at {upstream}"))
        .unwrap_or_default();
    let attempts = match call.attempts {
        0 | 1 => String::new(),
        attempts => format!(", {attempts} attempts"),
    };
    let how = match (call.outcome, &call.cut) {
        (Outcome::Completed, _) => {
            let first = call.first_content_ms;
            let first = first.map(|ms| format!(", first token after {}", of_ms(ms)));
            return format!(
                "completed{at} in {took}{}{attempts}",
                first.unwrap_or_default()
            );
        }
        (_, Some(cut)) => format!("cut by {}", cut.bound.name()),
        (Outcome::Cancelled, None) => "cancelled".to_owned(),
        (Outcome::Truncated, None) => "broken off".to_owned(),
        (Outcome::Failed, None) => "failed".to_owned(),
    };
    let why = why.unwrap_or("for no known cause");
    format!("{how}{at} after {took}: {why}")
}

/// Returns all calls and the last hour in a line.
pub(super) fn of_all(summary: &Summary) -> String {
    let mut text = match summary.calls {
        0 => "no calls".to_owned(),
        1 => "1 call".to_owned(),
        calls => format!("{calls} calls"),
    };
    let states = State::ALL.into_iter().filter_map(|state| {
        let count = summary.states.get(&state)?;
        Some(format!("{count} {}", state.label()))
    });
    let states: Vec<_> = states.collect();
    if !states.is_empty() {
        text = format!("{text}: {}", states.join(", "));
    }
    let hour = &summary.hour;
    let last = match (hour.ended, hour.failed) {
        (0, _) => "nothing ended".to_owned(),
        (ended, 0) => format!("{ended} ended, none failed"),
        (ended, failed) => {
            let most = hour.failures.first().map(|first| mostly(first, failed));
            format!("{ended} ended, {failed} failed{}", most.unwrap_or_default())
        }
    };
    format!("{text}; last hour: {last}")
}

/// Returns which failure of so many was the most frequent.
fn mostly(first: &FailureCount, of: u64) -> String {
    let at = first.upstream.as_deref();
    let at = at.map(|upstream| format!(" at {upstream}"));
    let what = format!("{}{}", first.code.name(), at.unwrap_or_default());
    if first.count == of {
        format!(", {what}")
    } else if first.count * 2 > of {
        format!(", most of them {what}")
    } else {
        format!(", {} of them {what}", first.count)
    }
}

/// Returns how an upstream does.
///
/// Where it is the only one there is nobody whom calls could be sent to instead.
pub(super) fn of_upstream(upstream: &UpstreamNow, is_only: bool) -> String {
    let &UpstreamNow {
        in_flight,
        concurrency,
        waiting,
        queue,
        attempts,
        failed,
        ..
    } = upstream;
    let failing = || {
        let most = upstream.failures.first();
        let most = most.map(|first| mostly(first, failed)).unwrap_or_default();
        format!("{failed} of {attempts} attempts failed in the last hour{most}")
    };
    match upstream.health {
        Health::Held => {
            let longest = upstream.holds.iter().max_by_key(|hold| hold.remaining_ms);
            let Some(hold) = longest else {
                return "held".to_owned();
            };
            let on = match (&hold.model, upstream.holds.len()) {
                (Some(model), 1) => format!(" for {model}"),
                (None, 1) => String::new(),
                (_, holds) => format!(" by {holds} holds"),
            };
            let left = of_ms(hold.remaining_ms);
            format!("held{on} for another {left}, after {}", hold.why.name())
        }
        Health::Broken if is_only => {
            format!("a breaker is open, and there is no other: {}", failing())
        }
        Health::Broken => format!(
            "a breaker is open, so others that serve the model are asked first: {}",
            failing()
        ),
        Health::Failing if failed * 2 < attempts => {
            format!("none of {attempts} attempts in the last hour was completed")
        }
        Health::Failing => failing(),
        Health::Busy if waiting >= queue => {
            format!(
                "full: {in_flight} of {} taken and all {queue} in line",
                places(concurrency)
            )
        }
        Health::Busy if concurrency == 1 => {
            format!("its only place taken, {waiting} of {queue} in line")
        }
        Health::Busy => format!("all {concurrency} places taken, {waiting} of {queue} in line"),
        Health::Idle => match in_flight {
            0 => "nothing ended here in the last hour".to_owned(),
            _ => format!(
                "{in_flight} of {} taken, nothing ended here yet",
                places(concurrency)
            ),
        },
        Health::Good if failed > 0 => failing(),
        Health::Good if attempts == 1 => "1 attempt in the last hour, none failed".to_owned(),
        Health::Good => format!("{attempts} attempts in the last hour, none failed"),
    }
}

fn places(count: usize) -> String {
    match count {
        1 => "1 place".to_owned(),
        _ => format!("{count} places"),
    }
}

/// Returns how long ago something was.
fn ago(age: Duration) -> String {
    if age < Duration::from_secs(1) {
        "just now".to_owned()
    } else {
        format!("{} ago", spoken(age))
    }
}

const fn whose(origin: HeartbeatOrigin) -> &'static str {
    match origin {
        HeartbeatOrigin::Provider => "the provider",
        HeartbeatOrigin::Comment => "a hop on the way",
        HeartbeatOrigin::Proxy => "a gateway on the way",
    }
}

/// Returns a time that was measured, as one says it: tenths below ten seconds, seconds above.
pub(crate) fn spoken(time: Duration) -> String {
    let grain = if time < Duration::from_secs(10) {
        100
    } else {
        1_000
    };
    let millis = time.as_millis();
    let millis = u64::try_from(millis - millis % grain).unwrap_or(u64::MAX);
    human(Duration::from_millis(millis))
}

/// Returns a measured time in milliseconds as one says it.
pub(crate) fn of_ms(ms: u64) -> String {
    spoken(Duration::from_millis(ms))
}

/// Returns a limit in milliseconds as one says it.
pub(crate) fn limit_of_ms(ms: u64) -> String {
    human_limit(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests;
