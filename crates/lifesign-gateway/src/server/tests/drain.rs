//! How serving ends.

use pretty_assertions::assert_eq;

use super::*;

const STREAM: &str = "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn a_drain_closes_what_is_idle_and_lets_run_what_runs() {
    let server = Running::start(ServerLimits::default());
    let (mut idle, mut fresh) = (server.connect().await, server.connect().await);
    let mut running = server.connect().await;
    send(&mut idle, &[GET]).await;
    read_until(&mut idle, "done").await;
    send(&mut running, &[STREAM]).await;
    read_until(&mut running, "begun").await;

    server.drain.begin(Duration::from_mins(1));

    assert_eq!(read_to_end(&mut idle).await, "");
    assert_eq!(read_to_end(&mut fresh).await, "");
    // A worker may be about to close its handle, and whoever came meanwhile is reset.
    within(async {
        while !matches!(TcpStream::connect(server.address).await, Err(error)
            if error.kind() == io::ErrorKind::ConnectionRefused)
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!server.end.is_finished());
    server.service.finish();
    let rest = read_to_end(&mut running).await;
    assert!(rest.ends_with("finished\r\n0\r\n\r\n"), "{rest}");
    within(server.end).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_request_that_runs_is_told_that_its_connection_closes() {
    let server = Running::start(ServerLimits::default());
    let mut running = server.connect().await;
    send(
        &mut running,
        &["POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nla"],
    )
    .await;
    while server.service.seen().is_empty() {
        tokio::task::yield_now().await;
    }

    server.drain.begin(Duration::from_mins(1));
    send(&mut running, &["st"]).await;

    let answer = read_to_end(&mut running).await;
    assert!(answer.contains("connection: close"), "{answer}");
    assert!(answer.ends_with("last"), "{answer}");
    within(server.end).await.unwrap().unwrap();
}

#[tokio::test]
async fn after_the_limit_a_response_says_its_last_words() {
    let server = Running::start(ServerLimits::default());
    let mut running = server.connect().await;
    send(&mut running, &[STREAM]).await;
    read_until(&mut running, "begun").await;

    server.drain.begin(Duration::from_millis(50));

    let rest = read_to_end(&mut running).await;
    assert!(rest.ends_with("ended\r\n0\r\n\r\n"), "{rest}");
    within(server.end).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_second_word_ends_what_runs_before_the_limit() {
    let server = Running::start(ServerLimits::default());
    let mut running = server.connect().await;
    send(&mut running, &[STREAM]).await;
    read_until(&mut running, "begun").await;

    server.drain.begin(Duration::from_mins(1));
    server.drain.end_now();

    let rest = read_to_end(&mut running).await;
    assert!(rest.ends_with("ended\r\n0\r\n\r\n"), "{rest}");
    within(server.end).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_does_not_end_is_closed_without_an_end_that_looks_whole() {
    let server = Running::start(ServerLimits::default());
    let mut running = server.connect().await;
    send(&mut running, &["GET /deaf HTTP/1.1\r\nHost: a\r\n\r\n"]).await;
    read_until(&mut running, "begun").await;
    let began = clock::now();

    server.drain.end_now();

    assert_eq!(read_to_end(&mut running).await, "");
    assert!(began.elapsed() >= Duration::from_millis(900));
    within(server.end).await.unwrap().unwrap();
}
