//! From what everybody set to what is in force.
//!
//! Defaults give way to the catalog, the catalog to a profile, a profile to the file, the file to
//! the environment, and the environment to the call. Each value keeps the name of the one that set
//! it.

use std::borrow::Borrow;

use crate::{
    CatalogRow, Key, Limit, Origin, Profile, Setting, SettingError, Settings, Value, WireDefaults,
};

/// What one source has set, in the order in which it said so.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    key: &'static Key,
    value: Written,
    origin: Origin,
}

/// A [`Value`] that owns its text and is not null.
#[derive(Clone, Debug)]
enum Written {
    Bool(bool),
    Float(f64),
    Integer(i64),
    Text(String),
}

impl Layer {
    /// Returns a layer that sets nothing.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Sets `key` to `value`; a later value of the same layer wins. [`Value::Null`] sets nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such key, with a suggestion, or if the value cannot be used.
    pub fn set(&mut self, key: &str, value: Value<'_>, origin: Origin) -> Result<(), SettingError> {
        let at_fault = |error: SettingError| match &origin {
            Origin::File { .. } => error.with_position(origin.to_string()),
            _ => error,
        };
        let key = Key::find(key).map_err(at_fault)?;
        key.put(&mut Settings::default(), value, &origin)
            .map_err(at_fault)?;
        let value = match value {
            Value::Bool(value) => Written::Bool(value),
            Value::Float(value) => Written::Float(value),
            Value::Integer(value) => Written::Integer(value),
            Value::Null => return Ok(()),
            Value::Text(text) => Written::Text(text.to_owned()),
        };
        self.entries.push(Entry { key, value, origin });
        Ok(())
    }

    /// Returns whether the layer sets nothing.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the names of what the layer sets, in the order in which it does.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|entry| entry.key.name)
    }

    /// Returns the profile that the layer names last, if it names one.
    fn profile(&self) -> Result<Option<Setting<Profile>>, SettingError> {
        let mut settings = Settings::default();
        let mut found = false;
        for entry in self
            .entries
            .iter()
            .filter(|entry| entry.key.name == PROFILE)
        {
            entry.put(&mut settings)?;
            found = true;
        }
        Ok(found.then_some(settings.profile))
    }
}

impl Entry {
    fn put(&self, settings: &mut Settings) -> Result<(), SettingError> {
        let value = match &self.value {
            Written::Bool(value) => Value::Bool(*value),
            Written::Float(value) => Value::Float(*value),
            Written::Integer(value) => Value::Integer(*value),
            Written::Text(text) => Value::Text(text),
        };
        self.key.put(settings, value, &self.origin)
    }
}

/// Whom a call is for: what the catalog goes by.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// What the wire decides.
    pub wire: &'a WireDefaults,
    /// The upstream's host, without port.
    pub host: Option<&'a str>,
    /// The model.
    pub model: Option<&'a str>,
}

impl Settings {
    /// Returns what holds for a call to `target` where nobody set anything: the defaults, what the
    /// wire says, and the row of the catalog.
    pub fn of_target(target: &Target<'_>) -> Self {
        let mut settings = Self::default();
        settings.bounds.raw_silence.value = Limit::After(target.wire.raw_silence);
        settings.bounds.shows_work = target.wire.shows_work;
        if let Some(row) = CatalogRow::of(target) {
            row.apply(&mut settings.bounds);
        }
        settings
    }
}

/// Returns the settings in force for a call to `target`.
///
/// `layers` go from the weakest to the strongest: file, environment, call. A `profile` in any of
/// them counts as a profile, weaker than every other setting of every layer.
///
/// # Errors
///
/// Returns an error if the profile asks for a wall clock and none is given.
pub fn resolve<L: Borrow<Layer>>(
    layers: &[L],
    target: &Target<'_>,
) -> Result<Settings, SettingError> {
    let mut settings = Settings::of_target(target);
    for layer in layers {
        if let Some(profile) = layer.borrow().profile()? {
            settings.profile = profile;
        }
    }
    settings.profile.value.apply(&mut settings.bounds);
    for layer in layers {
        for entry in &layer.borrow().entries {
            if entry.key.name != PROFILE {
                entry.put(&mut settings)?;
            }
        }
    }
    if settings.profile.value == Profile::Harness && settings.bounds.wall_clock.value == Limit::Off
    {
        return Err(wall_clock_missing(&settings));
    }
    Ok(settings)
}

fn wall_clock_missing(settings: &Settings) -> SettingError {
    let problem = match settings.bounds.wall_clock.origin {
        Origin::Profile => "is not set, and the profile `harness` needs it",
        _ => "is off, and the profile `harness` needs it",
    };
    SettingError::new("bounds.wall_clock", problem)
        .with_accepted("a duration such as \"10 min\"")
        .with_hint("set it, or take the profile `patient`")
}

const PROFILE: &str = "profile";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::watch::CHAT;
    use crate::{BoundName, KEYS, Notices, Rate, Tries};

    fn file(line: u32) -> Origin {
        Origin::File {
            path: "lifesign.toml".to_owned(),
            line,
        }
    }

    fn layer(entries: &[(&str, &str)], origin: &Origin) -> Layer {
        let mut layer = Layer::new();
        for (key, value) in entries {
            layer
                .set(key, Value::of_text(value), origin.clone())
                .unwrap();
        }
        layer
    }

    fn resolved(layers: &[Layer], host: &str) -> Settings {
        let target = Target {
            wire: &CHAT,
            host: Some(host),
            model: None,
        };
        resolve(layers, &target).unwrap()
    }

    fn call(entries: &[(&str, &str)]) -> Settings {
        resolved(&[layer(entries, &Origin::Call)], "example.com")
    }

    fn refusal(key: &str, value: Value<'_>) -> String {
        Layer::new()
            .set(key, value, Origin::Call)
            .unwrap_err()
            .to_string()
    }

    fn secs(seconds: u64) -> Limit {
        Limit::After(Duration::from_secs(seconds))
    }

    #[test]
    fn the_stronger_source_wins_and_is_named() {
        let raw = "bounds.raw_silence";
        let mut layers = vec![];
        let mut seen = vec![];
        for (seconds, origin) in [(1, file(3)), (2, Origin::Env), (3, Origin::Call)] {
            layers.push(layer(&[(raw, &format!("{seconds}s"))], &origin));
            seen.push(resolved(&layers, "api.openai.com").bounds.raw_silence);
        }

        assert_eq!(
            resolved(&[], "example.com").bounds.raw_silence,
            Setting::default_value(secs(240))
        );
        assert_eq!(
            resolved(&[], "api.openai.com").bounds.raw_silence,
            Setting {
                value: secs(1_862),
                origin: Origin::Catalog
            }
        );
        assert_eq!(
            seen,
            [
                Setting {
                    value: secs(1),
                    origin: file(3)
                },
                Setting {
                    value: secs(2),
                    origin: Origin::Env
                },
                Setting {
                    value: secs(3),
                    origin: Origin::Call
                },
            ]
        );
    }

    #[test]
    fn a_profile_of_any_layer_is_weaker_than_every_setting_of_every_layer() {
        let layers = [
            layer(&[("bounds.flat", "20 min")], &file(2)),
            layer(&[("profile", "patient")], &Origin::Call),
        ];

        let settings = resolved(&layers, "api.openai.com");

        assert_eq!(
            settings.profile,
            Setting {
                value: Profile::Patient,
                origin: Origin::Call
            }
        );
        assert_eq!(
            settings.bounds.flat,
            Setting {
                value: secs(1_200),
                origin: file(2)
            }
        );
        assert_eq!(
            settings.bounds.headers,
            Setting {
                value: Limit::Off,
                origin: Origin::Profile
            }
        );
        assert_eq!(settings.bounds.raw_silence.origin, Origin::Catalog);
        assert_eq!(settings.bounds.connect.origin, Origin::Default);
        assert_eq!(settings.bounds.notice_after.value, Notices::DEFAULT);
    }

    #[test]
    fn patient_turns_off_all_but_connect_and_raw_silence() {
        let settings = call(&[("profile", "patient")]);

        let on: Vec<_> = BoundName::ALL
            .into_iter()
            .filter(|name| settings.bounds.limit(*name).value != Limit::Off)
            .collect();
        assert_eq!(on, [BoundName::Connect, BoundName::RawSilence]);
    }

    #[test]
    fn harness_wants_a_wall_clock() {
        let target = Target {
            wire: &CHAT,
            host: None,
            model: None,
        };
        let without = layer(&[("profile", "harness")], &Origin::Call);
        let with_off = layer(&[("profile", "harness"), ("bounds", "off")], &Origin::Call);
        let with = layer(
            &[("profile", "harness"), ("bounds.wall_clock", "10 min")],
            &Origin::Env,
        );

        assert_eq!(
            resolve(&[without], &target).unwrap_err().to_string(),
            "bounds.wall_clock: is not set, and the profile `harness` needs it; accepted: a \
             duration such as \"10 min\"; set it, or take the profile `patient`"
        );
        assert!(resolve(&[with_off], &target).is_err());
        assert_eq!(
            resolve(&[with], &target).unwrap().bounds.wall_clock.value,
            secs(600)
        );
    }

    #[test]
    fn zero_and_off_turn_every_bound_off_in_every_spelling() {
        for name in BoundName::ALL {
            for value in [
                Value::Integer(0),
                Value::Text("0"),
                Value::Text("0s"),
                Value::Text("off"),
                Value::Text("0 min"),
            ] {
                let mut layer = Layer::new();
                layer.set(name.setting(), value, Origin::Call).unwrap();

                let settings = resolved(&[layer], "api.openai.com");

                let off = Setting {
                    value: Limit::Off,
                    origin: Origin::Call,
                };
                assert_eq!(settings.bounds.limit(name), &off, "{name:?} {value}");
            }
        }
    }

    #[test]
    fn null_is_the_same_as_absent_for_every_setting() {
        let below = layer(
            &[("bounds.flat", "20 min"), ("retry.attempts", "2")],
            &file(1),
        );
        let absent = resolved(std::slice::from_ref(&below), "api.openai.com");

        for key in KEYS {
            let null = layer(&[(key.name, "null")], &Origin::Call);

            assert_eq!(
                resolved(&[below.clone(), null], "api.openai.com"),
                absent,
                "{}",
                key.name
            );
        }
    }

    #[test]
    fn bounds_off_turns_all_of_them_off_and_a_later_one_on_again() {
        let settings = call(&[("bounds", "off"), ("bounds.flat", "5 min")]);

        for name in BoundName::ALL {
            let limit = if name == BoundName::Flat {
                secs(300)
            } else {
                Limit::Off
            };
            assert_eq!(settings.bounds.limit(name).value, limit, "{name:?}");
        }
        assert_eq!(
            refusal("bounds", Value::Text("45s")),
            "bounds: \"45s\" is a limit for no bound; accepted: \"off\", which turns every bound off"
        );
    }

    #[test]
    fn every_bound_refuses_what_is_no_duration() {
        for name in BoundName::ALL {
            for (value, problem) in [
                (Value::Text("-5s"), "\"-5s\" is negative"),
                (Value::Text("NaN"), "\"NaN\" is not a duration"),
                (Value::Text("1e3s"), "\"1e3s\" is written with an exponent"),
                (Value::Text("45"), "\"45\" has no unit"),
                (Value::Text(""), "\"\" is empty"),
                (
                    Value::Text("2^64ms"),
                    "\"2^64ms\" is written with an exponent",
                ),
                (
                    Value::Text("2 months"),
                    "\"2 months\" has a unit of the calendar, which has no fixed length",
                ),
                (Value::Integer(45), "45 has no unit"),
                (Value::Integer(-5), "-5 is negative"),
                (Value::Float(f64::NAN), "NaN is not a number"),
                (Value::Float(f64::INFINITY), "inf is too long"),
                (Value::Float(4.5), "4.5 has no unit"),
                (Value::Bool(true), "true is not a duration"),
            ] {
                assert_eq!(
                    refusal(name.setting(), value),
                    format!(
                        "{}: {problem}; accepted: a duration such as \"45s\" or \"2 min\", or \"off\"",
                        name.setting()
                    )
                );
            }
        }
    }

    #[test]
    fn counts_rates_and_sizes_of_zero_are_refused() {
        for key in [
            "retry.attempts",
            "retry.cut.tries",
            "bounds.think_tokens_per_second",
            "limits.line",
            "retry.transport.first_delay",
            "retry.rate.max_delay",
        ] {
            for value in [
                Value::Integer(0),
                Value::Integer(-1),
                Value::Text("0"),
                Value::Text("-1"),
            ] {
                let refused = refusal(key, value);
                assert!(
                    refused.starts_with(&format!("{key}: {value} ")),
                    "{refused}"
                );
            }
        }
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_point() {
        for key in [
            "retry.attempts",
            "retry.cut.tries",
            "bounds.think_tokens_per_second",
        ] {
            let accepted = Key::find(key).unwrap().accepted();
            assert!(accepted.contains("(4.0 is one)"), "{key}: {accepted}");
            for value in [Value::Float(4.0), Value::Text("4.0"), Value::Text("4.00")] {
                let mut layer = Layer::new();
                layer.set(key, value, Origin::Call).unwrap();
                let settings = resolved(&[layer], "api.openai.com");
                let (shown, _) = Key::find(key).unwrap().show(&settings).unwrap();
                assert_eq!(shown, "4", "{key} {value}");
            }
            for value in [Value::Float(4.5), Value::Text("4.5"), Value::Text("4.")] {
                let refused = refusal(key, value);
                assert!(refused.contains("is not a whole number"), "{refused}");
            }
        }
    }

    #[test]
    fn a_total_wait_of_zero_is_off() {
        let settings = call(&[("retry.max_total_wait", "0")]);

        assert_eq!(settings.retry.max_total_wait.value, Limit::Off);
        assert!(
            Key::find("retry.max_total_wait")
                .unwrap()
                .doc
                .contains("0 is off")
        );
    }

    #[test]
    fn zero_waits_are_waits_of_none() {
        let settings = call(&[("grace.usage", "0"), ("retry.max_wait", "0")]);

        assert_eq!(
            settings.grace_usage,
            Setting {
                value: Duration::ZERO,
                origin: Origin::Call
            }
        );
        assert_eq!(settings.retry.max_wait.value, Duration::ZERO);
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let settings = call(&[
            ("bounds.think_tokens_per_second", "off"),
            ("bounds.notice_after", "10s"),
            ("retry.attempts", "7"),
            ("retry.after_reasoning", "true"),
            ("retry.cut.tries", "as attempts"),
            ("retry.rate.tries", "6"),
            ("retry.overload.first_delay", "2s"),
            ("retry.max_total_wait", "30s"),
            ("limits.answer", "1 MiB"),
            ("limits.line", "64kB"),
        ]);

        assert_eq!(settings.bounds.think_tokens_per_second.value, Rate::Off);
        assert_eq!(
            settings.bounds.notice_after.value,
            Notices::Every(Duration::from_secs(10))
        );
        assert_eq!(settings.retry.attempts.value, 7);
        assert!(settings.retry.after_reasoning.value);
        assert_eq!(settings.retry.cut.tries.value, Tries::AsAttempts);
        assert_eq!(settings.retry.rate.tries.value, Tries::Count(6));
        assert_eq!(
            settings.retry.overload.first_delay.value,
            Duration::from_secs(2)
        );
        assert_eq!(settings.retry.max_total_wait.value, secs(30));
        assert_eq!(settings.limits.answer.value, 1 << 20);
        assert_eq!(settings.limits.line.value, 64_000);
    }

    #[test]
    fn unknown_names_are_refused_with_a_suggestion() {
        for (name, meant) in [
            ("bounds.raw_silense", Some("bounds.raw_silence")),
            ("raw_silence", Some("bounds.raw_silence")),
            ("retry.wall_clock", Some("bounds.wall_clock")),
            ("retry.attemps", Some("retry.attempts")),
            ("profil", Some("profile")),
            ("xyzzy", None),
        ] {
            let error = Layer::new()
                .set(name, Value::Integer(1), file(4))
                .unwrap_err();

            let hint = meant.map(|meant| format!("did you mean `{meant}`?").into());
            assert_eq!(error.hint, hint, "{name}");
            assert_eq!(error.position.as_deref(), Some("lifesign.toml:4"));
            assert!(error.to_string().contains("unknown setting"));
        }
        assert_eq!(
            refusal("limits.zzzzzz", Value::Integer(1)),
            "limits.zzzzzz: unknown setting; accepted: line, frame, answer, request"
        );
        assert_eq!(
            refusal("profile", Value::Text("pacient")),
            "profile: \"pacient\" is not a profile; accepted: \"progress\", \"patient\" or \
             \"harness\"; did you mean `patient`?"
        );
    }
}
