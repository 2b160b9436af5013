//! A conversation on a terminal: what a person says, the turn that answers it, and so on.
//!
//! Lines are read and turns are shown in turns: the terminal is never in the hands of both.

mod command;
mod history;
mod prompt;
mod status;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use lifesign::{FailureCode, clock};
use lifesign_agent::tools::Toolbox;
use lifesign_agent::{Agent, Standing, Turn, TurnReport};

use self::command::Command;
pub(super) use self::history::usual_file;
use self::prompt::{HOW_TO_LEAVE, Prompt, Read};
use super::early::{Early, waits};
use super::show::show;
use crate::interrupts::{Interrupts, Wish};
use crate::output::{UNWRITTEN, note, plain, print_line};

/// What a conversation is had with beside the agent.
pub(super) struct Equipment {
    /// Whom the agent asks.
    pub(super) asked: String,
    /// Where the conversation is kept, if it is.
    pub(super) transcript: Option<PathBuf>,
    /// The tools that the model may call.
    pub(super) toolbox: Arc<dyn Toolbox>,
    /// Where what the person says is kept for the next time, if anywhere.
    pub(super) history: Option<PathBuf>,
}

/// Has a conversation until the person leaves; returns the exit code that says how.
pub(super) async fn talk(
    agent: &mut Agent,
    equipment: Equipment,
    interrupts: &mut Interrupts,
) -> anyhow::Result<ExitCode> {
    let mut prompt = Prompt::open(equipment.history)?;
    let mut last: Option<Box<TurnReport>> = None;
    let turns = agent.transcript().standing().turns;
    note(&plain(&beginning(
        &equipment.asked,
        equipment.transcript.as_deref(),
        turns,
    )));
    note("/help says what there is beside talking; Ctrl-D leaves.");
    offer_to_go_on(agent);
    loop {
        let text = match prompt.read(interrupts).await? {
            Read::Text(text) => text,
            Read::Interrupted => {
                note(HOW_TO_LEAVE);
                continue;
            }
            Read::Unreadable => {
                note("That is no text in UTF-8. Nothing of it was sent.");
                continue;
            }
            Read::Left => return Ok(ExitCode::SUCCESS),
        };
        let turn = match Command::parse(&text) {
            None if text.trim().is_empty() => continue,
            None => agent.turn(text),
            Some(Ok(Command::Resume)) => {
                if Early::find(agent.transcript()).is_some() {
                    offer_to_go_on(agent);
                    continue;
                }
                if let Some(turn) = agent.resume() {
                    turn
                } else {
                    note("No turn is open: there is nothing to go on with.");
                    continue;
                }
            }
            Some(Ok(Command::Quit)) => return Ok(ExitCode::SUCCESS),
            Some(Ok(Command::Help)) => {
                print_line(&command::help())?;
                continue;
            }
            Some(Ok(Command::Status)) => {
                let status = last.as_deref().map(status::of);
                print_line(&status.unwrap_or_else(|| "no turn has ended yet".to_owned()))?;
                continue;
            }
            Some(Ok(Command::Tools)) => {
                print_line(&tools(&*equipment.toolbox))?;
                continue;
            }
            Some(Err(unknown)) => {
                note(&unknown);
                continue;
            }
        };
        match have(turn, interrupts).await? {
            Had::Left(code) => return Ok(code),
            Had::Ended(report) => last = Some(report),
        }
        offer_to_go_on(agent);
    }
}

/// Returns the first line: whom the talk is with, where it is kept, and how far it is.
fn beginning(asked: &str, transcript: Option<&Path>, turns: u32) -> String {
    let kept = match transcript {
        Some(path) => format!("kept in {}", path.display()),
        None => "not kept (--transcript FILE keeps it)".to_owned(),
    };
    match turns {
        0 => format!("{asked}; {kept}"),
        1 => format!("{asked}; {kept}, 1 turn so far"),
        turns => format!("{asked}; {kept}, {turns} turns so far"),
    }
}

/// What became of a turn.
enum Had {
    Ended(Box<TurnReport>),
    /// The person, or the system, wants no other.
    Left(ExitCode),
}

async fn have(turn: Turn<'_>, interrupts: &mut Interrupts) -> anyhow::Result<Had> {
    let shown = show(turn, interrupts).await?;
    if !shown.is_written {
        return Ok(Had::Left(ExitCode::from(UNWRITTEN)));
    }
    Ok(match (shown.report, shown.wish) {
        (Some(report), None | Some(Wish::Interrupt)) => Had::Ended(Box::new(report)),
        (Some(report), Some(Wish::Terminate)) => Had::Left(ExitCode::from(report.exit_code())),
        (None, _) => Had::Left(ExitCode::from(FailureCode::Cancelled.exit_code())),
    })
}

/// Returns the tools and what each does, a line each.
fn tools(toolbox: &dyn Toolbox) -> String {
    let tools = toolbox.tools();
    if tools.is_empty() {
        return "the model has no tools".to_owned();
    }
    let lines = tools.iter().map(|tool| {
        let what = tool.description.as_deref().unwrap_or_default();
        let first = what.lines().next().unwrap_or_default();
        plain(format!("{}  {first}", tool.name).trim_end())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Says so where there is a turn that can be gone on with.
fn offer_to_go_on(agent: &Agent) {
    if let Some(offer) = offer(&agent.transcript().standing(), clock::timestamp()) {
        note(&offer);
    }
}

/// Returns what is said of a turn that can be gone on with.
fn offer(standing: &Standing, now: Timestamp) -> Option<String> {
    match standing.wake_at {
        _ if standing.is_open => Some(
            "The last turn did not end. /resume goes on with it; whatever else you say begins \
             another."
                .to_owned(),
        ),
        Some(at) if at <= now => Some(
            "The limit that the last turn waited for has been reset: /resume goes on with it."
                .to_owned(),
        ),
        Some(at) => Some(format!(
            "The last turn {}; /resume goes on with it then.",
            waits(at)
        )),
        None => None,
    }
}

#[cfg(test)]
mod tests;
