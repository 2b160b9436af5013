//! Which MCP servers there are: the file that their clients share, `{"mcpServers": {...}}`.

mod refusal;
mod server;
mod unique;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

use self::refusal::{known, object, refuse};
use self::server::Reader;
use self::unique::Unique;

/// The MCP servers that a file names, in the order of their names.
///
/// # Example
///
/// This example shows a server that is a program, and one that is reached over HTTP.
///
/// ```
/// use lifesign_agent::tools::mcp::McpConfig;
///
/// let text = r#"{"mcpServers": {
///     "docs": {"url": "https://docs.example/mcp", "headers": {"authorization": "Bearer ${TOKEN}"}},
///     "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]}
/// }}"#;
/// let config = McpConfig::parse(text, |name| (name == "TOKEN").then(|| "secret".to_owned()))?;
///
/// assert_eq!(config.servers.len(), 2);
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), lifesign_agent::tools::mcp::McpConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpConfig {
    /// The servers, without those that are `disabled`.
    pub servers: Vec<McpServerConfig>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerConfig {
    /// The name by which people know it.
    pub name: String,
    /// How it is reached.
    pub way: McpWay,
    /// How long one of its tools may take; `None` for as long as any tool may.
    pub timeout: Option<Duration>,
    /// How long it may take to start and to list its tools. Default: 60 s.
    pub start_timeout: Duration,
    /// The tools to offer, by the server's names. `None` for all.
    pub tools: Option<Vec<String>>,
    /// What stands before the name of each of its tools. Default: nothing.
    pub prefix: String,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum McpWay {
    /// Over streamable HTTP.
    Http {
        /// Its address.
        url: Uri,
        /// Headers of each request.
        headers: Vec<(HeaderName, HeaderValue)>,
    },
    /// It is a program of ours, spoken with over its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables of its environment, besides the harmless part of ours.
        env: Vec<(String, String)>,
        /// The directory that it starts in; `None` for ours.
        cwd: Option<PathBuf>,
    },
}

/// A file of servers that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct McpConfigError {
    /// Where in the file.
    pub field: String,
    /// What is there and what is accepted.
    pub problem: String,
}

impl McpConfig {
    /// Reads the text of a file.
    ///
    /// In texts, `${NAME}` stands for what `variable` says of that name, and `${NAME:-TEXT}` for
    /// `TEXT` where it says nothing: keys need not stand in the file.
    ///
    /// # Errors
    ///
    /// Fails at the first thing that cannot be used, naming it.
    pub fn parse(
        text: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, McpConfigError> {
        let Unique(whole) = serde_json::from_str(text).map_err(|error| {
            let problem = if error.is_data() {
                error.to_string()
            } else {
                format!("is no JSON: {error}")
            };
            refuse("the file", problem)
        })?;
        let reader = Reader {
            variable: &variable,
        };
        let top = object("the file", &whole)?;
        known("the file", top, &["mcpServers", "$schema"])?;
        let servers = top
            .get("mcpServers")
            .ok_or_else(|| refuse("mcpServers", "is missing".to_owned()))?;
        let mut config = Self::default();
        for (name, server) in object("mcpServers", servers)? {
            let field = format!("mcpServers.{name}");
            if let Some(server) = reader.server(name, &field, object(&field, server)?)? {
                config.servers.push(server);
            }
        }
        Ok(config)
    }
}

impl fmt::Debug for McpWay {
    /// Shows where it leads, and no value that may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { url, headers } => {
                let names: Vec<_> = headers.iter().map(|(name, _)| name).collect();
                f.debug_struct("Http")
                    .field("host", &url.host())
                    .field("headers", &names)
                    .finish_non_exhaustive()
            }
            Self::Stdio { command, env, .. } => {
                let names: Vec<_> = env.iter().map(|(name, _)| name).collect();
                f.debug_struct("Stdio")
                    .field("command", command)
                    .field("env", &names)
                    .finish_non_exhaustive()
            }
        }
    }
}

#[cfg(test)]
mod tests;
