//! How long clocks stood still, counted for each upstream since the gateway started.

use std::collections::BTreeMap;

use lifesign_core::duration::whole_millis;
use lifesign_core::{Clock, Gaps, Phase};

/// How long clocks stood still, by upstream.
#[derive(Debug, Default)]
pub(super) struct Silences(BTreeMap<String, OfUpstream>);

#[derive(Debug, Default)]
struct OfUpstream([[OfClock; Clock::ALL.len()]; PHASES.len()]);

/// How long a clock stood still in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OfClock {
    pub(super) counts: [u64; COUNTS],
    pub(super) longest_ms: u64,
}

impl Silences {
    /// Counts the gaps of an attempt.
    pub(super) fn add(&mut self, upstream: &str, gaps: &Gaps) {
        if *gaps == Gaps::default() {
            return;
        }
        if !self.0.contains_key(upstream) {
            self.0.insert(upstream.to_owned(), OfUpstream::default());
        }
        let Some(OfUpstream(of_phases)) = self.0.get_mut(upstream) else {
            return;
        };
        for (phase, of_clocks) in PHASES.into_iter().zip(of_phases) {
            for (clock, of_clock) in Clock::ALL.into_iter().zip(of_clocks) {
                let longest = gaps.longest(phase, clock);
                if longest.is_zero() {
                    continue;
                }
                of_clock.longest_ms = of_clock.longest_ms.max(whole_millis(longest));
                for (sum, count) in of_clock.counts.iter_mut().zip(gaps.counts(phase, clock)) {
                    *sum += u64::from(count);
                }
            }
        }
    }

    /// Returns what was counted at `upstream`, where there is anything.
    pub(super) fn of(&self, upstream: &str) -> impl Iterator<Item = (Phase, Clock, OfClock)> + '_ {
        let of_upstream = self.0.get(upstream).into_iter();
        let of_phases = of_upstream.flat_map(|of| PHASES.into_iter().zip(&of.0));
        of_phases.flat_map(|(phase, of_clocks)| {
            let of_clocks = Clock::ALL.into_iter().zip(of_clocks);
            let counted = of_clocks.filter(|(_, of_clock)| of_clock.longest_ms > 0);
            counted.map(move |(clock, of_clock)| (phase, clock, *of_clock))
        })
    }

    /// Forgets the upstreams that `is_known` does not know.
    pub(super) fn forget(&mut self, is_known: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_known(name));
    }
}

/// The phases in which something is waited for.
const PHASES: [Phase; 4] = [
    Phase::Sending,
    Phase::WaitingForHeaders,
    Phase::BeforeContent,
    Phase::AfterContent,
];

const COUNTS: usize = Gaps::LIMITS_MS.len() + 1;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lifesign_core::{Bounds, CallShape, Progress, Sign, Watch};
    use lifesign_wire::Wire;
    use pretty_assertions::assert_eq;

    use super::*;

    fn gaps(seconds: u64) -> Gaps {
        let shape = CallShape {
            streamed: true,
            max_tokens: None,
            wire: Wire::OPENAI_CHAT.defaults(),
        };
        let mut watch = Watch::new(&Bounds::default(), &shape, Duration::ZERO, Duration::ZERO);
        watch.handle_sending(Duration::ZERO);
        watch.handle_headers(Duration::ZERO);
        watch.handle_frame(Sign::of(Progress::Output), Duration::from_secs(seconds));
        watch.into_gaps()
    }

    #[test]
    fn gaps_of_attempts_add_up_by_upstream() {
        let mut silences = Silences::default();
        silences.add("acme", &gaps(3));
        silences.add("acme", &gaps(4));
        silences.add("other", &gaps(40));
        silences.add("none", &Gaps::default());

        let raw = silences
            .of("acme")
            .find(|(phase, clock, _)| (*phase, *clock) == (Phase::BeforeContent, Clock::Raw));

        let (_, _, raw) = raw.unwrap();
        assert_eq!((raw.counts[4], raw.counts.iter().sum::<u64>()), (2, 2));
        assert_eq!(raw.longest_ms, 4_000);
        assert_eq!(silences.of("none").count(), 0);
        silences.forget(|name| name == "other");
        assert_eq!(silences.of("acme").count(), 0);
        assert!(silences.of("other").count() > 0);
    }
}
