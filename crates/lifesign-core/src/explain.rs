//! What is in force for one call, in words.

use std::fmt::Write;

use serde::Serialize;

use crate::{BoundName, CallShape, Join, JoinBlock, KEYS, Limit, Row, Settings, duration, rows};

/// One setting as it stands for one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explained {
    /// The setting's name.
    pub key: &'static str,
    /// The value in force, for people; for bounds computed from the call.
    pub value: String,
    /// Where it came from.
    pub origin: String,
    /// Whether it concerns this call.
    pub applies: bool,
    /// What it means for this call.
    pub means: String,
}

/// Returns every setting as it stands for a call of `shape`, in the order of the reference.
pub fn explain(settings: &Settings, shape: &CallShape) -> Vec<Explained> {
    let rows = rows(&settings.bounds, shape);
    KEYS.iter()
        .filter_map(|key| {
            let row = rows.iter().find(|row| row.name.setting() == key.name);
            let (value, origin) = key.show(settings)?;
            Some(match row {
                Some(row) => Explained {
                    key: key.name,
                    value: match row.limit {
                        // A computed limit may have more digits than anyone reads.
                        Limit::After(limit) => duration::human_measured(limit),
                        Limit::Off => "off".to_owned(),
                    },
                    origin: row.origin.to_string(),
                    applies: row.in_force().is_some(),
                    means: means(row, settings, shape),
                },
                None => Explained {
                    key: key.name,
                    value,
                    origin: origin.to_string(),
                    applies: true,
                    means: key.doc.to_owned(),
                },
            })
        })
        .collect()
}

fn means(row: &Row, settings: &Settings, shape: &CallShape) -> String {
    if row.limit == Limit::Off {
        return format!("never cuts; would be {}", row.measures());
    }
    if !row.applies {
        return format!("does not apply: {}", why_not(row.name, settings, shape));
    }
    let mut text = format!("{}, {}", row.measures(), row.runs());
    if let Some(Join { block, allowance }) = row.join {
        let block = match block {
            JoinBlock::EmptyDark => "a block fills in the dark",
            JoinBlock::Thinking => "a thinking block is open",
        };
        // Writing to a string cannot fail.
        let _infallible = match allowance {
            Some(allowance) => {
                let allowance = duration::human_measured(allowance);
                write!(text, "; while {block} at least {allowance} from its start")
            }
            None => write!(text, "; not while {block}, since max_tokens is not known"),
        };
    }
    text
}

fn why_not(name: BoundName, settings: &Settings, shape: &CallShape) -> &'static str {
    match name {
        BoundName::WholeCall => "the answer is streamed",
        _ if !shape.streamed => "the answer is not streamed",
        BoundName::BeforeContent | BoundName::BetweenEvents if !settings.bounds.phase_defaults => {
            "the catalog knows this upstream to be slow without a sign"
        }
        BoundName::BeforeContent => {
            "the upstream may think without a sign before the first content"
        }
        _ => "the wire is silent between events",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Layer, Origin, Target, Value, WireDefaults, resolve};

    const ANTHROPIC: WireDefaults = WireDefaults {
        name: "anthropic",
        raw_silence: Duration::from_mins(3),
        shows_work: true,
        between_events: true,
    };

    fn explained(host: &str, streamed: bool, max_tokens: Option<u64>) -> Vec<Explained> {
        let mut layer = Layer::new();
        layer
            .set("bounds.raw_silence", Value::Text("45s"), Origin::Env)
            .unwrap();
        let target = Target {
            wire: &ANTHROPIC,
            host: Some(host),
            model: None,
        };
        let settings = resolve(&[layer], &target).unwrap();
        explain(
            &settings,
            &CallShape {
                streamed,
                max_tokens,
                wire: ANTHROPIC,
            },
        )
    }

    fn line(explained: &[Explained], key: &str) -> String {
        let found = explained.iter().find(|line| line.key == key).unwrap();
        let Explained {
            value,
            origin,
            applies,
            means,
            ..
        } = found;
        format!("{value} ({origin}, {applies}): {means}")
    }

    #[test]
    fn each_setting_says_its_value_its_origin_and_what_it_means() {
        let lines = explained("api.anthropic.com", true, Some(32_000));

        for (key, text) in [
            (
                "bounds.raw_silence",
                "45 s (env, true): time since the last byte, from the first request byte on",
            ),
            (
                "bounds.before_content",
                "60 s (default, true): time since the request was sent, until the first content; \
                 while a thinking block is open at least 6 min 7.8 s from its start",
            ),
            (
                "bounds.wall_clock",
                "off (default, false): never cuts; would be time since the call began",
            ),
            (
                "retry.attempts",
                "4 (default, true): requests sent for a call, all tiers together",
            ),
        ] {
            assert_eq!(line(&lines, key), text);
        }
        assert_eq!(lines.len(), KEYS.len() - 1);
    }

    #[test]
    fn what_does_not_apply_says_why() {
        for (host, streamed, key, why) in [
            (
                "a.example",
                true,
                "bounds.whole_call",
                "the answer is streamed",
            ),
            (
                "a.example",
                false,
                "bounds.headers",
                "the answer is not streamed",
            ),
            (
                "localhost",
                true,
                "bounds.between_events",
                "the catalog knows this upstream to be slow without a sign",
            ),
            (
                "openrouter.ai",
                true,
                "bounds.before_content",
                "the upstream may think without a sign before the first content",
            ),
        ] {
            let text = line(&explained(host, streamed, None), key);
            assert!(
                text.ends_with(&format!("false): does not apply: {why}")),
                "{text}"
            );
        }
    }
}
