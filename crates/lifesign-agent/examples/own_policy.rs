//! A policy of one's own: overload is borne for as long as it takes, a second cut is not.
//!
//! `cargo run -p lifesign-agent --example own_policy` needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example says what happens")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use lifesign::{CallEvent, Client, Decision, Failure, GiveUp, Tier, Upstream, Wire};
use lifesign_agent::{Agent, AgentEvent, ErrorPolicy, Fault};
use lifesign_standin::Standin;

struct Patient;

impl ErrorPolicy for Patient {
    fn attempt(&self, fault: &Fault<'_>) -> Decision {
        match fault.failed.failure.tier() {
            Some(Tier::Overload) => Decision::Retry {
                after: Duration::from_millis(50).saturating_mul(fault.attempt),
                tier: Tier::Overload,
            },
            // For cuts `attempt` is how many there were in a row, from call to call.
            Some(Tier::Cut) if fault.attempt >= 2 => Decision::GiveUp {
                reason: GiveUp::TierSpent(Tier::Cut),
            },
            _ => fault.by_tiers(),
        }
    }

    fn resend(&self, _failure: &Failure, resends: u32) -> Option<Duration> {
        // Once more, a moment later. `Resend` waits 2, 8 and 32 minutes.
        (resends == 0).then_some(Duration::from_millis(200))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let script = "attempt 1-9: status 529 json; error overloaded_error; eof\n\
                  attempt 10: answer \"Here I am.\"";
    let standin = Standin::script(script)?.start().await?;
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url())?;
    let mut agent = Agent::builder(Client::new()?, upstream, "any")
        .policy(Arc::new(Patient))
        .build()?;

    let mut turn = agent.turn("Are you there?");
    while let Some(event) = turn.next().await {
        match event? {
            AgentEvent::Call(CallEvent::Retrying { failure, wait, .. }) => {
                println!("in {wait:.0?} once more, since {failure}");
            }
            AgentEvent::Resending { wait, .. } => println!("the turn again in {wait:.0?}"),
            AgentEvent::Ended(report) => println!("{}", report.text),
            _ => {}
        }
    }
    Ok(())
}
