//! HTTP/2 with prior knowledge: streams, their limits, and what ends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Connection as Served, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use lifesign::transport::{
    ConnectProgress, Connection, Endpoint, Exchange, Step, Transport, TransportConfig,
    TransportErrorKind,
};
use lifesign::{CallReport, CallRequest, Client, Request as Prompt, Upstream, Wire};
use lifesign_core::{FailureCode, Layer, Origin, Target, Value, resolve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::server::{closed, config, open, pends, post, steps, transport, until, within};

const MOMENT: Duration = Duration::from_millis(40);
const SOON: Duration = Duration::from_secs(5);

/// A request that reached a server, and which of its connections it came on.
struct Arrived {
    connection: usize,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
}

/// A server that hands every request to the test.
struct Server {
    endpoint: Endpoint,
    arrived: mpsc::UnboundedReceiver<Arrived>,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

impl Server {
    async fn start(limit: Option<u32>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = endpoint(&listener);
        let (arrivals, arrived) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let open = Arc::new(AtomicUsize::new(0));
        let (count, opened) = (Arc::clone(&connections), Arc::clone(&open));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let connection = count.fetch_add(1, Ordering::SeqCst);
                opened.fetch_add(1, Ordering::SeqCst);
                let (arrivals, opened) = (arrivals.clone(), Arc::clone(&opened));
                tokio::spawn(async move {
                    let mut builder = h2::server::Builder::new();
                    if let Some(limit) = limit {
                        builder.max_concurrent_streams(limit);
                    }
                    let mut served: Served<TcpStream, Bytes> =
                        builder.handshake(socket).await.unwrap();
                    while let Some(Ok((request, respond))) = served.accept().await {
                        let arrived = Arrived {
                            connection,
                            request,
                            respond,
                        };
                        if arrivals.send(arrived).is_err() {
                            break;
                        }
                    }
                    opened.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            endpoint,
            arrived,
            connections,
            open,
        }
    }

    async fn next(&mut self) -> Arrived {
        self.arrived.recv().await.unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn endpoint(listener: &TcpListener) -> Endpoint {
    let url = format!("http://{}/", listener.local_addr().unwrap());
    Endpoint::parse(&url.parse().unwrap(), true).unwrap()
}

/// Runs the exchange while it has nothing to say but that it sends, so that its request arrives.
async fn push(exchange: &mut Exchange) {
    until(exchange, "sent").await;
}

/// Sends the headers of a 200 and returns the body's stream.
fn answer(arrived: &mut Arrived) -> h2::SendStream<Bytes> {
    arrived
        .respond
        .send_response(Response::new(()), false)
        .unwrap()
}

async fn failure(exchange: &mut Exchange) -> (Vec<String>, TransportErrorKind) {
    let mut seen = Vec::new();
    loop {
        match exchange.step().await {
            Ok(Step::Head(head)) => seen.push(format!("head {}", head.status.as_u16())),
            Ok(Step::Chunk(chunk)) => seen.push(String::from_utf8_lossy(&chunk).into_owned()),
            Ok(Step::End) => panic!("ended properly after {seen:?}"),
            Ok(_) => {}
            Err(error) => return (seen, error.kind),
        }
    }
}

#[tokio::test]
async fn an_exchange_tells_sent_head_chunks_and_end_in_order() {
    let mut server = Server::start(None).await;
    let transport = transport();

    let connection = open(&transport, &server.endpoint).await;
    assert!(connection.is_http2());
    let mut exchange = connection.send(post("{}"));
    push(&mut exchange).await;
    let mut arrived = server.next().await;
    let mut body = answer(&mut arrived);
    body.send_data(Bytes::from_static(b"hi"), true).unwrap();
    let seen = steps(&mut exchange).await;

    assert_eq!(seen, ["head 200", "chunk hi", "end"]);
    assert_eq!(
        arrived.request.uri().to_string(),
        format!("http://{}/v1/messages", server.endpoint)
    );
    assert_eq!(arrived.request.headers()["content-length"], "2");
    assert!(!arrived.request.headers().contains_key("host"));
}

#[tokio::test]
async fn trailers_are_there_once_the_body_has_ended() {
    let mut server = Server::start(None).await;
    let transport = transport();
    let mut exchange = open(&transport, &server.endpoint).await.send(post("{}"));
    push(&mut exchange).await;
    let mut arrived = server.next().await;
    let mut body = answer(&mut arrived);
    body.send_data(Bytes::from_static(b"hi"), false).unwrap();
    until(&mut exchange, "chunk hi").await;
    assert!(exchange.trailers().is_none());

    let trailers = [("grpc-status", "0")].map(|(name, value)| {
        let name = http::HeaderName::from_static(name);
        (name, http::HeaderValue::from_static(value))
    });
    body.send_trailers(trailers.into_iter().collect()).unwrap();

    assert_eq!(steps(&mut exchange).await, ["end"]);
    assert_eq!(exchange.trailers().unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn exchanges_share_a_connection() {
    let mut server = Server::start(None).await;
    let transport = transport();

    let mut first = open(&transport, &server.endpoint).await.send(post("1"));
    push(&mut first).await;
    let second = open(&transport, &server.endpoint).await;
    assert!(second.is_reused());
    let mut second = second.send(post("2"));
    push(&mut second).await;

    for _ in 0..2 {
        assert_eq!(server.next().await.connection, 0);
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn calls_that_begin_together_wait_for_one_opening() {
    let mut server = Server::start(None).await;
    let transport = Arc::new(transport());

    let calls: Vec<_> = (0..20)
        .map(|_| {
            let (transport, endpoint) = (Arc::clone(&transport), server.endpoint.clone());
            tokio::spawn(async move {
                let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
                push(&mut exchange).await;
                exchange
            })
        })
        .collect();
    for _ in 0..20 {
        server.next().await;
    }

    assert_eq!(server.connections(), 1);
    for call in calls {
        call.await.unwrap();
    }
}

/// Begins `count` exchanges one after the other and counts how many came on each connection.
async fn spread(server: &mut Server, count: usize) -> Vec<usize> {
    let transport = transport();
    let mut exchanges = Vec::new();
    let mut by_connection = Vec::new();
    for _ in 0..count {
        let mut exchange = open(&transport, &server.endpoint).await.send(post("{}"));
        push(&mut exchange).await;
        let arrived = server.next().await;
        by_connection.resize(by_connection.len().max(arrived.connection + 1), 0);
        by_connection[arrived.connection] += 1;
        exchanges.push((exchange, arrived));
    }
    by_connection
}

#[tokio::test]
async fn beyond_the_peers_limit_of_streams_another_connection_is_opened() {
    let mut server = Server::start(Some(2)).await;

    assert_eq!(spread(&mut server, 5).await, [2, 2, 1]);
}

#[tokio::test]
async fn no_connection_carries_more_than_64_streams() {
    let mut server = Server::start(Some(1000)).await;

    assert_eq!(spread(&mut server, 65).await, [64, 1]);
}

#[tokio::test]
async fn a_stream_that_ends_makes_room_for_the_next() {
    let mut server = Server::start(Some(1)).await;
    let transport = transport();

    for _ in 0..3 {
        let mut exchange = open(&transport, &server.endpoint).await.send(post("{}"));
        push(&mut exchange).await;
        let mut arrived = server.next().await;
        answer(&mut arrived)
            .send_data(Bytes::from_static(b"hi"), true)
            .unwrap();
        steps(&mut exchange).await;
        exchange.finish();
    }

    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_stream_reset_before_the_head_ends_that_stream_alone() {
    let mut server = Server::start(None).await;
    let transport = transport();
    let mut exchange = open(&transport, &server.endpoint).await.send(post("{}"));
    push(&mut exchange).await;

    server
        .next()
        .await
        .respond
        .send_reset(Reason::INTERNAL_ERROR);
    let (seen, kind) = failure(&mut exchange).await;

    assert_eq!(
        (seen, kind),
        (vec![], TransportErrorKind::StreamReset { reason: 2 })
    );
    assert!(open(&transport, &server.endpoint).await.is_reused());
}

#[tokio::test]
async fn a_stream_reset_inside_the_body_keeps_what_came() {
    let mut server = Server::start(None).await;
    let transport = transport();
    let mut exchange = open(&transport, &server.endpoint).await.send(post("{}"));
    push(&mut exchange).await;
    let mut arrived = server.next().await;
    let mut body = answer(&mut arrived);
    body.send_data(Bytes::from_static(b"a"), false).unwrap();
    until(&mut exchange, "chunk a").await;

    body.send_reset(Reason::INTERNAL_ERROR);
    let (seen, kind) = failure(&mut exchange).await;

    assert_eq!(
        (seen, kind),
        (vec![], TransportErrorKind::StreamReset { reason: 2 })
    );
}

#[tokio::test]
async fn a_refused_stream_is_told_from_one_that_was_reset() {
    let mut server = Server::start(None).await;
    let transport = transport();
    let mut exchange = open(&transport, &server.endpoint).await.send(post("{}"));
    push(&mut exchange).await;

    server
        .next()
        .await
        .respond
        .send_reset(Reason::REFUSED_STREAM);

    assert_eq!(
        failure(&mut exchange).await.1,
        TransportErrorKind::StreamRefused
    );
}

#[tokio::test]
async fn a_go_away_ends_the_exchange_and_the_next_one_gets_another_connection() {
    // Empty SETTINGS, then GOAWAY: no stream was looked at, ENHANCE_YOUR_CALM.
    const FRAMES: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
        \0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener);
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"{}") {
            assert!(socket.read_buf(&mut request).await.unwrap() > 0);
        }
        socket.write_all(FRAMES).await.unwrap();
        let second = listener.accept().await.unwrap();
        (socket, second)
    });
    let transport = transport();
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));

    let (_, kind) = failure(&mut exchange).await;

    assert_eq!(kind, TransportErrorKind::GoAway { reason: 11 });
    assert!(!open(&transport, &endpoint).await.is_reused());
    server.await.unwrap();
}

#[tokio::test]
async fn a_connection_closed_under_its_streams_is_closed_and_not_reset() {
    for answered in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = endpoint(&listener);
        let server = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let mut served = h2::server::handshake(socket).await.unwrap();
            let (request, mut respond) = served.accept().await.unwrap().unwrap();
            let body = answered.then(|| respond.send_response(Response::new(()), false).unwrap());
            served.graceful_shutdown();
            let served = pends(MOMENT, std::future::poll_fn(|cx| served.poll_closed(cx)));
            assert!(served.await);
            drop((request, respond, body));
        });
        let transport = transport();
        let mut exchange = open(&transport, &endpoint).await.send(post("{}"));

        let (seen, kind) = failure(&mut exchange).await;

        let expected = if answered {
            (
                vec!["head 200".to_owned()],
                TransportErrorKind::ClosedInBody,
            )
        } else {
            (vec![], TransportErrorKind::Closed)
        };
        assert_eq!((seen, kind), expected);
        server.await.unwrap();
    }
}

#[tokio::test]
async fn a_graceful_go_away_lets_open_streams_end_and_takes_no_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener);
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut served = h2::server::handshake(socket).await.unwrap();
        let (_request, mut respond) = served.accept().await.unwrap().unwrap();
        served.graceful_shutdown();
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"a"), false).unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(MOMENT).await;
            body.send_data(Bytes::from_static(b"b"), true).unwrap();
        });
        while served.accept().await.is_some() {}
        while listener.accept().await.is_ok() {}
    });
    let transport = transport();
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    until(&mut exchange, "chunk a").await;

    let second = transport
        .open(&endpoint, false, &ConnectProgress::new())
        .await;
    let reused = second.is_ok_and(|connection| connection.is_reused());
    let seen = steps(&mut exchange).await;

    assert!(
        !reused,
        "the second exchange was given the dying connection"
    );
    assert_eq!(seen, ["chunk b", "end"]);
}

#[tokio::test]
async fn a_poisoned_connection_carries_on_but_takes_no_further_stream() {
    let mut server = Server::start(None).await;
    let transport = transport();
    let mut silent = open(&transport, &server.endpoint).await.send(post("1"));
    push(&mut silent).await;
    let _silent_arrived = server.next().await;
    let mut other = open(&transport, &server.endpoint).await.send(post("2"));
    push(&mut other).await;
    let mut arrived = server.next().await;

    silent.poison();
    drop(silent);
    let next = open(&transport, &server.endpoint).await;

    assert!(!next.is_reused());
    answer(&mut arrived)
        .send_data(Bytes::from_static(b"hi"), true)
        .unwrap();
    assert_eq!(steps(&mut other).await, ["head 200", "chunk hi", "end"]);
    // With its last stream the poisoned connection is closed.
    drop(other);
    let open = Arc::clone(&server.open);
    assert!(within(SOON, || open.load(Ordering::SeqCst) == 1).await);
}

#[tokio::test]
async fn a_dropped_exchange_resets_its_stream_and_keeps_the_connection() {
    let mut server = Server::start(None).await;
    let transport = transport();
    let mut exchange = open(&transport, &server.endpoint).await.send(post("{}"));
    push(&mut exchange).await;
    let mut arrived = server.next().await;
    let mut body = answer(&mut arrived);
    until(&mut exchange, "head 200").await;

    drop(exchange);
    let reason = std::future::poll_fn(|cx| body.poll_reset(cx))
        .await
        .unwrap();

    assert_eq!(reason, Reason::CANCEL);
    assert!(open(&transport, &server.endpoint).await.is_reused());
}

#[tokio::test]
async fn an_exchange_dropped_before_the_head_resets_its_stream() {
    let mut server = Server::start(None).await;
    let transport = transport();
    let mut exchange = open(&transport, &server.endpoint).await.send(post("{}"));
    push(&mut exchange).await;
    let mut arrived = server.next().await;

    drop(exchange);
    let reason = std::future::poll_fn(|cx| arrived.respond.poll_reset(cx))
        .await
        .unwrap();

    assert_eq!(reason, Reason::CANCEL);
}

#[tokio::test]
async fn a_connection_without_a_stream_is_closed_after_the_idle_limit() {
    let mut server = Server::start(None).await;
    let transport = Transport::new(TransportConfig {
        pool_idle_for: MOMENT,
        ..config()
    })
    .unwrap();
    let mut exchange = open(&transport, &server.endpoint).await.send(post("{}"));
    push(&mut exchange).await;
    let _arrived = server.next().await;
    let open = Arc::clone(&server.open);

    // An open stream keeps it.
    tokio::time::sleep(MOMENT * 3).await;
    assert_eq!(open.load(Ordering::SeqCst), 1);
    drop(exchange);

    assert!(within(SOON, || open.load(Ordering::SeqCst) == 0).await);
}

#[tokio::test]
async fn a_dropped_transport_closes_its_connections() {
    let mut server = Server::start(None).await;
    let transport = transport();
    let mut exchange = open(&transport, &server.endpoint).await.send(post("{}"));
    push(&mut exchange).await;
    let _arrived = server.next().await;
    drop(exchange);

    drop(transport);

    let open = Arc::clone(&server.open);
    assert!(within(SOON, || open.load(Ordering::SeqCst) == 0).await);
}

#[tokio::test]
async fn waiting_for_a_place_is_being_queued_and_ends_when_the_connection_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener);
    // It never says how many streams it allows.
    let server = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        closed(&mut first).await;
        listener.accept().await.unwrap()
    });
    let transport = transport();
    let first = open(&transport, &endpoint).await.send(post("1"));
    let progress = ConnectProgress::new();

    let mut second = Box::pin(transport.open(&endpoint, false, &progress));
    assert!(pends(MOMENT, second.as_mut()).await);
    assert!(progress.is_queued());
    assert_eq!(progress.stage(), None);
    first.poison();
    drop(first);
    let second = second.await.unwrap();

    assert!(!second.is_reused());
    server.await.unwrap();
}

#[tokio::test]
async fn a_large_request_is_accepted_as_the_window_opens() {
    let mut server = Server::start(None).await;
    let transport = transport();
    let body = Bytes::from(vec![b'x'; 300 << 10]);
    let mut exchange = open(&transport, &server.endpoint).await.send(post(body));
    let arriving = tokio::spawn(async move {
        let arrived = server.next().await;
        (server, arrived)
    });

    let mut wrote = 0;
    while !pends(MOMENT, async {
        let step = exchange.step().await.unwrap();
        assert!(matches!(step, Step::Wrote), "{step:?}");
    })
    .await
    {
        wrote += 1;
    }
    assert!(wrote >= 1);

    let (_server, mut arrived) = arriving.await.unwrap();
    tokio::spawn(async move {
        let body = arrived.request.body_mut();
        while let Some(Ok(piece)) = body.data().await {
            body.flow_control().release_capacity(piece.len()).unwrap();
        }
    });
    let mut after = 0;
    loop {
        match exchange.step().await.unwrap() {
            Step::Wrote => after += 1,
            Step::Sent => break,
            step => panic!("{step:?}"),
        }
    }
    assert!(after > 1, "{after}");
}

#[tokio::test]
async fn opening_that_hangs_is_shown_to_all_who_wait_and_dropped_with_the_last() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let endpoint = Endpoint::parse(&url.parse().unwrap(), true).unwrap();
    let transport = transport();
    let (one, two) = (ConnectProgress::new(), ConnectProgress::new());

    let mut first = Box::pin(transport.open(&endpoint, false, &one));
    let mut second = Box::pin(transport.open(&endpoint, false, &two));
    assert!(pends(MOMENT, first.as_mut()).await);
    assert!(pends(MOMENT, second.as_mut()).await);
    let (mut socket, _) = listener.accept().await.unwrap();

    assert_eq!(one.stage(), Some(lifesign_core::Stage::Tls));
    assert_eq!(two.stage(), Some(lifesign_core::Stage::Tls));
    drop(first);
    let mut sink = [0; 4096];
    assert!(socket.read(&mut sink).await.unwrap() > 0, "a client hello");
    assert!(pends(MOMENT, socket.read(&mut sink)).await);
    drop(second);
    assert_eq!(socket.read(&mut sink).await.unwrap(), 0);
}

/// The type is what calls hold between opening and sending.
#[test]
fn connections_and_exchanges_can_cross_threads() {
    fn is_send<T: Send>() {}
    is_send::<Connection>();
    is_send::<Exchange>();
}

/// A server that knows no HTTP/2 was told as one that sends frames of an invalid size.
#[tokio::test]
async fn a_server_that_answers_in_other_words_than_http2_is_told_with_the_setting() {
    let refusal = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    for (pieces, message) in [
        ([refusal, ""], "the server answered HTTP/2 in HTTP/1"),
        (
            ["HT", "TP/1.0 505 Version Not Supported\r\n\r\n"],
            "the server answered HTTP/2 in HTTP/1",
        ),
        (
            ["<!DOCTYPE HTML>", "<p>Bad request version ('HTTP/2.0')"],
            "the server answered HTTP/2 with something else",
        ),
    ] {
        let report = call_at(move |mut socket| async move {
            let mut opening = [0; 24];
            socket.read_exact(&mut opening).await.unwrap();
            for piece in pieces {
                socket.write_all(piece.as_bytes()).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            closed(&mut socket).await;
        })
        .await;

        let failure = report.failure.unwrap();
        assert_eq!(failure.code, FailureCode::Unreadable);
        assert!(failure.message.ends_with(message), "{}", failure.message);
        assert!(failure.hint.unwrap().contains("`http2 = true`"));
        assert!(!failure.retryable);
        assert_eq!(report.attempts.len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_on_http2_without_a_word_is_told_with_the_setting() {
    let report = call_at(|mut socket| async move {
        let mut opening = [0; 24];
        socket.read_exact(&mut opening).await.unwrap();
    })
    .await;

    let failure = report.failure.unwrap();
    assert_eq!(failure.code, FailureCode::ConnectionLost);
    assert!(
        failure
            .message
            .contains("the connection was closed before a word of HTTP/2 came"),
        "{}",
        failure.message
    );
    assert!(failure.hint.unwrap().contains("`http2 = true`"));
    assert!(failure.retryable);
}

/// Calls over HTTP/2 and serves each connection so.
async fn call_at<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> CallReport
where
    F: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            serve(socket).await;
        }
    });
    let client = Client::with_transport(config()).unwrap();
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &url).unwrap().with_http2();
    let mut layer = Layer::new();
    for (key, value) in [
        ("retry.transport.first_delay", "1ms"),
        ("retry.attempts", "2"),
    ] {
        layer.set(key, Value::Text(value), Origin::Call).unwrap();
    }
    let wire = Wire::OPENAI_CHAT.defaults();
    let target = Target {
        wire: &wire,
        host: None,
        model: None,
    };
    let settings = resolve(&[&layer], &target).unwrap();

    let request = CallRequest::new(upstream, Prompt::prompt("m", "hi")).settings(settings);
    let failed = client.answer(request).await.unwrap_err();
    CallReport::from(&*failed)
}
