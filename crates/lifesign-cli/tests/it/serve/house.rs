//! The gateway as a process, an upstream that does as it is told, and callers with raw sockets.

use std::fmt::Write as _;
use std::fs;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{Either, select};
use lifesign::clock::now;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, sleep_until};

use crate::harness::{Program, Ran, Running};

/// `lifesign serve` on a free port of loopback, with a file of its own.
pub(crate) struct Gateway {
    running: Running,
    pub(crate) address: SocketAddr,
    /// Where the file is, and whatever else a test puts there.
    pub(crate) directory: TempDir,
}

impl Gateway {
    /// Starts a gateway with these settings; where it listens is added to them.
    pub(crate) async fn start(settings: &str) -> Self {
        Self::start_as(settings, |program| program).await
    }

    /// Starts a gateway whose program is prepared by `with`.
    pub(crate) async fn start_as(settings: &str, with: impl FnOnce(Program) -> Program) -> Self {
        let directory = TempDir::new().unwrap();
        write_settings(directory.path(), settings);
        let path = directory.path().join("gateway.toml");
        let program = Program::new(&["serve", "--listen", "127.0.0.1:0", "--config"])
            .args(&[path.as_os_str()])
            .set("telemetry.log=json");
        let running = with(program).start();
        let address = note(&running, "listening on ").await.parse().unwrap();
        Self {
            running,
            address,
            directory,
        }
    }

    /// Replaces the file as an editor does, in one step.
    pub(crate) fn rewrite(&self, settings: &str) {
        write_settings(self.directory.path(), settings);
    }

    pub(crate) fn signal(&self, name: &str) {
        self.running.signal(name);
    }

    /// Asks for a reload, and waits until the log says what came of it.
    pub(crate) async fn reload(&self) -> String {
        let done = ["configuration reloaded", "configuration stays as it was"];
        let count = |log: &str| {
            done.iter()
                .map(|word| log.matches(word).count())
                .sum::<usize>()
        };
        let before = count(&self.log());
        self.signal("HUP");
        eventually("the reload is told", || count(&self.log()) > before).await;
        let log = self.log();
        let mut lines = log.lines().rev();
        let line = lines.find(|line| count(line) > 0).unwrap();
        line.to_owned()
    }

    pub(crate) fn log(&self) -> String {
        self.running.stderr()
    }

    /// Returns every line of the log that says how a call ended.
    pub(crate) fn ends(&self) -> Vec<Value> {
        let log = self.log();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines
            .filter(|line: &Value| line.get("elapsed_ms").is_some())
            .collect()
    }

    /// Waits until so many calls have ended, each once; returns in which words, sorted.
    pub(crate) async fn ended(&self, count: usize) -> Vec<String> {
        eventually("the calls end", || self.ends().len() >= count).await;
        let ends = self.ends();
        let mut ids: Vec<_> = ends.iter().map(|end| end["call"].to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!((ids.len(), ends.len()), (count, count), "{ends:#?}");
        let word = |end: &Value| match end["code"].as_str() {
            Some(code) => code.to_owned(),
            None => end["message"].as_str().unwrap().to_owned(),
        };
        let mut words: Vec<_> = ends.iter().map(word).collect();
        words.sort();
        words
    }

    /// Waits until every worker is there, and counts what the process holds.
    pub(crate) async fn at_rest(&self) -> Holdings {
        let workers = std::thread::available_parallelism().unwrap().get();
        let began = now();
        let mut seen = self.holdings();
        let mut since = now();
        while seen.threads <= workers || since.elapsed() < REST {
            assert!(began.elapsed() < PATIENCE, "no rest: {seen:?}");
            sleep(LOOK).await;
            let holds = self.holdings();
            if holds != seen {
                (seen, since) = (holds, now());
            }
        }
        seen
    }

    fn holdings(&self) -> Holdings {
        let count = |what: &str| {
            let path = format!("/proc/{}/{what}", self.running.id());
            fs::read_dir(path).unwrap().count()
        };
        Holdings {
            descriptors: count("fd"),
            threads: count("task"),
        }
    }

    /// Returns the resident memory of the process in bytes.
    pub(crate) fn memory(&self) -> usize {
        let path = format!("/proc/{}/statm", self.running.id());
        let pages = fs::read_to_string(path).unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    /// Waits until the process holds what it held before, and no call is under way.
    pub(crate) async fn settles(&self, before: &Holdings) {
        let began = now();
        loop {
            let calls = self.admin("GET", "/lifesign/calls").await.json();
            let upstreams = self.admin("GET", "/lifesign/upstreams").await.json();
            let lanes = upstreams["upstreams"].as_array().unwrap();
            let busy = lanes
                .iter()
                .filter(|lane| lane["in_flight"] != 0 || lane["waiting"] != 0)
                .count();
            let after = self.holdings();
            if calls["calls"] == Value::Array(Vec::new()) && busy == 0 && after == *before {
                return;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "left over: {calls} {upstreams} {after:?}, before {before:?}"
            );
            sleep(LOOK).await;
        }
    }

    pub(crate) async fn admin(&self, method: &str, path: &str) -> Response {
        let mut caller = self.connect().await;
        let json = "content-type: application/json\r\nconnection: close\r\n";
        caller.send(&request(method, path, json, "")).await;
        caller.response().await
    }

    pub(crate) async fn connect(&self) -> Caller {
        Caller::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Connects and asks for a chat that streams.
    pub(crate) async fn ask(&self) -> Caller {
        let mut caller = self.connect().await;
        caller.send(&chat("", true)).await;
        caller
    }

    /// Makes one request on a connection of its own.
    pub(crate) async fn response(&self, request: &str) -> Response {
        let mut caller = self.connect().await;
        caller.send(request).await;
        caller.response().await
    }

    /// Ends the process as nobody can object to.
    pub(crate) async fn kill(self) -> TempDir {
        self.running.signal("KILL");
        eventually("the process is gone", || self.running.is_over()).await;
        self.directory
    }

    /// Waits for the end, which a signal was sent for.
    pub(crate) async fn wait(self) -> Ran {
        eventually("the process ends", || self.running.is_over()).await;
        self.running.wait()
    }
}

/// What a process holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Holdings {
    descriptors: usize,
    threads: usize,
}

/// Writes the file of a gateway.
fn write_settings(directory: &Path, settings: &str) {
    let aside = directory.join("aside");
    fs::write(&aside, settings).unwrap();
    fs::rename(aside, directory.join("gateway.toml")).unwrap();
}

/// Returns the settings of one upstream of chats, with `more` in its table.
pub(crate) fn upstream(name: &str, address: SocketAddr, more: &str) -> String {
    format!(
        "[[upstream]]\nname = \"{name}\"\nwire = \"openai-chat\"\nbase_url = \"http://{address}\"\n\
         pool_idle = 0\n{more}\n"
    )
}

/// Waits for a line of standard error.
pub(crate) async fn note(running: &Running, start: &str) -> String {
    let find = || {
        let text = running.stderr();
        let found = text.lines().find_map(|line| line.strip_prefix(start));
        found.map(str::to_owned)
    };
    eventually("standard error", || {
        assert!(
            !running.is_over() || find().is_some(),
            "ended: {}",
            running.stderr()
        );
        find().is_some()
    })
    .await;
    find().unwrap()
}

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

/// Looks again and again; panics where it takes too long.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited too long: {what}");
        sleep(LOOK).await;
    }
}

/// Waits for something that must not take long.
pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    let late = pin!(sleep_until(now() + PATIENCE));
    match select(pin!(future), late).await {
        Either::Left((output, _)) => output,
        Either::Right(_) => panic!("waited too long: {what}"),
    }
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

/// The longest that anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
/// How long nothing changes in a process that has started.
const REST: Duration = Duration::from_millis(100);
