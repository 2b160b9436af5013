//! Making room before a call where the context is nearly full.

use lifesign::{Failure, FailureCode, Phase};

use super::calling::CallFailed;
use super::run::{Run, Stop};
use crate::compaction;
use crate::event::{AgentEvent, Purpose};
use crate::transcript::Entry;

/// A summary that could not be made.
pub(super) struct Unsummed {
    failure: Failure,
    /// How much the context held once its oldest results were left out.
    tokens: u64,
}

impl Run<'_> {
    /// Has the model sum up what was said long ago, where the context is nearly full.
    ///
    /// It is one attempt, not streamed, so `whole_call` bounds all of it. Where it fails the oldest
    /// tool results are left out instead, and the turn goes on. It is not made again in this turn before
    /// the context has grown by a tenth of what it may hold: what failed once would be paid for in each
    /// round.
    pub(super) async fn compact_if_near_limit(&mut self) -> Result<(), Stop> {
        let Some(limit) = self.agent.terms.context_tokens else {
            return Ok(());
        };
        let tokens = self.tokens();
        let Some(excess) = compaction::excess(tokens, limit) else {
            return Ok(());
        };
        let again = self.unsummed.as_ref().map_or(0, |unsummed| {
            unsummed.tokens.saturating_add(compaction::growth(limit))
        });
        let keep_from = compaction::keep_from(self.agent.transcript.entries());
        match (keep_from, &self.unsummed) {
            (Some(keep_from), _) if tokens >= again => match self.sum_up(keep_from).await? {
                Ok(()) => {
                    self.unsummed = None;
                    Ok(())
                }
                Err(failure) => {
                    self.leave_out(excess, &failure, true).await?;
                    let tokens = self.tokens();
                    self.unsummed = Some(Unsummed { failure, tokens });
                    Ok(())
                }
            },
            (_, Some(unsummed)) => {
                let failure = unsummed.failure.clone();
                self.leave_out(excess, &failure, false).await
            }
            (_, None) => self.leave_out(excess, &no_summary(), false).await,
        }
    }

    /// Leaves out the oldest tool results, and tells so: where there are any, or where `failure` is
    /// news.
    async fn leave_out(
        &mut self,
        excess: u64,
        failure: &Failure,
        is_news: bool,
    ) -> Result<(), Stop> {
        let results = compaction::to_elide(self.agent.transcript.entries(), excess);
        let count = results.len();
        if count > 0 {
            self.append(Entry::Elided { results }).await?;
            self.books.counts.elisions += u32::try_from(count).unwrap_or(u32::MAX);
        }
        if count > 0 || is_news {
            self.emit(AgentEvent::Elided {
                failure: Box::new(failure.clone()),
                results: count,
            });
        }
        Ok(())
    }

    fn tokens(&self) -> u64 {
        compaction::tokens(self.agent.transcript.entries())
    }

    async fn sum_up(&mut self, keep_from: usize) -> Result<Result<(), Failure>, Stop> {
        let wire = self.agent.upstream.wire();
        let earlier = self
            .agent
            .transcript
            .messages_before(keep_from, wire, compaction::SUMMARISE);
        let request = compaction::request(self.request(), earlier);
        let mut settings = self.agent.terms.settings.clone();
        settings.retry.attempts.value = 1;
        let answered = match self
            .call(Purpose::Compaction, request, settings, None)
            .await
        {
            Ok(answered) => answered,
            Err(CallFailed { failed, by_turn }) => {
                let mut failure = failed.failure;
                if by_turn {
                    // What was coming was the summary. The answer had not begun.
                    failure.phase = Phase::BeforeContent;
                    failure.partial = false;
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
            return Ok(Err(no_summary()));
        }
        self.append(Entry::Compacted { summary, keep_from }).await?;
        self.books.counts.compactions += 1;
        self.emit(AgentEvent::Compacted { entries: keep_from });
        Ok(Ok(()))
    }
}

fn no_summary() -> Failure {
    let mut failure = Failure::new(FailureCode::Empty, Phase::Ended);
    failure.detail = Some("there is no summary".to_owned());
    failure
}
