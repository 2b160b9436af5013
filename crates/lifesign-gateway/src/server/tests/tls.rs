//! Listeners with TLS.

use pretty_assertions::assert_eq;
use rustls::{ClientConfig, RootCertStore, ServerConfig, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio_rustls::TlsConnector;

use super::*;
use crate::server::tls::load;

/// What is made of a certificate for `localhost`, and the certificate.
fn certificate() -> (Arc<ServerConfig>, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let cert = directory.path().join("cert.pem");
    let key = directory.path().join("key.pem");
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (load(&cert, &key).unwrap(), made.cert.der().clone())
}

async fn handshake(
    server: &Running,
    root: CertificateDer<'static>,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    within(connector.connect(name, server.connect().await)).await
}

#[tokio::test]
async fn tls_is_served_as_http_1_1() {
    let (config, root) = certificate();
    let slot = TlsSlot::new(config);
    let limits = ServerLimits::default();
    let server = Running::start_with(TestService::new(), limits, Some(slot), 1);

    let mut caller = handshake(&server, root).await.unwrap();
    send(&mut caller, &[GET_CLOSE]).await;
    let answer = read_to_end(&mut caller).await;

    assert_eq!(caller.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(answer.ends_with("done"), "{answer}");
}

#[tokio::test]
async fn another_certificate_is_shown_to_connections_to_come() {
    let (config, old) = certificate();
    let (other, new) = certificate();
    let slot = TlsSlot::new(config);
    let limits = ServerLimits::default();
    let server = Running::start_with(TestService::new(), limits, Some(slot.clone()), 1);

    slot.replace(other);

    assert!(handshake(&server, old).await.is_err());
    assert!(handshake(&server, new).await.is_ok());
}

#[tokio::test]
async fn who_does_not_shake_hands_is_cut() {
    let (config, _root) = certificate();
    let slot = TlsSlot::new(config);
    let limits = ServerLimits {
        handshake: Duration::from_millis(100),
        ..ServerLimits::default()
    };
    let server = Running::start_with(TestService::new(), limits, Some(slot), 1);

    assert_eq!(server.ask("").await, "");
    assert!(!server.ask(GET).await.contains("HTTP/1.1"));
    assert_eq!(server.service.seen(), [""; 0]);
}
