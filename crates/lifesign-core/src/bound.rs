//! The names of the bounds, in their order of precedence.

use serde::{Deserialize, Serialize};

/// A limit on a clock in a phase; when it runs out it cuts the attempt.
///
/// The order means something: of bounds that run out at the same instant the first one here cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BoundName {
    /// The call, all attempts and waits.
    WallClock,
    /// Time spent waiting for the upstream, over all attempts.
    Lifetime,
    /// Since sent, for an answer that is not streamed.
    WholeCall,
    /// DNS, TCP and TLS together.
    Connect,
    /// Last request byte to response headers.
    Headers,
    /// Since sent, until the first content.
    BeforeContent,
    /// The event clock after content.
    BetweenEvents,
    /// The output clock while reasoning flows.
    ReasoningOnly,
    /// Silence that a proxy's beats report.
    UpstreamQuiet,
    /// The event clock in any phase after connecting.
    Flat,
    /// The raw clock from the first request byte on.
    RawSilence,
}

impl BoundName {
    /// Every bound, in order of precedence.
    pub const ALL: [Self; 11] = [
        Self::WallClock,
        Self::Lifetime,
        Self::WholeCall,
        Self::Connect,
        Self::Headers,
        Self::BeforeContent,
        Self::BetweenEvents,
        Self::ReasoningOnly,
        Self::UpstreamQuiet,
        Self::Flat,
        Self::RawSilence,
    ];

    /// Returns the name used in JSON and, after `bounds.`, in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WallClock => "wall_clock",
            Self::Lifetime => "lifetime",
            Self::WholeCall => "whole_call",
            Self::Connect => "connect",
            Self::Headers => "headers",
            Self::BeforeContent => "before_content",
            Self::BetweenEvents => "between_events",
            Self::ReasoningOnly => "reasoning_only",
            Self::UpstreamQuiet => "upstream_quiet",
            Self::Flat => "flat",
            Self::RawSilence => "raw_silence",
        }
    }

    /// Returns the setting that raises this bound.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::WallClock => "bounds.wall_clock",
            Self::Lifetime => "bounds.lifetime",
            Self::WholeCall => "bounds.whole_call",
            Self::Connect => "bounds.connect",
            Self::Headers => "bounds.headers",
            Self::BeforeContent => "bounds.before_content",
            Self::BetweenEvents => "bounds.between_events",
            Self::ReasoningOnly => "bounds.reasoning_only",
            Self::UpstreamQuiet => "bounds.upstream_quiet",
            Self::Flat => "bounds.flat",
            Self::RawSilence => "bounds.raw_silence",
        }
    }
}
