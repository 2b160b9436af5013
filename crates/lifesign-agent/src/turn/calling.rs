//! One model call of a turn.

use std::sync::Arc;

use lifesign::{
    Answered, CallEvent, CallReport, CallRequest, Failed, FailureCode, Limit, Origin, Request,
    Setting, Settings, Tool, clock,
};

use super::doing::during_call;
use super::run::Run;
use crate::event::{AgentEvent, Purpose};
use crate::recovery::Seam;

/// A call that failed.
pub(super) struct CallFailed {
    pub(super) failed: Box<Failed>,
    /// Whether what ended it was the wall clock of the turn, and no limit of the call's own.
    pub(super) by_turn: bool,
}

impl Run<'_> {
    /// Makes a call, tells what happens in it, and enters what it took into the books.
    ///
    /// `seam` is where its text goes on from a partial.
    pub(super) async fn call(
        &mut self,
        purpose: Purpose,
        request: Request,
        mut settings: Settings,
        mut seam: Option<Seam>,
    ) -> Result<Answered, CallFailed> {
        let is_limited_by_turn = self.limit_to_turn(&mut settings);
        let mut request =
            CallRequest::new(Arc::clone(&self.agent.upstream), request).settings(settings);
        // What becomes of a summary says nothing of the turn, and nobody may let it take longer.
        if purpose != Purpose::Compaction {
            request = request.decide_by(Arc::new(self.below.clone()));
        }
        let mut stream = self.agent.client.stream(request);
        self.emit(AgentEvent::CallBegan {
            purpose,
            monitor: stream.monitor(),
        });
        let mut ended = loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    break Err(stream.cancel().unwrap_or_else(|| Box::new(Failed::cancelled())));
                }
                item = stream.next() => match item {
                    Some(Ok(CallEvent::Finished(answered))) => break Ok(*answered),
                    // Nobody who reads along is told what is only for the model.
                    Some(Ok(event)) if purpose == Purpose::Compaction && is_said(&event) => {}
                    Some(Ok(event)) => self.pass_on(event, seam.as_mut()),
                    Some(Err(failed)) => break Err(failed),
                    // A call says how it ends before it is over.
                    None => std::future::pending().await,
                },
            }
        };
        if let Some(rest) = seam.as_mut().and_then(Seam::finish) {
            self.emit(AgentEvent::Call(CallEvent::Text(rest)));
        }
        let mut by_turn = false;
        if let Err(failed) = &mut ended
            && failed.failure.code == FailureCode::WallClock
            && is_limited_by_turn
        {
            by_turn = true;
            let during = during_call(failed.failure.phase);
            self.blame_turn(&mut failed.failure, during);
        }
        let (attempts, elapsed, report) = match &ended {
            Ok(answered) => (&answered.attempts, answered.elapsed, answered.into()),
            Err(failed) => (
                &failed.attempts,
                failed.elapsed,
                CallReport::from(&**failed),
            ),
        };
        if purpose != Purpose::Compaction {
            let is_repeated = attempts.len() > 1 || self.is_resent;
            self.is_repeated = ended.is_err() && is_repeated;
        }
        self.books.add_call(attempts, elapsed);
        self.emit(AgentEvent::CallEnded {
            purpose,
            report: Box::new(report),
        });
        ended.map_err(|failed| CallFailed { failed, by_turn })
    }

    /// Tells of what happened in a call, and of text only what is new.
    fn pass_on(&self, event: CallEvent, seam: Option<&mut Seam>) {
        let event = match (event, seam) {
            (CallEvent::Text(text), Some(seam)) => match seam.push(text) {
                Some(text) => CallEvent::Text(text),
                None => return,
            },
            (event, _) => event,
        };
        // Where a setting lets a call wait for so long, it does not end to be scheduled.
        if let CallEvent::Holding { wait } | CallEvent::Retrying { wait, .. } = &event
            && let Some(until) = clock::timestamp_after(*wait)
        {
            self.alert_of(*wait, until);
        }
        self.emit(AgentEvent::Call(event));
    }

    /// Returns the request that the transcript makes.
    pub(super) fn request(&self) -> Request {
        let terms = &self.agent.terms;
        let mut request = Request::new(terms.model.as_str());
        request.system.clone_from(&terms.system);
        request.max_tokens = terms.max_tokens;
        request.extra.clone_from(&terms.extra);
        request.messages = self.agent.transcript.messages(self.agent.upstream.wire());
        let tools = self.agent.toolbox.iter().flat_map(|tools| tools.tools());
        request.tools = tools
            .map(|tool| Tool {
                name: tool.name,
                description: tool.description,
                parameters: tool.parameters,
            })
            .collect();
        request
    }

    /// Keeps a call within what is left of the turn, and returns whether that is what limits it.
    fn limit_to_turn(&self, settings: &mut Settings) -> bool {
        let Some(remaining) = self.remaining() else {
            return false;
        };
        let wall = &mut settings.bounds.wall_clock;
        if matches!(wall.value, Limit::After(limit) if limit <= remaining) {
            return false;
        }
        *wall = Setting {
            value: Limit::After(remaining),
            origin: Origin::Call,
        };
        true
    }
}

/// Returns whether it is something that the model says.
const fn is_said(event: &CallEvent) -> bool {
    matches!(
        event,
        CallEvent::Reasoning(_) | CallEvent::Text(_) | CallEvent::ToolCall(_)
    )
}
