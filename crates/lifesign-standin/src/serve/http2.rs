//! HTTP/2, streams of it each played a script of its own.

use std::{future::poll_fn, io, pin::Pin, sync::Arc, task, time::Duration};

use bytes::{Buf as _, Bytes};
use h2::{
    Reason, RecvStream, SendStream,
    server::{self, SendResponse},
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
    task::JoinSet,
    time::Instant,
};

use super::{
    Shared,
    http1::Socket,
    play::{self, Gone, Head, Peer, Place, SETTLE},
};
use crate::{dialect::Asked, log::Request, script::Length};

/// Answers the requests of one connection, of which `inbox` was already read.
pub(crate) async fn serve<S: Socket>(
    shared: &Arc<Shared>,
    socket: S,
    inbox: Vec<u8>,
    connection: u64,
) {
    let socket = Rewound {
        inbox: inbox.into(),
        socket,
    };
    let handshake = server::Builder::new()
        .max_concurrent_streams(MOST_STREAMS)
        .initial_window_size(1 << 20)
        .initial_connection_window_size(1 << 20)
        .handshake::<_, Bytes>(socket);
    let Ok(mut h2) = handshake.await else {
        shared.log.peer_closed(connection);
        return;
    };
    let (orders, mut ordered) = mpsc::unbounded_channel();
    // Dropped with the connection: no stream outlives it.
    let mut streams = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            request = h2.accept() => match request {
                Some(Ok((request, respond))) => {
                    number += 1;
                    let (shared, orders) = (Arc::clone(shared), orders.clone());
                    streams.spawn(stream(shared, request, respond, orders, connection, number));
                }
                Some(Err(_)) | None => break,
            },
            order = ordered.recv() => match order {
                Some(Order::GoAway(None)) => h2.graceful_shutdown(),
                Some(Order::GoAway(Some(code))) => h2.abrupt_shutdown(code.into()),
                // Dropping the connection closes the socket with the streams unfinished.
                Some(Order::Cut) | None => return,
            },
            Some(_) = streams.join_next() => {}
        }
    }
    shared.log.peer_closed(connection);
}

/// What a stream wants of its connection.
enum Order {
    Cut,
    GoAway(Option<u32>),
}

async fn stream(
    shared: Arc<Shared>,
    request: http::Request<RecvStream>,
    respond: SendResponse<Bytes>,
    orders: mpsc::UnboundedSender<Order>,
    connection: u64,
    number: u64,
) {
    let (head, mut incoming) = request.into_parts();
    let path = head
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    let plan = shared.plan(&path);
    let Some(section) = plan.section() else {
        return;
    };
    let mut body = Vec::new();
    if !section.begins_unread() {
        while let Some(chunk) = incoming.data().await {
            let Ok(chunk) = chunk else { break };
            body.extend_from_slice(&chunk);
            if incoming
                .flow_control()
                .release_capacity(chunk.len())
                .is_err()
            {
                break;
            }
        }
    }
    let headers = head.headers.iter().map(|(name, value)| {
        (
            name.as_str().to_owned(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    });
    let asked = Asked::of_body(&body);
    let place = Place {
        dialect: shared.dialect(&path),
        serial: plan.serial,
        is_request: !body.is_empty(),
    };
    let mut ticket = shared.log.request(Request {
        connection,
        on_connection: number,
        attempt: plan.attempt,
        method: head.method.to_string(),
        path,
        http2: true,
        headers: headers.collect(),
        body: Bytes::from(body),
        at: Duration::ZERO,
        status: None,
        writes: Vec::new(),
        ended: None,
        peer_closed: None,
    });
    let mut exchange = Exchange {
        respond,
        body: None,
        orders,
        _incoming: incoming,
    };
    play::play(&shared, section, &asked, place, &mut exchange, &mut ticket).await;
}

struct Exchange {
    respond: SendResponse<Bytes>,
    body: Option<SendStream<Bytes>>,
    orders: mpsc::UnboundedSender<Order>,
    /// Dropping it early would tell the peer to stop sending.
    _incoming: RecvStream,
}

impl Exchange {
    fn order(&self, order: Order) -> Result<(), Gone> {
        self.orders.send(order).map_err(|_| Gone)
    }
}

impl Peer for Exchange {
    async fn head(&mut self, head: Head) -> Result<(), Gone> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(head.status).map_err(|_| Gone)?;
        let length = match head.length {
            Some(Length::Bytes(len)) => Some(("content-length".to_owned(), len.to_string())),
            Some(Length::None) | None => None,
        };
        for (name, value) in head.headers.into_iter().chain(length) {
            // HTTP/2 knows no headers that speak of the connection.
            let is_hop = matches!(
                name.as_str(),
                "connection" | "keep-alive" | "transfer-encoding"
            );
            if let (false, Ok(name), Ok(value)) = (
                is_hop,
                HeaderName::try_from(name),
                HeaderValue::try_from(value),
            ) {
                response.headers_mut().append(name, value);
            }
        }
        if head.status < 200 {
            return self.respond.send_informational(response).map_err(|_| Gone);
        }
        self.body = Some(
            self.respond
                .send_response(response, false)
                .map_err(|_| Gone)?,
        );
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let Some(body) = &mut self.body else {
            return Err(Gone);
        };
        let mut bytes = Bytes::copy_from_slice(bytes);
        while bytes.has_remaining() {
            body.reserve_capacity(bytes.len());
            let capacity = poll_fn(|context| body.poll_capacity(context)).await;
            let capacity = capacity.and_then(Result::ok).ok_or(Gone)?;
            let piece = bytes.split_to(capacity.min(bytes.len()));
            body.send_data(piece, false).map_err(|_| Gone)?;
        }
        Ok(())
    }

    async fn raw(&mut self, _bytes: &[u8]) -> Result<(), Gone> {
        self.cut().await;
        Err(Gone)
    }

    async fn finish(&mut self) -> Result<(), Gone> {
        let Some(body) = &mut self.body else {
            return Err(Gone);
        };
        body.send_data(Bytes::new(), true).map_err(|_| Gone)
    }

    async fn go_away(&mut self, code: Option<u32>) -> Result<(), Gone> {
        self.order(Order::GoAway(code))?;
        if code.is_some() {
            // The connection drops this stream once its last words are out, which is how it ends.
            let _lost = self.idle(None).await;
        }
        Ok(())
    }

    async fn cut(&mut self) {
        // What was written before has to reach the socket first.
        tokio::time::sleep(SETTLE).await;
        if self.order(Order::Cut).is_ok() {
            std::future::pending::<()>().await;
        }
    }

    async fn reset(&mut self, code: u32) {
        // A reset discards what is still queued on the stream.
        tokio::time::sleep(SETTLE).await;
        let reason = Reason::from(code);
        match &mut self.body {
            Some(body) => body.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    async fn idle(&mut self, until: Option<Instant>) -> Result<(), Gone> {
        let wait = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let (respond, body) = (&mut self.respond, &mut self.body);
        let reset = poll_fn(|context| match body {
            Some(body) => body.poll_reset(context),
            None => respond.poll_reset(context),
        });
        tokio::select! {
            biased;
            _ = reset => Err(Gone),
            () = wait => Ok(()),
        }
    }
}

/// A socket whose first bytes were already read.
struct Rewound<S> {
    inbox: Bytes,
    socket: S,
}

impl<S: Socket> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> task::Poll<io::Result<()>> {
        if self.inbox.is_empty() {
            return Pin::new(&mut self.socket).poll_read(context, buffer);
        }
        let len = self.inbox.len().min(buffer.remaining());
        buffer.put_slice(&self.inbox.split_to(len));
        task::Poll::Ready(Ok(()))
    }
}

impl<S: Socket> AsyncWrite for Rewound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> task::Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> task::Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> task::Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

const MOST_STREAMS: u32 = 1000;
