//! The closed set of ways in which a call can fail.
//!
//! The code tells what the wire showed, the bound tells which limit ran out. Each code has one tier
//! of retries, one exit code, one rule for its HTTP status and one sentence for whoever waits.

mod message;
mod quote;
mod report;
mod sentence;

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use quote::{TEXT_CHARS, quote};
pub use report::FailureReport;

use crate::{Ages, BoundName, Cut, GiveUp, Heartbeats, Hints, Joined, Origin, Phase, Stage, Tier};

/// What happened, from a closed set.
///
/// One code maps to one tier of retries, one exit code and one rule for its HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// Bytes arrived, but no whole frame.
    BytesOnly,
    /// The caller left.
    Cancelled,
    /// DNS, TCP or TLS failed or hung.
    Connect,
    /// Reset, end of file inside a body, HTTP/2 stream error.
    ConnectionLost,
    /// The reader stopped reading.
    ConsumerStalled,
    /// No event at all, or neither content nor a finish.
    Empty,
    /// Quota, or a rate limit whose reset lies beyond the longest wait we honour.
    Exhausted,
    /// Heartbeats arrived, but nothing more.
    HeartbeatsOnly,
    /// The `lifetime` bound ran out.
    Lifetime,
    /// Events arrived, but no content.
    NoContent,
    /// 503, 529 and their in-band twins.
    Overloaded,
    /// 5xx, 408, 409, 425, `error` events, `response.failed`, `finish_reason: error`.
    ProviderError,
    /// No place in the queue, or no turn in time.
    QueueFull,
    /// 429 and its in-band twins.
    RateLimited,
    /// Nothing arrived.
    RawSilent,
    /// Reasoning arrived, but no output.
    ReasoningOnly,
    /// Configuration that cannot be used.
    RefusedSetting,
    /// Other 4xx and their in-band twins.
    Rejected,
    /// Past a size cap.
    TooLarge,
    /// The body ended properly, but the answer did not.
    Truncated,
    /// Not the wire that was promised.
    Unreadable,
    /// The call's own budget ran out.
    WallClock,
    /// The `whole_call` bound, or another one while output was coming, ran out.
    WholeCall,
}

impl FailureCode {
    /// Every code.
    pub const ALL: [Self; 23] = [
        Self::BytesOnly,
        Self::Cancelled,
        Self::Connect,
        Self::ConnectionLost,
        Self::ConsumerStalled,
        Self::Empty,
        Self::Exhausted,
        Self::HeartbeatsOnly,
        Self::Lifetime,
        Self::NoContent,
        Self::Overloaded,
        Self::ProviderError,
        Self::QueueFull,
        Self::RateLimited,
        Self::RawSilent,
        Self::ReasoningOnly,
        Self::RefusedSetting,
        Self::Rejected,
        Self::TooLarge,
        Self::Truncated,
        Self::Unreadable,
        Self::WallClock,
        Self::WholeCall,
    ];

    /// Returns the name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BytesOnly => "bytes_only",
            Self::Cancelled => "cancelled",
            Self::Connect => "connect",
            Self::ConnectionLost => "connection_lost",
            Self::ConsumerStalled => "consumer_stalled",
            Self::Empty => "empty",
            Self::Exhausted => "exhausted",
            Self::HeartbeatsOnly => "heartbeats_only",
            Self::Lifetime => "lifetime",
            Self::NoContent => "no_content",
            Self::Overloaded => "overloaded",
            Self::ProviderError => "provider_error",
            Self::QueueFull => "queue_full",
            Self::RateLimited => "rate_limited",
            Self::RawSilent => "raw_silent",
            Self::ReasoningOnly => "reasoning_only",
            Self::RefusedSetting => "refused_setting",
            Self::Rejected => "rejected",
            Self::TooLarge => "too_large",
            Self::Truncated => "truncated",
            Self::Unreadable => "unreadable",
            Self::WallClock => "wall_clock",
            Self::WholeCall => "whole_call",
        }
    }

    /// Returns the tier of retries that such a failure takes from; `None` if it is not repeated.
    pub const fn tier(self) -> Option<Tier> {
        match self {
            Self::Connect
            | Self::ConnectionLost
            | Self::Empty
            | Self::ProviderError
            | Self::RawSilent
            | Self::Truncated => Some(Tier::Transport),
            Self::BytesOnly | Self::HeartbeatsOnly | Self::NoContent | Self::ReasoningOnly => {
                Some(Tier::Cut)
            }
            Self::Overloaded => Some(Tier::Overload),
            Self::RateLimited => Some(Tier::Rate),
            Self::Cancelled
            | Self::ConsumerStalled
            | Self::Exhausted
            | Self::Lifetime
            | Self::QueueFull
            | Self::RefusedSetting
            | Self::Rejected
            | Self::TooLarge
            | Self::Unreadable
            | Self::WallClock
            | Self::WholeCall => None,
        }
    }

    /// Returns the exit code of a program whose call fails so.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::RefusedSetting => 2,
            Self::Truncated => 3,
            Self::Empty
            | Self::Overloaded
            | Self::ProviderError
            | Self::Rejected
            | Self::TooLarge
            | Self::Unreadable => 4,
            Self::BytesOnly
            | Self::HeartbeatsOnly
            | Self::Lifetime
            | Self::NoContent
            | Self::RawSilent
            | Self::ReasoningOnly
            | Self::WholeCall => 5,
            Self::WallClock => 6,
            Self::Exhausted | Self::QueueFull | Self::RateLimited => 7,
            Self::Connect | Self::ConnectionLost | Self::ConsumerStalled => 8,
            Self::Cancelled => 130,
        }
    }

    /// Returns the HTTP status for whoever answers HTTP on behalf of a call that failed so.
    ///
    /// `stated` is the status that an error inside a stream stands for, by its type or its numeric
    /// code; it decides for `provider_error` and `rejected`. `None` means that nobody is there to
    /// read a status; 499 is for records only.
    pub const fn http_status(self, stated: Option<u16>, anthropic: bool) -> Option<u16> {
        match (self, stated) {
            (Self::ProviderError | Self::Rejected, Some(status)) => Some(status),
            (Self::Cancelled, _) => Some(499),
            (Self::ConsumerStalled, _) => None,
            (Self::Exhausted | Self::QueueFull | Self::RateLimited, _) => Some(429),
            (Self::Overloaded, _) => Some(if anthropic { 529 } else { 503 }),
            (Self::RefusedSetting | Self::Rejected, _) => Some(400),
            (
                Self::Connect
                | Self::ConnectionLost
                | Self::Empty
                | Self::ProviderError
                | Self::TooLarge
                | Self::Truncated
                | Self::Unreadable,
                _,
            ) => Some(502),
            (
                Self::BytesOnly
                | Self::HeartbeatsOnly
                | Self::Lifetime
                | Self::NoContent
                | Self::RawSilent
                | Self::ReasoningOnly
                | Self::WallClock
                | Self::WholeCall,
                _,
            ) => Some(504),
        }
    }

    /// Returns whether the failure says something of the upstream, rather than of the caller, of what
    /// was asked, or of us.
    pub const fn is_of_upstream(self) -> bool {
        !matches!(
            self,
            Self::Cancelled
                | Self::ConsumerStalled
                | Self::QueueFull
                | Self::RefusedSetting
                | Self::Rejected
                | Self::TooLarge
                | Self::WallClock
        )
    }

    /// Returns whether the failure is the provider's own answer, with a status or an error's text.
    const fn is_answer(self) -> bool {
        matches!(
            self,
            Self::Exhausted
                | Self::Overloaded
                | Self::ProviderError
                | Self::RateLimited
                | Self::Rejected
        )
    }
}

/// A call that failed, or an attempt: what happened and everything known about it.
///
/// [`new`](Self::new) gives one that knows its code and phase alone; whoever knows more fills in
/// the fields. Text of the provider's is bounded and cleaned where it leaves, in
/// [`message`](Self::message).
///
/// This example shows what an operator and a person who waits read of the same silence:
///
/// ```
/// use std::time::Duration;
///
/// use lifesign_core::{BoundName, Failure, FailureCode, Origin, Phase};
///
/// let mut failure = Failure::new(FailureCode::RawSilent, Phase::BeforeContent);
/// failure.bound = Some(BoundName::RawSilence);
/// failure.limit = Some(Duration::from_secs(45));
/// failure.origin = Some(Origin::Call);
///
/// assert_eq!(
///     failure.message(),
///     "nothing arrived for 45 s before the first content (bounds.raw_silence = 45 s, call)"
/// );
/// assert_eq!(
///     failure.sentence(),
///     "The model's server went quiet for 45 s; trying again may help."
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub code: FailureCode,
    /// The bound that ran out, if one did.
    pub bound: Option<BoundName>,
    /// The limit that was in force.
    pub limit: Option<Duration>,
    /// What made the limit longer than it is in itself, if an open block did.
    pub joined: Option<Joined>,
    /// Where the limit came from.
    pub origin: Option<Origin>,
    /// The setting that would change it, where that is not the bound's.
    pub named_setting: Option<String>,
    /// Where the attempt stood.
    pub phase: Phase,
    /// The part of connecting that was under way.
    pub stage: Option<Stage>,
    /// The age of each clock.
    pub ages: Ages,
    /// What was observed, in our own words: one lower-case clause.
    pub detail: Option<String>,
    /// Advice that knows more than the code does.
    pub advice: Option<String>,
    /// The HTTP status of the response.
    pub status: Option<u16>,
    /// The status that an error inside a stream stands for.
    pub stated_status: Option<u16>,
    /// What the provider says happened.
    pub provider_message: Option<String>,
    /// The wait that the provider asked for.
    pub retry_after: Option<Duration>,
    /// When the limit resets.
    pub resets_at: Option<Timestamp>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// Who was asked.
    pub upstream: Option<String>,
    /// Which model was asked for.
    pub model: Option<String>,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// How many attempts a failure of this tier may have, at most `retry.attempts`.
    pub of: u32,
    /// Whether content had arrived, which is kept.
    pub partial: bool,
    /// Body bytes of the attempt.
    pub bytes: u64,
    /// Whole frames of the attempt, heartbeats included.
    pub frames: u64,
    /// Its heartbeats by origin.
    pub heartbeats: Heartbeats,
    /// Tokens of the answer, where the provider told.
    pub tokens: Option<u64>,
    /// Whether another attempt is known to end the same way, though failures of this code are
    /// repeated as a rule.
    pub futile: bool,
    /// Why no other attempt followed, once that is decided.
    pub give_up: Option<GiveUp>,
}

impl Failure {
    /// Returns a failure of `code` in `phase`, of the only attempt, with nothing else known.
    pub fn new(code: FailureCode, phase: Phase) -> Self {
        Self {
            code,
            bound: None,
            limit: None,
            joined: None,
            origin: None,
            named_setting: None,
            phase,
            stage: None,
            ages: Ages::default(),
            detail: None,
            advice: None,
            status: None,
            stated_status: None,
            provider_message: None,
            retry_after: None,
            resets_at: None,
            request_id: None,
            upstream: None,
            model: None,
            attempt: 1,
            of: 1,
            partial: false,
            bytes: 0,
            frames: 0,
            heartbeats: Heartbeats::default(),
            tokens: None,
            futile: false,
            give_up: None,
        }
    }

    /// Returns the failure of an attempt that a bound ended.
    pub fn of_cut(cut: &Cut) -> Self {
        Self {
            bound: Some(cut.bound),
            limit: Some(cut.limit),
            joined: cut.joined,
            origin: Some(cut.origin.clone()),
            stage: cut.stage,
            ages: cut.ages,
            ..Self::new(cut.code(), cut.phase)
        }
    }

    /// Records why no other attempt follows, and what that makes of the failure.
    ///
    /// A rate limit whose wait is longer than we honour, or that is a quota, is called exhausted.
    /// An overload stays an overload. `resets_at` is kept where the wait was not slept.
    pub fn settle(&mut self, reason: GiveUp, hints: &Hints) {
        self.give_up = Some(reason);
        self.retry_after = self.retry_after.or(hints.wait);
        match reason {
            GiveUp::BeyondMaxWait { .. } | GiveUp::Quota => {
                self.resets_at = self.resets_at.or(hints.resets_at);
                if self.code == FailureCode::RateLimited {
                    self.code = FailureCode::Exhausted;
                }
            }
            GiveUp::NotRetryable if self.code != FailureCode::Exhausted => {}
            GiveUp::NotRetryable | GiveUp::TotalWait { .. } | GiveUp::WallClock => {
                self.resets_at = self.resets_at.or(hints.resets_at);
            }
            GiveUp::AttemptsSpent
            | GiveUp::Committed
            | GiveUp::ProviderSaysNo
            | GiveUp::TierSpent(_) => {}
        }
    }

    /// Returns whether it is a rate limit whose wait is longer than we honour.
    ///
    /// It has the code of a quota, since no attempt follows it either, but it is none.
    const fn is_long_rate_limit(&self) -> bool {
        matches!(
            (self.code, self.give_up),
            (FailureCode::Exhausted, Some(GiveUp::BeyondMaxWait { .. }))
        )
    }

    /// Returns the setting that would change the outcome, if one would.
    pub fn setting(&self) -> Option<&str> {
        self.named_setting
            .as_deref()
            .or_else(|| self.bound.map(BoundName::setting))
    }

    /// Returns the exit code of a program whose call fails so.
    pub const fn exit_code(&self) -> u8 {
        self.code.exit_code()
    }

    /// Returns the tier of retries that the failure takes from; `None` if it is not repeated.
    pub const fn tier(&self) -> Option<Tier> {
        if self.futile { None } else { self.code.tier() }
    }

    /// Returns the HTTP status for whoever answers HTTP on behalf of the call.
    ///
    /// A status other than 2xx that the upstream sent passes unchanged.
    pub fn http_status(&self, anthropic: bool) -> Option<u16> {
        let sent = self.status.filter(|status| !(200..300).contains(status));
        if self.code.is_answer() && sent.is_some() {
            return sent;
        }
        if self.code == FailureCode::TooLarge && self.phase <= Phase::Sending {
            return Some(413);
        }
        self.code.http_status(self.stated_status, anthropic)
    }

    /// Returns whether making the call again may help.
    pub const fn is_retryable(&self) -> bool {
        if matches!(self.give_up, Some(GiveUp::ProviderSaysNo)) {
            return false;
        }
        self.tier().is_some() || matches!(self.code, FailureCode::QueueFull)
    }

    /// Returns whether the connections to the upstream are to be doubted: after silence or loss the
    /// next attempt opens a fresh one.
    pub const fn leaves_connections_suspect(&self) -> bool {
        self.bound.is_some()
            || matches!(
                self.code,
                FailureCode::Connect | FailureCode::ConnectionLost | FailureCode::RawSilent
            )
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for io::Error {
    /// Silence is `TimedOut`, for callers that look for ETIMEDOUT; no other failure borrows it.
    fn from(failure: Failure) -> Self {
        let kind = match failure.code {
            FailureCode::RawSilent => io::ErrorKind::TimedOut,
            FailureCode::ConnectionLost => io::ErrorKind::ConnectionReset,
            FailureCode::Truncated => io::ErrorKind::UnexpectedEof,
            FailureCode::RefusedSetting => io::ErrorKind::InvalidInput,
            FailureCode::Unreadable => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, failure)
    }
}
