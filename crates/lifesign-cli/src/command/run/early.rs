//! A turn that waits for a limit, and that somebody wants to go on with before it is reset.

use std::fmt;

use jiff::Timestamp;
use lifesign::{Failure, FailureCode, FailureReport, Phase, clock};
use lifesign_agent::{Transcript, TurnReport};

use crate::output::second;

/// It is too early to go on with a turn: nobody is asked, and nothing is written down.
#[derive(Debug)]
pub(super) struct Early {
    /// When it is of use.
    at: Timestamp,
    report: Box<TurnReport>,
}

impl Early {
    /// Finds it in a conversation whose last turn waits; `None` where it may be gone on with.
    pub(super) fn find(transcript: &Transcript) -> Option<Self> {
        let standing = transcript.standing();
        let at = standing.wake_at.filter(|at| *at > clock::timestamp())?;
        let mut failure = Failure::new(FailureCode::Exhausted, Phase::Queued);
        failure.resets_at = Some(at);
        failure.named_setting = Some(NOW.to_owned());
        failure.detail = Some(format!("the last turn {}", waits(at)));
        failure.advice = Some(format!("go on then, or give {NOW} to ask all the same"));
        // What limits it, quota or rate, the transcript does not say.
        let failure = FailureReport {
            sentence: format!("The last turn {}.", waits(at)),
            ..FailureReport::from(&failure)
        };
        let report = TurnReport {
            id: transcript.id().to_owned(),
            turn: standing.turns,
            sentence: Some(failure.sentence.clone()),
            failure: Some(failure),
            note: standing.note,
            text: transcript.reply(),
            wake_at: Some(at),
            ..TurnReport::unbegun(&Failure::new(FailureCode::Exhausted, Phase::Queued))
        };
        Some(Self {
            at,
            report: Box::new(report),
        })
    }

    /// Returns what is told of it where results are objects.
    pub(super) const fn report(&self) -> &TurnReport {
        &self.report
    }
}

impl fmt::Display for Early {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the last turn {}: --resume goes on with it then, and with {NOW} all the same",
            waits(self.at)
        )
    }
}

impl std::error::Error for Early {}

/// Returns what is said of a turn that waits until `at`.
pub(super) fn waits(at: Timestamp) -> String {
    format!("waits for a limit that is reset at {}", second(at))
}

/// The flag that does not wait.
const NOW: &str = "--now";
