//! Tools of MCP servers, over standard input and output or streamable HTTP.

mod config;

pub use self::config::{McpConfig, McpConfigError, McpServerConfig, McpWay};

/// Whether every provider lets a tool's name have this character.
fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}
