//! One call from its beginning on, as programs read it: `GET /lifesign/calls/ID`.

use jiff::Timestamp;
use lifesign_core::{Ages, AttemptOutcome, AttemptRecord, FailureCode, Phase, Silence, Tick};
use serde::{Deserialize, Serialize};

use super::snapshot::{BoundNow, CallNow, CutBy, EndedCall};

/// One call from its beginning on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timeline {
    /// The version of this format: 1.
    pub v: u32,
    /// The call's id.
    pub id: String,
    /// When it began, UTC.
    pub at: Timestamp,
    /// Since the call began, or how long it took.
    pub elapsed_ms: u64,
    /// What it is doing, if it is under way.
    pub now: Option<CallNow>,
    /// How it ended, if it has.
    pub ended: Option<EndedCall>,
    /// Its attempts, in order.
    pub attempts: Vec<TimelineAttempt>,
    /// What happened besides, in order.
    pub events: Vec<TimelineEvent>,
    /// How many events there were that are not kept.
    pub lost_events: u32,
    /// Every bound in force for the attempt under way, those of later phases included.
    pub bounds: Vec<BoundNow>,
}

/// An attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimelineAttempt {
    /// As in the JSON of a call; of an attempt under way, what is known by now.
    #[serde(flatten)]
    pub record: AttemptRecord,
    /// Whether it is under way.
    pub live: bool,
    /// When it began, since the call began.
    pub began_ms: u64,
    /// The model, as the upstream calls it.
    pub model: Option<String>,
    /// The profile in force.
    pub profile: Option<String>,
    /// The bound that cut it, if one did.
    pub cut: Option<CutBy>,
    /// Why it failed, in words; none where it did not.
    pub reason: Option<String>,
    /// Its heartbeats. Those that came close to one another are one.
    pub ticks: Vec<Tick>,
    /// The longest times in which each clock stood, 1 s and more.
    pub silences: Vec<Silence>,
}

/// Something that happened to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineEvent {
    /// When, since the call began.
    pub at_ms: u64,
    /// What.
    #[serde(flatten)]
    pub what: Happening,
}

/// What happened to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Happening {
    /// It went into line.
    Queued {
        /// For whom.
        upstream: String,
        /// Its place, from 1.
        position: usize,
    },
    /// It waits for a hold to end.
    Held {
        /// On whom.
        upstream: Option<String>,
        /// What raised the hold.
        why: FailureCode,
        /// How long the hold lasts.
        wait_ms: u64,
    },
    /// It waits behind a hold that has ended: those who waited go one after the other.
    Behind {
        /// Whose.
        upstream: Option<String>,
    },
    /// An attempt began.
    Attempt {
        /// Which.
        n: u32,
        /// At whom.
        upstream: String,
    },
    /// Content has been quiet for long.
    Notice {
        /// In which attempt.
        n: u32,
        /// Which notice of this quiet it is.
        number: u32,
        /// Where the attempt stood.
        phase: Phase,
        /// The age of each clock.
        clocks_ms: Box<Ages>,
    },
    /// An attempt ended.
    AttemptEnded {
        /// Which.
        n: u32,
        /// How.
        outcome: AttemptOutcome,
    },
    /// It waits before it is sent again.
    RetryWait {
        /// What ended the attempt before.
        why: FailureCode,
        /// How long.
        wait_ms: u64,
    },
    /// It moves on to another upstream.
    MovedOn {
        /// From whom.
        upstream: String,
        /// What ended the attempt there.
        why: FailureCode,
    },
    /// Its response began, with a status.
    Opened {
        /// Whether that was for a beat, before anything was known.
        early: bool,
        /// The status.
        status: u16,
    },
}
