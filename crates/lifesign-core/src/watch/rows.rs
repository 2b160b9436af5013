//! The table of bounds in force for one call.

use std::time::Duration;

use crate::{BoundName, Bounds, Limit, Origin, Rate};

/// What of a call decides which bounds apply and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallShape {
    /// Whether the answer comes in pieces.
    pub streamed: bool,
    /// The most tokens that the answer may have, if the request says.
    pub max_tokens: Option<u64>,
    /// The wire it comes over.
    pub wire: WireDefaults,
}

/// What a wire decides about bounds that nobody set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireDefaults {
    /// The wire's name.
    pub name: &'static str,
    /// The default of `raw_silence`: 180 s on anthropic, else 240 s.
    pub raw_silence: Duration,
    /// Whether the wire shows work before content, so that `before_content` applies by default.
    ///
    /// Read where settings are resolved; a watch goes by [`Bounds::shows_work`].
    pub shows_work: bool,
    /// Whether `between_events` applies by default.
    pub between_events: bool,
}

/// One bound as it stands for one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The bound.
    pub name: BoundName,
    /// Its limit, computed where nobody set one.
    pub limit: Limit,
    /// Where the limit came from.
    pub origin: Origin,
    /// Whether the bound concerns a call of this shape. One that is off or does not apply never
    /// cuts.
    pub applies: bool,
    /// How an open block moves the bound.
    pub join: Option<Join>,
}

/// How an open block moves a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// Which block.
    pub block: JoinBlock,
    /// The bound runs out no earlier than this long after the block opened.
    ///
    /// `None` where the request does not say how much may be thought: the block lifts the bound.
    pub allowance: Option<Duration>,
}

/// The block that moves a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinBlock {
    /// A block that fills in the dark, while it is open and has brought nothing but empty deltas.
    EmptyDark,
    /// The last thinking block that opened before the first content, closed or not.
    Thinking,
}

impl Row {
    /// Returns how long the bound lasts, if it is in force.
    pub const fn in_force(&self) -> Option<Duration> {
        match self.limit {
            Limit::After(limit) if self.applies => Some(limit),
            Limit::After(_) | Limit::Off => None,
        }
    }

    /// Returns what the bound measures, for people.
    pub const fn measures(&self) -> &'static str {
        match self.name {
            BoundName::WallClock => "time since the call began",
            BoundName::Lifetime => "time waited for the upstream, all attempts",
            BoundName::WholeCall | BoundName::Headers | BoundName::BeforeContent => {
                "time since the request was sent"
            }
            BoundName::Connect => "time since connecting began",
            BoundName::BetweenEvents | BoundName::Flat => "time since the last event",
            BoundName::ReasoningOnly => "time since the last output",
            BoundName::UpstreamQuiet => "silence reported by a proxy",
            BoundName::RawSilence => "time since the last byte",
        }
    }

    /// Returns when the bound runs, for people.
    pub const fn runs(&self) -> &'static str {
        match self.name {
            BoundName::WallClock => "always",
            BoundName::Lifetime => "from connecting on",
            BoundName::WholeCall => "until the answer is whole",
            BoundName::Connect => "while connecting",
            BoundName::Headers => "until the response headers",
            BoundName::BeforeContent => "until the first content",
            BoundName::BetweenEvents => "after the first content",
            BoundName::ReasoningOnly => "while reasoning flows",
            BoundName::UpstreamQuiet => "until the next event",
            BoundName::Flat | BoundName::RawSilence => "from the first request byte on",
        }
    }
}

/// Returns every bound as it stands for a call of `shape`, in order of precedence.
pub fn rows(bounds: &Bounds, shape: &CallShape) -> Vec<Row> {
    let table = Table { bounds, shape };
    BoundName::ALL.map(|name| table.row(name)).into()
}

/// Returns the bounds that may cut a call of `shape`, in order of precedence: those in force, and
/// `whole_call`, which comes into force where the answer turns out to be no stream.
pub(super) fn that_may_cut(bounds: &Bounds, shape: &CallShape) -> Vec<Row> {
    let table = Table { bounds, shape };
    let all = BoundName::ALL.map(|name| table.row(name));
    let may_cut = |row: &Row| row.name == BoundName::WholeCall || row.in_force().is_some();
    // No larger than it has to be: a watch is kept for as long as its call.
    let mut rows = Vec::with_capacity(all.iter().filter(|row| may_cut(row)).count());
    rows.extend(all.into_iter().filter(may_cut));
    rows
}

/// Returns what limits a call whose answer is not streamed.
pub(super) fn whole_call(bounds: &Bounds, shape: &CallShape) -> Limit {
    let shape = CallShape {
        streamed: false,
        ..*shape
    };
    let shape = &shape;
    Table { bounds, shape }.limit(BoundName::WholeCall)
}

/// Makes the rows of a stream those of an answer that is not one, which `whole_call` limits. Those
/// that do not apply any more keep their limits.
pub(super) fn become_whole(rows: &mut [Row], whole_call: Limit) {
    for row in rows {
        match row.name {
            BoundName::WallClock | BoundName::Connect => {}
            BoundName::WholeCall => {
                row.limit = whole_call;
                row.applies = true;
            }
            _ => row.applies = row.origin.is_by_hand(),
        }
    }
}

struct Table<'a> {
    bounds: &'a Bounds,
    shape: &'a CallShape,
}

impl Table<'_> {
    fn row(&self, name: BoundName) -> Row {
        let setting = self.bounds.limit(name);
        Row {
            name,
            limit: self.limit(name),
            origin: setting.origin.clone(),
            applies: self.applies(name),
            join: self.join(name),
        }
    }

    fn limit(&self, name: BoundName) -> Limit {
        let setting = self.bounds.limit(name);
        if setting.origin != Origin::Default {
            return setting.value;
        }
        match name {
            BoundName::RawSilence => Limit::After(self.shape.wire.raw_silence),
            BoundName::Flat => Limit::After(match self.allowance() {
                Allowance::After(allowance) => self.setup().saturating_add(allowance).max(LONGEST),
                Allowance::Off | Allowance::Unknown => self.setup().max(LONGEST),
            }),
            BoundName::WholeCall => {
                let whole = match self.allowance() {
                    Allowance::After(allowance) => self.setup().saturating_add(allowance),
                    Allowance::Off | Allowance::Unknown => self.setup().max(LONGEST),
                };
                match self.bounds.headers.value {
                    Limit::After(headers) => Limit::After(whole.max(headers)),
                    Limit::Off => Limit::After(whole),
                }
            }
            _ => setting.value,
        }
    }

    fn applies(&self, name: BoundName) -> bool {
        let origin = &self.bounds.limit(name).origin;
        if origin.is_by_hand() {
            return true;
        }
        let (bounds, shape) = (self.bounds, self.shape);
        let by_default = *origin == Origin::Default;
        match name {
            BoundName::WallClock | BoundName::Connect => true,
            BoundName::WholeCall => !shape.streamed,
            BoundName::BeforeContent if by_default => {
                shape.streamed && bounds.shows_work && bounds.phase_defaults
            }
            BoundName::BetweenEvents if by_default => {
                shape.streamed && shape.wire.between_events && bounds.phase_defaults
            }
            _ => shape.streamed,
        }
    }

    fn join(&self, name: BoundName) -> Option<Join> {
        let block = match name {
            BoundName::BeforeContent => JoinBlock::Thinking,
            BoundName::BetweenEvents => JoinBlock::EmptyDark,
            // The computed limit holds the allowance already.
            BoundName::Flat if self.bounds.flat.origin != Origin::Default => JoinBlock::EmptyDark,
            _ => return None,
        };
        let allowance = match self.allowance() {
            Allowance::After(allowance) => Some(allowance),
            // Something has to bound a block of unknown size.
            Allowance::Unknown if name == BoundName::Flat => return None,
            Allowance::Unknown => None,
            Allowance::Off => return None,
        };
        Some(Join { block, allowance })
    }

    /// The longest that a call may take before its first content, or between two events.
    fn setup(&self) -> Duration {
        let in_force = |name, otherwise| match self.limit(name) {
            Limit::After(limit) if self.applies(name) => limit,
            Limit::After(_) | Limit::Off => otherwise,
        };
        in_force(BoundName::BeforeContent, SETUP_BEFORE_CONTENT)
            .max(in_force(BoundName::BetweenEvents, SETUP_BETWEEN_EVENTS))
    }

    fn allowance(&self) -> Allowance {
        let Rate::PerSecond(rate) = self.bounds.think_tokens_per_second.value else {
            return Allowance::Off;
        };
        let Some(tokens) = self.shape.max_tokens else {
            return Allowance::Unknown;
        };
        let nanos = u128::from(tokens) * NANOS_PER_SEC / u128::from(rate.max(1));
        let seconds = u64::try_from(nanos / NANOS_PER_SEC).unwrap_or(u64::MAX);
        let rest = u32::try_from(nanos % NANOS_PER_SEC).unwrap_or_default();
        Allowance::After(Duration::new(seconds, rest))
    }
}

/// How long a block may fill in the dark.
enum Allowance {
    /// As long as the most tokens take at the slowest.
    After(Duration),
    /// Nobody wants blocks to be allowed for.
    Off,
    /// As long as it takes: the request does not say how many tokens.
    Unknown,
}

/// The longest silence measured in a call that completed.
const LONGEST: Duration = Duration::from_secs(1_862);
const SETUP_BEFORE_CONTENT: Duration = Duration::from_mins(1);
const SETUP_BETWEEN_EVENTS: Duration = Duration::from_secs(150);
const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The defaults of `openai-chat`, for the tests of this crate.
#[cfg(test)]
pub(crate) const CHAT: WireDefaults = WireDefaults {
    name: "openai-chat",
    raw_silence: Duration::from_mins(4),
    shows_work: false,
    between_events: true,
};
