//! The end of a turn: what is written down, and what everybody is told.

use std::time::Duration;

use jiff::Timestamp;
use lifesign::{Failure, FailureCode, FailureReport, GiveUp, Phase, clock};
use lifesign_core::duration::human_measured;

use super::run::Run;
use crate::event::{AgentEvent, Alert};
use crate::finish;
use crate::note;
use crate::outcome::{
    ABANDONED_SENTENCE, FILTERED_PART_SENTENCE, FILTERED_SENTENCE, LENGTH_SENTENCE,
    NO_REPLY_SENTENCE, TurnOutcome, TurnReport, no_more_rounds,
};
use crate::transcript::{Ended, Entry, Said, TranscriptError};

impl Run<'_> {
    /// Ends a turn in which the model came to an end by itself.
    pub(super) async fn end_answered(
        &mut self,
        said: &Said,
    ) -> Result<TurnReport, TranscriptError> {
        let is_blank = self.agent.transcript.reply().trim().is_empty();
        let ended_by = |is: fn(&str) -> bool| said.finish_reason.as_deref().is_some_and(is);
        let mut note = None;
        let (outcome, sentence) = if ended_by(finish::is_filtered) {
            // The provider held it back: the model did not choose to say no more.
            note = Some(note::filtered());
            if is_blank {
                (TurnOutcome::ProviderFailed, Some(FILTERED_SENTENCE))
            } else {
                (TurnOutcome::Truncated, Some(FILTERED_PART_SENTENCE))
            }
        } else if is_blank {
            (TurnOutcome::NoReply, Some(NO_REPLY_SENTENCE))
        } else if ended_by(finish::is_length) {
            (TurnOutcome::Truncated, Some(LENGTH_SENTENCE))
        } else {
            (TurnOutcome::Completed, None)
        };
        let report = TurnReport {
            sentence: sentence.map(str::to_owned),
            note,
            finish_reason: said.finish_reason.clone(),
            ..self.report(outcome)
        };
        self.close(report).await
    }

    /// Ends a turn in which the model went on calling tools until it might not any more.
    pub(super) async fn end_without_rounds(&mut self) -> Result<TurnReport, TranscriptError> {
        let sentence = no_more_rounds(
            self.agent.terms.max_rounds,
            self.agent.terms.names.max_rounds,
        );
        let report = TurnReport {
            sentence: Some(sentence),
            ..self.report(TurnOutcome::NoReply)
        };
        self.close(report).await
    }

    /// Ends a turn that `failure` ended.
    pub(super) async fn end_failed(
        &mut self,
        failure: Failure,
    ) -> Result<TurnReport, TranscriptError> {
        let wake_at = self.schedule(&failure);
        let is_stopped = failure.code == FailureCode::Cancelled;
        let is_abandoned = is_stopped && self.cancel.is_abandoned();
        let note = if is_abandoned {
            note::abandoned()
        } else {
            note::note(&failure, self.is_repeated)
        };
        let mut told = FailureReport::from(&failure);
        if is_stopped && failure.phase == Phase::Queued {
            told.message = format!("the turn was stopped {}", self.doing.during());
        }
        if is_abandoned {
            told.message = format!("{}: nobody took the answer any more", told.message);
            ABANDONED_SENTENCE.clone_into(&mut told.sentence);
        }
        let report = self.failed_report(told, TurnOutcome::of(&failure), note);
        self.close(TurnReport { wake_at, ..report }).await
    }

    /// Ends a turn whose own wall clock ran out.
    pub(super) async fn end_out_of_time(
        &mut self,
        failure: Failure,
    ) -> Result<TurnReport, TranscriptError> {
        let note = note::out_of_time(self.is_repeated);
        let mut told = FailureReport::from(&failure);
        if failure.phase == Phase::Queued
            && let Some(limit) = failure.limit
        {
            told.sentence = format!(
                "The {} you allowed ran out {}; ask for less or allow more.",
                human_measured(limit),
                self.doing.told()
            );
        }
        let report = self.failed_report(told, TurnOutcome::WallTimeout, note);
        self.close(report).await
    }

    fn failed_report(
        &self,
        failure: FailureReport,
        outcome: TurnOutcome,
        note: String,
    ) -> TurnReport {
        TurnReport {
            sentence: Some(failure.sentence.clone()),
            failure: Some(failure),
            note: Some(note),
            ..self.report(outcome)
        }
    }

    async fn close(&mut self, report: TurnReport) -> Result<TurnReport, TranscriptError> {
        self.append(Entry::Ended(Ended {
            turn: report.turn,
            outcome: report.outcome,
            note: report.note.clone(),
            wake_at: report.wake_at,
        }))
        .await?;
        Ok(report)
    }

    /// Returns when the turn is to be gone on with, where its provider said when, and tells so.
    fn schedule(&self, failure: &Failure) -> Option<Timestamp> {
        let asked = match failure.give_up {
            Some(GiveUp::BeyondMaxWait { asked, .. }) => Some(asked),
            _ => None,
        };
        // A wait that the turn's time does not allow for is as long as one that is not slept.
        let is_long = asked.is_some()
            || failure.code == FailureCode::Exhausted
            || matches!(
                failure.give_up,
                Some(GiveUp::TotalWait { .. } | GiveUp::WallClock)
            );
        if !is_long {
            return None;
        }
        let until = failure
            .resets_at
            .or_else(|| clock::timestamp_after(asked?))?;
        let wait = asked.unwrap_or_else(|| {
            Duration::try_from(until.duration_since(clock::timestamp())).unwrap_or_default()
        });
        self.alert_of(wait, until);
        self.emit(AgentEvent::WakeScheduled { at: until });
        Some(until)
    }

    /// Tells of a wait that somebody should know of.
    pub(super) fn alert_of(&self, wait: Duration, until: Timestamp) {
        if wait > LONGEST_QUIET_WAIT {
            self.emit(AgentEvent::Alert(Alert::LongWait { wait, until }));
        }
    }

    fn report(&self, outcome: TurnOutcome) -> TurnReport {
        let transcript = &self.agent.transcript;
        TurnReport {
            v: TurnReport::VERSION,
            id: transcript.id().to_owned(),
            turn: self.turn,
            outcome,
            failure: None,
            sentence: None,
            note: None,
            text: transcript.reply(),
            finish_reason: None,
            wake_at: None,
            counts: self.books.counts,
            times_ms: self.books.times(self.clock.elapsed()),
            usage: self.books.usage(),
        }
    }
}

/// Somebody should know of a wait that is longer.
const LONGEST_QUIET_WAIT: Duration = Duration::from_hours(1);
