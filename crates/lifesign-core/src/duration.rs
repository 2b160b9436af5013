//! Durations as people write and read them.
//!
//! Text has a unit, always: `45` could be seconds or milliseconds, and each of the two has been
//! somebody's outage. What [`parse`] takes is jiff's friendly format without signs, clock faces and
//! calendar units; what [`human`] prints, it takes back.

use std::fmt::Write;
use std::time::Duration;

use jiff::fmt::friendly::SpanParser;

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// Nothing but white space.
    #[error("is empty")]
    Empty,
    /// Below zero.
    #[error("is negative")]
    Negative,
    /// Beyond what can be counted, or infinite.
    #[error("is too long")]
    TooLong,
    /// A number with an exponent.
    #[error("is written with an exponent")]
    Exponent,
    /// A unit whose length depends on the calendar.
    #[error("has a unit of the calendar, which has no fixed length")]
    Calendar,
    /// A number alone.
    #[error("has no unit")]
    Unitless,
    /// Anything else.
    #[error("is not a duration")]
    Unreadable,
}

/// Parses a duration with a unit, such as `45s`, `1m 30s`, `2 min`, `500ms` or `3.000s`.
///
/// Zero is a duration here; what it means is up to the setting.
///
/// # Errors
///
/// Returns why the text is refused: no unit, a sign, no number, too long (the longest is a
/// century), or a unit such as a month.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    let Some(first) = text.bytes().next() else {
        return Err(DurationError::Empty);
    };
    let lower = text.to_ascii_lowercase();
    let bare = lower.trim_start_matches(['-', '+']);
    if bare.starts_with("inf") {
        return Err(DurationError::TooLong);
    }
    if first == b'-' || lower.ends_with("ago") {
        return Err(DurationError::Negative);
    }
    if !first.is_ascii_digit() || text.contains(':') {
        return Err(DurationError::Unreadable);
    }
    if is_scientific(&lower) {
        return Err(DurationError::Exponent);
    }
    if text.parse::<f64>().is_ok() {
        return Err(DurationError::Unitless);
    }
    if has_calendar_unit(&lower) {
        return Err(DurationError::Calendar);
    }
    match SpanParser::new().parse_unsigned_duration(text) {
        Ok(duration) if duration <= LONGEST => Ok(duration),
        Ok(_) => Err(DurationError::TooLong),
        Err(_) if too_many_digits(text) => Err(DurationError::TooLong),
        Err(_) => Err(DurationError::Unreadable),
    }
}

/// Returns a duration exactly and in few words: `100 us`, `250 ms`, `1.5 s`, `90 s`, `31 min 2 s`.
///
/// Below two minutes the number of seconds stands there plain.
pub fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let nanos = duration.subsec_nanos();
    if duration.is_zero() {
        return "0 s".to_owned();
    }
    if duration < Duration::from_millis(1) {
        return format!("{} us", decimal(u64::from(nanos / 1_000), nanos % 1_000, 3));
    }
    if duration < Duration::from_secs(1) {
        return format!(
            "{} ms",
            decimal(u64::from(nanos / 1_000_000), nanos % 1_000_000, 6)
        );
    }
    if seconds < 120 {
        return format!("{} s", decimal(seconds, nanos, 9));
    }
    let mut text = String::new();
    let parts = [(seconds / 3_600, "h"), (seconds / 60 % 60, "min")];
    for (count, unit) in parts.into_iter().filter(|(count, _)| *count > 0) {
        push(&mut text, &count.to_string(), unit);
    }
    if !seconds.is_multiple_of(60) || nanos > 0 {
        push(&mut text, &decimal(seconds % 60, nanos, 9), "s");
    }
    text
}

/// Returns a measured duration in few words, cut to a tenth of a second, to a millisecond below one
/// second, or to a microsecond below one millisecond.
pub fn human_measured(duration: Duration) -> String {
    let grain = if duration >= Duration::from_secs(1) {
        100_000_000
    } else if duration >= Duration::from_millis(1) {
        1_000_000
    } else {
        1_000
    };
    human(cut_to(duration, grain))
}

/// Returns a limit in few words: as [`human`], but cut to a millisecond from one second on, since a
/// limit that was computed has nanoseconds that nobody reads.
pub fn human_limit(limit: Duration) -> String {
    if limit < Duration::from_secs(1) {
        return human(limit);
    }
    human(cut_to(limit, 1_000_000))
}

/// Returns `duration` in whole milliseconds, rounded down, as JSON has it.
pub fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn cut_to(duration: Duration, grain: u32) -> Duration {
    let nanos = duration.subsec_nanos();
    Duration::new(duration.as_secs(), nanos - nanos % grain)
}

/// Returns whether the text begins with a number that has an exponent, or a power.
fn is_scientific(lower: &str) -> bool {
    let rest = lower.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let mut chars = rest.chars();
    match (chars.next(), chars.next()) {
        (Some('^'), _) => true,
        (Some('e'), Some(next)) => next.is_ascii_digit() || matches!(next, '+' | '-'),
        _ => false,
    }
}

/// Returns whether a word of the text is a unit longer than an hour.
fn has_calendar_unit(lower: &str) -> bool {
    lower
        .split(|c: char| !c.is_ascii_alphabetic())
        .any(|word| CALENDAR.contains(&word))
}

/// Returns whether a number in the text has more digits than a count of nanoseconds can have.
fn too_many_digits(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit())
        .any(|digits| digits.len() > 18)
}

/// Returns `whole` and a fraction of `width` digits, without zeros at the end.
fn decimal(whole: u64, fraction: u32, width: usize) -> String {
    if fraction == 0 {
        return whole.to_string();
    }
    let digits = format!("{fraction:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// Appends `count unit`, after a space if something stands before.
fn push(text: &mut String, count: &str, unit: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    // Writing to a string cannot fail.
    let _infallible = write!(text, "{count} {unit}");
}

/// A century of 365-day years: longer than any call, short enough to be added to any instant.
const LONGEST: Duration = Duration::from_hours(876_000);

/// The units whose length the calendar decides; a day has 23 hours once a year.
const CALENDAR: [&str; 17] = [
    "d", "day", "days", "w", "wk", "wks", "week", "weeks", "mo", "mos", "month", "months", "y",
    "yr", "yrs", "year", "years",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_with_a_unit_are_read() {
        for (text, nanos) in [
            ("45s", 45_000_000_000),
            ("1m 30s", 90_000_000_000),
            ("2 min", 120_000_000_000),
            ("500ms", 500_000_000),
            ("3.000s", 3_000_000_000),
            (" 1h ", 3_600_000_000_000),
            ("1.5 min", 90_000_000_000),
            ("2 minutes, 5 seconds", 125_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text:?}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_its_reason() {
        for (text, reason) in [
            ("", DurationError::Empty),
            ("  ", DurationError::Empty),
            ("45", DurationError::Unitless),
            ("4.5", DurationError::Unitless),
            ("-5s", DurationError::Negative),
            ("5s ago", DurationError::Negative),
            ("NaN", DurationError::Unreadable),
            ("inf", DurationError::TooLong),
            ("-inf", DurationError::TooLong),
            ("1e3s", DurationError::Exponent),
            ("1.5E+3 s", DurationError::Exponent),
            ("1e400s", DurationError::Exponent),
            ("1e400", DurationError::Exponent),
            ("2^64ms", DurationError::Exponent),
            ("99999999999999999999s", DurationError::TooLong),
            ("18446744073709551615h", DurationError::TooLong),
            ("1000000h", DurationError::TooLong),
            ("2 months", DurationError::Calendar),
            ("1y", DurationError::Calendar),
            ("3d", DurationError::Calendar),
            ("s", DurationError::Unreadable),
            ("00:45", DurationError::Unreadable),
            ("+45s", DurationError::Unreadable),
            ("45 parsecs", DurationError::Unreadable),
            ("45s!", DurationError::Unreadable),
            ("1e-3s", DurationError::Exponent),
            ("PT45S", DurationError::Unreadable),
        ] {
            assert_eq!(parse(text), Err(reason), "{text:?}");
        }
    }

    #[test]
    fn people_read_short_exact_durations() {
        for (millis, text) in [
            (0, "0 s"),
            (250, "250 ms"),
            (1_500, "1.5 s"),
            (3_000, "3 s"),
            (12_500, "12.5 s"),
            (90_000, "90 s"),
            (120_000, "2 min"),
            (150_500, "2 min 30.5 s"),
            (1_862_000, "31 min 2 s"),
            (3_600_000, "1 h"),
            (3_605_000, "1 h 5 s"),
        ] {
            assert_eq!(human(Duration::from_millis(millis)), text);
        }
        for (nanos, text) in [(1, "0.001 us"), (100_000, "100 us"), (1_500_000, "1.5 ms")] {
            assert_eq!(human(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn measured_durations_are_cut_to_what_people_read() {
        assert_eq!(human_measured(Duration::from_micros(45_003_182)), "45 s");
        assert_eq!(human_measured(Duration::from_millis(1_561)), "1.5 s");
        assert_eq!(human_measured(Duration::from_micros(3_999)), "3 ms");
        assert_eq!(human_measured(Duration::from_nanos(100_900)), "100 us");
        assert_eq!(human_measured(Duration::ZERO), "0 s");
    }

    #[test]
    fn limits_are_cut_to_a_millisecond_where_nobody_reads_less() {
        assert_eq!(
            human_limit(Duration::from_nanos(68_965_517_241)),
            "68.965 s"
        );
        assert_eq!(human_limit(Duration::from_micros(100)), "100 us");
        assert_eq!(human_limit(Duration::from_micros(1_500)), "1.5 ms");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn what_people_read_parses_back(seconds in 0_u64..=3_153_599_999, nanos in 0_u32..1_000_000_000) {
            let duration = Duration::new(seconds, nanos);

            prop_assert_eq!(parse(&human(duration)), Ok(duration));
        }

        #[test]
        fn short_durations_parse_back(nanos in 0_u64..200_000_000_000) {
            let duration = Duration::from_nanos(nanos);

            prop_assert_eq!(parse(&human(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*", near in "[-+0-9.e^: a-z]{0,24}") {
            let _either = (parse(&text), parse(&near));
        }
    }
}
