//! Tools for one directory: read, write, list, run. None is offered unless it was asked for.
//!
//! Paths are opened from the directory's own handle, so neither `..`, nor an absolute path, nor a
//! symbolic link leads out of it, not even one that is put there in between. A program that is run
//! starts in the directory and is not held there: it may do what its user may do.

mod files;
mod run;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::{Value, json};

use super::{ProgressSink, ToolCall, ToolFuture, ToolResult, ToolSpec, Toolbox};

/// What a model may do in one directory.
///
/// # Example
///
/// This example shows tools to look around in a directory, and to change nothing.
///
/// ```
/// use lifesign_agent::tools::{DirectoryTools, Toolbox};
///
/// let tools = DirectoryTools::open(".")?.allow_list().allow_read();
///
/// let names: Vec<_> = tools.tools().into_iter().map(|tool| tool.name).collect();
/// assert_eq!(names, ["list", "read"]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DirectoryTools {
    root: Arc<Dir>,
    path: PathBuf,
    may_list: bool,
    may_read: bool,
    may_write: bool,
    run: Option<RunRules>,
}

/// How programs are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRules {
    /// How long one may take (`tools.run_timeout`). Default: 2 min.
    pub timeout: Duration,
    /// Whether a command is a line for the shell. Default: no, it is a program and its arguments.
    pub shell: bool,
    /// Variables of our environment that are passed on besides the harmless ones.
    pub environment: Vec<String>,
    /// The most bytes kept of each of the two things that a program writes. Default: 32 KiB.
    pub max_output: usize,
}

impl Default for RunRules {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(2),
            shell: false,
            environment: Vec::new(),
            max_output: 32 * 1024,
        }
    }
}

impl DirectoryTools {
    /// Returns tools for `directory` of which none is allowed yet.
    ///
    /// # Errors
    ///
    /// Fails where it cannot be opened.
    pub fn open(directory: impl AsRef<Path>) -> io::Result<Self> {
        let path = directory.as_ref().canonicalize()?;
        let root = Dir::open_ambient_dir(&path, ambient_authority())?;
        Ok(Self {
            root: Arc::new(root),
            path,
            may_list: false,
            may_read: false,
            may_write: false,
            run: None,
        })
    }

    /// Offers `list`.
    #[must_use]
    pub fn allow_list(mut self) -> Self {
        self.may_list = true;
        self
    }

    /// Offers `read`.
    #[must_use]
    pub fn allow_read(mut self) -> Self {
        self.may_read = true;
        self
    }

    /// Offers `write`.
    #[must_use]
    pub fn allow_write(mut self) -> Self {
        self.may_write = true;
        self
    }

    /// Offers `run`.
    #[must_use]
    pub fn allow_run(mut self, rules: RunRules) -> Self {
        self.run = Some(rules);
        self
    }

    /// Does something with files where it may take its time.
    async fn with_files(
        &self,
        work: impl FnOnce(&Dir) -> Result<String, String> + Send + 'static,
    ) -> ToolResult {
        let root = Arc::clone(&self.root);
        match tokio::task::spawn_blocking(move || work(&root)).await {
            Ok(Ok(text)) => ToolResult::ok(text),
            Ok(Err(text)) => ToolResult::error(text),
            Err(error) => ToolResult::error(format!("the tool broke off: {error}")),
        }
    }

    async fn dispatch(&self, call: ToolCall) -> ToolResult {
        let text = |name: &str| call.arguments.get(name)?.as_str().map(str::to_owned);
        let count = |name: &str| call.arguments.get(name)?.as_u64();
        match (call.name.as_str(), &self.run) {
            (LIST, _) if self.may_list => {
                let path = text("path").unwrap_or_else(|| ".".to_owned());
                self.with_files(move |root| files::list(root, &path)).await
            }
            (READ, _) if self.may_read => {
                let Some(path) = text("path") else {
                    return missing("path", "a text");
                };
                let wanted = files::Extent {
                    from_line: count("from_line").unwrap_or(1),
                    from_byte: count("from_byte").unwrap_or(0),
                    lines: count("lines"),
                    bytes: count("bytes"),
                };
                self.with_files(move |root| files::read(root, &path, wanted))
                    .await
            }
            (WRITE, _) if self.may_write => {
                let (Some(path), Some(content)) = (text("path"), text("content")) else {
                    return missing("path or content", "a text");
                };
                self.with_files(move |root| files::write(root, &path, &content))
                    .await
            }
            (RUN, Some(rules)) => {
                let Some(command) = run::command(&call.arguments, rules.shell) else {
                    return missing(
                        "command",
                        if rules.shell {
                            "a text"
                        } else {
                            "a list of texts, the program first"
                        },
                    );
                };
                run::run(command, &self.path, rules).await
            }
            (name, _) => ToolResult::error(format!("there is no tool {name:?}")),
        }
    }
}

impl Toolbox for DirectoryTools {
    fn tools(&self) -> Vec<ToolSpec> {
        let mut tools = Vec::new();
        if self.may_list {
            let about =
                "Lists what is in a directory, one entry a line; a directory ends in a slash.";
            let path = json!({"type": "string", "description": "The directory; the outermost if left out."});
            tools.push(spec(LIST, about, &json!({"path": path}), &[], true));
        }
        if self.may_read {
            let about = "Reads a text file, or some lines of it.";
            let fields = json!({
                "path": {"type": "string", "description": "The file."},
                "from_line": {"type": "integer", "minimum": 1, "description": "The first line; 1 if left out."},
                "lines": {"type": "integer", "minimum": 1, "description": "How many lines; all if left out."},
                "from_byte": {"type": "integer", "minimum": 0, "description": "Where in the first line to begin, in bytes, if that is a long one; 0 if left out."},
                "bytes": {"type": "integer", "minimum": 1, "description": "How many bytes at most, if lines are long."},
            });
            tools.push(spec(READ, about, &fields, &["path"], true));
        }
        if self.may_write {
            let about = "Writes a text file anew, and the directories on its way. What it held before is lost.";
            let fields = json!({
                "path": {"type": "string", "description": "The file."},
                "content": {"type": "string", "description": "All that it holds from now on."},
            });
            tools.push(spec(WRITE, about, &fields, &["path", "content"], false));
        }
        if let Some(rules) = &self.run {
            let (about, command) = if rules.shell {
                (
                    "Runs a line in the shell and tells its exit code and what it wrote.",
                    json!({"type": "string", "description": "The line."}),
                )
            } else {
                (
                    "Runs a program, without a shell, and tells its exit code and what it wrote.",
                    json!({
                        "type": "array",
                        "items": {"type": "string"},
                        "minItems": 1,
                        "description": "The program and its arguments.",
                    }),
                )
            };
            let mut run = spec(
                RUN,
                about,
                &json!({"command": command}),
                &["command"],
                false,
            );
            // It keeps its own limit, so that what a program wrote until then is not lost.
            run.timeout = Some(rules.timeout + run::GRACE * 4);
            tools.push(run);
        }
        tools
    }

    fn call(&self, call: ToolCall, _: ProgressSink) -> ToolFuture<'_> {
        Box::pin(self.dispatch(call))
    }

    fn timeout_setting(&self, _: &str) -> String {
        run::TIMEOUT.to_owned()
    }
}

fn spec(name: &str, about: &str, fields: &Value, required: &[&str], is_parallel: bool) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: Some(about.to_owned()),
        parameters: json!({
            "type": "object",
            "properties": fields,
            "required": required,
            "additionalProperties": false,
        }),
        timeout: None,
        is_parallel,
    }
}

fn missing(field: &str, wanted: &str) -> ToolResult {
    ToolResult::error(format!("{field} is missing or not {wanted}"))
}

const LIST: &str = "list";
const READ: &str = "read";
const WRITE: &str = "write";
const RUN: &str = "run";

#[cfg(test)]
mod tests;
