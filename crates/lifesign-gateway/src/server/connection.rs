//! One connection: hyper, the limits, and who may end it from outside.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CONNECTION, TRANSFER_ENCODING},
};
use http_body::{Body, Frame, SizeHint};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::{Sleep, sleep_until};

use super::{
    ServerLimits, Service,
    drain::Stage,
    head::{Malformed, TOO_LONG},
    peer::Peer,
    socket::{Layer, Socket},
};
use crate::refusal::Refusal;

/// Serves a connection until it ends.
pub(super) async fn serve<S: Service>(
    service: Arc<S>,
    worker: Arc<S::Worker>,
    peer: Arc<Peer>,
    layer: Layer,
    limits: &ServerLimits,
) {
    let socket = Socket::new(
        layer,
        Arc::clone(&peer),
        limits.head,
        limits.buffer_len_bytes,
    );
    let answer = service_fn(|request| {
        let (service, worker) = (Arc::clone(&service), Arc::clone(&worker));
        let peer = Arc::clone(&peer);
        // In a box of its own, which is gone once the response begins: what hyper keeps of the
        // future lasts as long as the connection.
        Box::pin(
            async move { Ok::<_, Infallible>(answer(&*service, &worker, &peer, request).await) },
        )
    });
    // 100 headers are hyper's default, for which alone it needs no memory of its own.
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            // It runs from the end of the last response, so it is the limit of being idle; that of
            // a head that has begun is kept below.
            .header_read_timeout(limits.idle)
            .max_buf_size(limits.buffer_len_bytes)
            .half_close(false)
            .keep_alive(true)
            .serve_connection(TokioIo::new(socket), answer)
    );
    let mut overdue = Overdue { timer: None };
    let mut is_closing = false;
    poll_fn(|cx| {
        peer.begin_poll();
        peer.waker().register(cx.waker());
        let stage = peer.stage();
        if peer.is_killed() || stage == Stage::Over {
            return Poll::Ready(());
        }
        if stage > Stage::Serving && !is_closing {
            is_closing = true;
            connection.as_mut().graceful_shutdown();
        }
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            if let Err(error) = ended {
                tracing::debug!(%error, "connection failed");
            }
            return Poll::Ready(());
        }
        overdue.poll(cx, &peer)
    })
    .await;
}

/// Answers a request, and says whether another may follow.
async fn answer<S: Service>(
    service: &S,
    worker: &S::Worker,
    peer: &Arc<Peer>,
    request: Request<Incoming>,
) -> Response<Answering<S::Body>> {
    // Where a chunked body ends is hyper's word alone, so nothing is read after it.
    let is_last =
        request.headers().contains_key(TRANSFER_ENCODING) || *request.method() == Method::CONNECT;
    let malformed = peer.malformed();
    let mut response = match malformed {
        Some(malformed) => service.refuse(&request, malformed.refusal()),
        None => service.call(worker, peer, request).await,
    };
    if is_last || malformed.is_some() || peer.stage() > Stage::Serving {
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response.map(|body| Answering {
        body,
        peer: Arc::clone(peer),
    })
}

/// The body of a response; once it is dropped the next request may be read.
struct Answering<B> {
    body: B,
    peer: Arc<Peer>,
}

impl<B> Drop for Answering<B> {
    fn drop(&mut self) {
        self.peer.note_response();
    }
}

impl<B: Body + Unpin> Body for Answering<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Malformed {
    fn refusal(self) -> Refusal {
        let status = if self == TOO_LONG {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
        } else {
            StatusCode::BAD_REQUEST
        };
        let Self(what) = self;
        Refusal::new(status, "malformed_head", what)
    }
}

/// The limits that a connection keeps for itself.
///
/// They are read when the task is polled for other reasons anyway; a timer exists while one is
/// running only, so a connection that is idle or streaming has none.
struct Overdue {
    timer: Option<Pin<Box<Sleep>>>,
}

impl Overdue {
    /// Is ready once a limit has run out.
    fn poll(&mut self, cx: &mut Context<'_>, peer: &Peer) -> Poll<()> {
        loop {
            let (head, write) = (peer.head().at(), peer.write().at());
            let Some(due) = head.into_iter().chain(write).min() else {
                self.timer = None;
                return Poll::Pending;
            };
            if peer.elapsed() >= due {
                if write.is_some_and(|write| write <= due) {
                    tracing::info!(remote = ?peer.remote(), "reader stopped reading");
                    peer.mark_stalled();
                } else {
                    tracing::debug!(remote = ?peer.remote(), "head not sent in time");
                }
                return Poll::Ready(());
            }
            let at = peer.clock().instant(due);
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            // One that has fired is looked at again: the clock counts whole milliseconds.
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
