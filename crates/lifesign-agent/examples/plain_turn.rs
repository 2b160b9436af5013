//! One turn after another, with the answer printed as it comes.
//!
//! `cargo run -p lifesign-agent --example plain_turn` needs no key and no network: a stand-in for a
//! provider breaks off in the middle of its first answer, and the turn goes on from there.
#![expect(clippy::print_stdout, reason = "an example says what happens")]

use std::error::Error;

use lifesign::{CallEvent, Client, Upstream, Wire};
use lifesign_agent::{Agent, AgentEvent};
use lifesign_standin::Standin;

const SCRIPT: &str = "
attempt 1:
  text \"The tide turns \"
  cut
attempt 2:
  answer \"twice a day.\"
attempt 3:
  answer \"Because of the moon.\"
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let standin = Standin::script(SCRIPT)?.start().await?;
    let upstream = Upstream::new(Wire::ANTHROPIC, &standin.url())?;
    let mut agent = Agent::builder(Client::new()?, upstream, "any")
        .system("Be brief.")
        .build()?;

    for question in ["When does the tide turn?", "Why?"] {
        println!("> {question}");
        let mut turn = agent.turn(question);
        while let Some(event) = turn.next().await {
            match event? {
                AgentEvent::Call(CallEvent::Text(text)) => print!("{text}"),
                AgentEvent::Ended(report) => {
                    let counts = report.counts;
                    println!(
                        "\n  {}: {} attempts, {} recoveries, {:?}",
                        report.outcome.name(),
                        counts.attempts,
                        counts.recoveries,
                        report.times_ms
                    );
                }
                _ => {}
            }
        }
    }
    Ok(())
}
