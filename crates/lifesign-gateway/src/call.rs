//! One call: whom to ask, when, how often, and how it ends.
//!
//! A state machine that only moves while it is polled: by the service until the response begins,
//! and by the response's body after that. Dropping it cancels the upstream at once and gives slot
//! and place in line back.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use lifesign::attempt::{Attempt, AttemptStep, Intake, ResponseHead};
use lifesign::clock::CallClock;
use lifesign::trace_context::SpanId;
use lifesign::{Doing, LazyTimer, Monitor, Outcome, Upstream};
use lifesign_core::duration::whole_millis;
use lifesign_core::{
    AttemptRecord, Commit, Failure, FailureCode, FailureReport, HoldKey, Limit, Past, Phase,
    Setting, Settings, Usage,
};

use self::ending::outcome_of;
pub(crate) use self::order::{Fault, Item, Order};
use crate::guest::keep_credentials;
use crate::holds::{Pass, Passage};
use crate::hub::Hub;
use crate::lane::{Permit, Probe, Ticket};
use crate::live::Happening;
use crate::rate::CountedCall;
use crate::records::{BeatForms, Quiet, Record, Wait, WaitFor};
use crate::registry::LiveCall;
use crate::relay::{Piece, Relay};
use crate::server::Peer;
use crate::target::OutboundBody;

mod choose;
mod ending;
mod follow;
mod order;
mod waiting;

/// A call under way.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says of one thing whether it has happened yet"
)]
pub(crate) struct Call {
    hub: Arc<Hub>,
    order: Order,
    live: Arc<LiveCall>,
    clock: CallClock,
    monitor: Monitor,
    timer: LazyTimer,
    state: State,
    /// The upstreams that failed since the last wait.
    tried: Vec<usize>,
    /// The first upstream that gave no turn in time.
    out_of_turn: Option<usize>,
    /// The failure that comes first, once another upstream is asked.
    first: Option<Box<Fault>>,
    records: Vec<AttemptRecord>,
    history: Vec<Past>,
    waited: Duration,
    lifetime_spent: Duration,
    fresh: bool,
    /// Whether the call waited for its turn already, so that it goes to the head of the line.
    returns: bool,
    /// Whether the response has begun.
    is_open: bool,
    /// Whether the event that starts an answer is out.
    start_is_out: bool,
    /// Whether a stream was refused, so that the answer is taken whole.
    unstreamed: bool,
    /// Whether the request was let go, since all together were too much to keep.
    is_unrepeatable: bool,
    paused: bool,
    replay_len: usize,
    most_attempts: u32,
    head: Option<ResponseHead>,
    last: Last,
    times: Times,
    began_waiting: Duration,
    waits_because: Option<FailureCode>,
    /// The bound on the whole call, from the upstream asked last, if there is one.
    wall_clock: Option<Box<Setting<Limit>>>,
    /// How it ended, until that is written down.
    ended: Option<(Outcome, Option<Box<FailureReport>>)>,
    _counted: Arc<CountedCall>,
}

/// What is known at the end of the last attempt.
#[derive(Debug, Default)]
struct Last {
    target: Option<usize>,
    /// The number of the last event that passed.
    sequence: Option<u64>,
    /// The name of the profile in force.
    profile: Option<&'static str>,
    told: Option<Box<Told>>,
}

/// What the provider said of the answer that counts.
#[derive(Debug, Default)]
struct Told {
    id: Option<String>,
    model: Option<String>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
}

/// Where the time went, and what went out.
#[derive(Debug, Default)]
pub(crate) struct Times {
    queued: Duration,
    held: Duration,
    retry_wait: Duration,
    waits: Vec<Wait>,
    pub(crate) beats: BeatForms,
    pub(crate) bytes_out: u64,
    pub(crate) status: Option<u16>,
}

enum State {
    Choosing,
    Queued {
        ticket: Ticket,
        pass: Option<Pass>,
        target: usize,
        until: Option<Duration>,
    },
    Held {
        passage: Passage,
        target: usize,
        until: Duration,
    },
    /// After a hold: only few calls pass at first.
    Passing {
        passage: Passage,
        key: HoldKey,
        target: usize,
    },
    Waiting {
        until: Duration,
    },
    Attempting(Box<Attempting>),
    Over,
}

struct Attempting {
    attempt: Attempt<Relay>,
    target: usize,
    /// As it was when the attempt began, with our key if ours goes to it.
    upstream: Arc<Upstream>,
    settings: Arc<Settings>,
    began: Duration,
    /// Whether a stream was asked for.
    streamed: bool,
    quiet: Vec<Quiet>,
    /// The attempt's span, where the call has a trace.
    span: Option<SpanId>,
    pass: Option<Pass>,
    _permit: Permit,
    _probe: Option<Probe>,
}

impl Call {
    /// `counted` is the call's place among those of its key.
    pub(crate) fn new(
        hub: Arc<Hub>,
        order: Order,
        counted: Arc<CountedCall>,
        peer: Arc<Peer>,
    ) -> Self {
        let clock = CallClock::start();
        let monitor = Monitor::new(clock, 0);
        let started = order.started(hub.wants_traces);
        hub.records.record(&Record::Started(started.clone()));
        let live = hub.registry.enter(started, monitor.clone(), peer);
        let replay_len = order.outbound.body.len();
        hub.keep_replay(replay_len);
        Self {
            hub,
            order,
            live,
            timer: LazyTimer::new(clock),
            clock,
            monitor,
            state: State::Choosing,
            tried: Vec::new(),
            out_of_turn: None,
            first: None,
            records: Vec::new(),
            history: Vec::new(),
            waited: Duration::ZERO,
            lifetime_spent: Duration::ZERO,
            fresh: false,
            returns: false,
            is_open: false,
            start_is_out: false,
            unstreamed: false,
            is_unrepeatable: false,
            paused: false,
            replay_len,
            most_attempts: 1,
            head: None,
            last: Last::default(),
            times: Times::default(),
            began_waiting: Duration::ZERO,
            waits_because: None,
            wall_clock: None,
            ended: None,
            _counted: counted,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.order.id
    }

    pub(crate) const fn clock(&self) -> CallClock {
        self.clock
    }

    pub(crate) const fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    pub(crate) const fn order(&self) -> &Order {
        &self.order
    }

    pub(crate) const fn times_mut(&mut self) -> &mut Times {
        &mut self.times
    }

    /// Returns whether the gateway is about to stop.
    pub(crate) fn is_draining(&self) -> bool {
        self.live.is_draining()
    }

    /// Says that the response has begun with `status`, so that there is none left to give; `early` if
    /// it did for a beat.
    pub(crate) fn set_open(&mut self, status: u16, early: bool) {
        self.is_open = true;
        self.times.status = Some(status);
        self.note(Happening::Opened { early, status });
    }

    /// Counts a beat that is sent to the caller.
    pub(crate) fn note_beat(&mut self, beat: &[u8]) {
        self.times.beats.note(beat);
        self.live.note_beat();
    }

    /// Notes something for whoever looks at the call.
    fn note(&self, what: Happening) {
        self.live.note(self.clock.elapsed(), what);
    }

    /// Returns the name of the upstream that is asked.
    pub(crate) fn upstream_name(&self) -> Option<&str> {
        self.target_name(self.target()?)
    }

    /// Returns which upstream is asked, or was asked last.
    fn target(&self) -> Option<usize> {
        match &self.state {
            State::Attempting(attempting) => Some(attempting.target),
            State::Held { target, .. }
            | State::Passing { target, .. }
            | State::Queued { target, .. } => Some(*target),
            State::Choosing | State::Over | State::Waiting { .. } => self.last.target,
        }
    }

    fn target_name(&self, at: usize) -> Option<&str> {
        self.order.targets.get(at).map(|target| target.name())
    }

    /// Returns the model that the upstream is asked for.
    pub(crate) fn upstream_model(&self) -> Option<&str> {
        let model = self.order.model.as_deref()?;
        let target = self.order.targets.get(self.target()?)?;
        Some(target.config.model(model))
    }

    /// Says that the caller has stopped reading.
    pub(crate) fn set_stalled(&mut self) {
        if self.ended.is_none() {
            self.live.end_as(FailureCode::ConsumerStalled);
        }
    }

    /// Returns the place in line, while there is one.
    pub(crate) fn position(&self) -> Option<usize> {
        match &self.state {
            State::Queued { ticket, .. } => ticket.position(),
            _ => None,
        }
    }

    /// Returns the profile in force at the upstream that is asked.
    pub(crate) fn profile(&self) -> Option<&'static str> {
        match &self.state {
            State::Attempting(attempting) => Some(attempting.settings.profile.value.name()),
            _ => None,
        }
    }

    /// Takes the headers of the response that passes, and returns them with its status.
    pub(crate) fn take_headers(&mut self) -> Option<(u16, HeaderMap)> {
        match (&mut self.state, &mut self.head) {
            (State::Attempting(attempting), _) => attempting.attempt.take_headers(),
            (_, Some(head)) => Some((head.status, std::mem::take(&mut head.headers))),
            _ => None,
        }
    }

    /// Returns the number of the last event that passed.
    pub(crate) fn last_sequence(&self) -> Option<u64> {
        match &self.state {
            State::Attempting(attempting) => attempting.attempt.intake().last_sequence(),
            _ => self.last.sequence,
        }
    }

    /// Takes the event that starts an answer, to be sent ahead of the content.
    pub(crate) fn take_start(&mut self) -> Option<Bytes> {
        if self.start_is_out {
            return None;
        }
        let State::Attempting(attempting) = &mut self.state else {
            return None;
        };
        let start = attempting.attempt.intake_mut().take_start()?;
        self.start_is_out = true;
        Some(start)
    }

    /// Whether the event that starts an answer is out.
    pub(crate) const fn start_is_out(&self) -> bool {
        self.start_is_out
    }

    /// Polls for what happens next. From an item to the next poll the reader pauses: every clock
    /// but the wall's stands still.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Item> {
        self.live.register(cx.waker());
        if std::mem::take(&mut self.paused) {
            let now = self.clock.elapsed();
            self.monitor.watch(|watch| watch.handle_resume(now));
        }
        if let Some(code) = self.live.ended_as()
            && !matches!(self.state, State::Over)
        {
            return Poll::Ready(self.end_from_outside(code));
        }
        let item = ready!(self.poll_item(cx));
        if matches!(item, Item::Bytes(_) | Item::Head) {
            let now = self.clock.elapsed();
            self.monitor.watch(|watch| watch.handle_pause(now));
            self.paused = true;
        }
        Poll::Ready(item)
    }

    /// Returns whether everything is here, and its reader has only been slow to take it.
    pub(crate) fn has_ended(&self) -> bool {
        match &self.state {
            State::Attempting(attempting) => attempting.attempt.has_ended(),
            state => matches!(state, State::Over),
        }
    }

    /// Ends the call because serving ends.
    pub(crate) fn end_drained(&mut self) -> Item {
        let mut failure = Failure::new(FailureCode::ProviderError, Phase::Queued);
        failure.detail = Some("the gateway is stopping".to_owned());
        failure.stated_status = Some(503);
        // Its successor may be there by then.
        failure.retry_after = Some(Duration::from_secs(1));
        let failure = self.abandon(Some(failure));
        Item::Failed(self.fail(failure, None))
    }

    fn end_from_outside(&mut self, code: FailureCode) -> Item {
        let failure = self.abandon(Some(from_outside(code)));
        Item::Failed(self.fail(failure, None))
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Item> {
        loop {
            match &mut self.state {
                State::Over => return Poll::Ready(Item::Done),
                State::Choosing => {
                    if let Err(fault) = self.choose(cx) {
                        return Poll::Ready(Item::Failed(fault));
                    }
                }
                State::Queued {
                    ticket,
                    pass,
                    target,
                    until,
                } => {
                    let (target, until) = (*target, *until);
                    if let Poll::Ready(permit) = ticket.poll(cx) {
                        let pass = pass.take();
                        self.end_wait(WaitFor::Turn, Some(target));
                        if let Err(fault) = self.begin_attempt(target, pass, permit) {
                            return Poll::Ready(Item::Failed(fault));
                        }
                        continue;
                    }
                    ready!(self.poll_until(until, cx));
                    self.end_wait(WaitFor::Turn, Some(target));
                    if self.is_past_wall_clock() {
                        return Poll::Ready(self.run_out());
                    }
                    // Another upstream may take it.
                    self.tried.push(target);
                    self.out_of_turn.get_or_insert(target);
                    self.state = State::Choosing;
                }
                State::Passing {
                    passage,
                    key,
                    target,
                } => {
                    let target = *target;
                    if let Poll::Ready(pass) = passage.poll(cx) {
                        self.end_wait(WaitFor::Hold, Some(target));
                        if let Err(fault) = self.enter_or_choose(target, pass) {
                            return Poll::Ready(Item::Failed(fault));
                        }
                        continue;
                    }
                    let is_held = self.hub.holds.wait(key, &self.order.id).is_some();
                    // A hold may be raised meanwhile, which wakes nobody.
                    let look = self.clock.elapsed() + RAMP_LOOK;
                    if !is_held {
                        self.monitor.set_doing(Doing::Holding { until: look });
                        ready!(self.poll_until(Some(look), cx));
                    }
                    if self.is_past_wall_clock() {
                        return Poll::Ready(self.run_out());
                    }
                    if is_held {
                        self.end_wait(WaitFor::Hold, Some(target));
                        self.state = State::Choosing;
                    }
                }
                State::Held {
                    passage,
                    target,
                    until,
                } => {
                    let (target, until) = (*target, *until);
                    // It ends in time, or somebody releases it.
                    if let Poll::Ready(pass) = passage.poll(cx) {
                        self.end_wait(WaitFor::Hold, Some(target));
                        if let Err(fault) = self.enter_or_choose(target, pass) {
                            return Poll::Ready(Item::Failed(fault));
                        }
                        continue;
                    }
                    ready!(self.poll_until(Some(until), cx));
                    if self.is_past_wall_clock() {
                        self.end_wait(WaitFor::Hold, Some(target));
                        return Poll::Ready(self.run_out());
                    }
                    // It keeps its place in the line of those who waited.
                    let key = self.hold_key(target);
                    self.note(Happening::Behind {
                        upstream: self.target_name(target).map(str::to_owned),
                    });
                    if let State::Held { passage, .. } =
                        std::mem::replace(&mut self.state, State::Choosing)
                    {
                        self.state = State::Passing {
                            passage,
                            key,
                            target,
                        };
                    }
                }
                State::Waiting { until } => {
                    let until = *until;
                    ready!(self.poll_until(Some(until), cx));
                    self.end_wait(WaitFor::Retry, self.last.target);
                    if self.is_past_wall_clock() {
                        return Poll::Ready(self.run_out());
                    }
                    self.state = State::Choosing;
                }
                State::Attempting(attempting) => {
                    let polled = attempting.attempt.poll_next(cx);
                    self.note_commit();
                    match ready!(polled) {
                        AttemptStep::Item(Piece::Bytes(bytes)) => {
                            return Poll::Ready(Item::Bytes(bytes));
                        }
                        AttemptStep::Item(Piece::Head) => return Poll::Ready(Item::Head),
                        AttemptStep::Notice(notice) => {
                            let ages = notice.ages;
                            tracing::info!(
                                call = %self.order.id,
                                attempt = self.records.len() + 1,
                                upstream = self.upstream_name(),
                                number = notice.number,
                                phase = notice.phase.name(),
                                raw_ms = whole_millis(ages.raw),
                                event_ms = whole_millis(ages.event),
                                content_ms = whole_millis(ages.content),
                                "content is quiet"
                            );
                            self.note_quiet(&notice);
                            self.note(Happening::Notice {
                                n: self.next_number(),
                                number: notice.number,
                                phase: notice.phase,
                                clocks_ms: Box::new(ages),
                            });
                        }
                        AttemptStep::Ended(end) => {
                            if let Some(item) = self.conclude(*end) {
                                return Poll::Ready(item);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Notes that content came: there is no other attempt, so the request is let go, and whoever
    /// waited behind a hold may follow.
    fn note_commit(&mut self) {
        let State::Attempting(attempting) = &mut self.state else {
            return;
        };
        let commit = attempting.attempt.intake().commit();
        if commit == Commit::Nothing {
            return;
        }
        if let Some(mut pass) = attempting.pass.take() {
            pass.handle_success();
        }
        if commit == Commit::Content || !attempting.settings.retry.after_reasoning.value {
            self.let_request_go();
        }
    }

    /// Sleeps until `until`, or until the wall clock runs out; without either for ever.
    fn poll_until(&mut self, until: Option<Duration>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(wake) = [until, self.wall_limit()].into_iter().flatten().min() else {
            return Poll::Pending;
        };
        while self.clock.elapsed() < wake {
            ready!(self.timer.poll(wake, cx));
        }
        Poll::Ready(())
    }

    fn watch_wall_clock(&mut self, settings: &Settings) {
        self.live.set_wall_clock(&settings.bounds.wall_clock);
        let limit = &settings.bounds.wall_clock;
        self.wall_clock = (limit.value != Limit::Off).then(|| Box::new(limit.clone()));
    }

    fn wall_limit(&self) -> Option<Duration> {
        match self.wall_clock.as_ref()?.value {
            Limit::After(limit) => Some(limit),
            Limit::Off => None,
        }
    }

    fn is_past_wall_clock(&self) -> bool {
        self.wall_limit()
            .is_some_and(|wall| self.clock.elapsed() >= wall)
    }

    /// Returns how many requests may be made: one alone where the body cannot be kept for more.
    fn attempts_allowed(&self, settings: &Settings) -> u32 {
        if self.is_unrepeatable || self.is_too_much_to_keep() {
            1
        } else {
            settings.retry.attempts.value
        }
    }

    fn is_too_much_to_keep(&self) -> bool {
        self.replay_len > 0 && !self.hub.may_replay()
    }

    /// Lets the request go, but for what tells its sender's key: there is no second attempt.
    fn let_request_go(&mut self) {
        if self.replay_len > 0 {
            keep_credentials(&mut self.order.outbound.headers);
        }
        self.free_replay();
    }

    /// Lets the request body go.
    fn free_replay(&mut self) {
        let len = std::mem::take(&mut self.replay_len);
        if len > 0 {
            self.hub.free_replay(len);
            if let OutboundBody::Plain(body) = &mut self.order.outbound.body {
                *body = Bytes::new();
            } else {
                self.order.outbound.body = OutboundBody::Plain(Bytes::new());
            }
        }
    }

    fn next_number(&self) -> u32 {
        u32::try_from(self.records.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1)
    }
}

impl Drop for Call {
    /// Cancels what is under way: the caller has left. Every call is written down here, once.
    fn drop(&mut self) {
        if self.ended.is_none() {
            let instead = self.live.ended_as().map(from_outside);
            let failure = self.abandon(instead);
            let failure = self.described(failure);
            self.finish(outcome_of(&failure), Some(&failure));
        }
        self.hub.registry.leave(&self.live);
        if let Some((outcome, failure)) = self.ended.take() {
            self.write_down(outcome, failure);
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("id", &self.order.id)
            .field("route", &self.order.route)
            .finish_non_exhaustive()
    }
}

/// Returns what a call fails with that somebody else ended.
fn from_outside(code: FailureCode) -> Failure {
    let mut failure = Failure::new(code, Phase::Queued);
    match code {
        FailureCode::Cancelled => {
            failure.detail = Some("by an operator".to_owned());
        }
        // Of its own accord a call that waits is refused by nobody.
        FailureCode::Rejected => {
            failure.detail = Some("the key was taken away while the call waited".to_owned());
            failure.stated_status = Some(401);
        }
        _ => {}
    }
    failure
}

/// How often a call looks that waits behind a hold that has ended.
const RAMP_LOOK: Duration = Duration::from_millis(250);
