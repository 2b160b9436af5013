//! One worker: a thread with a runtime of its own, which accepts and serves.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{self, Either};
use lifesign::clock::CallClock;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, UnixListener},
    runtime, select,
    sync::{mpsc, oneshot},
    time::{sleep, sleep_until},
};
use tokio_rustls::TlsAcceptor;

use super::{
    Server, ServerLimits, Service, clock, connection,
    crowd::{self, Crowd},
    descriptors,
    drain::{Drain, Stage},
    listen::{ListenSocket, Listener},
    peer::{Peer, Reach},
    pulse::WorkerPulse,
    socket::{Accepted, Layer, Raw},
    tls::TlsSlot,
};

/// What all workers share.
pub(super) struct Shared<S> {
    service: Arc<S>,
    limits: ServerLimits,
    most_connections: usize,
    open: AtomicUsize,
    /// Whether it was said that the limit is reached.
    is_full: AtomicBool,
    refusing: AtomicUsize,
    tls: Option<TlsSlot>,
    drain: Drain,
    clock: CallClock,
}

impl<S: Service> Shared<S> {
    pub(super) fn new(server: &Server, service: Arc<S>) -> Self {
        let descriptors = rlimit::Resource::NOFILE
            .get_soft()
            .unwrap_or(FEW_DESCRIPTORS);
        let asked = server.limits.connections;
        let most_connections = descriptors::most_connections(asked, descriptors);
        if asked.is_some_and(|asked| asked > most_connections) {
            tracing::warn!(
                most_connections,
                descriptors,
                "fewer connections than asked for"
            );
        }
        Self {
            service,
            limits: server.limits,
            most_connections,
            open: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            refusing: AtomicUsize::new(0),
            tls: server.tls.clone(),
            drain: server.drain(),
            clock: CallClock::start(),
        }
    }
}

/// Runs a worker to its end, which is told to `ended`.
pub(super) fn run<S: Service>(
    index: usize,
    listeners: Vec<Listener>,
    shared: &Arc<Shared<S>>,
    pulse: WorkerPulse,
    ended: oneshot::Sender<io::Result<()>>,
) {
    let result = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(serve(index, listeners, shared, pulse)));
    // Nobody waits any more where the server was dropped.
    let _unheard = ended.send(result);
}

async fn serve<S: Service>(
    index: usize,
    listeners: Vec<Listener>,
    shared: &Arc<Shared<S>>,
    pulse: WorkerPulse,
) -> io::Result<()> {
    let (alive, mut all_ended) = mpsc::channel::<()>(1);
    let worker = Arc::new(Worker {
        shared: Arc::clone(shared),
        state: Arc::new(shared.service.worker(index)),
        peers: Arc::default(),
        next_peer: AtomicU64::new(0),
    });
    for listener in listeners {
        let acceptor = Acceptor::new(listener)?;
        tokio::spawn(Arc::clone(&worker).accept(acceptor, alive.clone()));
    }
    drop(alive);
    let peers = Arc::clone(&worker.peers);
    tokio::spawn(async move {
        let mut crowd = Crowd::default();
        loop {
            pulse.beat();
            if crowd.has_left(lock(&peers).len()) {
                crowd::tidy().await;
            }
            sleep(PULSE).await;
        }
    });

    for stage in [Stage::Draining, Stage::Ending, Stage::Over] {
        let reached = std::pin::pin!(shared.drain.reached(stage));
        let ended = std::pin::pin!(all_ended.recv());
        if let Either::Right(_) = future::select(reached, ended).await {
            return Ok(());
        }
        worker.wake_all();
    }
    all_ended.recv().await;
    Ok(())
}

struct Worker<S: Service> {
    shared: Arc<Shared<S>>,
    state: Arc<S::Worker>,
    peers: Arc<Mutex<HashMap<u64, Arc<Peer>>>>,
    next_peer: AtomicU64,
}

impl<S: Service> Worker<S> {
    /// Accepts until the drain; each connection holds a clone of `alive`.
    async fn accept(self: Arc<Self>, acceptor: Acceptor, alive: mpsc::Sender<()>) {
        let draining = self.shared.drain.reached(Stage::Draining);
        let mut draining = std::pin::pin!(draining);
        let mut is_failing = false;
        loop {
            let accepted = select! {
                biased;
                () = &mut draining => break,
                accepted = acceptor.accept() => accepted,
            };
            match accepted {
                Ok((socket, remote)) => {
                    is_failing = false;
                    self.take(&acceptor, socket, remote, &alive);
                }
                // The peer left before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if !is_failing {
                        tracing::error!(%error, "cannot accept connections");
                    }
                    is_failing = true;
                    // Without descriptors it would fail again at once, and spin.
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn take(
        &self,
        acceptor: &Acceptor,
        socket: Accepted,
        remote: Option<std::net::SocketAddr>,
        alive: &mpsc::Sender<()>,
    ) {
        let shared = &self.shared;
        let tls = shared.tls.as_ref().filter(|_| acceptor.is_tcp());
        let peer = Arc::new(Peer::new(
            acceptor.reach,
            remote,
            shared.drain.clone(),
            shared.clock,
        ));
        let Some(seat) = self.seat(&peer) else {
            self.turn_away(socket, tls.is_some());
            return;
        };
        let raw = Raw::new(socket, Arc::clone(&peer), shared.limits.reader_stall);
        let (service, state) = (Arc::clone(&shared.service), Arc::clone(&self.state));
        let (shared, alive) = (Arc::clone(shared), alive.clone());
        match tls.map(TlsSlot::config) {
            None => tokio::spawn(async move {
                let _held = (seat, alive);
                connection::serve(service, state, peer, Layer::Plain(raw), &shared.limits).await;
            }),
            Some(config) => tokio::spawn(async move {
                let _held = (seat, alive);
                let accepted = TlsAcceptor::from(config).accept(raw);
                let late = sleep_until(
                    peer.clock()
                        .instant(peer.elapsed().saturating_add(shared.limits.handshake)),
                );
                let stream = select! {
                    biased;
                    stream = accepted => stream,
                    () = late => Err(io::ErrorKind::TimedOut.into()),
                    () = shared.drain.reached(Stage::Draining) => return,
                };
                match stream {
                    Ok(stream) => {
                        let layer = Layer::Tls(Box::new(stream));
                        connection::serve(service, state, peer, layer, &shared.limits).await;
                    }
                    Err(error) => tracing::debug!(?remote, %error, "TLS handshake failed"),
                }
            }),
        };
    }

    /// Takes a place among the connections, if one is free.
    fn seat(&self, peer: &Arc<Peer>) -> Option<Seat<S>> {
        let shared = &self.shared;
        // The seat gives back what was taken here, too.
        let others = shared.open.fetch_add(1, Ordering::AcqRel);
        let id = self.next_peer.fetch_add(1, Ordering::Relaxed);
        let seat = Seat {
            shared: Arc::clone(shared),
            peers: Arc::clone(&self.peers),
            id,
        };
        if others >= shared.most_connections {
            if !shared.is_full.swap(true, Ordering::Relaxed) {
                let limit = shared.most_connections;
                tracing::warn!(limit, "no more connections are taken");
            }
            return None;
        }
        lock(&self.peers).insert(id, Arc::clone(peer));
        Some(seat)
    }

    /// Tells a connection beyond the limit that there is no place.
    fn turn_away(&self, socket: Accepted, is_tls: bool) {
        // A handshake costs more than the refusal tells, and a crowd gets no word at all.
        if is_tls || self.shared.refusing.fetch_add(1, Ordering::AcqRel) >= MOST_REFUSALS {
            if !is_tls {
                self.shared.refusing.fetch_sub(1, Ordering::AcqRel);
            }
            return;
        }
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let refused = match socket {
                Accepted::Tcp(socket) => refuse(socket).await,
                Accepted::Unix(socket) => refuse(socket).await,
            };
            if let Err(error) = refused {
                tracing::debug!(%error, "cannot tell a caller that there is no place");
            }
            shared.refusing.fetch_sub(1, Ordering::AcqRel);
        });
    }

    fn wake_all(&self) {
        let peers: Vec<_> = lock(&self.peers).values().cloned().collect();
        for peer in peers {
            peer.waker().wake();
        }
    }
}

/// Writes the refusal, and reads what was sent until the caller closes: a socket that is closed
/// with bytes unread is reset, and the caller would see that instead.
async fn refuse<T>(mut socket: T) -> io::Result<()>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut refused = std::pin::pin!(async {
        socket.write_all(NO_PLACE).await?;
        socket.shutdown().await?;
        let mut unread = [0; 1024];
        while socket.read(&mut unread).await? > 0 {}
        Ok(())
    });
    let late = std::pin::pin!(sleep_until(clock::now() + REFUSAL));
    match future::select(&mut refused, late).await {
        Either::Left((refused, _)) => refused,
        Either::Right(_) => Ok(()),
    }
}

/// A place among the connections.
struct Seat<S> {
    shared: Arc<Shared<S>>,
    peers: Arc<Mutex<HashMap<u64, Arc<Peer>>>>,
    id: u64,
}

impl<S> Drop for Seat<S> {
    fn drop(&mut self) {
        lock(&self.peers).remove(&self.id);
        let others = self.shared.open.fetch_sub(1, Ordering::AcqRel) - 1;
        // Said again only after the crowd has gone, not at every place that is free for a moment.
        if others <= self.shared.most_connections / 2
            && self.shared.is_full.load(Ordering::Relaxed)
            && self.shared.is_full.swap(false, Ordering::Relaxed)
        {
            tracing::info!("connections are taken again");
        }
    }
}

/// A listener in a worker's runtime.
struct Acceptor {
    socket: AcceptSocket,
    reach: Reach,
}

enum AcceptSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    fn new(listener: Listener) -> io::Result<Self> {
        Ok(Self {
            reach: listener.bound().reach(),
            socket: match listener.socket {
                ListenSocket::Tcp(socket) => AcceptSocket::Tcp(TcpListener::from_std(socket)?),
                ListenSocket::Unix(socket) => AcceptSocket::Unix(UnixListener::from_std(socket)?),
            },
        })
    }

    fn is_tcp(&self) -> bool {
        matches!(self.socket, AcceptSocket::Tcp(_))
    }

    async fn accept(&self) -> io::Result<(Accepted, Option<std::net::SocketAddr>)> {
        match &self.socket {
            AcceptSocket::Tcp(listener) => {
                let (socket, remote) = listener.accept().await?;
                // A frame must not wait for the one before it to be acknowledged. It fails only
                // where the peer has already left, which reading will show.
                if let Err(error) = socket.set_nodelay(true) {
                    tracing::debug!(%error, "cannot turn Nagle off");
                }
                Ok((Accepted::Tcp(socket), Some(remote)))
            }
            AcceptSocket::Unix(listener) => {
                let (socket, _unnamed) = listener.accept().await?;
                Ok((Accepted::Unix(socket), None))
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long accepting rests after it failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// What POSIX guarantees, nearly: for a system that cannot say.
const FEW_DESCRIPTORS: u64 = 1024;
/// Connections beyond the limit that are told so at the same time.
const MOST_REFUSALS: usize = 128;
const NO_PLACE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
    retry-after: 1\r\ncontent-type: application/json\r\ncontent-length: 80\r\n\r\n\
    {\"error\":{\"type\":\"overloaded_error\",\"message\":\"too many connections are open\"}}\n";
/// How often a worker shows that it moves.
const PULSE: Duration = Duration::from_secs(1);
/// How long a connection beyond the limit may take to be told so.
const REFUSAL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::server::{Bound, ListenOn};

    #[tokio::test]
    async fn nagle_is_off_on_what_is_accepted_and_little_is_buffered_for_a_reader() {
        let on = ListenOn::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let listener = Listener::bind(&on).unwrap();
        let Bound::Tcp(address) = listener.bound() else {
            panic!("a TCP socket was asked for");
        };
        let acceptor = Acceptor::new(listener).unwrap();
        let caller = tokio::net::TcpStream::connect(address).await.unwrap();

        let (accepted, remote) = acceptor.accept().await.unwrap();

        let Accepted::Tcp(accepted) = accepted else {
            panic!("a TCP connection was accepted");
        };
        assert!(accepted.nodelay().unwrap());
        let buffer = socket2::SockRef::from(&accepted).send_buffer_size();
        assert!(buffer.unwrap() <= 512 << 10);
        assert_eq!(remote, caller.local_addr().ok());
    }

    #[test]
    fn that_the_limit_is_reached_is_said_again_once_half_of_the_places_are_free() {
        for most_connections in 1..=3 {
            let shared = Arc::new(Shared {
                service: Arc::new(()),
                limits: ServerLimits::default(),
                most_connections,
                open: AtomicUsize::new(most_connections + 1),
                is_full: AtomicBool::new(true),
                refusing: AtomicUsize::new(0),
                tls: None,
                drain: Drain::new(),
                clock: CallClock::start(),
            });
            let mut open = most_connections + 1;
            while open > 0 {
                drop(Seat {
                    shared: Arc::clone(&shared),
                    peers: Arc::default(),
                    id: 0,
                });
                open -= 1;
                let is_full = shared.is_full.load(Ordering::Relaxed);
                assert_eq!(is_full, open > most_connections / 2, "{open}");
            }
        }
    }
}
