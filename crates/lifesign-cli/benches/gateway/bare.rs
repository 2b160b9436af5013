//! hyper to hyper without any logic: what a proxy in Rust costs at the least.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::Result;

type Idle = Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>;

/// Serves on `listen` what `upstream` answers.
pub(crate) fn serve(listen: &str, upstream: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        let idle = Idle::default();
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let (idle, upstream) = (Arc::clone(&idle), upstream.to_owned());
            let service =
                service_fn(move |request| pass(request, Arc::clone(&idle), upstream.clone()));
            let serving = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            // How a connection ends is no matter here.
            tokio::spawn(async move { serving.await.or(Ok::<_, Infallible>(())) });
        }
    })
}

async fn pass(
    request: Request<Incoming>,
    idle: Idle,
    upstream: String,
) -> Result<Response<Incoming>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let request = Request::from_parts(parts, Full::new(body));
    let kept = {
        let mut idle = idle.lock().await;
        idle.retain(|sender| !sender.is_closed());
        let ready = idle.iter().position(SendRequest::is_ready);
        ready.map(|at| idle.swap_remove(at))
    };
    let mut sender = match kept {
        Some(sender) => sender,
        None => open(&upstream).await?,
    };
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    // It is ready again when the body has passed.
    idle.lock().await.push(sender);
    Ok(response)
}

async fn open(upstream: &str) -> Result<SendRequest<Full<Bytes>>> {
    let socket = TcpStream::connect(upstream).await?;
    socket.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(socket)).await?;
    tokio::spawn(async move { connection.await.or(Ok::<_, Infallible>(())) });
    Ok(sender)
}
