//! What is true now, as programs read it: `GET /lifesign/live`.
//!
//! These types are the contract. The page is drawn from them, and whoever else watches a gateway
//! reads them back from JSON. No field holds a key, a prompt or an answer; names that callers choose
//! are bounded and without control characters.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lifesign::Outcome;
use lifesign_core::{
    Ages, BoundName, Clock, FailureCode, HeartbeatOrigin, Heartbeats, Phase, Stage,
};
use serde::{Deserialize, Serialize};

/// What is true now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The version of this format: 1. Fields are added without a new one.
    pub v: u32,
    /// The number of this snapshot; a later one has a higher number.
    pub seq: u64,
    /// When it was taken, UTC.
    pub at: Timestamp,
    /// When the gateway started, UTC.
    pub started: Timestamp,
    /// The version of the gateway.
    pub version: String,
    /// Whether the gateway is about to stop.
    pub draining: bool,
    /// All of it in a sentence, and in figures.
    pub summary: Summary,
    /// The calls under way, oldest first. Where there are very many, those nearest to a cut.
    pub calls: Vec<CallNow>,
    /// How many calls are under way that are not listed.
    pub more_calls: usize,
    /// The upstreams, in the order of the settings.
    pub upstreams: Vec<UpstreamNow>,
    /// Calls that ended lately, the latest first.
    pub recent: Vec<EndedCall>,
    /// The upper limits of the counts in `silence`, in milliseconds.
    pub silence_limits_ms: Vec<u64>,
    /// How long clocks stood still, by upstream, phase and clock, since the gateway started.
    pub silence: Vec<Silence>,
}

/// What can be said of all calls together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// `3 calls: 1 answering, 2 silent. Last hour: ...`.
    pub sentence: String,
    /// How many calls are under way.
    pub calls: usize,
    /// How many of them are in which state; states with none are left out.
    pub states: BTreeMap<State, usize>,
    /// What ended in the last hour.
    pub hour: EndedCounts,
}

/// What ended in the last hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndedCounts {
    /// Calls that ended.
    pub ended: u64,
    /// Of those, how many failed or broke off; callers that left are not among them.
    pub failed: u64,
    /// Calls whose caller left, or that an operator ended.
    pub cancelled: u64,
    /// What failed, and where; the most frequent first.
    pub failures: Vec<FailureCount>,
}

/// How often something failed in the last hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureCount {
    /// The failure.
    pub code: FailureCode,
    /// At which upstream, if one was asked.
    pub upstream: Option<String>,
    /// How often.
    pub count: u64,
}

/// What a call is doing, in one word. The order is that in which a person wants to know of them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Content comes.
    Answering,
    /// The upstream has it, and gave a sign of work within the last seconds; or was asked only now.
    Thinking,
    /// Bytes or heartbeats come, and nothing that shows work.
    Alive,
    /// Nothing comes.
    Silent,
    /// Its own caller does not read what came.
    Unread,
    /// It is being connected.
    Connecting,
    /// It waits in line.
    Queued,
    /// It waits for a hold to end.
    Held,
    /// It waits before it is sent again.
    Retrying,
    /// It was accepted, and nothing has begun yet.
    #[default]
    Starting,
    /// It has ended, and its caller has not taken the end yet.
    Finishing,
}

impl State {
    /// Every state, in the order of the summary.
    pub const ALL: [Self; 11] = [
        Self::Answering,
        Self::Thinking,
        Self::Alive,
        Self::Silent,
        Self::Unread,
        Self::Connecting,
        Self::Queued,
        Self::Held,
        Self::Retrying,
        Self::Starting,
        Self::Finishing,
    ];

    /// Returns the word that stands in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answering => "answering",
            Self::Thinking => "thinking",
            Self::Alive => "alive",
            Self::Silent => "silent",
            Self::Unread => "unread",
            Self::Connecting => "connecting",
            Self::Queued => "queued",
            Self::Held => "held",
            Self::Retrying => "retrying",
            Self::Starting => "starting",
            Self::Finishing => "finishing",
        }
    }

    /// Returns the words for people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Alive => "heartbeats only",
            Self::Unread => "not read",
            other => other.name(),
        }
    }
}

/// A call under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallNow {
    /// As in `x-lifesign-call`, the log and the records.
    pub id: String,
    /// When it began, UTC.
    pub at: Timestamp,
    /// The name of the caller's key.
    pub key: Option<String>,
    /// The path that was asked for.
    pub route: String,
    /// The wire that the caller speaks.
    pub wire: String,
    /// The model that was asked for.
    pub model: Option<String>,
    /// Whether its caller wants a stream.
    pub streamed: bool,
    /// Who is asked.
    pub upstream: Option<String>,
    /// What it is doing, in one word.
    pub state: State,
    /// What it is doing, in one plain sentence.
    pub sentence: String,
    /// What the gateway is doing for it: `accepted`, `queued`, `holding`, `attempting`,
    /// `retry_wait` or `ended`.
    pub doing: String,
    /// Where the attempt under way stands.
    pub phase: Option<Phase>,
    /// The part of connecting that is under way.
    pub stage: Option<Stage>,
    /// The attempt, counted from 1; 0 before the first.
    pub attempt: u32,
    /// How many there may be.
    pub of: u32,
    /// Since the call began.
    pub elapsed_ms: u64,
    /// The age of each clock of the attempt under way.
    pub clocks_ms: Option<Ages>,
    /// The bounds that run now, the first to run out first.
    pub bounds: Vec<BoundNow>,
    /// What cuts next if nothing more comes, and when.
    pub next_bound: Option<NextBound>,
    /// Its place in line, from 1.
    pub position: Option<usize>,
    /// When it goes on, while it waits for a hold or before it is sent again.
    pub goes_on_in_ms: Option<u64>,
    /// Why it waits: what raised the hold, or what ended the attempt before.
    pub why: Option<FailureCode>,
    /// For how long its caller has not read.
    pub unread_ms: Option<u64>,
    /// Whether the latest that came is reasoning.
    pub reasoning: bool,
    /// Heartbeats of the attempt under way, by whose life they prove.
    pub heartbeats: Heartbeats,
    /// The last of them.
    pub last_heartbeat: Option<LastHeartbeat>,
    /// Beats that its caller was sent.
    pub beats: u64,
}

/// A bound that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoundNow {
    /// The bound.
    pub bound: BoundName,
    /// The clock that it is a limit on; none for one that counts from the request or the call.
    pub clock: Option<Clock>,
    /// How much of it has passed.
    pub age_ms: u64,
    /// The limit in force.
    pub limit_ms: u64,
    /// When it runs out; none while an open block lifts it, or the caller does not read.
    pub in_ms: Option<u64>,
    /// The setting that changes it.
    pub setting: String,
    /// Where its value came from: `default`, `catalog`, `profile`, `learned`, `FILE:LINE`, `env` or
    /// `call`.
    pub origin: String,
}

/// What cuts next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextBound {
    /// The bound.
    pub bound: BoundName,
    /// When it runs out.
    pub in_ms: u64,
}

/// The last heartbeat of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastHeartbeat {
    /// Whose life it proves.
    pub origin: HeartbeatOrigin,
    /// How long ago it came.
    pub age_ms: u64,
}

/// How an upstream does, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Nothing is wrong that the last hour shows.
    #[default]
    Good,
    /// No attempt ended in the last hour.
    Idle,
    /// Calls wait for a place.
    Busy,
    /// Many of its attempts fail, or it has never completed one.
    Failing,
    /// A breaker is open: others are asked first.
    Broken,
    /// A hold is on it.
    Held,
}

impl Health {
    /// Returns whether somebody may have to do something about it.
    pub const fn is_ill(self) -> bool {
        matches!(self, Self::Failing | Self::Broken | Self::Held)
    }

    /// Returns the word that stands in JSON, which is that for people too.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Failing => "failing",
            Self::Broken => "broken",
            Self::Held => "held",
        }
    }
}

/// An upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpstreamNow {
    /// Its name.
    pub name: String,
    /// How it does, in one word.
    pub health: Health,
    /// How it does, in one plain sentence.
    pub sentence: String,
    /// Calls that it has now.
    pub in_flight: usize,
    /// Calls that it may have.
    pub concurrency: usize,
    /// Calls in line.
    pub waiting: usize,
    /// Places in line.
    pub queue: usize,
    /// Its breakers: `closed`, `open` or `half_open`.
    pub breakers: Breakers,
    /// Its holds.
    pub holds: Vec<HoldNow>,
    /// How long the first content took in the last hour, from the sent request on.
    pub first_content: Option<FirstContent>,
    /// When an attempt was last complete, UTC; none where none was since the gateway started.
    #[serde(default)]
    pub last_completed: Option<Timestamp>,
    /// Attempts that ended in the last hour.
    pub attempts: u64,
    /// Of those, how many failed; not those that their caller ended or asked for wrongly.
    pub failed: u64,
    /// What failed, the most frequent first.
    pub failures: Vec<FailureCount>,
}

/// Where the breakers of an upstream stand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Breakers {
    /// The one for failures.
    pub failures: String,
    /// The one for slowness.
    pub slowness: String,
}

/// How long the first content takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstContent {
    /// Half of the attempts were faster.
    pub p50_ms: u64,
    /// All but one in twenty were faster.
    pub p95_ms: u64,
    /// How many attempts that is of: the latest of the last hour.
    pub count: usize,
}

/// A hold in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoldNow {
    /// What it is released by.
    pub id: String,
    /// The model, as the upstream calls it.
    pub model: Option<String>,
    /// A hash of the caller's own credential that it is on; none where it concerns every caller.
    pub credential: Option<String>,
    /// What raised it.
    pub why: FailureCode,
    /// How long it lasts.
    pub remaining_ms: u64,
    /// When it ends, UTC.
    pub until: Option<Timestamp>,
    /// The call that is to find out whether it is over.
    pub probe: String,
}

/// A call that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedCall {
    /// Its id.
    pub id: String,
    /// When it began, UTC.
    pub at: Timestamp,
    /// When it ended, UTC.
    pub ended_at: Timestamp,
    /// The name of the caller's key.
    pub key: Option<String>,
    /// The path that was asked for.
    pub route: String,
    /// The model that was asked for.
    pub model: Option<String>,
    /// Who was asked last.
    pub upstream: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// How it ended, in one plain sentence for whoever runs the gateway.
    pub sentence: String,
    /// The sentence that its caller was told; none where it is complete.
    pub told: Option<String>,
    /// What may help, if something is known to.
    pub hint: Option<String>,
    /// The failure, if it is one.
    pub code: Option<FailureCode>,
    /// The bound that cut it, if one did.
    pub cut: Option<CutBy>,
    /// The HTTP status that its caller got.
    pub status: Option<u16>,
    /// Requests that were made.
    pub attempts: usize,
    /// From admission to the end.
    pub elapsed_ms: u64,
    /// From admission to the first content of the last attempt.
    pub first_content_ms: Option<u64>,
    /// Time in line.
    pub queued_ms: u64,
    /// Time waiting for a hold to end.
    pub held_ms: u64,
    /// Time waiting before further attempts.
    pub retry_wait_ms: u64,
    /// Beats that its caller was sent.
    pub beats: u64,
}

/// What cut an attempt or a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CutBy {
    /// The bound.
    pub bound: BoundName,
    /// The limit that was in force.
    pub limit_ms: Option<u64>,
    /// The setting that changes it.
    pub setting: String,
    /// Where its value came from.
    pub origin: String,
    /// Whose setting that is, and how it is raised.
    pub remedy: String,
}

/// How long a clock stood still in a phase, at one upstream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Silence {
    /// The upstream.
    pub upstream: String,
    /// The phase.
    pub phase: Phase,
    /// The clock.
    pub clock: Clock,
    /// How many gaps were below each of the limits and not below the one before; last, those above
    /// all. Gaps under 100 ms are not counted.
    pub counts: Vec<u64>,
    /// The longest.
    pub longest_ms: u64,
    /// The bounds on it for calls that set none of their own, the shortest first.
    pub bounds: Vec<SilenceBound>,
}

/// A bound on a clock in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SilenceBound {
    /// The bound.
    pub bound: BoundName,
    /// Its limit.
    pub limit_ms: u64,
    /// The setting that changes it.
    pub setting: String,
    /// Where its value came from.
    pub origin: String,
}
