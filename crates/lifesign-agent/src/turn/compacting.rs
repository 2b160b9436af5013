//! Making room before a call where the context is nearly full.

use lifesign::{Failure, FailureCode, Phase};

use super::calling::CallFailed;
use super::run::{Run, Stop};
use crate::compaction;
use crate::event::{AgentEvent, Purpose};
use crate::transcript::{Entry, Transcript};

impl Run<'_> {
    /// Has the model sum up what was said long ago, where the context is nearly full.
    ///
    /// It is one attempt, not streamed, so `whole_call` bounds all of it. Where it fails the oldest
    /// tool results are left out instead, and the turn goes on.
    pub(super) async fn compact_if_near_limit(&mut self) -> Result<(), Stop> {
        let Some(limit) = self.agent.terms.context_tokens else {
            return Ok(());
        };
        let tokens = compaction::tokens(self.agent.transcript.entries());
        let Some(excess) = compaction::excess(tokens, limit) else {
            return Ok(());
        };
        let failure = match compaction::keep_from(self.agent.transcript.entries()) {
            Some(keep_from) => match self.sum_up(keep_from).await? {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            },
            None => nothing_to_sum_up(),
        };
        let results = compaction::to_elide(self.agent.transcript.entries(), excess);
        if results.is_empty() {
            return Ok(());
        }
        let count = results.len();
        self.append(Entry::Elided { results }).await?;
        self.books.counts.elisions += u32::try_from(count).unwrap_or(u32::MAX);
        self.emit(AgentEvent::Elided {
            failure: Box::new(failure),
            results: count,
        });
        Ok(())
    }

    async fn sum_up(&mut self, keep_from: usize) -> Result<Result<(), Failure>, Stop> {
        let wire = self.agent.upstream.wire();
        let earlier = Transcript::messages_of(self.agent.transcript.entries(), keep_from, wire);
        let request = compaction::request(self.request(), earlier);
        let mut settings = self.agent.terms.settings.clone();
        settings.retry.attempts.value = 1;
        let answered = match self
            .call(Purpose::Compaction, request, settings, None)
            .await
        {
            Ok(answered) => answered,
            Err(CallFailed { failed, by_turn }) => {
                let failure = failed.failure;
                if by_turn {
                    return Err(Stop::OutOfTime(Box::new(failure)));
                }
                if failure.code == FailureCode::Cancelled {
                    return Err(Stop::Failed(Box::new(failure)));
                }
                return Ok(Err(failure));
            }
        };
        let summary = answered.answer.text;
        if summary.trim().is_empty() {
            return Ok(Err(nothing_to_sum_up()));
        }
        self.append(Entry::Compacted { summary, keep_from }).await?;
        self.books.counts.compactions += 1;
        self.emit(AgentEvent::Compacted { entries: keep_from });
        Ok(Ok(()))
    }
}

fn nothing_to_sum_up() -> Failure {
    let mut failure = Failure::new(FailureCode::Empty, Phase::Ended);
    failure.detail = Some("there is no summary".to_owned());
    failure
}
