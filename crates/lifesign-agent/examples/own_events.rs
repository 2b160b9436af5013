//! Events of one's own making: a log that tells the model's doing from the provider's.
//!
//! `cargo run -p lifesign-agent --example own_events` needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example says what happens")]

use std::error::Error;
use std::time::Duration;

use lifesign::{CallEvent, Client, Upstream, Wire};
use lifesign_agent::{Agent, AgentEvent};
use lifesign_standin::Standin;

const SCRIPT: &str = "
attempt 1:
  status 500 json
  error server_error
  eof
attempt 2:
  status 200 sse
  repeat 0.1 { comment } x3
  text \"Half of \"
  hold
attempt 3:
  answer \"it.\"
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let standin = Standin::script(SCRIPT)?.start().await?;
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url())?;
    let mut agent = Agent::builder(Client::new()?, upstream, "any")
        .set("bounds.raw_silence", "1s")?
        .set("retry.transport.first_delay", "100ms")?
        .wall_clock(Duration::from_mins(1))
        .build()?;

    let mut turn = agent.turn("All of it, please.");
    // What `turn.canceller()` returns ends it from anywhere, such as from a handler of Ctrl-C.
    while let Some(event) = turn.next().await {
        if let Some(line) = line(&event?) {
            println!("{line}");
        }
    }
    Ok(())
}

fn line(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::CallBegan { purpose, .. } => format!("provider  call for {purpose:?}"),
        AgentEvent::Call(CallEvent::Retrying { failure, .. }) => format!("provider  {failure}"),
        AgentEvent::Call(CallEvent::Heartbeat { origin }) => {
            format!("provider  beat of {origin:?}")
        }
        AgentEvent::Call(CallEvent::Text(text)) => format!("model     {text:?}"),
        AgentEvent::BrokeOff { failure, .. } => format!("provider  broke off: {failure}"),
        AgentEvent::Recovering {
            recovery,
            of,
            means,
        } => {
            format!("turn      recovery {recovery} of {of} by {means:?}")
        }
        AgentEvent::Nudged { rule, .. } => format!("model     was reminded: {rule:?}"),
        AgentEvent::Ended(report) => {
            format!("turn      {}: {:?}", report.outcome.name(), report.text)
        }
        _ => return None,
    })
}
