//! Puts the clocks on the bodies of hyper's responses, and takes cuts as I/O errors.
//!
//! `cargo run -p lifesign --example watch_hyper` needs no key and no network: a stand-in for a
//! provider plays its faults on loopback, twenty times as fast as a real one would.
#![expect(clippy::print_stdout, reason = "an example says what happens")]

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::TryStreamExt;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lifesign::{BoundName, WatchBounds, Wire};
use lifesign_standin::Standin;
use tokio::net::TcpStream;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for scenario in ["happy", "dead-after-headers", "pings-only"] {
        let standin = Standin::scenario(scenario)?.speed(20.0).start().await?;
        match call(standin.address()).await {
            Ok(received) => println!("{scenario}: completed, {received} bytes"),
            Err(error) => println!("{scenario}: {:?}: {error}", error.kind()),
        }
    }
    Ok(())
}

async fn call(address: SocketAddr) -> io::Result<usize> {
    let socket = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket))
        .await
        .map_err(io::Error::other)?;
    // Ends when the response's body is dropped.
    let connection = tokio::spawn(connection);

    let body = r#"{"model":"m","max_tokens":64,"stream":true,"messages":[]}"#.to_owned();
    let request = Request::post("/v1/messages")
        .header("host", address.to_string())
        .header("content-type", "application/json")
        .body(body)
        .map_err(io::Error::other)?;
    let response = sender
        .send_request(request)
        .await
        .map_err(io::Error::other)?;
    drop(sender);

    let bounds = WatchBounds::of_host("api.example.com")
        .limit(BoundName::RawSilence, Duration::from_secs(2))
        .limit(BoundName::BeforeContent, Duration::from_secs(3));
    let body = response.into_body().into_data_stream();
    let mut bytes = lifesign::watch(body, Wire::ANTHROPIC, bounds);

    let mut received = 0;
    // The question mark makes an `io::Error` of a cut: `TimedOut` where there was silence.
    while let Some(chunk) = bytes.try_next().await? {
        received += chunk.len();
    }
    connection.await?.map_err(io::Error::other)?;
    Ok(received)
}
