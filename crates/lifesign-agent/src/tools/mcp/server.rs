//! A server as a toolbox: started, asked, and started again where it has ended.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lifesign::clock;
use lifesign_core::duration::{human_limit, human_measured};
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, ServerResult};
use rmcp::service::{PeerRequestOptions, RequestHandle};
use rmcp::{RoleClient, ServiceError};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::config::McpServerConfig;
use super::content;
use super::handler::Handler;
use super::last_words::LastWords;
use super::link::{Line, Link};
use super::listing::Listing;
use super::tap::{Listener, Listeners};
use super::under_way::UnderWay;
use crate::tools::sampling::Sampler;
use crate::tools::{ProgressSink, ToolCall, ToolFuture, ToolResult, ToolSpec, Toolbox};

/// Opens connections to a server.
pub(super) trait Way: Send + Sync {
    /// Opens one, with `handler` at our end.
    fn open(&self, handler: Handler) -> Opening<'_>;
}

/// A connection that is being opened; what it fails with is one clause.
pub(super) type Opening<'a> = Pin<Box<dyn Future<Output = Result<Link, String>> + Send + 'a>>;

/// The tools of one MCP server.
///
/// A server that ends is not the end of the agent: the calls it was at say so, and the next one
/// starts it again, at most once a minute. Dropping it kills its process and what that has started.
pub struct McpServer {
    config: Arc<McpServerConfig>,
    listing: Arc<Listing>,
    sampler: Option<Sampler>,
    way: Box<dyn Way>,
    state: Mutex<State>,
}

struct State {
    link: Link,
    restarted: Option<Instant>,
}

/// A server that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool server {server} {problem}{}", said(.last_words))]
pub struct McpStartError {
    /// Its name.
    pub server: String,
    /// What is the matter.
    pub problem: String,
    /// The end of what its program wrote to its standard error; empty where it wrote nothing.
    pub last_words: String,
}

fn said(last_words: &str) -> String {
    match last_words {
        "" => String::new(),
        words => format!("; it said: {words}"),
    }
}

impl McpServer {
    /// Starts a server and lists its tools.
    pub(super) async fn start(
        config: McpServerConfig,
        way: Box<dyn Way>,
        sampler: Option<Sampler>,
    ) -> Result<Self, McpStartError> {
        let config = Arc::new(config);
        let listing = Arc::new(Listing::new(Arc::clone(&config)));
        let words = LastWords::default();
        let opened = open(&config, &listing, sampler.as_ref(), &*way, &words).await;
        let link = match opened {
            Ok(link) => link,
            Err(problem) => {
                return Err(McpStartError {
                    server: config.name.clone(),
                    problem,
                    last_words: words.tell().await,
                });
            }
        };
        Ok(Self {
            config,
            listing,
            sampler,
            way,
            state: Mutex::new(State {
                link,
                restarted: None,
            }),
        })
    }

    /// Returns the server's name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Asks the server to end, waits a moment, and kills it where it has not.
    ///
    /// Calls made afterwards start it again.
    pub async fn close(&self) {
        self.state.lock().await.link.close().await;
    }

    async fn run(&self, call: ToolCall, progress: ProgressSink) -> ToolResult {
        let listed = self.listing.tools();
        let Some(tool) = listed.iter().find(|tool| tool.spec.name == call.name) else {
            let text = format!(
                "tool server {} has no tool {:?} now",
                self.name(),
                call.name
            );
            return ToolResult::error(text);
        };
        let mut params = CallToolRequestParams::new(tool.name.clone());
        params.arguments = match call.arguments {
            Value::Object(arguments) => Some(arguments),
            _ => None,
        };
        let line = match self.line().await {
            Ok(line) => line,
            Err(why) => return ToolResult::error(format!("{} was not run: {why}", call.name)),
        };
        let _at_it = line.calls.begin();
        let mut request = CallToolRequest::new(params);
        request.extensions.insert(Listener(progress));
        let sent = line
            .peer
            .send_request_with_option(
                ClientRequest::CallToolRequest(request),
                PeerRequestOptions::no_options(),
            )
            .await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => return self.failed(&call.name, error, &line).await,
        };
        let mut waiting = Waiting::new(handle, line.listeners.clone());
        let answer = waiting.answer().await;
        match answer {
            Ok(answer) => content::result_of(&call.name, answer),
            Err(error) => self.failed(&call.name, error, &line).await,
        }
    }

    async fn failed(&self, tool: &str, error: ServiceError, line: &Line) -> ToolResult {
        let why = match error {
            ServiceError::McpError(error) => {
                let code = error.code.0;
                return ToolResult::error(format!("{tool} failed: {} ({code})", error.message));
            }
            ServiceError::TransportClosed => {
                format!(
                    "{}; what it had begun may be half done",
                    line.gone(self.name()).await
                )
            }
            ServiceError::TransportSend(error) => {
                format!(
                    "tool server {} {}",
                    self.name(),
                    super::trouble(&*error.error)
                )
            }
            error => format!("tool server {}: {error}", self.name()),
        };
        ToolResult::error(format!("{tool} failed: {why}"))
    }

    /// Returns the connection, a new one where the last one has ended.
    async fn line(&self) -> Result<Line, String> {
        let mut state = self.state.lock().await;
        let line = state.link.line();
        if !line.left.is_cancelled() {
            return Ok(line);
        }
        let how = line.gone(self.name()).await;
        let since = state.restarted.map(|restarted| clock::now() - restarted);
        if let Some(since) = since.filter(|since| *since < BETWEEN_RESTARTS) {
            return Err(format!(
                "{how}; it was started again {} ago, and is at most once in {}",
                human_measured(since),
                human_limit(BETWEEN_RESTARTS),
            ));
        }
        tracing::warn!(server = self.name(), how, "tool server is started again");
        state.restarted = Some(clock::now());
        state.link = open(
            &self.config,
            &self.listing,
            self.sampler.as_ref(),
            &*self.way,
            // They may hold what is not for the model, which is told of this.
            &LastWords::default(),
        )
        .await
        .map_err(|problem| format!("{how}, and when started again it {problem}"))?;
        Ok(state.link.line())
    }
}

impl Toolbox for McpServer {
    fn tools(&self) -> Vec<ToolSpec> {
        let listed = self.listing.tools();
        listed.iter().map(|tool| tool.spec.clone()).collect()
    }

    fn call(&self, call: ToolCall, progress: ProgressSink) -> ToolFuture<'_> {
        Box::pin(self.run(call, progress))
    }

    fn timeout_setting(&self, _: &str) -> String {
        format!("mcpServers.{}.timeout", self.name())
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Opens a connection and lists the tools.
async fn open(
    config: &McpServerConfig,
    listing: &Arc<Listing>,
    sampler: Option<&Sampler>,
    way: &dyn Way,
    words: &LastWords,
) -> Result<Link, String> {
    let handler = Handler {
        server: config.name.as_str().into(),
        listing: Arc::clone(listing),
        sampler: sampler.cloned(),
        words: words.clone(),
        left: CancellationToken::new(),
        calls: UnderWay::new(),
    };
    let opening = async {
        let link = way.open(handler).await?;
        let line = link.line();
        match listing.refresh(&line.peer).await {
            Ok(()) => Ok(link),
            Err(problem) if line.left.is_cancelled() => {
                Err(format!("{problem}: {}", line.gone(&config.name).await))
            }
            Err(problem) => Err(problem),
        }
    };
    tokio::select! {
        biased;
        opened = opening => opened,
        () = tokio::time::sleep(config.start_timeout) => Err(format!(
            "was not ready within {} (mcpServers.{}.start_timeout)",
            human_limit(config.start_timeout),
            config.name,
        )),
    }
}

/// A call whose answer is waited for. Dropping it tells the server that nobody waits any more.
struct Waiting {
    handle: Option<RequestHandle<RoleClient>>,
    listeners: Listeners,
}

impl Waiting {
    fn new(handle: RequestHandle<RoleClient>, listeners: Listeners) -> Self {
        Self {
            handle: Some(handle),
            listeners,
        }
    }

    async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else {
            return Err(ServiceError::TransportClosed);
        };
        let answer = (&mut handle.rx).await;
        self.listeners.remove(&handle.progress_token);
        self.handle = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        self.listeners.remove(&handle.progress_token);
        // Without a runtime there is no connection either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let why = Some("the caller does not wait any more".to_owned());
                if let Err(error) = handle.cancel(why).await {
                    tracing::debug!(%error, "tool server could not be told of a cancelled call");
                }
            });
        }
    }
}

/// How often a server that ends is started again.
const BETWEEN_RESTARTS: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests;
