//! Callers with raw sockets, and what they send and get.

use std::fmt::Write as _;
use std::io;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::within;

/// One connection to the gateway, from its caller's side.
pub(crate) struct Caller<S = TcpStream> {
    pub(crate) socket: S,
    pub(crate) read: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Caller<S> {
    pub(crate) fn new(socket: S) -> Self {
        Self {
            socket,
            read: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until `mark` is there.
    pub(crate) async fn until(&mut self, mark: &str) {
        let reading = async {
            loop {
                if String::from_utf8_lossy(&self.read).contains(mark) {
                    return;
                }
                let len = self.socket.read_buf(&mut self.read).await.unwrap();
                let read = || String::from_utf8_lossy(&self.read);
                assert!(len > 0, "no `{mark}` in {:?}", read());
            }
        };
        within(mark, reading).await;
    }

    /// Reads to the end of the connection; tells a reset as an error.
    pub(crate) async fn read_to_end(&mut self) -> io::Result<String> {
        let reading = async {
            while self.socket.read_buf(&mut self.read).await? > 0 {}
            io::Result::Ok(())
        };
        within("the end of a connection", reading).await?;
        Ok(String::from_utf8_lossy(&self.read).into_owned())
    }

    /// Reads one response to its end.
    pub(crate) async fn response(&mut self) -> Response {
        let reading = async {
            loop {
                if let Some((response, len)) = Response::parse(&self.read) {
                    self.read.drain(..len);
                    return response;
                }
                let read = self.socket.read_buf(&mut self.read).await;
                let is_over = matches!(read, Ok(0) | Err(_));
                assert!(
                    !is_over,
                    "{read:?} after {:?}",
                    String::from_utf8_lossy(&self.read)
                );
            }
        };
        within("a response", reading).await
    }
}

/// What a caller got.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Response {
    /// Reads a response that is whole; returns how many bytes it has.
    fn parse(read: &[u8]) -> Option<(Self, usize)> {
        let text = String::from_utf8_lossy(read);
        let (head, rest) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let mut response = Self {
            status,
            head: head.to_owned(),
            body: String::new(),
        };
        let head_len = head.len() + 4;
        if let Some(len) = response.header("content-length") {
            let len: usize = len.parse().ok()?;
            response.body = rest.get(..len)?.to_owned();
            return Some((response, head_len + len));
        }
        let mut left = rest;
        loop {
            let (size, after) = left.split_once("\r\n")?;
            let len = usize::from_str_radix(size, 16).ok()?;
            response.body.push_str(after.get(..len)?);
            left = after.get(len..)?.strip_prefix("\r\n")?;
            if len == 0 {
                let len = head_len + (rest.len() - left.len());
                return Some((response, len));
            }
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            (known == name).then_some(value)
        })
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts that this is a refusal in the words of openai-chat; returns its message.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let body = self.json();
        assert!(body["error"]["type"].is_string(), "{self:?}");
        body["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// Returns a request with the `Host` that a program on this machine sends.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}");
    if !body.is_empty() {
        write!(request, "content-length: {}\r\n", body.len()).unwrap();
    }
    request.push_str("\r\n");
    request.push_str(body);
    request
}

/// Returns the request of a chat with the model `m`.
pub(crate) fn chat(headers: &str, streamed: bool) -> String {
    chat_of("m", headers, streamed)
}

/// Returns the request of a chat with a model.
pub(crate) fn chat_of(model: &str, headers: &str, streamed: bool) -> String {
    let body = format!(
        r#"{{"model":"{model}","stream":{streamed},"messages":[{{"role":"user","content":"hi"}}]}}"#
    );
    let headers = format!("content-type: application/json\r\n{headers}");
    request("POST", "/v1/chat/completions", &headers, &body)
}
