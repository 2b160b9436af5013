//! Where an attempt stands, for whoever looks on.

use std::time::Duration;

use super::{Joined, Row, Trace, Watch};
use crate::{BoundName, Origin};

/// A bound that is in force, as it stands at some instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundReading {
    /// The bound.
    pub name: BoundName,
    /// The limit in force now: learned, or made longer by an open block, where that is so.
    pub limit: Duration,
    /// What made the limit longer than it is in itself, if an open block did.
    pub joined: Option<Joined>,
    /// Where the limit came from.
    pub origin: Origin,
    /// How much of it has passed, while it runs.
    pub age: Option<Duration>,
    /// When it runs out, since the call began, while it runs and nothing lifts it.
    pub due: Option<Duration>,
}

impl Watch {
    /// Returns every bound in force as it stands at `now`, in order of precedence.
    ///
    /// One that is in force for a later phase has neither an age nor a time at which it is due.
    pub fn bound_readings(&self, now: Duration) -> Vec<BoundReading> {
        let call_time = now.max(self.latest);
        let in_force = self.rows.iter().filter_map(|row| {
            let limit = self.limit(row)?;
            let (limit, joined) = self.lasts(row).unwrap_or((limit, None));
            let is_learned = self.learned(row).is_some();
            Some(BoundReading {
                name: row.name,
                limit,
                joined,
                origin: if is_learned {
                    Origin::Learned
                } else {
                    row.origin.clone()
                },
                age: self.bound_age(row, call_time),
                due: self.due(row),
            })
        });
        in_force.collect()
    }

    /// Returns how much of the limit of `row` has passed, while it runs.
    fn bound_age(&self, row: &Row, call_time: Duration) -> Option<Duration> {
        let now = self.upstream_time(call_time);
        if row.name == BoundName::WallClock {
            return Some(call_time);
        }
        let passed = now.saturating_sub(self.start(row.name)?);
        Some(match row.name {
            BoundName::Lifetime => self.lifetime_spent.saturating_add(passed),
            BoundName::UpstreamQuiet => self.report?.silent.saturating_add(passed),
            _ => passed,
        })
    }

    /// Returns for how long the consumer has paused at `now`, while it does.
    pub fn pausing(&self, now: Duration) -> Option<Duration> {
        let since = self.paused_since?;
        Some(now.max(self.latest).saturating_sub(since))
    }

    /// Returns whether the latest content is reasoning, or a block of thinking has opened and no
    /// content came yet.
    pub const fn is_reasoning(&self) -> bool {
        self.reasons.is_some() || (self.thinking.is_some() && self.tally.first_content.is_none())
    }

    /// Returns whether the answer comes in pieces.
    pub const fn is_streamed(&self) -> bool {
        self.streamed
    }

    /// Returns what of the attempt's course is worth drawing.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Takes what of the attempt's course is worth drawing, of an attempt that has ended.
    pub fn take_trace(&mut self) -> Trace {
        std::mem::take(&mut self.trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::CHAT;
    use crate::{Bounds, CallShape, HeartbeatOrigin, Limit, Progress, Setting, Sign};

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn watch(change: impl FnOnce(&mut Bounds)) -> Watch {
        let mut bounds = Bounds {
            shows_work: false,
            ..Bounds::default()
        };
        change(&mut bounds);
        let shape = CallShape {
            streamed: true,
            max_tokens: None,
            wire: CHAT,
        };
        Watch::new(&bounds, &shape, Duration::ZERO, secs(5))
    }

    fn reading(watch: &Watch, name: BoundName, now: Duration) -> Option<BoundReading> {
        let mut readings = watch.bound_readings(now).into_iter();
        readings.find(|reading| reading.name == name)
    }

    #[test]
    fn what_runs_has_an_age_and_what_comes_later_has_none() {
        let mut watch = watch(|_| {});
        watch.handle_sending(secs(1));
        watch.handle_sent(secs(1));

        let headers = reading(&watch, BoundName::Headers, secs(11)).unwrap();
        let between = reading(&watch, BoundName::BetweenEvents, secs(11)).unwrap();

        assert_eq!(headers.limit, secs(120));
        assert_eq!(headers.origin, Origin::Default);
        assert_eq!(
            (headers.age, headers.due),
            (Some(secs(10)), Some(secs(121)))
        );
        assert_eq!((between.age, between.due), (None, None));
        // It is off, and on this wire the other does not apply.
        for name in [BoundName::WallClock, BoundName::BeforeContent] {
            assert_eq!(reading(&watch, name, secs(11)), None);
        }
    }

    #[test]
    fn time_that_earlier_attempts_spent_is_in_the_age_of_the_lifetime() {
        let mut watch = watch(|bounds| {
            bounds.lifetime = Setting {
                value: Limit::After(secs(60)),
                origin: Origin::Env,
            };
        });
        watch.handle_sending(secs(2));

        let lifetime = reading(&watch, BoundName::Lifetime, secs(12)).unwrap();

        assert_eq!(lifetime.age, Some(secs(15)));
        assert_eq!(lifetime.due, Some(secs(57)));
        assert_eq!(lifetime.origin, Origin::Env);
    }

    #[test]
    fn a_learned_limit_says_that_it_is() {
        let mut watch = watch(|_| {});
        watch.handle_sending(secs(0));
        watch.handle_headers(secs(1));
        for at in [10, 20, 30, 40] {
            watch.handle_bytes(2, secs(at));
            watch.handle_frame(Sign::heartbeat(HeartbeatOrigin::Comment), secs(at));
        }

        let raw = reading(&watch, BoundName::RawSilence, secs(45)).unwrap();

        assert_eq!((raw.limit, raw.origin), (secs(60), Origin::Learned));
        assert_eq!((raw.age, raw.due), (Some(secs(5)), Some(secs(100))));
        let ticks: Vec<_> = watch.trace().ticks().iter().map(|t| t.at_ms).collect();
        assert_eq!(ticks, [10_000, 20_000, 30_000, 40_000]);
    }

    #[test]
    fn while_the_consumer_pauses_nothing_but_the_wall_clock_is_due() {
        let mut watch = watch(|_| {});
        watch.handle_sending(secs(0));
        watch.handle_headers(secs(1));
        watch.handle_frame(Sign::of(Progress::Output), secs(2));
        watch.handle_pause(secs(3));

        let raw = reading(&watch, BoundName::RawSilence, secs(63)).unwrap();

        assert_eq!((raw.age, raw.due), (Some(secs(1)), None));
        assert_eq!(watch.pausing(secs(63)), Some(secs(60)));
        watch.handle_resume(secs(64));
        assert_eq!(watch.pausing(secs(65)), None);
        let silences = watch.trace().silences();
        assert_eq!((silences[0].from_ms, silences[0].to_ms), (0, 1_000));
    }

    #[test]
    fn reasoning_is_told_from_output() {
        let mut watch = watch(|_| {});
        watch.handle_sending(secs(0));
        assert!(!watch.is_reasoning());

        watch.handle_frame(Sign::of(Progress::Reasoning), secs(2));
        assert!(watch.is_reasoning());
        watch.handle_frame(Sign::of(Progress::Output), secs(3));

        assert!(!watch.is_reasoning());
    }
}
