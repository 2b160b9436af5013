//! Servers of a few lines: a listener, and bytes written by hand.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use lifesign::transport::{
    ConnectProgress, Connection, Endpoint, Exchange, ProxyEnv, Step, Transport, TransportConfig,
    TransportError,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A transport that no proxy variable of this machine reaches.
pub(crate) fn transport() -> Transport {
    Transport::new(config()).unwrap()
}

pub(crate) fn config() -> TransportConfig {
    TransportConfig {
        proxy: ProxyEnv::none(),
        ..TransportConfig::default()
    }
}

pub(crate) fn endpoint(url: &str) -> Endpoint {
    Endpoint::parse(&url.parse().unwrap(), false).unwrap()
}

/// A listener on loopback and the endpoint that leads to it.
pub(crate) async fn listen() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let endpoint = endpoint(&url);
    (listener, endpoint)
}

pub(crate) async fn open(transport: &Transport, endpoint: &Endpoint) -> Connection {
    transport
        .open(endpoint, false, &ConnectProgress::new())
        .await
        .unwrap()
}

/// A POST of `body`.
pub(crate) fn post(body: impl Into<Bytes>) -> Request<Bytes> {
    Request::post("/v1/messages").body(body.into()).unwrap()
}

/// Reads one request off the socket and returns it whole.
pub(crate) async fn read_request(socket: &mut TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let wanted: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |len| len.parse().unwrap());
            if body.len() >= wanted {
                return text.into_owned();
            }
        }
        let mut piece = [0; 4096];
        let len = socket.read(&mut piece).await.unwrap();
        assert_ne!(len, 0, "the client left in mid-request");
        request.extend_from_slice(&piece[..len]);
    }
}

/// Accepts a connection and answers its first request with `answer`.
pub(crate) async fn accept_and_answer(listener: &TcpListener, answer: &str) -> TcpStream {
    let (mut socket, _) = listener.accept().await.unwrap();
    read_request(&mut socket).await;
    socket.write_all(answer.as_bytes()).await.unwrap();
    socket
}

/// Returns once the client has closed the connection; its bytes are thrown away.
pub(crate) async fn closed(socket: &mut TcpStream) {
    let mut sink = [0; 4096];
    while matches!(socket.read(&mut sink).await, Ok(len) if len > 0) {}
}

/// Runs the exchange to its end and writes down its steps, leaving out those whose number
/// depends on how the bytes were cut.
pub(crate) async fn steps(exchange: &mut Exchange) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let step = exchange.step().await;
        let done = matches!(step, Ok(Step::End) | Err(_));
        seen.extend(describe(step));
        if done {
            return seen;
        }
    }
}

fn describe(step: Result<Step, TransportError>) -> Option<String> {
    match step {
        Ok(Step::Wrote | Step::Raw) => None,
        Ok(Step::Sent) => Some("sent".to_owned()),
        Ok(Step::Head(head)) => Some(format!("head {}", head.status.as_u16())),
        Ok(Step::Chunk(bytes)) => Some(format!("chunk {}", String::from_utf8_lossy(&bytes))),
        Ok(Step::End) => Some("end".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// Runs the exchange until it says `wanted` (as [`steps`] writes it).
pub(crate) async fn until(exchange: &mut Exchange, wanted: &str) {
    loop {
        let step = describe(exchange.step().await);
        if step.as_deref() == Some(wanted) {
            return;
        }
        assert_ne!(step.as_deref(), Some("end"), "ended before {wanted:?}");
    }
}

/// Gives everything in the runtime `limit` to come to rest in; returns whether `done` held in it.
pub(crate) async fn within(limit: Duration, done: impl Fn() -> bool) -> bool {
    let until = tokio::time::Instant::now() + limit;
    while !done() {
        if tokio::time::Instant::now() > until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    true
}

/// Whether `future` is still pending after `wait`.
pub(crate) async fn pends<F: Future>(wait: Duration, future: F) -> bool {
    let mut future = std::pin::pin!(future);
    let mut sleep = std::pin::pin!(tokio::time::sleep(wait));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(false),
        Poll::Pending => sleep.as_mut().poll(cx).map(|()| true),
    })
    .await
}
