//! HTTP/1.1 and SSE, as little of them as both ends of a benchmark need.

use std::io;

use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;

/// A connection, whatever it goes through.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {
    fn tcp(&self) -> &TcpStream;
}

impl Duplex for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Duplex for tokio_rustls::client::TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

impl Duplex for tokio_rustls::server::TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

pub(crate) type Socket = Box<dyn Duplex>;

/// A socket and what was read from it and not used.
pub(crate) struct Reading {
    pub(crate) socket: Socket,
    pub(crate) buffer: Vec<u8>,
}

impl Reading {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket,
            buffer: Vec::new(),
        }
    }

    /// Reads more; returns whether there was more.
    pub(crate) async fn more(&mut self) -> io::Result<bool> {
        Ok(self.socket.read_buf(&mut self.buffer).await? > 0)
    }

    /// Returns the head of a message without its blank line; nothing if the peer left before one.
    pub(crate) async fn head(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                let head = self.buffer.drain(..end + 4).collect();
                return String::from_utf8(head).map(Some).map_err(invalid);
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Returns a body of this length.
    pub(crate) async fn exactly(&mut self, len: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < len {
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..len).collect())
    }

    /// Appends the next chunk of a chunked body to `to`; returns whether there was one.
    pub(crate) async fn chunk(&mut self, to: &mut Vec<u8>) -> io::Result<bool> {
        let line = loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n") {
                break end;
            }
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let size = str::from_utf8(&self.buffer[..line]).map_err(invalid)?;
        let size = usize::from_str_radix(size.trim(), 16).map_err(invalid)?;
        let whole = line + 2 + size + 2;
        while self.buffer.len() < whole {
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        to.extend_from_slice(&self.buffer[line + 2..line + 2 + size]);
        self.buffer.drain(..whole);
        Ok(size > 0)
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Returns the value of a header of `head`.
pub(crate) fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Returns the status of a response.
pub(crate) fn status(head: &str) -> Option<u16> {
    head.split(' ').nth(1)?.parse().ok()
}

/// Returns `payload` as a chunk.
pub(crate) fn chunked(payload: &str) -> String {
    format!("{:x}\r\n{payload}\r\n", payload.len())
}

/// Returns an event of a chat completion with this text.
pub(crate) fn frame(text: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\
         \"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\
         \"finish_reason\":null}}]}}\n\n"
    )
}

/// The events that end an answer.
pub(crate) const FINISH: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\
    \"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\
    \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// The head of a stream.
pub(crate) const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    cache-control: no-cache\r\nx-request-id: req-1\r\ntransfer-encoding: chunked\r\n\r\n";
