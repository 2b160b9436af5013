//! Bytes that two servers could take apart differently.

use pretty_assertions::assert_eq;

use super::*;

/// What must never be seen as a request of its own.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn ambiguous_heads_are_refused_and_nothing_after_them_is_read() {
    let server = Running::start(ServerLimits::default());

    for fields in [
        // hyper takes these; the watch over heads does not.
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "X: y\nContent-Length: 0\r\n\r\n",
        "X: y\r\n\n",
        "\n",
        // hyper refuses these.
        "Content-Length: 0\r\nContent-Length: 35\r\n\r\n",
        "Content-Length: +0\r\n\r\n",
        "Content-Length: 0x0\r\n\r\n",
        "Content-Length: 0, 0\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "X: y\r\n folded: z\r\n\r\n",
        "X: y\r\n\tTransfer-Encoding: chunked\r\n\r\n",
        "Content-Length : 35\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n",
        "Transfer-Encoding\r\n: chunked\r\n\r\n",
        "X: y\rContent-Length: 35\r\n\r\n",
        "X: \0\r\n\r\n",
    ] {
        let request = format!("POST /first HTTP/1.1\r\nHost: a\r\n{fields}{SMUGGLED}");
        let answer = server.ask(&request).await;

        assert!(answer.starts_with("HTTP/1.1 400 "), "{fields:?}: {answer}");
        assert_eq!(
            answer.matches("HTTP/1.1").count(),
            1,
            "{fields:?}: {answer}"
        );
        assert!(answer.contains("connection: close"), "{fields:?}: {answer}");
    }
    assert_eq!(server.service.seen(), [""; 0]);
}

#[tokio::test]
async fn nothing_is_read_after_a_chunked_body_however_it_ends() {
    let server = Running::start(ServerLimits::default());

    let bodies = [
        "5\r\nhello\r\n0\r\n\r\n",
        "5;\r\nhello\r\n0\r\n\r\n",
        "5;x=y\r\nhello\r\n0\r\n\r\n",
        "5;\nGET /smuggled HTTP/1.1\r\n\r\n0\r\n\r\n",
        "5;\"\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "05\r\nhello\r\n00\r\n\r\n",
        "5\nhello\n0\n\n",
        "5\r\nhelloX0\r\n\r\n",
        "fffffffffffffffff\r\nhello",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "0\r\nTrailer: a\r\n\r\n",
        "0\r\nContent-Length: 5\r\n\r\n",
    ];
    for body in bodies {
        let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = server.ask(&[head, body, SMUGGLED].concat()).await;

        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{body:?}: {answer}");
        assert!(answer.contains("connection: close"), "{body:?}: {answer}");
    }
    let seen = server.service.seen();
    assert_eq!(seen, vec!["/echo"; bodies.len()]);
}

#[tokio::test]
async fn a_chunked_body_of_http_1_0_is_refused() {
    let server = Running::start(ServerLimits::default());

    let head = "POST /first HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let answer = server.ask(&[head, SMUGGLED].concat()).await;

    assert!(
        answer.starts_with("HTTP/1.0 400 ") || answer.starts_with("HTTP/1.1 400 "),
        "{answer}"
    );
    assert_eq!(server.service.seen(), [""; 0]);
}

#[tokio::test]
async fn a_second_head_is_looked_at_like_the_first() {
    let server = Running::start(ServerLimits::default());
    let mut caller = server.connect().await;
    let post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\n\r\n";
    send(&mut caller, &[post, SMUGGLED]).await;
    read_until(&mut caller, "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n").await;

    send(
        &mut caller,
        &["GET /first HTTP/1.1\r\nHost: a\r\nX: y\n\r\n", SMUGGLED],
    )
    .await;
    let answer = read_to_end(&mut caller).await;

    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(server.service.seen(), ["/echo"]);
}

#[tokio::test]
async fn connect_and_http2_end_the_connection() {
    let server = Running::start(ServerLimits::default());

    for request in [
        "CONNECT a.test:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        server.ask(&[request, SMUGGLED].concat()).await;
    }

    assert!(!server.service.seen().contains(&"/smuggled".to_owned()));
}
