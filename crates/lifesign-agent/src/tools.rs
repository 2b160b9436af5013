//! Tools that a model may call, whoever provides them.
//!
//! A [`Toolbox`] offers tools and runs them. Whatever goes wrong with a tool is a [`ToolResult`] for
//! the model to read, never the failure of a turn.
//!
//! A [`Toolset`] joins several toolboxes and puts the same limits on all of them.

mod arguments;
mod builtin;
mod environment;
#[cfg(feature = "mcp")]
pub mod mcp;
mod output;
mod process;
#[cfg(feature = "mcp")]
mod sampling;
mod toolset;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use self::builtin::{DirectoryTools, RunRules};
pub use self::toolset::{ToolLimits, ToolNameTaken, Toolset};

/// Tools from one place: a directory, a server, a program that embeds the agent.
pub trait Toolbox: Send + Sync {
    /// Returns the tools that there are now, in a stable order.
    fn tools(&self) -> Vec<ToolSpec>;

    /// Says why a call cannot be begun; `None` where it can. It counts then as one that was not run.
    fn refuse(&self, _call: &ToolCall) -> Option<ToolResult> {
        None
    }

    /// Runs one call to its end.
    ///
    /// A failure of the tool is a result, never an error. `progress` is told how far the tool is,
    /// where it says so.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call.
    fn call(&self, call: ToolCall, progress: ProgressSink) -> ToolFuture<'_>;

    /// Returns the setting that [`ToolSpec::timeout`] comes from, for whoever reads that it ran out.
    fn timeout_setting(&self, tool: &str) -> String {
        format!("the timeout of `{tool}`")
    }
}

/// A tool call under way.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>>;

/// Is told how far a tool is, from wherever the tool runs and as often as it likes: a turn keeps the
/// newest of it until that is read.
pub type ProgressSink = Arc<dyn Fn(ToolProgress) + Send + Sync>;

/// What a model is told of a tool, and how its calls are run.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name that the model calls it by, unique in the agent.
    pub name: String,
    /// What it does, in words for the model.
    pub description: Option<String>,
    /// The JSON schema of its arguments.
    pub parameters: Value,
    /// How long a call of it may take; `None` for as long as the agent allows any tool.
    pub timeout: Option<Duration>,
    /// Whether a call of it may run beside others.
    pub is_parallel: bool,
}

/// What a model wants of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The id by which the model knows the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, as the model gave them.
    pub arguments: Value,
}

/// What a tool call brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// What the model is told.
    pub text: String,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl ToolResult {
    /// Returns the result of a tool that did what was asked.
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: false,
        }
    }

    /// Returns the result of a tool that failed.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: true,
        }
    }
}

/// How far a tool is, as it says itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolProgress {
    /// How much is done.
    pub done: Option<f64>,
    /// How much there is to do.
    pub total: Option<f64>,
    /// What it is doing.
    pub message: Option<String>,
}

impl fmt::Display for ToolProgress {
    /// Writes what is known: `3 of 10: reading`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.done, self.total) {
            (Some(done), Some(total)) => write!(f, "{done} of {total}")?,
            (Some(done), None) => write!(f, "{done}")?,
            (None, _) => {}
        }
        match (&self.message, self.done) {
            (Some(message), Some(_)) => write!(f, ": {message}"),
            (Some(message), None) => f.write_str(message),
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn progress_reads_as_what_is_known_of_it() {
        let of = |done, total, message: Option<&str>| {
            let message = message.map(str::to_owned);
            let progress = ToolProgress {
                done,
                total,
                message,
            };
            progress.to_string()
        };

        assert_eq!(
            of(Some(3.0), Some(10.0), Some("reading")),
            "3 of 10: reading"
        );
        assert_eq!(of(Some(0.5), None, None), "0.5");
        assert_eq!(of(None, Some(10.0), Some("reading")), "reading");
        assert_eq!(of(None, None, None), "");
    }
}
