//! Whatever a header or a sentence says, it is read or skipped.

use std::time::Duration;

use jiff::Timestamp;
use lifesign_core::{BodyHints, Hints, parse_wait, wait_in_prose};
use proptest::prelude::*;

const NAMES: [&str; 9] = [
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "date",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-requests-remaining",
    "anthropic-ratelimit-requests-reset",
    "ratelimit-reset",
];

fn now() -> Timestamp {
    Timestamp::from_second(1_795_953_600).unwrap()
}

fn wait(name: &str, value: &str) -> Option<Duration> {
    Hints::read(429, [(name, value.as_bytes())], BodyHints::default(), now()).wait
}

fn header_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "[0-9]{0,25}(\\.[0-9]{0,12})?(ms|s|m|h)?".prop_map(String::into_bytes),
        "(Sun|Mon), [0-9]{2} (Nov|Feb) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
            .prop_map(String::into_bytes),
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z".prop_map(String::into_bytes),
    ]
}

fn header() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    (proptest::sample::select(&NAMES[..]), header_value())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_header_makes_the_reader_panic(
        status in 100_u16..600,
        headers in proptest::collection::vec(header(), 0..8),
    ) {
        let borrowed = headers.iter().map(|(name, value)| (*name, value.as_slice()));

        let hints = Hints::read(status, borrowed, BodyHints::default(), now());

        // A wait is never negative; what it ends at is never past.
        prop_assert!(hints.resets_at.is_none_or(|at| at >= now()));
    }

    #[test]
    fn no_prose_makes_the_reader_panic(
        text in "\\PC*",
        near in "(again in|wait)? ?[0-9.]{0,22} ?(ms|s|m|h|\u{b5}s|seconds)?[ a-z,.]{0,8}",
    ) {
        let _read = (wait_in_prose(&text), parse_wait(&text));
        let _read = (wait_in_prose(&near), parse_wait(&near));
    }

    #[test]
    fn more_seconds_are_never_a_shorter_wait(
        a in 0_u64..100_000_000,
        b in 0_u64..100_000_000,
        thousandths in 0_u32..1_000,
    ) {
        let (less, more) = (a.min(b), a.max(b));
        let text = |seconds: u64| format!("{seconds}.{thousandths:03}");
        for name in ["retry-after", "retry-after-ms"] {
            prop_assert!(wait(name, &text(less)) <= wait(name, &text(more)));
        }
        let of = |seconds: u64| wait_in_prose(&format!("try again in {}s.", text(seconds)));
        prop_assert!(of(less) <= of(more));
        prop_assert_eq!(of(more), Some(Duration::new(more, thousandths * 1_000_000)));
    }
}

#[test]
fn what_is_not_text_is_skipped() {
    let headers = [
        ("retry-after", &b"\xff\xfe7"[..]),
        ("retry-after", &b"7"[..]),
    ];

    let hints = Hints::read(429, headers, BodyHints::default(), now());

    assert_eq!(hints.wait, Some(Duration::from_secs(7)));
}

#[test]
fn a_reset_counts_from_the_date_of_the_response() {
    let headers = [
        ("Date", &b"Sun, 29 Nov 2026 09:00:00 GMT"[..]),
        ("anthropic-ratelimit-requests-remaining", &b"0"[..]),
        (
            "anthropic-ratelimit-requests-reset",
            &b"2026-11-29T09:00:42Z"[..],
        ),
    ];

    let hints = Hints::read(429, headers, BodyHints::default(), now());

    assert_eq!(hints.wait, Some(Duration::from_secs(42)));
}

#[test]
fn the_end_of_a_wait_is_told_in_whole_seconds() {
    let end = |wait: &'static [u8]| {
        Hints::read(429, [("retry-after", wait)], BodyHints::default(), now()).resets_at
    };

    let two_seconds_on = Some(Timestamp::from_second(1_795_953_602).unwrap());
    assert_eq!(end(b"1.5"), two_seconds_on);
    assert_eq!(end(b"2"), two_seconds_on);
}
