//! The agent: a conversation, and whom to have it with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lifesign::{
    Client, Layer, Origin, SettingError, Settings, Target, Tries, Upstream, Value, resolve,
};
use serde_json::{Map, Value as Json};

use crate::nudge::MOST_NUDGES;
use crate::policy::{ErrorPolicy, Tiers};
use crate::recovery::Continuation;
use crate::tools::Toolbox;
use crate::transcript::Transcript;
use crate::turn::{Beginning, Turn};

/// Has a conversation with a model that may call tools.
///
/// # Example
///
/// This example shows an agent for unattended work: a wall clock, and a file to go on from.
///
/// ```no_run
/// use std::time::Duration;
///
/// use lifesign::{Client, Upstream, Wire};
/// use lifesign_agent::{Agent, Transcript};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let upstream = Upstream::new(Wire::ANTHROPIC, "https://api.anthropic.com")?.with_key("secret");
/// let mut agent = Agent::builder(Client::new()?, upstream, "claude-sonnet-4-5")
///     .system("Be brief.")
///     .max_tokens(4_096)
///     .wall_clock(Duration::from_mins(30))
///     .transcript(Transcript::create("talk.jsonl")?)
///     .build()?;
///
/// let report = agent.turn("When does the tide turn?").report().await?;
/// println!("{}", report.text);
/// # Ok(())
/// # }
/// ```
pub struct Agent {
    pub(crate) client: Client,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) terms: Terms,
    pub(crate) toolbox: Option<Arc<dyn Toolbox>>,
    pub(crate) policy: Arc<dyn ErrorPolicy>,
    pub(crate) transcript: Transcript,
    /// Whether no prefill was refused yet.
    pub(crate) takes_prefill: bool,
}

/// What every call of an agent is made with.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) model: String,
    pub(crate) system: Option<String>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) extra: Map<String, Json>,
    pub(crate) settings: Settings,
    pub(crate) wall_clock: Option<Duration>,
    /// How much of each turn's wall clock is over when the turn begins.
    pub(crate) wall_clock_spent: Duration,
    pub(crate) continuation: Continuation,
    pub(crate) pinned: Option<Pinned>,
    pub(crate) context_tokens: Option<u64>,
    /// How many answers with tool calls a turn may have; 0 for any number.
    pub(crate) max_rounds: u32,
    pub(crate) names: SettingNames,
    /// The most reminders to the model in one exchange.
    pub(crate) reminders: u32,
}

/// What people set the limits of a turn with: what ran out is told by these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingNames {
    /// That of [`AgentBuilder::wall_clock`]. Default: `wall_clock`.
    pub wall_clock: &'static str,
    /// That of [`AgentBuilder::max_rounds`]. Default: `max_rounds`.
    pub max_rounds: &'static str,
}

impl Default for SettingNames {
    fn default() -> Self {
        Self {
            wall_clock: "wall_clock",
            max_rounds: "max_rounds",
        }
    }
}

/// A reminder of the host's.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(crate) every: u32,
    pub(crate) text: String,
}

impl Agent {
    /// Returns what an agent is made with that asks `model` at `upstream`.
    pub fn builder(
        client: Client,
        upstream: impl Into<Arc<Upstream>>,
        model: impl Into<String>,
    ) -> AgentBuilder {
        AgentBuilder {
            client,
            upstream: upstream.into(),
            model: model.into(),
            layer: Layer::new(),
            settings: None,
            toolbox: None,
            policy: Arc::new(Tiers),
            transcript: None,
            system: None,
            max_tokens: None,
            extra: Map::new(),
            wall_clock: None,
            wall_clock_spent: Duration::ZERO,
            continuation: Continuation::Auto,
            pinned: None,
            context_tokens: None,
            max_rounds: DEFAULT_ROUNDS,
            names: SettingNames::default(),
            reminders: MOST_NUDGES,
        }
    }

    /// Begins a turn in which a person says `text`.
    ///
    /// Nothing happens before the turn is polled. A turn that was dropped, or whose program died, is
    /// closed first; [`resume`](Self::resume) goes on with it instead.
    pub fn turn(&mut self, text: impl Into<String>) -> Turn<'_> {
        Turn::new(self, Beginning::Say(text.into()))
    }

    /// Goes on with a turn that did not end: its program died, it was dropped, or it waits for a
    /// limit to reset. `None` where there is none.
    ///
    /// No tool call is run twice: one that had begun is told to the model as unknown, one that had
    /// not is run now.
    pub fn resume(&mut self) -> Option<Turn<'_>> {
        let standing = self.transcript.standing();
        (standing.is_open || standing.wake_at.is_some()).then(|| Turn::new(self, Beginning::Resume))
    }

    /// Returns the conversation.
    pub const fn transcript(&self) -> &Transcript {
        &self.transcript
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("upstream", &self.upstream)
            .field("model", &self.terms.model)
            .finish_non_exhaustive()
    }
}

/// What an agent is made with.
#[must_use]
pub struct AgentBuilder {
    client: Client,
    upstream: Arc<Upstream>,
    model: String,
    layer: Layer,
    settings: Option<Settings>,
    toolbox: Option<Arc<dyn Toolbox>>,
    policy: Arc<dyn ErrorPolicy>,
    transcript: Option<Transcript>,
    system: Option<String>,
    max_tokens: Option<u64>,
    extra: Map<String, Json>,
    wall_clock: Option<Duration>,
    wall_clock_spent: Duration,
    continuation: Continuation,
    pinned: Option<Pinned>,
    context_tokens: Option<u64>,
    max_rounds: u32,
    names: SettingNames,
    reminders: u32,
}

impl AgentBuilder {
    /// Sets what the model is told beforehand.
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Lets the model call these tools. Default: none.
    ///
    /// Give a [`Toolset`](crate::tools::Toolset), also around a single toolbox: it alone checks arguments
    /// against the schema, and bounds how long a tool takes and how much it says. A toolbox given bare
    /// is called with whatever JSON the model wrote, for as long as it likes.
    pub fn tools(mut self, toolbox: Arc<dyn Toolbox>) -> Self {
        self.toolbox = Some(toolbox);
        self
    }

    /// Goes on with this conversation. Default: a new one, in memory.
    pub fn transcript(mut self, transcript: Transcript) -> Self {
        self.transcript = Some(transcript);
        self
    }

    /// Sets what is done about failures below the transcript. Default: [`Tiers`], which sends no
    /// turn again.
    pub fn policy(mut self, policy: Arc<dyn ErrorPolicy>) -> Self {
        self.policy = policy;
        self
    }

    /// Makes the calls under `settings`, instead of the defaults and what was [`set`](Self::set).
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Sets one setting of the calls over the defaults, as [`lifesign::CallRequest::set`] does.
    ///
    /// # Errors
    ///
    /// Fails where there is no such setting, or where it cannot have that value.
    pub fn set(mut self, key: &str, value: &str) -> Result<Self, SettingError> {
        self.layer.set(key, Value::of_text(value), Origin::Call)?;
        Ok(self)
    }

    /// Sets the most tokens of each answer.
    pub fn max_tokens(mut self, max_tokens: u64) -> Self {
        self.max_tokens = Some(max_tokens);
        self
    }

    /// Puts a field into the body of each request as it is.
    pub fn extra(mut self, name: impl Into<String>, value: Json) -> Self {
        self.extra.insert(name.into(), value);
        self
    }

    /// Sets how long one turn may take, tools and waits included. Default: no limit.
    pub fn wall_clock(mut self, limit: Duration) -> Self {
        self.wall_clock = Some(limit);
        self
    }

    /// Says how much of that is over already when a turn begins, such as with starting its tools.
    pub fn wall_clock_spent(mut self, spent: Duration) -> Self {
        self.wall_clock_spent = spent;
        self
    }

    /// Sets how an answer that broke off is gone on with.
    pub fn continuation(mut self, continuation: Continuation) -> Self {
        self.continuation = continuation;
        self
    }

    /// Reminds the model of `text` after every so many rounds of tools in a turn, at least 1.
    pub fn pin(mut self, every: u32, text: impl Into<String>) -> Self {
        self.pinned = Some(Pinned {
            every: every.max(1),
            text: text.into(),
        });
        self
    }

    /// Sets how many tokens the model's context has. Near it, what was said long ago is replaced by
    /// a summary. Default: unknown, so nothing is.
    ///
    /// Where no summary can be made the oldest tool results are left out. It is tried again in the
    /// next turn, or once the context has grown by a tenth of this.
    pub fn context_tokens(mut self, tokens: u64) -> Self {
        self.context_tokens = Some(tokens);
        self
    }

    /// Sets in how many answers of one turn the model may call tools; 0 for any number. Default: 200.
    ///
    /// What it calls beyond that is not run, and the turn ends without a reply.
    pub fn max_rounds(mut self, rounds: u32) -> Self {
        self.max_rounds = rounds;
        self
    }

    /// Sets how many times in one exchange the model may be reminded of what it left undone, the host's
    /// own reminder included: 0 for never, at most 3. Default: 3.
    pub fn reminders(mut self, most: u32) -> Self {
        self.reminders = most.min(MOST_NUDGES);
        self
    }

    /// Sets by which names limits are told that ran out, where people set them by others than those of
    /// this builder.
    pub fn setting_names(mut self, names: SettingNames) -> Self {
        self.names = names;
        self
    }

    /// Returns the agent.
    ///
    /// # Errors
    ///
    /// Fails where the profile that was set asks for a setting that is missing.
    pub fn build(self) -> Result<Agent, SettingError> {
        let mut settings = if let Some(settings) = self.settings {
            settings
        } else {
            let wire = self.upstream.wire().defaults();
            let target = Target {
                wire: &wire,
                host: Some(self.upstream.base_url().host()),
                model: Some(&self.model),
            };
            resolve(&[&self.layer], &target)?
        };
        raise_tries(&mut settings);
        Ok(Agent {
            client: self.client,
            upstream: self.upstream,
            terms: Terms {
                model: self.model,
                system: self.system,
                max_tokens: self.max_tokens,
                extra: self.extra,
                settings,
                wall_clock: self.wall_clock,
                wall_clock_spent: self.wall_clock_spent,
                continuation: self.continuation,
                pinned: self.pinned,
                context_tokens: self.context_tokens,
                max_rounds: self.max_rounds,
                names: self.names,
                reminders: self.reminders,
            },
            toolbox: self.toolbox,
            policy: self.policy,
            transcript: self.transcript.unwrap_or_else(Transcript::in_memory),
            takes_prefill: true,
        })
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("upstream", &self.upstream)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Raises what nobody has set: nobody waits at a prompt for an agent, so it bears with refusals for
/// longer than a call does. [`AgentBuilder::build`] does it.
pub fn raise_tries(settings: &mut Settings) {
    let retry = &mut settings.retry;
    if retry.attempts.origin == Origin::Default {
        retry.attempts.value = retry.attempts.value.max(OVERLOAD_TRIES);
    }
    if retry.overload.tries.origin == Origin::Default {
        retry.overload.tries.value = Tries::Count(OVERLOAD_TRIES);
    }
    if retry.rate.tries.origin == Origin::Default {
        retry.rate.tries.value = Tries::Count(RATE_TRIES);
    }
}

/// More than any task is known to want, and less than somebody would like to pay for in vain.
const DEFAULT_ROUNDS: u32 = 200;

const OVERLOAD_TRIES: u32 = 7;

const RATE_TRIES: u32 = 6;

#[cfg(test)]
mod tests {
    use lifesign::{Tier, Wire};
    use pretty_assertions::assert_eq;

    use super::*;

    fn tries(sets: &[(&str, &str)]) -> [u32; 4] {
        let upstream = Upstream::new(Wire::OPENAI_CHAT, "http://127.0.0.1:1").unwrap();
        let mut builder = Agent::builder(Client::new().unwrap(), upstream, "m");
        for (key, value) in sets {
            builder = builder.set(key, value).unwrap();
        }
        let retry = builder.build().unwrap().terms.settings.retry;
        Tier::ALL.map(|tier| retry.tries(tier))
    }

    #[test]
    fn an_agent_bears_with_refusals_for_longer_unless_somebody_set_how_long() {
        assert_eq!(tries(&[]), [3, 2, 6, 7]);
        assert_eq!(tries(&[("retry.attempts", "2")]), [2, 2, 2, 2]);
        assert_eq!(tries(&[("retry.rate.tries", "4")]), [3, 2, 4, 7]);
    }

    #[test]
    fn a_turn_may_have_many_rounds_and_not_any_number() {
        let upstream = Upstream::new(Wire::OPENAI_CHAT, "http://127.0.0.1:1").unwrap();
        let builder = Agent::builder(Client::new().unwrap(), upstream, "m");

        assert_eq!(builder.build().unwrap().terms.max_rounds, 200);
    }

    #[test]
    fn a_setting_that_there_is_not_is_refused_by_its_name() {
        let upstream = Upstream::new(Wire::OPENAI_CHAT, "http://127.0.0.1:1").unwrap();
        let builder = Agent::builder(Client::new().unwrap(), upstream, "m");

        let error = builder.set("bounds.raw_silense", "45s").unwrap_err();

        assert!(error.to_string().contains("bounds.raw_silense"), "{error}");
    }
}
