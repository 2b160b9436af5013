//! Opening a connection, stage by stage.
//!
//! No stage has a limit of its own: whoever polls the opening drops it when the `connect` bound
//! runs out, and reads off the progress where it stood.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{self, Either};
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::header::HeaderValue;
use lifesign_core::Stage;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::endpoint::Endpoint;
use super::error::ConnectError;
use super::meter::{Layer, Line, Socket};
use super::progress::ConnectProgress;
use super::proxy::{Proxies, Proxy, ProxyKind};
use super::resolve::resolve;
use super::tls::Tls;

/// Opens connections to endpoints, directly or through the proxies of the environment.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) proxies: Proxies,
    pub(super) tls: Tls,
}

/// A way to an endpoint that HTTP can be spoken over.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) line: Line,
    /// Whether HTTP/2 was agreed on.
    pub(super) http2: bool,
    /// Whether a proxy reads the requests itself, and what it wants to see in them.
    pub(super) absolute: bool,
    pub(super) proxy_authorization: Option<HeaderValue>,
}

impl Connector {
    pub(super) async fn open(
        &self,
        endpoint: &Endpoint,
        progress: &ConnectProgress,
    ) -> Result<Opened, ConnectError> {
        let proxy = self.proxies.choose(endpoint)?;
        let layer = match &proxy {
            None => Layer::Plain(dial(&endpoint.host, endpoint.port, progress).await?),
            Some(proxy) => self.open_proxy(proxy, endpoint, progress).await?,
        };
        let forwarded = proxy.filter(|proxy| !endpoint.tls && proxy.kind.forwards());
        let (layer, http2) = if endpoint.tls {
            progress.reach(Stage::Tls);
            self.tls.wrap(layer, &endpoint.host, endpoint.http2).await?
        } else {
            // A proxy that reads requests reads HTTP/1.1.
            (layer, endpoint.http2 && forwarded.is_none())
        };
        Ok(Opened {
            line: Line::new(layer),
            http2,
            absolute: forwarded.is_some(),
            proxy_authorization: forwarded.and_then(|proxy| proxy.authorization.clone()),
        })
    }

    async fn open_proxy(
        &self,
        proxy: &Arc<Proxy>,
        endpoint: &Endpoint,
        progress: &ConnectProgress,
    ) -> Result<Layer, ConnectError> {
        let socket = dial(&proxy.host, proxy.port, progress).await?;
        progress.reach(Stage::Proxy);
        let mut layer = Layer::Plain(socket);
        if proxy.kind == ProxyKind::Https {
            (layer, _) = self
                .tls
                .wrap(layer, &proxy.host, false)
                .await
                .map_err(|error| ConnectError {
                    stage: Stage::Proxy,
                    ..error
                })?;
        }
        proxy.tunnel(&mut layer, endpoint).await?;
        Ok(layer)
    }
}

/// Opens a TCP connection to the first address of `host` that answers.
async fn dial(host: &str, port: u16, progress: &ConnectProgress) -> Result<Socket, ConnectError> {
    let addresses = if let Ok(ip) = host.parse::<IpAddr>() {
        vec![SocketAddr::new(ip, port)]
    } else {
        progress.reach(Stage::Dns);
        resolve(host, port).await?
    };
    progress.reach(Stage::Tcp);
    let tcp = race(addresses)
        .await
        .map_err(|(peer, error)| ConnectError::of_io(Stage::Tcp, peer.to_string(), error))?;
    // Small writes must not wait for each other's acknowledgement. A socket that cannot be told
    // so still works.
    tcp.set_nodelay(true).ok();
    Ok(Socket::new(tcp))
}

/// Connects to the addresses in order, each starting [`STAGGER`] after the one before or as soon
/// as all before have failed, and keeps the first that answers (RFC 8305, section 5).
async fn race(addresses: Vec<SocketAddr>) -> Result<TcpStream, (SocketAddr, io::Error)> {
    let mut waiting = addresses.into_iter();
    let mut running = FuturesUnordered::new();
    let mut failed = None;
    loop {
        if let Some(address) = waiting.next() {
            running.push(async move {
                TcpStream::connect(address)
                    .await
                    .map_err(|error| (address, error))
            });
        }
        let last = waiting.len() == 0;
        let answer = if last {
            running.next().await
        } else {
            match future::select(running.next(), std::pin::pin!(sleep(STAGGER))).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => continue,
            }
        };
        match answer {
            Some(Ok(tcp)) => return Ok(tcp),
            Some(Err(failure)) => {
                // The first failure is that of the address the resolver prefers.
                failed.get_or_insert(failure);
            }
            None => {}
        }
        if last
            && running.is_empty()
            && let Some(failure) = failed.take()
        {
            return Err(failure);
        }
    }
}

/// How long an address is waited for alone (RFC 8305, section 8).
const STAGGER: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nagle_is_off_on_what_is_opened() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();

        let socket = dial("127.0.0.1", port, &ConnectProgress::new()).await;

        assert!(socket.unwrap().tcp().nodelay().unwrap());
    }

    #[tokio::test]
    async fn an_address_that_refuses_makes_way_for_the_next_at_once() {
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refusing = closed.local_addr().unwrap();
        drop(closed);
        let open = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();

        let tcp = race(vec![refusing, open.local_addr().unwrap()])
            .await
            .unwrap();

        assert_eq!(tcp.peer_addr().unwrap(), open.local_addr().unwrap());
    }

    #[tokio::test]
    async fn the_failure_reported_is_that_of_the_first_address() {
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let first = closed.local_addr().unwrap();
        let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let second = other.local_addr().unwrap();
        drop((closed, other));

        let (address, error) = race(vec![first, second]).await.unwrap_err();

        assert_eq!(address, first);
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
