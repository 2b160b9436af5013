//! How long ago something was, in days where it is many hours: a day has 24 of them here.

use std::time::Duration;

use lifesign_core::duration::human;
use lifesign_core::{Limit, Value, written};

/// Reads an age: `30 days`, or a duration as settings have them.
///
/// # Errors
///
/// Returns what is wrong with the text, as a predicate.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    let digits = trimmed.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = trimmed.get(digits.len()..).map(str::trim);
    if matches!(unit, Some("d" | "day" | "days")) {
        let days = digits.parse().ok().filter(|days| *days <= MOST_DAYS);
        return match days {
            Some(0) => Err("is no time".to_owned()),
            Some(days) => Ok(Duration::from_hours(24 * days)),
            None => Err("is no whole number of days, or too many".to_owned()),
        };
    }
    match written::limit(Value::Text(text))? {
        Limit::After(age) => Ok(age),
        Limit::Off => Err("is no time".to_owned()),
    }
}

/// Returns an age as [`parse_age`] reads it.
pub fn age_text(age: Duration) -> String {
    let hours = age.as_secs() / 3_600;
    let is_days = hours >= 48 && hours.is_multiple_of(24) && age == Duration::from_hours(hours);
    if is_days {
        format!("{} days", hours / 24)
    } else {
        human(age)
    }
}

/// A century.
const MOST_DAYS: u64 = 36_500;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn ages_are_read_in_days_and_in_all_that_settings_know() {
        for (text, hours) in [("30 days", 720), ("1d", 24), (" 2 day ", 48), ("36h", 36)] {
            assert_eq!(parse_age(text), Ok(Duration::from_hours(hours)), "{text}");
        }
        for (text, problem) in [
            ("0 days", "is no time"),
            ("off", "is no time"),
            ("1.5 days", "is no whole number of days, or too many"),
            ("99999 days", "is no whole number of days, or too many"),
            ("5", "has no unit"),
        ] {
            assert_eq!(parse_age(text), Err(problem.to_owned()), "{text}");
        }
    }

    #[test]
    fn an_age_is_written_as_it_is_read() {
        for text in ["30 days", "2 days", "36 h", "90 s"] {
            assert_eq!(age_text(parse_age(text).unwrap()), text);
        }
    }
}
