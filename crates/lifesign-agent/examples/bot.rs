//! A bot that tells its member what happened, and makes up for it in the next turn.
//!
//! `cargo run -p lifesign-agent --example bot` needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example says what happens")]

use std::error::Error;

use lifesign::{Client, Upstream, Wire};
use lifesign_agent::{Agent, TranscriptError, TurnOutcome};
use lifesign_standin::Standin;

const SCRIPT: &str = "
attempt 1-3:
  status 200 sse
  hold
attempt 4:
  answer \"Sorry for the wait. Twice a day.\"
";

/// One conversation with one member.
struct Bot {
    agent: Agent,
}

impl Bot {
    /// Answers what the member said, with the reply or with one honest sentence.
    async fn answer(&mut self, said: &str) -> Result<String, TranscriptError> {
        let report = self.agent.turn(said).report().await?;
        let sentence = report.sentence.clone().unwrap_or_default();
        Ok(match report.outcome {
            TurnOutcome::Completed => report.text,
            // Half an answer is still worth reading, if it is called what it is.
            _ if !report.text.is_empty() => format!("{}\n({sentence})", report.text),
            _ => format!("({sentence})"),
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let standin = Standin::script(SCRIPT)?.start().await?;
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url())?;
    let agent = Agent::builder(Client::new()?, upstream, "any")
        .set("bounds.raw_silence", "300ms")?
        .set("retry.transport.first_delay", "50ms")?
        .build()?;
    let mut bot = Bot { agent };

    for said in ["When does the tide turn?", "Still there?"] {
        println!("member: {said}");
        println!("bot:    {}", bot.answer(said).await?);
    }

    // What the model was told at the beginning of the second turn.
    for message in bot.agent.transcript().messages(Wire::OPENAI_CHAT) {
        println!("  {message:?}");
    }
    Ok(())
}
