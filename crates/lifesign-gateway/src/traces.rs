//! Traces: each call and each of its attempts as a span, sent to a collector by OTLP.
//!
//! A bounded channel leads to one thread that builds the spans from the records and sends them in
//! batches. What finds no place in the channel is dropped and counted; nobody who serves a call
//! ever waits for the collector. What the spans say is described in `docs/reference/traces.md`.

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lifesign::clock;
use lifesign::transport::RootsError;
use tokio::runtime;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use self::attributes::Attributes;
use self::collector::Collector;
use self::exporter::Exporter;
use self::health::Health;
use self::otlp::Resource;
use crate::records::{Record, Records};
use crate::service::new_id;

pub use self::health::{TracesHealth, TracesState};
pub use self::settings::{
    CollectorUrl, CollectorUrlError, OtlpProtocol, PairsError, TraceSettings,
};

mod attributes;
mod collector;
mod exporter;
mod health;
mod otlp;
mod pairs;
#[cfg(test)]
mod sample;
mod settings;
mod span;

/// Sends a span for every call and attempt to a collector.
///
/// # Example
///
/// This example shows a gateway inside of another program that sends traces of its own accord.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use lifesign_gateway::GatewayServer;
/// use lifesign_gateway::config::GatewayConfig;
/// use lifesign_gateway::traces::{CollectorUrl, OtlpProtocol, TraceSettings, Traces};
///
/// # async fn serve(config: GatewayConfig) -> Result<(), Box<dyn std::error::Error>> {
/// let collector = CollectorUrl::parse("http://127.0.0.1:4317")?;
/// let settings = TraceSettings::new(collector, OtlpProtocol::Grpc).with_service("my program");
/// let traces = Arc::new(Traces::start(&settings)?);
/// GatewayServer::embed(config, Arc::clone(&traces) as _)?.run().await?;
/// traces.close();
/// # Ok(())
/// # }
/// ```
pub struct Traces {
    records: mpsc::Sender<Box<Record>>,
    closing: watch::Sender<Option<Instant>>,
    health: Arc<Health>,
    /// Hung up by the thread when it ends.
    ended: Mutex<Receiver<()>>,
}

/// Why no spans can be sent at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracesError {
    /// TLS cannot be used.
    #[error("TLS cannot be set up")]
    Roots(#[from] RootsError),
    /// The thread that sends cannot be started.
    #[error("the thread that sends spans cannot be started")]
    Thread(#[from] io::Error),
}

impl Traces {
    /// Starts the thread that sends. Nothing is opened before there is a span.
    ///
    /// # Errors
    ///
    /// Returns an error where this machine cannot run it. A collector that cannot be reached is
    /// none: spans wait for it as far as there is room, and [`health`](Self::health) says so.
    pub fn start(settings: &TraceSettings) -> Result<Self, TracesError> {
        let collector = Collector::new(settings)?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let health = Arc::new(Health::default());
        let (records, received) = mpsc::channel(CAPACITY);
        let (closing, closed) = watch::channel(None);
        let (ends, ended) = sync_channel(0);
        let exporter = Exporter::new(
            received,
            closed,
            collector,
            resource_of(settings),
            Arc::clone(&health),
        );
        thread::Builder::new()
            .name("lifesign-traces".to_owned())
            .spawn(move || {
                runtime.block_on(exporter.run());
                drop(ends);
            })?;
        Ok(Self {
            records,
            closing,
            health,
            ended: Mutex::new(ended),
        })
    }

    /// Returns how the sending goes.
    pub fn health(&self) -> TracesHealth {
        self.health.get()
    }

    /// Sends what there is and ends the sending; returns whether no span was given up by that.
    ///
    /// It waits for a few seconds at most. What is recorded later is lost.
    pub fn close(&self) -> bool {
        let before = self.health.get().dropped;
        self.begin_closing();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let has_ended =
            ended.recv_timeout(LAST_SPANS + GRACE) == Err(RecvTimeoutError::Disconnected);
        has_ended && self.health.get().dropped == before
    }

    fn begin_closing(&self) {
        self.closing.send_if_modified(|closing| {
            let is_first = closing.is_none();
            closing.get_or_insert_with(|| clock::now() + LAST_SPANS);
            is_first
        });
    }
}

impl Records for Traces {
    fn record(&self, record: &Record) {
        if !span::is_seen(record) {
            return;
        }
        match self.records.try_send(Box::new(record.clone())) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.health.note_full(),
            Err(TrySendError::Closed(_)) => self.health.add_dropped(1),
        }
    }

    fn wants_traces(&self) -> bool {
        true
    }
}

impl Drop for Traces {
    /// Lets the thread send what there is and end by itself.
    fn drop(&mut self) {
        self.begin_closing();
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces")
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}

/// Returns what spans say of the process.
fn resource_of(settings: &TraceSettings) -> Resource {
    let version = env!("CARGO_PKG_VERSION");
    let mut attributes = Attributes::default()
        .with(settings::SERVICE_NAME, &*settings.service)
        .with("telemetry.sdk.name", "lifesign")
        .with("telemetry.sdk.language", "rust")
        .with("telemetry.sdk.version", version);
    let instance = new_id();
    let is_said = |name: &str| settings.resource.iter().any(|(said, _)| said == name);
    for (name, value) in [
        ("service.version", version),
        ("service.instance.id", &instance),
    ] {
        if !is_said(name) {
            attributes.add(name, value);
        }
    }
    for (name, value) in &settings.resource {
        attributes.add(name, value.as_str());
    }
    Resource {
        attributes: attributes.into_vec(),
    }
}

/// Records that wait to be sent: two seconds of 2,000 calls a second.
const CAPACITY: usize = 8_192;
/// How long the last spans may take to be sent.
const LAST_SPANS: Duration = Duration::from_secs(5);
/// How much longer it is waited for a thread that is stuck.
const GRACE: Duration = Duration::from_secs(1);
