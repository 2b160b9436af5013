//! Agent turns over the lifesign client: model calls and tool calls until the model has answered.
//!
//! What happens to the provider never reaches the transcript or the score as something it was not.
//! An [`Agent`] keeps a [`Transcript`]; each [`Turn`] is one exchange with a person, and ends in a
//! [`TurnReport`] that tells the model's doing from the provider's. Attempts, heartbeats and notices
//! are [`AgentEvent`]s.
//!
//! # Example
//!
//! This example asks a question and prints the answer as it arrives.
//!
//! ```no_run
//! use lifesign::{CallEvent, Client, Upstream, Wire};
//! use lifesign_agent::{Agent, AgentEvent};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = Upstream::new(Wire::OPENAI_CHAT, "http://127.0.0.1:8080")?;
//! let mut agent = Agent::builder(Client::new()?, upstream, "any").build()?;
//!
//! let mut turn = agent.turn("When does the tide turn?");
//! while let Some(event) = turn.next().await {
//!     match event? {
//!         AgentEvent::Call(CallEvent::Text(text)) => print!("{text}"),
//!         AgentEvent::Ended(report) => println!("{:?}", report.sentence),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod agent;
mod cancel;
mod compaction;
mod event;
mod finish;
mod form;
mod note;
mod nudge;
mod outcome;
mod policy;
mod recovery;
pub mod tools;
mod transcript;
mod turn;

pub use agent::{Agent, AgentBuilder, SettingNames, raise_tries};
pub use cancel::Cancel;
pub use event::{AgentEvent, Alert, Purpose};
pub use nudge::NudgeRule;
pub use outcome::{Counts, Times, TurnOutcome, TurnReport};
pub use policy::{ErrorPolicy, Fault, Resend, Tiers};
pub use recovery::{Continuation, Means};
pub use transcript::{
    Begin, CutPoint, Ended, Entry, OpenCall, Partial, Ran, Repair, Said, Standing, Transcript,
    TranscriptError,
};
pub use turn::Turn;
