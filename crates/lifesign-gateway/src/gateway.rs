//! A gateway as a whole: bound, served, reloaded, drained.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use lifesign::clock;
use lifesign_core::{FailureCode, SettingError};
use tokio::time::sleep_until;

use crate::chain::Chain;
use crate::config::{CallerKey, GatewayConfig, Listen};
use crate::hub::{Beside, Hub, time_of};
use crate::lifecycle::{Lifecycle, Reload};
use crate::records::Records;
use crate::server::{
    Bound, Drain, Inherited, ListenError, ListenOn, Pulse, Server, ServerError, ServerLimits,
    TlsSlot, raise_descriptors,
};
use crate::service::Gateway;

/// Where the settings of a gateway are, so that they can be read again.
#[derive(Clone, Debug, Default)]
pub struct ConfigSource {
    /// The file.
    pub path: Option<PathBuf>,
    /// `key=value` texts.
    pub assignments: Vec<String>,
    /// `NAME=URL` texts that name upstreams.
    pub upstreams: Vec<String>,
}

impl ConfigSource {
    /// Reads the settings, and everything that they name.
    ///
    /// # Errors
    ///
    /// Returns the first thing that cannot be used, with its position.
    pub fn load(&self) -> Result<GatewayConfig, SettingError> {
        let config = GatewayConfig::load(
            self.path.as_deref(),
            lifesign::config::process_variables(),
            &self.assignments,
            &self.upstreams,
        )?;
        config.open(|name| std::env::var_os(name))?;
        Ok(config)
    }
}

/// A gateway that listens and does not serve yet.
pub struct GatewayServer {
    server: Server,
    gateway: Arc<Gateway>,
    /// Signals and reloads, where the process is ours.
    life: Option<(Lifecycle, ConfigSource)>,
    tls: Option<TlsSlot>,
    drain_limit: Duration,
    workers: NonZeroUsize,
}

/// What ends a gateway from inside of the program that runs it.
#[derive(Clone, Debug)]
pub struct Stopper {
    drain: Drain,
}

impl Stopper {
    /// Stops accepting; calls under way may go on for `limit`, and are told what ended them then.
    pub fn drain(&self, limit: Duration) {
        self.drain.begin(limit);
    }

    /// Ends every call now, with a word to its caller.
    pub fn end_now(&self) {
        self.drain.end_now();
    }
}

/// Why a gateway cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A setting cannot be used.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// It cannot listen, or a worker was lost.
    #[error("{0}")]
    Server(String),
}

impl From<ListenError> for ServeError {
    fn from(error: ListenError) -> Self {
        Self::Server(format!("{error}: {}", error.source))
    }
}

impl From<ServerError> for ServeError {
    fn from(error: ServerError) -> Self {
        Self::Server(Chain(&error).to_string())
    }
}

impl From<std::io::Error> for ServeError {
    fn from(error: std::io::Error) -> Self {
        Self::Server(error.to_string())
    }
}

impl GatewayServer {
    /// Opens the sockets of a gateway with `config`, which was loaded from `source`. Call it inside
    /// of a runtime.
    ///
    /// # Errors
    ///
    /// Returns an error where a setting cannot be used or an address cannot be listened on.
    pub fn bind(
        config: GatewayConfig,
        source: ConfigSource,
        records: Arc<dyn Records>,
    ) -> Result<Self, ServeError> {
        let lifecycle = Lifecycle::start(source.path.as_deref())?;
        let inherited = Inherited::take()?;
        Self::open(config, records, inherited, Some((lifecycle, source)))
    }

    /// Opens the sockets of a gateway inside of another program. Call it inside of a runtime.
    ///
    /// It leaves signals, the service manager and changed files to that program, and serves until
    /// its [`Stopper`] says otherwise or its future is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error as [`bind`](Self::bind) does.
    pub fn embed(config: GatewayConfig, records: Arc<dyn Records>) -> Result<Self, ServeError> {
        Self::open(config, records, Inherited::default(), None)
    }

    fn open(
        config: GatewayConfig,
        records: Arc<dyn Records>,
        inherited: Inherited,
        life: Option<(Lifecycle, ConfigSource)>,
    ) -> Result<Self, ServeError> {
        let workers = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let variable = |name: &str| std::env::var_os(name);
        let listen: Vec<_> = if inherited.bound().is_empty() {
            config.serve.listen.value.iter().map(listen_on).collect()
        } else {
            for bound in inherited.bound() {
                if let Bound::Tcp(address) = bound {
                    config.check_address(address)?;
                }
            }
            Vec::new()
        };
        let tls = config.read_tls()?.map(TlsSlot::new);
        let descriptors = raise_descriptors();
        if let Err(error) = descriptors {
            tracing::warn!(%error, "the limit of descriptors cannot be raised");
        }
        let limits = ServerLimits {
            connections: config.limits.connections.value,
            reader_stall: time_of(config.limits.reader_stall.value).unwrap_or(FAR),
            ..ServerLimits::default()
        };
        let server = Server::bind(&listen, inherited, tls.clone(), limits)?;
        let drain_limit = config.serve.drain.value;
        let beside = Beside {
            journal: config.open_journal()?.map(Arc::new),
            traces: config.open_traces(variable)?.map(Arc::new),
        };
        let hub = Hub::new(config, records, beside, workers.get(), variable)?;
        let hub = Arc::new(hub);
        hub.set_pulse(server.pulse());
        Ok(Self {
            server,
            gateway: Arc::new(Gateway { hub }),
            life,
            tls,
            drain_limit,
            workers,
        })
    }

    /// Returns what ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            drain: self.server.drain(),
        }
    }

    /// Returns where it listens, as text.
    pub fn addresses(&self) -> Vec<String> {
        self.server
            .bound()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    /// Serves until a signal or its [`Stopper`] ends it and every call has ended.
    ///
    /// # Errors
    ///
    /// Returns an error where a worker cannot start or is lost.
    pub async fn run(self) -> Result<(), ServeError> {
        let Self {
            server,
            gateway,
            life,
            tls,
            drain_limit,
            workers,
        } = self;
        let (drain, pulse) = (server.drain(), server.pulse());
        let hub = Arc::clone(&gateway.hub);
        let Beside { journal, traces } = hub.beside.clone();
        let beside = async {
            match life {
                Some((lifecycle, source)) => {
                    beside(lifecycle, hub, source, tls, drain, drain_limit, pulse).await;
                }
                None => sweep(hub).await,
            }
        };
        let served = pin!(server.run(gateway, workers));
        let served = match select(served, pin!(beside)).await {
            Either::Left((served, _)) => served,
            Either::Right(((), served)) => served.await,
        };
        // One may wait for the disk, the other for the network.
        let journal = journal.map(|it| tokio::task::spawn_blocking(move || it.close()));
        let traces = traces.map(|it| tokio::task::spawn_blocking(move || it.close()));
        if let Some(closing) = journal
            && !closing.await.unwrap_or(false)
        {
            tracing::error!("the last records are not in the journal");
        }
        if let Some(closing) = traces
            && !closing.await.unwrap_or(false)
        {
            tracing::warn!("the last spans were not exported");
        }
        Ok(served?)
    }
}

impl fmt::Debug for GatewayServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayServer")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// What happens beside serving: signals and reloads, and an eye on calls that nobody polls.
async fn beside(
    lifecycle: Lifecycle,
    hub: Arc<Hub>,
    source: ConfigSource,
    tls: Option<TlsSlot>,
    drain: Drain,
    drain_limit: Duration,
    pulse: Pulse,
) {
    let mut reloading = Reloading {
        hub: Arc::clone(&hub),
        source,
        tls,
    };
    let life = pin!(lifecycle.run(drain, drain_limit, pulse, &mut reloading));
    let sweep = pin!(sweep(hub));
    select(life, sweep).await;
}

/// Ends calls whose wall clock ran out while their reader paused: nobody polls those.
async fn sweep(hub: Arc<Hub>) {
    loop {
        sleep_until(clock::now() + SWEEP).await;
        for call in hub.registry.list() {
            if call.is_overdue(SWEEP * 3) {
                call.kill();
            } else if call.is_overdue(SWEEP) {
                call.end_as(FailureCode::WallClock);
            }
        }
    }
}

/// Puts changed settings in force.
struct Reloading {
    hub: Arc<Hub>,
    source: ConfigSource,
    tls: Option<TlsSlot>,
}

impl Reload for Reloading {
    fn reload(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let reloaded = self.try_reload();
        if reloaded.is_err() {
            self.hub.metrics.handle_refused_reload();
        }
        reloaded
    }
}

impl Reloading {
    fn try_reload(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let config = self.source.load()?;
        let plan = self.hub.plan();
        warn_of_restarts(&plan.config, &config);
        let tls = config.read_tls()?;
        if tls.is_some() != self.tls.is_some() {
            tracing::warn!("serve.tls_cert was added or taken away; that takes a restart");
        }
        let is_kept = |key: &&CallerKey| {
            let mut keys = config.keys.iter();
            keys.any(|new| new.name == key.name && new.sha256 == key.sha256)
        };
        let keys = plan.config.keys.iter().filter(is_kept);
        let kept: Vec<_> = keys.map(|key| key.name.clone()).collect();
        // What is in it alone is forgotten by the reload.
        drop(plan);
        self.hub.reload(config, |name| std::env::var_os(name))?;
        if let (Some(slot), Some(tls)) = (&self.tls, tls) {
            slot.replace(tls);
        }
        for call in self.hub.registry.list() {
            let is_revoked = call
                .started
                .key
                .as_ref()
                .is_some_and(|key| !kept.contains(key));
            if is_revoked && call.is_waiting() {
                call.end_as(FailureCode::Rejected);
            }
        }
        Ok(())
    }
}

/// Says which changed settings are read at the start alone.
fn warn_of_restarts(old: &GatewayConfig, new: &GatewayConfig) {
    let (old_limits, new_limits) = (&old.limits, &new.limits);
    let changed = [
        (
            "serve.listen",
            old.serve.listen.value != new.serve.listen.value,
        ),
        (
            "serve.drain",
            old.serve.drain.value != new.serve.drain.value,
        ),
        (
            "limits.connections",
            old_limits.connections.value != new_limits.connections.value,
        ),
        (
            "limits.reader_stall",
            old_limits.reader_stall.value != new_limits.reader_stall.value,
        ),
        ("[journal]", old.journal != new.journal),
        ("telemetry.log", old.log.value != new.log.value),
        (
            "telemetry.otlp_endpoint",
            old.traces.endpoint.value != new.traces.endpoint.value,
        ),
        (
            "telemetry.otlp_protocol",
            old.traces.protocol.value != new.traces.protocol.value,
        ),
        (
            "telemetry.otlp_headers",
            old.traces.headers.value != new.traces.headers.value,
        ),
    ];
    for (setting, _) in changed.iter().filter(|(_, has_changed)| *has_changed) {
        tracing::warn!("{setting} has changed; that takes a restart");
    }
}

fn listen_on(listen: &Listen) -> ListenOn {
    match listen {
        Listen::Tcp(address) => ListenOn::Tcp(*address),
        Listen::Unix(path) => ListenOn::Unix(path.clone()),
    }
}

/// How often calls are looked at that nobody polls.
const SWEEP: Duration = Duration::from_secs(1);

/// Where a reader may stop for ever.
const FAR: Duration = Duration::from_secs(1_000_000_000);

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::records::LoggedRecords;

    #[tokio::test]
    async fn it_serves_by_the_settings_that_were_looked_at_whatever_the_file_says_since() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.toml");
        let socket = directory.path().join("socket");
        let listen = |socket: &str| {
            format!(
                "[serve]\nlisten = [\"{socket}\"]\n[[upstream]]\nname = \"a\"\nwire = \"openai-chat\"\n\
                 base_url = \"http://a.test\"\n"
            )
        };
        let first = format!("unix:{}", socket.display());
        std::fs::write(&path, listen(&first)).unwrap();
        let source = ConfigSource {
            path: Some(path.clone()),
            ..ConfigSource::default()
        };
        let config = source.load().unwrap();
        std::fs::write(&path, "no settings").unwrap();

        let server = GatewayServer::bind(config, source, Arc::new(LoggedRecords)).unwrap();

        assert_eq!(server.addresses(), [first]);
    }
}
