//! What cannot be used in the file, said with its place and with what is accepted.

use serde_json::{Map, Value};

use super::McpConfigError;

/// Returns the object that a value has to be.
pub(super) fn object<'v>(
    field: &str,
    value: &'v Value,
) -> Result<&'v Map<String, Value>, McpConfigError> {
    value.as_object().ok_or_else(|| {
        let problem = format!("is {}; an object is accepted", kind(value));
        refuse(field, problem)
    })
}

/// Refuses fields that nobody knows.
pub(super) fn known(
    field: &str,
    object: &Map<String, Value>,
    names: &[&str],
) -> Result<(), McpConfigError> {
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
pub(super) fn belongs(
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

/// Refuses a value, which is shown unless it is a list or an object.
pub(super) fn unfit(field: &str, value: &Value, accepted: &str) -> McpConfigError {
    let shown = match value {
        Value::Array(_) | Value::Object(_) => kind(value).to_owned(),
        plain => plain.to_string(),
    };
    refuse(field, format!("is {shown}; {accepted} is accepted"))
}

pub(super) fn refuse(field: &str, problem: String) -> McpConfigError {
    McpConfigError {
        field: field.to_owned(),
        problem,
    }
}

/// Says what a value is, and nothing of what it holds.
pub(super) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "a list",
        Value::Bool(_) => "true or false",
        Value::Null => "null",
        Value::Number(_) => "a number",
        Value::Object(_) => "an object",
        Value::String(_) => "a text",
    }
}
