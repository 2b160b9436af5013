//! What a whole streamed call costs through the client, next to the same bytes through bare hyper.
//!
//! The server is this program again in a process of its own. Both clients run on one thread and
//! keep their connection.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use http::header::HOST;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use lifesign::{CallEvent, CallRequest, Client, Upstream, clock};
use lifesign_wire::{Request, Wire};
use tokio::runtime::{Builder, Runtime};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve();
    }
    let server = Server::start()?;
    let mut criterion = Criterion::default().configure_from_args();
    let mut clients = Clients::new(&server.address)?;
    start(&mut criterion, &clients);
    let mut group = criterion.benchmark_group("call");
    for pace in [Pace::Whole, Pace::Burst] {
        compare(
            &mut group,
            pace.name(),
            pace,
            &mut clients,
            |calls, call| {
                let began = clock::now();
                for _ in 0..calls {
                    call();
                }
                began.elapsed()
            },
        );
    }
    // Paced calls take their time, and nearly none of it on the processor.
    group.sample_size(10);
    let first = |calls, call: &mut dyn FnMut() -> Duration| (0..calls).map(|_| call()).sum();
    compare(&mut group, "first_chunk", Pace::Paced, &mut clients, first);
    for pace in [Pace::Whole, Pace::Paced] {
        if cpu().is_none() {
            break;
        }
        let name = format!("cpu_per_chunk/{}", pace.name());
        compare(&mut group, &name, pace, &mut clients, |calls, call| {
            let before = cpu().unwrap_or_default();
            for _ in 0..calls {
                call();
            }
            cpu().unwrap_or_default().saturating_sub(before) / CHUNKS
        });
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}

/// What a call costs before anything is sent: settings, body, headers.
fn start(criterion: &mut Criterion, clients: &Clients) {
    let upstream = &clients.upstreams[Pace::Whole as usize];
    criterion.bench_function("start", |b| {
        b.iter(|| clients.client.stream(request(upstream)));
    });
}

/// Measures both clients with `measure`, which makes the number of calls that it is given.
///
/// A call returns the time to its first content.
fn compare(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    pace: Pace,
    clients: &mut Clients,
    measure: impl Fn(u64, &mut dyn FnMut() -> Duration) -> Duration,
) {
    let Clients {
        runtime,
        client,
        upstreams,
        hyper,
    } = clients;
    let upstream = &upstreams[pace as usize];
    group.bench_function(format!("{name}/lifesign"), |b| {
        b.iter_custom(|calls| {
            measure(calls, &mut || {
                checked(runtime.block_on(call(client, upstream)))
            })
        });
    });
    let path = format!("/{}/v1/chat/completions", pace.name());
    group.bench_function(format!("{name}/hyper"), |b| {
        b.iter_custom(|calls| {
            measure(calls, &mut || {
                checked(runtime.block_on(bare_call(hyper, &path)))
            })
        });
    });
}

struct Clients {
    runtime: Runtime,
    client: Client,
    upstreams: Vec<Arc<Upstream>>,
    hyper: SendRequest<Full<Bytes>>,
}

impl Clients {
    fn new(address: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let upstream = |pace: Pace| {
            let url = format!("http://{address}/{}", pace.name());
            Upstream::new(Wire::OPENAI_CHAT, &url).map(Arc::new)
        };
        let upstreams = Pace::ALL.map(upstream);
        let hyper = runtime.block_on(async {
            let socket = tokio::net::TcpStream::connect(address).await?;
            let (sender, connection) = handshake(TokioIo::new(socket)).await?;
            tokio::spawn(connection);
            Ok::<_, Box<dyn Error + Send + Sync>>(sender)
        })?;
        Ok(Self {
            client: Client::new()?,
            upstreams: upstreams
                .into_iter()
                .collect::<std::result::Result<_, _>>()?,
            runtime,
            hyper,
        })
    }
}

/// What a call brought: the time to the first content, and the length of all content or bytes.
struct Brought {
    first: Duration,
    len: usize,
    least: usize,
}

fn checked(brought: Result<Brought>) -> Duration {
    match brought {
        Ok(Brought { first, len, least }) => {
            assert!(len >= least, "{len} bytes came of at least {least}");
            first
        }
        Err(error) => {
            assert!(error.to_string().is_empty(), "a call failed: {error}");
            Duration::ZERO
        }
    }
}

async fn call(client: &Client, upstream: &Arc<Upstream>) -> Result<Brought> {
    let began = clock::now();
    let (mut first, mut len) = (None, 0);
    let mut stream = client.stream(request(upstream));
    while let Some(item) = stream.next().await {
        match item? {
            CallEvent::Text(text) => {
                first.get_or_insert_with(|| began.elapsed());
                len += text.len();
            }
            CallEvent::Finished(_) => break,
            _ => {}
        }
    }
    Ok(Brought {
        first: first.ok_or("a call brought no text")?,
        len,
        least: TEXT.len() * CHUNKS as usize,
    })
}

fn request(upstream: &Arc<Upstream>) -> CallRequest {
    CallRequest::new(Arc::clone(upstream), Request::prompt("m", "Hello"))
}

async fn bare_call(hyper: &mut SendRequest<Full<Bytes>>, path: &str) -> Result<Brought> {
    let began = clock::now();
    let (mut first, mut len) = (None, 0);
    hyper.ready().await?;
    let body = Full::new(Bytes::from_static(BARE_REQUEST.as_bytes()));
    let request = http::Request::post(path)
        .header(HOST, "localhost")
        .body(body)?;
    let mut body = hyper.send_request(request).await?.into_body();
    while let Some(frame) = body.frame().await {
        first.get_or_insert_with(|| began.elapsed());
        len += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok(Brought {
        first: first.ok_or("a call brought no body")?,
        len,
        least: (TEXT.len() + CHUNK_HEAD.len() + CHUNK_TAIL.len()) * CHUNKS as usize,
    })
}

/// Returns the time that this thread has spent on a processor, where the system counts it.
fn cpu() -> Option<Duration> {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = counted.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// How the server sends its chunks.
#[derive(Clone, Copy)]
enum Pace {
    /// All in one write.
    Whole,
    /// A write each, one after the other.
    Burst,
    /// A write each with time in between, as a model does, so that each costs a wake-up.
    Paced,
}

impl Pace {
    const ALL: [Self; 3] = [Self::Whole, Self::Burst, Self::Paced];

    const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Burst => "burst",
            Self::Paced => "paced",
        }
    }
}

/// The server's process.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut address)?;
        }
        let address = address.trim().to_owned();
        Ok(Self { child, address })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

#[expect(clippy::print_stdout, reason = "tells where it listens")]
fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    for socket in listener.incoming() {
        let socket = socket?;
        thread::spawn(move || answer(socket));
    }
    Ok(())
}

/// Answers every request on `socket` alike, at the pace that its path names.
fn answer(mut socket: TcpStream) -> Result<()> {
    socket.set_nodelay(true)?;
    let chunk = |data: &str| format!("{:x}\r\n{data}\r\n", data.len());
    let delta = chunk(&format!("{CHUNK_HEAD}{TEXT}{CHUNK_TAIL}"));
    let whole = [
        HEAD,
        &delta.repeat(CHUNKS as usize),
        &chunk(FINISH),
        &chunk(DONE),
        "0\r\n\r\n",
    ]
    .concat();
    let mut reader = BufReader::new(socket.try_clone()?);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if path.is_empty() {
                path = line;
            }
        }
        reader.read_exact(&mut vec![0; length])?;
        if path.contains("/whole/") {
            socket.write_all(whole.as_bytes())?;
            continue;
        }
        socket.write_all(HEAD.as_bytes())?;
        for _ in 0..CHUNKS {
            socket.write_all(delta.as_bytes())?;
            if path.contains("/paced/") {
                thread::sleep(BETWEEN);
            }
        }
        let end = [&chunk(FINISH), &chunk(DONE), "0\r\n\r\n"].concat();
        socket.write_all(end.as_bytes())?;
    }
}

const CHUNKS: u32 = 200;
const BETWEEN: Duration = Duration::from_micros(500);

const BARE_REQUEST: &str =
    r#"{"model":"m","messages":[{"role":"user","content":"Hello"}],"stream":true}"#;
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
const CHUNK_HEAD: &str = r#"data: {"id":"chatcmpl-B0J7p1yWkF7m3h2x9Qd4s8LzTnVc5","object":"chat.completion.chunk","created":1735689600,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_0aa8d3e20b","choices":[{"index":0,"delta":{"content":""#;
const TEXT: &str = " token";
const CHUNK_TAIL: &str = "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
const FINISH: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
