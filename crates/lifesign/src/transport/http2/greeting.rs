//! What a peer says first on a connection that HTTP/2 is spoken over.
//!
//! Without TLS nothing is agreed on: a peer that knows no HTTP/2 answers our opening in the words it
//! has, and HTTP/2 only sees a frame of an impossible size in them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport::error::{TransportError, TransportErrorKind};
use crate::transport::meter::Line;

/// What is known of the first bytes of a peer.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    heard: AtomicU8,
}

impl Greeting {
    /// Returns `error`, or what the first bytes show to lie behind it.
    pub(super) fn explain(&self, error: TransportError) -> TransportError {
        let kind = match (self.heard.load(Ordering::Relaxed), error.kind) {
            (HTTP1, _) => TransportErrorKind::NotHttp2 { http1: true },
            (FOREIGN, _) => TransportErrorKind::NotHttp2 { http1: false },
            (NOTHING, TransportErrorKind::Closed | TransportErrorKind::Reset) => {
                TransportErrorKind::Ungreeted
            }
            (_, kind) => kind,
        };
        TransportError { kind, ..error }
    }

    fn set(&self, heard: u8) {
        self.heard.store(heard, Ordering::Relaxed);
    }
}

/// A line whose first bytes are looked at.
#[derive(Debug)]
pub(super) struct Greeted {
    line: Line,
    greeting: Arc<Greeting>,
    first: Vec<u8>,
}

impl Greeted {
    pub(super) fn new(line: Line, greeting: Arc<Greeting>) -> Self {
        Self {
            line,
            greeting,
            first: Vec::new(),
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        if self.first.len() >= LOOKED_AT || bytes.is_empty() {
            return;
        }
        self.first
            .extend(bytes.iter().take(LOOKED_AT - self.first.len()));
        self.greeting.set(match self.first.as_slice() {
            b"HTTP" => HTTP1,
            // Where a frame has its type stands text (RFC 9113, section 4.1).
            [_, _, _, kind] if *kind >= b' ' => FOREIGN,
            _ => SOMETHING,
        });
    }
}

impl AsyncRead for Greeted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.line).poll_read(cx, buf))?;
        self.hear(buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Greeted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.line.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(cx)
    }
}

/// Nothing has come yet.
const NOTHING: u8 = 0;
/// What came may be HTTP/2.
const SOMETHING: u8 = 1;
/// What came is HTTP/1.
const HTTP1: u8 = 2;
/// What came is neither.
const FOREIGN: u8 = 3;

/// As many bytes as tell the three apart: a frame's length and type.
const LOOKED_AT: usize = 4;
