//! A policy of one's own: an overload is borne for longer than the tiers do, a cut is not repeated, and
//! a turn whose attempts are used up is sent again once.
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
        let tier = fault.failed.failure.tier();
        match (tier, fault.failed.hints.wait) {
            // Whoever asks for a wait gets it, or is not asked again: the tiers know both.
            (Some(Tier::Overload), None) if fault.attempt < MOST_OVERLOADS => Decision::Retry {
                after: FIRST_WAIT.saturating_mul(fault.attempt),
                tier: Tier::Overload,
            },
            (Some(Tier::Overload), None) => Decision::GiveUp {
                reason: GiveUp::TierSpent(Tier::Overload),
            },
            // For cuts `attempt` is how many there were in a row, from call to call.
            (Some(Tier::Cut), _) => Decision::GiveUp {
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

const MOST_OVERLOADS: u32 = 5;

const FIRST_WAIT: Duration = Duration::from_millis(50);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The fifth overload uses the attempts up; the turn that is sent again gets through.
    let script = "attempt 1-6: status 529 json; error overloaded_error; eof\n\
                  attempt 7: answer \"Here I am.\"";
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
