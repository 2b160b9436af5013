//! Several toolboxes as one, under the limits that hold for all of them.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lifesign_core::duration::human_limit;
use serde_json::{Map, Value};

use super::{ProgressSink, ToolCall, ToolFuture, ToolResult, ToolSpec, Toolbox, arguments, output};

/// What holds for every tool that has no rule of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolLimits {
    /// How long a call may take (`tools.timeout`). Default: 2 min. `None` for as long as it likes.
    pub timeout: Option<Duration>,
    /// The most bytes of a result (`tools.max_output`), head and tail together. Default: 64 KiB.
    pub max_output: usize,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_mins(2)),
            max_output: 64 * 1024,
        }
    }
}

/// Toolboxes joined into one.
///
/// Whatever a toolbox does, a call of a toolset ends within its limit, and its result can be given to
/// a model: arguments that do not fit the schema never reach the tool, and what is too long is cut.
///
/// # Example
///
/// This example shows a toolset of one toolbox.
///
/// ```
/// use std::sync::Arc;
///
/// use lifesign_agent::tools::{
///     ProgressSink, ToolCall, ToolFuture, ToolResult, ToolSpec, Toolbox, Toolset,
/// };
/// use serde_json::json;
///
/// struct Clock;
///
/// impl Toolbox for Clock {
///     fn tools(&self) -> Vec<ToolSpec> {
///         vec![ToolSpec {
///             name: "time".to_owned(),
///             description: Some("Tells the time.".to_owned()),
///             parameters: json!({"type": "object", "properties": {}}),
///             timeout: None,
///             is_parallel: true,
///         }]
///     }
///
///     fn call(&self, _: ToolCall, _: ProgressSink) -> ToolFuture<'_> {
///         Box::pin(async { ToolResult::ok("noon") })
///     }
/// }
///
/// let tools = Toolset::new().with("the clock", Arc::new(Clock))?;
/// assert_eq!(tools.tools()[0].name, "time");
/// # Ok::<(), lifesign_agent::tools::ToolNameTaken>(())
/// ```
#[derive(Clone, Default)]
pub struct Toolset {
    owners: Vec<Owner>,
    limits: ToolLimits,
}

#[derive(Clone)]
struct Owner {
    name: String,
    toolbox: Arc<dyn Toolbox>,
}

/// Two toolboxes have a tool of the same name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool {tool:?} is offered by {first} and by {second}: a name may be there once")]
pub struct ToolNameTaken {
    /// The name.
    pub tool: String,
    /// Whose it is.
    pub first: String,
    /// Who wants it too; the same as `first` where one has it twice.
    pub second: String,
}

impl Toolset {
    /// Returns a toolset without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what holds for every tool that has no rule of its own.
    #[must_use]
    pub fn limits(mut self, limits: ToolLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds a toolbox. `owner` says whose it is where people read of it.
    ///
    /// # Errors
    ///
    /// Fails where one of its tools has a name that is taken.
    pub fn with(
        mut self,
        owner: impl Into<String>,
        toolbox: Arc<dyn Toolbox>,
    ) -> Result<Self, ToolNameTaken> {
        let name = owner.into();
        let mut own = HashSet::new();
        for spec in toolbox.tools() {
            let first = self
                .owner_of(&spec.name)
                .map(|(owner, _)| owner.name.clone());
            let is_twice = !own.insert(spec.name.clone());
            if let Some(first) = first.or_else(|| is_twice.then(|| name.clone())) {
                return Err(ToolNameTaken {
                    tool: spec.name,
                    first,
                    second: name,
                });
            }
        }
        self.owners.push(Owner { name, toolbox });
        Ok(self)
    }

    /// Returns whose a tool is now, and what is known of it.
    fn owner_of(&self, tool: &str) -> Option<(&Owner, ToolSpec)> {
        self.owners.iter().find_map(|owner| {
            let mut tools = owner.toolbox.tools().into_iter();
            Some((owner, tools.find(|spec| spec.name == tool)?))
        })
    }

    async fn run(&self, mut call: ToolCall, progress: ProgressSink) -> ToolResult {
        let Some((owner, spec)) = self.owner_of(&call.name) else {
            return self.unknown(&call.name);
        };
        if let Some(refused) = misfit(&spec, &call) {
            return refused;
        }
        if call.arguments.is_null() {
            call.arguments = Value::Object(Map::new());
        }
        let limit = spec.timeout.or(self.limits.timeout);
        let work = owner.toolbox.call(call, progress);
        let mut result = match limit {
            None => work.await,
            Some(limit) => tokio::select! {
                // What is done already beats the timer.
                biased;
                result = work => result,
                () = tokio::time::sleep(limit) => {
                    let setting = match spec.timeout {
                        Some(_) => owner.toolbox.timeout_setting(&spec.name),
                        None => TIMEOUT.to_owned(),
                    };
                    ToolResult::error(format!(
                        "{} was stopped after {} ({setting}); what it had begun may be half done",
                        spec.name,
                        human_limit(limit),
                    ))
                }
            },
        };
        result.text = output::cut(result.text, self.limits.max_output, MAX_OUTPUT);
        result
    }

    fn unknown(&self, name: &str) -> ToolResult {
        let names: Vec<_> = self.tools().into_iter().map(|spec| spec.name).collect();
        let there = match names.as_slice() {
            [] => "there are none".to_owned(),
            names => format!("there are {}", names.join(", ")),
        };
        ToolResult::error(format!("there is no tool {name:?}; {there}"))
    }
}

impl Toolbox for Toolset {
    /// Returns the tools in the order of their toolboxes.
    ///
    /// A toolbox may come to have a tool whose name is taken after it was added. The name then stays
    /// whose toolbox was added first.
    fn tools(&self) -> Vec<ToolSpec> {
        let mut names = HashSet::new();
        let all = self.owners.iter().flat_map(|owner| owner.toolbox.tools());
        all.filter(|spec| names.insert(spec.name.clone())).collect()
    }

    fn refuse(&self, call: &ToolCall) -> Option<ToolResult> {
        match self.owner_of(&call.name) {
            Some((owner, spec)) => misfit(&spec, call).or_else(|| owner.toolbox.refuse(call)),
            None => Some(self.unknown(&call.name)),
        }
    }

    fn call(&self, call: ToolCall, progress: ProgressSink) -> ToolFuture<'_> {
        Box::pin(self.run(call, progress))
    }

    fn timeout_setting(&self, tool: &str) -> String {
        match self.owner_of(tool) {
            Some((owner, spec)) if spec.timeout.is_some() => owner.toolbox.timeout_setting(tool),
            _ => TIMEOUT.to_owned(),
        }
    }
}

impl fmt::Debug for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owners: Vec<_> = self.owners.iter().map(|owner| &owner.name).collect();
        f.debug_struct("Toolset")
            .field("owners", &owners)
            .field("limits", &self.limits)
            .finish()
    }
}

/// Returns the result of a call whose arguments do not fit.
fn misfit(spec: &ToolSpec, call: &ToolCall) -> Option<ToolResult> {
    // A model that wants nothing of a tool may say just nothing.
    let nothing = Value::Object(Map::new());
    let said = if call.arguments.is_null() {
        &nothing
    } else {
        &call.arguments
    };
    let misfit = arguments::misfit(&spec.parameters, said)?;
    Some(ToolResult::error(format!(
        "arguments of {} do not fit its schema, so it was not run: {misfit}",
        spec.name
    )))
}

/// The setting of [`ToolLimits::timeout`].
const TIMEOUT: &str = "tools.timeout";

/// The setting of [`ToolLimits::max_output`].
const MAX_OUTPUT: &str = "tools.max_output";

#[cfg(test)]
mod tests;
