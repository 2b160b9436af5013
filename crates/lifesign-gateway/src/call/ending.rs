//! How a call ends, and what is written down.

use bytes::Bytes;
use lifesign::attempt::Cause;
use lifesign::{Doing, Outcome};
use lifesign_core::duration::whole_millis;
use lifesign_core::{BoundName, Failure, FailureCode, FailureReport, Phase};
use lifesign_wire::Answer;

use super::{Call, Fault, Item, State, Told};
use crate::records::{CallEnded, Record, WaitFor};

impl Call {
    pub(super) fn described(&self, mut failure: Failure) -> Failure {
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

    pub(super) fn succeed(&mut self, whole: Option<Bytes>, held: Option<Bytes>) -> Item {
        self.finish(Outcome::Completed, None);
        match (whole, held) {
            (Some(whole), _) => Item::Whole(whole),
            (None, Some(held)) => Item::Bytes(held),
            (None, None) => Item::Done,
        }
    }

    pub(super) fn fail(&mut self, failure: Failure, partial: Option<Answer>) -> Box<Fault> {
        let failure = self.described(failure);
        let fault = Box::new(Fault {
            is_committed: failure.partial,
            has_error_frame: false,
            failure,
            provider: None,
            partial,
            head: None,
            attempts: self.records.len(),
        });
        self.fail_with(fault)
    }

    /// Ends the call with the failure of its last attempt, or with the first cause where a later
    /// upstream only refused: that says nothing of what went wrong.
    pub(super) fn fail_last(&mut self, fault: Box<Fault>) -> Box<Fault> {
        let is_refusal = matches!(
            fault.failure.code,
            FailureCode::Exhausted | FailureCode::RateLimited | FailureCode::Rejected
        );
        match self.first.take() {
            Some(first) if is_refusal => self.fail_first(first),
            _ => self.fail_with(fault),
        }
    }

    pub(super) fn fail_first(&mut self, mut first: Box<Fault>) -> Box<Fault> {
        first.attempts = self.records.len();
        self.fail_with(first)
    }

    pub(super) fn fail_with(&mut self, fault: Box<Fault>) -> Box<Fault> {
        if let Some(partial) = &fault.partial {
            self.last.told = Some(Box::new(Told {
                id: partial.id.clone(),
                model: partial.model.clone(),
                finish_reason: None,
                usage: partial.usage,
            }));
        }
        self.finish(outcome_of(&fault.failure), Some(&fault.failure));
        fault
    }

    /// Ends whatever is under way, and returns what the call failed with.
    pub(super) fn abandon(&mut self, instead: Option<Failure>) -> Failure {
        let state = std::mem::replace(&mut self.state, State::Choosing);
        let mut failure = Failure::new(FailureCode::Cancelled, Phase::Queued);
        match state {
            State::Attempting(mut attempting) => {
                let sequence = attempting.attempt.intake().last_sequence();
                self.last.sequence = sequence.or(self.last.sequence);
                if let Some(mut end) = attempting.attempt.cancel() {
                    // The caller left before the answer that had just become whole was sent.
                    end.cause.get_or_insert(Cause::Cancelled);
                    failure = self.close(&end, &mut attempting).unwrap_or(failure);
                    self.last.told = Some(Box::new(Told {
                        id: end.answer.id,
                        model: end.answer.model,
                        finish_reason: None,
                        usage: end.answer.usage,
                    }));
                }
            }
            State::Queued { target, .. } => {
                self.end_wait(WaitFor::Turn, Some(target));
                failure.upstream = self.target_name(target).map(str::to_owned);
            }
            State::Passing { target, .. } => {
                self.end_wait(WaitFor::Hold, Some(target));
                failure.upstream = self.target_name(target).map(str::to_owned);
            }
            State::Held { target, .. } => self.end_wait(WaitFor::Hold, Some(target)),
            State::Waiting { .. } => self.end_wait(WaitFor::Retry, self.last.target),
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
    pub(super) fn run_out(&mut self) -> Item {
        let mut failure = Failure::new(FailureCode::WallClock, Phase::Queued);
        failure.bound = Some(BoundName::WallClock);
        failure.limit = self.wall_limit();
        failure.origin = self.wall_clock.as_ref().map(|wall| wall.origin.clone());
        Item::Failed(self.fail(failure, None))
    }

    /// Lets everything go; what is written down waits for the last byte.
    pub(super) fn finish(&mut self, outcome: Outcome, failure: Option<&Failure>) {
        if self.ended.is_some() {
            return;
        }
        // One that found no place has made no attempt that could say whose failure it is.
        if let Some(name) = failure.and_then(|failure| failure.upstream.as_deref()) {
            let mut targets = self.order.targets.iter();
            self.last.target = targets.position(|target| target.name() == name);
        }
        self.ended = Some((outcome, failure.map(|failure| Box::new(failure.into()))));
        self.state = State::Over;
        self.monitor.set_doing(Doing::Ended);
        self.free_replay();
    }

    pub(super) fn write_down(&mut self, outcome: Outcome, failure: Option<Box<FailureReport>>) {
        let told = self.last.told.take().unwrap_or_default();
        let upstream_model = self.upstream_model().map(str::to_owned);
        let target = self.target().and_then(|at| self.order.targets.get(at));
        let ended = CallEnded {
            started: self.live.started.clone(),
            outcome,
            failure: failure.map(|failure| *failure),
            upstream: self.upstream_name().map(str::to_owned),
            provider: target.map(|target| target.provider),
            upstream_model,
            profile: self.last.profile.map(str::to_owned),
            answered_by: told.model,
            answer_id: told.id,
            finish_reason: told.finish_reason,
            usage: told.usage,
            attempts: std::mem::take(&mut self.records),
            status: self.times.status,
            elapsed_ms: whole_millis(self.clock.elapsed()),
            queued_ms: whole_millis(self.times.queued),
            held_ms: whole_millis(self.times.held),
            retry_wait_ms: whole_millis(self.times.retry_wait),
            waits: std::mem::take(&mut self.times.waits),
            beats: self.times.beats.total(),
            beat_forms: self.times.beats,
            bytes_out: self.times.bytes_out,
        };
        let ended = Record::Ended(Box::new(ended));
        self.hub.records.record(&ended);
        if let Record::Ended(ended) = ended {
            let live = &self.hub.live;
            self.live.with_course(|course| live.keep(&ended, course));
        }
    }
}

pub(super) fn outcome_of(failure: &Failure) -> Outcome {
    if failure.code == FailureCode::ConnectionLost && failure.partial {
        return Outcome::Truncated;
    }
    failure.code.into()
}
