//! Beats: what the caller is sent while there is nothing to pass on.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use lifesign::clock::CallClock;
use lifesign::{Doing, LazyTimer};
use lifesign_core::Phase;
use lifesign_core::duration::whole_millis;
use lifesign_wire::{Beat, BeatState, Forwarded};

use crate::call::Call;
use crate::hub::time_of;
use crate::readers::Form;

/// When the next beat is due.
#[derive(Debug)]
pub(crate) struct BeatClock {
    clock: CallClock,
    timer: LazyTimer,
    every: Option<Duration>,
    form: Form,
    /// When the call began, on the clock that all calls share.
    began: Duration,
    last: Duration,
    seq: u64,
}

impl BeatClock {
    /// Returns the clock of a call whose response has not begun, and which began `began` on the
    /// clock that all calls share.
    pub(crate) const fn new(
        clock: CallClock,
        began: Duration,
        every: Option<Duration>,
        form: Form,
    ) -> Self {
        Self {
            clock,
            timer: LazyTimer::new(clock),
            every,
            form,
            began,
            last: Duration::ZERO,
            seq: 0,
        }
    }

    pub(crate) const fn form(&self) -> Form {
        self.form
    }

    /// Returns the number of the next beat.
    pub(crate) const fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns ready when nothing was sent for so long that a beat is due, which is sent then.
    pub(crate) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(every) = self.every else {
            return Poll::Pending;
        };
        let due = self.due(every);
        let mut now = self.clock.elapsed();
        while now < due {
            ready!(self.timer.poll(due, cx));
            now = self.clock.elapsed();
        }
        self.seq += 1;
        // The next one counts from the tick, or each would be later than the one before. After a
        // long sleep none are made up for.
        let is_late = now.saturating_sub(due) > MOST_LATE;
        self.last = if is_late { now } else { due };
        Poll::Ready(())
    }

    /// Returns when the next beat is due: at the next tick, which is the same for all calls, so that
    /// many beats are sent at one wake-up.
    fn due(&self, every: Duration) -> Duration {
        let due = self.last.saturating_add(every);
        let tick = MOST_LATE.min(every / 100).as_nanos().max(1);
        let past = (self.began.saturating_add(due)).as_nanos() % tick;
        let missing = if past == 0 { 0 } else { tick - past };
        // No tick is longer than that.
        due.saturating_add(Duration::from_nanos(
            u64::try_from(missing).unwrap_or_default(),
        ))
    }

    /// Notes that something else was sent.
    pub(crate) fn note_sent(&mut self) {
        if self.every.is_some() {
            self.last = self.clock.elapsed();
        }
    }
}

/// How late a beat may be to be sent together with others.
const MOST_LATE: Duration = Duration::from_millis(25);

/// Returns the settings of beats as a time, if there are any.
pub(crate) const fn interval(beats: &crate::config::Beats) -> Option<Duration> {
    time_of(beats.every.value)
}

/// Makes the beat that says what the call is doing.
pub(crate) fn beat(call: &mut Call, seq: u64, form: Form, has_passed: bool) -> Bytes {
    let wire = call.order().wire;
    let event = match form {
        Form::Space => Some(Bytes::from_static(b" ")),
        Form::Comment => None,
        Form::Event => event(call, has_passed),
        Form::EarlyEvent => {
            event(call, has_passed).or_else(|| wire.early_beat_event().map(Bytes::from))
        }
    };
    event.unwrap_or_else(|| comment(call, seq).into())
}

/// Returns an event that means nothing, where the dialect has one that may stand here.
fn event(call: &mut Call, has_passed: bool) -> Option<Bytes> {
    let wire = call.order().wire;
    if wire.habits().starts_apart && !has_passed && !call.start_is_out() {
        // Its readers take no ping before the start, and the start commits to nothing.
        return call.take_start();
    }
    let forwarded = Forwarded {
        id: Some(call.id()),
        model: call.order().model.as_deref(),
        last_sequence: call.last_sequence(),
    };
    wire.beat_event(&forwarded).map(Bytes::from)
}

fn comment(call: &Call, seq: u64) -> Vec<u8> {
    let snapshot = call.monitor().snapshot();
    let readings = snapshot.readings.as_ref();
    let silent = readings.map(|readings| readings.ages.raw);
    let state = match snapshot.doing {
        _ if call.is_draining() => BeatState::Draining,
        Doing::Starting | Doing::Ended => BeatState::Accepted,
        Doing::Queued => BeatState::Queued,
        Doing::Holding { .. } => BeatState::Holding,
        Doing::RetryWait { .. } => BeatState::RetryWait,
        Doing::Attempting => match readings.map(|readings| readings.phase) {
            Some(Phase::BeforeContent | Phase::AfterContent | Phase::Ended)
                if silent.is_some_and(|silent| silent >= QUIET) =>
            {
                BeatState::UpstreamQuiet
            }
            Some(Phase::BeforeContent | Phase::AfterContent | Phase::Ended) => {
                BeatState::UpstreamStarted
            }
            _ => BeatState::Attempt,
        },
    };
    let beat = Beat {
        n: snapshot.attempt,
        of: snapshot.of,
        upstream: call.upstream_name(),
        regime: call.profile(),
        position: call.position(),
        waited_ms: whole_millis(snapshot.elapsed),
        upstream_silent_ms: silent.map(whole_millis),
        seq,
        ..Beat::new(state)
    };
    beat.comment()
}

/// From when on an upstream that has answered is called quiet.
const QUIET: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn beats_of_calls_that_began_apart_are_sent_together_and_hardly_late() {
        let shared = CallClock::start();
        let every = Duration::from_secs(10);
        let mut calls = Vec::new();
        for _ in 0..2 {
            tokio::time::advance(Duration::from_millis(3)).await;
            let clock = CallClock::start();
            let began = shared.elapsed();
            calls.push(BeatClock::new(clock, began, Some(every), Form::Comment));
        }

        let mut sent = Vec::new();
        for beats in &mut calls {
            std::future::poll_fn(|cx| beats.poll_due(cx)).await;
            sent.push(shared.elapsed());
        }

        assert_eq!(sent, [every + MOST_LATE; 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_beat_is_no_later_than_the_one_before_and_none_are_made_up_for() {
        let shared = CallClock::start();
        tokio::time::advance(Duration::from_millis(3)).await;
        let every = Duration::from_secs(10);
        let clock = CallClock::start();
        let mut beats = BeatClock::new(clock, shared.elapsed(), Some(every), Form::Comment);

        let mut sent = Vec::new();
        for busy_ms in [0, 7, 60_000, 0] {
            // Something else keeps the task until then.
            let next = beats.due(every) + Duration::from_millis(busy_ms);
            tokio::time::advance(next.saturating_sub(clock.elapsed())).await;
            std::future::poll_fn(|cx| beats.poll_due(cx)).await;
            sent.push(whole_millis(shared.elapsed()));
        }

        assert_eq!(sent, [10_025, 20_032, 90_025, 100_025]);
    }
}
