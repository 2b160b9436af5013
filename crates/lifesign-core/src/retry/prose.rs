//! Waits as providers write them: `6m0s`, `48.9s`, "try again in 5.289s".
//!
//! A number without a unit is never read as a wait: it could be seconds, milliseconds or tokens.

use std::time::Duration;

/// Parses a wait that is nothing but numbers with units, such as `2ms`, `6m0s`, `1h2m3.5s`.
///
/// Returns `None` for anything else, and for waits beyond ten years, which are a provider's way of
/// saying "never" or "unlimited".
pub fn parse_wait(text: &str) -> Option<Duration> {
    let text = text.trim().as_bytes();
    let (wait, rest) = lengths(text)?;
    rest.is_empty().then_some(wait)
}

/// Returns the wait that a sentence asks for, if it gives one with a unit.
///
/// Reads "Please try again in 5.289s", "Please retry in 48.9s", "wait 2 minutes and 5 seconds".
pub fn wait_in_prose(text: &str) -> Option<Duration> {
    let lower = text.to_ascii_lowercase();
    let mut rest = lower.as_bytes();
    while !rest.is_empty() {
        let lead = LEADS
            .iter()
            .find_map(|lead| rest.strip_prefix(lead.as_bytes()));
        if let Some((wait, _)) = lead.and_then(|after| lengths(skip_filler(after))) {
            return Some(wait);
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    None
}

/// Parses a bare number of seconds, fractions included.
pub(super) fn parse_seconds(text: &str) -> Option<Duration> {
    bare(text, Duration::from_secs(1))
}

/// Parses a bare number of milliseconds, fractions included.
pub(super) fn parse_millis(text: &str) -> Option<Duration> {
    bare(text, Duration::from_millis(1))
}

fn bare(text: &str, unit: Duration) -> Option<Duration> {
    let (number, rest) = number(text.trim().as_bytes())?;
    rest.is_empty().then(|| number.times(unit)).flatten()
}

/// Parses one or more numbers with units that belong together, and returns what follows them.
fn lengths(text: &[u8]) -> Option<(Duration, &[u8])> {
    let (mut total, mut rest) = length(text)?;
    while let Some((next, after)) = length(skip_joint(rest)) {
        total = total.checked_add(next).filter(|total| *total <= LONGEST)?;
        rest = after;
    }
    Some((total, rest))
}

/// Parses one number with its unit.
fn length(text: &[u8]) -> Option<(Duration, &[u8])> {
    let (number, rest) = number(text)?;
    let rest = rest.trim_ascii_start();
    let word_len = rest
        .iter()
        .take_while(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii())
        .count();
    let (word, rest) = rest.split_at_checked(word_len)?;
    let (_, unit) = UNITS
        .iter()
        .find(|(names, _)| names.iter().any(|name| name.as_bytes() == word))?;
    Some((number.times(*unit)?, rest))
}

/// An unsigned decimal number, exact to a billionth.
#[derive(Clone, Copy)]
struct Number {
    whole: u64,
    billionths: u32,
}

impl Number {
    /// Returns the number times `unit`, unless that is beyond what a wait can be.
    fn times(self, unit: Duration) -> Option<Duration> {
        let billionths = u128::from(self.whole) * BILLION + u128::from(self.billionths);
        let nanos = billionths.checked_mul(unit.as_nanos())? / BILLION;
        let nanos = u64::try_from(nanos).ok()?;
        Some(Duration::from_nanos(nanos)).filter(|wait| *wait <= LONGEST)
    }
}

fn number(text: &[u8]) -> Option<(Number, &[u8])> {
    let (whole, mut rest) = digits(text);
    let mut fraction: &[u8] = &[];
    if let Some(after) = rest.strip_prefix(b".") {
        let (found, after) = digits(after);
        // "5." ends a sentence; the point is not the number's.
        if !found.is_empty() {
            (fraction, rest) = (found, after);
        }
    }
    if whole.is_empty() {
        return None;
    }
    let mut number = Number {
        whole: 0,
        billionths: 0,
    };
    for digit in whole {
        number.whole = number
            .whole
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    let mut weight = 100_000_000;
    for digit in fraction.iter().take(9) {
        number.billionths += u32::from(digit - b'0') * weight;
        weight /= 10;
    }
    Some((number, rest))
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at(len)
}

/// Skips what may stand between two lengths: white space, a comma, "and".
fn skip_joint(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b",").unwrap_or(text).trim_ascii_start();
    text.strip_prefix(b"and ")
        .unwrap_or(text)
        .trim_ascii_start()
}

/// Skips what may stand between "try again in" and the wait.
fn skip_filler(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    FILLERS
        .iter()
        .find_map(|filler| text.strip_prefix(filler.as_bytes()))
        .unwrap_or(text)
}

/// What stands before a wait; each ends where the wait, or a filler, begins.
const LEADS: [&str; 10] = [
    "again in ",
    "again after ",
    "retry in ",
    "retry after ",
    "retrying in ",
    "available in ",
    "reset in ",
    "resets in ",
    "reset after ",
    "wait ",
];

const FILLERS: [&str; 6] = [
    "about ",
    "approximately ",
    "at least ",
    "another ",
    "around ",
    "for ",
];

/// Units in lower case. A day has 24 hours.
const UNITS: [(&[&str], Duration); 7] = [
    (
        &["ns", "nanosecond", "nanoseconds"],
        Duration::from_nanos(1),
    ),
    (
        &["us", "\u{b5}s", "\u{3bc}s", "microsecond", "microseconds"],
        Duration::from_micros(1),
    ),
    (
        &["ms", "msec", "msecs", "millisecond", "milliseconds"],
        Duration::from_millis(1),
    ),
    (
        &["s", "sec", "secs", "second", "seconds"],
        Duration::from_secs(1),
    ),
    (
        &["m", "min", "mins", "minute", "minutes"],
        Duration::from_mins(1),
    ),
    (
        &["h", "hr", "hrs", "hour", "hours"],
        Duration::from_hours(1),
    ),
    (&["d", "day", "days"], Duration::from_hours(24)),
];

const BILLION: u128 = 1_000_000_000;

/// Ten years. What lies beyond is a sentinel such as 9223372036854767616 (Cerebras).
const LONGEST: Duration = Duration::from_hours(87_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_in_headers_are_read() {
        for (text, nanos) in [
            ("2ms", 2_000_000),
            ("6s", 6_000_000_000),
            ("1m2s", 62_000_000_000),
            ("6m0s", 360_000_000_000),
            ("1h2m3.5s", 3_723_500_000_000),
            ("48.939935699s", 48_939_935_699),
            ("51820.6s", 51_820_600_000_000),
            ("0s", 0),
        ] {
            assert_eq!(
                parse_wait(text),
                Some(Duration::from_nanos(nanos)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_has_no_unit_or_no_end_is_no_wait() {
        for text in [
            "",
            "5",
            "s",
            "-5s",
            "5 apples",
            "5s!",
            "1e9s",
            "9223372036854767616s",
            ".5s",
        ] {
            assert_eq!(parse_wait(text), None, "{text}");
        }
    }

    #[test]
    fn prose_is_read_where_it_gives_a_unit() {
        for (text, millis) in [
            (
                "Rate limit reached. Please try again in 5.289s. Visit ...",
                5_289,
            ),
            ("Please try again in 812ms.", 812),
            (
                "metric: x, limit: 20\nPlease retry in 48.939935699s.",
                48_939,
            ),
            ("Please retry in 130.5ms.", 130),
            ("Try again in 1h2m3s, please", 3_723_000),
            ("please wait for 2 minutes and 5 seconds before", 125_000),
            ("Your quota will reset after 10h0m2s.", 36_002_000),
            ("Retry after 7 Seconds", 7_000),
            ("try again in about 3 min", 180_000),
        ] {
            let wait = wait_in_prose(text).map(|wait| wait.as_millis());
            assert_eq!(wait, Some(millis), "{text}");
        }
    }

    #[test]
    fn prose_without_a_wait_asks_for_none() {
        for text in [
            "",
            "Please try again in 5",
            "please try again in 5 more requests",
            "Limit 30000, Used 29000, Requested 5000",
            "the answer took 5s",
            "try again in -3s",
            "try again later",
        ] {
            assert_eq!(wait_in_prose(text), None, "{text}");
        }
    }

    #[test]
    fn bare_numbers_take_the_unit_of_their_header() {
        assert_eq!(parse_seconds("1.5"), Some(Duration::from_millis(1_500)));
        assert_eq!(parse_millis(" 12.5 "), Some(Duration::from_micros(12_500)));
        for text in ["", "-1", "1s", "NaN", "inf", "9223372036854767616", "1e3"] {
            assert_eq!(parse_seconds(text), None, "{text}");
        }
    }
}
