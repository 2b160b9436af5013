//! Makes calls with the client and shows everything that happens in them.
//!
//! `cargo run -p lifesign --example call` needs no key and no network: a stand-in for a provider
//! plays its faults on loopback, twenty times as fast as a real one would.
#![expect(clippy::print_stdout, reason = "an example says what happens")]

use std::error::Error;

use lifesign::{CallEvent, CallRequest, CallStream, Client, Request, Upstream, Wire};
use lifesign_standin::Standin;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new()?;
    for scenario in [
        "reasoning-then-answer",
        "silence-then-recovery",
        "silence-mid-answer",
    ] {
        println!("{scenario}:");
        let standin = Standin::scenario(scenario)?.speed(20.0).start().await?;
        let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url())?;
        let request = CallRequest::new(upstream, Request::prompt("m", "Say hello"));
        // Without it the defaults for the upstream and model hold.
        let request = request.set("bounds.raw_silence", "2s")?;
        show(client.stream(request)).await;
    }
    Ok(())
}

async fn show(mut call: CallStream) {
    while let Some(item) = call.next().await {
        match item {
            Ok(CallEvent::Started { model, .. }) => println!("  started: {model:?}"),
            Ok(CallEvent::Reasoning(text)) => println!("  reasoning: {text:?}"),
            Ok(CallEvent::Text(text)) => println!("  text: {text:?}"),
            Ok(CallEvent::ToolCall(piece)) => println!("  tool call: {piece:?}"),
            Ok(CallEvent::Heartbeat { origin }) => println!("  heartbeat of {origin:?}"),
            Ok(CallEvent::Notice(notice)) => println!("  quiet for {:.1?}", notice.ages.content),
            Ok(CallEvent::Holding { wait }) => println!("  on hold for {wait:.1?}"),
            Ok(CallEvent::Retrying {
                failure,
                attempt,
                of,
                wait,
            }) => {
                println!("  attempt {attempt} of {of} in {wait:.1?}, since {failure}");
            }
            Ok(CallEvent::Finished(answered)) => println!(
                "  finished after {:.1?}: {:?}",
                answered.elapsed, answered.answer.text
            ),
            Ok(_) => {}
            Err(failed) => {
                println!("  failed: {failed}");
                let partial = failed.partial.map(|answer| answer.text);
                println!("  kept: {partial:?}");
            }
        }
    }
}
