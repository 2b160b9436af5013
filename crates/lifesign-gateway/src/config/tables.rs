//! What a file, the environment and the flags say that is the gateway's, as they say it.

use std::collections::BTreeMap;

use lifesign::config::{Element, Entry, Extension};
use lifesign_core::{FileKey, Origin, Setting, SettingError};

use super::beats::BeatsLayer;
use super::caller_key::CallerKey;
use super::journal::JournalConfig;
use super::route::Route;
use super::serve::{Breaker, GatewayLimits, LogForm, Serve};
use super::table::{ARRAYS, SETTINGS, UPSTREAM};
use super::tools::ToolsConfig;
use super::traces::TracesConfig;
use super::upstream::UpstreamTable;

/// What a file, the environment and the flags say that is the gateway's.
///
/// Hand it to [`Config::load_with`](lifesign::config::Config::load_with) so that a file with the
/// gateway's tables is read; each value is checked then, and their sum by
/// [`GatewayConfig::new`](super::GatewayConfig::new).
#[derive(Clone, Debug)]
pub struct GatewayTables {
    pub(super) serve: Serve,
    pub(super) breaker: Breaker,
    pub(super) limits: GatewayLimits,
    pub(super) journal: JournalConfig,
    pub(super) log: Setting<LogForm>,
    pub(super) traces: TracesConfig,
    tools: ToolsConfig,
    /// What the file says about beats, weaker than what upstreams, routes and keys say.
    pub(super) beats: BeatsLayer,
    /// What the environment and the flags say about beats, stronger than all of these.
    pub(super) strong_beats: BeatsLayer,
    /// In the order of the file's upstreams; those at the end may be missing.
    pub(super) upstreams: Vec<UpstreamTable>,
    pub(super) routes: Vec<Route>,
    pub(super) keys: Vec<CallerKey>,
    /// Where settings stand, by name.
    pub(super) positions: BTreeMap<String, String>,
    is_used: bool,
}

impl Default for GatewayTables {
    fn default() -> Self {
        Self {
            serve: Serve::default(),
            breaker: Breaker::default(),
            limits: GatewayLimits::default(),
            journal: JournalConfig::default(),
            log: Setting::default_value(LogForm::Human),
            traces: TracesConfig::default(),
            tools: ToolsConfig::default(),
            beats: BeatsLayer::default(),
            strong_beats: BeatsLayer::default(),
            upstreams: Vec::new(),
            routes: Vec::new(),
            keys: Vec::new(),
            positions: BTreeMap::new(),
            is_used: false,
        }
    }
}

impl GatewayTables {
    /// Returns whether anything was said that is the gateway's.
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// Adds to a refusal of `setting` where it stands, if that is known.
    pub(super) fn placed(&self, error: SettingError, setting: &str) -> SettingError {
        match self.positions.get(setting) {
            Some(position) => error.with_position(position.as_str()),
            None => error,
        }
    }

    /// Returns what is said of the journal.
    pub fn journal(&self) -> &JournalConfig {
        &self.journal
    }

    /// Returns what the log is to look like.
    pub fn log(&self) -> LogForm {
        self.log.value
    }

    /// Returns what is said of agents' tools.
    pub fn tools(&self) -> &ToolsConfig {
        &self.tools
    }

    fn note(&mut self, name: String, entry: &Entry<'_>) {
        self.is_used = true;
        match entry.position() {
            Some(position) => self.positions.insert(name, position),
            // A flag has no place, and what it replaces is no longer in force.
            None => self.positions.remove(&name),
        };
    }
}

impl Extension for GatewayTables {
    fn settings(&self) -> &'static [FileKey] {
        SETTINGS
    }

    fn upstream_keys(&self) -> &'static [FileKey] {
        UPSTREAM
    }

    fn arrays(&self) -> &'static [(&'static str, &'static [FileKey])] {
        ARRAYS
    }

    fn handle_setting(&mut self, entry: &Entry<'_>) -> Result<(), SettingError> {
        if let Some(("tools", _)) = entry.field().split_once('.') {
            return self.tools.handle(entry);
        }
        self.note(entry.field().to_owned(), entry);
        match entry.field().split_once('.') {
            Some(("serve", _)) => self.serve.handle(entry),
            Some(("beats", _)) => match entry.origin() {
                Origin::File { .. } => self.beats.handle(entry),
                _ => self.strong_beats.handle(entry),
            },
            Some(("breaker", _)) => self.breaker.handle(entry),
            Some(("limits", _)) => self.limits.handle(entry),
            Some(("journal", _)) => self.journal.handle(entry),
            Some(("telemetry", "log")) => {
                self.log = entry.setting(LogForm::ALL[entry.one_of(&LogForm::WORDS)?]);
                Ok(())
            }
            Some(("telemetry", _)) => self.traces.handle(entry),
            _ => Err(entry.refuse("is no setting of the gateway")),
        }
    }

    fn handle_upstream(&mut self, at: usize, entry: &Entry<'_>) -> Result<(), SettingError> {
        self.note(format!("upstream.{at}.{}", entry.key()), entry);
        if self.upstreams.len() <= at {
            self.upstreams.resize_with(at + 1, UpstreamTable::default);
        }
        self.upstreams[at].handle(entry)
    }

    fn handle_element(&mut self, element: &Element<'_>) -> Result<(), SettingError> {
        self.is_used = true;
        if element.array == "route" {
            self.routes.push(Route::read(element)?);
        } else {
            self.keys.push(CallerKey::read(element)?);
        }
        Ok(())
    }
}
