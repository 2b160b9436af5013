//! How responses begin, go on and end.

use std::{
    io::Read as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use lifesign_standin::{End, Standin, What};
use pretty_assertions::assert_eq;

use crate::client::{Client, LIMIT, ask, play};

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let standin = play("attempt 1: answer \"a\"\nattempt 2: answer \"b\"").await;
    let mut client = Client::connect(&standin).await;

    client.post("/v1/chat/completions").await;
    let (_, first) = client.response().await;
    client.post("/v1/chat/completions").await;
    let (_, second) = client.response().await;

    assert!(
        String::from_utf8(first)
            .unwrap()
            .contains(r#""content":"a""#)
    );
    assert!(
        String::from_utf8(second)
            .unwrap()
            .contains(r#""content":"b""#)
    );
    let seen: Vec<_> = standin
        .requests()
        .iter()
        .map(|request| (request.connection, request.on_connection, request.attempt))
        .collect();
    assert_eq!(seen, [(1, 1, 1), (1, 2, 2)]);
}

#[tokio::test]
async fn a_request_beyond_the_last_section_gets_the_last() {
    let standin = play("attempt 1-2: status 529 json; eof\nattempt 3: answer \"ok\"").await;
    let mut statuses = Vec::new();

    for _ in 0..4 {
        statuses.push(ask(&standin).await.0.split_at(16).0.to_owned());
    }

    let overloaded = "HTTP/1.1 529 Ove".to_owned();
    let ok = "HTTP/1.1 200 OK\r".to_owned();
    assert_eq!(statuses, [overloaded.clone(), overloaded, ok.clone(), ok]);
}

#[tokio::test]
async fn attempts_are_counted_apart_for_each_prefix() {
    let standin = play("attempt 1: status 503 json; eof\nattempt 2: answer \"ok\"").await;

    for prefix in ["", "/x", "/y/z"] {
        let mut client = Client::connect(&standin).await;
        client.post(&format!("{prefix}/v1/messages")).await;
        assert!(client.response().await.0.starts_with("HTTP/1.1 503"));
        client.post(&format!("{prefix}/messages?beta=true")).await;
        assert!(client.response().await.0.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn steps_take_the_time_they_say_divided_by_the_speed() {
    let standin = play("status 200 sse; +2 comment; repeat 1 { comment } x3; eof").await;

    ask(&standin).await;

    let request = standin.requests().remove(0);
    let since: Vec<_> = request
        .writes
        .iter()
        .map(|(at, _)| at.saturating_sub(request.at))
        .collect();
    for (at, due) in since.iter().zip([100, 150, 200, 250]) {
        let due = Duration::from_millis(due);
        assert!(
            *at >= due && *at < due + Duration::from_millis(900),
            "{since:?}"
        );
    }
    assert_eq!(since.len(), 4);
}

#[tokio::test]
async fn a_peer_that_leaves_is_noticed_while_the_script_holds() {
    let standin = play("status 200 sse; text \"a\"; hold").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;
    client.until("\"a\"").await;
    assert_eq!(standin.requests()[0].peer_closed, None);

    drop(client);

    let left = standin.wait_for_peer_closed(0, LIMIT).await.unwrap();
    assert!(standin.elapsed().saturating_sub(left) < Duration::from_secs(1));
    let request = standin.wait_for_end(0, LIMIT).await.unwrap();
    assert_eq!(request.ended.unwrap().0, End::PeerLeft);
}

#[tokio::test]
async fn a_peer_that_leaves_is_noticed_while_the_script_waits() {
    let standin = play("status 200 sse; +10000 text \"a\"; eof").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;
    client.until("\r\n\r\n").await;

    drop(client);

    assert!(standin.wait_for_peer_closed(0, LIMIT).await.is_some());
}

#[tokio::test]
async fn a_cut_closes_without_the_end_of_the_body() {
    let standin = play("status 200 sse; text \"a\"; cut").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;

    let all = String::from_utf8(client.rest().await).unwrap();

    assert!(
        all.contains("\"a\"") && !all.contains("\r\n0\r\n\r\n"),
        "{all}"
    );
    assert_eq!(standin.requests()[0].ended.unwrap().0, End::Cut);
}

#[tokio::test]
async fn a_cut_before_the_status_closes_without_a_response() {
    let standin = play("cut").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;

    assert_eq!(client.rest().await, b"");
}

#[tokio::test]
async fn a_reset_is_a_reset_and_what_was_written_arrives_before_it() {
    let standin = play("status 200 sse; text \"a\"; rst").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;
    client.until("\"a\"").await;

    let error = loop {
        match client.more().await {
            Ok(true) => {}
            Ok(false) => panic!("closed instead of reset"),
            Err(error) => break error,
        }
    };

    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(standin.requests()[0].ended.unwrap().0, End::Reset);
}

#[tokio::test]
async fn a_drip_writes_byte_by_byte_and_glue_writes_once() {
    let standin = play("status 200 sse; drip 0.1 { comment }; glue { comment; ping }; eof").await;

    let (_, body) = ask(&standin).await;

    assert_eq!(body, ": keepalive\n\n: keepalive\n\n: ping\n\n");
    let request = standin.requests().remove(0);
    let lens: Vec<_> = request.writes.iter().map(|(_, len)| *len).collect();
    let mut expected = vec![1; 13];
    expected.push(21);
    assert_eq!(lens, expected);
    assert!(request.writes[12].0.saturating_sub(request.writes[0].0) >= Duration::from_millis(55));
}

#[tokio::test]
async fn each_write_of_a_gzipped_body_can_be_read_at_once() {
    let script = "status 200 sse [content-encoding: gzip]; gzip; text \"a\"; +2 text \"b\"; eof";
    let standin = play(script).await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;

    assert!(
        client
            .until("\r\n\r\n")
            .await
            .contains("content-encoding: gzip\r\n")
    );
    let mut body = client.chunk().await;
    let mut first = [0; 1000];
    let len = flate2::read::GzDecoder::new(body.as_slice())
        .read(&mut first)
        .unwrap();
    assert!(String::from_utf8_lossy(&first[..len]).contains("\"a\""));

    loop {
        let chunk = client.chunk().await;
        if chunk.is_empty() {
            break;
        }
        body.extend(chunk);
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(body.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.contains("\"a\"") && text.contains("\"b\""), "{text}");
}

#[tokio::test]
async fn brotli_and_zstd_bodies_decode_to_what_was_said() {
    let standin = play("attempt 1: br; comment; ping; eof\nattempt 2: zstd; comment; eof").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;
    let (_, br) = client.response().await;
    client.post("/v1/chat/completions").await;
    let (_, zstd) = client.response().await;

    let mut text = String::new();
    brotli::Decompressor::new(br.as_slice(), 4096)
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, ": keepalive\n\n: ping\n\n");
    assert_eq!(
        zstd::decode_all(zstd.as_slice()).unwrap(),
        b": keepalive\n\n"
    );
}

#[tokio::test]
async fn headers_and_their_times_are_sent_as_written() {
    let script = "status 429 [retry-after: <date+4>] [retry-after-ms: <ms+4>] \
                  [x: a <b> <seconds+41>] json; eof";
    let standin = play(script).await;

    let (head, _) = ask(&standin).await;

    assert!(
        head.contains("\r\nretry-after-ms: 200\r\nx: a <b> 3\r\n"),
        "{head}"
    );
    assert!(
        head.contains("\r\nretry-after: ") && head.contains(" GMT\r\n"),
        "{head}"
    );
    assert!(
        head.contains("\r\ncontent-type: application/json\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn a_length_takes_the_place_of_chunks() {
    let standin = play("length 2; status 200 json; bytes \"{}\"; eof").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;
    let (head, body) = client.response().await;

    assert!(
        head.contains("content-length: 2\r\n") && !head.contains("chunked"),
        "{head}"
    );
    assert_eq!(body, b"{}");
    client.post("/v1/chat/completions").await;
    assert_eq!(client.response().await.1, b"{}");
}

#[tokio::test]
async fn a_body_shorter_than_its_length_closes_the_connection() {
    let standin = play("status 200 json [content-length: 20]; bytes \"{}\"; eof").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;

    assert!(client.rest().await.ends_with(b"\r\n\r\n{}"));
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_the_connection() {
    let standin = play("length none; status 200 sse; bytes \"x\"; eof").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;

    let all = String::from_utf8(client.rest().await).unwrap();

    assert!(all.ends_with("connection: close\r\n\r\nx"), "{all}");
    assert!(!all.contains("chunked"));
}

#[tokio::test]
async fn raw_bytes_go_out_as_they_stand() {
    let standin = play("raw \"HTTP/1.1 200 OK\\r\\nbad header\\r\\n\\r\\nzz\"; cut").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;

    assert_eq!(
        client.rest().await,
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\nzz"
    );
}

#[tokio::test]
async fn garbage_is_not_text_and_the_same_each_time() {
    let standin = play("garbage 64; eof").await;
    let mut bodies = Vec::new();

    for _ in 0..2 {
        let mut client = Client::connect(&standin).await;
        client.post("/v1/chat/completions").await;
        bodies.push(client.response().await.1);
    }

    assert_eq!(bodies[0].len(), 64);
    assert_eq!(bodies[0], bodies[1]);
    assert!(std::str::from_utf8(&bodies[0]).is_err());
}

#[tokio::test]
async fn interim_responses_come_before_the_final_one() {
    let standin = play("status 103 [link: </a>]; status 302 [location: /b] json; eof").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;

    assert!(
        client
            .until("\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 103 Early Hints\r\nlink: </a>")
    );
    assert!(client.response().await.0.contains("302 Found\r\n"));
}

#[tokio::test]
async fn chunked_requests_and_expectations_are_read() {
    let standin = play("answer \"ok\"").await;
    let mut client = Client::connect(&standin).await;
    let head = "POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\nExpect: 100-continue";
    client.send(format!("{head}\r\n\r\n").as_bytes()).await;

    assert_eq!(
        client.until("\r\n\r\n").await,
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    client
        .send(b"8;x=y\r\n{\"stream\r\n7\r\n\":true}\r\n0\r\na: b\r\n\r\n")
        .await;
    let (_, body) = client.response().await;

    assert!(
        String::from_utf8(body)
            .unwrap()
            .starts_with("event: message_start")
    );
    assert_eq!(&standin.requests()[0].body[..], b"{\"stream\":true}");
}

#[tokio::test]
async fn an_unread_request_is_answered_before_its_body() {
    let standin = play("unread; status 413 json; bytes \"{}\"; eof").await;
    let mut client = Client::connect(&standin).await;
    client
        .send(b"POST /v1/messages HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n")
        .await;

    let (head, body) = client.response().await;

    assert!(head.starts_with("HTTP/1.1 413 "), "{head}");
    assert_eq!(body, b"{}");
}

#[tokio::test]
async fn a_mute_stand_in_accepts_and_says_nothing() {
    let standin = Standin::mute().start().await.unwrap();
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;

    tokio::select! {
        _ = client.more() => panic!("it spoke"),
        () = tokio::time::sleep(Duration::from_millis(50)) => {}
    }

    drop(client);
    while standin.connections()[0].peer_closed.is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(standin.requests().len(), 0);
}

#[tokio::test]
async fn stopping_closes_every_connection() {
    let standin = play("status 200 sse; hold").await;
    let mut client = Client::connect(&standin).await;
    client.post("/v1/chat/completions").await;
    client.until("\r\n\r\n").await;

    standin.stop().await;

    assert_eq!(client.rest().await, b"");
}

#[tokio::test]
async fn waits_end_at_their_limit() {
    let standin = play("hold").await;
    let short = Duration::from_millis(20);

    assert!(!standin.wait_for_requests(1, short).await);
    assert_eq!(standin.wait_for_peer_closed(0, short).await, None);
    assert_eq!(standin.wait_for_end(0, short).await, None);
}

#[tokio::test]
async fn a_speed_that_is_no_speed_is_refused() {
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = Standin::mute().speed(speed).start().await.unwrap_err();

        assert!(
            error.to_string().contains("accepted: a number above 0"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn every_event_is_told_in_words_and_as_json() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = Arc::clone(&told);
    let standin = Standin::script("status 200 sse; comment; eof").unwrap();
    let standin = standin.on_event(move |event| teller.lock().unwrap().push(event.clone()));
    let standin = standin.start().await.unwrap();

    ask(&standin).await;
    assert!(standin.wait_for_peer_closed(0, LIMIT).await.is_some());

    let told = told.lock().unwrap();
    let lines: Vec<String> = told.iter().map(ToString::to_string).collect();
    let behind_time: Vec<&str> = lines
        .iter()
        .map(|line| line.split_once(" s  ").unwrap().1)
        .collect();
    let expected = [
        "1  connected",
        "1.1  POST /v1/chat/completions HTTP/1.1, attempt 1, 27 bytes",
        "1.1  status 200",
        "1.1  wrote 13 bytes",
        "1.1  ended properly after 13 bytes of body",
        "1  the peer closed the connection",
    ];
    assert_eq!(behind_time, expected);
    let json = serde_json::to_value(&told[4]).unwrap();
    assert_eq!(json["event"], "ended");
    assert_eq!((&json["how"], &json["bytes"]), (&"eof".into(), &13.into()));
}

/// The first bytes of a TLS hello hold no line end, which is what the stand-in waited for.
#[tokio::test]
async fn a_tls_hello_at_a_plain_port_is_closed_at_once_and_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&told);
    let standin = Standin::script("answer \"a\"")
        .unwrap()
        .on_event(move |event| events.lock().unwrap().push(event.what.clone()))
        .start()
        .await
        .unwrap();
    let mut client = Client::connect(&standin).await;

    client.send(&[22, 3, 1, 0, 200, 1, 0, 0, 196]).await;

    // Closed with bytes unread, a connection may also be seen as reset.
    assert!(!client.more().await.unwrap_or(false));
    assert_eq!(*told.lock().unwrap(), [What::Connected, What::TlsHello]);
    assert!(standin.requests().is_empty());
}
