//! The closed set of ways in which a call can fail.

use serde::{Deserialize, Serialize};

/// What happened, from a closed set.
///
/// One code maps to one tier of retries, one exit code and one HTTP status.
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
    /// The `whole_call` bound ran out while the answer was coming.
    WholeCall,
}
