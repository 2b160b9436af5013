//! How a turn ended, and what it took: counts and times, each kind apart.

use std::time::Duration;

use jiff::Timestamp;
use lifesign::{AttemptRecord, Failure, FailureCode, FailureReport, Usage};
use lifesign_core::duration::whole_millis;
use serde::{Deserialize, Serialize};

/// In one word, how a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The person asked for it to stop.
    Cancelled,
    /// The model has answered.
    Completed,
    /// The model ended without a word of an answer, or called tools until it might not any more. Never
    /// the provider's doing.
    NoReply,
    /// A call failed, and no means were left; or the provider held the whole answer back.
    ProviderFailed,
    /// The answer began and did not end.
    Truncated,
    /// The turn's own wall clock ran out.
    WallTimeout,
}

impl TurnOutcome {
    /// Every outcome.
    pub const ALL: [Self; 6] = [
        Self::Cancelled,
        Self::Completed,
        Self::NoReply,
        Self::ProviderFailed,
        Self::Truncated,
        Self::WallTimeout,
    ];

    /// Returns the name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Completed => "completed",
            Self::NoReply => "no_reply",
            Self::ProviderFailed => "provider_failed",
            Self::Truncated => "truncated",
            Self::WallTimeout => "wall_timeout",
        }
    }

    /// Returns how a turn ended whose last call failed so; a wall clock is the call's own here.
    pub(crate) fn of(failure: &Failure) -> Self {
        match failure.code {
            FailureCode::Cancelled => Self::Cancelled,
            FailureCode::Truncated => Self::Truncated,
            FailureCode::ConnectionLost if failure.partial => Self::Truncated,
            _ => Self::ProviderFailed,
        }
    }
}

/// The result of a turn as one JSON object, version 1.
///
/// The fields are described in `docs/reference/run-json.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnReport {
    /// The version of this object's shape: 1.
    #[cfg_attr(feature = "schema", schemars(extend("const" = Self::VERSION)))]
    pub v: u32,
    /// The conversation's id.
    pub id: String,
    /// The turn, counted from 1.
    pub turn: u32,
    /// In one word, how it ended.
    pub outcome: TurnOutcome,
    /// What ended it, where that is a failure.
    pub failure: Option<FailureReport>,
    /// One sentence for the person who waits; null where the answer is there.
    pub sentence: Option<String>,
    /// What the next turn begins with, for the model to read.
    pub note: Option<String>,
    /// The answer's text, or as much of it as came.
    pub text: String,
    /// Why the last answer ended, as the provider wrote it.
    pub finish_reason: Option<String>,
    /// When the turn is to be gone on with, after a limit that resets then.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub wake_at: Option<Timestamp>,
    /// What was done how often.
    pub counts: Counts,
    /// Where the time went.
    pub times_ms: Times,
    /// Tokens of every attempt together; null where one of them is unknown.
    pub usage: Option<Usage>,
}

impl TurnReport {
    /// The version of the object's shape.
    pub const VERSION: u32 = 1;

    /// Returns the result of a turn that `failure` kept from beginning: it has no conversation, and is
    /// turn 0.
    pub fn unbegun(failure: &Failure) -> Self {
        Self {
            v: Self::VERSION,
            id: String::new(),
            turn: 0,
            outcome: TurnOutcome::of(failure),
            failure: Some(FailureReport::from(failure)),
            sentence: Some(failure.sentence()),
            note: None,
            text: String::new(),
            finish_reason: None,
            wake_at: None,
            counts: Counts::default(),
            times_ms: Times::default(),
            usage: None,
        }
    }

    /// Returns the exit code of a program whose turn ended so: that of its failure, as for a call.
    pub fn exit_code(&self) -> u8 {
        match (&self.failure, self.outcome) {
            (Some(failure), _) => failure.code.exit_code(),
            (None, TurnOutcome::Completed) => 0,
            (None, TurnOutcome::NoReply) => NO_REPLY,
            (None, TurnOutcome::Truncated) => FailureCode::Truncated.exit_code(),
            (None, TurnOutcome::Cancelled) => FailureCode::Cancelled.exit_code(),
            (None, TurnOutcome::WallTimeout) => FailureCode::WallClock.exit_code(),
            (None, TurnOutcome::ProviderFailed) => FailureCode::ProviderError.exit_code(),
        }
    }
}

/// What was done how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Exchanges with the person.
    pub turns: u32,
    /// Answers of the model that were whole, those that only call tools included.
    pub rounds: u32,
    /// Model calls, those for recoveries and summaries included.
    pub calls: u32,
    /// HTTP requests.
    pub attempts: u32,
    /// Heartbeats of providers and proxies.
    pub heartbeats: u64,
    /// Notices that the content was quiet.
    pub notices: u32,
    /// Reminders to the model.
    pub nudges: u32,
    /// Calls that went on from a partial.
    pub recoveries: u32,
    /// Times that the turn was sent again after its attempts were used up.
    pub resends: u32,
    /// Summaries made to save room.
    pub compactions: u32,
    /// Tool results left out to save room.
    pub elisions: u32,
    /// Tool calls that ran.
    pub tool_calls: u32,
    /// Tool calls that failed, those included that could not be run; not those that were stopped, or
    /// left undone, because the turn was over.
    pub tool_failures: u32,
}

/// Where the time went, in milliseconds. Together it is all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Times {
    /// From the turn's beginning to its end.
    pub elapsed: u64,
    /// While an answer was coming, and in this program.
    pub working: u64,
    /// Waiting for the provider: attempts before their first content.
    pub provider: u64,
    /// Waiting in line, on hold, or before doing something again.
    pub waiting: u64,
    /// While tools ran.
    pub tools: u64,
}

/// Adds up what a turn takes.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) counts: Counts,
    provider_ms: u64,
    waiting_ms: u64,
    tools: Duration,
    waited: Duration,
    usage: Vec<Option<Usage>>,
}

impl Books {
    /// Adds a call that took `elapsed` and made these attempts.
    pub(crate) fn add_call(&mut self, attempts: &[AttemptRecord], elapsed: Duration) {
        self.counts.calls += 1;
        let mut until = 0;
        for attempt in attempts {
            let began = until + attempt.waited_ms;
            let content = attempt.first_content_ms.unwrap_or(attempt.ended_ms);
            self.waiting_ms += attempt.waited_ms;
            self.provider_ms += content.saturating_sub(began);
            until = attempt.ended_ms.max(began);
            self.counts.attempts += 1;
            let beats = attempt.heartbeats;
            self.counts.heartbeats += beats.provider + beats.comment + beats.proxy;
            self.counts.notices += attempt.notices;
            self.usage.push(attempt.usage);
        }
        // What is left is a wait that was not followed by an attempt.
        self.waiting_ms += whole_millis(elapsed).saturating_sub(until);
    }

    pub(crate) fn add_tools(&mut self, elapsed: Duration) {
        self.tools += elapsed;
    }

    pub(crate) fn add_wait(&mut self, elapsed: Duration) {
        self.waited += elapsed;
    }

    /// Returns where the time of a turn went that took `elapsed`.
    pub(crate) fn times(&self, elapsed: Duration) -> Times {
        let elapsed = whole_millis(elapsed);
        let tools = whole_millis(self.tools);
        let waiting = self.waiting_ms + whole_millis(self.waited);
        let spent = self.provider_ms + waiting + tools;
        Times {
            elapsed: elapsed.max(spent),
            working: elapsed.saturating_sub(spent),
            provider: self.provider_ms,
            waiting,
            tools,
        }
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        Usage::total(self.usage.iter().copied())
    }
}

/// What the person is told where the model ended without a word.
pub(crate) const NO_REPLY_SENTENCE: &str =
    "The model ended without a reply; asking again may help.";

/// What the person is told where the answer reached its length limit.
pub(crate) const LENGTH_SENTENCE: &str =
    "The answer reached the length that it may have; what had come is kept.";

/// What the person is told where the provider held back what the model said.
pub(crate) const FILTERED_SENTENCE: &str =
    "The provider's filter held the answer back; asking in other words may help.";

/// What the person is told where the provider held back the rest of it.
pub(crate) const FILTERED_PART_SENTENCE: &str =
    "The provider's filter stopped the answer; what had come is kept.";

/// Returns what the person is told where the model called tools in more than `most` answers, which is
/// set by `name`.
pub(crate) fn no_more_rounds(most: u32, name: &str) -> String {
    format!(
        "The model called tools in {most} answers without coming to a reply, which is the most that \
         a turn may have ({name}); allow more or ask for less."
    )
}

/// What the person is told where nobody took the answer any more.
pub(crate) const ABANDONED_SENTENCE: &str =
    "The answer was given up because nobody was taking it any more; what had come is kept.";

/// The exit code of a turn that ended without a reply.
const NO_REPLY: u8 = 9;
