//! HTTP/1.1: exchanges, what ends them, and what becomes of their connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use lifesign::transport::{
    ConnectErrorKind, ConnectProgress, Endpoint, Step, Transport, TransportConfig,
    TransportErrorKind,
};
use lifesign_core::Stage;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::server::{
    accept_and_answer, closed, config, endpoint, listen, open, pends, post, read_request, steps,
    transport, until, within,
};

const SHORT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
const MOMENT: Duration = Duration::from_millis(40);
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn an_exchange_tells_sent_head_chunks_and_end_in_order() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let request = read_request(&mut socket).await;
        socket.write_all(CHUNKED.as_bytes()).await.unwrap();
        socket.write_all(b"2\r\nhi\r\n0\r\n\r\n").await.unwrap();
        (request, socket)
    });

    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    let seen = steps(&mut exchange).await;

    assert_eq!(seen, ["sent", "head 200", "chunk hi", "end"]);
    let (request, _socket) = server.await.unwrap();
    assert_eq!(
        request,
        format!("POST /v1/messages HTTP/1.1\r\nhost: {endpoint}\r\ncontent-length: 2\r\n\r\n{{}}")
    );
}

/// hyper's connection and its body wake each other, and here both are polled by one task: it was
/// polled a second time for every chunk.
#[tokio::test]
async fn a_chunk_wakes_once_and_what_has_been_taken_wakes_nobody() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        socket.write_all(CHUNKED.as_bytes()).await.unwrap();
        socket.write_all(b"2\r\nhi\r\n").await.unwrap();
        socket
    });
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    until(&mut exchange, "chunk hi").await;
    let mut socket = server.await.unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);

    assert!(exchange.poll_step(&mut cx).is_pending());
    assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
    socket.write_all(b"2\r\nho\r\n").await.unwrap();
    assert!(within(SOON, || wakes.0.load(Ordering::SeqCst) > 0).await);
    let step = exchange.poll_step(&mut cx);

    assert!(matches!(step, Poll::Ready(Ok(Step::Chunk(chunk))) if chunk == "ho"));
    assert!(exchange.poll_step(&mut cx).is_pending());
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_connection_whose_body_ended_is_used_again() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        for _ in 0..2 {
            read_request(&mut socket).await;
            socket.write_all(SHORT.as_bytes()).await.unwrap();
        }
        socket
    });

    let first = open(&transport, &endpoint).await;
    assert!(!first.is_reused());
    let mut exchange = first.send(post("{}"));
    steps(&mut exchange).await;
    exchange.finish();

    assert_eq!(transport.idle(), 1);
    let second = open(&transport, &endpoint).await;
    assert!(second.is_reused());
    let seen = steps(&mut second.send(post("{}"))).await;
    assert_eq!(seen, ["sent", "head 200", "chunk ok", "end"]);
    server.await.unwrap();
}

#[tokio::test]
async fn a_fresh_connection_is_opened_where_one_is_asked_for() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move {
        let first = accept_and_answer(&listener, SHORT).await;
        let second = accept_and_answer(&listener, SHORT).await;
        (first, second)
    });
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    steps(&mut exchange).await;
    exchange.finish();

    let connection = transport
        .open(&endpoint, true, &ConnectProgress::new())
        .await
        .unwrap();

    assert!(!connection.is_reused());
    steps(&mut connection.send(post("{}"))).await;
    server.await.unwrap();
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closes_is_dropped_at_once() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move { accept_and_answer(&listener, SHORT).await });
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    steps(&mut exchange).await;
    exchange.finish();
    assert_eq!(transport.idle(), 1);

    drop(server.await.unwrap());

    assert!(within(SOON, || transport.idle() == 0).await);
}

#[tokio::test]
async fn a_closed_connection_is_not_handed_out_though_the_io_driver_has_not_run() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move { accept_and_answer(&listener, SHORT).await });
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    steps(&mut exchange).await;
    exchange.finish();
    let socket = server.await.unwrap();

    drop(socket);
    // Loopback delivers the FIN before the drop returns; nothing here lets the driver run.
    let progress = ConnectProgress::new();
    let opened = transport.open(&endpoint, false, &progress).await;

    assert_eq!(opened.unwrap_err().kind, ConnectErrorKind::Refused);
}

#[tokio::test]
async fn bytes_that_nobody_asked_for_end_an_idle_connection() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move { accept_and_answer(&listener, SHORT).await });
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    steps(&mut exchange).await;
    exchange.finish();
    let mut socket = server.await.unwrap();

    socket
        .write_all(b"HTTP/1.1 408 Slow\r\n\r\n")
        .await
        .unwrap();

    assert!(within(SOON, || transport.idle() == 0).await);
}

/// Makes one exchange on each of `count` connections at once and lets all of them go.
async fn exchange_side_by_side(
    transport: &Transport,
    listener: TcpListener,
    endpoint: &Endpoint,
    count: usize,
) -> Vec<TcpStream> {
    let server = tokio::spawn(async move {
        let mut held = Vec::new();
        for _ in 0..count {
            held.push(accept_and_answer(&listener, SHORT).await);
        }
        held
    });
    let mut exchanges = Vec::new();
    for _ in 0..count {
        let mut exchange = open(transport, endpoint).await.send(post("{}"));
        steps(&mut exchange).await;
        exchanges.push(exchange);
    }
    for exchange in exchanges {
        exchange.finish();
    }
    server.await.unwrap()
}

#[tokio::test]
async fn no_more_connections_are_kept_than_the_pool_may_hold() {
    let (listener, endpoint) = listen().await;
    let transport = Transport::new(TransportConfig {
        pool_idle: 2,
        ..config()
    })
    .unwrap();

    let mut sockets = exchange_side_by_side(&transport, listener, &endpoint, 3).await;

    assert_eq!(transport.idle(), 2);
    closed(&mut sockets[0]).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_idle_limit() {
    let (listener, endpoint) = listen().await;
    let transport = Transport::new(TransportConfig {
        pool_idle_for: MOMENT,
        ..config()
    })
    .unwrap();

    let mut sockets = exchange_side_by_side(&transport, listener, &endpoint, 2).await;

    for socket in &mut sockets {
        closed(socket).await;
    }
    assert_eq!(transport.idle(), 0);
}

#[tokio::test]
async fn a_dropped_transport_closes_its_idle_connections() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let mut sockets = exchange_side_by_side(&transport, listener, &endpoint, 2).await;
    assert_eq!(transport.idle(), 2);

    drop(transport);

    for socket in &mut sockets {
        closed(socket).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_on_several_threads_share_a_transport() {
    let (listener, endpoint) = listen().await;
    let transport = Arc::new(transport());
    let server = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while matches!(socket.read(&mut request).await, Ok(len) if len > 0) {
                    if socket.write_all(SHORT.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });

    let calls: Vec<_> = (0..16)
        .map(|_| {
            let (transport, endpoint) = (Arc::clone(&transport), endpoint.clone());
            tokio::spawn(async move {
                for _ in 0..50 {
                    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
                    let seen = steps(&mut exchange).await;
                    assert_eq!(seen, ["sent", "head 200", "chunk ok", "end"]);
                    exchange.finish();
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }

    assert!(within(SOON, || (1..=16).contains(&transport.idle())).await);
    server.abort();
}

#[tokio::test]
async fn a_body_that_does_not_end_costs_its_connection_but_no_time() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move {
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(accept_and_answer(&listener, &format!("{CHUNKED}2\r\nok\r\n")).await);
        }
        held
    });
    let began = tokio::time::Instant::now();

    for _ in 0..5 {
        let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
        until(&mut exchange, "chunk ok").await;
        exchange.finish();
    }

    let spent = began.elapsed();
    assert!(spent < Duration::from_secs(1), "{spent:?}");
    for mut socket in server.await.unwrap() {
        closed(&mut socket).await;
    }
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(240), "{waited:?}");
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    assert_eq!(transport.idle(), 0);
}

#[tokio::test]
async fn a_body_that_ends_a_moment_later_saves_its_connection() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move {
        let mut socket = accept_and_answer(&listener, &format!("{CHUNKED}2\r\nok\r\n")).await;
        tokio::time::sleep(MOMENT).await;
        socket.write_all(b"0\r\n\r\n").await.unwrap();
        socket
    });
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    until(&mut exchange, "chunk ok").await;

    exchange.finish();

    assert_eq!(transport.idle(), 0);
    let _socket = server.await.unwrap();
    assert!(within(SOON, || transport.idle() == 1).await);
}

#[tokio::test]
async fn a_body_that_goes_on_after_the_answer_is_read_64_kib_far() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move {
        let mut socket = accept_and_answer(&listener, &format!("{CHUNKED}2\r\nok\r\n")).await;
        let mut chunk = b"8000\r\n".to_vec();
        chunk.extend_from_slice(&vec![b'x'; 0x8000]);
        chunk.extend_from_slice(b"\r\n");
        let mut taken = 0;
        while socket.write_all(&chunk).await.is_ok() {
            taken += chunk.len();
        }
        taken
    });
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    until(&mut exchange, "chunk ok").await;

    exchange.finish();

    // Besides those, what fits into the kernel's buffers; far less than 250 ms would let through.
    let taken = server.await.unwrap();
    assert!(taken < 16 << 20, "{taken}");
}

#[tokio::test]
async fn a_dropped_exchange_closes_its_socket_at_once() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move { accept_and_answer(&listener, CHUNKED).await });
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    until(&mut exchange, "head 200").await;
    let mut socket = server.await.unwrap();
    let began = tokio::time::Instant::now();

    drop(exchange);
    closed(&mut socket).await;

    assert!(began.elapsed() < Duration::from_millis(100));
}

#[tokio::test]
async fn half_a_chunk_header_is_raw_progress() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move { accept_and_answer(&listener, CHUNKED).await });
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    until(&mut exchange, "head 200").await;
    let mut socket = server.await.unwrap();
    let (before, _) = exchange.io_bytes();

    socket.write_all(b"0000").await.unwrap();
    let step = exchange.step().await.unwrap();

    assert!(matches!(step, Step::Raw), "{step:?}");
    assert_eq!(exchange.io_bytes().0, before + 4);
    assert!(pends(MOMENT, exchange.step()).await);
}

#[tokio::test]
async fn a_look_finds_bytes_though_the_io_driver_has_not_run() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move { accept_and_answer(&listener, CHUNKED).await });
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    until(&mut exchange, "head 200").await;
    let socket = server.await.unwrap();
    assert!(pends(MOMENT, exchange.step()).await);

    // Written behind the runtime's back.
    socket.try_write(b"2\r\nok\r\n").unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let unseen = exchange.poll_step(&mut context).is_pending();
    exchange.look();
    let seen = exchange.poll_step(&mut context).is_ready();

    assert!(unseen && seen, "{unseen} {seen}");
}

#[tokio::test]
async fn a_large_request_is_accepted_piece_by_piece() {
    let (listener, endpoint) = listen().await;
    SockRef::from(&listener)
        .set_recv_buffer_size(16 * 1024)
        .unwrap();
    let transport = transport();
    let body = Bytes::from(vec![b'x'; 16 << 20]);
    let mut exchange = open(&transport, &endpoint).await.send(post(body));
    let (mut socket, _) = listener.accept().await.unwrap();

    let mut wrote = 0;
    while !pends(MOMENT, async {
        let step = exchange.step().await.unwrap();
        assert!(matches!(step, Step::Wrote), "{step:?}");
    })
    .await
    {
        wrote += 1;
    }
    assert!(wrote >= 1, "the socket's buffer takes something");

    // The reader goes on: further writes are accepted, then the last.
    let server = tokio::spawn(async move {
        let mut sink = vec![0; 64 * 1024];
        loop {
            if socket.read(&mut sink).await.unwrap() == 0 {
                break;
            }
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
    drop(exchange);
    server.await.unwrap();
}

#[tokio::test]
async fn an_answer_before_the_request_is_whole_is_read_and_costs_the_connection() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut some = [0; 1024];
        socket.read_exact(&mut some).await.unwrap();
        socket
            .write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
            .await
            .unwrap();
        socket
    });
    let body = Bytes::from(vec![b'x'; 16 << 20]);

    let mut exchange = open(&transport, &endpoint).await.send(post(body));
    let seen = steps(&mut exchange).await;
    exchange.finish();

    assert_eq!(seen, ["head 413", "chunk no", "end"]);
    assert_eq!(transport.idle(), 0);
    closed(&mut server.await.unwrap()).await;
}

/// What `answer`, followed by a close, ends an exchange with.
async fn ending(answer: &'static str, reset: bool) -> (Vec<String>, TransportErrorKind) {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move {
        let socket = accept_and_answer(&listener, answer).await;
        if reset {
            // Time for the answer to be read before the reset throws it away.
            tokio::time::sleep(MOMENT).await;
            SockRef::from(&socket)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
        }
    });
    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    let mut seen = Vec::new();
    let kind = loop {
        match exchange.step().await {
            Ok(Step::Head(head)) => seen.push(format!("head {}", head.status.as_u16())),
            Ok(Step::Chunk(chunk)) => seen.push(String::from_utf8_lossy(&chunk).into_owned()),
            Ok(Step::End) => panic!("ended properly after {seen:?}"),
            Ok(_) => {}
            Err(error) => break error.kind,
        }
    };
    exchange.finish();
    assert_eq!(transport.idle(), 0);
    server.await.unwrap();
    (seen, kind)
}

#[tokio::test]
async fn a_connection_closed_before_or_inside_the_head_is_closed() {
    assert_eq!(
        ending("", false).await,
        (vec![], TransportErrorKind::Closed)
    );
    assert_eq!(
        ending("HTTP/1.1 200 OK\r\ncontent-le", false).await,
        (vec![], TransportErrorKind::Closed)
    );
}

#[tokio::test]
async fn a_connection_closed_inside_the_body_keeps_what_came() {
    assert_eq!(
        ending("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", false).await,
        (
            vec!["head 200".into(), "abc".into()],
            TransportErrorKind::ClosedInBody
        )
    );
    assert_eq!(
        ending(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n5",
            false
        )
        .await,
        (
            vec!["head 200".into(), "abc".into()],
            TransportErrorKind::ClosedInBody
        )
    );
}

#[tokio::test]
async fn a_reset_is_told_from_a_close_before_and_after_the_head() {
    assert_eq!(ending("", true).await, (vec![], TransportErrorKind::Reset));
    assert_eq!(
        ending(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            true
        )
        .await,
        (
            vec!["head 200".into(), "abc".into()],
            TransportErrorKind::Reset
        )
    );
}

#[tokio::test]
async fn what_is_not_http_is_unreadable() {
    assert_eq!(
        ending("SSH-2.0-OpenSSH_9.2\r\n", false).await,
        (vec![], TransportErrorKind::Unreadable)
    );
    assert_eq!(
        ending(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            false
        )
        .await,
        (vec!["head 200".into()], TransportErrorKind::Unreadable)
    );
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_the_connection() {
    let (listener, endpoint) = listen().await;
    let transport = transport();
    let server = tokio::spawn(async move {
        accept_and_answer(&listener, "HTTP/1.1 200 OK\r\n\r\nabc").await;
    });

    let mut exchange = open(&transport, &endpoint).await.send(post("{}"));
    let seen = steps(&mut exchange).await;
    exchange.finish();

    assert_eq!(seen, ["sent", "head 200", "chunk abc", "end"]);
    assert_eq!(transport.idle(), 0);
    server.await.unwrap();
}

#[tokio::test]
async fn a_name_without_an_address_fails_in_the_dns_stage() {
    let progress = ConnectProgress::new();

    let error = transport()
        .open(&endpoint("http://host.invalid/"), false, &progress)
        .await
        .unwrap_err();

    assert_eq!(
        (error.stage, error.kind.clone(), progress.stage()),
        (Stage::Dns, ConnectErrorKind::Unresolved, Some(Stage::Dns))
    );
    assert_eq!(error.to_string(), "the name host.invalid has no address");
}

#[tokio::test]
async fn a_refused_connection_fails_in_the_tcp_stage() {
    let (listener, endpoint) = listen().await;
    drop(listener);
    let progress = ConnectProgress::new();

    let error = transport()
        .open(&endpoint, false, &progress)
        .await
        .unwrap_err();

    assert_eq!(
        (error.stage, error.kind),
        (Stage::Tcp, ConnectErrorKind::Refused)
    );
}

#[tokio::test]
async fn an_address_that_swallows_packets_stays_in_the_tcp_stage() {
    // A full accept queue drops further SYN packets, as a firewall would.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut fillers = Vec::new();
    while let Ok(filler) = std::net::TcpStream::connect_timeout(&address, MOMENT) {
        fillers.push(filler);
    }
    let progress = ConnectProgress::new();

    let pending = {
        let transport = transport();
        let endpoint = endpoint(&format!("http://{address}/"));
        pends(MOMENT, transport.open(&endpoint, false, &progress)).await
    };

    assert!(pending);
    assert_eq!(progress.stage(), Some(Stage::Tcp));
}
