//! A call as a stream of events.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use lifesign_core::Failure;

use crate::call::{Call, CallItem};
use crate::clock::CallClock;
use crate::event::CallEvent;
use crate::job::Job;
use crate::monitor::Monitor;
use crate::outcome::{Answered, Failed};
use crate::records::Records;

/// A call under way, as a stream of [`CallEvent`]s.
///
/// The stream ends after [`CallEvent::Finished`] or the first error. It moves only while it is
/// polled: between an item and the next poll every clock but the wall's stands still, since the
/// reader's pause is not the upstream's silence. Dropping it closes the socket at once and leaves
/// no task or timer behind.
#[derive(Debug)]
pub struct CallStream {
    state: State,
}

#[derive(Debug)]
enum State {
    Calling(Box<Call>),
    /// The request cannot be made; nothing is sent.
    Refusing {
        refused: Option<Box<Failed>>,
        monitor: Monitor,
        id: String,
    },
}

impl CallStream {
    pub(crate) fn new(job: Result<Job, Box<Failure>>, records: Option<Arc<dyn Records>>) -> Self {
        let state = match job {
            Ok(job) => State::Calling(Box::new(Call::new(job, records))),
            Err(failure) => {
                let refused = Box::new(Failed::unbegun(*failure));
                State::Refusing {
                    id: refused.id.clone(),
                    refused: Some(refused),
                    monitor: Monitor::new(CallClock::start(), 0),
                }
            }
        };
        Self { state }
    }

    /// Returns the call's id, time-sortable.
    pub fn id(&self) -> &str {
        match &self.state {
            State::Calling(call) => call.id(),
            State::Refusing { id, .. } => id,
        }
    }

    /// Returns a view of the call's clocks, for somebody who is not reading the stream.
    pub fn monitor(&self) -> Monitor {
        match &self.state {
            State::Calling(call) => call.monitor().clone(),
            State::Refusing { monitor, .. } => monitor.clone(),
        }
    }

    /// Waits for what happens next; `None` after the end.
    ///
    /// # Errors
    ///
    /// The failure that ends the call, with the partial answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the next call goes on where this one was.
    pub async fn next(&mut self) -> Option<Result<CallEvent, Box<Failed>>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Ends the call because the caller leaves, and says what it had by then.
    ///
    /// The socket is closed at once. `None` if the call was over already.
    pub fn cancel(mut self) -> Option<Box<Failed>> {
        match &mut self.state {
            State::Calling(call) => call.cancel(),
            State::Refusing { refused, .. } => refused.take(),
        }
    }

    /// Reads on to the end.
    pub(crate) async fn answer(mut self) -> Result<Answered, Box<Failed>> {
        loop {
            match self.next().await {
                Some(Ok(CallEvent::Finished(answered))) => return Ok(*answered),
                Some(Ok(_)) => {}
                Some(Err(failed)) => return Err(failed),
                // A stream that nobody else has read ends with one of the above.
                None => std::future::pending().await,
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<CallItem>> {
        match &mut self.state {
            State::Calling(call) => call.poll_next(cx),
            State::Refusing { refused, .. } => Poll::Ready(refused.take().map(Err)),
        }
    }
}

impl Stream for CallStream {
    type Item = Result<CallEvent, Box<Failed>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}
