//! Tools of MCP servers, over standard input and output or streamable HTTP.
//!
//! A server is somebody else's program: whatever it does, a call of its tools ends in a result, and
//! when it is let go nothing of it stays behind.

mod config;
mod content;
mod handler;
mod http_client;
mod last_words;
mod link;
mod listing;
mod program;
mod server;
#[cfg(test)]
pub(super) mod talker;
mod tap;
mod under_way;
mod ways;

use std::sync::Arc;

use lifesign::transport::Transport;
use rmcp::transport::streamable_http_client::StreamableHttpError;

pub use self::config::{McpConfig, McpConfigError, McpServerConfig, McpWay};
pub(super) use self::content::texts as content_texts;
use self::http_client::HttpError;
pub use self::server::{McpServer, McpStartError};
pub use super::sampling::{Sampled, Sampler};

/// Starts MCP servers.
///
/// # Example
///
/// This example starts the servers of a file and gives their tools to an agent.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use lifesign::transport::{Transport, TransportConfig};
/// use lifesign_agent::tools::Toolset;
/// use lifesign_agent::tools::mcp::{McpConfig, McpStarter};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let text = std::fs::read_to_string("mcp.json")?;
/// let config = McpConfig::parse(&text, |name| std::env::var(name).ok())?;
/// let starter = McpStarter::new(Arc::new(Transport::new(TransportConfig::default())?));
///
/// let mut tools = Toolset::new();
/// for server in config.servers {
///     let server = starter.start(server).await?;
///     tools = tools.with(format!("tool server {}", server.name()), Arc::new(server))?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct McpStarter {
    transport: Arc<Transport>,
    sampler: Option<Sampler>,
}

impl McpStarter {
    /// Returns what starts servers that may make no model calls, and reaches those at a URL through
    /// `transport`.
    pub fn new(transport: Arc<Transport>) -> Self {
        Self {
            transport,
            sampler: None,
        }
    }

    /// Lets servers make model calls.
    #[must_use]
    pub fn with_sampler(mut self, sampler: Sampler) -> Self {
        self.sampler = Some(sampler);
        self
    }

    /// Starts a server and waits until its tools are known.
    ///
    /// # Errors
    ///
    /// Fails where it cannot be started or reached, does not answer in time, or has not the tools
    /// that it was asked for.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills what it had started.
    pub async fn start(&self, config: McpServerConfig) -> Result<McpServer, McpStartError> {
        let way = ways::way_to(&config, &self.transport);
        McpServer::start(config, way, self.sampler.clone()).await
    }
}

/// Whether every provider lets a tool's name have this character.
fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Cuts what others say to what a line of the log or a sentence bears.
fn short(text: &str) -> &str {
    text.split_at(text.floor_char_boundary(LONGEST_QUOTE)).0
}

/// Says in one clause why a server is of no use: it was not reached, or what it said is no answer.
fn trouble(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let is_answered = match error.downcast_ref::<StreamableHttpError<HttpError>>() {
        None | Some(StreamableHttpError::Client(_) | StreamableHttpError::Io(_)) => false,
        Some(_) => true,
    };
    let what = if is_answered { "used" } else { "reached" };
    format!("cannot be {what}: {}", chain(error))
}

/// Puts an error and its causes into one clause.
fn chain(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    // What stands before an error of our own HTTP client says nothing.
    let mut text = text
        .strip_prefix("Client error: ")
        .unwrap_or(&text)
        .to_owned();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    short(&text).to_owned()
}

const LONGEST_QUOTE: usize = 600;
