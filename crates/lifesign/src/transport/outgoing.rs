//! The request body, handed out piece by piece so that each accepted piece can be seen.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body::{Body, Frame, SizeHint};

use super::meter::Meter;

/// A whole request body in pieces.
#[derive(Debug)]
pub(super) struct Outgoing {
    rest: Bytes,
    piece: usize,
    progress: Arc<SendProgress>,
}

impl Outgoing {
    /// Wraps `body`, to be handed out in pieces of at most `piece` bytes.
    pub(super) fn new(body: Bytes, piece: usize, meter: &Arc<Meter>) -> Self {
        let progress = Arc::new(SendProgress {
            handed_out: AtomicU64::new(0),
            all: AtomicBool::new(body.is_empty()),
            flushes_before: AtomicU64::new(meter.flushes()),
            written_before: meter.written(),
            meter: Arc::clone(meter),
            waker: AtomicWaker::new(),
        });
        Self {
            rest: body,
            piece,
            progress,
        }
    }

    pub(super) fn progress(&self) -> Arc<SendProgress> {
        Arc::clone(&self.progress)
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let len = self.piece.min(self.rest.len());
        let piece = self.rest.split_to(len);
        let all = self.rest.is_empty();
        self.progress.hand_out(piece.len(), all);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// How far a request has got.
#[derive(Debug)]
pub(super) struct SendProgress {
    handed_out: AtomicU64,
    all: AtomicBool,
    flushes_before: AtomicU64,
    written_before: u64,
    meter: Arc<Meter>,
    /// Who waits to hear of the next piece, where that is not who polls the connection.
    waker: AtomicWaker,
}

impl SendProgress {
    /// Wakes `cx` when the next piece is handed out, or when the last one has been sent.
    pub(super) fn register(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
        if self.all.load(Ordering::Acquire) {
            self.meter.wake_on_flush(cx.waker());
        }
    }

    /// Returns the body bytes that HTTP has taken.
    pub(super) fn handed_out(&self) -> u64 {
        self.handed_out.load(Ordering::Acquire)
    }

    /// Whether the socket has accepted the last byte: everything was handed out, and after that
    /// the connection had nothing left to write.
    pub(super) fn is_sent(&self) -> bool {
        self.all.load(Ordering::Acquire)
            && self.meter.written() > self.written_before
            && self.meter.flushes() > self.flushes_before.load(Ordering::Acquire)
    }

    fn hand_out(&self, len: usize, all: bool) {
        self.handed_out.fetch_add(len as u64, Ordering::AcqRel);
        if all {
            self.flushes_before
                .store(self.meter.flushes(), Ordering::Release);
            self.all.store(true, Ordering::Release);
        }
        self.waker.wake();
    }
}
