//! One table of everything that can be set for a call.
//!
//! Parsing, refusals, suggestions, the reference and `config explain` all read this table, so that
//! none of them can know a setting that the others do not.

use std::time::Duration;

use self::written::{
    count, delay, flag, limit, limit_text, notices, notices_text, profile, rate, size, size_text,
    tries, wait,
};
use crate::duration::human;
use crate::{
    BoundName, Limit, Notices, Origin, Profile, Rate, Setting, SettingError, Settings, Tries, Value,
};

mod reference;
mod row;
mod table;
pub mod written;

pub use reference::{KeyTable, reference_markdown};
pub use row::{FileKey, Shape};
pub use table::{KEYS, UPSTREAM_KEYS};

/// A setting, under the name by which files, variables and flags know it.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name, such as `bounds.raw_silence`.
    pub name: &'static str,
    /// The default, for people.
    pub default: &'static str,
    /// What it sets, in one line.
    pub doc: &'static str,
    slot: Slot,
}

/// What a setting holds, and where.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// Every bound at once.
    AllBounds,
    Count(Field<u32>),
    /// A pause that is never zero.
    Delay(Field<Duration>),
    Flag(Field<bool>),
    Limit(Field<Limit>),
    Notices(Field<Notices>),
    Profile(Field<Profile>),
    Rate(Field<Rate>),
    Size(Field<usize>),
    Tries(Field<Tries>),
    /// A wait of which zero means none.
    Wait(Field<Duration>),
}

/// A place in the settings.
#[derive(Debug)]
struct Field<T> {
    get: fn(&Settings) -> &Setting<T>,
    get_mut: fn(&mut Settings) -> &mut Setting<T>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl Key {
    /// Returns the setting of this name.
    ///
    /// # Errors
    ///
    /// Returns an error with a suggestion if there is none.
    pub fn find(name: &str) -> Result<&'static Self, SettingError> {
        KEYS.iter()
            .find(|key| key.name == name)
            .ok_or_else(|| unknown_setting(name, KEYS.iter().map(|key| key.name)))
    }

    /// Returns what the setting accepts, for people.
    pub fn accepted(&self) -> &'static str {
        match self.slot {
            Slot::AllBounds => "\"off\", which turns every bound off",
            Slot::Count(_) => "a whole number, at least 1 (4.0 is one)",
            Slot::Delay(_) => "a duration such as \"750ms\" or \"10s\"",
            Slot::Flag(_) => "true or false",
            Slot::Limit(_) => "a duration such as \"45s\" or \"2 min\", or \"off\"",
            Slot::Notices(_) => "a duration such as \"30s\", at least 1 ms, or \"off\"",
            Slot::Profile(_) => "\"progress\", \"patient\" or \"harness\"",
            Slot::Rate(_) => "a whole number, at least 1 (4.0 is one), or \"off\"",
            Slot::Size(_) => "a size such as \"16 MiB\" or \"512 KiB\"",
            Slot::Tries(_) => "a whole number, at least 1 (4.0 is one), or \"as attempts\"",
            Slot::Wait(_) => "a duration such as \"2 min\", or 0 for none",
        }
    }

    /// Returns what a value of the setting looks like.
    pub const fn shape(&self) -> Shape {
        match self.slot {
            Slot::AllBounds => Shape::Off,
            Slot::Count(_) => Shape::Count,
            Slot::Delay(_) => Shape::Duration,
            Slot::Flag(_) => Shape::Flag,
            Slot::Limit(_) | Slot::Notices(_) => Shape::Limit,
            Slot::Profile(_) => Shape::OneOf(&PROFILES),
            Slot::Rate(_) => Shape::CountOr("off"),
            Slot::Size(_) => Shape::Size,
            Slot::Tries(_) => Shape::CountOr("as attempts"),
            Slot::Wait(_) => Shape::Wait,
        }
    }

    /// Returns whether the setting is a bound, or all of them.
    pub(crate) const fn is_limit(&self) -> bool {
        matches!(self.slot, Slot::AllBounds | Slot::Limit(_))
    }

    /// Returns the value in force, for people, and where it came from; `None` for `bounds`.
    pub fn show<'a>(&self, settings: &'a Settings) -> Option<(String, &'a Origin)> {
        fn of<'a, T: 'a>(
            field: Field<T>,
            settings: &'a Settings,
            text: impl Fn(&T) -> String,
        ) -> (String, &'a Origin) {
            let setting = (field.get)(settings);
            (text(&setting.value), &setting.origin)
        }
        Some(match self.slot {
            Slot::AllBounds => return None,
            Slot::Count(field) => of(field, settings, ToString::to_string),
            Slot::Delay(field) | Slot::Wait(field) => of(field, settings, |value| human(*value)),
            Slot::Flag(field) => of(field, settings, ToString::to_string),
            Slot::Limit(field) => of(field, settings, |value| limit_text(*value)),
            Slot::Notices(field) => of(field, settings, |value| notices_text(*value)),
            Slot::Profile(field) => of(field, settings, |value| value.name().to_owned()),
            Slot::Rate(field) => of(field, settings, |value| match value {
                Rate::Off => "off".to_owned(),
                Rate::PerSecond(rate) => rate.to_string(),
            }),
            Slot::Size(field) => of(field, settings, |value| size_text(*value)),
            Slot::Tries(field) => of(field, settings, |value| match value {
                Tries::AsAttempts => "as attempts".to_owned(),
                Tries::Count(count) => count.to_string(),
            }),
        })
    }

    /// Puts a value into the settings; [`Value::Null`] leaves them as they are.
    ///
    /// # Errors
    ///
    /// Returns an error that names the setting, the value and what is accepted.
    pub(crate) fn put(
        &self,
        settings: &mut Settings,
        value: Value<'_>,
        origin: &Origin,
    ) -> Result<(), SettingError> {
        if value == Value::Null {
            return Ok(());
        }
        self.try_put(settings, value, origin).map_err(|problem| {
            let error = SettingError::new(self.name, problem)
                .with_value(&value)
                .with_accepted(self.accepted());
            match (&self.slot, value) {
                (Slot::Profile(_), Value::Text(text)) => {
                    let names = Profile::ALL.iter().map(|profile| profile.name());
                    with_suggestion(error, text.trim(), names)
                }
                _ => error,
            }
        })
    }

    fn try_put(
        &self,
        settings: &mut Settings,
        value: Value<'_>,
        origin: &Origin,
    ) -> Result<(), String> {
        fn set<T>(field: Field<T>, settings: &mut Settings, value: T, origin: &Origin) {
            *(field.get_mut)(settings) = Setting {
                value,
                origin: origin.clone(),
            };
        }
        match self.slot {
            Slot::AllBounds => match limit(value)? {
                Limit::Off => {
                    for name in BoundName::ALL {
                        *settings.bounds.limit_mut(name) = Setting {
                            value: Limit::Off,
                            origin: origin.clone(),
                        };
                    }
                }
                Limit::After(_) => return Err("is a limit for no bound".to_owned()),
            },
            Slot::Count(field) => set(field, settings, count(value)?, origin),
            Slot::Delay(field) => set(field, settings, delay(value)?, origin),
            Slot::Flag(field) => set(field, settings, flag(value)?, origin),
            Slot::Limit(field) => set(field, settings, limit(value)?, origin),
            Slot::Notices(field) => set(field, settings, notices(value)?, origin),
            Slot::Profile(field) => set(field, settings, profile(value)?, origin),
            Slot::Rate(field) => set(field, settings, rate(value)?, origin),
            Slot::Size(field) => set(field, settings, size(value)?, origin),
            Slot::Tries(field) => set(field, settings, tries(value)?, origin),
            Slot::Wait(field) => set(field, settings, wait(value)?, origin),
        }
        Ok(())
    }
}

/// Returns the error for a name that nothing has, with the nearest of `names` as a suggestion; where
/// none is near, with all that its table has.
pub fn unknown_setting<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> SettingError {
    let shown: String = name.chars().take(100).collect();
    let error = SettingError::new(shown.as_str(), "unknown setting");
    let names: Vec<&str> = names.collect();
    let error = with_suggestion(error, &shown, names.iter().copied());
    if error.hint.is_some() {
        return error;
    }
    let (table, _) = parts(&shown);
    let mut in_table = Vec::new();
    for name in names {
        let (its_table, last) = parts(name);
        // A table is among them once for each of its settings.
        if its_table == table && !in_table.contains(&last) {
            in_table.push(last);
        }
    }
    if in_table.is_empty() {
        return error;
    }
    error.with_accepted(in_table.join(", "))
}

/// Parts a name into its table's name and its own.
fn parts(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}

/// Adds the nearest of `names` to the error about `name`, if one is near.
fn with_suggestion<'a>(
    error: SettingError,
    name: &str,
    names: impl Iterator<Item = &'a str>,
) -> SettingError {
    match suggestion(name, names) {
        Some(near) => error.with_hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// Returns the name that somebody who wrote `name` may have meant.
fn suggestion<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (table, last) = parts(name);
    names
        .map(|candidate| {
            let (its_table, its_last) = parts(candidate);
            let likeness = strsim::normalized_damerau_levenshtein(last, its_last);
            // Somebody who forgets the table, or takes another, still knows the name.
            let away = if table == its_table { 1.0 } else { 0.95 };
            (likeness * away, candidate)
        })
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

/// The names of the profiles.
const PROFILES: [&str; Profile::ALL.len()] = {
    let mut names = [""; Profile::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Profile::ALL[at].name();
        at += 1;
    }
    names
};
