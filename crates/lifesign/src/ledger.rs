//! What is written down of one call of this client, for whoever keeps records.

use std::sync::Arc;
use std::time::Duration;

use lifesign_core::duration::whole_millis;
use lifesign_core::{AttemptRecord, Failure, FailureCode, FailureReport, Gaps, Notice};
use lifesign_wire::Answer;

use crate::attempt::AttemptEnd;
use crate::clock;
use crate::job::Job;
use crate::outcome::{Answered, Failed, Outcome};
use crate::records::{
    self, Asked, AttemptEnded, BeatForms, CallEnded, CallStarted, CutPoint, Quiet, Record, Records,
    Wait, WaitFor, provider_of,
};

/// Tells whoever keeps records how one call goes.
pub(crate) struct Ledger {
    records: Arc<dyn Records>,
    started: CallStarted,
    upstream: String,
    asked: Asked,
    profile: &'static str,
    held: Duration,
    retry_wait: Duration,
    waits: Vec<Wait>,
    /// The notices of the attempt at hand.
    quiet: Vec<Quiet>,
}

/// The books of an attempt that has ended.
pub(crate) struct Books<'a> {
    pub(crate) end: &'a AttemptEnd,
    pub(crate) record: &'a AttemptRecord,
    pub(crate) failure: Option<&'a Failure>,
    /// When it began, since the call began.
    pub(crate) began: Duration,
    pub(crate) gaps: Gaps,
}

impl Ledger {
    /// Tells that a call starts.
    pub(crate) fn open(records: Arc<dyn Records>, job: &Job) -> Self {
        let endpoint = job.upstream.endpoint();
        let asked = Asked {
            provider: provider_of(job.upstream.wire(), &endpoint.host),
            host: endpoint.host,
            port: endpoint.port,
            method: "POST".to_owned(),
            streamed: job.shape.streamed,
            max_tokens: job.shape.max_tokens,
        };
        let started = CallStarted {
            id: job.id.clone(),
            at: clock::timestamp(),
            key: None,
            method: asked.method.clone(),
            route: job.path().to_owned(),
            wire: job.upstream.wire().name().to_owned(),
            model: job.model.clone(),
            max_tokens: asked.max_tokens,
            streamed: asked.streamed,
            trace: None,
        };
        records.record(&Record::Started(started.clone()));
        Self {
            records,
            started,
            upstream: job.upstream.name().to_owned(),
            asked,
            profile: job.settings.profile.value.name(),
            held: Duration::ZERO,
            retry_wait: Duration::ZERO,
            waits: Vec::new(),
            quiet: Vec::new(),
        }
    }

    /// Takes down a wait that began at some time since the call began, and is over.
    pub(crate) fn note_wait(
        &mut self,
        wait: WaitFor,
        why: Option<FailureCode>,
        began: Duration,
        ended: Duration,
    ) {
        let waited = ended.saturating_sub(began);
        match wait {
            WaitFor::Hold => self.held += waited,
            WaitFor::Retry => self.retry_wait += waited,
            // A client has no line.
            WaitFor::Turn => {}
        }
        if whole_millis(waited) == 0 || self.waits.len() >= MOST_NOTED {
            return;
        }
        self.waits.push(Wait {
            wait,
            upstream: Some(self.upstream.clone()),
            why,
            began_ms: whole_millis(began),
            ended_ms: whole_millis(ended),
        });
    }

    /// Takes down that the content of the attempt at hand is quiet.
    pub(crate) fn note_quiet(&mut self, notice: &Notice, at: Duration) {
        if self.quiet.len() < MOST_NOTED {
            self.quiet.push(Quiet {
                at_ms: whole_millis(at),
                number: notice.number,
                phase: notice.phase,
                clocks_ms: notice.ages,
            });
        }
    }

    /// Tells how an attempt ended.
    pub(crate) fn note_attempt(&mut self, books: Books<'_>) {
        let Books {
            end,
            record,
            failure,
            began,
            gaps,
        } = books;
        let has_partial = failure.is_some() && !end.answer.is_empty();
        let ended = AttemptEnded {
            call: self.started.id.clone(),
            call_at: self.started.at,
            at: clock::timestamp(),
            attempt: record.clone(),
            route: self.started.route.clone(),
            began_ms: whole_millis(began),
            model: self.started.model.clone(),
            profile: self.profile.to_owned(),
            failure: failure.map(FailureReport::from),
            cut_point: has_partial.then(|| CutPoint::of(record, end.ages.content, None)),
            gaps,
            asked: self.asked.clone(),
            answered: records::Answered {
                id: end.answer.id.clone(),
                model: end.answer.model.clone(),
                finish_reason: end.answer.finish_reason.clone(),
            },
            quiet: std::mem::take(&mut self.quiet),
            trace: None,
        };
        self.records.record(&Record::Attempt(Box::new(ended)));
    }

    /// Tells that the answer is whole.
    pub(crate) fn note_answered(&self, answered: &Answered) {
        let Answered {
            answer,
            attempts,
            elapsed,
            ..
        } = answered;
        let ended = self.ended(Outcome::Completed, None, Some(answer), attempts, *elapsed);
        self.records.record(&Record::Ended(Box::new(ended)));
    }

    /// Tells that the call failed.
    pub(crate) fn note_failed(&self, failed: &Failed) {
        let ended = self.ended(
            failed.outcome(),
            Some(&failed.failure),
            failed.partial.as_ref(),
            &failed.attempts,
            failed.elapsed,
        );
        self.records.record(&Record::Ended(Box::new(ended)));
    }

    fn ended(
        &self,
        outcome: Outcome,
        failure: Option<&Failure>,
        answer: Option<&Answer>,
        attempts: &[AttemptRecord],
        elapsed: Duration,
    ) -> CallEnded {
        let is_begun = !attempts.is_empty();
        let model = self.started.model.clone();
        CallEnded {
            started: self.started.clone(),
            outcome,
            failure: failure.map(FailureReport::from),
            upstream: Some(self.upstream.clone()),
            provider: Some(self.asked.provider),
            upstream_model: model.filter(|_| is_begun),
            profile: is_begun.then(|| self.profile.to_owned()),
            answered_by: answer.and_then(|answer| answer.model.clone()),
            answer_id: answer.and_then(|answer| answer.id.clone()),
            finish_reason: answer.and_then(|answer| answer.finish_reason.clone()),
            usage: answer.and_then(|answer| answer.usage),
            attempts: attempts.to_vec(),
            // Nobody asked for the call over HTTP, and there is nobody to whom beats would go.
            status: None,
            elapsed_ms: whole_millis(elapsed),
            queued_ms: 0,
            held_ms: whole_millis(self.held),
            retry_wait_ms: whole_millis(self.retry_wait),
            waits: self.waits.clone(),
            beats: 0,
            beat_forms: BeatForms::default(),
            bytes_out: 0,
        }
    }
}

/// Waits of one call, and notices of one attempt, that are told each for itself.
const MOST_NOTED: usize = 100;
