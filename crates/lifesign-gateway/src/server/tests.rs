//! Connections on real sockets.

use std::{
    convert::Infallible,
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
};

use super::*;

mod drain;
mod limits;
mod smuggling;
mod started;
mod tls;

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_on_one_connection() {
    let server = Running::start(ServerLimits::default());
    let mut caller = server.connect().await;
    let post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfirst";

    send(
        &mut caller,
        &[
            post,
            GET,
            "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        ],
    )
    .await;
    let answers = read_to_end(&mut caller).await;

    let bodies: Vec<_> = answers.split("\r\n\r\n").skip(1).collect();
    assert!(bodies[0].starts_with("first"), "{answers}");
    assert!(bodies[2].ends_with("done"), "{answers}");
    assert_eq!(server.service.seen(), ["/echo", "/", "/last"]);
}

#[tokio::test]
async fn a_caller_that_leaves_ends_its_response() {
    let mut server = Running::start(ServerLimits::default());
    let mut caller = server.connect().await;
    send(&mut caller, &["GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"]).await;
    read_until(&mut caller, "begun").await;

    drop(caller);

    let Dropped {
        is_killed,
        is_stalled,
    } = server.dropped().await;
    assert!(!is_killed && !is_stalled);
}

#[tokio::test]
async fn a_call_can_end_its_connection_from_outside() {
    let mut server = Running::start(ServerLimits::default());
    let mut caller = server.connect().await;
    send(&mut caller, &["GET /flood HTTP/1.1\r\nHost: a\r\n\r\n"]).await;
    read_until(&mut caller, "flood").await;
    let peer = server.service.last_peer();

    thread::spawn(move || peer.kill()).join().unwrap();

    assert!(server.dropped().await.is_killed);
    // What was still to be read is lost, and the caller sees that it is.
    assert!(drain_to_end(&mut caller).await.is_err());
}

#[tokio::test]
async fn each_worker_has_a_state_of_its_own() {
    let service = TestService::new();
    let running = Running::start_with(Arc::clone(&service), ServerLimits::default(), None, 3);
    running.ask(GET_CLOSE).await;

    running.drain.begin(Duration::ZERO);
    running.end.await.unwrap().unwrap();

    let mut workers = service.workers.lock().unwrap().clone();
    workers.sort_unstable();
    assert_eq!(workers, [0, 1, 2]);
}

#[tokio::test]
async fn a_unix_socket_is_served_and_its_file_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let server = Server::bind(
        &[ListenOn::Unix(path.clone())],
        Inherited::default(),
        None,
        ServerLimits::default(),
    );
    let server = server.unwrap();
    let drain = server.drain();
    let service = TestService::new();
    let end = tokio::spawn(server.run(Arc::clone(&service), NonZeroUsize::MIN));

    let mut caller = tokio::net::UnixStream::connect(&path).await.unwrap();
    send(&mut caller, &[GET_CLOSE]).await;
    let answer = read_to_end(&mut caller).await;
    drain.begin(Duration::ZERO);
    end.await.unwrap().unwrap();

    assert!(answer.ends_with("done"), "{answer}");
    let peer = service.last_peer();
    assert_eq!((peer.reach(), peer.remote()), (Reach::Unix, None));
    assert!(!path.exists());
}

#[tokio::test]
async fn a_server_that_is_dropped_ends_its_connections() {
    let server = Running::start(ServerLimits::default());
    let mut caller = server.connect().await;
    send(&mut caller, &["GET /deaf HTTP/1.1\r\nHost: a\r\n\r\n"]).await;
    read_until(&mut caller, "begun").await;

    server.end.abort();

    assert_eq!(read_to_end(&mut caller).await, "");
}

#[tokio::test]
async fn workers_that_serve_have_a_pulse() {
    let server = Running::start(ServerLimits::default());
    server.ask(GET_CLOSE).await;

    assert!(server.pulse.is_alive(Duration::from_secs(30)));
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const GET_CLOSE: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// A server that runs beside the test.
struct Running {
    address: SocketAddr,
    drain: Drain,
    pulse: Pulse,
    service: Arc<TestService>,
    end: JoinHandle<Result<(), ServerError>>,
}

impl Running {
    fn start(limits: ServerLimits) -> Self {
        Self::start_with(TestService::new(), limits, None, 1)
    }

    fn start_with(
        service: Arc<TestService>,
        limits: ServerLimits,
        tls: Option<TlsSlot>,
        workers: usize,
    ) -> Self {
        let on = ListenOn::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let server = Server::bind(&[on], Inherited::default(), tls, limits).unwrap();
        let Bound::Tcp(address) = server.bound().remove(0) else {
            panic!("a TCP socket was asked for");
        };
        let (drain, pulse) = (server.drain(), server.pulse());
        let workers = NonZeroUsize::new(workers).unwrap();
        let end = tokio::spawn(server.run(Arc::clone(&service), workers));
        Self {
            address,
            drain,
            pulse,
            service,
            end,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Returns all that is answered until the connection is closed.
    async fn ask(&self, request: &str) -> String {
        let mut caller = self.connect().await;
        send(&mut caller, &[request]).await;
        read_to_end(&mut caller).await
    }

    async fn dropped(&mut self) -> Dropped {
        let dropped = self.service.dropped.1.lock().unwrap().take();
        within(dropped.unwrap().recv()).await.unwrap()
    }
}

/// What a body knew when it was dropped before its end.
#[derive(Debug)]
struct Dropped {
    is_killed: bool,
    is_stalled: bool,
}

struct TestService {
    seen: Mutex<Vec<String>>,
    peers: Mutex<Vec<Arc<Peer>>>,
    workers: Mutex<Vec<usize>>,
    dropped: (
        mpsc::UnboundedSender<Dropped>,
        Mutex<Option<mpsc::UnboundedReceiver<Dropped>>>,
    ),
    /// What lets a stream end.
    finish: Arc<(std::sync::atomic::AtomicBool, AtomicWaker)>,
    drain: Mutex<Option<Drain>>,
}

impl TestService {
    fn new() -> Arc<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        Arc::new(Self {
            seen: Mutex::default(),
            peers: Mutex::default(),
            workers: Mutex::default(),
            dropped: (sender, Mutex::new(Some(receiver))),
            finish: Arc::default(),
            drain: Mutex::default(),
        })
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn last_peer(&self) -> Arc<Peer> {
        Arc::clone(self.peers.lock().unwrap().last().unwrap())
    }

    fn finish(&self) {
        self.finish
            .0
            .store(true, std::sync::atomic::Ordering::Release);
        self.finish.1.wake();
    }

    fn body(&self, kind: Kind, peer: &Arc<Peer>) -> TestBody {
        TestBody {
            kind: Some(kind),
            peer: Some(Arc::clone(peer)),
            dropped: Some(self.dropped.0.clone()),
            finish: Arc::clone(&self.finish),
        }
    }
}

impl Service for TestService {
    type Body = TestBody;
    type Worker = usize;

    fn worker(&self, index: usize) -> usize {
        self.workers.lock().unwrap().push(index);
        index
    }

    async fn call(
        &self,
        _worker: &usize,
        peer: &Arc<Peer>,
        request: Request<Incoming>,
    ) -> Response<TestBody> {
        let path = request.uri().path().to_owned();
        self.seen.lock().unwrap().push(path.clone());
        self.peers.lock().unwrap().push(Arc::clone(peer));
        let body = match request.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => return Response::new(TestBody::of("broken")),
        };
        Response::new(match path.as_str() {
            "/echo" => TestBody::of(body),
            "/flood" => self.body(Kind::Flood, peer),
            "/stream" => self.body(Kind::Stream { is_begun: false }, peer),
            "/deaf" => self.body(Kind::Deaf { is_begun: false }, peer),
            "/drain" => {
                let drain = self.drain.lock().unwrap();
                drain.as_ref().unwrap().begin(Duration::from_secs(5));
                TestBody::of("done")
            }
            _ => TestBody::of("done"),
        })
    }

    fn refuse(&self, _request: &Request<Incoming>, refusal: Refusal) -> Response<TestBody> {
        let mut response = Response::new(TestBody::of(refusal.message.into_owned()));
        *response.status_mut() = refusal.status;
        response
    }
}

struct TestBody {
    /// Nothing once it has ended.
    kind: Option<Kind>,
    peer: Option<Arc<Peer>>,
    dropped: Option<mpsc::UnboundedSender<Dropped>>,
    finish: Arc<(std::sync::atomic::AtomicBool, AtomicWaker)>,
}

/// A piece of a flood, which begins with a word to wait for.
const FLOOD: [u8; 16 << 10] = {
    let mut flood = [b'~'; 16 << 10];
    flood.split_at_mut(5).0.copy_from_slice(b"flood");
    flood
};

enum Kind {
    Whole(Bytes),
    /// As much as is read.
    Flood,
    /// Something, and the end when it is told to finish or when the drain ends it.
    Stream {
        is_begun: bool,
    },
    /// The same without an end.
    Deaf {
        is_begun: bool,
    },
}

impl TestBody {
    fn of(bytes: impl Into<Bytes>) -> Self {
        Self {
            kind: Some(Kind::Whole(bytes.into())),
            peer: None,
            dropped: None,
            finish: Arc::default(),
        }
    }
}

impl Body for TestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let data = |bytes: Bytes| Poll::Ready(Some(Ok(Frame::data(bytes))));
        match &mut this.kind {
            None => Poll::Ready(None),
            Some(Kind::Whole(bytes)) => {
                let bytes = std::mem::take(bytes);
                this.kind = None;
                data(bytes)
            }
            Some(Kind::Flood) => data(Bytes::from_static(&FLOOD)),
            Some(Kind::Stream { is_begun } | Kind::Deaf { is_begun }) if !*is_begun => {
                *is_begun = true;
                data(Bytes::from_static(b"begun\n"))
            }
            Some(Kind::Deaf { .. }) => Poll::Pending,
            Some(Kind::Stream { .. }) => {
                this.finish.1.register(cx.waker());
                let is_ending = this.peer.as_ref().unwrap().stage() >= Stage::Ending;
                let last = if is_ending {
                    "ended"
                } else if this.finish.0.load(std::sync::atomic::Ordering::Acquire) {
                    "finished"
                } else {
                    return Poll::Pending;
                };
                this.kind = None;
                data(Bytes::from_static(last.as_bytes()))
            }
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match &self.kind {
            Some(Kind::Whole(bytes)) => http_body::SizeHint::with_exact(bytes.len() as u64),
            _ => http_body::SizeHint::default(),
        }
    }
}

impl Drop for TestBody {
    fn drop(&mut self) {
        if let (Some(_), Some(peer), Some(dropped)) = (&self.kind, &self.peer, &self.dropped) {
            // The test may be over.
            let _unheard = dropped.send(Dropped {
                is_killed: peer.is_killed(),
                is_stalled: peer.is_stalled(),
            });
        }
    }
}

async fn send(socket: &mut (impl AsyncWrite + Unpin), pieces: &[&str]) {
    socket.write_all(pieces.concat().as_bytes()).await.unwrap();
}

/// Returns all that comes until the end; a reset is an end too.
async fn read_to_end(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    // What came before a reset counts.
    let _reset = within(socket.read_to_end(&mut read)).await;
    String::from_utf8_lossy(&read).into_owned()
}

/// Reads to the end, which may be a reset.
async fn drain_to_end(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<u64> {
    within(tokio::io::copy(socket, &mut tokio::io::sink())).await
}

async fn read_until(socket: &mut (impl AsyncRead + Unpin), mark: &str) -> String {
    let mut read = String::new();
    let mut buffer = [0; 4096];
    while !read.contains(mark) {
        let len = within(socket.read(&mut buffer)).await.unwrap();
        assert_ne!(len, 0, "ended after {read:?}");
        read.push_str(&String::from_utf8_lossy(&buffer[..len]));
    }
    read
}

/// Bounds what would otherwise hang a test that fails.
async fn within<F: Future>(future: F) -> F::Output {
    let late = std::pin::pin!(tokio::time::sleep(Duration::from_secs(20)));
    match future::select(std::pin::pin!(future), late).await {
        Either::Left((output, _)) => output,
        Either::Right(_) => panic!("nothing within 20 s"),
    }
}
