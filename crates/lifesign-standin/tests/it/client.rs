//! A client that shows what crosses the wire.

use std::time::Duration;

use lifesign_standin::Standin;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Longer than anything in these tests takes, so that a hang fails instead.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(standin: &Standin) -> Self {
        Self {
            socket: TcpStream::connect(standin.address()).await.unwrap(),
            read: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    /// Asks for a stream at `path`.
    pub(crate) async fn post(&mut self, path: &str) {
        self.post_body(path, r#"{"model":"m","stream":true}"#).await;
    }

    pub(crate) async fn post_body(&mut self, path: &str, body: &str) {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
        self.send(format!("{head}{body}").as_bytes()).await;
    }

    /// Reads until `mark` has come and returns everything up to and with it.
    pub(crate) async fn until(&mut self, mark: &str) -> String {
        loop {
            let text = String::from_utf8_lossy(&self.read).into_owned();
            if let Some((before, _)) = text.split_once(mark) {
                let end = before.len() + mark.len();
                self.read.drain(..end);
                return text.split_at(end).0.to_owned();
            }
            assert!(
                self.more().await.unwrap(),
                "the end came before {mark:?}: {text:?}"
            );
        }
    }

    /// Reads to the end of the connection.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await.unwrap() {}
        std::mem::take(&mut self.read)
    }

    pub(crate) async fn more(&mut self) -> std::io::Result<bool> {
        tokio::select! {
            len = self.socket.read_buf(&mut self.read) => Ok(len? > 0),
            () = tokio::time::sleep(LIMIT) => panic!("nothing came: {:?}", self.read),
        }
    }

    /// Reads a head and a chunked or counted body.
    pub(crate) async fn response(&mut self) -> (String, Vec<u8>) {
        let head = self.until("\r\n\r\n").await;
        let length = head.split("content-length: ").nth(1);
        let length = length.map(|rest| rest.split("\r\n").next().unwrap().parse().unwrap());
        let mut body = Vec::new();
        if let Some(length) = length {
            self.take(length, &mut body).await;
            return (head, body);
        }
        loop {
            let chunk = self.chunk().await;
            if chunk.is_empty() {
                return (head, body);
            }
            body.extend(chunk);
        }
    }

    /// Reads one chunk of a chunked body, empty at its end.
    pub(crate) async fn chunk(&mut self) -> Vec<u8> {
        let size = self.until("\r\n").await;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = Vec::new();
        self.take(size, &mut chunk).await;
        self.take(2, &mut Vec::new()).await;
        chunk
    }

    async fn take(&mut self, len: usize, into: &mut Vec<u8>) {
        while self.read.len() < len {
            assert!(self.more().await.unwrap(), "the end came too early");
        }
        into.extend(self.read.drain(..len));
    }
}

/// The head and the body of the answer to one streamed chat request.
pub(crate) async fn ask(standin: &Standin) -> (String, String) {
    ask_at(standin, "/v1/chat/completions").await
}

pub(crate) async fn ask_at(standin: &Standin, path: &str) -> (String, String) {
    let mut client = Client::connect(standin).await;
    client.post(path).await;
    let (head, body) = client.response().await;
    (head, String::from_utf8(body).unwrap())
}

pub(crate) async fn play(script: &str) -> Standin {
    Standin::script(script)
        .unwrap()
        .speed(20.0)
        .start()
        .await
        .unwrap()
}
