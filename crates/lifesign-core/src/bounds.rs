//! The bounds in force for one call, as settings.

use std::time::Duration;

use crate::{BoundName, Limit, Setting};

/// What every bound is set to, and where each value came from.
///
/// A field whose origin is [`Origin::Default`](crate::Origin::Default) was set by nobody. For
/// `raw_silence`, `flat` and `whole_call` the value is then only a stand-in: the wire and the shape
/// of the call decide, see [`rows`](crate::rows).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// DNS, TCP and TLS together. Default 10 s.
    pub connect: Setting<Limit>,
    /// Last request byte to response headers. Default 120 s.
    pub headers: Setting<Limit>,
    /// Longest time without a byte, heartbeats included. Default: the wire's, 180 s or 240 s.
    pub raw_silence: Setting<Limit>,
    /// Last request byte to the first content. Default 60 s, where the wire shows work.
    pub before_content: Setting<Limit>,
    /// Longest time between two events after content. Default 150 s.
    pub between_events: Setting<Limit>,
    /// Longest time between two events in any phase. Default: computed, at least 1,862 s.
    pub flat: Setting<Limit>,
    /// Longest time without output while reasoning flows. Default off.
    pub reasoning_only: Setting<Limit>,
    /// Last request byte to the end of an answer that is not streamed. Default: computed.
    pub whole_call: Setting<Limit>,
    /// Longest upstream silence reported by a proxy's beats. Default off.
    pub upstream_quiet: Setting<Limit>,
    /// Time spent waiting for the upstream, over all attempts. Default off.
    pub lifetime: Setting<Limit>,
    /// The call, all attempts and waits. Default off.
    pub wall_clock: Setting<Limit>,
    /// How fast a model thinks at the slowest. Default 87 tokens per second.
    pub think_tokens_per_second: Setting<Rate>,
    /// When to report that the content clock is quiet. Default 30 s, doubling up to 5 min.
    pub notice_after: Setting<Notices>,
    /// Whether `before_content` and `between_events` apply where nobody set them.
    pub phase_defaults: bool,
    /// Whether the upstream shows work before content, so that `before_content` applies by default.
    pub shows_work: bool,
}

impl Bounds {
    /// Returns the bound of this name.
    pub const fn limit(&self, name: BoundName) -> &Setting<Limit> {
        match name {
            BoundName::WallClock => &self.wall_clock,
            BoundName::Lifetime => &self.lifetime,
            BoundName::WholeCall => &self.whole_call,
            BoundName::Connect => &self.connect,
            BoundName::Headers => &self.headers,
            BoundName::BeforeContent => &self.before_content,
            BoundName::BetweenEvents => &self.between_events,
            BoundName::ReasoningOnly => &self.reasoning_only,
            BoundName::UpstreamQuiet => &self.upstream_quiet,
            BoundName::Flat => &self.flat,
            BoundName::RawSilence => &self.raw_silence,
        }
    }

    /// Returns the bound of this name, to be changed.
    pub const fn limit_mut(&mut self, name: BoundName) -> &mut Setting<Limit> {
        match name {
            BoundName::WallClock => &mut self.wall_clock,
            BoundName::Lifetime => &mut self.lifetime,
            BoundName::WholeCall => &mut self.whole_call,
            BoundName::Connect => &mut self.connect,
            BoundName::Headers => &mut self.headers,
            BoundName::BeforeContent => &mut self.before_content,
            BoundName::BetweenEvents => &mut self.between_events,
            BoundName::ReasoningOnly => &mut self.reasoning_only,
            BoundName::UpstreamQuiet => &mut self.upstream_quiet,
            BoundName::Flat => &mut self.flat,
            BoundName::RawSilence => &mut self.raw_silence,
        }
    }
}

impl Default for Bounds {
    /// The defaults of a wire that shows work before content.
    fn default() -> Self {
        let after = |seconds| Setting::default_value(Limit::After(Duration::from_secs(seconds)));
        let off = || Setting::default_value(Limit::Off);
        Self {
            connect: after(10),
            headers: after(120),
            raw_silence: after(240),
            before_content: after(60),
            between_events: after(150),
            flat: after(1_862),
            reasoning_only: off(),
            whole_call: after(1_862),
            upstream_quiet: off(),
            lifetime: off(),
            wall_clock: off(),
            think_tokens_per_second: Setting::default_value(Rate::PerSecond(87)),
            notice_after: Setting::default_value(Notices::DEFAULT),
            phase_defaults: true,
            shows_work: true,
        }
    }
}

/// A rate that may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// No rate: open blocks get no allowance.
    Off,
    /// This many each second, never 0.
    PerSecond(u64),
}

/// When the content clock's quiet is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notices {
    /// After `first`, then after twice as long each time, up to `cap`.
    Doubling {
        /// The first interval.
        first: Duration,
        /// The longest interval.
        cap: Duration,
    },
    /// After every such interval.
    Every(Duration),
    /// Never.
    Off,
}

impl Notices {
    /// The default: 30 s, doubling up to 5 min.
    pub const DEFAULT: Self = Self::Doubling {
        first: Duration::from_secs(30),
        cap: Duration::from_mins(5),
    };
}
