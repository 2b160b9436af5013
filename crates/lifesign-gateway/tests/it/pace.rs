//! Small pieces pass at once, in both directions, on connections that are kept.

use std::time::Duration;

use lifesign::clock;
use lifesign_wire::Wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Ask, Gate, find, ms, sleep, upstream, within};

/// One that answers every request of its only connection with frames shortly after one another.
struct Paced {
    url: String,
    task: tokio::task::JoinHandle<()>,
}

impl Paced {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            while read_request(&mut socket).await {
                for piece in PIECES {
                    socket.write_all(piece.as_bytes()).await.unwrap();
                    sleep(ms(2)).await;
                }
            }
        });
        Self { url, task }
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a request to its end; returns whether there was one.
async fn read_request(socket: &mut TcpStream) -> bool {
    let mut got = Vec::new();
    let mut room = [0; 4096];
    loop {
        let len = socket.read(&mut room).await.unwrap_or_default();
        if len == 0 {
            return false;
        }
        got.extend_from_slice(&room[..len]);
        let Some(head) = find(&got, b"\r\n\r\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(&got[..head]).to_ascii_lowercase();
        let (_, behind) = text.split_once("content-length: ").unwrap();
        let body: usize = behind.lines().next().unwrap().parse().unwrap();
        if got.len() >= head + 4 + body {
            return true;
        }
    }
}

/// The kernel holds a small piece back until the one before is acknowledged, unless it is told not
/// to (Nagle's algorithm), and the other side takes 40 ms to acknowledge what it does not answer.
#[tokio::test]
async fn small_pieces_are_not_gathered_on_kept_connections() {
    let paced = Paced::start().await;
    let gate = Gate::start(&upstream("up", Wire::OPENAI_CHAT, &paced.url, "")).await;
    let mut caller = TcpStream::connect(gate.address).await.unwrap();
    caller.set_nodelay(true).unwrap();
    let ask = Ask::stream(Wire::OPENAI_CHAT).to_bytes();

    let mut took = Vec::new();
    for _ in 0..CALLS {
        let asked = clock::now();
        caller.write_all(&ask).await.unwrap();
        let mut got = Vec::new();
        within(async {
            while find(&got, b"[DONE]\n\n\r\n0\r\n\r\n").is_none() {
                assert!(caller.read_buf(&mut got).await.unwrap() > 0, "{got:?}");
            }
        })
        .await;
        took.push(asked.elapsed());
    }

    took.sort_unstable();
    assert!(took[CALLS / 2] < DELAYED, "{took:?}");
}

const CALLS: usize = 15;
/// How long a receiver that has nothing to say waits before it acknowledges, at least.
const DELAYED: Duration = Duration::from_millis(40);

const PIECES: [&str; 4] = [
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    "39\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n\r\n",
    "39\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]}\n\n\r\n",
    "51\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n\
     \r\n0\r\n\r\n",
];
