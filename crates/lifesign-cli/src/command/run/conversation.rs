//! What a turn begins with, and the conversation that it belongs to.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

use lifesign::quote;
use lifesign_agent::tools::ToolSpec;
use lifesign_agent::{Entry, Transcript, TranscriptError};
use lifesign_core::{SettingError, Value};

use super::early::Early;
use super::talk;
use crate::args::RunArgs;
use crate::command::prompt;
use crate::output::{note, plain};

/// What is wanted of a conversation.
#[derive(Debug)]
pub(super) enum Wanted {
    /// One turn.
    Turn(Beginning),
    /// As many as a person likes, on a terminal.
    Talk {
        /// The file for what the person says, if it is kept.
        history: Option<PathBuf>,
    },
}

impl Wanted {
    /// Finds it in the arguments, and reads what the turn begins with from wherever they say.
    pub(super) fn read(args: &RunArgs) -> anyhow::Result<Self> {
        let is_said = args.prompt.is_some() || args.task.is_some() || args.resume;
        let is_for_a_program =
            args.json || !io::stdin().is_terminal() || !io::stdout().is_terminal();
        if is_said || is_for_a_program {
            return Beginning::read(args).map(Self::Turn);
        }
        Ok(Self::Talk {
            history: match &args.history {
                Some(path) if path.as_os_str() == "off" => None,
                Some(path) => Some(path.clone()),
                None => talk::usual_file(),
            },
        })
    }
}

/// What a turn begins with.
#[derive(Debug)]
pub(super) enum Beginning {
    /// Somebody says this.
    Say(String),
    /// The transcript holds the beginning.
    Resume {
        /// Whether a limit is not waited for.
        now: bool,
    },
}

impl Beginning {
    /// Reads it from wherever the arguments say.
    fn read(args: &RunArgs) -> anyhow::Result<Self> {
        if args.resume {
            return Ok(Self::Resume { now: args.now });
        }
        let text = match (&args.prompt, &args.task) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) if path.as_os_str() != "-" => prompt::of_file("--task", path)?,
            (None, _) => {
                let text = prompt::of_standard_input()?;
                if text.trim().is_empty() {
                    return Err(SettingError::new("standard input", "is empty")
                        .with_accepted("some text")
                        .with_hint("give --prompt or --task")
                        .into());
                }
                text
            }
        };
        prompt::check(&text)?;
        Ok(Self::Say(text))
    }
}

/// Opens the conversation in `path`, a new one where there is no file; in memory alone without a path.
pub(super) fn open(path: Option<&Path>, wanted: &Wanted) -> anyhow::Result<Transcript> {
    let Some(path) = path else {
        return Ok(Transcript::in_memory());
    };
    // A device may be read without end, and a pipe may keep us waiting.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(SettingError::new("--transcript", "is no file")
            .with_value(&Value::Text(&path.display().to_string()))
            .with_accepted("the path of a transcript, or of a file that is not there yet")
            .into());
    }
    let may_be_new = !matches!(wanted, Wanted::Turn(Beginning::Resume { .. }));
    let transcript = match Transcript::open(path) {
        Ok((transcript, repair)) => {
            if let Some(repair) = repair {
                note(&format!(
                    "note: {} bytes of a torn line are taken off the end of {}: its program died \
                     while it wrote",
                    repair.bytes,
                    path.display()
                ));
            }
            transcript
        }
        Err(error) if may_be_new && is_missing(&error) => {
            Transcript::create(path).map_err(refused)?
        }
        Err(error) => return Err(refused(error)),
    };
    if let Wanted::Turn(beginning) = wanted {
        check(&transcript, path, beginning)?;
    }
    Ok(transcript)
}

/// Says so where the turn that is gone on with called tools that are not given this time.
pub(super) fn miss_tools(transcript: &Transcript, wanted: &Wanted, given: &[ToolSpec]) {
    if !matches!(wanted, Wanted::Turn(Beginning::Resume { .. })) {
        return;
    }
    let entries = transcript.entries().iter().rev();
    let of_turn = entries.take_while(|entry| !matches!(entry, Entry::User { .. }));
    let called = of_turn.filter_map(|entry| match entry {
        Entry::Answer(said) => Some(&said.tool_calls),
        _ => None,
    });
    let missing: BTreeSet<_> = called
        .flatten()
        .map(|call| plain(&quote(&call.name, NAME_CHARS)))
        .filter(|name| !given.iter().any(|tool| tool.name == *name))
        .collect();
    if !missing.is_empty() {
        let missing: Vec<_> = missing.into_iter().collect();
        note(&format!(
            "note: the turn called tools that are not given now: {}; --tools and --mcp give them as \
             before",
            missing.join(", ")
        ));
    }
}

/// Refuses to go on with a turn that is over, or that waits; says so where one is given up.
fn check(transcript: &Transcript, path: &Path, beginning: &Beginning) -> anyhow::Result<()> {
    let standing = transcript.standing();
    match beginning {
        Beginning::Say(_) if standing.is_open => note(&format!(
            "note: turn {} in {} did not end and is given up; --resume instead of a prompt would \
             have gone on with it",
            standing.turns,
            path.display()
        )),
        Beginning::Say(_) => {}
        Beginning::Resume { .. } if standing.is_open => {}
        Beginning::Resume { now } if standing.wake_at.is_some() => {
            if let Some(early) = Early::find(transcript).filter(|_| !now) {
                return Err(early.into());
            }
        }
        Beginning::Resume { .. } => {
            let problem = match how_it_ended(transcript) {
                Some(how) => format!("the last turn of {} is over: {how}", path.display()),
                None => format!("no turn has begun in {}", path.display()),
            };
            return Err(SettingError::new("--resume", problem)
                .with_accepted("a transcript whose last turn did not end or waits for a limit")
                .with_hint("give a prompt instead to begin the next turn")
                .into());
        }
    }
    Ok(())
}

fn how_it_ended(transcript: &Transcript) -> Option<&'static str> {
    transcript
        .entries()
        .iter()
        .rev()
        .find_map(|entry| match entry {
            Entry::Ended(ended) => Some(ended.outcome.name()),
            _ => None,
        })
}

fn is_missing(error: &TranscriptError) -> bool {
    matches!(error, TranscriptError::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

fn refused(error: TranscriptError) -> anyhow::Error {
    anyhow::Error::new(error).context("--transcript")
}

/// The most of a tool's name that is told.
const NAME_CHARS: usize = 64;
