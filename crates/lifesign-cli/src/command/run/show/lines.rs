//! The lines about a turn: what a person should know of what happens in it.

use std::time::Duration;

use lifesign::{Failure, FailureCode, quote};
use lifesign_agent::tools::ToolResult;
use lifesign_agent::{AgentEvent, Alert, Means, NudgeRule, TurnOutcome, TurnReport};
use lifesign_core::duration::human_measured;

use crate::output::second;
use crate::told;

/// Returns what is told of `event`.
pub(super) fn of(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::Noted { note } => format!("the model is told: {note}"),
        AgentEvent::Call(event) => return told::sentence(event),
        // Who has stopped the turn knows why, and reads the end of it next.
        AgentEvent::BrokeOff { failure, .. } if failure.code == FailureCode::Cancelled => {
            return None;
        }
        AgentEvent::BrokeOff {
            failure,
            text_bytes,
        } => format!(
            "the answer broke off after {text_bytes} bytes of text: {}",
            seen(failure)
        ),
        AgentEvent::Recovering {
            recovery,
            of,
            means,
        } => format!("{}, recovery {recovery} of {of}", going_on(*means)),
        AgentEvent::Recovered { overlap: 0 } => "the answer that broke off is whole".to_owned(),
        AgentEvent::Recovered { overlap } => {
            format!(
                "the answer that broke off is whole; {overlap} bytes came twice and are left out"
            )
        }
        AgentEvent::Resending {
            failure,
            resend,
            wait,
        } => format!(
            "{}; the turn is sent again in {}, for time {resend}",
            failure.message(),
            human_measured(*wait)
        ),
        AgentEvent::Alert(Alert::LongWait { wait, until }) => format!(
            "alert: the provider asks for a wait of {}, until {}",
            human_measured(*wait),
            second(*until)
        ),
        AgentEvent::ToolBegan { call } => {
            format!("tool {}: {}", call.name, quote(&call.arguments, TEXT_CHARS))
        }
        AgentEvent::ToolEnded {
            name,
            result,
            elapsed,
            ..
        } => of_result(name, result, *elapsed),
        AgentEvent::Nudged { rule, nudge, of } => {
            format!("{}, reminder {nudge} of {of}", left_undone(*rule))
        }
        AgentEvent::Compacted { entries } => {
            format!("a summary stands in for the oldest {entries} entries of the conversation")
        }
        AgentEvent::Elided { failure, results } => format!(
            "no summary could be made ({}); {}",
            failure.message(),
            match results {
                0 => "there is no tool result to leave out".to_owned(),
                1 => "the oldest tool result is left out".to_owned(),
                results => format!("the oldest {results} tool results are left out"),
            }
        ),
        _ => return None,
    })
}

/// Returns what is told of the end of a turn that the model has not answered.
pub(super) fn of_end(report: &TurnReport) -> Vec<String> {
    let Some(sentence) = &report.sentence else {
        return Vec::new();
    };
    let outcome = report.outcome.name();
    match &report.failure {
        // Whoever has stopped it knows what was seen.
        Some(failure) if report.outcome != TurnOutcome::Cancelled => {
            told::explanation(outcome, sentence, &failure.message, failure.hint.as_deref())
        }
        _ => vec![format!("{outcome}: {sentence}")],
    }
}

/// Returns what was seen of a failure. That no attempt followed is left out: what follows is told next.
fn seen(failure: &Failure) -> String {
    let mut seen = failure.clone();
    seen.give_up = None;
    seen.message()
}

fn of_result(name: &str, result: &ToolResult, elapsed: Duration) -> String {
    let name = quote(name, NAME_CHARS);
    let took = human_measured(elapsed);
    let how = match (result.is_error, elapsed.is_zero()) {
        (true, true) => "failed".to_owned(),
        (true, false) => format!("failed after {took}"),
        (false, _) => format!("ended after {took}"),
    };
    match quote(&result.text, TEXT_CHARS) {
        text if text.is_empty() => format!("tool {name} {how}"),
        text => format!("tool {name} {how}: {text}"),
    }
}

const fn going_on(means: Means) -> &'static str {
    match means {
        Means::Again => "asking again, since nothing that came can be gone on with",
        Means::Prefill => "going on from the last word that came",
        Means::Request => "asking the model to go on",
    }
}

const fn left_undone(rule: NudgeRule) -> &'static str {
    match rule {
        NudgeRule::Empty => "the answer was empty",
        NudgeRule::Length => "the answer was cut at its length limit",
        NudgeRule::NoReply => "the model thought and said nothing",
        NudgeRule::EarlyStop => "the model announced a step and did not take it",
        NudgeRule::Pinned => "the model is reminded of what is pinned",
    }
}

const NAME_CHARS: usize = 64;

/// The most of a tool's arguments or result that a line shows.
const TEXT_CHARS: usize = 160;
