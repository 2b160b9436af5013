//! What a collector's answers mean.

use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::traces::CollectorUrl;
use crate::traces::otlp::PartialSuccess;

const HTTP: OtlpProtocol = OtlpProtocol::HttpProtobuf;

fn answer(status: u16) -> Answer {
    Answer {
        status: StatusCode::from_u16(status).unwrap(),
        ..Answer::default()
    }
}

#[test]
fn an_answer_that_may_pass_is_worth_another_try_and_no_other() {
    for status in 200..600 {
        let delivery = answer(status).delivery(HTTP);

        match status {
            200..300 => assert!(matches!(delivery, Delivery::Taken { refused: 0, .. })),
            429 | 502 | 503 | 504 => assert!(matches!(delivery, Delivery::Failed { .. })),
            _ => assert!(matches!(delivery, Delivery::Refused(_)), "{status}"),
        }
    }
}

#[test]
fn a_wait_is_taken_in_seconds() {
    let mut full = answer(503);
    full.headers
        .insert(RETRY_AFTER, HeaderValue::from_static("7"));

    let expected = Delivery::Failed {
        error: "the collector answers 503 Service Unavailable".to_owned(),
        retry_after: Some(Duration::from_secs(7)),
    };
    assert_eq!(full.delivery(HTTP), expected);
    let date = HeaderValue::from_static("Mon, 30 Nov 2026 10:00:00 GMT");
    full.headers.insert(RETRY_AFTER, date);
    assert_eq!(full.retry_after(), None);
}

#[test]
fn spans_that_were_refused_among_others_are_told_on_one_line() {
    let response = ExportResponse {
        partial_success: Some(PartialSuccess {
            rejected_spans: 3,
            error_message: "too\n  old".to_owned(),
        }),
    };
    let expected = Delivery::Taken {
        refused: 3,
        message: "the collector refuses some spans: too old".to_owned(),
    };

    let mut http = answer(200);
    http.body = response.encode_to_vec();
    let mut grpc = answer(200);
    grpc.body = framed(&response.encode_to_vec()).to_vec();
    grpc.trailers.insert("grpc-status", 0.into());

    assert_eq!(http.delivery(HTTP), expected);
    assert_eq!(grpc.delivery(OtlpProtocol::Grpc), expected);
}

#[test]
fn the_status_of_grpc_stands_in_trailers_or_where_there_is_no_body_in_headers() {
    let mut refused = answer(200);
    refused.headers.insert("grpc-status", 3.into());
    let mut unavailable = answer(200);
    unavailable.trailers.insert("grpc-status", 14.into());

    let told = "the collector answers with gRPC status";
    assert_eq!(
        refused.delivery(OtlpProtocol::Grpc),
        Delivery::Refused(format!("{told} 3"))
    );
    assert_eq!(
        unavailable.delivery(OtlpProtocol::Grpc),
        Delivery::Failed {
            error: format!("{told} 14"),
            retry_after: None
        }
    );
    let none = answer(200).delivery(OtlpProtocol::Grpc);
    assert!(matches!(none, Delivery::Failed { .. }));
}

#[test]
fn a_message_is_framed_by_its_length() {
    assert_eq!(framed(b"abc"), &b"\0\0\0\0\x03abc"[..]);
}

#[test]
fn what_a_collector_says_is_cut() {
    assert_eq!(one_line(&"\u{e4}".repeat(500)).len(), LONGEST_WORDS);
}

/// Returns what comes of a request to somebody who answers it with these bytes.
async fn asked(protocol: OtlpProtocol, answer: &'static [u8]) -> Delivery {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let url = CollectorUrl::parse(&url).unwrap();
    let answering = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut unread = [0; 4096];
                while let Ok(1..) = socket.read(&mut unread).await {
                    if !answer.is_empty() && socket.write_all(answer).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    let mut collector = Collector::new(&TraceSettings::new(url, protocol)).unwrap();
    collector.limit = Duration::from_millis(300);

    let delivery = collector.deliver(Bytes::from_static(b"spans")).await;

    answering.abort();
    delivery
}

#[tokio::test]
async fn a_collector_that_does_not_answer_is_not_waited_for_longer_than_the_limit() {
    for protocol in OtlpProtocol::ALL {
        let expected = Delivery::Failed {
            error: "no answer within 300ms".to_owned(),
            retry_after: None,
        };
        assert_eq!(asked(protocol, b"").await, expected, "{protocol:?}");
    }
}

#[tokio::test]
async fn grpc_to_a_server_that_speaks_http_1_is_told_as_that() {
    let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";

    let Delivery::Failed { error, .. } = asked(OtlpProtocol::Grpc, answer).await else {
        panic!("nothing was delivered");
    };

    assert!(error.contains("HTTP/1"), "{error}");
}

#[tokio::test]
async fn nobody_at_the_address_is_told_as_that() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = CollectorUrl::parse(&format!("http://{address}")).unwrap();
    let mut collector = Collector::new(&TraceSettings::new(url, HTTP)).unwrap();

    let Delivery::Failed { error, .. } = collector.deliver(Bytes::new()).await else {
        panic!("nothing was delivered");
    };

    assert!(error.contains(&address.to_string()), "{error}");
    assert!(error.contains("refused"), "{error}");
}
