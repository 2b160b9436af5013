//! The socket, with every byte counted below TLS.
//!
//! Half a chunk header or a part of a TLS record counts here, although nothing above can make
//! anything of it yet: that is what the raw clock is about.

use std::io::{self, Read};
use std::mem::{self, MaybeUninit};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// What has crossed one socket.
#[derive(Debug, Default)]
pub(super) struct Meter {
    read: AtomicU64,
    written: AtomicU64,
    /// How often everything written so far had been taken by the kernel.
    flushes: AtomicU64,
    /// Who waits for the next of those times.
    on_flush: Mutex<Vec<Waker>>,
    /// Whether the next read asks the kernel itself.
    look: AtomicBool,
}

impl Meter {
    /// Makes the next read ask the kernel, whether or not the I/O driver has said there is
    /// something. The driver may not have run since it came.
    pub(super) fn look(&self) {
        self.look.store(true, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(super) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    pub(super) fn wake_on_flush(&self, waker: &Waker) {
        let mut waiting = self.on_flush.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    fn count_flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let waiting = {
            let mut waiting = self.on_flush.lock().unwrap_or_else(PoisonError::into_inner);
            mem::take(&mut *waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }
}

/// A TCP socket that counts.
#[derive(Debug)]
pub(super) struct Socket {
    tcp: TcpStream,
    meter: Arc<Meter>,
}

impl Socket {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self {
            tcp,
            meter: Arc::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Returns whether the kernel has bytes, an end or an error that a read would bring. Mostly it has
    /// not, and then no room is made ready for it.
    fn has_something(&self) -> bool {
        let mut room = [MaybeUninit::uninit(); 1];
        match SockRef::from(&self.tcp).peek(&mut room) {
            Ok(_) => true,
            Err(error) => !matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        }
    }

    fn count_read(&self, len: usize) {
        self.meter.read.fetch_add(len as u64, Ordering::Relaxed);
    }

    fn count_written(&self, len: usize) {
        self.meter.written.fetch_add(len as u64, Ordering::Relaxed);
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.meter.look.swap(false, Ordering::Relaxed) && self.has_something() {
            let len = (&*SockRef::from(&self.tcp)).read(buf.initialize_unfilled())?;
            buf.advance(len);
            self.count_read(len);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
        self.count_read(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let len = ready!(Pin::new(&mut self.tcp).poll_write(cx, buf))?;
        self.count_written(len);
        Poll::Ready(Ok(len))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = ready!(Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs))?;
        self.count_written(len);
        Poll::Ready(Ok(len))
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

/// The socket with as many layers of TLS on it as the way to the upstream needs.
#[derive(Debug)]
pub(super) enum Layer {
    Plain(Socket),
    Tls(Box<TlsStream<Self>>),
}

impl Layer {
    fn meter(&self) -> Arc<Meter> {
        match self {
            Self::Plain(socket) => Arc::clone(&socket.meter),
            Self::Tls(stream) => stream.get_ref().0.meter(),
        }
    }

    fn pin(&mut self) -> Pin<&mut dyn Duplex> {
        let inner: &mut dyn Duplex = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &mut **stream,
        };
        Pin::new(inner)
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

impl AsyncRead for Layer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pin().poll_read(cx, buf)
    }
}

impl AsyncWrite for Layer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pin().poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pin().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pin().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pin().poll_shutdown(cx)
    }
}

/// What HTTP is spoken over: the layers, and a count of the times they were empty.
#[derive(Debug)]
pub(super) struct Line {
    layer: Layer,
    meter: Arc<Meter>,
}

impl Line {
    pub(super) fn new(layer: Layer) -> Self {
        let meter = layer.meter();
        Self { layer, meter }
    }

    pub(super) fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.layer).poll_read(cx, buf)
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.layer).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.layer).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.layer.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.layer).poll_flush(cx))?;
        self.meter.count_flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.layer).poll_shutdown(cx)
    }
}
