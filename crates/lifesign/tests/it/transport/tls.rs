//! TLS: whom it trusts, what it agrees on, and what its failures say.

use std::sync::Arc;
use std::time::Duration;

use lifesign::transport::{
    CertificateFault, ConnectErrorKind, ConnectProgress, Endpoint, Step, Transport, TransportConfig,
};
use lifesign::{CallReport, CallRequest, Client, Request, Upstream, Wire};
use lifesign_core::{FailureCode, Stage};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CertifiedKey, DnType, IsCa, KeyPair,
    date_time_ymd,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;

use super::server::{config, pends, post, steps, until};

const MOMENT: Duration = Duration::from_millis(40);

/// An authority of our own and a server's certificate from it.
pub(super) struct Authority {
    root_pem: Vec<u8>,
    config: ServerConfig,
}

impl Authority {
    pub(super) fn new(host: &str) -> Self {
        Self::issuing(host, |_| {})
    }

    /// The same with a certificate of the server that `change` makes a special one.
    fn issuing(host: &str, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut root = CertificateParams::default();
        root.distinguished_name
            .push(DnType::CommonName, format!("authority of {host}"));
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut leaf = CertificateParams::new(vec![host.to_owned()]).unwrap();
        change(&mut leaf);
        let leaf = leaf.signed_by(&key, &root).unwrap();
        Self::serving(root.pem(), leaf.der(), &key)
    }

    /// A server whose certificate is its own authority's, as `openssl req -x509` makes one.
    fn its_own(host: &str) -> Self {
        let mut own = CertificateParams::new(vec![host.to_owned()]).unwrap();
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let own = own.self_signed(&key).unwrap();
        Self::serving(own.pem(), own.der(), &key)
    }

    fn serving(root_pem: String, certificate: &CertificateDer<'static>, key: &KeyPair) -> Self {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        Self {
            root_pem: root_pem.into_bytes(),
            config,
        }
    }

    pub(super) fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let mut config = self.config.clone();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        TlsAcceptor::from(Arc::new(config))
    }

    pub(super) fn trusted(&self) -> TransportConfig {
        TransportConfig {
            extra_roots: vec![self.root_pem.clone()],
            ..config()
        }
    }
}

fn endpoint(listener: &TcpListener, http2: bool) -> Endpoint {
    let url = format!("https://{}/", listener.local_addr().unwrap());
    Endpoint::parse(&url.parse().unwrap(), http2).unwrap()
}

/// Serves `count` connections, answering each request on them with "ok"; returns what ALPN chose.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor, count: usize) -> Vec<Option<Vec<u8>>> {
    let mut agreed = Vec::new();
    for _ in 0..count {
        let (socket, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(socket).await else {
            continue;
        };
        agreed.push(stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec));
        let mut request = [0; 4096];
        while matches!(stream.read(&mut request).await, Ok(len) if len > 0) {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await
                .unwrap();
        }
    }
    agreed
}

#[tokio::test]
async fn an_authority_given_as_extra_root_is_trusted_and_its_connection_kept() {
    let authority = Authority::new("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener, false);
    let server = tokio::spawn(serve(listener, authority.acceptor(&["h2", "http/1.1"]), 1));
    let transport = Transport::new(authority.trusted()).unwrap();

    for reused in [false, true] {
        let connection = transport
            .open(&endpoint, false, &ConnectProgress::new())
            .await
            .unwrap();
        assert_eq!(connection.is_reused(), reused);
        let mut exchange = connection.send(post("{}"));
        let seen = steps(&mut exchange).await;
        assert_eq!(seen, ["sent", "head 200", "chunk ok", "end"]);
        exchange.finish();
    }

    drop(transport);
    assert_eq!(
        server.await.unwrap(),
        [Some(b"http/1.1".to_vec())],
        "only HTTP/1.1 was offered"
    );
}

#[tokio::test]
async fn http2_is_agreed_on_where_it_is_wanted_and_offered() {
    let authority = Authority::new("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener, true);
    let acceptor = authority.acceptor(&["h2", "http/1.1"]);
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let stream = acceptor.accept(socket).await.unwrap();
        let mut served = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut respond))) = served.accept().await {
            let mut body = respond
                .send_response(http::Response::new(()), false)
                .unwrap();
            body.send_data(bytes::Bytes::from_static(b"ok"), true)
                .unwrap();
        }
    });
    let transport = Transport::new(authority.trusted()).unwrap();

    let connection = transport
        .open(&endpoint, false, &ConnectProgress::new())
        .await
        .unwrap();

    assert!(connection.is_http2());
    let mut exchange = connection.send(post("{}"));
    until(&mut exchange, "chunk ok").await;
}

#[tokio::test]
async fn a_server_without_http2_is_spoken_to_in_http1_from_then_on() {
    let authority = Authority::new("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener, true);
    let server = tokio::spawn(serve(listener, authority.acceptor(&["http/1.1"]), 1));
    let transport = Transport::new(authority.trusted()).unwrap();

    for reused in [false, true] {
        let connection = transport
            .open(&endpoint, false, &ConnectProgress::new())
            .await
            .unwrap();
        assert_eq!(
            (connection.is_http2(), connection.is_reused()),
            (false, reused)
        );
        let mut exchange = connection.send(post("{}"));
        until(&mut exchange, "end").await;
        exchange.finish();
    }

    drop(transport);
    server.await.unwrap();
}

#[tokio::test]
async fn an_unknown_authority_is_named_as_such_with_what_helps() {
    let authority = Authority::new("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener, false);
    tokio::spawn(serve(listener, authority.acceptor(&[]), 1));
    // Another root, so that the machine's own are not needed for this test.
    let transport = Transport::new(Authority::new("other.test").trusted()).unwrap();

    let error = transport
        .open(&endpoint, false, &ConnectProgress::new())
        .await
        .unwrap_err();

    assert_eq!(
        (error.stage, error.kind.clone()),
        (
            Stage::Tls,
            ConnectErrorKind::Certificate(CertificateFault::Issuer)
        )
    );
    assert!(error.hint().unwrap().contains("tls_extra_roots"));
}

/// Each was told as "not valid", one of them in the words of a debugger: `CaUsedAsEndEntity`.
#[tokio::test]
async fn a_refused_certificate_says_what_is_wrong_with_it_and_what_helps() {
    let host = "127.0.0.1";
    let expired = Authority::issuing(host, |leaf| {
        leaf.not_before = date_time_ymd(2001, 1, 1);
        leaf.not_after = date_time_ymd(2001, 2, 1);
    });
    let early = Authority::issuing(host, |leaf| {
        leaf.not_before = date_time_ymd(2999, 1, 1);
        leaf.not_after = date_time_ymd(2999, 2, 1);
    });
    let names = Authority::issuing("other.test", |leaf| {
        let more = CertificateParams::new(vec!["*.wild.test".to_owned(), "10.0.0.1".to_owned()]);
        leaf.subject_alt_names
            .extend(more.unwrap().subject_alt_names);
    });
    let marked = Authority::issuing(host, |leaf| {
        leaf.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    for (authority, told, helps) in [
        (expired, "expired at 2001-02-01T00:00:00Z", "renewed"),
        (early, "is not valid before 2999-01-01T00:00:00Z", "clock"),
        (
            names,
            "is not for that name but for other.test, *.wild.test, 10.0.0.1",
            "by a name that its certificate has",
        ),
        (
            marked,
            "is that of an authority, which a server may not use as its own",
            "basicConstraints=CA:FALSE",
        ),
        (
            Authority::its_own(host),
            "is that of an authority, which a server may not use as its own",
            "basicConstraints=CA:FALSE",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = endpoint(&listener, false);
        tokio::spawn(serve(listener, authority.acceptor(&[]), 1));
        let transport = Transport::new(authority.trusted()).unwrap();

        let error = transport
            .open(&endpoint, false, &ConnectProgress::new())
            .await
            .unwrap_err();

        assert_eq!(
            error.to_string(),
            format!("the certificate of 127.0.0.1 {told}")
        );
        assert!(error.hint().unwrap().contains(helps), "{:?}", error.hint());
        assert_eq!((error.stage, error.detail()), (Stage::Tls, None));
        assert!(error.is_futile());
    }
}

#[tokio::test]
async fn a_certificate_that_signed_itself_is_trusted_where_it_is_given() {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let acceptor = TlsAcceptor::from(Arc::new(
        ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap(),
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener, false);
    tokio::spawn(serve(listener, acceptor, 1));
    let transport = Transport::new(TransportConfig {
        extra_roots: vec![cert.pem().into_bytes()],
        ..config()
    })
    .unwrap();

    let opened = transport
        .open(&endpoint, false, &ConnectProgress::new())
        .await;

    assert!(opened.is_ok(), "{opened:?}");
}

/// Three handshakes were made with a server whose certificate stayed the same.
#[tokio::test]
async fn a_call_that_meets_a_refused_certificate_is_not_repeated() {
    let authority = Authority::new("other.test");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(serve(listener, authority.acceptor(&[]), 9));
    let client = Client::with_transport(authority.trusted()).unwrap();
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &url).unwrap();

    let failed = client
        .answer(CallRequest::new(upstream, Request::prompt("m", "hi")))
        .await
        .unwrap_err();

    let report = CallReport::from(&*failed);
    assert_eq!(report.attempts.len(), 1);
    let failure = report.failure.unwrap();
    assert_eq!(
        failure.message,
        "connecting failed at the tls stage: the certificate of 127.0.0.1 is not for that name but \
         for other.test"
    );
    assert_eq!(
        (failure.code, failure.stage, failure.retryable, failure.of),
        (FailureCode::Connect, Some(Stage::Tls), false, 1)
    );
    assert!(failure.hint.unwrap().contains("by a name"));
}

#[tokio::test]
async fn a_server_that_agrees_on_no_protocol_is_answered_with_the_setting() {
    for (http2, server, told) in [
        (
            false,
            "h2",
            "127.0.0.1 does not speak HTTP/1.1 over TLS; set `http2 = true`",
        ),
        (
            true,
            "h3",
            "127.0.0.1 speaks neither HTTP/2 nor HTTP/1.1 over TLS; check the base URL",
        ),
    ] {
        let authority = Authority::new("127.0.0.1");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = endpoint(&listener, http2);
        tokio::spawn(serve(listener, authority.acceptor(&[server]), 1));
        let transport = Transport::new(authority.trusted()).unwrap();

        let error = transport
            .open(&endpoint, false, &ConnectProgress::new())
            .await
            .unwrap_err();

        assert_eq!(error.kind, ConnectErrorKind::Protocol { http2 });
        let said = format!("{error}; {}", error.hint().unwrap());
        assert!(said.starts_with(told) && said.contains("`http2"), "{said}");
        assert!(error.is_futile() && error.detail().is_none());
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_fails_in_the_tls_stage() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener, false);
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        let mut sink = [0; 4096];
        while matches!(socket.read(&mut sink).await, Ok(len) if len > 0) {}
    });
    let transport = Transport::new(Authority::new("127.0.0.1").trusted()).unwrap();

    let error = transport
        .open(&endpoint, false, &ConnectProgress::new())
        .await
        .unwrap_err();

    assert_eq!(
        (error.stage, error.kind),
        (Stage::Tls, ConnectErrorKind::Tls)
    );
}

#[tokio::test]
async fn a_handshake_that_hangs_stays_in_the_tls_stage() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener, false);
    let transport = Transport::new(Authority::new("127.0.0.1").trusted()).unwrap();
    let progress = ConnectProgress::new();

    let pending = pends(MOMENT, transport.open(&endpoint, false, &progress)).await;

    assert!(pending);
    assert_eq!(progress.stage(), Some(Stage::Tls));
}

#[tokio::test]
async fn a_part_of_a_tls_record_is_raw_progress() {
    let authority = Authority::new("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // A hop that holds back the last byte of what the server sends.
    let hop = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&hop, false);
    tokio::spawn(serve(listener, authority.acceptor(&[]), 1));
    let hopping = tokio::spawn(async move {
        let (mut client, _) = hop.accept().await.unwrap();
        let mut server = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut up = vec![0; 16384];
        let mut down = vec![0; 16384];
        loop {
            tokio::select! {
                read = client.read(&mut up) => {
                    let Ok(len @ 1..) = read else { return };
                    server.write_all(&up[..len]).await.unwrap();
                }
                read = server.read(&mut down) => {
                    let Ok(len @ 1..) = read else { return };
                    client.write_all(&down[..len - 1]).await.unwrap();
                    tokio::time::sleep(MOMENT).await;
                    client.write_all(&down[len - 1..len]).await.unwrap();
                }
            }
        }
    });
    let transport = Transport::new(authority.trusted()).unwrap();
    let mut exchange = transport
        .open(&endpoint, false, &ConnectProgress::new())
        .await
        .unwrap()
        .send(post("{}"));

    let mut raw = false;
    loop {
        match exchange.step().await.unwrap() {
            Step::Raw => raw = true,
            Step::Head(_) => break,
            _ => {}
        }
    }

    assert!(raw, "the record without its last byte was not seen");
    drop(exchange);
    hopping.await.unwrap();
}
