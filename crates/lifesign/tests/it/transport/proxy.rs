//! Proxies: tunnels for https, whole targets for http.

use std::time::Duration;

use lifesign::transport::{
    ConnectErrorKind, ConnectProgress, Endpoint, ProxyEnv, Transport, TransportConfig,
};
use lifesign_core::Stage;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::server::{config, endpoint, listen, pends, post, read_request, steps};
use super::tls::Authority;

const MOMENT: Duration = Duration::from_millis(40);

/// The environment that sends everything through the proxy at `listener`.
fn through(listener: &TcpListener, login: &str) -> ProxyEnv {
    let url = format!("http://{login}{}", listener.local_addr().unwrap());
    ProxyEnv::read(|name| (name == "all_proxy").then(|| url.clone()))
}

#[tokio::test]
async fn a_plain_request_goes_to_the_proxy_with_its_whole_target() {
    let (listener, _) = listen().await;
    let transport = Transport::new(TransportConfig {
        proxy: through(&listener, "me:word@"),
        ..config()
    })
    .unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let request = read_request(&mut socket).await;
        socket
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await
            .unwrap();
        (request, socket)
    });
    let endpoint = endpoint("http://api.invalid:8080/");

    let mut exchange = transport
        .open(&endpoint, false, &ConnectProgress::new())
        .await
        .unwrap()
        .send(post("{}"));
    let seen = steps(&mut exchange).await;

    assert_eq!(seen, ["sent", "head 200", "chunk ok", "end"]);
    let (request, _socket) = server.await.unwrap();
    assert_eq!(
        request.split("\r\n").collect::<Vec<_>>(),
        [
            "POST http://api.invalid:8080/v1/messages HTTP/1.1",
            "host: api.invalid:8080",
            "proxy-authorization: Basic bWU6d29yZA==",
            "content-length: 2",
            "",
            "{}"
        ]
    );
}

#[tokio::test]
async fn https_goes_through_a_tunnel_and_the_proxys_password_stays_at_the_proxy() {
    let authority = Authority::new("api.invalid");
    let (upstream, _) = listen().await;
    let address = upstream.local_addr().unwrap();
    let acceptor = authority.acceptor(&["http/1.1"]);
    let upstream = tokio::spawn(async move {
        let (socket, _) = upstream.accept().await.unwrap();
        let mut stream = acceptor.accept(socket).await.unwrap();
        let mut request = vec![0; 4096];
        let len = stream.read(&mut request).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await
            .unwrap();
        stream.flush().await.unwrap();
        (
            String::from_utf8_lossy(&request[..len]).into_owned(),
            stream,
        )
    });
    let (proxy, _) = listen().await;
    let env = through(&proxy, "me:word@");
    let proxy = tokio::spawn(async move {
        let (mut client, _) = proxy.accept().await.unwrap();
        let request = read_request(&mut client).await;
        let mut server = TcpStream::connect(address).await.unwrap();
        client
            .write_all(b"HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n")
            .await
            .unwrap();
        copy_bidirectional(&mut client, &mut server).await.ok();
        request
    });
    let transport = Transport::new(TransportConfig {
        proxy: env,
        ..authority.trusted()
    })
    .unwrap();
    let endpoint = endpoint("https://api.invalid/");

    let mut exchange = transport
        .open(&endpoint, false, &ConnectProgress::new())
        .await
        .unwrap()
        .send(post("{}"));
    let seen = steps(&mut exchange).await;
    drop(exchange);

    assert_eq!(seen, ["sent", "head 200", "chunk ok", "end"]);
    let (request, stream) = upstream.await.unwrap();
    assert!(request.starts_with("POST /v1/messages HTTP/1.1\r\nhost: api.invalid\r\n"));
    assert!(!request.contains("proxy-authorization"));
    drop(stream);
    assert_eq!(
        proxy.await.unwrap(),
        "CONNECT api.invalid:443 HTTP/1.1\r\nhost: api.invalid:443\r\n\
         proxy-authorization: Basic bWU6d29yZA==\r\n\r\n"
    );
}

#[tokio::test]
async fn a_proxy_that_refuses_says_so_in_the_proxy_stage_without_the_password() {
    let (listener, _) = listen().await;
    let address = listener.local_addr().unwrap();
    let env = through(&listener, "me:word@");
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        socket
            .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
    });
    let transport = Transport::new(TransportConfig {
        proxy: env,
        ..config()
    })
    .unwrap();

    let error = transport
        .open(
            &endpoint("https://api.invalid/"),
            false,
            &ConnectProgress::new(),
        )
        .await
        .unwrap_err();

    assert_eq!(
        (error.stage, error.kind.clone()),
        (
            Stage::Proxy,
            ConnectErrorKind::ProxyAnswered { status: 407 }
        )
    );
    assert_eq!(
        error.to_string(),
        format!("the proxy {address} answered 407 instead of opening a tunnel")
    );
    assert!(error.hint().unwrap().contains("password"));
}

#[tokio::test]
async fn a_proxy_that_hangs_stays_in_the_proxy_stage() {
    let (listener, _) = listen().await;
    let transport = Transport::new(TransportConfig {
        proxy: through(&listener, ""),
        ..config()
    })
    .unwrap();
    let progress = ConnectProgress::new();
    let endpoint: Endpoint = endpoint("https://api.invalid/");

    let pending = pends(MOMENT, transport.open(&endpoint, false, &progress)).await;

    assert!(pending);
    assert_eq!(progress.stage(), Some(Stage::Proxy));
}

#[tokio::test]
async fn a_socks_proxy_carries_plain_http_and_looks_the_name_up() {
    let (upstream, _) = listen().await;
    let address = upstream.local_addr().unwrap();
    let (proxy, _) = listen().await;
    let url = format!("socks5h://{}", proxy.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut client, _) = proxy.accept().await.unwrap();
        let mut greeting = [0; 3];
        client.read_exact(&mut greeting).await.unwrap();
        client.write_all(&[5, 0]).await.unwrap();
        let mut request = vec![0; 5 + "api.invalid".len() + 2];
        client.read_exact(&mut request).await.unwrap();
        assert_eq!(&request[..16], b"\x05\x01\x00\x03\x0bapi.invalid");
        client
            .write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0])
            .await
            .unwrap();
        let mut server = TcpStream::connect(address).await.unwrap();
        copy_bidirectional(&mut client, &mut server).await.ok();
    });
    let server = tokio::spawn(async move {
        let (mut socket, _) = upstream.accept().await.unwrap();
        let request = read_request(&mut socket).await;
        socket
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await
            .unwrap();
        (request, socket)
    });
    let transport = Transport::new(TransportConfig {
        proxy: ProxyEnv::read(|name| (name == "http_proxy").then(|| url.clone())),
        ..config()
    })
    .unwrap();

    let mut exchange = transport
        .open(
            &endpoint("http://api.invalid/"),
            false,
            &ConnectProgress::new(),
        )
        .await
        .unwrap()
        .send(post("{}"));
    let seen = steps(&mut exchange).await;

    assert_eq!(seen, ["sent", "head 200", "chunk ok", "end"]);
    let (request, _socket) = server.await.unwrap();
    assert!(
        request.starts_with("POST /v1/messages HTTP/1.1\r\nhost: api.invalid\r\n"),
        "{request}"
    );
}
