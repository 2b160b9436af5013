//! The provider: a thread of its own that plays what the model's name asks for.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lifesign::clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, interval_at, sleep};
use tokio_rustls::TlsAcceptor;

use crate::Result;
use crate::soak::{self, Part};
use crate::wire::{FINISH, Reading, STREAM_HEAD, chunked, frame, header};

/// A provider that listens.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// When callers were seen to leave silent streams.
    left: Vec<Instant>,
    /// How many attempts each part of a soak has had.
    attempts: HashMap<String, u32>,
}

impl Upstream {
    /// Starts a provider; in the clear unless `tls` says how.
    pub(crate) fn start(tls: Option<TlsAcceptor>) -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let seen = Arc::<Mutex<Seen>>::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let play = Arc::clone(&seen);
        std::thread::spawn(move || runtime.block_on(accept(listener, tls, play)));
        Ok(Self { address, seen })
    }

    /// Returns when callers were seen to leave since the last time.
    pub(crate) fn take_left(&self) -> Vec<Instant> {
        std::mem::take(&mut lock(&self.seen).left)
    }

    pub(crate) fn left(&self) -> usize {
        lock(&self.seen).left.len()
    }

    /// Returns how many attempts reached the part of a soak with this name.
    pub(crate) fn attempts(&self, model: &str) -> u32 {
        lock(&self.seen).attempts.get(model).copied().unwrap_or(0)
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(
    listener: std::net::TcpListener,
    tls: Option<TlsAcceptor>,
    seen: Arc<Mutex<Seen>>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            // Out of descriptors, for a moment.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (seen, tls) = (Arc::clone(&seen), tls.clone());
        // A caller that leaves ends its connection, and that is no failure here.
        tokio::spawn(async move { serve(socket, tls, &seen).await.or(Ok::<_, io::Error>(())) });
    }
}

async fn serve(socket: TcpStream, tls: Option<TlsAcceptor>, seen: &Mutex<Seen>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut reading = match tls {
        None => Reading::new(Box::new(socket)),
        Some(tls) => Reading::new(Box::new(tls.accept(socket).await?)),
    };
    while let Some(head) = reading.head().await? {
        let len = header(&head, "content-length").and_then(|len| len.parse().ok());
        let body = reading.exactly(len.unwrap_or(0)).await?;
        let body = String::from_utf8_lossy(&body).into_owned();
        if head.starts_with("POST /v1/traces ") {
            reading.socket.write_all(TAKEN).await?;
            continue;
        }
        let model = model(&body);
        match model.split('-').collect::<Vec<_>>().as_slice() {
            ["short"] => {
                reading.socket.write_all(SHORT.as_bytes()).await?;
            }
            ["paced", frames, every_ms] => {
                let number = |text: &str| text.parse::<u32>().map_err(io::Error::other);
                let every = Duration::from_millis(number(every_ms)?.into());
                paced(&mut reading, number(frames)?, every).await?;
            }
            ["silent"] => return silent(&mut reading, seen).await,
            ["failing"] => reading.socket.write_all(UNAVAILABLE).await?,
            ["soak", ..] => {
                let attempt = {
                    let mut seen = lock(seen);
                    let attempts = seen.attempts.entry(model.to_owned()).or_default();
                    *attempts += 1;
                    *attempts
                };
                let Some(part) = Part::of(model) else {
                    return Err(io::Error::other("an unknown part"));
                };
                if !soak::play(&mut reading, part, attempt).await? {
                    return Ok(());
                }
            }
            _ => return Err(io::Error::other(format!("an unknown model: {model}"))),
        }
    }
    Ok(())
}

async fn paced(reading: &mut Reading, frames: u32, every: Duration) -> io::Result<()> {
    let first = chunked(&frame(" word"));
    let opening = format!("{STREAM_HEAD}{first}");
    reading.socket.write_all(opening.as_bytes()).await?;
    // Streams that know nothing of one another do not speak in step.
    let offset = every.mul_f64(fastrand::f64());
    let mut beat = interval_at(clock::now() + offset, every);
    for _ in 1..frames {
        beat.tick().await;
        reading.socket.write_all(first.as_bytes()).await?;
    }
    let end = format!("{}0\r\n\r\n", chunked(FINISH));
    reading.socket.write_all(end.as_bytes()).await
}

async fn silent(reading: &mut Reading, seen: &Mutex<Seen>) -> io::Result<()> {
    let opening = format!("{STREAM_HEAD}{}", chunked(&frame(" word")));
    reading.socket.write_all(opening.as_bytes()).await?;
    let mut byte = [0];
    // A reset says the same as an end.
    let _end = reading.socket.read(&mut byte).await;
    lock(seen).left.push(clock::now());
    Ok(())
}

/// Returns the model that a body names.
fn model(body: &str) -> &str {
    let named = body.split_once("\"model\":\"");
    named
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or("", |(model, _)| model)
}

/// A short answer, all of whose frames are one chunk.
static SHORT: LazyLock<String> = LazyLock::new(|| {
    let frames = frame(" word").repeat(SHORT_FRAMES) + FINISH;
    format!("{STREAM_HEAD}{}0\r\n\r\n", chunked(&frames))
});

/// The frames of a short answer, besides those that end it.
pub(crate) const SHORT_FRAMES: usize = 5;

/// What a collector says that has taken some spans.
const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

const UNAVAILABLE: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 30\r\n\
    content-type: application/json\r\n\r\n{\"error\":{\"message\":\"broken\"}}\n";
