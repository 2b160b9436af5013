//! What follows an attempt.

use std::sync::Arc;
use std::time::Duration;

use lifesign::attempt::{AttemptEnd, Cause};
use lifesign::trace_context::AttemptTrace;
use lifesign::{Doing, clock};
use lifesign_core::duration::whole_millis;
use lifesign_core::{
    BoundName, Budget, Commit, Decision, Failure, FailureCode, FailureReport, GiveUp, Past, Tier,
    Watch, decide,
};

use super::{Attempting, Call, Fault, Item, State, Told};
use crate::breaker::AttemptMark;
use crate::live::Happening;
use crate::records::{Answered, Asked, AttemptEnded, CutPoint, Record};
use crate::relay::Manner;
use crate::target::{OutboundBody, Target};

impl Call {
    /// Takes in the end of an attempt: the end of the call, or nothing where it goes on.
    pub(super) fn conclude(&mut self, mut end: AttemptEnd) -> Option<Item> {
        let State::Attempting(mut attempting) = std::mem::replace(&mut self.state, State::Choosing)
        else {
            return None;
        };
        let failure = self.close(&end, &mut attempting);
        let intake = attempting.attempt.intake_mut();
        let sequence = intake.last_sequence();
        self.last.sequence = sequence.or(self.last.sequence);
        let Some(failure) = failure else {
            let (whole, held) = (intake.take_whole(), intake.take_held());
            if let Some(pass) = &mut attempting.pass {
                pass.handle_success();
            }
            self.last.told = Some(Box::new(Told {
                id: end.answer.id.take(),
                model: end.answer.model.take(),
                finish_reason: end.answer.finish_reason.take(),
                usage: end.answer.usage,
            }));
            self.head = end.head.take();
            return Some(self.succeed(whole, held));
        };
        if self.repeats_unstreamed(&failure, &end, &attempting) {
            self.unstreamed = true;
            self.returns = true;
            self.waited = Duration::ZERO;
            return None;
        }
        self.next(failure, end, &attempting)
    }

    /// Decides what follows a failed attempt: another upstream, a wait, or the end.
    pub(super) fn next(
        &mut self,
        failure: Failure,
        end: AttemptEnd,
        attempting: &Attempting,
    ) -> Option<Item> {
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
        let decision = match decision {
            Decision::Retry { .. } if self.may_have_acted(&failure) => Decision::GiveUp {
                reason: GiveUp::NotRetryable,
            },
            decision => decision,
        };
        let asked = end.hints.wait.filter(|wait| !wait.is_zero());
        let is_limit = matches!(failure.code.tier(), Some(Tier::Overload | Tier::Rate));
        if let Some(asked) = asked.filter(|_| is_limit) {
            let key = self.hold_key(attempting.target);
            self.hub
                .holds
                .raise(&key, asked, failure.code, &self.order.id);
        }
        if self.moves_on(&decision, &failure, &end, attempting.target) {
            self.history.push(Past {
                code: failure.code,
                waited: Duration::ZERO,
            });
            self.waited = Duration::ZERO;
            self.fresh = false;
            tracing::info!(
                call = %self.order.id,
                upstream = attempting.upstream.name(),
                why = failure.code.name(),
                "call moves on to another upstream"
            );
            self.note(Happening::MovedOn {
                upstream: attempting.upstream.name().to_owned(),
                why: failure.code,
            });
            let fault = self.fault(failure, end, attempting);
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
                self.out_of_turn = None;
                self.returns = true;
                let until = now.saturating_add(after);
                tracing::info!(
                    call = %self.order.id,
                    upstream = attempting.upstream.name(),
                    why = failure.code.name(),
                    wait_ms = whole_millis(after),
                    "call waits to retry"
                );
                self.note(Happening::RetryWait {
                    why: failure.code,
                    wait_ms: whole_millis(after),
                });
                self.begin_wait(Some(failure.code));
                self.state = State::Waiting { until };
                self.monitor.set_doing(Doing::RetryWait { until });
                None
            }
            Decision::Retry { .. } => {
                let fault = self.fault(failure, end, attempting);
                Some(Item::Failed(self.fail_last(fault)))
            }
            Decision::GiveUp { reason } => {
                let mut failure = failure;
                failure.settle(reason, &end.hints);
                let fault = self.fault(failure, end, attempting);
                Some(Item::Failed(self.fail_last(fault)))
            }
        }
    }

    /// Returns whether the upstream may have done what a repetition would do again: a path that is
    /// not understood may create something. Refusals for load or rate say that it did not.
    fn may_have_acted(&self, failure: &Failure) -> bool {
        self.order.manner == Manner::Plain
            && !self.order.outbound.method.is_idempotent()
            && failure.code != FailureCode::Connect
            && matches!(failure.code.tier(), Some(Tier::Transport | Tier::Cut))
    }

    /// Returns whether another upstream is asked at once.
    pub(super) fn moves_on(
        &self,
        decision: &Decision,
        failure: &Failure,
        end: &AttemptEnd,
        target: usize,
    ) -> bool {
        // These two are not repeated where they happened; elsewhere they need not happen.
        let can_help = failure.code.tier().is_some()
            || matches!(
                failure.code,
                FailureCode::Exhausted | FailureCode::Unreadable
            );
        let is_spent = matches!(
            decision,
            Decision::GiveUp {
                reason: GiveUp::AttemptsSpent | GiveUp::Committed | GiveUp::WallClock
            }
        );
        if !can_help || is_spent || end.commit != Commit::Nothing || is_final(end) {
            return false;
        }
        if self.may_have_acted(failure) {
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
    pub(super) fn is_slept_unopened(&self, asked: Option<Duration>, after: Duration) -> bool {
        if self.is_open || asked.is_none() {
            return false;
        }
        let opens_at = self.order.patience();
        self.clock.elapsed().saturating_add(after) > opens_at
    }

    /// Returns whether the request is repeated without a stream: the upstream refused that word.
    pub(super) fn repeats_unstreamed(
        &self,
        failure: &Failure,
        end: &AttemptEnd,
        at: &Attempting,
    ) -> bool {
        let Some(target) = self.order.targets.get(at.target) else {
            return false;
        };
        let is_assembled = self.manner(target) == Manner::Assembled;
        let names_stream = failure
            .provider_message
            .as_deref()
            .is_some_and(|message| message.contains("stream"));
        let is_possible = is_assembled && !self.is_unrepeatable;
        if !is_possible || end.status() != Some(400) || !names_stream {
            return false;
        }
        target.note_refused_stream(self.order.model.as_deref().unwrap_or_default());
        true
    }

    /// Closes the books of an attempt, and returns its failure if it has a cause.
    pub(super) fn close(
        &mut self,
        end: &AttemptEnd,
        attempting: &mut Attempting,
    ) -> Option<Failure> {
        let mut watch = self.monitor.end_attempt();
        if let Some(watch) = &watch {
            self.lifetime_spent = watch.lifetime();
        }
        let tally = watch.as_ref().map(Watch::tally).unwrap_or_default();
        let trace = watch.as_mut().map(Watch::take_trace).unwrap_or_default();
        let number = self.next_number();
        let target = Arc::clone(&self.order.targets[attempting.target]);
        let failure = end.cause.is_some().then(|| {
            // Some providers repeat the key that they were sent.
            let headers = &self.order.outbound.headers;
            let upstream = target.with_credential(&attempting.upstream, headers);
            end.failure(number, &upstream, &tally)
        });
        let failure = failure.flatten();
        let failure = failure.map(|failure| self.described(failure));
        let record = end.record(
            number,
            &attempting.upstream,
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
            .record(mark(failure.as_ref(), first_content), now, &self.order.id);
        let has_partial = failure.is_some() && !end.answer.is_empty();
        let sequence = attempting.attempt.intake().last_sequence();
        let profile = attempting.settings.profile.value.name();
        let model = self.order.model.as_deref();
        let ended = Record::Attempt(Box::new(AttemptEnded {
            call: self.order.id.clone(),
            call_at: self.live.started.at,
            at: clock::timestamp(),
            attempt: record.clone(),
            route: self.order.route.clone(),
            began_ms: whole_millis(attempting.began),
            model: model.map(|model| target.config.model(model).to_owned()),
            profile: profile.to_owned(),
            failure: failure.as_ref().map(FailureReport::from),
            cut_point: has_partial.then(|| CutPoint::of(&record, end.ages.content, sequence)),
            gaps: watch.map(Watch::into_gaps).unwrap_or_default(),
            asked: self.asked(&target, attempting.streamed),
            answered: Answered {
                id: end.answer.id.clone(),
                model: end.answer.model.clone(),
                finish_reason: end.answer.finish_reason.clone(),
            },
            quiet: std::mem::take(&mut attempting.quiet),
            trace: self.trace_of(attempting),
        }));
        self.hub.records.record(&ended);
        if let Record::Attempt(ended) = ended {
            self.live.with_course(|course| course.keep(ended, trace));
        }
        self.records.push(record);
        self.last.profile = Some(profile);
        self.last.target = Some(attempting.target);
        failure
    }

    fn asked(&self, target: &Target, streamed: bool) -> Asked {
        let endpoint = target.upstream.endpoint();
        Asked {
            provider: target.provider,
            host: endpoint.host,
            port: endpoint.port,
            method: self.order.outbound.method.to_string(),
            streamed,
            max_tokens: self.order.max_tokens,
        }
    }

    fn trace_of(&self, attempting: &Attempting) -> Option<AttemptTrace> {
        let call = self.live.started.trace.as_deref()?.clone();
        let span_id = attempting.span?;
        Some(AttemptTrace { span_id, call })
    }

    pub(super) fn fault(
        &self,
        failure: Failure,
        end: AttemptEnd,
        attempting: &Attempting,
    ) -> Box<Fault> {
        let AttemptEnd {
            cause,
            answer,
            mut head,
            commit,
            ..
        } = end;
        let mut provider = match cause {
            Some(Cause::Provider(error)) => Some(error),
            _ => None,
        };
        let target = self.order.targets.get(attempting.target);
        if target.is_some_and(|target| target.is_own()) {
            // Some repeat the key that they were sent, which is not the caller's.
            let upstream = &attempting.upstream;
            if let Some(error) = &mut provider {
                error.message = upstream.masked(&error.message);
            }
            let body = head.as_mut().and_then(|head| head.error_body.as_mut());
            if let Some(body) = body
                && let Ok(text) = std::str::from_utf8(body)
            {
                *body = upstream.masked(text).into();
            }
        }
        let has_partial = !answer.is_empty() || answer.usage.is_some();
        Box::new(Fault {
            failure,
            provider,
            partial: has_partial.then_some(answer),
            head,
            is_committed: commit != Commit::Nothing,
            has_error_frame: attempting.attempt.intake().has_error_frame(),
            attempts: self.records.len(),
        })
    }
}

/// Returns what an attempt shows about its upstream.
pub(super) fn mark(failure: Option<&Failure>, first_content: Option<Duration>) -> AttemptMark {
    let Some(failure) = failure else {
        return AttemptMark::Succeeded {
            first_content: first_content.unwrap_or_default(),
        };
    };
    if !failure.code.is_of_upstream() {
        return AttemptMark::Neutral;
    }
    match failure.bound {
        None | Some(BoundName::Connect) => AttemptMark::Failed,
        Some(_) => AttemptMark::Slow,
    }
}

/// Returns whether a gateway above has repeated what could be.
pub(super) fn is_final(end: &AttemptEnd) -> bool {
    matches!(&end.cause, Some(Cause::Provider(error)) if error.is_final)
}
