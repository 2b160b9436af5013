//! What is written down of calls: one stream of records, whoever keeps them.
//!
//! A [`Client`](crate::Client) tells its [`Records`] of its calls, and a gateway of those that pass
//! it. The fields are described in `docs/reference/gateway.md`.

mod provider;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lifesign_core::duration::whole_millis;
use lifesign_core::{Ages, AttemptRecord, FailureCode, FailureReport, Gaps, Phase, Usage};
use serde::Serialize;

pub use self::provider::provider_of;
use crate::outcome::Outcome;
use crate::trace_context::{AttemptTrace, CallTrace};

/// Something that happened to a call.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// A call was admitted.
    Started(CallStarted),
    /// An attempt of a call ended.
    Attempt(Box<AttemptEnded>),
    /// A call ended. Every call that started ends in exactly one of these.
    Ended(Box<CallEnded>),
}

/// A call that was admitted.
#[derive(Clone, Debug, Serialize)]
pub struct CallStarted {
    /// The call's id, time-sortable.
    pub id: String,
    /// When, in UTC.
    pub at: Timestamp,
    /// The name of the caller's key; none where no keys are configured.
    pub key: Option<String>,
    /// The method of the request.
    pub method: String,
    /// The path that was asked for: of a gateway, or by a client.
    pub route: String,
    /// The name of the wire that the caller speaks.
    pub wire: String,
    /// The model that was asked for.
    pub model: Option<String>,
    /// The most tokens that the answer may have, if the request says so.
    pub max_tokens: Option<u64>,
    /// Whether the caller wants a stream.
    pub streamed: bool,
    /// Where the call stands in a trace; none where nobody [wants traces](Records::wants_traces).
    pub trace: Option<Box<CallTrace>>,
}

/// An attempt that has ended.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptEnded {
    /// The call's id.
    pub call: String,
    /// When the call began, in UTC: what the times of the attempt count from.
    pub call_at: Timestamp,
    /// When, in UTC.
    pub at: Timestamp,
    /// What the attempt amounted to.
    #[serde(flatten)]
    pub attempt: AttemptRecord,
    /// The path that was asked for.
    pub route: String,
    /// When it began, since the call began.
    pub began_ms: u64,
    /// The model that was asked for, as the upstream calls it.
    pub model: Option<String>,
    /// The profile in force.
    pub profile: String,
    /// Why, unless it is complete.
    pub failure: Option<FailureReport>,
    /// Where it broke off, if it had brought content by then.
    pub cut_point: Option<CutPoint>,
    /// How long each clock stood in each phase.
    pub gaps: Gaps,
    /// What was asked, and of whom.
    pub asked: Asked,
    /// What the provider says of its answer.
    pub answered: Answered,
    /// The first notices that content was quiet, at most 100 of them.
    pub quiet: Vec<Quiet>,
    /// Where the attempt stands in a trace, if its call does.
    pub trace: Option<AttemptTrace>,
}

/// What an attempt asked, and of whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// The provider, by OpenTelemetry's conventions.
    pub provider: &'static str,
    /// The upstream's host.
    pub host: String,
    /// The upstream's port.
    pub port: u16,
    /// The method of the request.
    pub method: String,
    /// Whether a stream was asked for.
    pub streamed: bool,
    /// The most tokens that the answer may have, if the request says so.
    pub max_tokens: Option<u64>,
}

/// What a provider says of its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// Its id of the answer.
    pub id: Option<String>,
    /// The model, as it names it.
    pub model: Option<String>,
    /// Why the answer ended, as it wrote it.
    pub finish_reason: Option<String>,
}

/// A notice that content was quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quiet {
    /// When, since the call began.
    pub at_ms: u64,
    /// Which notice of this quiet it is, from 1.
    pub number: u32,
    /// Where the attempt stood.
    pub phase: Phase,
    /// The age of each clock, in milliseconds.
    pub clocks_ms: Ages,
}

/// Where an answer broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CutPoint {
    /// Bytes of the answer's body until then.
    pub bytes: u64,
    /// Whole frames until then.
    pub frames: u64,
    /// When the last content came, since the call began.
    pub last_content_ms: u64,
    /// The number of the last event that was passed on, on a wire that numbers them.
    pub sequence: Option<u64>,
}

impl CutPoint {
    /// Returns where the attempt of a record broke off, whose last content was so long ago.
    pub fn of(record: &AttemptRecord, content_age: Duration, sequence: Option<u64>) -> Self {
        Self {
            bytes: record.bytes,
            frames: record.frames,
            last_content_ms: record.ended_ms.saturating_sub(whole_millis(content_age)),
            sequence,
        }
    }
}

/// A call that has ended.
#[derive(Clone, Debug, Serialize)]
pub struct CallEnded {
    /// What was known at the start.
    #[serde(flatten)]
    pub started: CallStarted,
    /// In one word, how it ended.
    pub outcome: Outcome,
    /// Why, unless it is complete.
    pub failure: Option<FailureReport>,
    /// Who answered, or whose failure it is.
    pub upstream: Option<String>,
    /// The provider of that upstream, by OpenTelemetry's conventions.
    pub provider: Option<&'static str>,
    /// The model that was asked for last, as the upstream calls it.
    pub upstream_model: Option<String>,
    /// The profile in force at the last attempt; none where there was no attempt.
    pub profile: Option<String>,
    /// The model that answered, as the provider names it.
    pub answered_by: Option<String>,
    /// The provider's id of the answer.
    pub answer_id: Option<String>,
    /// Why the answer ended, as the provider wrote it.
    pub finish_reason: Option<String>,
    /// Tokens of the attempt that counts; null when unknown.
    pub usage: Option<Usage>,
    /// Every attempt, in order.
    pub attempts: Vec<AttemptRecord>,
    /// The HTTP status that the caller of a gateway got; none if it left before one was sent.
    pub status: Option<u16>,
    /// From admission to the end.
    pub elapsed_ms: u64,
    /// Time in line.
    pub queued_ms: u64,
    /// Time waiting for a hold to end.
    pub held_ms: u64,
    /// Time waiting before further attempts.
    pub retry_wait_ms: u64,
    /// The first waits of a millisecond and more, in order, at most 100 of them.
    pub waits: Vec<Wait>,
    /// Beats that were sent to the caller.
    pub beats: u64,
    /// The same, by what they looked like.
    pub beat_forms: BeatForms,
    /// Bytes of the answer that were handed to the caller's connection, beats not counted.
    pub bytes_out: u64,
}

/// A wait of a call, which is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// What for.
    pub wait: WaitFor,
    /// The upstream whose turn or hold it was, or that had failed.
    pub upstream: Option<String>,
    /// What had raised the hold, or failed the attempt before.
    pub why: Option<FailureCode>,
    /// When it began, since the call began.
    pub began_ms: u64,
    /// When it ended.
    pub ended_ms: u64,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// Its turn in line.
    Turn,
    /// The end of a hold, and those who waited for it before.
    Hold,
    /// The next attempt, after one that failed.
    Retry,
}

/// Beats by what they looked like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BeatForms {
    /// Comments of a stream.
    pub comment: u64,
    /// Events that mean nothing.
    pub event: u64,
    /// White space ahead of a whole body.
    pub space: u64,
}

impl BeatForms {
    /// Returns how many there were in all.
    pub const fn total(self) -> u64 {
        self.comment + self.event + self.space
    }

    /// Counts a beat, given as it looks.
    pub fn note(&mut self, beat: &[u8]) {
        match beat.first() {
            Some(b':') => self.comment += 1,
            Some(b' ') => self.space += 1,
            _ => self.event += 1,
        }
    }
}

/// Takes what is written down.
///
/// It is called from where calls are made and served: it must not block.
pub trait Records: Send + Sync {
    /// Takes one record.
    fn record(&self, record: &Record);

    /// Returns whether calls are to have a place in a trace.
    ///
    /// It is asked once, when a gateway starts. Where it is true, calls continue the trace that
    /// their caller's `traceparent` names, or begin one, and hand it on to the upstream; otherwise
    /// the caller's headers pass as they are.
    fn wants_traces(&self) -> bool {
        false
    }
}

impl<R: Records + ?Sized> Records for Arc<R> {
    fn record(&self, record: &Record) {
        (**self).record(record);
    }

    fn wants_traces(&self) -> bool {
        (**self).wants_traces()
    }
}

/// Each of them takes every record, in this order.
impl<R: Records> Records for Vec<R> {
    fn record(&self, record: &Record) {
        for records in self {
            records.record(record);
        }
    }

    fn wants_traces(&self) -> bool {
        self.iter().any(Records::wants_traces)
    }
}

/// Returns what is written down for long of why a call failed: in the log and in the journal.
///
/// What a provider says of limits is worth reading at night. What it says of a request, or sends in
/// place of an answer, may repeat the prompt or be a piece of the answer: that is the caller's.
pub fn words(failure: &FailureReport) -> Cow<'_, str> {
    let what = match failure.code {
        FailureCode::ProviderError => "the provider reports an error of its own",
        FailureCode::Rejected => "the provider refused the request",
        FailureCode::Unreadable => return "what arrived is not the wire that was promised".into(),
        // Ours, or a provider's about limits. A further code has to be decided on here.
        FailureCode::BytesOnly
        | FailureCode::Cancelled
        | FailureCode::Connect
        | FailureCode::ConnectionLost
        | FailureCode::ConsumerStalled
        | FailureCode::Empty
        | FailureCode::Exhausted
        | FailureCode::HeartbeatsOnly
        | FailureCode::Lifetime
        | FailureCode::NoContent
        | FailureCode::Overloaded
        | FailureCode::QueueFull
        | FailureCode::RateLimited
        | FailureCode::RawSilent
        | FailureCode::ReasoningOnly
        | FailureCode::RefusedSetting
        | FailureCode::TooLarge
        | FailureCode::Truncated
        | FailureCode::WallClock
        | FailureCode::WholeCall => return failure.message.as_str().into(),
    };
    match failure.status {
        // Where nobody has answered, the words are ours.
        None => failure.message.as_str().into(),
        Some(status) => format!("{what} ({status})").into(),
    }
}
