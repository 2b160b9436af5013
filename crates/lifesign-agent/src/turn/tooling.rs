//! The tool calls of an answer: run in the order asked, each written down before and after.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lifesign::ToolCall;
use lifesign::clock::CallClock;
use serde_json::{Map, Value};

use super::doing::Doing;
use super::progress::Progress;
use super::run::{Run, Stop};
use crate::event::AgentEvent;
use crate::tools::{self, ProgressSink, ToolResult, ToolSpec, Toolbox};
use crate::transcript::{Entry, NOT_RUN, Ran, UNREADABLE_CALL};

impl Run<'_> {
    /// Runs the calls of the last answer that have no result yet.
    ///
    /// Neighbours that may run beside others do; everything else runs alone, in its place.
    pub(super) async fn run_open_calls(&mut self) -> Result<(), Stop> {
        let specs = self.agent.toolbox.as_ref().map(|tools| tools.tools());
        let specs = specs.unwrap_or_default();
        let open = self.agent.transcript.standing().open_calls;
        let mut calls = open.into_iter().map(|open| open.call).peekable();
        while let Some(call) = calls.next() {
            let mut batch = vec![call];
            if is_parallel(&batch[0], &specs) {
                while let Some(next) = calls.next_if(|call| is_parallel(call, &specs)) {
                    batch.push(next);
                }
            }
            // A result in hand may have come at the very moment of the stop.
            let (ended, not_run) = match self.stop() {
                Some(stop) => (Err(stop), batch),
                None => (self.run_batch(batch, &specs).await, Vec::new()),
            };
            if let Err(stop) = ended {
                for ToolCall { id, name, .. } in not_run.into_iter().chain(calls) {
                    self.tell_result(id, name, ToolResult::error(NOT_RUN), Duration::ZERO)
                        .await?;
                }
                return Err(stop);
            }
        }
        Ok(())
    }

    /// Tells the model of the calls of its last answer that they are not run, since the turn has had its
    /// `most` rounds.
    pub(super) async fn refuse_open_calls(&mut self, most: u32) -> Result<(), Stop> {
        let name = self.agent.terms.names.max_rounds;
        for open in self.agent.transcript.standing().open_calls {
            let result = ToolResult::error(format!(
                "This call was not run: tools were called in {most} answers of this turn, which is \
                 the most that it may have ({name})."
            ));
            self.tell_result(open.call.id, open.call.name, result, Duration::ZERO)
                .await?;
        }
        Ok(())
    }

    async fn run_batch(&mut self, batch: Vec<ToolCall>, specs: &[ToolSpec]) -> Result<(), Stop> {
        let began = self.clock.elapsed();
        let mut running = FuturesUnordered::new();
        let progress = Progress::default();
        let mut unfinished = Vec::new();
        for call in batch {
            let refused = |text: &str| ToolResult::error(text);
            let runnable = match (arguments(&call), self.agent.toolbox.clone()) {
                (None, _) => Err(refused(UNREADABLE_CALL)),
                (Some(arguments), Some(toolbox)) if knows(specs, &call.name) => {
                    let wanted = tools::ToolCall {
                        id: call.id.clone(),
                        name: call.name.clone(),
                        arguments,
                    };
                    match toolbox.refuse(&wanted) {
                        Some(refused) => Err(refused),
                        None => Ok((wanted, toolbox)),
                    }
                }
                _ => Err(refused(&format!("There is no tool `{}`.", call.name))),
            };
            match runnable {
                Err(result) => {
                    self.books.counts.tool_failures += 1;
                    self.tell_result(call.id, call.name, result, Duration::ZERO)
                        .await?;
                }
                Ok((wanted, toolbox)) => {
                    self.append(Entry::ToolBegan {
                        id: call.id.clone(),
                        name: call.name.clone(),
                    })
                    .await?;
                    self.books.counts.tool_calls += 1;
                    unfinished.push((call.id.clone(), call.name.clone()));
                    let sink = progress.begin(&call.id);
                    self.emit(AgentEvent::ToolBegan { call });
                    running.push(run(toolbox, wanted, sink));
                }
            }
        }
        self.doing = doing(&unfinished);
        let stopped = loop {
            let next = tokio::select! {
                biased;
                // A result in hand beats whatever ends the turn.
                next = running.next() => next,
                stop = self.stopped() => break Some(stop),
                newest = progress.read() => {
                    for (id, progress) in newest {
                        self.emit(AgentEvent::ToolProgress { id, progress });
                    }
                    // Whoever reads the turn comes first, however fast a tool talks.
                    tokio::task::yield_now().await;
                    continue;
                }
            };
            let Some((id, result, elapsed)) = next else {
                break None;
            };
            let at = unfinished.iter().position(|(other, _)| *other == id);
            let name = at.map(|at| unfinished.remove(at).1).unwrap_or_default();
            self.doing = doing(&unfinished);
            if let Some(progress) = progress.end(&id) {
                let id = id.clone();
                self.emit(AgentEvent::ToolProgress { id, progress });
            }
            self.books.counts.tool_failures += u32::from(result.is_error);
            self.tell_result(id, name, result, elapsed).await?;
        };
        drop(running);
        self.books
            .add_tools(self.clock.elapsed().saturating_sub(began));
        let Some(stop) = stopped else {
            return Ok(());
        };
        for (id, name) in unfinished {
            let result = ToolResult::error(self.stopped_result(&stop));
            self.tell_result(id, name, result, Duration::ZERO).await?;
        }
        Err(stop)
    }

    fn stopped_result(&self, stop: &Stop) -> &'static str {
        match stop {
            Stop::OutOfTime(_) => {
                "This call was stopped while it ran, since the time allowed for the turn had run \
                 out. How far it got is unknown."
            }
            _ if self.cancel.is_abandoned() => {
                "This call was stopped while it ran, since nobody took the answer any more. How far \
                 it got is unknown."
            }
            _ => "This call was stopped on purpose while it ran. How far it got is unknown.",
        }
    }

    async fn tell_result(
        &mut self,
        id: String,
        name: String,
        result: ToolResult,
        elapsed: Duration,
    ) -> Result<(), Stop> {
        self.append(Entry::ToolEnded(Ran {
            id: id.clone(),
            text: result.text.clone(),
            is_error: result.is_error,
        }))
        .await?;
        self.emit(AgentEvent::ToolEnded {
            id,
            name,
            result,
            elapsed,
        });
        Ok(())
    }
}

async fn run(
    toolbox: Arc<dyn Toolbox>,
    call: tools::ToolCall,
    progress: ProgressSink,
) -> (String, ToolResult, Duration) {
    let clock = CallClock::start();
    let id = call.id.clone();
    let result = toolbox.call(call, progress).await;
    (id, result, clock.elapsed())
}

/// Returns the arguments of a call that may be run: whole ones, of a plain function.
fn arguments(call: &ToolCall) -> Option<Value> {
    if !call.complete || call.is_custom() {
        return None;
    }
    if call.arguments.trim().is_empty() {
        return Some(Value::Object(Map::new()));
    }
    serde_json::from_str(&call.arguments).ok()
}

fn knows(specs: &[ToolSpec], name: &str) -> bool {
    specs.iter().any(|spec| spec.name == name)
}

fn is_parallel(call: &ToolCall, specs: &[ToolSpec]) -> bool {
    specs
        .iter()
        .any(|spec| spec.name == call.name && spec.is_parallel)
}

/// Returns what a turn is doing that waits for these calls: their ids and tools.
fn doing(calls: &[(String, String)]) -> Doing {
    if calls.is_empty() {
        return Doing::Between;
    }
    Doing::Tools(calls.iter().map(|(_, name)| name.clone()).collect())
}
