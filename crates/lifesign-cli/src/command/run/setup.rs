//! From arguments and settings to an agent: first everything is checked, then servers are started.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lifesign::CallRequest;
use lifesign::clock::CallClock;
use lifesign_agent::tools::Toolbox as _;
use lifesign_agent::tools::mcp::Sampler;
use lifesign_agent::{Agent, AgentBuilder, Resend, SettingNames, raise_tries};
use lifesign_core::{Hosts, Layer, Origin, SettingError, Value, duration};
use lifesign_gateway::config::LogForm;
use serde_json::Value as Json;
use tracing_subscriber::filter::LevelFilter;

use super::conversation::{self, Wanted};
use super::flags;
use super::supplies::{Stock, Supplies};
use crate::args::{RunArgs, TargetArgs};
use crate::command::journal::CallJournal;
use crate::command::prompt;
use crate::command::target::{Loaded, Target, model};
use crate::log::Log;

/// Everything that can be refused before anything starts.
pub(super) struct Setup {
    builder: AgentBuilder,
    sampler: Sampler,
    wanted: Wanted,
    wall_clock: Option<Duration>,
    /// Whom the agent asks.
    asked: String,
    transcript: Option<PathBuf>,
    supplies: Supplies,
    journal: Option<CallJournal>,
    form: LogForm,
    level: LevelFilter,
}

/// An agent that can begin.
pub(super) struct Ready {
    pub(super) agent: Agent,
    pub(super) wanted: Wanted,
    /// Whom it asks, for people.
    pub(super) asked: String,
    /// The file of the conversation, if it is kept in one.
    pub(super) transcript: Option<PathBuf>,
    pub(super) stock: Stock,
    pub(super) journal: Option<CallJournal>,
    /// Writes what is left when it is dropped.
    pub(super) log: Log,
}

impl Setup {
    /// Reads everything that the arguments name; whatever cannot be used is refused here.
    pub(super) fn prepare(args: &RunArgs) -> anyhow::Result<Self> {
        let loaded = Loaded::load(&args.target)?;
        let target = loaded.target(&args.target)?;
        let level = flags::level(&args.log)?;
        let wall_clock = args.wall_clock.as_deref();
        let wall_clock = wall_clock
            .map(|text| flags::time("--wall-clock", text))
            .transpose()?;
        let waits: Result<Vec<_>, _> = args
            .resend
            .iter()
            .map(|wait| flags::time("--resend", wait))
            .collect();
        let waits = waits?;
        check_model(&args.target, &target)?;
        let model = model(&args.target);
        let settings = target.settings_over(&defaults(wall_clock)?, Some(&model));
        let mut settings = settings.map_err(name_wall_clock)?;
        let extra = extra(&args.extra)?;
        // For the calls of tool servers too.
        raise_tries(&mut settings);
        let client = target.client()?;
        let upstream = target.with_key(args.api_key_env.as_deref())?;
        let asked = {
            let it = target.upstream();
            format!("{model} at {} ({}, {})", it.name, it.wire, it.base_url)
        };
        let system = system(args)?;
        let supplies = Supplies::prepare(args, loaded.tools())?;
        let wanted = Wanted::read(args)?;
        let transcript = conversation::open(args.transcript.as_deref(), &wanted)?;
        // The last, since it leaves a file behind.
        let journal = match &args.journal {
            Some(path) => Some(CallJournal::open(path.as_deref(), loaded.journal())?),
            None => None,
        };
        let client = match &journal {
            Some(journal) => client.with_records(journal.records()),
            None => client,
        };

        let sampler = {
            let (upstream, model) = (Arc::clone(&upstream), model.clone());
            let settings = settings.clone();
            Sampler::new(client.clone(), move |mut request| {
                request.model.clone_from(&model);
                Ok(CallRequest::new(Arc::clone(&upstream), request).settings(settings.clone()))
            })
        };
        let mut builder = Agent::builder(client, upstream, model)
            .settings(settings)
            .setting_names(NAMES)
            .transcript(transcript);
        for (name, value) in extra {
            builder = builder.extra(name, value);
        }
        if let Some(most) = args.reminders {
            builder = builder.reminders(most);
        }
        if let Some(system) = system {
            builder = builder.system(system);
        }
        if let Some(limit) = wall_clock {
            builder = builder.wall_clock(limit);
        }
        if let Some(tokens) = args.target.max_tokens {
            builder = builder.max_tokens(tokens);
        }
        if let Some(tokens) = args.context_tokens {
            builder = builder.context_tokens(tokens);
        }
        if let Some(rounds) = args.max_rounds {
            builder = builder.max_rounds(rounds);
        }
        if !waits.is_empty() {
            builder = builder.policy(Arc::new(Resend(waits)));
        }
        Ok(Self {
            builder,
            sampler,
            wanted,
            wall_clock,
            asked,
            transcript: args.transcript.clone(),
            supplies,
            journal,
            form: loaded.log(),
            level,
        })
    }

    /// Returns the wall clock that what is started here is part of: that of the one turn, if there is
    /// but one.
    pub(super) const fn wall_clock(&self) -> Option<Duration> {
        match self.wanted {
            Wanted::Turn(_) => self.wall_clock,
            Wanted::Talk { .. } => None,
        }
    }

    /// Starts the servers of tools, and returns the agent.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills what was started.
    pub(super) async fn start(self) -> anyhow::Result<Ready> {
        let log = Log::start(self.form, self.level)?;
        let clock = CallClock::start();
        let is_timed = self.wall_clock().is_some();
        let stock = self.supplies.start(self.sampler).await?;
        let mut builder = self.builder;
        if is_timed {
            builder = builder.wall_clock_spent(clock.elapsed());
        }
        let tools = stock.tools();
        let specs = tools.tools();
        if !specs.is_empty() {
            builder = builder.tools(tools);
        }
        let agent = builder.build()?;
        conversation::miss_tools(agent.transcript(), &self.wanted, &specs);
        Ok(Ready {
            agent,
            wanted: self.wanted,
            asked: self.asked,
            transcript: self.transcript,
            stock,
            journal: self.journal,
            log,
        })
    }
}

/// Returns what holds where nobody has set it: a turn that has a wall clock has one for each of its
/// calls too, for profiles that want one. It is longer, so that the turn's own runs out.
fn defaults(wall_clock: Option<Duration>) -> Result<Layer, SettingError> {
    let mut layer = Layer::new();
    if let Some(limit) = wall_clock {
        let text = duration::human(limit.saturating_add(MARGIN));
        layer.set("bounds.wall_clock", Value::Text(&text), Origin::Call)?;
    }
    Ok(layer)
}

/// Refuses a model that is left out where the upstream serves more than one: a provider would refuse
/// the name that servers of one model take.
fn check_model(args: &TargetArgs, target: &Target) -> Result<(), SettingError> {
    let host = target.upstream().base_url.host();
    if args.model.is_some() || Hosts::Private.contain(host) {
        return Ok(());
    }
    Err(
        SettingError::new("--model", format!("is missing, and {host} has several"))
            .with_accepted("the name of one that the provider has"),
    )
}

/// Says of a wall clock that a profile wants what sets the turn's.
fn name_wall_clock(error: SettingError) -> SettingError {
    if &*error.field != "bounds.wall_clock" || error.value.is_some() {
        return error;
    }
    error.with_hint("give --wall-clock for the whole turn, or take the profile `patient`")
}

/// Reads fields for the body of each request.
fn extra(pairs: &[String]) -> Result<Vec<(String, Json)>, SettingError> {
    let read = |pair: &String| {
        let refuse = |problem: String| {
            SettingError::new("--extra", problem)
                .with_value(&Value::Text(pair))
                .with_accepted(
                    "a name and a value in JSON, such as temperature=0.2 or stop='[\"END\"]'",
                )
        };
        let (name, value) = pair
            .split_once('=')
            .filter(|(name, _)| !name.trim().is_empty())
            .ok_or_else(|| refuse("has no name before a `=`".to_owned()))?;
        if OURS.contains(&name) {
            return Err(refuse(format!("is about `{name}`, which is made here")));
        }
        let value = serde_json::from_str(value)
            .map_err(|error| refuse(format!("has a value that is no JSON ({error})")))?;
        Ok((name.to_owned(), value))
    };
    pairs.iter().map(read).collect()
}

/// Returns what the model is told beforehand.
fn system(args: &RunArgs) -> anyhow::Result<Option<String>> {
    match (&args.system, &args.system_file) {
        (Some(text), _) => Ok(Some(text.clone())),
        (None, Some(path)) => prompt::of_file("--system-file", path).map(Some),
        (None, None) => Ok(None),
    }
}

/// What people set the limits of a turn with here.
pub(super) const NAMES: SettingNames = SettingNames {
    wall_clock: "--wall-clock",
    max_rounds: "--max-rounds",
};

/// What a request has of the conversation, or is read by.
const OURS: [&str; 5] = ["input", "messages", "model", "stream", "tools"];

/// By how much a call's wall clock is longer than its turn's.
const MARGIN: Duration = Duration::from_secs(1);
