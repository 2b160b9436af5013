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
use lifesign::attempt::{Attempt, AttemptEnd, AttemptStep, Cause, Errand, Guard, ResponseHead};
use lifesign::clock::{self, CallClock};
use lifesign::{Doing, LazyTimer, Monitor, Outcome, error_body_limit, read_limits};
use lifesign_core::{
    AttemptRecord, BoundName, Budget, CallShape, Commit, Decision, Failure, FailureCode,
    FailureReport, GiveUp, HoldKey, Limit, Past, Phase, Setting, Settings, Tier, Watch, decide,
};
use lifesign_wire::{Answer, ProviderError, Wire};

use crate::beats::Form;
use crate::breaker::AttemptMark;
use crate::config::CallLayer;
use crate::holds::{Pass, Passage};
use crate::hub::{Caller, Hub, Plan, time_of};
use crate::lane::{Permit, Probe, Ticket};
use crate::rate::CountedCall;
use crate::records::{CallEnded, CallStarted, Record};
use crate::registry::LiveCall;
use crate::relay::{Manner, Piece, Relay, Start};
use crate::server::Peer;
use crate::target::{Outbound, OutboundBody, Target};

/// What a caller asks for.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) id: String,
    /// The path as it was asked for.
    pub(crate) route: String,
    pub(crate) wire: Wire,
    pub(crate) manner: Manner,
    pub(crate) outbound: Outbound,
    pub(crate) model: Option<String>,
    pub(crate) max_tokens: Option<u64>,
    /// What the call sets itself.
    pub(crate) layer: CallLayer,
    /// The settings of the call's admission.
    pub(crate) plan: Arc<Plan>,
    /// Whose call it is.
    pub(crate) caller: Arc<Caller>,
    /// Who can be asked, in order.
    pub(crate) targets: Vec<Arc<Target>>,
    /// When the response is opened with a beat, if nothing decides it before.
    pub(crate) opens_at: Option<Duration>,
    /// How long nothing is sent before a beat is.
    pub(crate) beat_every: Option<Duration>,
    pub(crate) beat_form: Form,
    /// The worker that serves it.
    pub(crate) worker: usize,
}

/// What happens next.
#[derive(Debug)]
pub(crate) enum Item {
    /// The head of a response that passes as it comes is here.
    Head,
    /// Bytes that pass as they are.
    Bytes(Bytes),
    /// The answer as one body. Nothing follows.
    Whole(Bytes),
    /// The answer is complete. Nothing follows.
    Done,
    /// The call failed. Nothing follows.
    Failed(Box<Fault>),
}

/// Why a call failed, and what is known for whoever tells the caller.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) failure: Failure,
    /// What the provider said.
    pub(crate) provider: Option<ProviderError>,
    /// What arrived.
    pub(crate) partial: Option<Answer>,
    /// The response that failed, where it is one.
    pub(crate) head: Option<ResponseHead>,
    /// Whether content came, so that a repetition costs again.
    pub(crate) is_committed: bool,
    /// How many requests were made.
    pub(crate) attempts: usize,
}

/// A call under way.
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
    paused: bool,
    replay_len: usize,
    most_attempts: u32,
    head: Option<ResponseHead>,
    last: Last,
    times: Times,
    began_waiting: Duration,
    /// The bound on the whole call, from the upstream asked last.
    wall_clock: Option<Setting<Limit>>,
    /// How it ended, until that is written down.
    ended: Option<(Outcome, Option<FailureReport>)>,
    _counted: Arc<CountedCall>,
}

/// What is known at the end of the last attempt.
#[derive(Debug, Default)]
struct Last {
    upstream: Option<String>,
    target: Option<usize>,
    /// The number of the last event that passed.
    sequence: Option<u64>,
    answer: Answer,
}

/// Where the time went, and what went out.
#[derive(Debug, Default)]
pub(crate) struct Times {
    queued: Duration,
    held: Duration,
    retry_wait: Duration,
    pub(crate) beats: u64,
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
    settings: Arc<Settings>,
    hold_key: HoldKey,
    began: Duration,
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
        let started = CallStarted {
            id: order.id.clone(),
            at: clock::timestamp(),
            key: Some(order.caller.name.as_str().to_owned()).filter(|name| !name.is_empty()),
            route: order.route.clone(),
            model: order.model.clone(),
            streamed: order.manner == Manner::Frames,
        };
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
            paused: false,
            replay_len,
            most_attempts: 1,
            head: None,
            last: Last::default(),
            times: Times::default(),
            began_waiting: Duration::ZERO,
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

    /// Says that the response has begun, so that there is no status left to give.
    pub(crate) const fn set_open(&mut self) {
        self.is_open = true;
    }

    /// Returns the name of the upstream that is asked.
    pub(crate) fn upstream_name(&self) -> Option<&str> {
        match &self.state {
            State::Attempting(attempting) => self.target_name(attempting.target),
            State::Queued { target, .. } | State::Passing { target, .. } => {
                self.target_name(*target)
            }
            _ => self.last.upstream.as_deref(),
        }
    }

    fn target_name(&self, at: usize) -> Option<&str> {
        self.order.targets.get(at).map(|target| target.name())
    }

    /// Returns the model that the upstream is asked for.
    pub(crate) fn upstream_model(&self) -> Option<&str> {
        let model = self.order.model.as_deref()?;
        let at = match &self.state {
            State::Attempting(attempting) => attempting.target,
            State::Queued { target, .. } | State::Passing { target, .. } => *target,
            _ => self.last.target?,
        };
        let target = self.order.targets.get(at)?;
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

    /// Returns status and headers of the response that passes.
    pub(crate) fn response(&self) -> Option<(u16, &HeaderMap)> {
        match (&self.state, &self.head) {
            (State::Attempting(attempting), _) => attempting.attempt.response(),
            (_, Some(head)) => Some((head.status, &head.headers)),
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

    /// Ends the call because serving ends.
    pub(crate) fn end_drained(&mut self) -> Item {
        let mut failure = Failure::new(FailureCode::ProviderError, Phase::Queued);
        failure.detail = Some("the gateway is stopping".to_owned());
        let failure = self.abandon(Some(failure));
        Item::Failed(self.fail(failure, None))
    }

    fn end_from_outside(&mut self, code: FailureCode) -> Item {
        let failure = self.abandon(Some(Failure::new(code, Phase::Queued)));
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
                        self.times.queued += self.waited_since();
                        if let Err(fault) = self.begin_attempt(target, pass, permit) {
                            return Poll::Ready(Item::Failed(fault));
                        }
                        continue;
                    }
                    ready!(self.poll_until(until, cx));
                    self.times.queued += self.waited_since();
                    if self.is_past_wall_clock() {
                        return Poll::Ready(self.run_out());
                    }
                    let fault = self.no_turn(target);
                    return Poll::Ready(Item::Failed(fault));
                }
                State::Passing {
                    passage,
                    key,
                    target,
                } => {
                    if let Poll::Ready(pass) = passage.poll(cx) {
                        let target = *target;
                        self.times.held += self.waited_since();
                        self.state = State::Choosing;
                        match self.enter(target, pass) {
                            Ok(true) => {}
                            Ok(false) => self.tried.push(target),
                            Err(fault) => return Poll::Ready(Item::Failed(fault)),
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
                        self.times.held += self.waited_since();
                        self.state = State::Choosing;
                    }
                }
                State::Held { passage, until } => {
                    let until = *until;
                    // Somebody may release the hold.
                    if passage.poll(cx).is_pending() {
                        ready!(self.poll_until(Some(until), cx));
                    }
                    self.times.held += self.waited_since();
                    if self.is_past_wall_clock() {
                        return Poll::Ready(self.run_out());
                    }
                    self.state = State::Choosing;
                }
                State::Waiting { until } => {
                    let until = *until;
                    ready!(self.poll_until(Some(until), cx));
                    self.times.retry_wait += self.waited_since();
                    if self.is_past_wall_clock() {
                        return Poll::Ready(self.run_out());
                    }
                    self.state = State::Choosing;
                }
                State::Attempting(attempting) => match ready!(attempting.attempt.poll_next(cx)) {
                    AttemptStep::Item(Piece::Bytes(bytes)) => {
                        self.free_replay();
                        return Poll::Ready(Item::Bytes(bytes));
                    }
                    AttemptStep::Item(Piece::Head) => return Poll::Ready(Item::Head),
                    AttemptStep::Notice(_) => {}
                    AttemptStep::Ended(end) => {
                        if let Some(item) = self.conclude(*end) {
                            return Poll::Ready(item);
                        }
                    }
                },
            }
        }
    }

    /// Looks for an upstream that can take the call: the first that is neither held nor full.
    fn choose(&mut self, cx: &mut Context<'_>) -> Result<(), Box<Fault>> {
        let now = self.clock.elapsed();
        let mut held: Option<(Duration, FailureCode, usize)> = None;
        let mut full = None;
        for at in self.candidates() {
            if self.tried.contains(&at) {
                continue;
            }
            let key = self.hold_key(at);
            if let Some(hold) = self.hub.holds.wait(&key, &self.order.id) {
                if held.is_none_or(|(soonest, ..)| hold.remaining < soonest) {
                    held = Some((hold.remaining, hold.why, at));
                }
                continue;
            }
            let mut passage = self.hub.holds.pass(&key, &self.order.id);
            match passage.poll(cx) {
                Poll::Ready(pass) => {
                    if self.enter(at, pass)? {
                        return Ok(());
                    }
                    full = full.or(Some(at));
                }
                Poll::Pending => {
                    self.began_waiting = now;
                    self.state = State::Passing {
                        passage,
                        key,
                        target: at,
                    };
                    return Ok(());
                }
            }
        }
        if let Some(first) = self.first.take() {
            // Another upstream was there when the first failed, and now none is.
            return Err(self.fail_first(first));
        }
        match (held, full) {
            (Some((remaining, why, at)), _) => self.hold(remaining, why, at),
            (None, Some(at)) => Err(self.no_turn(at)),
            (None, None) => Err(self.nobody()),
        }
    }

    /// Goes into the line of an upstream; returns whether there was a place.
    fn enter(&mut self, at: usize, pass: Pass) -> Result<bool, Box<Fault>> {
        let Some(target) = self.order.targets.get(at).cloned() else {
            return Ok(false);
        };
        let Ok(ticket) = target.lane.enter(&self.order.caller.name, self.returns) else {
            return Ok(false);
        };
        let now = self.clock.elapsed();
        let settings = self.settings(at)?;
        let wait = time_of(target.config.queue_wait.value);
        let until = wait.map(|wait| now.saturating_add(wait));
        self.watch_wall_clock(&settings);
        self.live.set_upstream(target.name());
        self.monitor.set_doing(Doing::Queued);
        self.most_attempts = self.attempts_allowed(&settings);
        self.monitor.set_attempts(self.most_attempts);
        self.began_waiting = now;
        self.state = State::Queued {
            ticket,
            pass: Some(pass),
            target: at,
            until,
        };
        Ok(true)
    }

    /// Waits for a hold to end, or gives up.
    fn hold(&mut self, remaining: Duration, why: FailureCode, at: usize) -> Result<(), Box<Fault>> {
        let now = self.clock.elapsed();
        let until = now.saturating_add(remaining);
        let settings = self.settings(at)?;
        self.watch_wall_clock(&settings);
        let name = self
            .order
            .targets
            .get(at)
            .map(|target| target.name().to_owned());
        let patience = self.order.opens_at.unwrap_or(UNOPENED_PATIENCE);
        let is_short =
            until <= patience || self.is_open && remaining <= settings.retry.max_wait.value;
        if is_short {
            self.last.upstream = name;
            self.monitor.set_doing(Doing::Holding { until });
            self.began_waiting = now;
            let passage = self.hub.holds.pass(&self.hold_key(at), &self.order.id);
            self.state = State::Held { passage, until };
            return Ok(());
        }
        let mut failure = Failure::new(why, Phase::Queued);
        failure.detail = Some("the upstream is on hold after an earlier call".to_owned());
        failure.retry_after = Some(remaining);
        failure.resets_at = clock::timestamp_after(remaining);
        failure.upstream = name;
        Err(self.fail(failure, None))
    }

    fn no_turn(&mut self, at: usize) -> Box<Fault> {
        let mut failure = Failure::new(FailureCode::QueueFull, Phase::Queued);
        failure.retry_after = Some(FULL_RETRY_AFTER);
        failure.upstream = self
            .order
            .targets
            .get(at)
            .map(|target| target.name().to_owned());
        self.fail(failure, None)
    }

    fn nobody(&mut self) -> Box<Fault> {
        let mut failure = Failure::new(FailureCode::Rejected, Phase::Queued);
        failure.stated_status = Some(404);
        failure.detail = Some(match &self.order.model {
            Some(model) => format!("no upstream has the model {model:?}"),
            None => "no upstream takes this path".to_owned(),
        });
        self.fail(failure, None)
    }

    /// Returns the order in which upstreams are asked: those whose breakers are open come last.
    fn candidates(&self) -> Vec<usize> {
        let now = self.hub.clock.elapsed();
        let all = 0..self.order.targets.len();
        if self.order.targets.len() < 2 {
            return all.collect();
        }
        let (open, closed): (Vec<_>, Vec<_>) =
            all.partition(|at| self.order.targets[*at].lane.is_open(now));
        closed.into_iter().chain(open).collect()
    }

    fn settings(&mut self, at: usize) -> Result<Arc<Settings>, Box<Fault>> {
        let Some(target) = self.order.targets.get(at) else {
            return Err(self.nobody());
        };
        let model = self.order.model.as_deref();
        let model = model.map(|model| target.config.model(model));
        let settings =
            self.order
                .plan
                .config
                .settings(&target.config, model, Some(&self.order.layer));
        settings.map_err(|error| {
            let mut failure = Failure::new(FailureCode::RefusedSetting, Phase::Queued);
            failure.detail = Some(error.to_string());
            self.fail(failure, None)
        })
    }

    /// Returns what a hold of this call at an upstream is on.
    fn hold_key(&self, at: usize) -> HoldKey {
        let target = &self.order.targets[at];
        let headers = &self.order.outbound.headers;
        let model = self.order.model.as_deref();
        // Two entries of one name on the command line share their lane, and so their holds.
        self.hub
            .holds
            .key(target.lane.name(), model, target.credential(headers))
    }

    fn begin_attempt(
        &mut self,
        at: usize,
        pass: Option<Pass>,
        permit: Permit,
    ) -> Result<(), Box<Fault>> {
        let settings = self.settings(at)?;
        let target = Arc::clone(&self.order.targets[at]);
        let manner = self.manner(&target);
        let prepared = target
            .request(&self.order.outbound, manner)
            .and_then(|request| {
                let transport = target.transport(self.order.worker).map_err(|problem| {
                    let mut failure = Failure::new(FailureCode::RefusedSetting, Phase::Queued);
                    failure.detail = Some(problem);
                    Box::new(failure)
                })?;
                Ok((request, transport))
            });
        let (request, transport) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return Err(self.fail(*failure, None)),
        };
        let began = self.clock.elapsed();
        let shape = CallShape {
            streamed: self.is_streamed(manner),
            max_tokens: self.order.max_tokens,
            wire: target.wire().defaults(),
        };
        let watch = Watch::new(&settings.bounds, &shape, began, self.lifetime_spent);
        self.monitor.begin_attempt(self.next_number(), watch);
        let guard = Guard::new(self.clock, self.monitor.clone());
        let start = Start {
            is_out: self.start_is_out,
            follows_sequence: self.order.beat_form == Form::Event
                && self.order.wire == Wire::OPENAI_RESPONSES,
        };
        let relay = Relay::new(manner, target.wire(), &read_limits(&settings), start);
        let errand = Errand {
            transport,
            endpoint: target.upstream.endpoint(),
            fresh: self.fresh,
            request,
            error_body_limit: error_body_limit(&settings),
            grace_usage: settings.grace_usage.value,
            recorder: None,
        };
        self.live.set_upstream(target.name());
        let probe = target.lane.start(self.hub.clock.elapsed());
        self.state = State::Attempting(Box::new(Attempting {
            attempt: Attempt::start(errand, guard, relay),
            target: at,
            hold_key: self.hold_key(at),
            settings,
            began,
            pass,
            _permit: permit,
            _probe: probe,
        }));
        Ok(())
    }

    /// Returns how the answer is carried on from this upstream.
    fn manner(&self, target: &Target) -> Manner {
        let model = self.order.model.as_deref().unwrap_or_default();
        match self.order.manner {
            Manner::Assembled if self.unstreamed || !target.assembles(model) => Manner::Whole,
            manner => manner,
        }
    }

    fn is_streamed(&self, manner: Manner) -> bool {
        match &self.order.outbound.body {
            // A path that is not understood may still be asked for a stream.
            OutboundBody::Call(request) if manner == Manner::Plain => request.is_stream(),
            _ => manner.is_streamed(),
        }
    }

    /// Takes in the end of an attempt: the end of the call, or nothing where it goes on.
    fn conclude(&mut self, mut end: AttemptEnd) -> Option<Item> {
        let State::Attempting(mut attempting) = std::mem::replace(&mut self.state, State::Choosing)
        else {
            return None;
        };
        let failure = self.close(&end, &attempting);
        let intake = attempting.attempt.intake_mut();
        let sequence = intake.last_sequence();
        self.last.sequence = sequence.or(self.last.sequence);
        let Some(failure) = failure else {
            let (whole, held) = (intake.take_whole(), intake.take_held());
            if let Some(pass) = &mut attempting.pass {
                pass.handle_success();
            }
            self.last.answer = std::mem::take(&mut end.answer);
            self.head = end.head.take();
            return Some(self.succeed(whole, held));
        };
        if self.repeats_unstreamed(&failure, &end, &attempting) {
            self.unstreamed = true;
            self.returns = true;
            return None;
        }
        self.next(failure, end, *attempting)
    }

    /// Decides what follows a failed attempt: another upstream, a wait, or the end.
    fn next(&mut self, failure: Failure, end: AttemptEnd, attempting: Attempting) -> Option<Item> {
        let now = self.clock.elapsed();
        let settings = &attempting.settings;
        let mut policy = settings.retry.clone();
        policy.attempts.value = self.attempts_allowed(settings);
        let budget = Budget {
            now,
            wall_clock: settings.bounds.wall_clock.value,
            commit: end.commit,
        };
        let random = fastrand::f64();
        let decision = decide(
            &policy,
            &self.history,
            &failure,
            &end.hints,
            &budget,
            random,
        );
        let asked = end.hints.wait.filter(|wait| !wait.is_zero());
        let is_limit = matches!(failure.code.tier(), Some(Tier::Overload | Tier::Rate));
        if let Some(asked) = asked.filter(|_| is_limit) {
            self.hub
                .holds
                .raise(&attempting.hold_key, asked, failure.code, &self.order.id);
        }
        if self.moves_on(&decision, &failure, &end, attempting.target) {
            self.history.push(Past {
                code: failure.code,
                waited: Duration::ZERO,
            });
            self.waited = Duration::ZERO;
            self.fresh = false;
            let fault = self.fault(failure, end);
            self.first.get_or_insert(fault);
            self.tried.push(attempting.target);
            self.returns = false;
            return None;
        }
        match decision {
            Decision::Retry { after, .. } if !self.is_slept_unopened(asked, after) => {
                self.history.push(Past {
                    code: failure.code,
                    waited: after,
                });
                self.fresh = failure.leaves_connections_suspect();
                self.waited = after;
                self.tried.clear();
                self.returns = true;
                let until = now.saturating_add(after);
                self.began_waiting = now;
                self.state = State::Waiting { until };
                self.monitor.set_doing(Doing::RetryWait { until });
                None
            }
            Decision::Retry { .. } => {
                let fault = self.fault(failure, end);
                Some(Item::Failed(self.fail_with(fault)))
            }
            Decision::GiveUp { reason } => {
                let mut failure = failure;
                failure.settle(reason, &end.hints);
                let fault = self.fault(failure, end);
                Some(Item::Failed(match self.first.take() {
                    // A later upstream's refusal says nothing of what went wrong first.
                    Some(first) if fault.failure.code == FailureCode::Rejected => {
                        self.fail_first(first)
                    }
                    _ => self.fail_with(fault),
                }))
            }
        }
    }

    /// Returns whether another upstream is asked at once.
    fn moves_on(
        &self,
        decision: &Decision,
        failure: &Failure,
        end: &AttemptEnd,
        target: usize,
    ) -> bool {
        let can_help = failure.code.tier().is_some() || failure.code == FailureCode::Exhausted;
        let is_spent = matches!(
            decision,
            Decision::GiveUp {
                reason: GiveUp::AttemptsSpent | GiveUp::Committed | GiveUp::WallClock
            }
        );
        if !can_help || is_spent || end.commit != Commit::Nothing || is_final(end) {
            return false;
        }
        let is_bound = match &self.order.outbound.body {
            OutboundBody::Call(request) => request.is_account_bound(),
            OutboundBody::Plain(_) => true,
        };
        if is_bound || self.history.len() + 1 >= self.most_attempts as usize {
            return false;
        }
        self.order.targets.iter().enumerate().any(|(at, other)| {
            let is_held = || {
                self.hub
                    .holds
                    .wait(&self.hold_key(at), &self.order.id)
                    .is_some()
            };
            at != target
                && !self.tried.contains(&at)
                && !is_held()
                && (other.lane.has_room() || other.lane.load().waiting < other.lane.load().queue)
        })
    }

    /// Returns whether a stated wait would carry a call past the beat that opens its response: its
    /// caller is better served with the status and the hint.
    fn is_slept_unopened(&self, asked: Option<Duration>, after: Duration) -> bool {
        if self.is_open || asked.is_none() {
            return false;
        }
        let opens_at = self.order.opens_at.unwrap_or(UNOPENED_PATIENCE);
        self.clock.elapsed().saturating_add(after) > opens_at
    }

    /// Returns whether the request is repeated without a stream: the upstream refused that word.
    fn repeats_unstreamed(&self, failure: &Failure, end: &AttemptEnd, at: &Attempting) -> bool {
        let Some(target) = self.order.targets.get(at.target) else {
            return false;
        };
        let is_assembled = self.manner(target) == Manner::Assembled;
        let names_stream = failure
            .provider_message
            .as_deref()
            .is_some_and(|message| message.contains("stream"));
        if !is_assembled || end.status() != Some(400) || !names_stream {
            return false;
        }
        target.note_refused_stream(self.order.model.as_deref().unwrap_or_default());
        true
    }

    /// Closes the books of an attempt, and returns its failure if it has a cause.
    fn close(&mut self, end: &AttemptEnd, attempting: &Attempting) -> Option<Failure> {
        let tally = self.monitor.end_attempt().map(|watch| {
            self.lifetime_spent = watch.lifetime();
            watch.tally()
        });
        let tally = tally.unwrap_or_default();
        let number = self.next_number();
        let target = Arc::clone(&self.order.targets[attempting.target]);
        let failure = end.cause.is_some().then(|| {
            let upstream = target.upstream_for(&self.order.outbound.headers);
            let failure = end.failure(number, &upstream, &tally);
            failure.map(|failure| self.described(failure))
        });
        let failure = failure.flatten();
        let record = end.record(
            number,
            &target.upstream,
            &tally,
            self.waited,
            failure.as_ref(),
        );
        let now = self.hub.clock.elapsed();
        let first_content = tally
            .first_content
            .map(|at| at.saturating_sub(attempting.began));
        target
            .lane
            .record(mark(failure.as_ref(), first_content), now);
        self.hub.records.record(&Record::Attempt {
            call: self.order.id.clone(),
            attempt: record.clone(),
        });
        self.records.push(record);
        self.last.upstream = Some(target.name().to_owned());
        self.last.target = Some(attempting.target);
        failure
    }

    fn described(&self, mut failure: Failure) -> Failure {
        let made = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        failure.attempt = failure.attempt.max(made);
        failure.of = match failure.code.tier() {
            Some(_) => self.most_attempts,
            None => 1,
        }
        .max(failure.attempt);
        failure.model.clone_from(&self.order.model);
        failure
    }

    fn fault(&self, failure: Failure, end: AttemptEnd) -> Box<Fault> {
        let AttemptEnd {
            cause,
            answer,
            head,
            commit,
            ..
        } = end;
        let provider = match cause {
            Some(Cause::Provider(error)) => Some(error),
            _ => None,
        };
        let has_partial = !answer.is_empty() || answer.usage.is_some();
        Box::new(Fault {
            failure,
            provider,
            partial: has_partial.then_some(answer),
            head,
            is_committed: commit != Commit::Nothing,
            attempts: self.records.len(),
        })
    }

    fn succeed(&mut self, whole: Option<Bytes>, held: Option<Bytes>) -> Item {
        self.finish(Outcome::Completed, None);
        match (whole, held) {
            (Some(whole), _) => Item::Whole(whole),
            (None, Some(held)) => Item::Bytes(held),
            (None, None) => Item::Done,
        }
    }

    fn fail(&mut self, failure: Failure, partial: Option<Answer>) -> Box<Fault> {
        let failure = self.described(failure);
        let fault = Box::new(Fault {
            is_committed: failure.partial,
            failure,
            provider: None,
            partial,
            head: None,
            attempts: self.records.len(),
        });
        self.fail_with(fault)
    }

    fn fail_first(&mut self, mut first: Box<Fault>) -> Box<Fault> {
        first.attempts = self.records.len();
        self.fail_with(first)
    }

    fn fail_with(&mut self, fault: Box<Fault>) -> Box<Fault> {
        if let Some(partial) = &fault.partial {
            self.last.answer.id.clone_from(&partial.id);
            self.last.answer.model.clone_from(&partial.model);
            self.last.answer.usage = partial.usage;
        }
        self.finish(outcome_of(&fault.failure), Some(&fault.failure));
        fault
    }

    /// Ends whatever is under way, and returns what the call failed with.
    fn abandon(&mut self, instead: Option<Failure>) -> Failure {
        let state = std::mem::replace(&mut self.state, State::Choosing);
        let mut failure = Failure::new(FailureCode::Cancelled, Phase::Queued);
        match state {
            State::Attempting(mut attempting) => {
                if let Some(mut end) = attempting.attempt.cancel() {
                    // The caller left before the answer that had just become whole was sent.
                    end.cause.get_or_insert(Cause::Cancelled);
                    failure = self.close(&end, &attempting).unwrap_or(failure);
                    self.last.answer.usage = end.answer.usage;
                    self.last.answer.model = end.answer.model;
                }
            }
            State::Queued { .. } => self.times.queued += self.waited_since(),
            State::Held { .. } | State::Passing { .. } => self.times.held += self.waited_since(),
            State::Waiting { .. } => self.times.retry_wait += self.waited_since(),
            State::Choosing | State::Over => {}
        }
        match instead {
            Some(mut instead) => {
                instead.ages = failure.ages;
                instead.phase = failure.phase;
                instead.partial = failure.partial;
                instead.upstream = failure.upstream;
                instead
            }
            None => failure,
        }
    }

    /// Ends the call because its wall clock ran out while it waited.
    fn run_out(&mut self) -> Item {
        let mut failure = Failure::new(FailureCode::WallClock, Phase::Queued);
        failure.bound = Some(BoundName::WallClock);
        failure.limit = self.wall_limit();
        failure.origin = self.wall_clock.as_ref().map(|wall| wall.origin.clone());
        Item::Failed(self.fail(failure, None))
    }

    /// Lets everything go; what is written down waits for the last byte.
    fn finish(&mut self, outcome: Outcome, failure: Option<&Failure>) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some((outcome, failure.map(FailureReport::from)));
        self.state = State::Over;
        self.monitor.set_doing(Doing::Ended);
        self.free_replay();
    }

    fn write_down(&mut self, outcome: Outcome, failure: Option<FailureReport>) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let ended = CallEnded {
            started: self.live.started.clone(),
            outcome,
            failure,
            upstream: self.last.upstream.take(),
            answered_by: self.last.answer.model.take(),
            finish_reason: self.last.answer.finish_reason.take(),
            usage: self.last.answer.usage,
            attempts: std::mem::take(&mut self.records),
            status: self.times.status,
            elapsed_ms: millis(self.clock.elapsed()),
            queued_ms: millis(self.times.queued),
            held_ms: millis(self.times.held),
            retry_wait_ms: millis(self.times.retry_wait),
            beats: self.times.beats,
            bytes_out: self.times.bytes_out,
        };
        self.hub.records.record(&Record::Ended(Box::new(ended)));
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

    fn waited_since(&self) -> Duration {
        self.clock.elapsed().saturating_sub(self.began_waiting)
    }

    fn watch_wall_clock(&mut self, settings: &Settings) {
        self.wall_clock = Some(settings.bounds.wall_clock.clone());
        self.live.set_wall_clock(self.wall_limit());
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
        if self.replay_len == 0 || self.hub.may_replay() {
            settings.retry.attempts.value
        } else {
            1
        }
    }

    /// Lets the request body go: there is no second attempt.
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
            let instead = self
                .live
                .ended_as()
                .map(|code| Failure::new(code, Phase::Queued));
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

/// Returns what an attempt shows about its upstream.
fn mark(failure: Option<&Failure>, first_content: Option<Duration>) -> AttemptMark {
    let Some(failure) = failure else {
        return AttemptMark::Succeeded {
            first_content: first_content.unwrap_or_default(),
        };
    };
    match failure.code {
        FailureCode::Cancelled
        | FailureCode::ConsumerStalled
        | FailureCode::QueueFull
        | FailureCode::RefusedSetting
        | FailureCode::Rejected
        | FailureCode::TooLarge
        | FailureCode::WallClock => AttemptMark::Neutral,
        _ if failure
            .bound
            .is_some_and(|bound| bound != BoundName::Connect) =>
        {
            AttemptMark::Slow
        }
        _ => AttemptMark::Failed,
    }
}

fn outcome_of(failure: &Failure) -> Outcome {
    if failure.code == FailureCode::ConnectionLost && failure.partial {
        return Outcome::Truncated;
    }
    failure.code.into()
}

/// Returns whether a gateway above has repeated what could be.
fn is_final(end: &AttemptEnd) -> bool {
    matches!(&end.cause, Some(Cause::Provider(error)) if error.is_final)
}

/// How often a call looks that waits behind a hold that has ended.
const RAMP_LOOK: Duration = Duration::from_millis(250);

/// When a caller is to try again who found the line full.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long a call without beats waits for what it could be told of at once.
const UNOPENED_PATIENCE: Duration = Duration::from_secs(10);
