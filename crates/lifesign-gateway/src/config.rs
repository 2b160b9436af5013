//! The gateway's settings, from the file, the environment and the flags.
//!
//! One file serves the client and the gateway. The client reads it and hands over what is the
//! gateway's ([`GatewayTables`]); what no single value shows is refused when the sum is built
//! ([`GatewayConfig::new`]), so that a gateway that starts has settings that can be used.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use lifesign::config::Config;
use lifesign_core::{Layer, Limit, Origin, ROWS, Setting, SettingError, Settings, Value};
use lifesign_wire::Wire;

pub use self::beats::{BeatForm, Beats, BeatsLayer};
pub use self::call_layer::{Asked, CallLayer};
pub use self::caller_key::CallerKey;
pub use self::journal::JournalConfig;
pub use self::reference::settings_markdown;
pub use self::route::Route;
pub use self::schema::config_schema;
pub use self::serve::{Breaker, GatewayLimits, Listen, LogForm, Serve};
pub use self::tables::GatewayTables;
pub use self::tools::ToolsConfig;
pub use self::traces::TracesConfig;
pub use self::upstream::{Assemble, Auth, GatewayUpstream, UsageMode};

mod beats;
mod call_layer;
mod caller_key;
mod checks;
mod explain;
mod journal;
mod named;
mod opened;
mod reference;
mod route;
mod schema;
mod serve;
mod table;
mod tables;
mod tools;
mod traces;
mod upstream;

/// The settings of a gateway, which can be used.
///
/// # Example
///
/// This example shows a gateway without a file.
///
/// ```
/// use lifesign_gateway::config::GatewayConfig;
///
/// let upstreams = ["openai=http://127.0.0.1:8080".to_owned()];
/// let config = GatewayConfig::from_flags(&upstreams, [], &["beats.every=5s".to_owned()])?;
///
/// let names: Vec<_> = config.upstreams.iter().map(|it| it.name()).collect();
/// assert_eq!(names, ["openai", "openai (responses)"]);
/// # Ok::<(), lifesign_core::SettingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// `[serve]`.
    pub serve: Serve,
    /// `[breaker]`.
    pub breaker: Breaker,
    /// The gateway's part of `[limits]`; the rest belongs to each call's settings.
    pub limits: GatewayLimits,
    /// `[journal]`.
    pub journal: JournalConfig,
    /// `telemetry.log`.
    pub log: Setting<LogForm>,
    /// `telemetry.otlp_...`.
    pub traces: TracesConfig,
    /// Each `[[upstream]]`, then those of the command line.
    pub upstreams: Vec<Arc<GatewayUpstream>>,
    /// Each `[[route]]`.
    pub routes: Vec<Route>,
    /// Each `[[key]]`.
    pub keys: Vec<CallerKey>,
    client: Config,
    defaults: Layer,
    beats: BeatsLayer,
    strong_beats: BeatsLayer,
    positions: BTreeMap<String, String>,
}

impl GatewayConfig {
    /// Reads a file if one is given, the variables that begin with `LIFESIGN_`, `key=value` texts,
    /// and `NAME=URL` texts that name upstreams.
    ///
    /// # Errors
    ///
    /// Returns the first thing that cannot be used, with its position.
    pub fn load(
        path: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        assignments: &[String],
        upstreams: &[String],
    ) -> Result<Self, SettingError> {
        let mut tables = GatewayTables::default();
        let mut client = Config::load_with(path, variables, assignments, &mut tables)?;
        let lanes = named::add(&mut client, upstreams)?;
        Self::build(client, tables, &lanes)
    }

    /// Does what [`load`](Self::load) does without a file.
    ///
    /// # Errors
    ///
    /// Returns the first thing that cannot be used.
    pub fn from_flags(
        upstreams: &[String],
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        assignments: &[String],
    ) -> Result<Self, SettingError> {
        Self::load(None, variables, assignments, upstreams)
    }

    /// Returns the settings of a gateway with what was read together: the client's part, and what
    /// it handed over.
    ///
    /// # Errors
    ///
    /// Returns the first thing that cannot be used in sum, with its position.
    pub fn new(client: Config, tables: GatewayTables) -> Result<Self, SettingError> {
        Self::build(client, tables, &[])
    }

    /// `lanes` are those of the last upstreams; before them each has its own.
    fn build(
        client: Config,
        mut tables: GatewayTables,
        lanes: &[String],
    ) -> Result<Self, SettingError> {
        let defaults = retry_defaults()?;
        let in_file = client.upstreams().len() - lanes.len();
        let mut upstreams = Vec::new();
        for (at, upstream) in client.upstreams().iter().enumerate() {
            let lane = match at.checked_sub(in_file).and_then(|at| lanes.get(at)) {
                Some(lane) => lane.clone(),
                None => upstream.name.clone(),
            };
            let settings = client.settings_between(&defaults, upstream, None, &Layer::new())?;
            let table = tables.upstreams.get(at).cloned().unwrap_or_default();
            let has_keys = !tables.keys.is_empty();
            let upstream =
                table.into_upstream(upstream.clone(), lane, has_keys, Arc::new(settings));
            upstreams.push(Arc::new(upstream));
        }
        let config = Self {
            serve: tables.serve.clone(),
            breaker: tables.breaker.clone(),
            limits: tables.limits.clone(),
            journal: tables.journal.clone(),
            log: tables.log.clone(),
            traces: tables.traces.clone(),
            upstreams,
            routes: std::mem::take(&mut tables.routes),
            keys: std::mem::take(&mut tables.keys),
            client,
            defaults,
            beats: tables.beats.clone(),
            strong_beats: tables.strong_beats.clone(),
            positions: tables.positions.clone(),
        };
        config.refuse(&tables)?;
        Ok(config)
    }

    /// Returns the upstream of this name.
    pub fn upstream(&self, name: &str) -> Option<&Arc<GatewayUpstream>> {
        self.upstreams
            .iter()
            .find(|upstream| upstream.name() == name)
    }

    /// Returns whom to ask for `model` over `wire`, in this order.
    ///
    /// The first route that matches decides; without one it is every upstream of that wire that has
    /// the model. Where the caller's own key goes along, it stays with the host it is meant for.
    pub fn choose(&self, wire: Wire, model: Option<&str>) -> Choice<'_> {
        let asked = |route: &Route| -> Vec<&Arc<GatewayUpstream>> {
            let names = route.upstreams.iter();
            names.filter_map(|name| self.upstream(name)).collect()
        };
        let route = self.routes.iter().find(|route| {
            route.is_for(model) && asked(route).first().is_some_and(|it| it.wire() == wire)
        });
        if let Some(route) = route {
            return Choice {
                route: Some(route),
                upstreams: asked(route),
            };
        }
        let has_model = |it: &GatewayUpstream| model.is_none_or(|model| it.has_model(model));
        let mut upstreams: Vec<_> = self
            .upstreams
            .iter()
            .filter(|upstream| upstream.wire() == wire && has_model(upstream))
            .collect();
        if let Some(meant) = checks::first_to_pass(&upstreams) {
            upstreams.retain(|other| checks::may_share_credential(meant, other));
        }
        Choice {
            route: None,
            upstreams,
        }
    }

    /// Returns the settings in force for a call that asks `upstream` for `model`, which is named as
    /// the upstream names it.
    ///
    /// From the weakest: the gateway's defaults, catalog, profile, file, the upstream's own,
    /// environment, flags, and what the call has set. A call never lengthens its wall clock.
    ///
    /// # Errors
    ///
    /// Returns an error if what the call has set asks for a setting that is missing.
    pub fn settings(
        &self,
        upstream: &GatewayUpstream,
        model: Option<&str>,
        call: Option<&CallLayer>,
    ) -> Result<Arc<Settings>, SettingError> {
        let call = call.filter(|call| !call.settings.is_empty());
        let base = if ROWS.iter().all(|row| row.models.is_empty()) {
            Arc::clone(&upstream.settings)
        } else {
            Arc::new(self.resolve(upstream, model, &Layer::new())?)
        };
        let Some(call) = call else {
            return Ok(base);
        };
        let mut settings = self.resolve(upstream, model, &call.settings)?;
        if call.sets_wall_clock() {
            let (ours, theirs) = (&base.bounds.wall_clock, &settings.bounds.wall_clock);
            if is_longer(theirs.value, ours.value) {
                settings.bounds.wall_clock = ours.clone();
            }
        }
        Ok(Arc::new(settings))
    }

    fn resolve(
        &self,
        upstream: &GatewayUpstream,
        model: Option<&str>,
        call: &Layer,
    ) -> Result<Settings, SettingError> {
        self.client
            .settings_between(&self.defaults, &upstream.client, model, call)
    }

    /// Returns the beats in force.
    ///
    /// From the weakest: defaults, file, upstream, route, key, environment and flags, and what the
    /// call has set.
    pub fn beats(
        &self,
        upstream: Option<&GatewayUpstream>,
        route: Option<&Route>,
        key: Option<&CallerKey>,
        call: Option<&CallLayer>,
    ) -> Beats {
        let layers = [
            Some(&self.beats),
            upstream.map(|it| &it.beats),
            route.map(|it| &it.beats),
            key.map(|it| &it.beats),
            Some(&self.strong_beats),
            call.map(|it| &it.beats),
        ];
        let mut beats = Beats::default();
        for layer in layers.into_iter().flatten() {
            layer.apply(&mut beats);
        }
        beats
    }

    /// Adds to a refusal of `setting` where it stands, if that is known.
    fn placed(&self, error: SettingError, setting: &str) -> SettingError {
        match self.positions.get(setting) {
            Some(position) => error.with_position(position.as_str()),
            None => error,
        }
    }
}

/// Whom to ask.
#[derive(Clone, Debug)]
pub struct Choice<'c> {
    /// The route that decided, if one did.
    pub route: Option<&'c Route>,
    /// Whom to ask, in this order.
    pub upstreams: Vec<&'c Arc<GatewayUpstream>>,
}

/// Returns what the gateway retries by where nobody says otherwise: a caller waits for it, and may
/// retry for itself.
fn retry_defaults() -> Result<Layer, SettingError> {
    let mut layer = Layer::new();
    for (key, value) in [
        ("retry.attempts", Value::Integer(3)),
        ("retry.max_total_wait", Value::Text("30s")),
        ("retry.overload.first_delay", Value::Text("2s")),
    ] {
        layer.set(key, value, Origin::Default)?;
    }
    Ok(layer)
}

fn is_longer(one: Limit, other: Limit) -> bool {
    match (one, other) {
        (_, Limit::Off) => false,
        (Limit::Off, Limit::After(_)) => true,
        (Limit::After(one), Limit::After(other)) => one > other,
    }
}

#[cfg(test)]
mod tests;
