//! Judges one attempt by what crosses the wire.
//!
//! Progress only stores when it came; nothing is armed. Every bound is a [`Row`] of a table, and
//! its deadline is worked out from the stored times when somebody asks. A busy stream therefore
//! costs no timer work, and what a bound means stands in one place, `due.rs`.
//!
//! Two times are kept apart. *Call time* is what the driver hands in. *Upstream time* leaves out
//! the consumer's pauses, which are not the upstream's silence; every bound but `wall_clock` runs
//! on it.

mod due;
mod gaps;
mod judge;
mod pulse;
mod reminder;
mod rows;
mod standing;
mod tally;
mod trace;
mod verdict;

use std::time::Duration;

use pulse::Pulse;
use reminder::Reminder;
use rows::{become_whole, that_may_cut, whole_call};

use crate::{
    Ages, Block, BlockKind, Bounds, Clock, HeartbeatOrigin, Limit, Phase, Progress, Sign, Stage,
};

pub use gaps::Gaps;
#[cfg(test)]
pub(crate) use rows::CHAT;
pub use rows::{CallShape, Join, JoinBlock, Row, WireDefaults, rows};
pub use standing::BoundReading;
pub use tally::{Heartbeats, Tally};
pub use trace::{Silence, Tick, Trace};
pub use verdict::{Cut, Joined, LastHeartbeat, Notice, Readings, Verdict};

/// Judges one attempt by what crosses the wire.
///
/// A watch does no I/O and reads no clock; every time is a [`Duration`] since the call began. A
/// time that goes backwards is taken as the latest one seen. `handle_*` methods tell it what
/// happened. Sleep until [`poll_deadline`](Self::poll_deadline), then call
/// [`handle_time`](Self::handle_time) and do what it says.
///
/// # Example
///
/// This example shows a stream that starts and then goes silent.
///
/// ```
/// use std::time::Duration;
///
/// use lifesign_core::{
///     Bounds, CallShape, FailureCode, Progress, Sign, Verdict, Watch, WireDefaults,
/// };
///
/// let wire = WireDefaults {
///     name: "openai-chat",
///     raw_silence: Duration::from_secs(240),
///     shows_work: false,
///     between_events: true,
/// };
/// let shape = CallShape { streamed: true, max_tokens: None, wire };
/// let mut watch = Watch::new(&Bounds::default(), &shape, Duration::ZERO, Duration::ZERO);
/// watch.handle_sending(Duration::ZERO);
/// watch.handle_sent(Duration::ZERO);
/// watch.handle_headers(Duration::from_secs(1));
/// watch.handle_bytes(64, Duration::from_secs(2));
/// watch.handle_frame(Sign::of(Progress::Output), Duration::from_secs(2));
///
/// let mut due = Duration::ZERO;
/// let cut = loop {
///     due = watch.poll_deadline().unwrap_or(due);
///     if let Verdict::Cut(cut) = watch.handle_time(due) {
///         break cut;
///     }
/// };
///
/// assert_eq!(cut.bound.name(), "between_events");
/// assert_eq!(cut.code(), FailureCode::RawSilent);
/// assert_eq!(due, Duration::from_secs(152));
/// ```
#[derive(Clone, Debug)]
pub struct Watch {
    /// The bounds that may cut.
    rows: Vec<Row>,
    /// What limits the whole call, should the answer turn out to be no stream.
    whole_call: Limit,
    /// Whether the answer comes in pieces, as far as is known.
    streamed: bool,
    phase: Phase,
    stage: Option<Stage>,
    /// The latest call time seen.
    latest: Duration,
    /// Since when, in call time, the consumer has paused.
    paused_since: Option<Duration>,
    /// Finished pauses.
    paused: Duration,
    lifetime_spent: Duration,

    // From here on all times are upstream time.
    connecting: Option<Duration>,
    sending: Option<Duration>,
    sent: Option<Duration>,
    /// When something of at least each class last came.
    seen: [Option<Duration>; 5],
    /// When headers came or request bytes were accepted: life, but no finding.
    moved: Option<Duration>,
    longest_gap: [Duration; 4],
    gaps: Gaps,
    trace: Trace,
    /// Since when the latest content has been reasoning.
    reasons: Option<Duration>,
    /// When a whole body was recognised.
    whole: Option<Duration>,
    open: Option<Open>,
    /// When a thinking block last opened.
    thinking: Option<Duration>,
    heartbeat: Option<(HeartbeatOrigin, Duration)>,
    pulse: Pulse,
    report: Option<Report>,
    reminder: Reminder,
    look: Option<Look>,
    /// When the machine last woke from a sleep that outlasted a bound.
    woke: Option<Duration>,
    /// Whether a sleep was excused since the last byte.
    excused: bool,
    tally: Tally,
}

impl Watch {
    /// Returns a watch over an attempt that began at `began`.
    ///
    /// `lifetime_spent` is what earlier attempts of the call spent waiting for the upstream.
    pub fn new(
        bounds: &Bounds,
        shape: &CallShape,
        began: Duration,
        lifetime_spent: Duration,
    ) -> Self {
        Self {
            rows: that_may_cut(bounds, shape),
            whole_call: whole_call(bounds, shape),
            streamed: shape.streamed,
            phase: Phase::Queued,
            stage: None,
            latest: began,
            paused_since: None,
            paused: Duration::ZERO,
            lifetime_spent,
            connecting: None,
            sending: None,
            sent: None,
            seen: [None; 5],
            moved: None,
            longest_gap: [Duration::ZERO; 4],
            gaps: Gaps::default(),
            trace: Trace::default(),
            reasons: None,
            whole: None,
            open: None,
            thinking: None,
            heartbeat: None,
            pulse: Pulse::default(),
            report: None,
            reminder: Reminder::new(bounds.notice_after.value),
            look: None,
            woke: None,
            excused: false,
            tally: Tally::default(),
        }
    }

    /// Records that a stage of connecting began; the first one starts `connect`.
    pub fn handle_connecting(&mut self, stage: Stage, at: Duration) {
        let now = self.advance(at);
        if self.phase > Phase::Connecting {
            return;
        }
        self.phase = Phase::Connecting;
        self.stage = Some(stage);
        self.connecting.get_or_insert(now);
    }

    /// Records the first request byte, from which every clock counts.
    pub fn handle_sending(&mut self, at: Duration) {
        let now = self.advance(at);
        self.reach(Phase::Sending, now);
    }

    /// Records that the socket accepted request bytes.
    pub fn handle_write(&mut self, at: Duration) {
        let now = self.advance(at);
        if self.phase < Phase::Ended {
            self.reach(Phase::Sending, now);
            self.renew_raw(now);
        }
    }

    /// Records the last request byte.
    pub fn handle_sent(&mut self, at: Duration) {
        let now = self.advance(at);
        if self.phase < Phase::WaitingForHeaders {
            self.reach(Phase::WaitingForHeaders, now);
            self.renew_raw(now);
        }
    }

    /// Records the response headers. They are life, but no finding.
    pub fn handle_headers(&mut self, at: Duration) {
        let now = self.advance(at);
        if self.phase < Phase::Ended {
            self.reach(Phase::Sending, now);
            // The gap that ends here is that of the wait for the headers.
            self.renew_raw(now);
            self.reach(Phase::BeforeContent, now);
            self.excused = false;
        }
    }

    /// Records bytes that nothing can be made of yet: a part of the response's head or framing.
    ///
    /// Of the head they are life, but no finding; of the body they are a finding, but not counted.
    pub fn handle_raw(&mut self, at: Duration) {
        let now = self.advance(at);
        match self.phase {
            Phase::Queued | Phase::Connecting | Phase::Ended => {}
            Phase::Sending | Phase::WaitingForHeaders => self.renew_raw(now),
            Phase::BeforeContent | Phase::AfterContent => self.renew(Progress::Byte, now),
        }
    }

    /// Records `len` body bytes as they came, before any decoding.
    pub fn handle_bytes(&mut self, len: usize, at: Duration) {
        let now = self.advance(at);
        if len == 0 || self.phase == Phase::Ended {
            return;
        }
        if self.phase < Phase::BeforeContent {
            self.reach(Phase::BeforeContent, now);
        }
        self.tally.first_byte.get_or_insert(self.latest);
        self.tally.bytes += len as u64;
        self.renew(Progress::Byte, now);
    }

    /// Records what one whole frame proves.
    ///
    /// This is called for every frame of a stream. It stores times and counts and works out no
    /// deadline. It allocates where the first heartbeat or the first gap is kept, and nothing else.
    #[inline]
    pub fn handle_frame(&mut self, sign: Sign, at: Duration) {
        let now = self.advance(at);
        if self.phase == Phase::Ended {
            return;
        }
        if self.phase < Phase::BeforeContent {
            self.reach(Phase::BeforeContent, now);
        }
        self.tally.frames += 1;
        self.renew(sign.progress, now);
        if sign.progress >= Progress::Lifecycle {
            self.pulse = Pulse::default();
            self.report = None;
        } else {
            self.handle_beat(&sign, now);
        }
        if let Some(block) = sign.block {
            self.handle_block(block, sign.progress, now);
        }
        if sign.progress >= Progress::Reasoning {
            if sign.progress == Progress::Output {
                self.reasons = None;
            } else {
                self.reasons.get_or_insert(now);
            }
            if self.phase < Phase::AfterContent {
                self.reach(Phase::AfterContent, now);
            }
        }
    }

    /// Records that a whole JSON body answers the request for a stream.
    ///
    /// From here on the attempt has the bounds of an answer that is not streamed.
    pub fn handle_whole_body(&mut self, at: Duration) {
        let now = self.advance(at);
        self.whole.get_or_insert(now);
        self.streamed = false;
        become_whole(&mut self.rows, self.whole_call);
    }

    /// Records that the consumer stopped asking. Until it resumes only `wall_clock` runs.
    pub fn handle_pause(&mut self, at: Duration) {
        self.advance(at);
        if self.phase < Phase::Ended {
            self.paused_since.get_or_insert(self.latest);
        }
    }

    /// Records that the consumer asks again.
    ///
    /// One that was back at once has not paused: of a flood of frames each is handed over, and if
    /// those moments counted, a flood would stretch every bound.
    pub fn handle_resume(&mut self, at: Duration) {
        self.advance(at);
        if let Some(since) = self.paused_since.take() {
            let pause = self.latest.saturating_sub(since);
            if pause >= SHORTEST_PAUSE {
                self.paused = self.paused.saturating_add(pause);
            }
        }
    }

    /// Records the end of the attempt, however it came. Nothing counts after it.
    pub fn handle_ended(&mut self, at: Duration) {
        self.handle_resume(at);
        if self.phase < Phase::Ended {
            let now = self.upstream_time(self.latest);
            for clock in Clock::ALL {
                self.count_gap(clock, self.age(clock, now));
            }
            self.tally = self.tally();
            self.tally.ended = Some(self.latest);
            self.phase = Phase::Ended;
        }
    }

    /// Returns when to call [`handle_time`](Self::handle_time) next, or `None` if nothing is armed.
    pub fn poll_deadline(&self) -> Option<Duration> {
        let bound = self.first_due().map(|(_, due)| match self.look {
            Some(look) if due <= look.at => look.until.max(due),
            _ => due,
        });
        match (bound, self.notice_due()) {
            (Some(bound), Some(notice)) => Some(bound.min(notice)),
            (bound, notice) => bound.or(notice),
        }
    }

    /// Returns what to do at `now`.
    ///
    /// Calling it early or again is harmless.
    pub fn handle_time(&mut self, now: Duration) -> Verdict {
        self.advance(now);
        let now = self.latest;
        match self.first_due() {
            Some((row, due)) if due <= now => {
                let row = row.clone();
                self.judge(&row, due, now)
            }
            _ => self.give_notice(),
        }
    }

    /// Returns where the attempt stands at `now`.
    pub fn readings(&self, now: Duration) -> Readings {
        let call_time = now.max(self.latest);
        let now = self.upstream_time(match self.tally.ended {
            Some(ended) => ended,
            None => call_time,
        });
        Readings {
            phase: self.phase,
            stage: self.connecting_stage(),
            ages: self.ages(now),
            next: self.first_due().map(|(row, due)| (row.name, due)),
            heartbeat: self.last_heartbeat(now),
            paused: self.paused_at(call_time),
        }
    }

    /// Returns what the attempt amounts to so far.
    pub fn tally(&self) -> Tally {
        if self.phase == Phase::Ended {
            return self.tally;
        }
        let now = self.upstream_time(self.latest);
        Tally {
            longest_gap: Ages::of(|clock| self.longest_gap(clock, now)),
            paused: self.paused(),
            ..self.tally
        }
    }

    /// Returns the gaps of the attempt; with its end those that were open are among them.
    pub const fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Returns the gaps of the attempt, of which nothing more is asked.
    pub fn into_gaps(self) -> Gaps {
        self.gaps
    }

    /// Returns the time spent waiting for the upstream so far, earlier attempts included.
    pub fn lifetime(&self) -> Duration {
        let now = self.upstream_time(self.tally.ended.unwrap_or(self.latest));
        let this = self
            .connecting
            .map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.lifetime_spent.saturating_add(this)
    }

    /// Returns the bounds that may cut, in order of precedence: those in force, and `whole_call`,
    /// which comes into force where the answer turns out to be no stream.
    ///
    /// [`rows`] has them all, with those that are off or do not apply. A limit learned from the
    /// rhythm of heartbeats is not in here; a [`Cut`] names it.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

/// What came.
impl Watch {
    /// Takes in a call time and returns the upstream time.
    fn advance(&mut self, at: Duration) -> Duration {
        self.latest = self.latest.max(at);
        self.upstream_time(self.latest)
    }

    /// Moves on to `phase` if the attempt is not there yet, by way of the phases in between.
    #[cold]
    fn reach(&mut self, phase: Phase, now: Duration) {
        if self.phase >= phase {
            return;
        }
        if phase >= Phase::Sending && self.sending.is_none() {
            self.connecting.get_or_insert(now);
            self.sending = Some(now);
            self.tally.sending = Some(self.latest);
        }
        if phase >= Phase::WaitingForHeaders && self.sent.is_none() {
            self.sent = Some(now);
            self.tally.sent = Some(self.latest);
        }
        if phase >= Phase::BeforeContent && self.tally.headers.is_none() {
            self.tally.headers = Some(self.latest);
        }
        if phase >= Phase::AfterContent {
            self.tally.first_content = Some(self.latest);
        }
        self.phase = phase;
    }

    fn renew(&mut self, progress: Progress, now: Duration) {
        self.excused = false;
        for clock in Clock::ALL {
            if progress < clock.least() {
                break;
            }
            self.close_gap(clock, now);
        }
        for seen in self.seen.iter_mut().take(progress as usize + 1) {
            *seen = Some(now);
        }
    }

    fn renew_raw(&mut self, now: Duration) {
        self.close_gap(Clock::Raw, now);
        self.moved = Some(now);
    }

    fn close_gap(&mut self, clock: Clock, now: Duration) {
        let gap = self.age(clock, now);
        let longest = &mut self.longest_gap[clock as usize];
        *longest = gap.max(*longest);
        self.count_gap(clock, gap);
    }

    #[inline]
    fn count_gap(&mut self, clock: Clock, gap: Duration) {
        if self.gaps.count(self.phase, clock, gap) {
            self.trace.note_gap(clock, self.latest, gap);
        }
    }

    fn handle_beat(&mut self, sign: &Sign, now: Duration) {
        if sign.progress < Progress::Heartbeat {
            return;
        }
        let origin = sign.origin.unwrap_or(HeartbeatOrigin::Provider);
        self.tally.heartbeats.count(origin);
        self.heartbeat = Some((origin, now));
        self.pulse.beat(now);
        self.trace.note_beat(self.latest);
        if let Some(silent) = sign.upstream_silent {
            self.report = Some(Report { at: now, silent });
        }
    }

    fn handle_block(&mut self, block: Block, progress: Progress, now: Duration) {
        match block {
            Block::Opens(kind) => {
                // A tool's name says nothing of its arguments; a thinking block that opens with
                // something in it has brought something.
                let empty = kind != BlockKind::Thinking || progress < Progress::Reasoning;
                self.open = Some(Open {
                    since: now,
                    empty: empty && kind.is_dark(),
                });
                if kind == BlockKind::Thinking {
                    self.thinking = Some(now);
                }
            }
            Block::Fills => {
                if let Some(open) = &mut self.open {
                    open.empty = false;
                }
            }
            Block::Closes => self.open = None,
        }
    }
}

/// What the clocks read.
impl Watch {
    fn ages(&self, now: Duration) -> Ages {
        Ages::of(|clock| self.age(clock, now))
    }

    fn age(&self, clock: Clock, now: Duration) -> Duration {
        let renewed = self.renewed(clock).unwrap_or(now);
        now.saturating_sub(renewed)
    }

    fn longest_gap(&self, clock: Clock, now: Duration) -> Duration {
        self.longest_gap[clock as usize].max(self.age(clock, now))
    }

    fn last_heartbeat(&self, now: Duration) -> Option<LastHeartbeat> {
        let (origin, at) = self.heartbeat?;
        Some(LastHeartbeat {
            origin,
            age: now.saturating_sub(at),
        })
    }

    fn connecting_stage(&self) -> Option<Stage> {
        self.stage.filter(|_| self.phase == Phase::Connecting)
    }

    /// Returns the upstream time at the call time `at`.
    fn upstream_time(&self, at: Duration) -> Duration {
        self.paused_since
            .map_or(at, |since| since.min(at))
            .saturating_sub(self.paused)
    }

    fn paused(&self) -> Duration {
        self.paused_at(self.latest)
    }

    fn paused_at(&self, at: Duration) -> Duration {
        let open = self
            .paused_since
            .map_or(Duration::ZERO, |since| at.saturating_sub(since));
        self.paused.saturating_add(open)
    }
}

/// A consumer that asks again sooner has not paused. It is what handing over an event takes.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// An open block.
#[derive(Clone, Copy, Debug)]
struct Open {
    since: Duration,
    /// Whether it fills in the dark and has brought nothing but empty deltas.
    empty: bool,
}

/// What a gateway above said of its upstream.
#[derive(Clone, Copy, Debug)]
struct Report {
    at: Duration,
    silent: Duration,
}

/// A look at the socket, in call time.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Duration,
    until: Duration,
}
