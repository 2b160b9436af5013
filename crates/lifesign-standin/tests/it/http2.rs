//! HTTP/2, with and without TLS.

use std::sync::Arc;

use bytes::Bytes;
use h2::{Reason, RecvStream, client::SendRequest};
use http::{Request, StatusCode};
use lifesign_standin::{End, Standin};
use pretty_assertions::assert_eq;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::{LIMIT, play};

async fn connect(standin: &Standin) -> SendRequest<Bytes> {
    let socket = TcpStream::connect(standin.address()).await.unwrap();
    let (send, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    send.ready().await.unwrap()
}

async fn ask(send: &mut SendRequest<Bytes>) -> Result<RecvStream, h2::Error> {
    let request = Request::post("http://h/v1/chat/completions")
        .body(())
        .unwrap();
    let (response, mut body) = send.send_request(request, false)?;
    body.send_data(Bytes::from_static(b"{\"stream\":true}"), true)?;
    let response = response.await?;
    assert_eq!(response.status(), StatusCode::OK);
    Ok(response.into_body())
}

async fn read(body: &mut RecvStream) -> (String, Option<h2::Error>) {
    let mut text = String::new();
    while let Some(chunk) = body.data().await {
        match chunk {
            Ok(chunk) => {
                text.push_str(std::str::from_utf8(&chunk).unwrap());
                body.flow_control().release_capacity(chunk.len()).unwrap();
            }
            Err(error) => return (text, Some(error)),
        }
    }
    (text, None)
}

#[tokio::test]
async fn an_answer_comes_over_http2_on_the_same_port() {
    let standin = play("answer \"ok\"").await;
    let mut send = connect(&standin).await;

    let (text, error) = read(&mut ask(&mut send).await.unwrap()).await;
    let (again, _) = read(&mut ask(&mut send).await.unwrap()).await;

    assert!(error.is_none());
    assert!(
        text.contains("\"ok\"") && text.ends_with("data: [DONE]\n\n"),
        "{text}"
    );
    assert!(again.contains("chatcmpl-2"));
    let seen = standin.requests();
    assert!(
        seen.iter()
            .all(|request| request.http2 && request.connection == 1)
    );
    assert_eq!(seen[1].on_connection, 2);
    assert_eq!(&seen[0].body[..], b"{\"stream\":true}");
}

#[tokio::test]
async fn a_stream_is_reset_with_the_code_that_was_said_behind_what_was_written() {
    let script = "attempt 1: text \"a\"; rst\nattempt 2: text \"b\"; h2.reset ENHANCE_YOUR_CALM\n\
                  attempt 3: h2.reset REFUSED_STREAM";
    let standin = play(script).await;
    let mut send = connect(&standin).await;

    let (first, reset) = read(&mut ask(&mut send).await.unwrap()).await;
    assert!(first.contains("\"a\""));
    assert_eq!(reset.unwrap().reason(), Some(Reason::INTERNAL_ERROR));

    let (second, reset) = read(&mut ask(&mut send).await.unwrap()).await;
    assert!(second.contains("\"b\""));
    assert_eq!(reset.unwrap().reason(), Some(Reason::ENHANCE_YOUR_CALM));

    let refused = ask(&mut send).await.unwrap_err();
    assert_eq!(refused.reason(), Some(Reason::REFUSED_STREAM));
    assert_eq!(standin.requests()[2].ended.unwrap().0, End::Reset);
}

#[tokio::test]
async fn a_peer_that_resets_its_stream_is_noticed_and_others_go_on() {
    let standin = play("attempt 1: status 200 sse; hold\nattempt 2: answer \"ok\"").await;
    let mut send = connect(&standin).await;

    let body = ask(&mut send).await.unwrap();
    drop(body);

    assert!(standin.wait_for_peer_closed(0, LIMIT).await.is_some());
    assert_eq!(standin.requests()[0].ended.unwrap().0, End::PeerLeft);
    assert!(
        read(&mut ask(&mut send).await.unwrap())
            .await
            .0
            .contains("\"ok\"")
    );
}

#[tokio::test]
async fn a_connection_that_is_dropped_ends_its_streams() {
    let standin = play("status 200 sse; hold").await;
    let socket = TcpStream::connect(standin.address()).await.unwrap();
    let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
    let driver = tokio::spawn(connection);
    let body = ask(&mut send).await.unwrap();

    driver.abort();
    drop((send, body));

    assert!(standin.wait_for_peer_closed(0, LIMIT).await.is_some());
    let request = standin.wait_for_end(0, LIMIT).await.unwrap();
    assert_eq!(request.ended.unwrap().0, End::PeerLeft);
}

#[tokio::test]
async fn a_cut_over_http2_closes_the_connection() {
    let standin = play("text \"a\"; cut").await;
    let mut send = connect(&standin).await;

    let (text, error) = read(&mut ask(&mut send).await.unwrap()).await;

    assert!(text.contains("\"a\""));
    assert!(error.unwrap().is_io());
    assert_eq!(standin.requests()[0].ended.unwrap().0, End::Cut);
}

#[tokio::test]
async fn a_goaway_lets_its_own_stream_finish_and_with_a_code_does_not() {
    let standin = play("h2.goaway; +1 answer \"ok\"").await;
    let mut send = connect(&standin).await;
    let (text, error) = read(&mut ask(&mut send).await.unwrap()).await;
    assert!(error.is_none() && text.contains("\"ok\""), "{error:?}");
    assert!(ask(&mut send).await.is_err());

    let standin = play("text \"a\"; +1 h2.goaway 11").await;
    let socket = TcpStream::connect(standin.address()).await.unwrap();
    let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
    let driver = tokio::spawn(connection);
    let (text, error) = read(&mut ask(&mut send).await.unwrap()).await;
    assert!(text.contains("\"a\"") && error.is_some());
    let error = driver.await.unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(Reason::ENHANCE_YOUR_CALM));
}

#[tokio::test]
async fn tls_speaks_the_version_that_was_agreed_on() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let standin = Standin::script("answer \"ok\"").unwrap();
    let standin = standin.tls(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key));
    let standin = standin.start().await.unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    assert!(standin.url().starts_with("https://127.0.0.1:"));

    let socket = TcpStream::connect(standin.address()).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let socket = connector
        .connect("localhost".try_into().unwrap(), socket)
        .await
        .unwrap();
    assert_eq!(socket.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);

    assert!(
        read(&mut ask(&mut send).await.unwrap())
            .await
            .0
            .contains("\"ok\"")
    );
    assert!(standin.requests()[0].http2);
}
