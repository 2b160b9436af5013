//! One exchange with a person: model calls and tool calls until the model has answered.

mod calling;
mod compacting;
mod doing;
mod ending;
mod progress;
mod round;
mod run;
mod tooling;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::run::Run;
use crate::agent::Agent;
use crate::cancel::Cancel;
use crate::event::AgentEvent;
use crate::outcome::TurnReport;
use crate::transcript::TranscriptError;

/// A turn under way, as a stream of [`AgentEvent`]s.
///
/// It moves only while it is polled, and owns no task. The last event is [`AgentEvent::Ended`].
/// Dropping it closes the socket and the tools at once; what was said by then is in the transcript,
/// and [`Agent::resume`] goes on with it.
pub struct Turn<'a> {
    run: Option<Running<'a>>,
    events: UnboundedReceiver<AgentEvent>,
    cancel: Cancel,
    end: Option<Result<Box<TurnReport>, TranscriptError>>,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<TurnReport, TranscriptError>> + Send + 'a>>;

/// What a turn begins with.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// Somebody says this.
    Say(String),
    /// The transcript holds the beginning.
    Resume,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(agent: &'a mut Agent, beginning: Beginning) -> Self {
        let (sender, events) = unbounded_channel();
        let cancel = Cancel::new();
        let run = Run::new(agent, sender, cancel.clone()).play(beginning);
        Self {
            run: Some(Box::pin(run)),
            events,
            cancel,
            end: None,
        }
    }

    /// Returns what stops the turn, from anywhere.
    pub fn canceller(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Waits for what happens next; `None` after the end.
    ///
    /// # Errors
    ///
    /// Fails where the transcript cannot be written. The turn is over then, without an end in the
    /// transcript.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the next call goes on where this one was.
    pub async fn next(&mut self) -> Option<Result<AgentEvent, TranscriptError>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Reads on to the end.
    ///
    /// # Errors
    ///
    /// Fails where the transcript cannot be written.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the turn.
    pub async fn report(mut self) -> Result<TurnReport, TranscriptError> {
        loop {
            match self.next().await {
                Some(Ok(AgentEvent::Ended(report))) => return Ok(*report),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                // A turn that nobody else has read ends with one of the above.
                None => std::future::pending().await,
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<AgentEvent, TranscriptError>>> {
        loop {
            // What has happened is told before more happens.
            match self.events.poll_recv(cx) {
                Poll::Ready(Some(event)) => return Poll::Ready(Some(Ok(event))),
                // Nobody but the run holds the other end.
                Poll::Ready(None) => {
                    let end = self.end.take();
                    return Poll::Ready(end.map(|end| end.map(AgentEvent::Ended)));
                }
                Poll::Pending => {}
            }
            let Some(run) = &mut self.run else {
                return Poll::Pending;
            };
            match run.as_mut().poll(cx) {
                Poll::Ready(end) => {
                    self.run = None;
                    self.end = Some(end.map(Box::new));
                }
                Poll::Pending => {
                    return match self.events.poll_recv(cx) {
                        Poll::Ready(Some(event)) => Poll::Ready(Some(Ok(event))),
                        _ => Poll::Pending,
                    };
                }
            }
        }
    }
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("is_over", &self.run.is_none())
            .field("cancel", &self.cancel)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
