//! Values as somebody wrote them, read and written again.
//!
//! Each reader answers with the value, or with what is wrong with it as a predicate: `has no unit`.

use std::time::Duration;

use crate::duration::{self, human};
use crate::{Limit, Notices, Profile, Rate, Tries, Value};

/// Reads a limit: a duration, or zero or `off` for none.
///
/// # Errors
///
/// Returns what is wrong with the value, as a predicate.
pub fn limit(value: Value<'_>) -> Result<Limit, String> {
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

/// Reads when notices are given.
pub(super) fn notices(value: Value<'_>) -> Result<Notices, String> {
    match limit(value)? {
        Limit::Off => Ok(Notices::Off),
        Limit::After(every) if every < Duration::from_millis(1) => {
            Err("is shorter than 1 ms".to_owned())
        }
        Limit::After(every) => Ok(Notices::Every(every)),
    }
}

/// Reads a wait, of which zero means none.
///
/// # Errors
///
/// Returns what is wrong with the value, as a predicate.
pub fn wait(value: Value<'_>) -> Result<Duration, String> {
    zero_or_duration(value)
}

/// Reads a pause, which is never zero.
///
/// # Errors
///
/// Returns what is wrong with the value, as a predicate.
pub fn delay(value: Value<'_>) -> Result<Duration, String> {
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

/// Reads a whole number of at least 1.
///
/// # Errors
///
/// Returns what is wrong with the value, as a predicate.
pub fn count(value: Value<'_>) -> Result<u32, String> {
    u32::try_from(whole(value)?).map_err(|_| "is too large".to_owned())
}

/// Reads a number of tries.
pub(super) fn tries(value: Value<'_>) -> Result<Tries, String> {
    match value {
        Value::Text(text) if text.trim().replace('_', " ") == "as attempts" => {
            Ok(Tries::AsAttempts)
        }
        other => Ok(Tries::Count(count(other)?)),
    }
}

/// Reads a rate, which may be off.
pub(super) fn rate(value: Value<'_>) -> Result<Rate, String> {
    match value {
        Value::Text(text) if text.trim() == "off" => Ok(Rate::Off),
        other => Ok(Rate::PerSecond(whole(other)?)),
    }
}

/// Reads a whole number, which may be 0.
///
/// # Errors
///
/// Returns what is wrong with the value, as a predicate.
pub fn count_or_zero(value: Value<'_>) -> Result<usize, String> {
    match number(value)? {
        ..0 => Err("is negative".to_owned()),
        number => usize::try_from(number).map_err(|_| "is too large".to_owned()),
    }
}

/// Reads a whole number of at least 1.
fn whole(value: Value<'_>) -> Result<u64, String> {
    match number(value)? {
        ..0 => Err("is negative".to_owned()),
        0 => Err("is less than 1".to_owned()),
        number => u64::try_from(number).map_err(|_| "is too large".to_owned()),
    }
}

fn number(value: Value<'_>) -> Result<i128, String> {
    match value {
        Value::Integer(number) => Ok(i128::from(number)),
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
            text.parse().map_err(|_| "is too large".to_owned())
        }
        // Written as text it is the same number, and needs no rounding rule of its own.
        Value::Float(float) if float.is_finite() => number(Value::Text(&format!("{float:?}"))),
        Value::Bool(_) | Value::Float(_) | Value::Null => Err("is not a whole number".to_owned()),
    }
}

/// Reads true or false.
///
/// # Errors
///
/// Returns what is wrong with the value, as a predicate.
pub fn flag(value: Value<'_>) -> Result<bool, String> {
    match value {
        Value::Bool(flag) => Ok(flag),
        Value::Text("true") => Ok(true),
        Value::Text("false") => Ok(false),
        _ => Err("is neither true nor false".to_owned()),
    }
}

/// Reads the name of a profile.
pub(super) fn profile(value: Value<'_>) -> Result<Profile, String> {
    match value {
        Value::Text(text) => Profile::named(text.trim()),
        _ => None,
    }
    .ok_or_else(|| "is not a profile".to_owned())
}

/// Reads a size in bytes, whose unit is a power of 1,024 or of 1,000.
///
/// # Errors
///
/// Returns what is wrong with the value, as a predicate.
pub fn size(value: Value<'_>) -> Result<usize, String> {
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
pub fn limit_text(limit: Limit) -> String {
    match limit {
        Limit::After(after) => human(after),
        Limit::Off => "off".to_owned(),
    }
}

pub(super) fn notices_text(notices: Notices) -> String {
    match notices {
        Notices::Doubling { first, cap } => {
            format!("{}, then doubling up to {}", human(first), human(cap))
        }
        Notices::Every(every) => format!("every {}", human(every)),
        Notices::Off => "off".to_owned(),
    }
}

/// Returns a size for people.
pub fn size_text(bytes: usize) -> String {
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
