//! Connections that take too long, too much, or are too many.

use pretty_assertions::assert_eq;

use super::*;

const SHORT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_head_that_does_not_come_is_cut() {
    let limits = ServerLimits {
        head: SHORT,
        ..ServerLimits::default()
    };
    let server = Running::start(limits);

    for beginning in ["", "G", "GET / HTTP/1.1\r\nHost: a\r\n"] {
        let began = clock::now();
        assert_eq!(server.ask(beginning).await, "", "{beginning:?}");
        assert!(began.elapsed() >= SHORT, "{beginning:?}");
    }
    assert_eq!(server.service.seen(), [""; 0]);
}

#[tokio::test]
async fn a_later_head_is_cut_as_well_and_an_idle_connection_is_not() {
    let limits = ServerLimits {
        head: SHORT,
        ..ServerLimits::default()
    };
    let server = Running::start(limits);
    let mut caller = server.connect().await;
    send(&mut caller, &[GET]).await;
    read_until(&mut caller, "done").await;

    let idle = std::pin::pin!(tokio::time::sleep(3 * SHORT));
    let mut byte = [0];
    let ended = std::pin::pin!(caller.read(&mut byte));
    assert!(matches!(
        future::select(ended, idle).await,
        Either::Right(_)
    ));
    send(&mut caller, &[GET]).await;
    read_until(&mut caller, "done").await;
    send(&mut caller, &["GET / HT"]).await;

    assert_eq!(read_to_end(&mut caller).await, "");
}

#[tokio::test]
async fn an_idle_connection_is_closed_in_time() {
    let limits = ServerLimits {
        idle: SHORT,
        ..ServerLimits::default()
    };
    let server = Running::start(limits);

    let answer = server.ask(GET).await;

    assert!(answer.ends_with("done"), "{answer}");
}

#[tokio::test]
async fn a_body_that_takes_its_time_is_not_cut_with_its_head() {
    let limits = ServerLimits {
        head: SHORT,
        idle: SHORT,
        ..ServerLimits::default()
    };
    let server = Running::start(limits);
    let mut caller = server.connect().await;
    send(
        &mut caller,
        &["POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nsl"],
    )
    .await;

    tokio::time::sleep(3 * SHORT).await;
    send(&mut caller, &["ow"]).await;

    read_until(&mut caller, "slow").await;
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let server = Running::start(ServerLimits::default());

    for field in [
        format!("X: {}\r\n", "y".repeat(70 << 10)),
        "X: y\r\n".repeat(101),
    ] {
        let answer = server
            .ask(&format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n"))
            .await;
        // Bytes that were never read reset the connection, which may overtake the refusal.
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
            "{answer}"
        );
    }
    assert_eq!(server.service.seen(), [""; 0]);
}

#[tokio::test]
async fn a_connection_beyond_the_limit_is_told_so_until_a_place_is_free() {
    let limits = ServerLimits {
        connections: Some(1),
        ..ServerLimits::default()
    };
    let server = Running::start(limits);
    let mut first = server.connect().await;
    send(&mut first, &[GET]).await;
    read_until(&mut first, "done").await;

    let refused = server.ask(GET).await;
    drop(first);
    let mut served = server.ask(GET_CLOSE).await;
    while served.starts_with("HTTP/1.1 503 ") {
        served = server.ask(GET_CLOSE).await;
    }

    let (head, body) = refused.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n"));
    assert!(
        head.ends_with(&format!("content-length: {}", body.len())),
        "{head}"
    );
    serde_json::from_str::<serde_json::Value>(body).unwrap();
    assert!(served.ends_with("done"), "{served}");
}

#[tokio::test]
async fn a_reader_that_stops_reading_loses_its_connection() {
    let limits = ServerLimits {
        reader_stall: SHORT,
        ..ServerLimits::default()
    };
    let mut server = Running::start(limits);
    let mut caller = server.connect().await;
    send(&mut caller, &["GET /flood HTTP/1.1\r\nHost: a\r\n\r\n"]).await;

    let Dropped {
        is_killed,
        is_stalled,
    } = server.dropped().await;

    assert!(is_stalled && !is_killed);
    assert!(drain_to_end(&mut caller).await.is_err());
}

#[tokio::test]
async fn a_slow_reader_that_goes_on_reading_keeps_its_connection() {
    let limits = ServerLimits {
        reader_stall: 4 * SHORT,
        ..ServerLimits::default()
    };
    let server = Running::start(limits);
    let mut caller = server.connect().await;
    send(&mut caller, &["GET /flood HTTP/1.1\r\nHost: a\r\n\r\n"]).await;

    let mut buffer = vec![0; 1 << 20];
    for _ in 0..12 {
        within(caller.read_exact(&mut buffer)).await.unwrap();
        tokio::time::sleep(SHORT).await;
    }

    assert!(!server.service.last_peer().is_stalled());
}
