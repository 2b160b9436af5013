//! Whom a command is about, and the settings in force for it.

use std::sync::Arc;

use lifesign::config::{Config, KeySource, UpstreamConfig, process_variables};
use lifesign::transport::{ProxyEnv, TransportConfig};
use lifesign::{BaseUrl, Client, Upstream};
use lifesign_core::{Layer, SettingError, Settings, Value};
use lifesign_gateway::config::{GatewayConfig, GatewayTables, JournalConfig, LogForm, ToolsConfig};
use lifesign_wire::Wire;

use crate::args::TargetArgs;

/// What the file, the environment and the flags say.
pub(crate) struct Loaded {
    config: Config,
    /// What of it is the gateway's.
    tables: GatewayTables,
}

impl Loaded {
    /// Reads everything that the arguments name; whatever cannot be used is refused here.
    pub(crate) fn load(args: &TargetArgs) -> anyhow::Result<Self> {
        let mut sets = args.sets.clone();
        if let Some(profile) = &args.profile {
            sets.push(format!("profile={profile}"));
        }
        let mut tables = GatewayTables::default();
        let path = args.config.as_deref();
        let config = Config::load_with(path, process_variables(), &sets, &mut tables)?;
        Ok(Self { config, tables })
    }

    /// Returns whether anything in it is the gateway's.
    pub(crate) fn is_for_gateway(&self) -> bool {
        self.tables.is_used()
    }

    /// Returns what is said of the journal.
    pub(crate) fn journal(&self) -> &JournalConfig {
        self.tables.journal()
    }

    /// Returns what is said of an agent's tools.
    pub(crate) fn tools(&self) -> &ToolsConfig {
        self.tables.tools()
    }

    /// Returns what the log is to look like.
    pub(crate) fn log(&self) -> LogForm {
        self.tables.log()
    }

    /// Returns the gateway that it makes; whatever keeps one from starting is refused here.
    pub(crate) fn gateway(&self) -> Result<GatewayConfig, SettingError> {
        GatewayConfig::new(self.config.clone(), self.tables.clone())
    }

    /// Returns the gateway in which `target` is an upstream, whether the file has it or a flag.
    pub(crate) fn gateway_with(&self, target: &Target) -> Result<GatewayConfig, SettingError> {
        let mut config = self.config.clone();
        let upstream = target.upstream();
        if config.upstream(&upstream.name).is_err() {
            config.push_upstream(upstream.clone());
        }
        GatewayConfig::new(config, self.tables.clone())
    }

    /// Returns the upstream that the arguments name, or the only one.
    pub(crate) fn target(&self, args: &TargetArgs) -> anyhow::Result<Target> {
        let upstream = match (&args.upstream, &args.base_url) {
            (Some(name), _) => self.config.upstream(name)?.clone(),
            (None, Some(base_url)) => upstream_at(base_url, args.wire.as_deref())?,
            (None, None) => match self.config.upstreams() {
                [] => return Err(nobody_named().into()),
                [only] => only.clone(),
                several => return Err(one_of(several).into()),
            },
        };
        Ok(self.target_at(upstream))
    }

    /// Returns the upstream that the arguments name, or else each.
    ///
    /// Of several, one that does not have the model is left out.
    pub(crate) fn targets(&self, args: &TargetArgs) -> anyhow::Result<Vec<Target>> {
        let upstreams = self.config.upstreams();
        if args.upstream.is_some() || args.base_url.is_some() || upstreams.len() < 2 {
            return Ok(vec![self.target(args)?]);
        }
        let model = args.model.as_deref();
        Ok(upstreams
            .iter()
            .filter(|upstream| model.is_none_or(|model| upstream.has_model(model)))
            .map(|upstream| self.target_at(upstream.clone()))
            .collect())
    }

    fn target_at(&self, upstream: UpstreamConfig) -> Target {
        Target {
            config: self.config.clone(),
            upstream,
        }
    }
}

/// An upstream and the settings that the file, the environment and the flags make for it.
pub(crate) struct Target {
    config: Config,
    upstream: UpstreamConfig,
}

impl Target {
    /// Returns the settings in force for a call to `model`, which the upstream must have.
    pub(crate) fn settings(&self, model: Option<&str>) -> Result<Settings, SettingError> {
        self.settings_over(&Layer::new(), model)
    }

    /// Returns the settings in force where `defaults` hold below everything that was set.
    pub(crate) fn settings_over(
        &self,
        defaults: &Layer,
        model: Option<&str>,
    ) -> Result<Settings, SettingError> {
        if let Some(model) = model.filter(|model| !self.upstream.has_model(model)) {
            let problem = format!("is not among the models of `{}`", self.upstream.name);
            let patterns: Vec<_> = self
                .upstream
                .models
                .iter()
                .map(|it| format!("`{it}`"))
                .collect();
            return Err(SettingError::new("--model", problem)
                .with_value(&Value::Text(model))
                .with_accepted(patterns.join(", ")));
        }
        self.config
            .settings_between(defaults, &self.upstream, model, &Layer::new())
    }

    pub(crate) fn wire(&self) -> Wire {
        self.upstream.wire
    }

    pub(crate) fn upstream(&self) -> &UpstreamConfig {
        &self.upstream
    }

    /// Returns the upstream with its key: from `variable` if one is named, else the usual places.
    pub(crate) fn with_key(&self, variable: Option<&str>) -> anyhow::Result<Arc<Upstream>> {
        let lookup = |name: &str| std::env::var_os(name);
        let is_set = |name: &str| {
            lookup(name).is_some_and(|value| !value.to_string_lossy().trim().is_empty())
        };
        let usual = self.upstream.wire.key_variable();
        let key = match (variable, &self.upstream.api_key) {
            (Some(name), _) => Some(KeySource::Env(name.to_owned()).read(lookup)?),
            (None, Some(_)) => self.upstream.read_key(lookup)?,
            (None, None) => [OWN_KEY, usual]
                .into_iter()
                .find(|name| is_set(name))
                .map(|name| KeySource::Env(name.to_owned()).read(lookup))
                .transpose()?,
        };
        Ok(Arc::new(self.upstream.to_upstream(key)))
    }

    /// Opens what a call would open before it sends anything; whatever cannot be used is refused.
    pub(crate) fn open(&self) -> anyhow::Result<()> {
        self.client()?;
        self.with_key(None)?;
        Ok(())
    }

    /// Returns a client that reaches the upstream.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let mut config = TransportConfig {
            proxy: ProxyEnv::from_env(),
            ..TransportConfig::default()
        };
        config.pool_idle = self.upstream.pool_idle;
        config.extra_roots.extend(self.upstream.read_extra_roots()?);
        Ok(Client::with_transport(config)?)
    }
}

/// Returns the model to ask.
pub(crate) fn model(args: &TargetArgs) -> String {
    let model = args.model.as_deref();
    model.unwrap_or(UNNAMED_MODEL).to_owned()
}

fn upstream_at(base_url: &str, wire: Option<&str>) -> Result<UpstreamConfig, SettingError> {
    let refuse = |flag: &str, value: &str, problem: String| {
        SettingError::new(flag, problem).with_value(&Value::Text(value))
    };
    let wire = wire.unwrap_or_default();
    let wire = Wire::parse(wire).map_err(|_| {
        let known: Vec<_> = Wire::ALL.iter().map(|wire| wire.name()).collect();
        refuse("--wire", wire, "is no wire".to_owned()).with_accepted(known.join(", "))
    })?;
    let base_url = BaseUrl::parse(base_url).map_err(|error| {
        let accepted = "a URL such as https://api.openai.com or http://127.0.0.1:8080/v1";
        // Where a name and password or a query stand, there may be a secret.
        if base_url.contains(['@', '?', '#']) {
            return SettingError::new("--base-url", error.to_string()).with_accepted(accepted);
        }
        refuse("--base-url", base_url, format!("cannot be used: {error}")).with_accepted(accepted)
    })?;
    Ok(UpstreamConfig::new(wire, base_url))
}

fn nobody_named() -> SettingError {
    SettingError::new("", "nobody to call: no upstream is named")
        .with_hint("give --base-url URL and --wire WIRE, or --upstream NAME with --config FILE")
}

fn one_of(several: &[UpstreamConfig]) -> SettingError {
    let names: Vec<_> = several.iter().map(|it| it.name.as_str()).collect();
    SettingError::new("--upstream", "is not given, and there are several")
        .with_accepted(names.join(", "))
}

/// Servers of one model take any name.
const UNNAMED_MODEL: &str = "default";

/// The variable that wins over the wire's usual one.
const OWN_KEY: &str = "LIFESIGN_API_KEY";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_the_upstream_does_not_have_is_refused() {
        let mut upstream = upstream_at("http://127.0.0.1:1", Some("anthropic")).unwrap();
        upstream.name = "claude".to_owned();
        upstream.models = vec!["claude-*".to_owned(), "fable".to_owned()];
        let target = Target {
            config: Config::default(),
            upstream,
        };

        assert!(target.settings(Some("claude-opus")).is_ok());
        assert!(target.settings(None).is_ok());
        assert_eq!(
            target.settings(Some("gpt-5")).unwrap_err().to_string(),
            "--model: \"gpt-5\" is not among the models of `claude`; accepted: `claude-*`, `fable`"
        );
    }
}
