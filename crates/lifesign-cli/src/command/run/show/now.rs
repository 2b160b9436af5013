//! What a turn is doing right now, put together from its events, for the line that says so.

use std::time::Duration;

use lifesign::clock::CallClock;
use lifesign::{CallEvent, Monitor, quote};
use lifesign_agent::{AgentEvent, Purpose};

use crate::output::plain;
use crate::status_line::{Status, short};

/// What a turn is doing.
pub(super) struct Now {
    clock: CallClock,
    call: Option<Call>,
    /// The tools that run, in the order in which they began.
    tools: Vec<Running>,
    wait: Option<Wait>,
    /// Whether somebody does not want the turn to go on.
    is_stopping: bool,
}

struct Call {
    purpose: Purpose,
    monitor: Monitor,
    /// What has come of it last.
    content: &'static str,
}

struct Running {
    id: String,
    name: String,
    clock: CallClock,
    progress: String,
}

/// A wait for the turn to be sent again.
struct Wait {
    clock: CallClock,
    length: Duration,
}

impl Now {
    /// Begins with a turn that begins now.
    pub(super) fn start() -> Self {
        Self {
            clock: CallClock::start(),
            call: None,
            tools: Vec::new(),
            wait: None,
            is_stopping: false,
        }
    }

    /// Takes note that somebody does not want the turn to go on.
    pub(super) const fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Takes note of what has happened.
    pub(super) fn handle(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::CallBegan { purpose, monitor } => {
                self.wait = None;
                self.call = Some(Call {
                    purpose,
                    monitor,
                    content: "answering",
                });
            }
            AgentEvent::Call(event) => self.handle_content(&event),
            AgentEvent::CallEnded { .. } => self.call = None,
            AgentEvent::ToolBegan { call } => {
                let name = plain(&quote(&call.name, NAME_CHARS));
                self.tools.push(Running {
                    id: call.id,
                    name,
                    clock: CallClock::start(),
                    progress: String::new(),
                });
            }
            AgentEvent::ToolProgress { id, progress } => {
                if let Some(tool) = self.tools.iter_mut().find(|tool| tool.id == id) {
                    tool.progress = plain(&quote(&progress.to_string(), PROGRESS_CHARS));
                }
            }
            AgentEvent::ToolEnded { id, .. } => self.tools.retain(|tool| tool.id != id),
            AgentEvent::Resending { wait, .. } => {
                self.wait = Some(Wait {
                    clock: CallClock::start(),
                    length: wait,
                });
            }
            _ => {}
        }
    }

    /// Says what the turn is doing.
    pub(super) fn status(&self) -> Status {
        let mut status = Status::since(self.clock.elapsed());
        if self.is_stopping {
            status.say("stopping; Ctrl-C ends it at once");
            return status;
        }
        if let Some(call) = &self.call {
            match call.purpose {
                Purpose::Answer => {}
                Purpose::Recovery => status.say("going on"),
                Purpose::Compaction => status.say("summing up"),
            }
            status.add_call(&call.monitor.snapshot(), 1, call.content);
        } else if let Some(wait) = &self.wait {
            let left = wait.length.saturating_sub(wait.clock.elapsed());
            status.say(format!("sent again in {}", short(left)));
        } else if self.tools.is_empty() {
            status.say("working");
        }
        for tool in &self.tools {
            let took = short(tool.clock.elapsed());
            status.say(format!("{} running {took}", tool.name));
            if !tool.progress.is_empty() {
                status.add(PROGRESS, tool.progress.clone());
            }
        }
        status
    }

    fn handle_content(&mut self, event: &CallEvent) {
        let Some(call) = &mut self.call else {
            return;
        };
        match event {
            CallEvent::Reasoning(_) => call.content = "thinking",
            CallEvent::Text(_) => call.content = "answering",
            CallEvent::ToolCall(_) => call.content = "calling a tool",
            _ => {}
        }
    }
}

/// The rank of a tool's own words: what runs, and how long, is said before them.
const PROGRESS: u8 = 5;

const NAME_CHARS: usize = 64;

const PROGRESS_CHARS: usize = 120;
