//! What a connection reads from and writes to, as layers.
//!
//! [`Raw`] is the socket; below TLS, where alone it shows whether the reader takes anything.
//! [`Socket`] is what hyper reads; above TLS, where heads can be seen.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::server::TlsStream;

use super::{head::HeadWatch, peer::Peer};

/// An accepted socket.
#[derive(Debug)]
pub(super) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket that notes when writing stalls.
#[derive(Debug)]
pub(super) struct Raw {
    socket: Accepted,
    peer: Arc<Peer>,
    stall: Duration,
}

impl Raw {
    pub(super) fn new(socket: Accepted, peer: Arc<Peer>, stall: Duration) -> Self {
        Self {
            socket,
            peer,
            stall,
        }
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let due = self.peer.write();
        match &written {
            Poll::Pending => due.set(|| self.peer.elapsed().saturating_add(self.stall)),
            Poll::Ready(_) => due.clear(),
        }
        written
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Accepted::Tcp(socket) = &self.socket
            && (self.peer.is_killed() || self.peer.is_stalled())
            // The close that follows resets, and frees what the reader never took.
            && let Err(error) = socket.set_zero_linger()
        {
            tracing::debug!(%error, "cannot reset a connection");
        }
    }
}

impl AsyncRead for Raw {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Accepted::Tcp(socket) => Pin::new(socket).poll_read(cx, buffer),
            Accepted::Unix(socket) => Pin::new(socket).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Raw {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = match &mut this.socket {
            Accepted::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
            Accepted::Unix(socket) => Pin::new(socket).poll_write(cx, bytes),
        };
        this.note(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = match &mut this.socket {
            Accepted::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, pieces),
            Accepted::Unix(socket) => Pin::new(socket).poll_write_vectored(cx, pieces),
        };
        this.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Accepted::Tcp(socket) => Pin::new(socket).poll_flush(cx),
            Accepted::Unix(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Accepted::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Accepted::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}

/// What hyper reads from and writes to.
///
/// One request at a time: what comes behind it, with it or later, is kept until its response has
/// ended. hyper would take it in, and then no longer look whether the caller is still there.
#[derive(Debug)]
pub(super) struct Socket {
    layer: Layer,
    peer: Arc<Peer>,
    watch: HeadWatch,
    head_limit: Duration,
    /// What came behind the request that is answered.
    ahead: Vec<u8>,
    /// How much of that is kept.
    ahead_limit: usize,
}

#[derive(Debug)]
pub(super) enum Layer {
    Plain(Raw),
    Tls(Box<TlsStream<Raw>>),
}

impl Socket {
    /// Returns a socket whose first head is due `head_limit` from now.
    pub(super) fn new(
        layer: Layer,
        peer: Arc<Peer>,
        head_limit: Duration,
        head_len_bytes: usize,
    ) -> Self {
        peer.head()
            .set(|| peer.elapsed().saturating_add(head_limit));
        Self {
            layer,
            peer,
            watch: HeadWatch::new(head_len_bytes),
            head_limit,
            ahead: Vec::new(),
            ahead_limit: head_len_bytes,
        }
    }

    /// Looks at what was read since `buffer` was filled to `before`, and keeps back what does not
    /// belong to this request.
    fn look(&mut self, buffer: &mut ReadBuf<'_>, before: usize) {
        let read = buffer.filled().get(before..).unwrap_or_default();
        if read.is_empty() {
            return;
        }
        match self.watch.handle(read) {
            Ok(None) => {}
            Ok(Some(len)) => {
                self.peer.note_request();
                self.ahead
                    .splice(..0, read.get(len..).unwrap_or_default().iter().copied());
                buffer.set_filled(before + len);
            }
            Err(malformed) => self.peer.mark_malformed(malformed),
        }
        let due = self.peer.head();
        if self.watch.is_inside() {
            due.set(|| self.peer.elapsed().saturating_add(self.head_limit));
        } else {
            due.clear();
        }
    }

    fn poll_layer(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.layer {
            Layer::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            Layer::Tls(socket) => Pin::new(socket.as_mut()).poll_read(cx, buffer),
        }
    }

    /// Is ready when the caller has left, or the connection is broken.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.ahead.len() < self.ahead_limit {
            let mut room = [0; 1024];
            let mut buffer = ReadBuf::new(&mut room);
            ready!(self.poll_layer(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.ahead.extend_from_slice(buffer.filled());
        }
        // Who sends that much ahead is not looked after.
        Poll::Pending
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        if this.peer.is_answering() {
            return this.poll_left(cx);
        } else if this.ahead.is_empty() {
            ready!(this.poll_layer(cx, buffer))?;
        } else {
            let len = this.ahead.len().min(buffer.remaining());
            let next: Vec<_> = this.ahead.drain(..len).collect();
            buffer.put_slice(&next);
        }
        this.look(buffer, before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().layer {
            Layer::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Layer::Tls(socket) => Pin::new(socket.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().layer {
            Layer::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, pieces),
            Layer::Tls(socket) => Pin::new(socket.as_mut()).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.layer {
            Layer::Plain(socket) => socket.is_write_vectored(),
            Layer::Tls(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().layer {
            Layer::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Layer::Tls(socket) => Pin::new(socket.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().layer {
            Layer::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Layer::Tls(socket) => Pin::new(socket.as_mut()).poll_shutdown(cx),
        }
    }
}
