//! Puts the clocks on the bodies of reqwest's responses.
//!
//! `cargo run -p lifesign --example watch_reqwest` needs no key and no network: a stand-in for a
//! provider plays its faults on loopback, twenty times as fast as a real one would.
#![expect(clippy::print_stdout, reason = "an example says what happens")]

use std::error::Error;
use std::time::Duration;

use futures_util::TryStreamExt;
use lifesign::{BoundName, WatchBounds, WatchError, Wire};
use lifesign_standin::Standin;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for scenario in ["happy", "dead-after-headers", "pings-only"] {
        let standin = Standin::scenario(scenario)?.speed(20.0).start().await?;
        println!("{scenario}:");
        call(&standin.url()).await?;
        if let Some(at) = standin
            .wait_for_peer_closed(0, Duration::from_secs(1))
            .await
        {
            println!("  the provider saw the connection close after {at:.1?}");
        }
    }
    Ok(())
}

async fn call(url: &str) -> Result<(), reqwest::Error> {
    let response = reqwest::Client::new()
        .post(format!("{url}/v1/chat/completions"))
        .header("content-type", "application/json")
        .body(r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}"#)
        .send()
        .await?;

    // In earnest: the host and the model alone, and the limits that are known for them.
    let bounds = WatchBounds::of_host("api.example.com")
        .model("m")
        .limit(BoundName::RawSilence, Duration::from_secs(2))
        .limit(BoundName::BeforeContent, Duration::from_secs(3));
    let mut bytes = lifesign::watch(response.bytes_stream(), Wire::OPENAI_CHAT, bounds);

    let mut received = 0;
    loop {
        match bytes.try_next().await {
            Ok(Some(chunk)) => received += chunk.len(),
            Ok(None) => {
                println!("  completed: {received} bytes");
                return Ok(());
            }
            Err(WatchError::Cut(failure)) => {
                println!("  cut: {failure}");
                println!("  for the person waiting: {}", failure.sentence());
                return Ok(());
            }
            Err(WatchError::Inner(error)) => return Err(error),
        }
    }
}
