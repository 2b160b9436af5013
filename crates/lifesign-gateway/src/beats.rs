//! Beats: what the caller is sent while there is nothing to pass on.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use lifesign::clock::CallClock;
use lifesign::{Doing, LazyTimer};
use lifesign_core::Phase;
use lifesign_wire::{Beat, BeatState, Forwarded, Wire};

use crate::call::Call;
use crate::config::BeatForm;
use crate::hub::time_of;

/// What a beat looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A comment of the stream.
    Comment,
    /// An event that means nothing, where one may stand; a comment elsewhere.
    Event,
    /// White space before a body that is not streamed.
    Space,
}

impl Form {
    /// Returns the form that is set, or the one that this reader takes for life.
    pub(crate) fn of(set: BeatForm, wire: Wire, user_agent: Option<&str>) -> Self {
        match set {
            BeatForm::Comment => Self::Comment,
            BeatForm::Event => Self::Event,
            BeatForm::Space => Self::Space,
            BeatForm::Auto => {
                let agent = user_agent.unwrap_or_default();
                let counts_events = EVENT_READERS
                    .iter()
                    .any(|(reads, name)| *reads == wire.name() && agent.contains(name));
                if counts_events {
                    Self::Event
                } else {
                    Self::Comment
                }
            }
        }
    }
}

/// Readers that time events and see no comments: wire, and a part of the user agent.
const EVENT_READERS: [(&str, &str); 2] =
    [("openai-responses", "codex"), ("anthropic", "claude-cli")];

/// When the next beat is due.
#[derive(Debug)]
pub(crate) struct BeatClock {
    clock: CallClock,
    timer: LazyTimer,
    every: Option<Duration>,
    form: Form,
    last: Duration,
    seq: u64,
}

impl BeatClock {
    /// Returns the clock of a call whose response has not begun.
    pub(crate) const fn new(clock: CallClock, every: Option<Duration>, form: Form) -> Self {
        Self {
            clock,
            timer: LazyTimer::new(clock),
            every,
            form,
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

    /// Returns ready when nothing was sent for so long that a beat is due.
    pub(crate) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(every) = self.every else {
            return Poll::Pending;
        };
        let due = self.last.saturating_add(every);
        while self.clock.elapsed() < due {
            ready!(self.timer.poll(due, cx));
        }
        self.seq += 1;
        Poll::Ready(())
    }

    /// Notes that something was sent.
    pub(crate) fn note_sent(&mut self) {
        if self.every.is_some() {
            self.last = self.clock.elapsed();
        }
    }
}

/// Returns the settings of beats as a time, if there are any.
pub(crate) const fn interval(beats: &crate::config::Beats) -> Option<Duration> {
    time_of(beats.every.value)
}

/// Makes the beat that says what the call is doing.
pub(crate) fn beat(call: &mut Call, seq: u64, form: Form, has_passed: bool) -> Bytes {
    match form {
        Form::Space => return Bytes::from_static(b" "),
        Form::Event => {
            if let Some(event) = event(call, has_passed) {
                return event;
            }
        }
        Form::Comment => {}
    }
    comment(call, seq).into()
}

/// Returns an event that means nothing, where the dialect has one that may stand here.
fn event(call: &mut Call, has_passed: bool) -> Option<Bytes> {
    let wire = call.order().wire;
    if wire == Wire::ANTHROPIC && !has_passed && !call.start_is_out() {
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
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let beat = Beat {
        n: snapshot.attempt,
        of: snapshot.of,
        upstream: call.upstream_name(),
        regime: call.profile(),
        position: call.position(),
        waited_ms: millis(snapshot.elapsed),
        upstream_silent_ms: silent.map(millis),
        seq,
        ..Beat::new(state)
    };
    beat.comment()
}

/// From when on an upstream that has answered is called quiet.
const QUIET: Duration = Duration::from_secs(10);
