//! Beats: what the caller is sent while there is nothing to pass on.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use lifesign::clock::CallClock;
use lifesign::{Doing, LazyTimer};
use lifesign_core::Phase;
use lifesign_core::duration::whole_millis;
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
    /// An event that means nothing, also ahead of the answer's first event.
    EarlyEvent,
    /// White space before a body that is not streamed.
    Space,
}

impl Form {
    /// Returns the form that is set, or the one that this reader takes for life. White space says
    /// nothing in a stream, and would spoil its lines.
    pub(crate) fn of(set: BeatForm, wire: Wire, is_stream: bool, user_agent: Option<&str>) -> Self {
        match set {
            BeatForm::Comment => Self::Comment,
            BeatForm::Event => Self::Event,
            BeatForm::Space if !is_stream => Self::Space,
            BeatForm::Auto | BeatForm::Space => {
                let agent = user_agent.unwrap_or_default();
                let reader = READERS
                    .iter()
                    .find(|(reads, name, _)| *reads == wire.name() && agent.contains(name));
                reader.map_or(Self::Comment, |(_, _, form)| *form)
            }
        }
    }
}

/// Readers to which a comment is no sign of life: wire, a part of the user agent, and the form that
/// is one.
///
/// Tried with a scripted server, a sign a second; docs/coding-agents.md says how.
///
/// - Codex 0.171.0 (`codex_exec/`, `codex-tui/`) starts `stream_idle_timeout_ms` anew at every event
///   that has data, whatever it says, and at any place, `response.created` not yet there included.
///   Comments and events without data count for nothing.
/// - Claude Code 2.1.332 and 2.1.197 (`claude-cli/`) see no `ping`, only that bytes came: a comment
///   does the same, up to 300 s more in the newer, nothing in the older. An event of the answer
///   starts its timer anew in both, and `message_start` is the one that can be had early.
/// - qwen-code 0.24.4 (`QwenCode/`) starts `streamIdleTimeoutMs`, 240 s, anew at every chunk, and a
///   chunk without choices is one, also ahead of the first. Comments count for nothing.
const READERS: [(&str, &str, Form); 3] = [
    ("openai-responses", "codex", Form::EarlyEvent),
    ("anthropic", "claude-cli", Form::Event),
    ("openai-chat", "QwenCode", Form::Event),
];

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

    /// Returns ready when nothing was sent for so long that a beat is due.
    pub(crate) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(every) = self.every else {
            return Poll::Pending;
        };
        let due = self.due(every);
        while self.clock.elapsed() < due {
            ready!(self.timer.poll(due, cx));
        }
        self.seq += 1;
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

    /// Notes that something was sent.
    pub(crate) fn note_sent(&mut self) {
        if self.every.is_some() {
            self.last = self.clock.elapsed();
        }
    }
}

/// How late a beat may be to be sent together with others.
const MOST_LATE: Duration = Duration::from_millis(10);

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

    /// As they came in a request.
    const CODEX: [&str; 2] = [
        "codex_exec/0.171.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.171.0)",
        "codex-tui/0.171.0 (Debian 12.0.0; x86_64) tmux-256color (codex-tui; 0.171.0)",
    ];
    const QWEN_CODE: &str = "QwenCode/0.24.4 (linux; x64)";
    const CLAUDE_CODE: &str = "claude-cli/2.1.332 (external, sdk-cli)";

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

    fn auto(wire: Wire, agent: &str) -> Form {
        Form::of(BeatForm::Auto, wire, true, Some(agent))
    }

    #[test]
    fn codex_is_sent_events_from_the_start_and_others_those_of_their_wire() {
        for agent in CODEX {
            assert_eq!(auto(Wire::OPENAI_RESPONSES, agent), Form::EarlyEvent);
            assert_eq!(auto(Wire::OPENAI_CHAT, agent), Form::Comment);
        }
        assert_eq!(auto(Wire::ANTHROPIC, CLAUDE_CODE), Form::Event);
        assert_eq!(auto(Wire::OPENAI_CHAT, QWEN_CODE), Form::Event);
    }

    #[test]
    fn everybody_else_is_sent_comments() {
        for wire in Wire::ALL {
            assert_eq!(auto(wire, "OpenAI/Python 2.9.0"), Form::Comment);
            assert_eq!(Form::of(BeatForm::Auto, wire, true, None), Form::Comment);
        }
    }

    #[test]
    fn what_is_set_wins_over_who_asks() {
        let set = |form| Form::of(form, Wire::OPENAI_RESPONSES, true, Some(CODEX[0]));

        assert_eq!(set(BeatForm::Comment), Form::Comment);
        assert_eq!(set(BeatForm::Event), Form::Event);
    }

    #[test]
    fn white_space_is_for_whole_bodies_alone() {
        let space = |is_stream| Form::of(BeatForm::Space, Wire::OPENAI_CHAT, is_stream, None);

        assert_eq!(space(false), Form::Space);
        assert_eq!(space(true), Form::Comment);
    }
}
