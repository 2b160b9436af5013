//! `[[upstream]]`: what the gateway adds to what the client knows of one.

use std::ffi::OsString;
use std::sync::Arc;

use lifesign::config::{Entry, KeySource, UpstreamConfig};
use lifesign_core::{Limit, Origin, Setting, SettingError, Settings, glob, written};
use lifesign_wire::Wire;
use secrecy::SecretString;

use super::beats::BeatsLayer;

/// An upstream of the gateway's.
#[derive(Clone, Debug)]
pub struct GatewayUpstream {
    /// What the client knows of it.
    pub client: UpstreamConfig,
    /// Whose places, breakers and holds it shares: its own name, or that of the first where one
    /// name on the command line stands for two wires.
    pub lane: String,
    /// Whose key goes to it. Default: the caller's, where nobody has keys of ours.
    pub auth: Auth,
    /// Where `auth` came from.
    pub(super) auth_origin: Origin,
    /// Models by pattern and what it calls them.
    pub rename: Vec<(String, String)>,
    /// Calls at once. Default 64.
    pub concurrency: Setting<u32>,
    /// Calls that wait for their turn. Default 256.
    pub queue: Setting<usize>,
    /// How long a call waits for its turn. Default off.
    pub queue_wait: Setting<Limit>,
    /// Whether whole answers are put together from streams. Default [`Assemble::Auto`].
    pub assemble: Setting<Assemble>,
    /// Whether usage is asked for where the caller did not. Default [`UsageMode::AsAsked`].
    pub usage: Setting<UsageMode>,
    /// Its own beats.
    pub beats: BeatsLayer,
    /// What is in force for a call to it that sets nothing of its own.
    pub(super) settings: Arc<Settings>,
}

impl GatewayUpstream {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.client.name
    }

    /// Returns the dialect it speaks.
    pub fn wire(&self) -> Wire {
        self.client.wire
    }

    /// Returns the most bytes of a request to it.
    pub fn request_limit(&self) -> usize {
        self.settings.limits.request.value
    }

    /// Returns what it calls `model`: the first pattern of `rename` that matches decides.
    pub fn model<'m>(&'m self, model: &'m str) -> &'m str {
        self.rename
            .iter()
            .find(|(pattern, _)| glob(pattern, model))
            .map_or(model, |(_, name)| name)
    }

    /// Returns whether it has `model`, under that name or the one it calls it.
    pub fn has_model(&self, model: &str) -> bool {
        self.client.has_model(model) || self.client.has_model(self.model(model))
    }

    /// Reads the key that goes to it, if one of ours does; `variable` looks up an environment
    /// variable. Where the file names none, the wire's usual variable is looked at.
    ///
    /// # Errors
    ///
    /// Returns an error that names the setting and the variable or file, never what is in it.
    pub fn read_key(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<SecretString>, SettingError> {
        let usual = self.client.wire.key_variable();
        match (self.auth, &self.client.api_key) {
            (Auth::Pass, _) => Ok(None),
            (Auth::Own, Some(_)) => self.client.read_key(variable),
            (Auth::Own, None) => match variable(usual) {
                Some(value) if !value.to_string_lossy().trim().is_empty() => {
                    KeySource::Env(usual.to_owned()).read(variable).map(Some)
                }
                _ => Ok(None),
            },
        }
    }
}

/// What a file says of an upstream that is the gateway's.
#[derive(Clone, Debug, Default)]
pub(super) struct UpstreamTable {
    pub(super) auth: Option<Setting<Auth>>,
    pub(super) rename: Vec<(String, String)>,
    pub(super) concurrency: Option<Setting<u32>>,
    pub(super) queue: Option<Setting<usize>>,
    pub(super) queue_wait: Option<Setting<Limit>>,
    pub(super) assemble: Option<Setting<Assemble>>,
    pub(super) usage: Option<Setting<UsageMode>>,
    pub(super) beats: BeatsLayer,
}

impl UpstreamTable {
    pub(super) fn handle(&mut self, entry: &Entry<'_>) -> Result<(), SettingError> {
        match entry.key() {
            "auth" => {
                let auth = Auth::ALL[entry.one_of(&Auth::WORDS)?];
                self.auth = Some(entry.setting(auth));
            }
            "rename" => self.rename = entry.names()?,
            "concurrency" => self.concurrency = Some(entry.read(written::count)?),
            "queue" => self.queue = Some(entry.count_or_zero()?),
            "queue_wait" => self.queue_wait = Some(entry.read(written::limit)?),
            "assemble" => {
                let assemble = Assemble::ALL[entry.one_of(&Assemble::WORDS)?];
                self.assemble = Some(entry.setting(assemble));
            }
            "usage" => {
                let usage = UsageMode::ALL[entry.one_of(&UsageMode::WORDS)?];
                self.usage = Some(entry.setting(usage));
            }
            "beats" => self.beats = BeatsLayer::read(entry)?,
            _ => return Err(entry.refuse("is no key of an upstream")),
        }
        Ok(())
    }

    /// Returns the upstream; `has_keys` says whether the gateway has callers' keys.
    pub(super) fn into_upstream(
        self,
        client: UpstreamConfig,
        lane: String,
        has_keys: bool,
        settings: Arc<Settings>,
    ) -> GatewayUpstream {
        let auth = match self.auth {
            Some(auth) => auth,
            None if client.api_key.is_none() && !has_keys => Setting::default_value(Auth::Pass),
            None => Setting::default_value(Auth::Own),
        };
        GatewayUpstream {
            client,
            lane,
            auth: auth.value,
            auth_origin: auth.origin,
            rename: self.rename,
            concurrency: or(self.concurrency, 64),
            queue: or(self.queue, 256),
            queue_wait: or(self.queue_wait, Limit::Off),
            assemble: or(self.assemble, Assemble::Auto),
            usage: or(self.usage, UsageMode::AsAsked),
            beats: self.beats,
            settings,
        }
    }
}

fn or<T>(set: Option<Setting<T>>, default: T) -> Setting<T> {
    set.unwrap_or_else(|| Setting::default_value(default))
}

/// Whose key goes to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Ours; every credential of the caller's is left out.
    Own,
    /// The caller's.
    Pass,
}

impl Auth {
    pub(super) const ALL: [Self; 2] = [Self::Pass, Self::Own];
    /// The words for them.
    pub(super) const WORDS: [&str; 2] = ["pass", "own"];
}

/// Whether answers that are not wanted as streams are put together from streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assemble {
    /// Where that loses nothing.
    Auto,
    /// Never.
    Off,
}

impl Assemble {
    pub(super) const ALL: [Self; 2] = [Self::Auto, Self::Off];
    /// The words for them.
    pub(super) const WORDS: [&str; 2] = ["auto", "off"];
}

/// Whether usage is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageMode {
    /// Where the caller asks.
    AsAsked,
    /// Always.
    Inject,
}

impl UsageMode {
    pub(super) const ALL: [Self; 2] = [Self::AsAsked, Self::Inject];
    /// The words for them.
    pub(super) const WORDS: [&str; 2] = ["as_asked", "inject"];
}
