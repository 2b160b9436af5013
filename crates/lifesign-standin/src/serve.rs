//! The provider on its loopback port.

use std::{
    collections::HashMap,
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lifesign_wire::recording::{Recording, RecordingError};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpSocket, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use self::http1::Socket;
use crate::{
    clock::Clock,
    dialect::Dialect,
    log::{Connection, Event, Log, Observer, Request},
    replay::playable,
    scenario::{Scenario, UnknownScenario},
    script::{Script, ScriptError, Section},
};

mod coding;
mod http1;
mod http2;
mod play;

/// A scripted provider, running until it is dropped.
///
/// This example shows a provider that answers its second request only:
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lifesign_standin::Standin;
///
/// let script = "attempt 1: status 503 json; eof\nattempt 2: answer \"ok\"";
/// let standin = Standin::script(script)?.speed(10.0).start().await?;
///
/// assert!(standin.url().starts_with("http://127.0.0.1:"));
/// assert!(standin.requests().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Standin {
    address: SocketAddr,
    is_tls: bool,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Standin {
    /// Returns a stand-in to be that plays a script.
    ///
    /// # Errors
    ///
    /// Says where and why the text is no script.
    pub fn script(text: &str) -> Result<Builder, ScriptError> {
        Ok(Builder::new(Source::Script(Arc::new(Script::parse(text)?))))
    }

    /// Returns a stand-in to be that plays a parsed script.
    pub fn play(script: Script) -> Builder {
        Builder::new(Source::Script(Arc::new(script)))
    }

    /// Returns a stand-in to be that plays a named scenario.
    ///
    /// # Errors
    ///
    /// There is none of that name.
    pub fn scenario(name: &str) -> Result<Builder, UnknownScenario> {
        Ok(Self::play(Scenario::find(name)?.script()))
    }

    /// Returns a stand-in to be that plays every scenario, each below its name: the base URL of
    /// `silence` is `{url}/silence/v1`. Without a name it plays `happy`.
    pub fn scenarios() -> Builder {
        let scenarios = Scenario::all().iter();
        let scripts = scenarios.map(|scenario| (scenario.name(), Arc::new(scenario.script())));
        Builder::new(Source::Scenarios(Arc::new(scripts.collect())))
    }

    /// Returns a stand-in to be that plays a recording in its own rhythm. Asked on the path of
    /// another wire than the recording's it answers 404, unless a dialect is set.
    ///
    /// # Errors
    ///
    /// Names the line of the recording that cannot be read or cannot be played, or says that it
    /// breaks off.
    pub fn replay(recording: &[u8]) -> Result<Builder, RecordingError> {
        let recording = Recording::parse(recording)?;
        Ok(Builder::new(Source::Recording {
            dialect: playable(&recording)?,
            script: Arc::new(Script::of_recording(&recording)),
        }))
    }

    /// Returns a stand-in to be that accepts connections and never says anything on them, not even
    /// a TLS handshake.
    pub fn mute() -> Builder {
        Builder::new(Source::Mute)
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its base URL without a path, such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the requests seen so far, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.log.requests()
    }

    /// Returns the connections seen so far, in order of arrival.
    pub fn connections(&self) -> Vec<Connection> {
        self.shared.log.connections()
    }

    /// Returns the time since it began, which is what the times of requests count from.
    pub fn elapsed(&self) -> Duration {
        self.shared.clock.elapsed()
    }

    /// Waits until `count` requests have been seen; returns whether they were within `limit`.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped at any time; nothing is taken from the log.
    #[must_use = "says whether the requests came"]
    pub async fn wait_for_requests(&self, count: usize, limit: Duration) -> bool {
        self.shared
            .log
            .wait_until(limit, |requests| requests.len() >= count)
            .await
    }

    /// Waits until the peer of request `index`, counted from 0, has left; returns when it did, or
    /// `None` if it did not within `limit`.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped at any time; nothing is taken from the log.
    pub async fn wait_for_peer_closed(&self, index: usize, limit: Duration) -> Option<Duration> {
        let closed = |requests: &[Request]| requests.get(index)?.peer_closed;
        self.shared
            .log
            .wait_until(limit, |requests| closed(requests).is_some())
            .await;
        closed(&self.requests())
    }

    /// Waits until request `index`, counted from 0, has been answered or left; returns the request,
    /// or `None` if that was not within `limit`.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped at any time; nothing is taken from the log.
    pub async fn wait_for_end(&self, index: usize, limit: Duration) -> Option<Request> {
        let has_ended = |requests: &[Request]| {
            requests
                .get(index)
                .is_some_and(|request| request.ended.is_some())
        };
        self.shared.log.wait_until(limit, has_ended).await;
        self.requests()
            .into_iter()
            .nth(index)
            .filter(|request| request.ended.is_some())
    }

    /// Stops it and waits until every connection is closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops it too, without the wait.
    pub async fn stop(mut self) {
        self.task.abort();
        // It ends with the cancellation that was asked for, which is no failure.
        let _lost = (&mut self.task).await;
    }
}

impl Drop for Standin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A stand-in that does not run yet.
#[derive(Clone)]
#[must_use = "it does nothing before it is started"]
pub struct Builder {
    source: Source,
    listen: SocketAddr,
    speed: f64,
    dialect: Option<Dialect>,
    tls: Option<(Vec<CertificateDer<'static>>, Arc<PrivateKeyDer<'static>>)>,
    observer: Option<Arc<Observer>>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("source", &self.source)
            .field("listen", &self.listen)
            .field("speed", &self.speed)
            .field("dialect", &self.dialect)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            speed: 1.0,
            dialect: None,
            tls: None,
            observer: None,
        }
    }

    /// Divides every time of the script by `factor`. Default 1.
    pub fn speed(mut self, factor: f64) -> Self {
        self.speed = factor;
        self
    }

    /// Speaks `dialect` whatever path is asked for. By default the path decides.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = Some(dialect);
        self
    }

    /// Listens at `address`. Default: a free port of 127.0.0.1.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Speaks TLS with this certificate chain and key, and offers HTTP/2 and HTTP/1.1 by ALPN.
    pub fn tls(mut self, chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        self.tls = Some((chain, Arc::new(key)));
        self
    }

    /// Tells `observer` of every event. It must not block.
    pub fn on_event(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Binds the port and serves on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// The speed is no number above zero, the certificate does not fit the key, or the address
    /// cannot be bound.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind if it is dropped before it is done.
    #[expect(clippy::unused_async, reason = "it must be called on a runtime")]
    pub async fn start(self) -> io::Result<Standin> {
        if !(self.speed.is_finite() && self.speed > 0.0) {
            let refused = format!("speed is `{}`; accepted: a number above 0", self.speed);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, refused));
        }
        let tls = self
            .tls
            .map(|(chain, key)| acceptor(chain, &key))
            .transpose()?;
        let socket = match self.listen {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(self.listen)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let clock = Clock::start();
        let shared = Arc::new(Shared {
            clock,
            log: Arc::new(Log::new(clock, self.observer)),
            source: self.source,
            speed: self.speed,
            dialect: self.dialect,
            attempts: Mutex::default(),
            serial: AtomicU64::new(0),
        });
        let is_tls = tls.is_some();
        let task = tokio::spawn(accept(Arc::clone(&shared), listener, tls));
        Ok(Standin {
            address,
            is_tls,
            shared,
            task,
        })
    }
}

/// What is played.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Mute,
    Recording {
        script: Arc<Script>,
        /// The wire of the recording.
        dialect: Dialect,
    },
    Scenarios(Arc<HashMap<&'static str, Arc<Script>>>),
    Script(Arc<Script>),
}

/// What all connections of a stand-in share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) log: Arc<Log>,
    source: Source,
    speed: f64,
    dialect: Option<Dialect>,
    /// The requests so far by what stands before `/v1` in their paths, and by wire.
    attempts: Mutex<HashMap<(String, Dialect), u32>>,
    serial: AtomicU64,
}

impl Shared {
    /// A time of the script at the speed that was asked for.
    pub(crate) fn scaled(&self, time: Duration) -> Duration {
        Duration::try_from_secs_f64(time.as_secs_f64() / self.speed).unwrap_or(Duration::MAX)
    }

    pub(crate) fn dialect(&self, path: &str) -> Dialect {
        self.dialect.unwrap_or_else(|| Dialect::of_path(path))
    }

    /// What to play for a request: the script, which attempt at it this is, and which request of
    /// the stand-in.
    pub(crate) fn plan(&self, path: &str) -> Plan {
        let prefix = Dialect::prefix_of(path);
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = attempts
            .entry((prefix.to_owned(), self.dialect(path)))
            .or_default();
        *attempt = attempt.saturating_add(1);
        let attempt = *attempt;
        let serial = self.serial.fetch_add(1, Ordering::Relaxed) + 1;
        let script = match &self.source {
            Source::Mute => Arc::new(Script {
                sections: Vec::new(),
            }),
            Source::Recording { script, dialect } => {
                let asked = Dialect::named_by(path).filter(|_| self.dialect.is_none());
                match asked {
                    Some(asked) if *dialect != asked => {
                        Arc::new(Script::not_recorded(*dialect, asked))
                    }
                    _ => Arc::clone(script),
                }
            }
            Source::Scenarios(scripts) => {
                let name = prefix.split('/').nth(1).unwrap_or("happy");
                let script = scripts.get(name).map(Arc::clone);
                script.unwrap_or_else(|| Arc::new(Script::not_found(name)))
            }
            Source::Script(script) => Arc::clone(script),
        };
        Plan {
            script,
            attempt,
            serial,
        }
    }
}

/// What to play for a request.
#[derive(Debug)]
pub(crate) struct Plan {
    script: Arc<Script>,
    /// Which request to its script it is, counted from 1.
    pub(crate) attempt: u32,
    /// Which request to the stand-in it is, counted from 1.
    pub(crate) serial: u64,
}

impl Plan {
    pub(crate) fn section(&self) -> Option<&Section> {
        self.script.section_for(self.attempt)
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    // Dropped with this task: no connection outlives the stand-in.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(connection(Arc::clone(&shared), socket, tls.clone()));
                }
                // Most likely out of descriptors, which passes as connections close.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(shared: Arc<Shared>, mut socket: TcpStream, tls: Option<TlsAcceptor>) {
    let number = shared.log.connected();
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "cannot turn off Nagle's algorithm");
    }
    if matches!(shared.source, Source::Mute) {
        let mut room = [0; 512];
        while socket.read(&mut room).await.is_ok_and(|len| len > 0) {}
        shared.log.peer_closed(number);
        return;
    }
    match tls {
        None => serve(&shared, socket, number).await,
        Some(tls) => match tls.accept(socket).await {
            Ok(socket) => Box::pin(serve(&shared, socket, number)).await,
            Err(error) => {
                tracing::debug!(%error, "the TLS handshake failed");
                shared.log.peer_closed(number);
            }
        },
    }
}

/// Tells HTTP/2 from HTTP/1.1 by the first bytes and serves it.
async fn serve<S: Socket>(shared: &Arc<Shared>, mut socket: S, number: u64) {
    let mut inbox = Vec::new();
    while inbox.len() < H2_PREFACE.len() && H2_PREFACE.starts_with(&inbox) {
        if !http1::fill(&mut socket, &mut inbox)
            .await
            .is_ok_and(|has_more| has_more)
        {
            shared.log.peer_closed(number);
            return;
        }
    }
    if inbox.first() == Some(&TLS_HANDSHAKE) {
        // No line end would ever come for HTTP to read.
        shared.log.tls_hello(number);
        return;
    }
    if inbox.starts_with(H2_PREFACE) {
        Box::pin(http2::serve(shared, socket, inbox, number)).await;
    } else {
        http1::serve(shared, socket, inbox, number).await;
    }
}

fn acceptor(
    chain: Vec<CertificateDer<'static>>,
    key: &PrivateKeyDer<'static>,
) -> io::Result<TlsAcceptor> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let refused = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_no_client_auth()
        .with_single_cert(chain, key.clone_key())
        .map_err(refused)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Room for a burst of thousands of connections.
const BACKLOG: u32 = 8192;
/// What a TLS hello begins with (RFC 8446, section 5.1), and no HTTP request does.
const TLS_HANDSHAKE: u8 = 22;
/// How an HTTP/2 connection begins (RFC 9113, section 3.4), as far as no HTTP/1.1 request does.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";
