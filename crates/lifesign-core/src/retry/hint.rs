//! What a provider asks of whoever wants to try again.
//!
//! The order of trust is fixed: `x-should-retry`, `retry-after-ms`, `Retry-After`, Gemini's
//! `RetryInfo`, reset headers of limits with nothing remaining, body fields, prose with a unit. A
//! hint that cannot be read is skipped, never guessed at.

use std::time::Duration;

use jiff::Timestamp;

use super::prose::{parse_millis, parse_seconds, parse_wait};

/// What a provider asks of whoever wants to try again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// What `x-should-retry` says. Only `false` is obeyed.
    pub should_retry: Option<bool>,
    /// The wait asked for. Zero where it lies in the past: then our own first delay applies.
    pub wait: Option<Duration>,
    /// When that wait is over, on the wall clock, rounded up to a second.
    pub resets_at: Option<Timestamp>,
    /// Whether a quota is used up, so that waiting as for a rate limit does not help.
    pub quota: bool,
}

/// What the body of an error, or an error inside a stream, asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyHints {
    /// The delay of a `google.rpc.RetryInfo`, which ranks above reset headers.
    pub retry_info: Option<Duration>,
    /// The wait in another field of the body, or in its prose; ranks last.
    pub wait: Option<Duration>,
    /// Whether its codes say that a quota is used up.
    pub quota: bool,
}

impl Hints {
    /// Reads the hints of a response: its status, its headers and what its body says.
    ///
    /// `now` is the wall clock's time, from which dates count where the response has no `Date`.
    /// Names of headers are compared without regard to case. The status of an error inside a 200 is
    /// 200: `Retry-After` there is noise.
    pub fn read<'h>(
        status: u16,
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
        body: BodyHints,
        now: Timestamp,
    ) -> Self {
        let headers = Headers::of(headers);
        let date = headers.first("date", parse_http_date).unwrap_or(now);
        let honours_retry_after = matches!(status, 408 | 425 | 429 | 500..=599);
        let wait = headers
            .first("retry-after-ms", parse_millis)
            .filter(|wait| honours_retry_after && !wait.is_zero())
            .or_else(|| {
                headers
                    .first("retry-after", |value| retry_after(value, date))
                    .filter(|_| honours_retry_after)
            })
            .or(body.retry_info)
            .or_else(|| headers.reset(date))
            .or(body.wait);
        Self {
            should_retry: headers.first("x-should-retry", parse_bool),
            wait,
            resets_at: wait.and_then(|wait| after(now, wait)),
            quota: body.quota,
        }
    }

    /// Returns whether a header called `name`, in small letters, may hold a hint or is needed to
    /// read one.
    pub fn may_be_in(name: &str) -> bool {
        matches!(
            name,
            "date" | "retry-after" | "retry-after-ms" | "x-should-retry"
        ) || name.contains("ratelimit")
    }
}

/// The headers that may hold a hint, their values as text.
struct Headers<'h>(Vec<(&'h str, &'h str)>);

impl<'h> Headers<'h> {
    fn of(headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) -> Self {
        let text = headers.into_iter().filter_map(|(name, value)| {
            let value = std::str::from_utf8(value).ok()?;
            Some((name, value.trim()))
        });
        Self(text.collect())
    }

    /// Returns the first value of `name` that can be read.
    fn first<T>(&self, name: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.0
            .iter()
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .find_map(|(_, value)| read(value))
    }

    /// Returns the longest reset of the limits that have nothing remaining: all of them must pass.
    fn reset(&self, date: Timestamp) -> Option<Duration> {
        self.0
            .iter()
            .filter_map(|(name, value)| {
                let name = name.to_ascii_lowercase();
                if !name.contains("ratelimit") || !name.contains("reset") {
                    return None;
                }
                let remaining = self.first(&name.replacen("reset", "remaining", 1), is_nothing)?;
                remaining.then(|| reset(value, date)).flatten()
            })
            .filter(|wait| !wait.is_zero())
            .max()
    }
}

/// Reads `Retry-After`: seconds, fractions of them, or a date.
fn retry_after(value: &str, date: Timestamp) -> Option<Duration> {
    parse_seconds(value).or_else(|| Some(until(parse_http_date(value)?, date)))
}

/// Reads a reset header: seconds, a time of the epoch, a duration, or an RFC 3339 time.
fn reset(value: &str, date: Timestamp) -> Option<Duration> {
    if let Ok(number) = value.parse::<i64>() {
        let at = match number {
            EPOCH_SECONDS..EPOCH_MILLIS => Timestamp::from_second(number).ok(),
            EPOCH_MILLIS.. => Timestamp::from_millisecond(number).ok(),
            _ => None,
        };
        if let Some(at) = at {
            return at.as_second().lt(&EPOCH_END).then(|| until(at, date));
        }
    }
    parse_seconds(value)
        .or_else(|| parse_wait(value))
        .or_else(|| Some(until(value.parse::<Timestamp>().ok()?, date)))
}

/// Returns whether a count of what remains says that nothing does.
fn is_nothing(value: &str) -> Option<bool> {
    parse_seconds(value).map(|remaining| remaining.is_zero())
}

fn parse_bool(value: &str) -> Option<bool> {
    match value {
        _ if value.eq_ignore_ascii_case("true") => Some(true),
        _ if value.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

fn parse_http_date(value: &str) -> Option<Timestamp> {
    Timestamp::try_from(httpdate::parse_http_date(value).ok()?).ok()
}

/// Returns how long it is from `date` to `at`; zero if that is past.
fn until(at: Timestamp, date: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(date)).unwrap_or_default()
}

/// Returns the time `wait` after `now`, rounded up to a second.
fn after(now: Timestamp, wait: Duration) -> Option<Timestamp> {
    let at = now.checked_add(wait).ok()?;
    Timestamp::from_second(at.as_second() + i64::from(at.subsec_nanosecond() > 0)).ok()
}

/// From here on a bare number is a time in seconds of the epoch (2001), not a wait.
const EPOCH_SECONDS: i64 = 1_000_000_000;

/// From here on a bare number is a time in milliseconds of the epoch (2001); OpenRouter sends such.
const EPOCH_MILLIS: i64 = 1_000_000_000_000;

/// The year 2100: what lies beyond is no reset but "unlimited".
const EPOCH_END: i64 = 4_102_444_800;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, headers: &[(&str, &str)], body: BodyHints) -> Hints {
        let headers = headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()));
        Hints::read(status, headers, body, NOW.parse().unwrap())
    }

    fn wait_ms(status: u16, headers: &[(&str, &str)]) -> Option<u128> {
        read(status, headers, BodyHints::default())
            .wait
            .map(|wait| wait.as_millis())
    }

    const NOW: &str = "2026-11-29T12:00:00.5Z";

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        assert_eq!(wait_ms(429, &[("Retry-After", "7")]), Some(7_000));
        assert_eq!(wait_ms(503, &[("retry-after", "0.25")]), Some(250));
        assert_eq!(wait_ms(429, &[("retry-after", "0")]), Some(0));
        assert_eq!(
            wait_ms(429, &[("retry-after", "Sun, 29 Nov 2026 12:00:04 GMT")]),
            Some(3_500)
        );
        assert_eq!(
            wait_ms(429, &[("retry-after", "Sun, 29 Nov 2026 11:00:00 GMT")]),
            Some(0)
        );
        assert_eq!(wait_ms(429, &[("retry-after", "soon")]), None);
    }

    #[test]
    fn a_date_counts_from_the_date_of_the_response() {
        let headers = [
            ("date", "Sun, 29 Nov 2026 09:00:00 GMT"),
            ("retry-after", "Sun, 29 Nov 2026 09:00:04 GMT"),
        ];

        let hints = read(429, &headers, BodyHints::default());

        assert_eq!(hints.wait, Some(Duration::from_secs(4)));
        assert_eq!(
            hints.resets_at,
            Some("2026-11-29T12:00:05Z".parse().unwrap())
        );
    }

    #[test]
    fn retry_after_is_noise_where_nothing_was_refused_for_a_while() {
        for status in [200, 400, 401, 404, 409, 422] {
            assert_eq!(
                wait_ms(status, &[("retry-after", "24"), ("retry-after-ms", "9")]),
                None
            );
        }
        for status in [408, 425, 429, 500, 503, 529] {
            assert_eq!(wait_ms(status, &[("retry-after", "24")]), Some(24_000));
        }
    }

    #[test]
    fn zero_milliseconds_are_no_hint() {
        assert_eq!(
            wait_ms(429, &[("retry-after-ms", "0"), ("retry-after", "1")]),
            Some(1_000)
        );
        assert_eq!(
            wait_ms(429, &[("retry-after-ms", "1250.5"), ("retry-after", "2")]),
            Some(1_250)
        );
        assert_eq!(
            wait_ms(429, &[("retry-after-ms", "x"), ("retry-after", "2")]),
            Some(2_000)
        );
    }

    #[test]
    fn the_order_of_trust_holds() {
        let resets = [
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "6m0s"),
        ];
        let body = BodyHints {
            retry_info: Some(Duration::from_secs(48)),
            wait: Some(Duration::from_secs(5)),
            quota: false,
        };
        let prose = BodyHints {
            retry_info: None,
            ..body
        };

        assert_eq!(read(429, &resets, body).wait, Some(Duration::from_secs(48)));
        assert_eq!(read(429, &resets, prose).wait, Some(Duration::from_mins(6)));
        assert_eq!(read(429, &[], prose).wait, Some(Duration::from_secs(5)));
        assert_eq!(
            read(429, &[("retry-after", "9")], body).wait,
            Some(Duration::from_secs(9))
        );
    }

    #[test]
    fn only_limits_with_nothing_remaining_count() {
        let openai = [
            ("x-ratelimit-remaining-requests", "4999"),
            ("x-ratelimit-reset-requests", "12ms"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "6s"),
        ];
        let cerebras = [
            ("x-ratelimit-remaining-requests-day", "12"),
            ("x-ratelimit-reset-requests-day", "33011.38"),
            ("x-ratelimit-remaining-tokens-minute", "0"),
            ("x-ratelimit-reset-tokens-minute", "11.38"),
        ];
        let anthropic = [
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            (
                "anthropic-ratelimit-input-tokens-reset",
                "2026-11-29T12:00:30.5Z",
            ),
            ("anthropic-ratelimit-output-tokens-remaining", "10"),
            (
                "anthropic-ratelimit-output-tokens-reset",
                "2026-11-29T13:00:00Z",
            ),
        ];

        assert_eq!(wait_ms(429, &openai), Some(6_000));
        assert_eq!(wait_ms(429, &cerebras), Some(11_380));
        assert_eq!(wait_ms(429, &anthropic), Some(30_000));
        assert_eq!(
            wait_ms(
                429,
                &[
                    ("ratelimitbysize-remaining", "0"),
                    ("ratelimitbysize-reset", "37")
                ]
            ),
            Some(37_000)
        );
        assert_eq!(
            wait_ms(
                429,
                &[("ratelimit-remaining", "0"), ("ratelimit-reset", "59")]
            ),
            Some(59_000)
        );
        assert_eq!(wait_ms(429, &[("x-ratelimit-reset-tokens", "6s")]), None);
    }

    #[test]
    fn a_reset_may_be_a_time_of_the_epoch() {
        for value in ["1795953630", "1795953630500"] {
            let headers = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", value)];
            let wait = wait_ms(429, &headers).unwrap();
            assert!((29_500..=30_000).contains(&wait), "{value}: {wait}");
        }
    }

    #[test]
    fn an_unlimited_sentinel_is_no_wait() {
        for value in [
            "9223372036854767616",
            "9223372036854775807",
            "1e308",
            "inf",
            "-1",
        ] {
            let headers = [
                ("x-ratelimit-remaining-tokens-day", "0"),
                ("x-ratelimit-reset-tokens-day", value),
                ("retry-after", value),
            ];
            assert_eq!(wait_ms(429, &headers), None, "{value}");
        }
    }

    #[test]
    fn the_word_of_the_provider_on_retrying_is_kept() {
        let say =
            |value| read(500, &[("X-Should-Retry", value)], BodyHints::default()).should_retry;

        assert_eq!(say("false"), Some(false));
        assert_eq!(say("True"), Some(true));
        assert_eq!(say("maybe"), None);
    }
}
