//! A gateway in this process, a provider before it, and a caller that keeps every byte and when it
//! came.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lifesign::clock;
use lifesign_gateway::config::GatewayConfig;
use lifesign_gateway::{CallEnded, CallStarted, GatewayServer, Record, Records, Stopper};
use lifesign_wire::Wire;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// A gateway that serves until it is dropped.
pub(crate) struct Gate {
    pub(crate) address: SocketAddr,
    pub(crate) stopper: Stopper,
    records: Arc<Kept>,
    served: JoinHandle<()>,
}

/// What a gateway is started with.
pub(crate) struct Setup {
    text: String,
    sets: Vec<String>,
}

#[derive(Default)]
struct Kept(Mutex<Vec<Record>>);

impl Records for Kept {
    fn record(&self, record: &Record) {
        self.0.lock().unwrap().push(record.clone());
    }
}

/// Returns an `[[upstream]]`, with more lines where there are any.
pub(crate) fn upstream(name: &str, wire: Wire, url: &str, more: &str) -> String {
    let wire = wire.name();
    format!("[[upstream]]\nname = \"{name}\"\nwire = \"{wire}\"\nbase_url = \"{url}\"\n{more}\n")
}

impl Setup {
    /// A gateway with these settings. Its own waits are short.
    pub(crate) fn new(text: &str) -> Self {
        let mut setup = Self {
            text: text.to_owned(),
            sets: Vec::new(),
        };
        for tier in ["transport", "cut", "rate", "overload"] {
            setup = setup.set(&format!("retry.{tier}.first_delay=20ms"));
        }
        setup.set("serve.listen=127.0.0.1:0")
    }

    /// Sets something as `--set` does. What is set last counts.
    pub(crate) fn set(mut self, assignment: &str) -> Self {
        let key = assignment.split_once('=').unwrap().0;
        self.sets
            .retain(|set| set.split_once('=').unwrap().0 != key);
        self.sets.push(assignment.to_owned());
        self
    }

    pub(crate) async fn start(self) -> Gate {
        self.start_with(Vec::new()).await
    }

    /// Starts with others who take the records, too.
    pub(crate) async fn start_with(self, mut takers: Vec<Arc<dyn Records>>) -> Gate {
        let read = tokio::task::spawn_blocking(move || self.read());
        let config = read.await.unwrap();
        let records = Arc::new(Kept::default());
        takers.push(Arc::clone(&records) as _);
        let server = GatewayServer::embed(config, Arc::new(takers)).unwrap();
        let address = server.addresses()[0].parse().unwrap();
        let stopper = server.stopper();
        let served = tokio::spawn(async move { server.run().await.unwrap() });
        Gate {
            address,
            stopper,
            records,
            served,
        }
    }

    fn read(&self) -> GatewayConfig {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.toml");
        std::fs::write(&path, &self.text).unwrap();
        GatewayConfig::load(Some(&path), [], &self.sets, &[])
            .unwrap_or_else(|error| panic!("{error}\n{}", self.text))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.served.abort();
    }
}

impl Gate {
    /// Starts with these settings and nothing else.
    pub(crate) async fn start(text: &str) -> Self {
        Setup::new(text).start().await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks, and takes the whole response.
    pub(crate) async fn ask(&self, ask: &Ask) -> Got {
        self.begin(ask).await.rest().await
    }

    /// Asks, and returns as soon as the request is written.
    pub(crate) async fn begin(&self, ask: &Ask) -> Talk {
        Talk::begin(self.address, ask).await
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.0.lock().unwrap().clone()
    }

    /// Returns how the first call began.
    pub(crate) fn first_start(&self) -> CallStarted {
        let records = self.records().into_iter();
        let mut started = records.filter_map(|record| match record {
            Record::Started(started) => Some(started),
            Record::Attempt(_) | Record::Ended(_) => None,
        });
        started.next().unwrap()
    }

    /// Returns how the first `count` calls that ended did so, once they have.
    pub(crate) async fn ended(&self, count: usize) -> Vec<CallEnded> {
        let ended = || -> Vec<_> {
            let records = self.records().into_iter();
            let ended = records.filter_map(|record| match record {
                Record::Ended(ended) => Some(*ended),
                Record::Started(_) | Record::Attempt(_) => None,
            });
            ended.collect()
        };
        wait_until(|| ended().len() >= count).await;
        let ended = ended();
        assert_eq!(ended.len(), count, "more calls ended than were made");
        ended
    }

    /// Returns how the only call ended.
    pub(crate) async fn only_end(&self) -> CallEnded {
        self.ended(1).await.remove(0)
    }

    /// Returns what the admin API says.
    pub(crate) async fn admin(&self, path: &str) -> Value {
        let got = self.ask(&Ask::get(&format!("/lifesign/{path}"))).await;
        assert_eq!(got.status, 200, "{}", got.text());
        got.json()
    }

    /// Waits until the gateway has stopped by itself.
    pub(crate) async fn stopped(&mut self) {
        within(&mut self.served).await.unwrap();
    }
}

/// Waits for something that happens soon.
pub(crate) async fn wait_until(is: impl Fn() -> bool) {
    let until = clock::now() + PATIENCE;
    while !is() {
        assert!(clock::now() < until, "it does not happen");
        sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) async fn sleep(time: Duration) {
    sleep_until(clock::now() + time).await;
}

pub(crate) fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// Waits for what must not take for ever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::select! {
        output = future => output,
        () = sleep(PATIENCE) => panic!("it takes too long"),
    }
}

/// A request.
#[derive(Clone)]
pub(crate) struct Ask {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    /// A call on `wire` that wants a stream.
    pub(crate) fn stream(wire: Wire) -> Self {
        Self::call(wire, true)
    }

    /// A call on `wire` that wants a whole answer.
    pub(crate) fn whole(wire: Wire) -> Self {
        Self::call(wire, false)
    }

    fn call(wire: Wire, is_stream: bool) -> Self {
        let stream = if is_stream { r#","stream":true"# } else { "" };
        let prompt = if wire == Wire::OPENAI_RESPONSES {
            r#""input":"hello""#
        } else if wire == Wire::ANTHROPIC {
            r#""max_tokens":4096,"messages":[{"role":"user","content":"hello"}]"#
        } else {
            r#""messages":[{"role":"user","content":"hello"}]"#
        };
        Self::post(
            &format!("/v1{}", wire.path()),
            format!(r#"{{"model":"m",{prompt}{stream}}}"#),
        )
    }

    pub(crate) fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            method: "POST".to_owned(),
            path: path.to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: body.into(),
        }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self {
            method: "GET".to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Adds to the body, which is a JSON object.
    pub(crate) fn field(mut self, field: &str) -> Self {
        assert_eq!(self.body.pop(), Some(b'}'));
        self.body
            .extend_from_slice(format!(",{field}}}").as_bytes());
        self
    }

    pub(crate) fn model(mut self, model: &str) -> Self {
        let body = String::from_utf8(self.body).unwrap();
        let (named, other) = (format!(r#""model":"{model}""#), r#""model":"m""#);
        assert!(body.contains(other));
        self.body = body.replace(other, &named).into_bytes();
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nhost: 127.0.0.1\r\n",
            self.method, self.path
        );
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        if self.method != "GET" {
            let len = self.body.len().to_string();
            head.extend(["content-length: ", &len, "\r\n"]);
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// A response under way. Dropping it closes the connection.
pub(crate) struct Talk {
    socket: TcpStream,
    began: Instant,
    unread: Vec<u8>,
    got: Got,
    framing: Framing,
    has_head: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Framing {
    Chunked { left: usize },
    Length { left: usize },
    ToEnd,
    Over,
}

/// A response.
#[derive(Debug, Default)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// The body without its framing.
    pub(crate) body: Vec<u8>,
    /// When each piece of the body came, counted from the request.
    pub(crate) pieces: Vec<(Duration, Vec<u8>)>,
    pub(crate) head_at: Duration,
    pub(crate) ended_at: Duration,
    /// Whether the body ended as HTTP says that it does.
    pub(crate) is_whole: bool,
}

impl Talk {
    pub(crate) async fn begin(address: SocketAddr, ask: &Ask) -> Self {
        Self::on(TcpStream::connect(address).await.unwrap(), ask).await
    }

    /// Begins on a connection that takes little before it is read from.
    pub(crate) async fn begin_slow(address: SocketAddr, ask: &Ask) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        Self::on(socket.connect(address).await.unwrap(), ask).await
    }

    async fn on(mut socket: TcpStream, ask: &Ask) -> Self {
        socket.set_nodelay(true).unwrap();
        let began = clock::now();
        socket.write_all(&ask.to_bytes()).await.unwrap();
        Self {
            socket,
            began,
            unread: Vec::new(),
            got: Got::default(),
            framing: Framing::ToEnd,
            has_head: false,
        }
    }

    /// Waits for the head.
    pub(crate) async fn head(&mut self) -> &Got {
        while !self.has_head {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                let head = String::from_utf8(self.unread.drain(..end + 4).collect()).unwrap();
                if !head.starts_with("HTTP/1.1 1") {
                    self.take_head(&head);
                }
            } else {
                assert!(self.read().await > 0, "the connection ended before a head");
            }
        }
        &self.got
    }

    /// Waits for the next piece of the body; there is none behind its end.
    pub(crate) async fn piece(&mut self) -> Option<Vec<u8>> {
        self.head().await;
        loop {
            if let Some(piece) = self.take_piece() {
                let at = clock::now() - self.began;
                self.got.body.extend_from_slice(&piece);
                self.got.pieces.push((at, piece.clone()));
                return Some(piece);
            }
            if self.framing == Framing::Over {
                self.got.is_whole = true;
                self.got.ended_at = clock::now() - self.began;
                return None;
            }
            if self.read().await == 0 {
                self.got.is_whole = self.framing == Framing::ToEnd;
                self.framing = Framing::Over;
                self.got.ended_at = clock::now() - self.began;
                return None;
            }
        }
    }

    /// Waits until the body holds `needle`.
    pub(crate) async fn until(&mut self, needle: &str) {
        while find(&self.got.body, needle.as_bytes()).is_none() {
            let piece = self.piece().await;
            assert!(piece.is_some(), "{needle} never came: {}", self.got.text());
        }
    }

    pub(crate) async fn rest(mut self) -> Got {
        let mut is_over = false;
        while !is_over {
            is_over = self.piece().await.is_none();
        }
        self.got
    }

    async fn read(&mut self) -> usize {
        let mut buffer = vec![0; 64 << 10];
        // A reset is an end, too: the response says whether it was whole.
        let len = within(self.socket.read(&mut buffer)).await.unwrap_or(0);
        self.unread.extend_from_slice(&buffer[..len]);
        len
    }

    fn take_head(&mut self, head: &str) {
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        self.got.status = status.parse().unwrap();
        self.got.headers = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        self.got.head_at = clock::now() - self.began;
        self.has_head = true;
        self.framing = if self.got.header("transfer-encoding") == Some("chunked") {
            Framing::Chunked { left: 0 }
        } else if let Some(len) = self.got.header("content-length") {
            match len.parse().unwrap() {
                0 => Framing::Over,
                left => Framing::Length { left },
            }
        } else {
            Framing::ToEnd
        };
    }

    fn take_piece(&mut self) -> Option<Vec<u8>> {
        let mut piece = Vec::new();
        loop {
            match &mut self.framing {
                Framing::Chunked { left: 0 } => {
                    let Some(end) = find(&self.unread, b"\r\n") else {
                        break;
                    };
                    let line = String::from_utf8(self.unread[..end].to_vec()).unwrap();
                    let len = usize::from_str_radix(&line, 16).unwrap();
                    if len == 0 {
                        if self.unread.len() >= end + 4 {
                            self.framing = Framing::Over;
                        }
                        break;
                    }
                    self.unread.drain(..end + 2);
                    // The line end behind the chunk belongs to it.
                    self.framing = Framing::Chunked { left: len + 2 };
                }
                Framing::Chunked { left } => {
                    let data = left.saturating_sub(2).min(self.unread.len());
                    piece.extend(self.unread.drain(..data));
                    *left -= data;
                    if *left > 2 || self.unread.len() < *left {
                        break;
                    }
                    self.unread.drain(..*left);
                    *left = 0;
                }
                Framing::Length { left } => {
                    let data = (*left).min(self.unread.len());
                    piece.extend(self.unread.drain(..data));
                    *left -= data;
                    if *left == 0 {
                        self.framing = Framing::Over;
                    }
                    break;
                }
                Framing::ToEnd => {
                    piece.append(&mut self.unread);
                    break;
                }
                Framing::Over => break,
            }
        }
        (!piece.is_empty()).then_some(piece)
    }
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Returns the body without the gateway's own comments.
    pub(crate) fn without_beats(&self) -> String {
        let text = self.text();
        let lines = text.split_inclusive('\n');
        lines.filter(|line| !is_beat(line)).collect()
    }

    /// Returns what the gateway's own comments say.
    pub(crate) fn beats(&self) -> Vec<Value> {
        let text = self.text();
        let beats = text.lines().filter(|line| is_beat(line));
        beats
            .map(|line| serde_json::from_str(line.trim_start_matches(": ")).unwrap())
            .collect()
    }

    /// Returns the data of every event, as a plain reader finds it.
    pub(crate) fn data(&self) -> Vec<String> {
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        data.map(|data| data.trim_start().to_owned()).collect()
    }

    /// Returns the data of every event that is JSON.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.data().into_iter().filter(|data| data != "[DONE]");
        data.map(|data| serde_json::from_str(&data).unwrap_or_else(|_| panic!("no JSON: {data}")))
            .collect()
    }

    /// Returns the text of a stream of any wire.
    pub(crate) fn answer(&self) -> String {
        let events = self.events();
        let texts = events.iter().filter_map(|event| {
            event["choices"][0]["delta"]["content"]
                .as_str()
                .or_else(|| event["delta"]["text"].as_str())
                .or_else(|| {
                    event["delta"]
                        .as_str()
                        .filter(|_| event["type"] == "response.output_text.delta")
                })
        });
        texts.collect()
    }

    /// Returns the error frame with which a stream of `wire` ended, if it ended in one and nothing
    /// reads as success.
    #[track_caller]
    pub(crate) fn error_frame(&self, wire: Wire) -> Value {
        let text = self.text();
        let mut data = self.data();
        if wire == Wire::OPENAI_CHAT {
            assert_eq!(data.pop().as_deref(), Some("[DONE]"), "{text}");
        } else {
            assert!(
                text.contains("\nevent: error\n") || text.starts_with("event: error\n"),
                "{text}"
            );
        }
        for success in [
            "[DONE]",
            "message_stop",
            "response.completed",
            r#""finish_reason":""#,
        ] {
            assert!(!data.iter().any(|data| data.contains(success)), "{text}");
        }
        let last: Value = serde_json::from_str(data.last().unwrap()).unwrap();
        if wire != Wire::OPENAI_CHAT {
            assert_eq!(last["type"], "error", "{text}");
        }
        last
    }

    /// Returns the longest time in which nothing came.
    pub(crate) fn longest_gap(&self) -> Duration {
        let times = self.pieces.iter().map(|(at, _)| *at);
        let times: Vec<_> = [Duration::ZERO]
            .into_iter()
            .chain(times)
            .chain([self.ended_at])
            .collect();
        times
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]))
            .max()
            .unwrap()
    }
}

fn is_beat(line: &str) -> bool {
    line.starts_with(r#": {"state":"#)
}

pub(crate) fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
}

/// A provider that writes what it is told to, whatever HTTP says of it, once to each connection.
pub(crate) struct Raw {
    pub(crate) address: SocketAddr,
    plans: Arc<Mutex<VecDeque<Plan>>>,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
    served: JoinHandle<()>,
}

/// Pieces, and how long to wait before each. Behind the last the connection is closed.
pub(crate) type Plan = Vec<(Duration, Vec<u8>)>;

impl Raw {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let plans = Arc::new(Mutex::new(VecDeque::<Plan>::new()));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let served = tokio::spawn({
            let (plans, requests) = (Arc::clone(&plans), Arc::clone(&requests));
            async move {
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    socket.set_nodelay(true).unwrap();
                    let plan = plans.lock().unwrap().pop_front();
                    tokio::spawn(play(
                        socket,
                        plan.unwrap_or_default(),
                        Arc::clone(&requests),
                    ));
                }
            }
        });
        Self {
            address,
            plans,
            requests,
            served,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Says what the next connection gets.
    pub(crate) fn next(&self, plan: Plan) {
        self.plans.lock().unwrap().push_back(plan);
    }

    /// Returns each request as it came, head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let texts = requests.iter().map(|it| String::from_utf8_lossy(it));
        texts.map(Cow::into_owned).collect()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.served.abort();
    }
}

async fn play(mut socket: TcpStream, plan: Plan, requests: Arc<Mutex<Vec<Vec<u8>>>>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !is_whole_request(&request) {
        match socket.read(&mut buffer).await {
            Ok(len) if len > 0 => request.extend_from_slice(&buffer[..len]),
            _ => return,
        }
    }
    requests.lock().unwrap().push(request);
    for (wait, piece) in plan {
        sleep(wait).await;
        if socket.write_all(&piece).await.is_err() {
            return;
        }
    }
}

fn is_whole_request(request: &[u8]) -> bool {
    let Some(end) = find(request, b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
    let len = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .map_or(0, |len| len.trim().parse().unwrap());
    request.len() >= end + 4 + len
}

/// The head of a stream that ends with its connection.
pub(crate) const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);
