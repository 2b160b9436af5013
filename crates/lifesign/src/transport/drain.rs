//! What follows the end of an answer: a moment for the body to end, off the caller's path.
//!
//! The terminal event ends the answer, not the body. A server that ends the body too gets its
//! connection used again; one that holds it open, or goes on sending, loses it.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use super::{Exchange, Step};

/// An exchange of which nothing is wanted any more but its end.
#[derive(Debug)]
pub(super) struct Drain {
    exchange: Exchange,
    left: usize,
}

impl Drain {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self {
            exchange,
            left: LIMIT,
        }
    }

    /// Ends the exchange at once where its end is already here, else in a task of at most
    /// [`PATIENCE`]. Outside a runtime there is nothing to wait with, and it is dropped.
    pub(super) fn start(mut self) {
        match self.poll_ended_now() {
            Poll::Ready(true) => self.exchange.give_back(),
            Poll::Ready(false) => {}
            Poll::Pending => {
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(self.run());
                }
            }
        }
    }

    /// Looks for the end in what was read already, which has it mostly, and then in the kernel.
    fn poll_ended_now(&mut self) -> Poll<bool> {
        let mut cx = Context::from_waker(Waker::noop());
        let polled = self.poll_ended(&mut cx);
        if polled.is_ready() {
            return polled;
        }
        self.exchange.look();
        self.poll_ended(&mut cx)
    }

    async fn run(mut self) {
        let mut patience = pin!(sleep(PATIENCE));
        let ended = poll_fn(|cx| match self.poll_ended(cx) {
            Poll::Pending => patience.as_mut().poll(cx).map(|()| false),
            ended @ Poll::Ready(_) => ended,
        })
        .await;
        if ended {
            self.exchange.give_back();
        }
    }

    /// Returns whether the body ended, once that is known.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            match self.exchange.poll_step(cx) {
                Poll::Ready(Ok(Step::End)) => return Poll::Ready(true),
                Poll::Ready(Ok(Step::Chunk(chunk))) => match self.left.checked_sub(chunk.len()) {
                    Some(left) => self.left = left,
                    None => return Poll::Ready(false),
                },
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// The most that is read after the end of an answer.
const LIMIT: usize = 64 * 1024;

/// The longest that the end of a body is waited for.
const PATIENCE: Duration = Duration::from_millis(250);
