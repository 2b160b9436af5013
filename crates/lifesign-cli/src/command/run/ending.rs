//! How one turn ends that nobody talks back to: the JSON object or the last words, and the exit code.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use lifesign::{BoundName, Failure, FailureCode, Phase};
use lifesign_agent::tools::mcp::McpStartError;
use lifesign_agent::{Agent, Transcript, Turn, TurnOutcome, TurnReport};
use lifesign_core::{Origin, SettingError};

use super::early::Early;
use super::setup::NAMES;
use super::show::{self, Shown};
use crate::interrupts::Interrupts;
use crate::output::{UNWRITTEN, Unwritten, complain, note, one_line, print_line, second};

/// A turn that is over.
pub(super) struct Ended {
    /// How it ended; `None` where somebody did not even wait for it to stop.
    report: Option<TurnReport>,
    /// Whether standard output took all of the answer.
    is_written: bool,
}

/// Shows a turn to its end.
pub(super) async fn seen(turn: Turn<'_>, interrupts: &mut Interrupts) -> anyhow::Result<Ended> {
    let Shown {
        report, is_written, ..
    } = show::show(turn, interrupts).await?;
    Ok(Ended { report, is_written })
}

/// Reads a turn to its end and shows nothing of it.
pub(super) async fn unseen(turn: Turn<'_>, interrupts: &mut Interrupts) -> anyhow::Result<Ended> {
    let cancel = turn.canceller();
    let report = turn.report();
    tokio::pin!(report);
    loop {
        tokio::select! {
            biased;
            () = interrupts.next() => {
                if cancel.is_cancelled() {
                    return Ok(Ended { report: None, is_written: true });
                }
                cancel.cancel();
            }
            report = &mut report => {
                return Ok(Ended { report: Some(report?), is_written: true });
            }
        }
    }
}

/// Says how the turn ended, as far as that is not said yet, and returns the exit code.
pub(super) fn conclude(
    ended: Ended,
    agent: &Agent,
    json: bool,
    transcript: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let Ended { report, is_written } = ended;
    let Some(report) = report else {
        let failure = Failure::new(FailureCode::Cancelled, Phase::Queued);
        return conclude_unbegun(&of(agent.transcript(), &failure), json);
    };
    if json {
        print(&report)?;
    } else {
        say_when_to_go_on(&report, transcript);
    }
    Ok(ExitCode::from(if is_written {
        report.exit_code()
    } else {
        UNWRITTEN
    }))
}

/// Returns the result of a turn that somebody stopped before it began.
pub(super) fn cancelled() -> TurnReport {
    TurnReport::unbegun(&Failure::new(FailureCode::Cancelled, Phase::Queued))
}

/// Returns the result of a turn whose wall clock ran out while its tool servers were starting.
pub(super) fn out_of_time(limit: Duration) -> TurnReport {
    let mut failure = Failure::new(FailureCode::WallClock, Phase::Queued);
    failure.bound = Some(BoundName::WallClock);
    failure.origin = Some(Origin::Call);
    failure.limit = Some(limit);
    failure.named_setting = Some(NAMES.wall_clock.to_owned());
    failure.detail =
        Some("the time for the turn ran out while its tool servers were starting".to_owned());
    TurnReport {
        outcome: TurnOutcome::WallTimeout,
        ..TurnReport::unbegun(&failure)
    }
}

/// Says that a turn did not begin, or that nobody knows how it ended.
pub(super) fn conclude_unbegun(report: &TurnReport, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        print(report)?;
    } else if let Some(sentence) = &report.sentence {
        note(&format!("{}: {sentence}", report.outcome.name()));
    }
    Ok(ExitCode::from(report.exit_code()))
}

/// Says why nothing could be begun, or no more of `transcript` be written.
pub(super) fn refuse(
    error: anyhow::Error,
    transcript: Option<&Transcript>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    if let Some(early) = error.downcast_ref::<Early>() {
        if json {
            print(early.report())?;
        } else {
            note(&early.to_string());
        }
        return Ok(ExitCode::from(early.report().exit_code()));
    }
    if !json || error.is::<Unwritten>() {
        return Err(error);
    }
    let mut failure = refusal(one_line(&error));
    // A program can tell by it what it has to do, such as nothing where no turn is open.
    let setting = error.chain().find_map(|cause| cause.downcast_ref());
    if let Some(SettingError { field, hint, .. }) = setting {
        failure.named_setting = Some(field.to_string()).filter(|field| !field.is_empty());
        failure.advice = hint.as_deref().map(str::to_owned);
    }
    let start = error.chain().find_map(|cause| cause.downcast_ref());
    if let Some(McpStartError { server, .. }) = start {
        failure.advice = Some(format!("see that tool server {server} starts by hand"));
    }
    let mut report = match transcript {
        Some(transcript) => of(transcript, &failure),
        None => TurnReport::unbegun(&failure),
    };
    if start.is_some()
        && let Some(failure) = &mut report.failure
    {
        NO_SERVER.clone_into(&mut failure.sentence);
        report.sentence = Some(failure.sentence.clone());
    }
    print(&report)?;
    Ok(complain(&error))
}

/// Prints the object of a command line that cannot be read.
pub(crate) fn print_refused(why: String) -> anyhow::Result<()> {
    print(&TurnReport::unbegun(&refusal(why)))
}

fn refusal(why: String) -> Failure {
    let mut failure = Failure::new(FailureCode::RefusedSetting, Phase::Queued);
    failure.detail = Some(why);
    failure
}

/// Returns the result of a turn of `transcript` of which nothing is known but `failure`.
fn of(transcript: &Transcript, failure: &Failure) -> TurnReport {
    let unbegun = TurnReport {
        id: transcript.id().to_owned(),
        ..TurnReport::unbegun(failure)
    };
    let standing = transcript.standing();
    // One that is over is the turn before, and its reply is not the reply to this one.
    if !standing.is_open {
        return unbegun;
    }
    TurnReport {
        turn: standing.turns,
        text: transcript.reply(),
        ..unbegun
    }
}

fn print(report: &TurnReport) -> anyhow::Result<()> {
    let text = serde_json::to_string(report).context("the result cannot be written")?;
    Ok(print_line(&text)?)
}

/// Says from when on the turn can be gone on with, where its provider has said that.
fn say_when_to_go_on(report: &TurnReport, transcript: Option<&Path>) {
    let Some(at) = report.wake_at else { return };
    let at = second(at);
    note(&match transcript {
        Some(path) => format!(
            "  from {at} on, --transcript {} --resume goes on with it",
            path.display()
        ),
        None => format!(
            "  asking again is of use from {at} on; kept with --transcript, --resume would go on with it"
        ),
    });
}

/// What the person who waits is told where a tool server does not start.
const NO_SERVER: &str = "A tool server did not start, so nothing was asked.";
