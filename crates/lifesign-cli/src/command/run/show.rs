//! One turn while it runs: its answer on standard output, everything else on standard error.

mod lines;
mod now;
mod paper;

use std::time::Duration;

use anyhow::Context as _;
use lifesign::CallEvent;
use lifesign_agent::{AgentEvent, NudgeRule, Turn, TurnReport};
use tokio::time::MissedTickBehavior;

use self::now::Now;
use self::paper::Paper;
use crate::interrupts::{Interrupts, Wish};

/// A turn that was shown.
#[derive(Debug)]
pub(super) struct Shown {
    /// How it ended; `None` where somebody did not even wait for it to stop, so that the transcript
    /// holds it without an end.
    pub(super) report: Option<TurnReport>,
    /// What ended it, if somebody wanted that.
    pub(super) wish: Option<Wish>,
    /// Whether standard output has taken all of the answer.
    pub(super) is_written: bool,
}

/// Shows `turn` until it has ended, and stops it where somebody wants that or nobody reads any more.
///
/// The second who does not want to wait need not: the turn is dropped then.
///
/// # Errors
///
/// Fails where the transcript cannot be written.
pub(super) async fn show(mut turn: Turn<'_>, interrupts: &mut Interrupts) -> anyhow::Result<Shown> {
    let mut paper = Paper::new();
    let mut wish = None;
    let ended = follow(&mut turn, &mut paper, &mut wish, interrupts).await;
    drop(turn);
    if let Ok(Some(report)) = &ended {
        paper.end_paragraph();
        for line in lines::of_end(report) {
            paper.line(&line);
        }
    }
    let is_written = paper.finish(&mut wish, interrupts).await;
    Ok(Shown {
        report: ended?,
        wish,
        is_written,
    })
}

async fn follow(
    turn: &mut Turn<'_>,
    paper: &mut Paper,
    wish: &mut Option<Wish>,
    interrupts: &mut Interrupts,
) -> anyhow::Result<Option<TurnReport>> {
    let cancel = turn.canceller();
    let mut now = Now::start();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let event = tokio::select! {
            biased;
            next = interrupts.next_wish() => {
                if wish.replace(next).is_some() {
                    return Ok(None);
                }
                cancel.cancel();
                now.stop();
                continue;
            }
            event = turn.next() => event.context("the turn ended without saying how")??,
            _ = ticks.tick(), if paper.is_live() => {
                paper.draw(now.status());
                continue;
            }
        };
        if let AgentEvent::Ended(report) = event {
            return Ok(Some(*report));
        }
        if !tell(&event, paper) {
            // Nobody reads on, as after `| head`: what comes now would be paid for nobody.
            cancel.abandon();
        }
        let is_frequent = matches!(event, AgentEvent::Call(_) | AgentEvent::ToolProgress { .. });
        now.handle(event);
        if !is_frequent {
            paper.draw(now.status());
        }
    }
}

/// Tells what happened; returns whether somebody still reads.
fn tell(event: &AgentEvent, paper: &mut Paper) -> bool {
    if let AgentEvent::Call(CallEvent::Text(text)) = event {
        return paper.answer(text);
    }
    // What goes on where an answer stopped goes on in the same row.
    let ends_paragraph = match event {
        AgentEvent::ToolBegan { .. } | AgentEvent::ToolEnded { .. } => true,
        AgentEvent::Nudged { rule, .. } => *rule != NudgeRule::Length,
        _ => false,
    };
    if ends_paragraph {
        paper.end_paragraph();
    }
    if let Some(line) = lines::of(event) {
        paper.line(&line);
    }
    true
}

/// How often the status line is written over.
const TICK: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
