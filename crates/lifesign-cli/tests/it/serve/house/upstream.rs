//! An upstream that does as it is told, and sees who leaves.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lifesign::clock::now;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::eventually;

/// What an upstream has seen.
#[derive(Default)]
struct Seen {
    accepted: AtomicUsize,
    asked: AtomicUsize,
    open: AtomicUsize,
    left: Mutex<Vec<Instant>>,
    heads: Mutex<Vec<String>>,
}

/// An upstream that plays the same on every connection.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    task: tokio::task::JoinHandle<()>,
}

impl Upstream {
    /// Listens, and plays `play` on each connection.
    pub(crate) async fn start<F>(play: impl Fn(Link) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        Self::start_on(([127, 0, 0, 1], 0).into(), play).await
    }

    pub(crate) async fn start_on<F>(
        address: SocketAddr,
        play: impl Fn(Link) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let of_task = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut plays = tokio::task::JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                of_task.accepted.fetch_add(1, Ordering::SeqCst);
                of_task.open.fetch_add(1, Ordering::SeqCst);
                let link = Link {
                    socket,
                    seen: Arc::clone(&of_task),
                };
                // How a play ends is what the gateway makes of it.
                let play = play(link);
                plays.spawn(async move { drop(play.await) });
                while plays.try_join_next().is_some() {}
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    /// Answers each request with these frames, and keeps the connection until it is closed.
    pub(crate) async fn saying(frames: &'static [&'static str]) -> Self {
        Self::start(move |mut link| async move {
            link.request().await?;
            link.send(STREAM).await?;
            for frame in frames {
                link.send(frame).await?;
            }
            link.left().await
        })
        .await
    }

    /// Takes requests and answers none.
    pub(crate) async fn silent() -> Self {
        Self::start(|mut link| async move {
            link.request().await?;
            link.left().await
        })
        .await
    }

    /// Answers each request with one whole answer.
    pub(crate) async fn answering() -> Self {
        Self::start(|mut link| async move {
            loop {
                let request = link.request().await?;
                if request.contains("\"stream\":true") {
                    let body = format!("{CONTENT}{FINISH}");
                    link.send(&with_length("text/event-stream", &body)).await?;
                } else {
                    link.send(&with_length("application/json", WHOLE)).await?;
                }
            }
        })
        .await
    }

    pub(crate) fn asked(&self) -> usize {
        self.seen.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn accepted(&self) -> usize {
        self.seen.accepted.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.seen.open.load(Ordering::SeqCst)
    }

    /// When each connection was seen to be closed by the gateway.
    pub(crate) fn left(&self) -> Vec<Instant> {
        self.seen.left.lock().unwrap().clone()
    }

    /// The requests, head and body.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.seen.heads.lock().unwrap().clone()
    }

    /// Waits for so many requests.
    pub(crate) async fn is_asked(&self, count: usize) {
        eventually("the upstream is asked", || self.asked() >= count).await;
    }
}

impl Drop for Upstream {
    /// Closes every socket, as the end of a process does.
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection to an upstream, from its side.
pub(crate) struct Link {
    pub(crate) socket: TcpStream,
    seen: Arc<Seen>,
}

impl Link {
    /// Reads one request.
    pub(crate) async fn request(&mut self) -> io::Result<String> {
        let mut read = Vec::new();
        loop {
            if let Some(len) = request_len(&read)
                && read.len() >= len
            {
                break;
            }
            if self.socket.read_buf(&mut read).await? == 0 {
                self.note_left();
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let request = String::from_utf8_lossy(&read).into_owned();
        self.seen.heads.lock().unwrap().push(request.clone());
        self.seen.asked.fetch_add(1, Ordering::SeqCst);
        Ok(request)
    }

    pub(crate) async fn send(&mut self, text: &str) -> io::Result<()> {
        self.socket.write_all(text.as_bytes()).await
    }

    /// Waits until the gateway closes.
    pub(crate) async fn left(&mut self) -> io::Result<()> {
        let mut unread = [0; 1024];
        while matches!(self.socket.read(&mut unread).await, Ok(1..)) {}
        self.note_left();
        Ok(())
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) -> io::Result<()> {
        self.socket.set_zero_linger()
    }

    fn note_left(&self) {
        self.seen.left.lock().unwrap().push(now());
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.seen.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns how long a request is, once its head is there.
fn request_len(read: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(read);
    let head = text.find("\r\n\r\n")? + 4;
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    };
    let len = text.get(..head)?.lines().find_map(field).unwrap_or(0);
    Some(head + len)
}

/// Returns a response that says how long it is.
pub(crate) fn with_length(kind: &str, body: &str) -> String {
    let len = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len}\r\n\r\n{body}")
}

/// Returns a failure of an upstream.
pub(crate) fn failing(status: u16, headers: &str, message: &str) -> String {
    let body = format!(r#"{{"error":{{"message":"{message}","type":"server_error"}}}}"#);
    let len = body.len();
    format!(
        "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\ncontent-length: {len}\r\n\
         {headers}\r\n{body}"
    )
}

/// The head of a stream that ends with its connection.
pub(crate) const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
/// A frame that commits.
pub(crate) const CONTENT: &str =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
/// A frame that does not.
pub(crate) const ROLE: &str =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n";
/// How a stream ends.
pub(crate) const FINISH: &str = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\
    \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
/// A whole answer.
pub(crate) const WHOLE: &str = "{\"id\":\"c\",\"object\":\"chat.completion\",\"model\":\"m\",\
    \"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hi\"},\
    \"finish_reason\":\"stop\"}]}";
