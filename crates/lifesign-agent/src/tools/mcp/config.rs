//! Which MCP servers there are: the file that their clients share, `{"mcpServers": {...}}`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use lifesign::transport::Endpoint;
use lifesign_core::duration;
use serde_json::{Map, Value};

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
        let whole: Value = serde_json::from_str(text)
            .map_err(|error| refuse("the file", format!("is no JSON: {error}")))?;
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

/// Reads values that may name variables.
struct Reader<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Reader<'_> {
    /// Reads a server; `None` where it is not to be used.
    fn server(
        &self,
        name: &str,
        field: &str,
        server: &Map<String, Value>,
    ) -> Result<Option<McpServerConfig>, McpConfigError> {
        if name.is_empty() {
            return Err(refuse(
                "mcpServers",
                "has a server without a name".to_owned(),
            ));
        }
        known(field, server, &FIELDS)?;
        let at = |key: &str| (format!("{field}.{key}"), server.get(key));
        let is_disabled = match at("disabled") {
            (_, None) => false,
            (_, Some(Value::Bool(is_disabled))) => *is_disabled,
            (field, Some(other)) => return Err(unfit(&field, other, "true or false")),
        };
        let way = match (server.get("command"), server.get("url")) {
            (Some(_), None) => self.stdio(field, server)?,
            (None, Some(_)) => self.http(field, server)?,
            (Some(_), Some(_)) => {
                let problem = "has both `command` and `url`; one of them is accepted";
                return Err(refuse(field, problem.to_owned()));
            }
            (None, None) => {
                let problem = "has neither `command` nor `url`; one of them is wanted";
                return Err(refuse(field, problem.to_owned()));
            }
        };
        check_type(at("type"), &way)?;
        let limit = |key| match at(key) {
            (_, None) => Ok(None),
            (field, Some(value)) => time(&field, value).map(Some),
        };
        let tools = match at("tools") {
            (_, None) => None,
            (field, Some(list)) => Some(self.texts(&field, list)?),
        };
        let prefix = match at("prefix") {
            (_, None) => String::new(),
            (field, Some(value)) => {
                let prefix = self.text(&field, value)?;
                if !prefix.chars().all(super::is_name_char) || prefix.len() > LONGEST_PREFIX {
                    let wanted = "at most 32 letters, digits, `_` and `-`";
                    return Err(unfit(&field, value, wanted));
                }
                prefix
            }
        };
        let server = McpServerConfig {
            name: name.to_owned(),
            way,
            timeout: limit("timeout")?,
            start_timeout: limit("start_timeout")?.unwrap_or(START_TIMEOUT),
            tools,
            prefix,
        };
        Ok((!is_disabled).then_some(server))
    }

    fn stdio(&self, field: &str, server: &Map<String, Value>) -> Result<McpWay, McpConfigError> {
        belongs(field, server, &["headers"], "url")?;
        let command = self.text_at(field, server, "command")?.unwrap_or_default();
        if command.is_empty() {
            return Err(refuse(&format!("{field}.command"), "is empty".to_owned()));
        }
        let args = match server.get("args") {
            None => Vec::new(),
            Some(list) => self.texts(&format!("{field}.args"), list)?,
        };
        let mut env = Vec::new();
        if let Some(variables) = server.get("env") {
            let field = format!("{field}.env");
            for (name, value) in object(&field, variables)? {
                let field = format!("{field}.{name}");
                if name.is_empty() || name.contains(['=', '\0']) {
                    return Err(refuse(&field, "is no name of a variable".to_owned()));
                }
                env.push((name.clone(), self.secret(&field, value)?));
            }
        }
        Ok(McpWay::Stdio {
            command,
            args,
            env,
            cwd: self.text_at(field, server, "cwd")?.map(PathBuf::from),
        })
    }

    fn http(&self, field: &str, server: &Map<String, Value>) -> Result<McpWay, McpConfigError> {
        belongs(field, server, &["args", "env", "cwd"], "command")?;
        let text = self.text_at(field, server, "url")?.unwrap_or_default();
        let field_url = format!("{field}.url");
        let url: Uri = text
            .parse()
            .map_err(|error| refuse(&field_url, format!("cannot be read as a URL: {error}")))?;
        Endpoint::parse(&url, false).map_err(|error| refuse(&field_url, error.to_string()))?;
        let mut headers = Vec::new();
        if let Some(wanted) = server.get("headers") {
            let field = format!("{field}.headers");
            for (name, value) in object(&field, wanted)? {
                let field = format!("{field}.{name}");
                let parsed = name
                    .parse::<HeaderName>()
                    .map_err(|_| refuse(&field, "is no name of a header".to_owned()))?;
                if OURS.contains(&parsed.as_str()) {
                    return Err(refuse(
                        &field,
                        "is a header that the protocol sets".to_owned(),
                    ));
                }
                let text = self.secret(&field, value)?;
                let mut value = HeaderValue::from_str(&text).map_err(|_| {
                    refuse(&field, "has a character that no header may have".to_owned())
                })?;
                value.set_sensitive(true);
                headers.push((parsed, value));
            }
        }
        Ok(McpWay::Http { url, headers })
    }

    fn text_at(
        &self,
        field: &str,
        server: &Map<String, Value>,
        key: &str,
    ) -> Result<Option<String>, McpConfigError> {
        server
            .get(key)
            .map(|value| self.text(&format!("{field}.{key}"), value))
            .transpose()
    }

    fn texts(&self, field: &str, list: &Value) -> Result<Vec<String>, McpConfigError> {
        let Value::Array(list) = list else {
            return Err(unfit(field, list, "a list of texts"));
        };
        list.iter()
            .enumerate()
            .map(|(place, value)| self.text(&format!("{field}[{place}]"), value))
            .collect()
    }

    fn text(&self, field: &str, value: &Value) -> Result<String, McpConfigError> {
        match value {
            Value::String(text) => self.fill_in(field, text),
            other => Err(unfit(field, other, "a text")),
        }
    }

    /// Reads a text that is not shown where it cannot be used.
    fn secret(&self, field: &str, value: &Value) -> Result<String, McpConfigError> {
        match value {
            Value::String(text) => self.fill_in(field, text),
            other => {
                let problem = format!("is {}; a text is accepted", kind(other));
                Err(refuse(field, problem))
            }
        }
    }

    /// Puts variables in.
    fn fill_in(&self, field: &str, text: &str) -> Result<String, McpConfigError> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (inner, after) = after
                .split_once('}')
                .ok_or_else(|| refuse(field, "has a `${` without its `}`".to_owned()))?;
            let (name, default) = match inner.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inner, None),
            };
            let value = (self.variable)(name).or_else(|| default.map(str::to_owned));
            let value = value.ok_or_else(|| {
                let problem = format!("names the variable {name:?}, which is not set");
                refuse(field, problem)
            })?;
            filled.push_str(before);
            filled.push_str(&value);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

fn check_type(at: (String, Option<&Value>), way: &McpWay) -> Result<(), McpConfigError> {
    let (field, Some(value)) = at else {
        return Ok(());
    };
    let accepted: &[&str] = match way {
        McpWay::Http { .. } => &["http", "streamable-http", "streamableHttp"],
        McpWay::Stdio { .. } => &["stdio"],
    };
    match value.as_str() {
        Some(text) if accepted.contains(&text) => Ok(()),
        _ => Err(unfit(
            &field,
            value,
            &format!("one of {}", accepted.join(", ")),
        )),
    }
}

fn time(field: &str, value: &Value) -> Result<Duration, McpConfigError> {
    let wanted = "a time with its unit, such as \"30s\" or \"2m\"";
    let text = value.as_str().ok_or_else(|| unfit(field, value, wanted))?;
    match duration::parse(text) {
        Ok(limit) if limit > Duration::ZERO => Ok(limit),
        _ => Err(unfit(field, value, wanted)),
    }
}

fn object<'v>(field: &str, value: &'v Value) -> Result<&'v Map<String, Value>, McpConfigError> {
    value.as_object().ok_or_else(|| {
        let problem = format!("is {}; an object is accepted", kind(value));
        refuse(field, problem)
    })
}

/// Refuses fields that nobody knows.
fn known(field: &str, object: &Map<String, Value>, names: &[&str]) -> Result<(), McpConfigError> {
    match object.keys().find(|key| !names.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let problem = format!(
                "has the unknown field {key:?}; accepted: {}",
                names.join(", ")
            );
            Err(refuse(field, problem))
        }
    }
}

/// Refuses fields that mean something only beside another.
fn belongs(
    field: &str,
    server: &Map<String, Value>,
    names: &[&str],
    other: &str,
) -> Result<(), McpConfigError> {
    match names.iter().find(|name| server.contains_key(**name)) {
        None => Ok(()),
        Some(name) => {
            let problem = format!("is accepted only beside `{other}`");
            Err(refuse(&format!("{field}.{name}"), problem))
        }
    }
}

fn unfit(field: &str, value: &Value, accepted: &str) -> McpConfigError {
    let shown = match value {
        Value::Array(_) | Value::Object(_) => kind(value).to_owned(),
        plain => plain.to_string(),
    };
    refuse(field, format!("is {shown}; {accepted} is accepted"))
}

fn refuse(field: &str, problem: String) -> McpConfigError {
    McpConfigError {
        field: field.to_owned(),
        problem,
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "a list",
        Value::Bool(_) => "true or false",
        Value::Null => "null",
        Value::Number(_) => "a number",
        Value::Object(_) => "an object",
        Value::String(_) => "a text",
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

/// The fields of a server.
const FIELDS: [&str; 12] = [
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "type",
    "disabled",
    "timeout",
    "start_timeout",
    "tools",
    "prefix",
];

/// Headers that are not for a file to set.
const OURS: [&str; 8] = [
    "accept",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Half of what a name may have.
const LONGEST_PREFIX: usize = 32;

#[cfg(test)]
mod tests;
