//! `[serve]`, `[breaker]`, `[limits]` and `[telemetry]`: what holds for the whole gateway.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use lifesign::config::{Entry, KeySource};
use lifesign_core::{Limit, Setting, SettingError, written};

/// Where and for whom the gateway listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// Where. Default 127.0.0.1:4631.
    pub listen: Setting<Vec<Listen>>,
    /// The PEM file of its certificate. Default none.
    pub tls_cert: Setting<Option<PathBuf>>,
    /// The PEM file of that certificate's private key. Default none.
    pub tls_key: Setting<Option<PathBuf>>,
    /// How long streams may go on after a stop is asked for. Default 30 s.
    pub drain: Setting<Duration>,
    /// Where the key of the admin interface is. Default none.
    pub admin_key: Setting<Option<KeySource>>,
    /// Names besides those of loopback under which it may be asked, in lower case. Default none.
    pub hosts: Setting<Vec<String>>,
    /// Whether keys may come in the clear from beyond this machine. Default no.
    pub allow_cleartext: Setting<bool>,
}

impl Default for Serve {
    fn default() -> Self {
        let home = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        Self {
            listen: Setting::default_value(vec![Listen::Tcp(home)]),
            tls_cert: Setting::default_value(None),
            tls_key: Setting::default_value(None),
            drain: Setting::default_value(Duration::from_secs(30)),
            admin_key: Setting::default_value(None),
            hosts: Setting::default_value(Vec::new()),
            allow_cleartext: Setting::default_value(false),
        }
    }
}

impl Serve {
    pub(super) fn handle(&mut self, entry: &Entry<'_>) -> Result<(), SettingError> {
        match entry.key() {
            "listen" => self.listen = entry.setting(read_listen(entry)?),
            "tls_cert" => self.tls_cert = entry.setting(Some(entry.path()?)),
            "tls_key" => self.tls_key = entry.setting(Some(entry.path()?)),
            "drain" => self.drain = entry.read(written::wait)?,
            "admin_key" => self.admin_key = entry.setting(Some(entry.key_source()?)),
            "hosts" => self.hosts = entry.setting(read_hosts(entry)?),
            "allow_cleartext" => self.allow_cleartext = entry.setting(entry.flag()?),
            _ => return Err(entry.refuse("is no setting of serve")),
        }
        Ok(())
    }
}

fn read_listen(entry: &Entry<'_>) -> Result<Vec<Listen>, SettingError> {
    let texts = entry.text_or_texts()?;
    if texts.is_empty() {
        return Err(entry.refuse("names nowhere"));
    }
    texts
        .iter()
        .map(|text| {
            Listen::parse(text.trim()).map_err(|problem| {
                let value = lifesign_core::Value::Text(text);
                entry.refuse(problem).with_value(&value)
            })
        })
        .collect()
}

fn read_hosts(entry: &Entry<'_>) -> Result<Vec<String>, SettingError> {
    let hosts = entry.texts()?;
    for host in &hosts {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if !host.chars().all(is_name) {
            let value = lifesign_core::Value::Text(host);
            return Err(entry.refuse("is no host name").with_value(&value));
        }
    }
    Ok(hosts.iter().map(|host| host.to_ascii_lowercase()).collect())
}

/// A place to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address; port 0 is a free one.
    Tcp(SocketAddr),
    /// A unix socket at this absolute path.
    Unix(PathBuf),
}

impl Listen {
    /// Reads `ADDRESS:PORT`, `localhost:PORT` or `unix:/PATH`.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the text, as a predicate.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() && path.file_name().is_some() {
                Ok(Self::Unix(path))
            } else {
                Err("names no absolute path")
            };
        }
        let local = text.strip_prefix("localhost:").map(str::parse);
        if let Some(Ok(port)) = local {
            return Ok(Self::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        }
        text.parse()
            .map(Self::Tcp)
            .map_err(|_| "is not an address with a port")
    }

    /// Returns whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// When an upstream is asked last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// Failed attempts in a row. Default 10.
    pub failures: Setting<u32>,
    /// Time without content after which an attempt counts as slow. Default off.
    pub slow_after: Setting<Limit>,
    /// How long until one attempt probes it. Default 30 s.
    pub open_for: Setting<Duration>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failures: Setting::default_value(10),
            slow_after: Setting::default_value(Limit::Off),
            open_for: Setting::default_value(Duration::from_secs(30)),
        }
    }
}

impl Breaker {
    pub(super) fn handle(&mut self, entry: &Entry<'_>) -> Result<(), SettingError> {
        match entry.key() {
            "failures" => self.failures = entry.read(written::count)?,
            "slow_after" => self.slow_after = entry.read(written::limit)?,
            "open_for" => self.open_for = entry.read(written::delay)?,
            _ => return Err(entry.refuse("is no setting of breaker")),
        }
        Ok(())
    }
}

/// The most of everything that all calls together hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Bytes of requests that are kept to be sent again. Default 1 GiB.
    pub replay_total: Setting<usize>,
    /// Bytes that readers have not taken yet. Default 512 MiB.
    pub buffered_total: Setting<usize>,
    /// Callers' connections; `None` is 10,000 or what the descriptors allow. Default `None`.
    pub connections: Setting<Option<usize>>,
    /// How long a reader may take nothing. Default 60 s.
    pub reader_stall: Setting<Limit>,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            replay_total: Setting::default_value(1 << 30),
            buffered_total: Setting::default_value(512 << 20),
            connections: Setting::default_value(None),
            reader_stall: Setting::default_value(Limit::After(Duration::from_mins(1))),
        }
    }
}

impl GatewayLimits {
    pub(super) fn handle(&mut self, entry: &Entry<'_>) -> Result<(), SettingError> {
        match entry.key() {
            "replay_total" => self.replay_total = entry.read(written::size)?,
            "buffered_total" => self.buffered_total = entry.read(written::size)?,
            "connections" => {
                let Setting { value, origin } = entry.read(written::count)?;
                let value = Some(usize::try_from(value).unwrap_or(usize::MAX));
                self.connections = Setting { value, origin };
            }
            "reader_stall" => self.reader_stall = entry.read(written::limit)?,
            _ => return Err(entry.refuse("is no limit of the gateway")),
        }
        Ok(())
    }
}

/// What the log looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogForm {
    /// Lines for people.
    #[default]
    Human,
    /// A JSON object a line.
    Json,
}

impl LogForm {
    /// Both, in the order of [`WORDS`](Self::WORDS).
    pub(super) const ALL: [Self; 2] = [Self::Human, Self::Json];
    /// The words for them.
    pub(super) const WORDS: [&str; 2] = ["human", "json"];
}

/// The port where nobody names one.
const PORT: u16 = 4631;
