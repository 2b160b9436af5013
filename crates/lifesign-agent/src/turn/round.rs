//! One answer of the model, whatever it takes: recoveries after content, and the turn sent again.

use lifesign::{Answered, Failed, FailureCode};

use super::calling::CallFailed;
use super::run::{Run, Stop};
use crate::event::{AgentEvent, Purpose};
use crate::recovery::{self, Continuation, MOST_RECOVERIES, Means, Seam};
use crate::transcript::{Entry, Partial, Said};

impl Run<'_> {
    /// Has the model say one whole thing, and returns what it said.
    pub(super) async fn round(&mut self) -> Result<Said, Stop> {
        self.is_repeated = false;
        self.is_resent = false;
        let mut recoveries = 0;
        loop {
            if let Some(stop) = self.stop() {
                return Err(stop);
            }
            let means = self.means();
            let mut request = self.request();
            if let Some(means) = means {
                recovery::ask(&mut request.messages, means);
            }
            let purpose = means.map_or(Purpose::Answer, |_| Purpose::Recovery);
            let settings = self.agent.terms.settings.clone();
            let seam = means.map(|means| Seam::new(self.agent.transcript.broken_text(), means));
            let CallFailed { failed, by_turn } =
                match self.call(purpose, request, settings, seam).await {
                    Ok(answered) => return self.take(&answered, means).await,
                    Err(failed) => failed,
                };
            let is_refused_prefill = means == Some(Means::Prefill)
                && failed.failure.code == FailureCode::Rejected
                && self.agent.takes_prefill;
            if is_refused_prefill {
                self.agent.takes_prefill = false;
                continue;
            }
            let has_partial = self.keep(&failed, means).await?;
            if by_turn {
                return Err(Stop::OutOfTime(Box::new(failed.failure)));
            }
            if has_partial
                && recovery::is_recoverable(&failed.failure)
                && recoveries < MOST_RECOVERIES
            {
                recoveries += 1;
                self.books.counts.recoveries += 1;
                if let Some(means) = self.means() {
                    self.emit(AgentEvent::Recovering {
                        recovery: recoveries,
                        of: MOST_RECOVERIES,
                        means,
                    });
                }
                continue;
            }
            self.resend_or_stop(*failed).await?;
            recoveries = 0;
        }
    }

    /// Keeps a whole answer.
    async fn take(&mut self, answered: &Answered, means: Option<Means>) -> Result<Said, Stop> {
        self.below.handle_complete();
        self.books.counts.rounds += 1;
        let mut said = Said::of(&answered.answer, self.agent.upstream.wire());
        if let Some(means) = means {
            self.join(&mut said, means);
            self.emit(AgentEvent::Recovered {
                overlap: said.overlap,
            });
        }
        self.append(Entry::Answer(said.clone())).await?;
        Ok(said)
    }

    /// Keeps what had come of an answer that broke off, and returns whether there was anything.
    async fn keep(&mut self, failed: &Failed, means: Option<Means>) -> Result<bool, Stop> {
        let Some(answer) = failed.partial.as_ref().filter(|answer| !answer.is_empty()) else {
            return Ok(false);
        };
        let mut partial = Partial::of(answer, self.agent.upstream.wire());
        if let Some(means) = means {
            self.join(&mut partial.said, means);
        }
        self.below
            .handle_partial(&failed.failure, !partial.said.tool_calls.is_empty());
        self.emit(AgentEvent::BrokeOff {
            failure: Box::new(failed.failure.clone()),
            text_bytes: partial.cut.text_bytes,
        });
        self.append(Entry::Partial(partial)).await?;
        Ok(true)
    }

    /// Marks what goes on from a partial, and finds what it repeats of it.
    fn join(&self, said: &mut Said, means: Means) {
        said.continues = true;
        said.overlap = recovery::overlap(&self.agent.transcript.broken_text(), &said.text, means);
    }

    /// Returns by which means the conversation is gone on with, where its last message broke off.
    fn means(&self) -> Option<Means> {
        let partial = self.agent.transcript.broken_off()?;
        let wanted = match self.agent.terms.continuation {
            _ if !self.agent.takes_prefill => Continuation::Request,
            wanted => wanted,
        };
        let text = self.agent.transcript.broken_text();
        Some(recovery::means(
            partial,
            &text,
            wanted,
            self.agent.upstream.wire(),
        ))
    }

    /// Waits for the turn to be sent again, or ends it.
    async fn resend_or_stop(&mut self, failed: Failed) -> Result<(), Stop> {
        let failure = Box::new(failed.failure);
        let resends = self.books.counts.resends;
        let Some(wait) = self.below.resend(&failure, resends) else {
            return Err(Stop::Failed(failure));
        };
        if self.remaining().is_some_and(|left| left <= wait) {
            return Err(Stop::Failed(failure));
        }
        self.books.counts.resends += 1;
        self.is_resent = true;
        self.emit(AgentEvent::Resending {
            failure,
            resend: self.books.counts.resends,
            wait,
        });
        self.wait(wait).await
    }
}
