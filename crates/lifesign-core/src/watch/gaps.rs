//! How long each clock stood still, and how often.

use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::duration::whole_millis;
use crate::{Ages, Clock, Phase};

/// The gaps of one attempt: for each phase and clock the longest, and how many were how long.
///
/// A gap belongs to the phase in which it ended; the one that is open belongs to the phase at hand.
/// Gaps under 100 ms are the ordinary pace of a stream and are not counted.
///
/// Serialised, it is an object of phases, each an object of clocks:
/// `{"before_content": {"raw": {"longest_ms": 2100, "counts": [0, 3, ...]}, ...}, ...}`, where the
/// counts stand for the gaps below each of [`Gaps::LIMITS_MS`], and the last for those above.
/// Phases and clocks without a gap are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Nothing for a phase without a gap: a stream at its ordinary pace has none.
    phases: [Option<Box<PhaseGaps>>; PHASES.len()],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PhaseGaps {
    longest: Ages,
    counts: [[u16; COUNTS]; 4],
}

impl Gaps {
    /// The upper limits of the counts, in milliseconds. They hold the default bounds, so that it
    /// can be seen how near gaps come to them.
    pub const LIMITS_MS: [u64; COUNTS - 1] = [
        250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 30_000, 45_000, 60_000, 90_000, 120_000,
        150_000, 180_000, 240_000, 300_000, 600_000, 1_200_000, 1_862_000,
    ];

    /// Counts a gap of `clock` that ended in `phase`; returns whether it is long enough for one.
    #[inline]
    pub(super) fn count(&mut self, phase: Phase, clock: Clock, gap: Duration) -> bool {
        // Nearly every frame of a busy stream ends here.
        let is_gap = gap >= SHORTEST;
        if is_gap {
            self.add(phase, clock, gap);
        }
        is_gap
    }

    #[cold]
    fn add(&mut self, phase: Phase, clock: Clock, gap: Duration) {
        let Some(phase) = self.phase_mut(phase) else {
            return;
        };
        let longest = phase.longest.clock_mut(clock);
        *longest = gap.max(*longest);
        let millis = whole_millis(gap);
        let at = Self::LIMITS_MS.partition_point(|limit| *limit <= millis);
        let count = &mut phase.counts[clock as usize][at];
        *count = count.saturating_add(1);
    }

    /// Returns the longest gap of `clock` in `phase`; zero if none was counted.
    pub fn longest(&self, phase: Phase, clock: Clock) -> Duration {
        self.phase(phase)
            .map_or(Duration::ZERO, |phase| phase.longest.clock(clock))
    }

    /// Returns how many gaps of `clock` in `phase` were below each of
    /// [`LIMITS_MS`](Self::LIMITS_MS) and not below the one before, and last those above all.
    pub fn counts(&self, phase: Phase, clock: Clock) -> [u16; COUNTS] {
        self.phase(phase)
            .map_or([0; COUNTS], |phase| phase.counts[clock as usize])
    }

    fn phase(&self, phase: Phase) -> Option<&PhaseGaps> {
        let at = PHASES.iter().position(|known| *known == phase)?;
        self.phases.get(at)?.as_deref()
    }

    fn phase_mut(&mut self, phase: Phase) -> Option<&mut PhaseGaps> {
        let at = PHASES.iter().position(|known| *known == phase)?;
        Some(self.phases.get_mut(at)?.get_or_insert_default())
    }
}

impl Serialize for Gaps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (phase, gaps) in PHASES.iter().zip(&self.phases) {
            if let Some(gaps) = gaps {
                map.serialize_entry(phase, gaps)?;
            }
        }
        map.end()
    }
}

impl Serialize for PhaseGaps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for clock in Clock::ALL {
            let longest = self.longest.clock(clock);
            if !longest.is_zero() {
                let of_clock = ClockGaps {
                    longest_ms: whole_millis(longest),
                    counts: self.counts[clock as usize],
                };
                map.serialize_entry(clock.name(), &of_clock)?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct ClockGaps {
    longest_ms: u64,
    counts: [u16; COUNTS],
}

/// The phases in which something is waited for.
const PHASES: [Phase; 4] = [
    Phase::Sending,
    Phase::WaitingForHeaders,
    Phase::BeforeContent,
    Phase::AfterContent,
];

const COUNTS: usize = 20;

/// Nothing shorter is a gap.
const SHORTEST: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_by_phase_clock_and_length() {
        let mut gaps = Gaps::default();
        let after = Phase::AfterContent;
        for millis in [99, 100, 249, 250, 1_862_000] {
            gaps.count(after, Clock::Event, Duration::from_millis(millis));
        }
        gaps.count(Phase::Queued, Clock::Event, Duration::from_secs(9));

        let counts = gaps.counts(after, Clock::Event);
        assert_eq!((counts[0], counts[1], counts[19]), (2, 1, 1));
        assert_eq!(gaps.longest(after, Clock::Event).as_secs(), 1_862);
        assert_eq!(gaps.counts(after, Clock::Raw), [0; COUNTS]);
        assert_eq!(
            gaps.longest(Phase::BeforeContent, Clock::Event),
            Duration::ZERO
        );
    }

    #[test]
    fn only_what_there_was_is_written_down() {
        let mut gaps = Gaps::default();
        gaps.count(Phase::BeforeContent, Clock::Raw, Duration::from_millis(700));

        let json = serde_json::to_string(&gaps).unwrap();

        assert_eq!(
            json,
            "{\"before_content\":{\"raw\":{\"longest_ms\":700,\"counts\":\
             [0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}}}"
        );
        assert_eq!(serde_json::to_string(&Gaps::default()).unwrap(), "{}");
    }

    #[test]
    fn a_flood_of_gaps_stays_at_the_most() {
        let mut gaps = Gaps::default();
        for _ in 0..70_000 {
            gaps.count(Phase::AfterContent, Clock::Raw, SHORTEST);
        }

        assert_eq!(gaps.counts(Phase::AfterContent, Clock::Raw)[0], u16::MAX);
    }
}
