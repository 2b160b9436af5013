//! The load: callers that keep their connection and read what comes.

use std::io;
use std::net::SocketAddr;

use lifesign::clock;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::tls;
use crate::wire::{Reading, header, status};

/// Where callers go, and how.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsConnector>,
}

/// A caller with an open connection.
pub(crate) struct Caller {
    reading: Reading,
    body: Vec<u8>,
}

impl Way {
    pub(crate) async fn open(&self) -> io::Result<Caller> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let reading = match &self.tls {
            None => Reading::new(Box::new(socket)),
            Some(tls) => Reading::new(Box::new(tls.connect(tls::name(), socket).await?)),
        };
        Ok(Caller {
            reading,
            body: Vec::new(),
        })
    }
}

impl Caller {
    /// Sends a request for a stream of `model`.
    pub(crate) async fn ask(&mut self, model: &str) -> io::Result<()> {
        let body = format!(
            "{{\"model\":\"{model}\",\"stream\":true,\
             \"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}"
        );
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n\
             user-agent: bench/1\r\naccept: application/json\r\nauthorization: Bearer sk-1\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.body.clear();
        self.reading.socket.write_all(request.as_bytes()).await
    }

    /// Reads the head of the response, which has to be a success.
    pub(crate) async fn head(&mut self) -> io::Result<String> {
        let head = self.any_head().await?;
        match status(&head) {
            Some(200) => Ok(head),
            _ => Err(io::Error::other(format!("the response is {head}"))),
        }
    }

    /// Reads the head of the response.
    pub(crate) async fn any_head(&mut self) -> io::Result<String> {
        let head = self.reading.head().await?;
        head.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads the next piece of the body; nothing at its end.
    pub(crate) async fn piece(&mut self) -> io::Result<Option<&[u8]>> {
        self.body.clear();
        let more = self.reading.chunk(&mut self.body).await?;
        Ok(more.then_some(&self.body[..]))
    }

    /// Reads a body of this length.
    pub(crate) async fn exactly(&mut self, len: usize) -> io::Result<Vec<u8>> {
        self.reading.exactly(len).await
    }

    /// Asks for a page of the gateway's.
    pub(crate) async fn get(&mut self, path: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.reading.socket.write_all(request.as_bytes()).await
    }

    /// Asks the gateway how many calls are under way.
    pub(crate) async fn calls_under_way(&mut self) -> crate::Result<u64> {
        self.get("/readyz").await?;
        let head = self.head().await?;
        let len = header(&head, "content-length").ok_or("there is no length")?;
        let body = self.exactly(len.parse()?).await?;
        let body: serde_json::Value = serde_json::from_slice(&body)?;
        Ok(body["calls"].as_u64().ok_or("there are no calls")?)
    }

    /// Makes a whole call; returns when its first piece came and how many frames there were.
    pub(crate) async fn call(&mut self, model: &str) -> io::Result<(Instant, usize)> {
        self.ask(model).await?;
        self.head().await?;
        let (mut first, mut frames) = (None, 0);
        while let Some(piece) = self.piece().await? {
            first.get_or_insert_with(clock::now);
            frames += memchr::memmem::find_iter(piece, b"data:").count();
        }
        let first = first.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((first, frames))
    }
}
