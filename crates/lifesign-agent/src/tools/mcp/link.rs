//! One connection to a server, from its start to its end.

use std::time::Duration;

use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::Transport;
use rmcp::{Peer, RoleClient, ServiceExt as _};
use tokio_util::sync::CancellationToken;

use super::handler::Handler;
use super::program::Program;
use super::tap::{Listeners, Tap};
use super::under_way::UnderWay;

/// What a call needs of a connection, also after that has ended.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) peer: Peer<RoleClient>,
    pub(super) listeners: Listeners,
    /// Set when nothing comes from the server any more.
    pub(super) left: CancellationToken,
    /// The calls that the server is at.
    pub(super) calls: UnderWay,
    program: Option<Program>,
}

impl Line {
    /// Says that the server is gone, and how it ended if that is known.
    pub(super) async fn gone(&self, server: &str) -> String {
        let how = match &self.program {
            Some(program) => program.how_it_ended().await,
            None => None,
        };
        match how {
            Some(how) => format!("tool server {server} has ended ({how})"),
            None => format!("tool server {server} has closed the connection"),
        }
    }
}

/// A connection that both sides have agreed on. Dropping it kills the server's process at once.
pub(super) struct Link {
    service: RunningService<RoleClient, Handler>,
    listeners: Listeners,
    left: CancellationToken,
    calls: UnderWay,
    program: Option<Program>,
}

impl Link {
    /// Introduces us to the server at the other end of `transport`, which is `program` if any of
    /// ours.
    pub(super) async fn open<T>(
        transport: T,
        program: Option<Program>,
        handler: Handler,
    ) -> Result<Self, String>
    where
        T: Transport<RoleClient> + 'static,
    {
        let (left, calls) = (handler.left.clone(), handler.calls.clone());
        let listeners = Listeners::default();
        let tap = Tap::new(transport, listeners.clone(), left.clone());
        match handler.serve(tap).await {
            Ok(service) => Ok(Self {
                service,
                listeners,
                left,
                calls,
                program,
            }),
            Err(error) => Err(explain(&error, program.as_ref()).await),
        }
    }

    /// Returns what a call needs.
    pub(super) fn line(&self) -> Line {
        Line {
            peer: self.service.peer().clone(),
            listeners: self.listeners.clone(),
            left: self.left.clone(),
            calls: self.calls.clone(),
            program: self.program.clone(),
        }
    }

    /// Asks the server to end, and kills its process where it does not within a moment.
    pub(super) async fn close(&mut self) {
        if let Err(error) = self.service.close_with_timeout(FAREWELL).await {
            tracing::debug!(%error, "connection to a tool server broke off");
        }
        self.left.cancel();
        self.kill();
    }

    fn kill(&self) {
        if let Some(program) = &self.program {
            program.kill();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Says in one clause why nothing came of it.
async fn explain(error: &ClientInitializeError, program: Option<&Program>) -> String {
    if let Some(program) = program
        && let Some(how) = program.how_it_ended().await
    {
        return format!("ended before it was ready ({how})");
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => "closed the connection".to_owned(),
        ClientInitializeError::JsonRpcError(error) => format!("refused us: {}", error.message),
        ClientInitializeError::TransportError { error, .. } => super::trouble(&*error.error),
        error => format!("does not speak the protocol: {error}"),
    }
}

/// How long a connection may take to close.
const FAREWELL: Duration = Duration::from_secs(5);
