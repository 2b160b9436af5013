//! What of an attempt's course is worth drawing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Clock;
use crate::duration::whole_millis;

/// The heartbeats and the longest silences of one attempt, with when they were.
///
/// It is bounded, however long the attempt lasts: heartbeats that come close to one another are one
/// tick, and how close that is grows with their number; of each clock's silences the longest are
/// kept. It is touched where a heartbeat comes or a gap worth drawing ends, never by the ordinary
/// frames of a stream, and takes no room before.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    ticks: Option<Box<Ticks>>,
    silences: Option<Box<[Silences; 4]>>,
}

/// Heartbeats that came close to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// When the first of them came, since the call began.
    pub at_ms: u64,
    /// How many there were.
    pub count: u32,
}

/// A time in which a clock stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// Which clock.
    pub clock: Clock,
    /// When it began, since the call began.
    pub from_ms: u64,
    /// When it ended, since the call began.
    pub to_ms: u64,
}

impl Trace {
    /// Returns the heartbeats, in order.
    pub fn ticks(&self) -> Vec<Tick> {
        let Some(ticks) = &self.ticks else {
            return Vec::new();
        };
        let Ticks {
            at_ms, counts, len, ..
        } = &**ticks;
        let ticks = at_ms.iter().zip(counts).take(usize::from(*len));
        ticks
            .map(|(at_ms, count)| Tick {
                at_ms: u64::from(*at_ms),
                count: *count,
            })
            .collect()
    }

    /// Returns the longest silences of each clock, in order.
    pub fn silences(&self) -> Vec<Silence> {
        let mut silences = Vec::new();
        let of_clocks = self.silences.iter().flat_map(|silences| silences.iter());
        for (clock, of_clock) in Clock::ALL.into_iter().zip(of_clocks) {
            let kept = of_clock.0.iter().filter(|(from, to)| to > from);
            silences.extend(kept.map(|(from, to)| Silence {
                clock,
                from_ms: u64::from(*from),
                to_ms: u64::from(*to),
            }));
        }
        silences.sort_by_key(|silence| (silence.clock, silence.from_ms));
        silences
    }

    pub(super) fn note_beat(&mut self, at: Duration) {
        self.ticks.get_or_insert_default().add(millis(at));
    }

    /// Notes that a gap of `clock` has ended at `at`.
    #[cold]
    pub(super) fn note_gap(&mut self, clock: Clock, at: Duration, gap: Duration) {
        if gap < SHORTEST_DRAWN {
            return;
        }
        let silences = self.silences.get_or_insert_default();
        let kept = &mut silences[clock as usize].0;
        let shortest = kept.iter_mut().min_by_key(|(from, to)| to - from);
        if let Some(shortest) = shortest
            && shortest.1 - shortest.0 < millis(gap)
        {
            *shortest = (millis(at.saturating_sub(gap)), millis(at));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Ticks {
    at_ms: [u32; MOST_TICKS],
    counts: [u32; MOST_TICKS],
    len: u8,
    /// What comes sooner than this after a tick belongs to it.
    spacing_ms: u32,
}

impl Default for Ticks {
    fn default() -> Self {
        Self {
            at_ms: [0; MOST_TICKS],
            counts: [0; MOST_TICKS],
            len: 0,
            spacing_ms: FIRST_SPACING_MS,
        }
    }
}

impl Ticks {
    fn add(&mut self, at_ms: u32) {
        self.put(at_ms, 1);
        if usize::from(self.len) == MOST_TICKS {
            self.thin();
        }
    }

    fn put(&mut self, at_ms: u32, count: u32) {
        let len = usize::from(self.len);
        if let Some(last) = len.checked_sub(1)
            && at_ms.saturating_sub(self.at_ms[last]) < self.spacing_ms
        {
            self.counts[last] = self.counts[last].saturating_add(count);
            return;
        }
        self.at_ms[len] = at_ms;
        self.counts[len] = count;
        self.len += 1;
    }

    /// Joins ticks until half of the room is free again.
    fn thin(&mut self) {
        while usize::from(self.len) > MOST_TICKS / 2 {
            let full = *self;
            self.spacing_ms = self.spacing_ms.saturating_mul(2);
            self.len = 0;
            for at in 0..usize::from(full.len) {
                self.put(full.at_ms[at], full.counts[at]);
            }
        }
    }
}

/// The longest silences of one clock, as from and to; the empty ones are those that there were not.
#[derive(Clone, Copy, Debug, Default)]
struct Silences([(u32, u32); MOST_SILENCES]);

fn millis(at: Duration) -> u32 {
    u32::try_from(whole_millis(at)).unwrap_or(u32::MAX)
}

const MOST_TICKS: usize = 48;
const MOST_SILENCES: usize = 6;
/// Shorter ones are the pace of a stream.
const SHORTEST_DRAWN: Duration = Duration::from_secs(1);
const FIRST_SPACING_MS: u32 = 100;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn heartbeats_of_a_minute_are_each_a_tick() {
        let mut trace = Trace::default();
        for at in [15, 30, 45, 60] {
            trace.note_beat(Duration::from_secs(at));
        }
        trace.note_beat(Duration::from_millis(60_050));

        let ticks: Vec<_> = trace.ticks().iter().map(|t| (t.at_ms, t.count)).collect();

        assert_eq!(ticks, [(15_000, 1), (30_000, 1), (45_000, 1), (60_000, 2)]);
    }

    #[test]
    fn of_many_silences_the_longest_are_kept_in_order() {
        let mut trace = Trace::default();
        let mut at = Duration::ZERO;
        for gap in [2_000, 900, 9_000, 3_000, 4_000, 5_000, 6_000, 7_000] {
            let gap = Duration::from_millis(gap);
            at += gap;
            trace.note_gap(Clock::Event, at, gap);
        }

        let kept: Vec<_> = trace
            .silences()
            .iter()
            .map(|silence| (silence.from_ms, silence.to_ms - silence.from_ms))
            .collect();

        assert_eq!(
            kept,
            [
                (2_900, 9_000),
                (11_900, 3_000),
                (14_900, 4_000),
                (18_900, 5_000),
                (23_900, 6_000),
                (29_900, 7_000)
            ]
        );
    }

    proptest! {
        #[test]
        fn no_heartbeat_is_lost_and_the_first_stays_where_it_was(
            gaps in prop::collection::vec(0_u64..40_000, 1..2_000),
        ) {
            let mut trace = Trace::default();
            let mut at = 0;
            for gap in &gaps {
                at += gap;
                trace.note_beat(Duration::from_millis(at));
            }

            let ticks = trace.ticks();

            prop_assert!(ticks.len() < MOST_TICKS);
            let counted: u64 = ticks.iter().map(|tick| u64::from(tick.count)).sum();
            prop_assert_eq!(counted, gaps.len() as u64);
            prop_assert_eq!(ticks[0].at_ms, gaps[0]);
            prop_assert!(ticks.is_sorted_by_key(|tick| tick.at_ms));
        }
    }
}
