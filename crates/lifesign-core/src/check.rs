//! Settings that are fine one by one and can never act together.
//!
//! Only what somebody set is reported: a default that never gets its turn is no mistake of
//! anyone's.

use std::fmt;
use std::time::Duration;

use crate::duration::human;
use crate::{
    BoundName, CallShape, Limit, Notices, Origin, Row, Setting, Settings, Tier, Tries, rows,
};

/// A setting that can never act as things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The setting that can never act.
    pub setting: String,
    /// Where it came from.
    pub origin: Origin,
    /// Why, in one clause that begins with the setting and names the one in its way.
    pub message: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.origin)
    }
}

/// Returns every setting that can never act for a call of `shape`.
pub fn check(settings: &Settings, shape: &CallShape) -> Vec<Conflict> {
    check_where(settings, shape, |origin| {
        matches!(origin, Origin::File { .. } | Origin::Env | Origin::Call)
    })
}

/// Reports only settings whose origin is `of_interest`.
fn check_where(
    settings: &Settings,
    shape: &CallShape,
    of_interest: fn(&Origin) -> bool,
) -> Vec<Conflict> {
    let mut check = Check {
        settings,
        shape,
        rows: rows(&settings.bounds, shape),
        of_interest,
        conflicts: Vec::new(),
    };
    check.shadowed_bounds();
    check.bounds_of_streams();
    check.notices();
    check.waits();
    check.tiers();
    check.tries_against_the_wall_clock();
    check.conflicts
}

struct Check<'a> {
    settings: &'a Settings,
    shape: &'a CallShape,
    rows: Vec<Row>,
    of_interest: fn(&Origin) -> bool,
    conflicts: Vec<Conflict>,
}

impl Check<'_> {
    /// Bounds that another one always meets first.
    fn shadowed_bounds(&mut self) {
        use BoundName as B;
        let mut found = Vec::new();
        for row in &self.rows {
            let Some(limit) = row.in_force().filter(|_| (self.of_interest)(&row.origin)) else {
                continue;
            };
            // Each of these runs whenever the bound does, and began no later. At the same instant
            // the first of two in the order of bounds cuts.
            let in_the_way: &[B] = match row.name {
                B::WallClock => &[],
                B::Lifetime => &[B::WallClock],
                B::BetweenEvents => &[B::WallClock, B::Lifetime, B::WholeCall, B::Flat],
                B::Headers => &[
                    B::WallClock,
                    B::Lifetime,
                    B::WholeCall,
                    B::BeforeContent,
                    B::RawSilence,
                ],
                B::BeforeContent => &[B::WallClock, B::Lifetime, B::WholeCall],
                B::RawSilence => &[B::WallClock, B::Lifetime, B::Flat],
                B::Connect | B::Flat | B::ReasoningOnly | B::UpstreamQuiet | B::WholeCall => {
                    &[B::WallClock, B::Lifetime]
                }
            };
            let shadow = in_the_way.iter().copied().find(|name| {
                self.in_force(*name).is_some_and(|other| {
                    if *name < row.name {
                        other <= limit
                    } else {
                        other < limit
                    }
                })
            });
            if let Some(shadow) = shadow {
                found.push((row.name, limit, row.origin.clone(), shadow));
            }
        }
        for (name, limit, origin, shadow) in found {
            let first = self.in_force(shadow).map(human).unwrap_or_default();
            let message = format!(
                "can never cut: {} = {first} always runs out first",
                shadow.setting()
            );
            self.report(name.setting(), &human(limit), origin, &message);
        }
    }

    /// Bounds that need frames, on an answer that has none.
    fn bounds_of_streams(&mut self) {
        if self.shape.streamed {
            return;
        }
        for name in [
            BoundName::BetweenEvents,
            BoundName::ReasoningOnly,
            BoundName::UpstreamQuiet,
        ] {
            let Setting { value, origin } = self.settings.bounds.limit(name).clone();
            if let Limit::After(limit) = value {
                let message = "can never cut: the answer is not streamed, so it has no events";
                self.report(name.setting(), &human(limit), origin, message);
            }
        }
    }

    fn notices(&mut self) {
        let Setting { value, origin } = self.settings.bounds.notice_after.clone();
        let (Notices::Every(every), Some(wall)) = (value, self.in_force(BoundName::WallClock))
        else {
            return;
        };
        if every >= wall {
            let message = format!(
                "is never given: bounds.wall_clock = {} always runs out first",
                human(wall)
            );
            self.report("bounds.notice_after", &human(every), origin, &message);
        }
    }

    /// Waits that another limit never lets happen.
    fn waits(&mut self) {
        let Setting {
            value: wait,
            origin,
        } = self.settings.retry.max_wait.clone();
        let limits = [
            (
                "retry.max_total_wait",
                self.settings.retry.max_total_wait.value,
            ),
            ("bounds.wall_clock", self.settings.bounds.wall_clock.value),
        ];
        for (name, limit) in limits {
            if let Limit::After(limit) = limit
                && wait > limit
            {
                let message = format!("can never be waited: {name} = {} allows less", human(limit));
                self.report("retry.max_wait", &human(wait), origin.clone(), &message);
            }
        }
    }

    /// Tries and pauses of a tier that another setting never lets happen.
    fn tiers(&mut self) {
        let retry = &self.settings.retry;
        let attempts = retry.attempts.value;
        for tier in Tier::ALL {
            let policy = retry.tier(tier);
            let key = |field| format!("retry.{}.{field}", tier.name());
            if let Tries::Count(count) = policy.tries.value
                && count > attempts
            {
                let message =
                    format!("can never be used up: retry.attempts = {attempts} ends it first");
                let origin = policy.tries.origin.clone();
                self.report(&key("tries"), &count.to_string(), origin, &message);
            }
            let (first, max) = (&policy.first_delay, &policy.max_delay);
            if max.origin != Origin::Default && first.value > max.value {
                let message = format!(
                    "is never waited: {} = {} is less",
                    key("max_delay"),
                    human(max.value)
                );
                self.report(
                    &key("first_delay"),
                    &human(first.value),
                    first.origin.clone(),
                    &message,
                );
            }
            if retry.tries(tier) == 1 {
                for (field, delay) in [("first_delay", first), ("max_delay", max)] {
                    let message = "is never waited: there is only one try";
                    self.report(
                        &key(field),
                        &human(delay.value),
                        delay.origin.clone(),
                        message,
                    );
                }
            }
        }
    }

    /// Tries that the wall clock never lets start once a bound has ended those before.
    fn tries_against_the_wall_clock(&mut self) {
        let Some(wall) = self.in_force(BoundName::WallClock) else {
            return;
        };
        let retry = &self.settings.retry;
        for (name, tier) in [
            (BoundName::Connect, Tier::Transport),
            (BoundName::Headers, Tier::Transport),
            (BoundName::RawSilence, Tier::Transport),
            (BoundName::BeforeContent, Tier::Cut),
            (BoundName::Flat, Tier::Cut),
        ] {
            let Some(limit) = self.in_force(name).filter(|limit| *limit < wall) else {
                continue;
            };
            let tries = retry.tries(tier);
            let pauses = (0..tries.saturating_sub(1).min(64)).fold(Duration::ZERO, |sum, n| {
                sum.saturating_add(retry.tier(tier).delay(n))
            });
            let needed = limit.saturating_mul(tries).saturating_add(pauses);
            if tries < 2 || needed <= wall {
                continue;
            }
            let bound = &self.settings.bounds.limit(name).origin;
            let count = [&retry.tier(tier).tries.origin, &retry.attempts.origin];
            let counted = count.into_iter().find(|origin| (self.of_interest)(origin));
            let blamed = if (self.of_interest)(bound) {
                bound
            } else if let (Some(origin), BoundName::RawSilence) = (counted, name) {
                origin
            } else {
                continue;
            };
            let message = format!(
                "cannot be met {tries} times: with the pauses that takes {}, and bounds.wall_clock = \
                 {} ends the call first, so the last tries never start",
                human(needed),
                human(wall)
            );
            self.report(name.setting(), &human(limit), blamed.clone(), &message);
        }
    }

    fn in_force(&self, name: BoundName) -> Option<Duration> {
        self.rows
            .iter()
            .find(|row| row.name == name)
            .and_then(Row::in_force)
    }

    /// Reports a conflict, unless its setting is of no interest.
    fn report(&mut self, setting: &str, value: &str, origin: Origin, message: &str) {
        if (self.of_interest)(&origin) {
            self.conflicts.push(Conflict {
                setting: setting.to_owned(),
                origin,
                message: format!("{setting} = {value} {message}"),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::CHAT;
    use crate::{Hosts, Layer, Profile, ROWS, Target, Value, WireDefaults, resolve};

    const WIRES: [WireDefaults; 3] = [
        CHAT,
        WireDefaults {
            name: "openai-responses",
            between_events: false,
            ..CHAT
        },
        WireDefaults {
            name: "anthropic",
            raw_silence: Duration::from_mins(3),
            shows_work: true,
            between_events: true,
        },
    ];

    fn conflicts(wire: WireDefaults, streamed: bool, entries: &[(&str, &str)]) -> Vec<String> {
        let mut layer = Layer::new();
        for (key, value) in entries {
            layer.set(key, Value::Text(value), Origin::Call).unwrap();
        }
        let target = Target {
            wire: &wire,
            host: None,
            model: None,
        };
        let settings = resolve(&[layer], &target).unwrap();
        let shape = CallShape {
            streamed,
            max_tokens: None,
            wire,
        };
        let conflicts = check(&settings, &shape);
        conflicts
            .into_iter()
            .map(|conflict| conflict.message)
            .collect()
    }

    #[test]
    fn no_shipped_profile_conflicts_with_a_shipped_row() {
        let set_by_us = |origin: &Origin| *origin != Origin::Default;
        for profile in Profile::ALL {
            for row in ROWS {
                for (wire, max_tokens) in WIRES.into_iter().flat_map(|wire| {
                    [None, Some(4_096), Some(128_000)].map(|tokens| (wire, tokens))
                }) {
                    let mut layer = Layer::new();
                    layer
                        .set("profile", Value::Text(profile.name()), Origin::Call)
                        .unwrap();
                    if profile == Profile::Harness {
                        let hours = Value::Text("3h");
                        layer.set("bounds.wall_clock", hours, Origin::Call).unwrap();
                    }
                    let host = match row.hosts {
                        Hosts::Named(names) => names[0],
                        Hosts::Private => "localhost",
                    };
                    let target = Target {
                        wire: &wire,
                        host: Some(host),
                        model: None,
                    };
                    let settings = resolve(&[layer], &target).unwrap();
                    for streamed in [true, false] {
                        let shape = CallShape {
                            streamed,
                            max_tokens,
                            wire,
                        };
                        let found = check_where(&settings, &shape, set_by_us);
                        assert_eq!(found, [], "{profile:?} {} {shape:?}", row.name);
                    }
                }
            }
        }
    }

    #[test]
    fn ordinary_settings_do_not_conflict() {
        for entries in [
            &[("bounds.wall_clock", "2 min")][..],
            &[("bounds.raw_silence", "45s")],
            &[
                ("bounds.raw_silence", "45s"),
                ("bounds.wall_clock", "10 min"),
            ],
            &[("profile", "harness"), ("bounds.wall_clock", "10 min")],
            &[("bounds", "off"), ("bounds.flat", "1s")],
            &[("retry.attempts", "1")],
            &[("bounds.headers", "60s")],
        ] {
            assert_eq!(conflicts(CHAT, true, entries), [""; 0], "{entries:?}");
        }
    }

    #[test]
    fn a_bound_that_another_always_meets_first_is_reported() {
        for (entries, first) in [
            (
                [("bounds.flat", "10 min"), ("bounds.wall_clock", "5 min")],
                "bounds.flat = 10 min can never cut: bounds.wall_clock = 5 min always runs out first",
            ),
            (
                [("bounds.headers", "60s"), ("bounds.raw_silence", "30s")],
                "bounds.headers = 60 s can never cut: bounds.raw_silence = 30 s always runs out first",
            ),
            (
                [("bounds.raw_silence", "60s"), ("bounds.flat", "60s")],
                "bounds.raw_silence = 60 s can never cut: bounds.flat = 60 s always runs out first",
            ),
            (
                [("bounds.between_events", "60s"), ("bounds.flat", "30s")],
                "bounds.between_events = 60 s can never cut: bounds.flat = 30 s always runs out first",
            ),
            (
                [
                    ("bounds.before_content", "60s"),
                    ("bounds.whole_call", "60s"),
                ],
                "bounds.before_content = 60 s can never cut: bounds.whole_call = 60 s always runs out \
                 first",
            ),
            (
                [("bounds.notice_after", "60s"), ("bounds.wall_clock", "60s")],
                "bounds.notice_after = 60 s is never given: bounds.wall_clock = 60 s always runs out \
                 first",
            ),
        ] {
            assert_eq!(conflicts(CHAT, true, &entries), [first]);
        }
    }

    #[test]
    fn bounds_on_events_are_reported_where_there_are_none() {
        let entries = [("bounds.reasoning_only", "60s")];

        assert_eq!(conflicts(CHAT, true, &entries), [""; 0]);
        assert_eq!(
            conflicts(CHAT, false, &entries),
            [
                "bounds.reasoning_only = 60 s can never cut: the answer is not streamed, so it has no \
              events"
            ]
        );
    }

    #[test]
    fn tries_that_can_never_start_are_reported() {
        for (entries, first) in [
            (
                [
                    ("bounds.raw_silence", "45s"),
                    ("bounds.wall_clock", "2 min"),
                ],
                "bounds.raw_silence = 45 s cannot be met 3 times: with the pauses that takes 2 min \
                 17.25 s, and bounds.wall_clock = 2 min ends the call first, so the last tries never \
                 start",
            ),
            (
                [("retry.cut.tries", "5"), ("bounds.wall_clock", "off")],
                "retry.cut.tries = 5 can never be used up: retry.attempts = 4 ends it first",
            ),
            (
                [
                    ("retry.cut.first_delay", "5s"),
                    ("retry.cut.max_delay", "2s"),
                ],
                "retry.cut.first_delay = 5 s is never waited: retry.cut.max_delay = 2 s is less",
            ),
            (
                [("retry.cut.tries", "1"), ("retry.cut.first_delay", "500ms")],
                "retry.cut.first_delay = 500 ms is never waited: there is only one try",
            ),
            (
                [("retry.max_wait", "60s"), ("retry.max_total_wait", "30s")],
                "retry.max_wait = 60 s can never be waited: retry.max_total_wait = 30 s allows less",
            ),
        ] {
            assert_eq!(conflicts(CHAT, true, &entries), [first]);
        }
    }
}
