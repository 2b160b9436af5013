//! A duration for each clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Clock;

/// A duration for each clock: its age at some instant, or its longest gap.
///
/// Serialised as whole milliseconds: `{"raw": 45000, "event": 45000, ...}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ages {
    /// Of the raw clock.
    #[serde(with = "whole_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub raw: Duration,
    /// Of the event clock.
    #[serde(with = "whole_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub event: Duration,
    /// Of the content clock.
    #[serde(with = "whole_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub content: Duration,
    /// Of the output clock.
    #[serde(with = "whole_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub output: Duration,
}

impl Ages {
    /// Returns what `each` says of every clock.
    pub fn of(each: impl Fn(Clock) -> Duration) -> Self {
        Self {
            raw: each(Clock::Raw),
            event: each(Clock::Event),
            content: each(Clock::Content),
            output: each(Clock::Output),
        }
    }

    pub(crate) const fn clock_mut(&mut self, clock: Clock) -> &mut Duration {
        match clock {
            Clock::Raw => &mut self.raw,
            Clock::Event => &mut self.event,
            Clock::Content => &mut self.content,
            Clock::Output => &mut self.output,
        }
    }

    /// Returns the duration of `clock`.
    pub const fn clock(&self, clock: Clock) -> Duration {
        match clock {
            Clock::Raw => self.raw,
            Clock::Event => self.event,
            Clock::Content => self.content,
            Clock::Output => self.output,
        }
    }
}

mod whole_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    use crate::duration;

    pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(duration::whole_millis(*value))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_and_read_as_whole_milliseconds() {
        let ages = Ages {
            raw: Duration::from_micros(1_900),
            event: Duration::from_secs(45),
            content: Duration::from_mins(1),
            output: Duration::MAX,
        };

        let text = serde_json::to_string(&ages).unwrap();
        let back: Ages = serde_json::from_str(&text).unwrap();

        let expected = r#"{"raw":1,"event":45000,"content":60000,"output":18446744073709551615}"#;
        assert_eq!(text, expected);
        assert_eq!(back.raw, Duration::from_millis(1));
        assert_eq!(back.content, Duration::from_mins(1));
    }

    #[test]
    fn each_clock_has_its_own_duration() {
        let ages = Ages::of(|clock| Duration::from_secs(clock as u64 + 1));

        let seconds = Clock::ALL.map(|clock| ages.clock(clock).as_secs());

        assert_eq!(seconds, [1, 2, 3, 4]);
        assert_eq!((ages.raw.as_secs(), ages.output.as_secs()), (1, 4));
    }
}
