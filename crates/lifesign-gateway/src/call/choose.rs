//! Whom to ask, and when.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lifesign::attempt::{Attempt, Errand, Guard};
use lifesign::clock;
use lifesign::trace_context::SpanId;
use lifesign::{Doing, error_body_limit, read_limits};
use lifesign_core::duration::{human, human_measured, whole_millis};
use lifesign_core::{CallShape, Failure, FailureCode, HoldKey, Phase, Settings, Watch};

use super::{Attempting, Call, Fault, State};
use crate::holds::{Pass, Passage};
use crate::hub::time_of;
use crate::lane::Permit;
use crate::live::Happening;
use crate::relay::{Manner, Relay, Start};
use crate::target::{OutboundBody, Target};

impl Call {
    /// Looks for an upstream that can take the call: the first that is neither held nor full.
    pub(super) fn choose(&mut self, cx: &mut Context<'_>) -> Result<(), Box<Fault>> {
        let mut held: Option<(Duration, FailureCode, usize)> = None;
        let mut full = self.out_of_turn;
        let mut behind = None;
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
                // Another upstream may be free.
                Poll::Pending => behind = behind.or(Some((passage, key, at))),
            }
        }
        if let Some((passage, key, target)) = behind {
            return self.wait_behind(passage, key, target);
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

    /// Waits with those whom a hold had kept back: only few go at first.
    fn wait_behind(
        &mut self,
        passage: Passage,
        key: HoldKey,
        target: usize,
    ) -> Result<(), Box<Fault>> {
        let settings = self.settings(target)?;
        self.watch_wall_clock(&settings);
        self.begin_wait(None);
        self.last.target = Some(target);
        let (call, upstream) = (&*self.order.id, self.target_name(target));
        tracing::info!(call, upstream, "call waits behind a hold that has ended");
        if let Some(upstream) = upstream {
            self.live.set_upstream(upstream);
        }
        self.note(Happening::Behind {
            upstream: upstream.map(str::to_owned),
        });
        self.state = State::Passing {
            passage,
            key,
            target,
        };
        Ok(())
    }

    /// Goes into the line of an upstream, or looks for another one where that is full.
    pub(super) fn enter_or_choose(&mut self, at: usize, pass: Pass) -> Result<(), Box<Fault>> {
        self.state = State::Choosing;
        if !self.enter(at, pass)? {
            self.tried.push(at);
            self.out_of_turn.get_or_insert(at);
        }
        Ok(())
    }

    /// Goes into the line of an upstream; returns whether there was a place.
    pub(super) fn enter(&mut self, at: usize, pass: Pass) -> Result<bool, Box<Fault>> {
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
        self.begin_wait(None);
        if let Some(position) = ticket.position() {
            let call = &*self.order.id;
            let upstream = target.name();
            tracing::info!(call, upstream, position, "call waits in line");
            self.note(Happening::Queued {
                upstream: upstream.to_owned(),
                position,
            });
            self.live.set_line(ticket.in_line());
        }
        self.state = State::Queued {
            ticket,
            pass: Some(pass),
            target: at,
            until,
        };
        Ok(true)
    }

    /// Waits for a hold to end, or gives up.
    pub(super) fn hold(
        &mut self,
        remaining: Duration,
        why: FailureCode,
        at: usize,
    ) -> Result<(), Box<Fault>> {
        let now = self.clock.elapsed();
        let until = now.saturating_add(remaining);
        let settings = self.settings(at)?;
        self.watch_wall_clock(&settings);
        let name = self
            .order
            .targets
            .get(at)
            .map(|target| target.name().to_owned());
        let patience = self.order.patience();
        let is_short =
            until <= patience || self.is_open && remaining <= settings.retry.max_wait.value;
        if is_short {
            tracing::info!(
                call = %self.order.id,
                upstream = name.as_deref(),
                why = why.name(),
                wait_ms = whole_millis(remaining),
                "call waits for a hold to end"
            );
            self.last.target = Some(at);
            if let Some(name) = &name {
                self.live.set_upstream(name);
            }
            self.note(Happening::Held {
                upstream: name,
                why,
                wait_ms: whole_millis(remaining),
            });
            self.monitor.set_doing(Doing::Holding { until });
            self.begin_wait(Some(why));
            let passage = self.hub.holds.pass(&self.hold_key(at), &self.order.id);
            self.state = State::Held {
                passage,
                target: at,
                until,
            };
            return Ok(());
        }
        let mut failure = Failure::new(why, Phase::Queued);
        failure.detail = Some(format!(
            "the upstream is on hold after an earlier call, for {} more",
            human_measured(remaining)
        ));
        failure.retry_after = Some(remaining);
        failure.resets_at = clock::timestamp_after(remaining);
        failure.upstream = name;
        Err(self.fail(failure, None))
    }

    pub(super) fn no_turn(&mut self, at: usize) -> Box<Fault> {
        let mut failure = Failure::new(FailureCode::QueueFull, Phase::Queued);
        failure.retry_after = Some(FULL_RETRY_AFTER);
        if let Some(target) = self.order.targets.get(at) {
            let load = target.lane.load();
            failure.upstream = Some(target.name().to_owned());
            let line = format!(
                "{} under way (upstream.concurrency = {}), {} in line (upstream.queue = {})",
                load.in_flight, load.concurrency, load.waiting, load.queue
            );
            let config = &target.config;
            let (setting, origin, detail) = match time_of(config.queue_wait.value) {
                Some(wait) if self.out_of_turn == Some(at) => (
                    "upstream.queue_wait",
                    &config.queue_wait.origin,
                    format!(
                        "no turn within {} (upstream.queue_wait), {line}",
                        human(wait)
                    ),
                ),
                // A longer line only lets more wait.
                _ => ("upstream.concurrency", &config.concurrency.origin, line),
            };
            failure.named_setting = Some(setting.to_owned());
            failure.origin = Some(origin.clone());
            failure.detail = Some(detail);
        }
        self.fail(failure, None)
    }

    pub(super) fn nobody(&mut self) -> Box<Fault> {
        let mut failure = Failure::new(FailureCode::Rejected, Phase::Queued);
        failure.stated_status = Some(404);
        failure.detail = Some(match &self.order.model {
            Some(model) => format!("no upstream has the model {model:?}"),
            None => "no upstream takes this path".to_owned(),
        });
        self.fail(failure, None)
    }

    /// Returns the order in which upstreams are asked: those whose breakers are open come last.
    pub(super) fn candidates(&self) -> Vec<usize> {
        let now = self.hub.clock.elapsed();
        let all = 0..self.order.targets.len();
        if self.order.targets.len() < 2 {
            return all.collect();
        }
        let (open, closed): (Vec<_>, Vec<_>) =
            all.partition(|at| self.order.targets[*at].lane.is_open(now));
        closed.into_iter().chain(open).collect()
    }

    pub(super) fn settings(&mut self, at: usize) -> Result<Arc<Settings>, Box<Fault>> {
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
    pub(super) fn hold_key(&self, at: usize) -> HoldKey {
        let target = &self.order.targets[at];
        let headers = &self.order.outbound.headers;
        // Two names of a caller's for one model are one model.
        let model = self.order.model.as_deref();
        let model = model.map(|model| target.config.model(model));
        // Two entries of one name on the command line share their lane, and so their holds.
        self.hub
            .holds
            .key(target.lane.name(), model, target.credential(headers))
    }

    pub(super) fn begin_attempt(
        &mut self,
        at: usize,
        pass: Option<Pass>,
        permit: Permit,
    ) -> Result<(), Box<Fault>> {
        let settings = self.settings(at)?;
        let target = Arc::clone(&self.order.targets[at]);
        let manner = self.manner(&target);
        let upstream = self.hub.upstream_now(&target);
        let prepared = target
            .request(&upstream, &self.order.outbound, manner)
            .and_then(|request| {
                let transport = target.transport(self.order.worker).map_err(|problem| {
                    let mut failure = Failure::new(FailureCode::RefusedSetting, Phase::Queued);
                    failure.detail = Some(problem);
                    Box::new(failure)
                })?;
                Ok((request, transport))
            });
        let (mut request, transport) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return Err(self.fail(*failure, None)),
        };
        let span = self.live.started.trace.as_ref().map(|trace| {
            let span = SpanId::random();
            trace.hand_on(span, request.headers_mut());
            span
        });
        let began = self.clock.elapsed();
        let shape = CallShape {
            streamed: self.is_streamed(manner),
            max_tokens: self.order.max_tokens,
            wire: target.wire().defaults(),
        };
        if self.is_too_much_to_keep() {
            self.is_unrepeatable = true;
            self.most_attempts = 1;
            self.free_replay();
        }
        let watch = Watch::new(&settings.bounds, &shape, began, self.lifetime_spent);
        self.monitor.begin_attempt(self.next_number(), watch);
        let guard = Guard::new(self.clock, self.monitor.clone());
        let start = Start {
            is_out: self.start_is_out,
            follows_sequence: self.order.wire.habits().is_numbered,
        };
        let kept = self.hub.room.enter();
        let relay = Relay::new(manner, target.wire(), &read_limits(&settings), start, kept);
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
        self.note(Happening::Attempt {
            n: self.next_number(),
            upstream: target.name().to_owned(),
        });
        let probe = target.lane.start(self.hub.clock.elapsed());
        self.state = State::Attempting(Box::new(Attempting {
            attempt: Attempt::start(errand, guard, relay),
            target: at,
            upstream,
            settings,
            began,
            streamed: shape.streamed,
            quiet: Vec::new(),
            span,
            pass,
            _permit: permit,
            _probe: probe,
        }));
        Ok(())
    }

    /// Returns how the answer is carried on from this upstream.
    pub(super) fn manner(&self, target: &Target) -> Manner {
        let model = self.order.model.as_deref().unwrap_or_default();
        match self.order.manner {
            Manner::Assembled if self.unstreamed || !target.assembles(model) => Manner::Whole,
            manner => manner,
        }
    }

    pub(super) fn is_streamed(&self, manner: Manner) -> bool {
        match &self.order.outbound.body {
            // A path that is not understood may still be asked for a stream.
            OutboundBody::Call(request) if manner == Manner::Plain => request.is_stream(),
            _ => manner.is_streamed(),
        }
    }
}

/// When a caller is to try again who found the line full.
pub(super) const FULL_RETRY_AFTER: Duration = Duration::from_secs(1);
