//! One table of everything that can be set for a call.
//!
//! Parsing, refusals, suggestions, the reference and `config explain` all read this table, so that
//! none of them can know a setting that the others do not.

use std::time::Duration;

use crate::duration::{self, human};
use crate::{
    BoundName, Limit, Notices, Origin, Profile, Rate, Setting, SettingError, Settings, Tries, Value,
};

mod reference;
mod table;

pub use reference::reference_markdown;
pub use table::{KEYS, UPSTREAM_KEYS, UpstreamKey};

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

/// Returns the error for a name that nothing has, with the nearest of `names` as a suggestion.
pub fn unknown_setting<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> SettingError {
    let shown: String = name.chars().take(100).collect();
    let error = SettingError::new(shown.as_str(), "unknown setting");
    with_suggestion(error, &shown, names)
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
    fn parts(name: &str) -> (&str, &str) {
        name.rsplit_once('.').unwrap_or(("", name))
    }
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

fn limit(value: Value<'_>) -> Result<Limit, String> {
    let parsed = match value {
        Value::Text(text) if text.trim() == "off" => return Ok(Limit::Off),
        other => zero_or_duration(other)?,
    };
    Ok(if parsed.is_zero() {
        Limit::Off
    } else {
        Limit::After(parsed)
    })
}

fn notices(value: Value<'_>) -> Result<Notices, String> {
    match limit(value)? {
        Limit::Off => Ok(Notices::Off),
        Limit::After(every) if every < Duration::from_millis(1) => {
            Err("is shorter than 1 ms".to_owned())
        }
        Limit::After(every) => Ok(Notices::Every(every)),
    }
}

fn wait(value: Value<'_>) -> Result<Duration, String> {
    zero_or_duration(value)
}

fn delay(value: Value<'_>) -> Result<Duration, String> {
    let parsed = zero_or_duration(value)?;
    if parsed.is_zero() {
        return Err("is no pause".to_owned());
    }
    Ok(parsed)
}

/// Reads a duration; zero needs no unit.
fn zero_or_duration(value: Value<'_>) -> Result<Duration, String> {
    match value {
        Value::Integer(0) => Ok(Duration::ZERO),
        Value::Text(text) if text.trim() == "0" => Ok(Duration::ZERO),
        Value::Text(text) => duration::parse(text).map_err(|error| error.to_string()),
        Value::Integer(number) if number < 0 => Err("is negative".to_owned()),
        Value::Float(number) if number.is_nan() => Err("is not a number".to_owned()),
        Value::Float(number) if number.is_sign_negative() => Err("is negative".to_owned()),
        Value::Float(number) if number.is_infinite() => Err("is too long".to_owned()),
        Value::Float(_) | Value::Integer(_) => Err("has no unit".to_owned()),
        Value::Bool(_) | Value::Null => Err("is not a duration".to_owned()),
    }
}

fn count(value: Value<'_>) -> Result<u32, String> {
    u32::try_from(whole(value)?).map_err(|_| "is too large".to_owned())
}

fn tries(value: Value<'_>) -> Result<Tries, String> {
    match value {
        Value::Text(text) if text.trim().replace('_', " ") == "as attempts" => {
            Ok(Tries::AsAttempts)
        }
        other => Ok(Tries::Count(count(other)?)),
    }
}

fn rate(value: Value<'_>) -> Result<Rate, String> {
    match value {
        Value::Text(text) if text.trim() == "off" => Ok(Rate::Off),
        other => Ok(Rate::PerSecond(whole(other)?)),
    }
}

/// Reads a whole number of at least 1.
fn whole(value: Value<'_>) -> Result<u64, String> {
    let number = match value {
        Value::Integer(number) => i128::from(number),
        Value::Text(text) => {
            let text = text.trim();
            if text.is_empty() {
                return Err("is empty".to_owned());
            }
            // A whole number may be written with a point: programs that calculate one do.
            let text = match text.split_once('.') {
                Some((whole, zeros))
                    if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') =>
                {
                    whole
                }
                _ => text,
            };
            let digits = text.strip_prefix('-').unwrap_or(text);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err("is not a whole number".to_owned());
            }
            text.parse().map_err(|_| "is too large".to_owned())?
        }
        // Written as text it is the same number, and needs no rounding rule of its own.
        Value::Float(number) if number.is_finite() => {
            return whole(Value::Text(&format!("{number:?}")));
        }
        Value::Bool(_) | Value::Float(_) | Value::Null => {
            return Err("is not a whole number".to_owned());
        }
    };
    match number {
        ..0 => Err("is negative".to_owned()),
        0 => Err("is less than 1".to_owned()),
        _ => u64::try_from(number).map_err(|_| "is too large".to_owned()),
    }
}

fn flag(value: Value<'_>) -> Result<bool, String> {
    match value {
        Value::Bool(flag) => Ok(flag),
        Value::Text("true") => Ok(true),
        Value::Text("false") => Ok(false),
        _ => Err("is neither true nor false".to_owned()),
    }
}

fn profile(value: Value<'_>) -> Result<Profile, String> {
    match value {
        Value::Text(text) => Profile::named(text.trim()),
        _ => None,
    }
    .ok_or_else(|| "is not a profile".to_owned())
}

/// Reads a size in bytes, whose unit is a power of 1,024 or of 1,000.
fn size(value: Value<'_>) -> Result<usize, String> {
    let text = match value {
        Value::Text(text) => text.trim(),
        Value::Integer(..0) => return Err("is negative".to_owned()),
        Value::Integer(0) => return Err("is no size".to_owned()),
        Value::Integer(_) | Value::Float(_) => return Err("has no unit".to_owned()),
        Value::Bool(_) | Value::Null => return Err("is not a size".to_owned()),
    };
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.starts_with('-') {
        return Err("is negative".to_owned());
    }
    if digits.is_empty() {
        return Err("is not a size".to_owned());
    }
    if unit.is_empty() {
        return Err(if digits.bytes().all(|digit| digit == b'0') {
            "is no size".to_owned()
        } else {
            "has no unit".to_owned()
        });
    }
    let unit = unit.trim();
    let Some((_, factor)) = SIZES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
    else {
        return Err("is not a size".to_owned());
    };
    match digits
        .parse::<usize>()
        .ok()
        .and_then(|count| count.checked_mul(*factor))
    {
        Some(0) => Err("is no size".to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err("is too large".to_owned()),
    }
}

/// Returns a limit for people: a duration or `off`.
pub(crate) fn limit_text(limit: Limit) -> String {
    match limit {
        Limit::After(after) => human(after),
        Limit::Off => "off".to_owned(),
    }
}

fn notices_text(notices: Notices) -> String {
    match notices {
        Notices::Doubling { first, cap } => {
            format!("{}, then doubling up to {}", human(first), human(cap))
        }
        Notices::Every(every) => format!("every {}", human(every)),
        Notices::Off => "off".to_owned(),
    }
}

fn size_text(bytes: usize) -> String {
    SIZES
        .iter()
        .filter(|(name, _)| name.len() != 2)
        .find(|(_, factor)| bytes.is_multiple_of(*factor))
        .map_or_else(String::new, |(name, factor)| {
            format!("{} {name}", bytes / factor)
        })
}

/// The units of size, the largest first.
const SIZES: [(&str, usize); 7] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];
