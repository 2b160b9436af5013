//! One server of the file, read and checked field by field.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use lifesign::transport::Endpoint;
use lifesign_core::duration;
use serde_json::{Map, Value};

use super::refusal::{belongs, kind, known, object, refuse, unfit};
use super::{McpConfigError, McpServerConfig, McpWay};
use crate::tools::mcp::is_name_char;

/// Reads values that may name variables.
pub(super) struct Reader<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Reader<'_> {
    /// Reads a server; `None` where it is not to be used.
    pub(super) fn server(
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
        let at = |key: &str| (format!("{field}.{key}"), server.get(key));
        let is_disabled = match at("disabled") {
            (_, None) => false,
            (_, Some(Value::Bool(is_disabled))) => *is_disabled,
            (field, Some(other)) => return Err(unfit(&field, other, "true or false")),
        };
        // What is not used may name variables that are not set.
        if is_disabled {
            return Ok(None);
        }
        known(field, server, &FIELDS)?;
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
                if !prefix.chars().all(is_name_char) || prefix.len() > LONGEST_PREFIX {
                    let wanted = "at most 32 letters, digits, `_` and `-`";
                    return Err(unfit(&field, value, wanted));
                }
                prefix
            }
        };
        Ok(Some(McpServerConfig {
            name: name.to_owned(),
            way,
            timeout: limit("timeout")?,
            start_timeout: limit("start_timeout")?.unwrap_or(START_TIMEOUT),
            tools,
            prefix,
        }))
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

/// The fields of a server.
pub(super) const FIELDS: [&str; 12] = [
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
