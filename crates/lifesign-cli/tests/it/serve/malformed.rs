//! Requests that are none, that are two, or that a web page sends.

use std::time::Duration;

use futures_util::future::{Either, select};
use lifesign::clock::now;
use pretty_assertions::assert_eq;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::time::sleep_until;

use super::house::{Gateway, Upstream, chat, request, upstream};

#[tokio::test]
async fn a_thousand_malformed_requests_leave_the_gateway_as_it_was() {
    let answering = Upstream::answering().await;
    let gateway = Gateway::start(&upstream("a", answering.address, "")).await;
    let before = gateway.at_rest().await;
    let mut fuzzer = Fuzzer(0x5eed);
    let mut answered = 0;

    for _ in 0..20 {
        let mut sending = tokio::task::JoinSet::new();
        for _ in 0..50 {
            sending.spawn(ask_raw(gateway.address, fuzzer.request()));
        }
        for read in sending.join_all().await {
            if !read.is_empty() {
                let text = String::from_utf8_lossy(&read);
                assert!(text.starts_with("HTTP/1."), "{text:?}");
                answered += text.matches("HTTP/1.1 200 OK").count();
            }
        }
    }

    // A request within a request would be one that nobody got an answer to.
    assert!(answering.asked() >= answered, "{answered}");
    assert!(answering.asked() < 1_000, "nothing was malformed");
    for asked in answering.heads() {
        let heads = asked.matches(" HTTP/1.1\r\n").count();
        assert_eq!(heads, 1, "{asked:?}");
    }
    assert_eq!(gateway.response(&chat("", true)).await.status, 200);
    gateway.settles(&before).await;
    let ends = gateway.ends().len();
    assert!(ends >= answering.asked(), "{ends}");
    gateway.ended(ends).await;
    assert!(!gateway.log().contains("panicked"));
}

/// Sends bytes, and returns what comes back in a moment.
async fn ask_raw(address: std::net::SocketAddr, request: Vec<u8>) -> Vec<u8> {
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut read = Vec::new();
    // It may be cut before all is written.
    if socket.write_all(&request).await.is_ok() {
        let reading = async { while let Ok(1..) = socket.read_buf(&mut read).await {} };
        let late = std::pin::pin!(sleep_until(now() + Duration::from_millis(150)));
        match select(std::pin::pin!(reading), late).await {
            Either::Left(_) | Either::Right(_) => {}
        }
    }
    read
}

/// Makes requests that are nearly right, the same in each run.
struct Fuzzer(u64);

impl Fuzzer {
    fn next(&mut self, below: usize) -> usize {
        // xorshift64 (Marsaglia, 2003).
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below as u64).unwrap()
    }

    fn request(&mut self) -> Vec<u8> {
        let mut bytes = chat("", self.next(2) == 0).into_bytes();
        for _ in 0..=self.next(3) {
            let at = self.next(bytes.len());
            match self.next(8) {
                0 => bytes[at] = u8::try_from(self.next(256)).unwrap(),
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, b"\0\r\n: \x80"[self.next(6)]),
                3 => drop(bytes.remove(at)),
                4 => {
                    let end = (at + self.next(40)).min(bytes.len());
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
                5 => {
                    let line = LINES[self.next(LINES.len())];
                    let ends: Vec<_> = bytes.windows(2).enumerate().collect();
                    let ends: Vec<_> = ends.iter().filter(|(_, it)| *it == b"\r\n").collect();
                    let Some((end, _)) = ends.first() else {
                        continue;
                    };
                    let end = end + 2;
                    bytes.splice(end..end, line.bytes());
                }
                6 => {
                    bytes = (0..at)
                        .map(|_| u8::try_from(self.next(256)).unwrap())
                        .collect();
                }
                _ => bytes.extend_from_slice(b"GET /v1/models HTTP/1.1\r\n\r\n"),
            }
            if bytes.is_empty() {
                bytes.push(b'\n');
            }
        }
        bytes
    }
}

/// Headers that two readers could understand in two ways.
const LINES: [&str; 12] = [
    "content-length: 5\r\n",
    "content-length: 0x10\r\n",
    "content-length: -1\r\n",
    "content-length: 99999999999999999999999\r\n",
    "content-length: +4\r\n",
    "transfer-encoding: chunked\r\n",
    "transfer-encoding: chunked, chunked\r\n",
    "transfer-encoding : chunked\r\n",
    "transfer-encoding:\tchunked\r\n",
    " folded: line\r\n",
    "expect: 100-continue\r\n",
    "host: elsewhere.test\r\n",
];

#[tokio::test]
async fn a_request_within_a_request_is_refused_and_its_connection_closed() {
    let answering = Upstream::answering().await;
    let gateway = Gateway::start(&upstream("a", answering.address, "")).await;
    let start = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n\
        content-type: application/json\r\n";
    let hidden = "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n";

    for fields in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
        "content-length: 4\r\ncontent-length: 4\r\n",
        "content-length: 4\r\ncontent-length: 5\r\n",
        "content-length: +4\r\n",
        "content-length: 4, 4\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding : chunked\r\n",
        "x: y\r\n transfer-encoding: chunked\r\n",
        "x: y\ntransfer-encoding: chunked\r\n",
        "x: y\rtransfer-encoding: chunked\r\n",
    ] {
        let mut caller = gateway.connect().await;
        caller
            .send(&format!("{start}{fields}\r\n0\r\n\r\n{hidden}"))
            .await;
        let read = caller.read_to_end().await.unwrap_or_default();

        assert!(read.starts_with("HTTP/1.1 400 "), "{fields:?}: {read:?}");
        assert_eq!(read.matches("HTTP/1.1 ").count(), 1, "{fields:?}: {read:?}");
    }
    assert_eq!((answering.accepted(), gateway.ends().len()), (0, 0));
}

#[tokio::test]
async fn a_gateway_is_no_forward_proxy() {
    let answering = Upstream::answering().await;
    let other = Upstream::answering().await;
    let gateway = Gateway::start(&upstream("a", answering.address, "")).await;
    let elsewhere = other.address;

    for (method, target, status) in [
        ("GET", format!("http://{elsewhere}/v1/models"), 400),
        ("GET", format!("https://{elsewhere}/"), 400),
        ("CONNECT", elsewhere.to_string(), 405),
        ("GET", "*".to_owned(), 400),
        ("GET", "/v1/../secret".to_owned(), 400),
        ("GET", "/v1/%2e%2e/secret".to_owned(), 400),
        ("GET", "/v1/..%5csecret".to_owned(), 200),
    ] {
        let mut caller = gateway.connect().await;
        caller
            .send(&request(method, &target, "connection: close\r\n", ""))
            .await;
        let read = caller.read_to_end().await.unwrap();

        let told = format!("HTTP/1.1 {status} ");
        assert!(read.starts_with(&told), "{method} {target}: {read:?}");
    }
    assert_eq!(other.accepted(), 0);
    // What looks like an address in a path is a path.
    let odd = request("GET", &format!("//{elsewhere}/v1/models"), "", "");
    gateway.response(&odd).await;
    assert_eq!(other.accepted(), 0);
}

#[tokio::test]
async fn a_web_page_cannot_spend_the_users_money() {
    let answering = Upstream::answering().await;
    let gateway = Gateway::start(&upstream("a", answering.address, "")).await;
    let json = "content-type: application/json\r\n";
    let post =
        |headers: &str| request("POST", "/v1/chat/completions", headers, "{\"model\":\"m\"}");

    for (refused, status) in [
        (post("content-type: text/plain\r\n"), 415),
        (
            post("content-type: application/x-www-form-urlencoded\r\n"),
            415,
        ),
        (
            post("content-type: multipart/form-data; boundary=x\r\n"),
            415,
        ),
        (post(""), 415),
        (post(&format!("{json}origin: https://evil.test\r\n")), 403),
        (post(&format!("{json}origin: null\r\n")), 403),
        (
            post(json).replace("host: localhost", "host: evil.test"),
            403,
        ),
        (
            request(
                "OPTIONS",
                "/v1/chat/completions",
                "origin: https://evil.test\r\n",
                "",
            ),
            403,
        ),
        (
            request(
                "POST",
                "/lifesign/holds/1/release",
                "content-type: text/plain\r\n",
                "x",
            ),
            415,
        ),
        (
            request(
                "GET",
                "/lifesign/calls",
                "origin: https://evil.test\r\n",
                "",
            ),
            403,
        ),
    ] {
        let response = gateway.response(&refused).await;

        response.refused(status);
        assert_eq!(response.header("access-control-allow-origin"), None);
    }
    assert_eq!((answering.accepted(), gateway.ends().len()), (0, 0));
    let own = post(&format!("{json}origin: http://localhost:3000\r\n"));
    assert_eq!(gateway.response(&own).await.status, 200);
}

#[tokio::test]
async fn a_refusal_is_told_in_the_words_of_the_route() {
    let answering = Upstream::answering().await;
    let gateway = Gateway::start(&upstream("a", answering.address, "")).await;
    let json = "content-type: application/json\r\n";

    let chat = gateway
        .response(&request("POST", "/v1/chat/completions", json, "{"))
        .await;
    let anthropic = gateway
        .response(&request("POST", "/v1/messages", json, "[]"))
        .await;
    let responses = gateway
        .response(&request("GET", "/v1/responses", "", ""))
        .await;
    let unknown = gateway
        .response(&request("POST", "/v1/messages", json, "{\"model\":\"x\"}"))
        .await;

    assert_eq!(chat.status, 400);
    assert_eq!(chat.json()["error"]["type"], "invalid_request_error");
    assert_eq!(anthropic.status, 400);
    assert_eq!(anthropic.json()["type"], "error");
    assert_eq!(anthropic.json()["error"]["type"], "invalid_request_error");
    assert_eq!(responses.status, 405);
    assert_eq!(responses.header("allow"), Some("POST"));
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.json()["error"]["type"], "not_found_error");
    assert_eq!(answering.accepted(), 0);
}
