//! `lifesign run`: turns of an agent, on a terminal or unattended.

mod conversation;
mod early;
mod ending;
mod flags;
mod setup;
mod show;
mod supplies;
mod talk;

use std::process::ExitCode;

use anyhow::Context as _;
use lifesign_agent::{Agent, Turn, TurnReport};

use self::conversation::{Beginning, Wanted};
pub(crate) use self::ending::print_refused;
use self::setup::{Ready, Setup};
use self::talk::Equipment;
use crate::args::RunArgs;
use crate::interrupts::Interrupts;

pub(crate) async fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let mut interrupts = Interrupts::listen().context("signals cannot be received")?;
    let json = args.json;
    let ready = match prepare(args, &mut interrupts).await {
        Ok(Prepared::Ready(ready)) => *ready,
        Ok(Prepared::Unbegun(report)) => return ending::conclude_unbegun(&report, json),
        Err(error) => return ending::refuse(error, None, json),
    };
    let Ready {
        mut agent,
        wanted,
        asked,
        transcript,
        stock,
        journal,
        log: _log,
    } = ready;
    let code = match wanted {
        Wanted::Talk { history } => {
            let equipment = Equipment {
                asked,
                transcript: transcript.clone(),
                toolbox: stock.tools(),
                history,
            };
            talk::talk(&mut agent, equipment, &mut interrupts).await
        }
        Wanted::Turn(beginning) => {
            let ended = match begin(&mut agent, beginning) {
                Ok(turn) if json => ending::unseen(turn, &mut interrupts).await,
                Ok(turn) => ending::seen(turn, &mut interrupts).await,
                Err(error) => Err(error),
            };
            match ended {
                Ok(ended) => ending::conclude(ended, &agent, json, transcript.as_deref()),
                Err(error) => ending::refuse(error, Some(agent.transcript()), json),
            }
        }
    };
    stock.close(&mut interrupts).await;
    if let Some(journal) = journal {
        journal.close(&mut interrupts).await;
    }
    code
}

/// What became of the preparations.
enum Prepared {
    Ready(Box<Ready>),
    /// Somebody did not wait for them, or they took all the time that the turn has.
    Unbegun(Box<TurnReport>),
}

/// Checks everything and starts what the turn needs.
async fn prepare(args: RunArgs, interrupts: &mut Interrupts) -> anyhow::Result<Prepared> {
    // Standard input, or a file on a slow disk, may keep us waiting; Ctrl-C must not.
    let preparing = tokio::task::spawn_blocking(move || Setup::prepare(&args));
    let setup = tokio::select! {
        biased;
        () = interrupts.next() => return Ok(Prepared::Unbegun(Box::new(ending::cancelled()))),
        prepared = preparing => prepared.context("the turn was not prepared")??,
    };
    let wall_clock = setup.wall_clock();
    let out_of_time = async {
        match wall_clock {
            Some(limit) => {
                tokio::time::sleep(limit).await;
                ending::out_of_time(limit)
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = interrupts.next() => Ok(Prepared::Unbegun(Box::new(ending::cancelled()))),
        ready = setup.start() => ready.map(|ready| Prepared::Ready(Box::new(ready))),
        report = out_of_time => Ok(Prepared::Unbegun(Box::new(report))),
    }
}

fn begin(agent: &mut Agent, beginning: Beginning) -> anyhow::Result<Turn<'_>> {
    match beginning {
        Beginning::Say(text) => Ok(agent.turn(text)),
        Beginning::Resume { .. } => agent.resume().context("there is no turn to go on with"),
    }
}
