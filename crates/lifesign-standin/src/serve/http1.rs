//! HTTP/1.1 by hand, so that it can also be wrong.

use std::{future::poll_fn, io, pin::Pin, sync::Arc, task::ready, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
    time::Instant,
};
use tokio_rustls::server::TlsStream;

use super::{
    Shared,
    play::{self, Gone, Head, Peer, Place, SETTLE},
};
use crate::{
    dialect::Asked,
    log::{End, Request},
    script::Length,
};

/// A connection that can be torn down.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {
    fn tcp(&self) -> &TcpStream;
}

impl Socket for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Socket for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Answers the requests of one connection, of which `inbox` was already read.
pub(crate) async fn serve<S: Socket>(
    shared: &Arc<Shared>,
    socket: S,
    inbox: Vec<u8>,
    connection: u64,
) {
    let mut wire = Wire { socket, inbox };
    let mut number = 0;
    loop {
        number += 1;
        let Ok(Some(head)) = RequestHead::read(&mut wire).await else {
            break;
        };
        let plan = shared.plan(&head.path);
        let Some(section) = plan.section() else { break };
        let body = if section.begins_unread() {
            Vec::new()
        } else {
            match head.read_body(&mut wire).await {
                Ok(body) => body,
                Err(_) => break,
            }
        };
        let asked = Asked::of_body(&body);
        let place = Place {
            dialect: shared.dialect(&head.path),
            serial: plan.serial,
            is_request: !body.is_empty(),
        };
        let is_closing = head.is_closing();
        let is_head = head.method == "HEAD";
        let mut ticket = shared.log.request(Request {
            connection,
            on_connection: number,
            attempt: plan.attempt,
            method: head.method,
            path: head.path,
            http2: false,
            headers: head.headers,
            body: Bytes::from(body),
            at: Duration::ZERO,
            status: None,
            writes: Vec::new(),
            ended: None,
            peer_closed: None,
        });
        wire.inbox.shrink_to_fit();
        let mut exchange = Exchange {
            wire: &mut wire,
            framing: Framing::None,
            is_closing,
            is_head,
            is_reading: !section.begins_unread(),
        };
        let end = play::play(shared, section, &asked, place, &mut exchange, &mut ticket).await;
        let is_closing = exchange.is_closing;
        match end {
            End::Eof if !is_closing => {}
            End::Eof => {
                // The peer reads the end of the body as the end of the connection. One that has
                // left has read its end already.
                let _lost = wire.socket.shutdown().await;
                wire.until_closed().await;
                break;
            }
            End::PeerLeft => break,
            End::Cut | End::Reset | End::Stopped => return,
        }
    }
    shared.log.peer_closed(connection);
}

/// The socket and what was read from it beyond the request at hand.
struct Wire<S> {
    socket: S,
    inbox: Vec<u8>,
}

impl<S: Socket> Wire<S> {
    async fn fill(&mut self) -> io::Result<bool> {
        fill(&mut self.socket, &mut self.inbox).await
    }

    /// Takes the bytes up to and without `mark`, or `None` at the end.
    async fn take_until(&mut self, mark: &[u8], most: usize) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            let found = self
                .inbox
                .get(searched..)
                .and_then(|bytes| find(bytes, mark));
            if let Some(found) = found {
                let end = searched + found;
                let taken = self.inbox.drain(..end + mark.len()).take(end).collect();
                return Ok(Some(taken));
            }
            searched = self.inbox.len().saturating_sub(mark.len());
            if self.inbox.len() > most {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    async fn take(&mut self, len: usize) -> io::Result<Vec<u8>> {
        if len > MOST_BODY {
            return Err(io::ErrorKind::InvalidData.into());
        }
        while self.inbox.len() < len {
            if !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.inbox.drain(..len).collect())
    }

    /// Reads and forgets until the peer closes.
    async fn until_closed(&mut self) {
        while matches!(self.fill().await, Ok(true)) {
            self.inbox.clear();
        }
    }
}

struct RequestHead {
    method: String,
    path: String,
    is_old: bool,
    headers: Vec<(String, String)>,
}

impl RequestHead {
    async fn read<S: Socket>(wire: &mut Wire<S>) -> io::Result<Option<Self>> {
        let Some(head) = wire.take_until(b"\r\n\r\n", MOST_HEAD).await? else {
            return Ok(None);
        };
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next())
        else {
            let refusal = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            wire.socket.write_all(refusal).await?;
            return Err(io::ErrorKind::InvalidData.into());
        };
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Ok(Some(Self {
            method: method.to_owned(),
            path: path.to_owned(),
            is_old: version == "HTTP/1.0",
            headers,
        }))
    }

    async fn read_body<S: Socket>(&self, wire: &mut Wire<S>) -> io::Result<Vec<u8>> {
        if self.says("expect", "100-continue") {
            wire.socket
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                .await?;
        }
        if !self.says("transfer-encoding", "chunked") {
            let len = self
                .header("content-length")
                .and_then(|len| len.parse().ok());
            return wire.take(len.unwrap_or(0)).await;
        }
        let mut body = Vec::new();
        loop {
            let line = wire.take_until(b"\r\n", MOST_HEAD).await?;
            let line = line.ok_or(io::ErrorKind::UnexpectedEof)?;
            let size = String::from_utf8_lossy(&line);
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16);
            let size = size.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            if size == 0 {
                break;
            }
            if body.len().saturating_add(size) > MOST_BODY {
                return Err(io::ErrorKind::InvalidData.into());
            }
            body.extend(wire.take(size).await?);
            wire.take(2).await?;
        }
        // Trailers, up to the empty line.
        while wire
            .take_until(b"\r\n", MOST_HEAD)
            .await?
            .is_some_and(|line| !line.is_empty())
        {}
        Ok(body)
    }

    fn is_closing(&self) -> bool {
        self.says("connection", "close") || (self.is_old && !self.says("connection", "keep-alive"))
    }

    fn says(&self, name: &str, value: &str) -> bool {
        self.header(name)
            .is_some_and(|given| given.to_ascii_lowercase().contains(value))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(given, _)| given == name)
            .map(|(_, value)| value.as_str())
    }
}

/// One response.
struct Exchange<'a, S> {
    wire: &'a mut Wire<S>,
    framing: Framing,
    /// Whether the connection ends with this response.
    is_closing: bool,
    is_head: bool,
    /// Whether the socket is read while waiting, which is how a peer's leaving is noticed.
    is_reading: bool,
}

/// How the body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Chunked,
    /// So many bytes are still owed.
    Counted(u64),
    /// As it comes; no body was announced, or only the end of the connection ends it.
    None,
}

impl<S: Socket> Exchange<'_, S> {
    async fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let socket = &mut self.wire.socket;
        socket.write_all(bytes).await.map_err(|_| Gone)?;
        socket.flush().await.map_err(|_| Gone)
    }
}

impl<S: Socket> Peer for Exchange<'_, S> {
    async fn head(&mut self, head: Head) -> Result<(), Gone> {
        let reason = http::StatusCode::from_u16(head.status).ok();
        let reason = reason
            .and_then(|status| status.canonical_reason())
            .unwrap_or(OVERLOADED);
        let mut text = format!("HTTP/1.1 {} {reason}\r\n", head.status);
        for (name, value) in &head.headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        let said = |name: &str| head.headers.iter().find(|(given, _)| given == name);
        if said("connection").is_some_and(|(_, value)| value.eq_ignore_ascii_case("close")) {
            self.is_closing = true;
        }
        if head.status >= 200 {
            let has_body = !self.is_head && head.status != 204 && head.status != 304;
            let counted = said("content-length").and_then(|(_, value)| value.parse().ok());
            self.framing = match (counted, head.length) {
                _ if !has_body => Framing::None,
                (Some(len), _) => Framing::Counted(len),
                (None, Some(Length::Bytes(len))) => {
                    text.extend(["content-length: ", &len.to_string(), "\r\n"]);
                    Framing::Counted(len)
                }
                (None, None) if said("transfer-encoding").is_none() => {
                    text.push_str("transfer-encoding: chunked\r\n");
                    Framing::Chunked
                }
                (None, _) => {
                    self.is_closing = true;
                    Framing::None
                }
            };
            if self.is_closing && said("connection").is_none() {
                text.push_str("connection: close\r\n");
            }
        }
        text.push_str("\r\n");
        self.send(text.as_bytes()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        if self.is_head {
            return Ok(());
        }
        match &mut self.framing {
            Framing::Chunked => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(bytes);
                chunk.extend_from_slice(b"\r\n");
                self.send(&chunk).await
            }
            Framing::Counted(left) => {
                *left = left.saturating_sub(bytes.len() as u64);
                self.send(bytes).await
            }
            Framing::None => self.send(bytes).await,
        }
    }

    async fn raw(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        // Whatever was announced, only the end of the connection ends this.
        self.framing = Framing::None;
        self.is_closing = true;
        self.send(bytes).await
    }

    async fn finish(&mut self) -> Result<(), Gone> {
        match self.framing {
            Framing::Chunked => self.send(b"0\r\n\r\n").await,
            Framing::Counted(0) | Framing::None => Ok(()),
            Framing::Counted(_) => {
                self.is_closing = true;
                Ok(())
            }
        }
    }

    async fn go_away(&mut self, code: Option<u32>) -> Result<(), Gone> {
        self.is_closing = true;
        if code.is_some() {
            self.cut().await;
        }
        Ok(())
    }

    async fn cut(&mut self) {
        // A socket closed with bytes unread would reset instead.
        self.wire.inbox.clear();
        // It is lost where the peer has left, and the close follows either way.
        let _lost = self.wire.socket.flush().await;
    }

    async fn reset(&mut self, _code: u32) {
        // A reset overtakes and discards what was written before it.
        tokio::time::sleep(SETTLE).await;
        // The close that follows sends RST instead of FIN.
        if let Err(error) = self.wire.socket.tcp().set_zero_linger() {
            tracing::debug!(%error, "cannot reset the connection");
        }
    }

    async fn idle(&mut self, until: Option<Instant>) -> Result<(), Gone> {
        let wait = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        if !self.is_reading {
            wait.await;
            return Ok(());
        }
        let mut wait = std::pin::pin!(wait);
        loop {
            // A peer that sends ahead is let wait once it has sent enough.
            let is_reading = self.wire.inbox.len() < MOST_HEAD;
            tokio::select! {
                biased;
                more = self.wire.fill(), if is_reading => {
                    if !matches!(more, Ok(true)) {
                        return Err(Gone);
                    }
                }
                () = &mut wait => return Ok(()),
            }
        }
    }
}

/// Reads some more; `false` at the end. No buffer is held while it waits.
pub(crate) async fn fill<S: Socket>(socket: &mut S, inbox: &mut Vec<u8>) -> io::Result<bool> {
    poll_fn(|context| {
        let mut room = [0; 4096];
        let mut buffer = ReadBuf::new(&mut room);
        ready!(Pin::new(&mut *socket).poll_read(context, &mut buffer))?;
        inbox.extend_from_slice(buffer.filled());
        Ok(!buffer.filled().is_empty()).into()
    })
    .await
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

const MOST_BODY: usize = 256 << 20;
const MOST_HEAD: usize = 256 << 10;
/// What providers mean by 529, which no standard names.
const OVERLOADED: &str = "Overloaded";
