//! What the person who waits, the operator and the program that called are told.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use lifesign_core::{
    Ages, BoundName, Cut, Failure, FailureCode, Finding, GiveUp, Hints, Joined, Origin, Phase,
    Stage, TEXT_CHARS, Tier,
};

/// Words that would blame a clock or the request for what a broken line did.
const BLAME: [&str; 6] = [
    "timed out",
    "timeout",
    "too long",
    "context",
    "max_tokens",
    "length",
];

fn failure(code: FailureCode) -> Failure {
    Failure::new(code, Phase::BeforeContent)
}

/// A failure with everything in it that a message could show.
fn detailed(code: FailureCode) -> Failure {
    let mut failure = failure(code);
    failure.bound = Some(BoundName::Flat);
    failure.limit = Some(Duration::from_secs(45));
    failure.origin = Some(Origin::Env);
    failure.status = Some(418);
    failure.provider_message = Some("the provider's own words".to_owned());
    failure.detail = Some("what we saw".to_owned());
    failure.attempt = 3;
    failure.of = 4;
    failure
}

fn cut(bound: BoundName, finding: Finding, phase: Phase, seconds: u64) -> Failure {
    Failure::of_cut(&Cut {
        bound,
        limit: Duration::from_secs(seconds),
        joined: None,
        origin: Origin::Call,
        phase,
        stage: None,
        ages: Ages::of(|_| Duration::from_secs(seconds)),
        finding,
        late: Duration::ZERO,
    })
}

#[test]
fn no_two_codes_share_a_sentence_or_a_message() {
    for of in [failure, detailed] {
        let sentences: BTreeSet<_> = FailureCode::ALL.map(|code| of(code).sentence()).into();
        let mut messages: BTreeSet<_> = FailureCode::ALL.map(|code| of(code).message()).into();
        messages.remove("");

        assert_eq!(sentences.len(), FailureCode::ALL.len(), "{sentences:#?}");
        // A refused setting is told in the words of whoever refused it.
        assert_eq!(messages.len(), FailureCode::ALL.len(), "{messages:#?}");
    }
}

#[test]
fn sentences_are_plain_whole_sentences() {
    let jargon = [
        "bound",
        "frame",
        "upstream",
        "byte",
        "heartbeat",
        "token",
        "http",
        "wire",
        "_",
    ];
    for code in FailureCode::ALL {
        for of in [failure, detailed] {
            for partial in [false, true] {
                let mut failure = of(code);
                failure.partial = partial;
                let sentence = failure.sentence();

                assert!(sentence.starts_with(char::is_uppercase), "{sentence}");
                assert!(sentence.ends_with('.'), "{sentence}");
                assert!(
                    !sentence.contains("  ") && !sentence.contains(" ."),
                    "{sentence}"
                );
                for word in jargon {
                    assert!(
                        !sentence.to_lowercase().contains(word),
                        "{word}: {sentence}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_nobody_answered_is_told_in_our_own_words() {
    let told = |code| {
        let mut failure = failure(code);
        failure.detail = Some("the gateway\nis stopping".to_owned());
        [failure.message(), failure.sentence()]
    };

    assert_eq!(
        told(FailureCode::Rejected),
        [
            "the gateway is stopping",
            "The request was refused before it was sent on; sending the same again will not help."
        ]
    );
    assert_eq!(
        told(FailureCode::ProviderError),
        [
            "the gateway is stopping",
            "The answer was given up before it was complete; trying again may help."
        ]
    );
    assert_eq!(
        told(FailureCode::Cancelled)[1],
        "Somebody else stopped the answer before it was complete."
    );
    let mut answered = detailed(FailureCode::Rejected);
    answered.bound = None;
    assert_eq!(
        answered.message(),
        "the provider refused the request (418): the provider's own words"
    );
}

#[test]
fn messages_are_one_lower_case_clause() {
    for code in FailureCode::ALL {
        for message in [failure(code).message(), detailed(code).message()] {
            assert!(message.starts_with(char::is_lowercase), "{message}");
            assert!(!message.ends_with('.'), "{message}");
            assert!(
                !message.contains('\n') && !message.contains("  "),
                "{message}"
            );
        }
    }
}

#[test]
fn codes_keep_their_tier_exit_code_and_status() {
    type Row = (Option<Tier>, u8, Option<u16>);
    let rows: BTreeMap<&str, Row> = FailureCode::ALL
        .map(|code| {
            (
                code.name(),
                (code.tier(), code.exit_code(), code.http_status(None, false)),
            )
        })
        .into();

    let expected: BTreeMap<&str, Row> = [
        ("bytes_only", (Some(Tier::Cut), 5, Some(504))),
        ("cancelled", (None, 130, Some(499))),
        ("connect", (Some(Tier::Transport), 8, Some(502))),
        ("connection_lost", (Some(Tier::Transport), 8, Some(502))),
        ("consumer_stalled", (None, 8, None)),
        ("empty", (Some(Tier::Transport), 4, Some(502))),
        ("exhausted", (None, 7, Some(429))),
        ("heartbeats_only", (Some(Tier::Cut), 5, Some(504))),
        ("lifetime", (None, 5, Some(504))),
        ("no_content", (Some(Tier::Cut), 5, Some(504))),
        ("overloaded", (Some(Tier::Overload), 4, Some(503))),
        ("provider_error", (Some(Tier::Transport), 4, Some(502))),
        ("queue_full", (None, 7, Some(429))),
        ("rate_limited", (Some(Tier::Rate), 7, Some(429))),
        ("raw_silent", (Some(Tier::Transport), 5, Some(504))),
        ("reasoning_only", (Some(Tier::Cut), 5, Some(504))),
        ("refused_setting", (None, 2, Some(400))),
        ("rejected", (None, 4, Some(400))),
        ("too_large", (None, 4, Some(502))),
        ("truncated", (Some(Tier::Transport), 3, Some(502))),
        ("unreadable", (None, 4, Some(502))),
        ("wall_clock", (None, 6, Some(504))),
        ("whole_call", (None, 5, Some(504))),
    ]
    .into();
    pretty_assertions::assert_eq!(rows, expected);
}

#[test]
fn a_code_is_written_as_its_name() {
    for code in FailureCode::ALL {
        assert_eq!(
            serde_json::to_string(&code).unwrap(),
            format!("\"{}\"", code.name())
        );
    }
}

#[test]
fn the_status_is_the_upstreams_where_it_sent_one() {
    let status = |code, status, stated, anthropic| {
        let mut failure = failure(code);
        (failure.status, failure.stated_status) = (status, stated);
        failure.http_status(anthropic)
    };

    assert_eq!(
        status(FailureCode::Rejected, Some(404), None, false),
        Some(404)
    );
    assert_eq!(
        status(FailureCode::ProviderError, Some(500), None, false),
        Some(500)
    );
    assert_eq!(
        status(FailureCode::Exhausted, Some(402), None, false),
        Some(402)
    );
    assert_eq!(
        status(FailureCode::Overloaded, Some(503), None, true),
        Some(503)
    );
    // Inside a stream the error's own type or number decides.
    assert_eq!(
        status(FailureCode::Rejected, Some(200), Some(413), false),
        Some(413)
    );
    assert_eq!(
        status(FailureCode::ProviderError, Some(200), Some(504), false),
        Some(504)
    );
    assert_eq!(
        status(FailureCode::Rejected, Some(200), None, false),
        Some(400)
    );
    assert_eq!(
        status(FailureCode::Overloaded, Some(200), Some(529), false),
        Some(503)
    );
    assert_eq!(
        status(FailureCode::Overloaded, Some(200), None, true),
        Some(529)
    );
    // What an attempt was answered with is not the status of a call that ran out of time.
    assert_eq!(
        status(FailureCode::WallClock, Some(503), None, false),
        Some(504)
    );
}

#[test]
fn a_request_too_large_is_not_an_answer_too_large() {
    let request = Failure::new(FailureCode::TooLarge, Phase::Queued);
    let answer = Failure::new(FailureCode::TooLarge, Phase::AfterContent);

    assert_eq!(request.http_status(false), Some(413));
    assert_eq!(answer.http_status(false), Some(502));
    assert_ne!(request.sentence(), answer.sentence());
}

#[test]
fn silence_is_told_with_its_limit_and_the_number_of_attempts() {
    let mut silence = cut(
        BoundName::RawSilence,
        Finding::Nothing,
        Phase::BeforeContent,
        3,
    );
    (silence.attempt, silence.of) = (3, 3);
    silence.give_up = Some(GiveUp::AttemptsSpent);

    assert_eq!(
        silence.message(),
        "nothing arrived for 3 s before the first content (bounds.raw_silence = 3 s, call); \
         3 attempts"
    );
    assert_eq!(
        silence.sentence(),
        "The model's server went quiet for 3 s; trying again may help."
    );
    assert_eq!(silence.setting(), Some("bounds.raw_silence"));
}

#[test]
fn a_pinging_line_is_never_called_silent() {
    let pings = cut(
        BoundName::BeforeContent,
        Finding::Heartbeats,
        Phase::BeforeContent,
        60,
    );

    assert_eq!(pings.code, FailureCode::HeartbeatsOnly);
    for text in [pings.message(), pings.sentence(), pings.hint().unwrap()] {
        let text = text.to_lowercase();
        assert!(!text.contains("silen") && !text.contains("quiet"), "{text}");
    }
    assert!(pings.message().contains("content"));
    assert!(
        pings
            .message()
            .contains("bounds.before_content = 60 s, call")
    );
}

#[test]
fn a_limit_that_an_allowance_extended_is_told_with_both() {
    let mut cut = cut(
        BoundName::BeforeContent,
        Finding::Events,
        Phase::BeforeContent,
        0,
    );
    cut.limit = Some(Duration::from_nanos(70_020_517_241));
    cut.origin = Some(Origin::Default);
    cut.joined = Some(Joined {
        limit: Duration::from_mins(1),
        allowance: Duration::from_secs(69),
    });

    assert_eq!(
        cut.message(),
        "only events without content arrived for 70.02 s before the first content \
         (bounds.before_content = 60 s, joined with the thinking allowance of 69 s, default)"
    );
    assert_eq!(
        cut.sentence(),
        "The model's server gave signs of work for 70 s without a word of an answer; \
         trying again may help."
    );
    assert_eq!(
        cut.hint().as_deref(),
        Some(
            "raise max_tokens or lower bounds.think_tokens_per_second, whose allowance outlasted \
             bounds.before_content, or try again"
        )
    );

    cut.joined = None;
    assert!(
        cut.hint()
            .unwrap()
            .starts_with("raise bounds.before_content")
    );
}

#[test]
fn the_wall_clock_is_not_told_as_silence() {
    let mut wall = cut(
        BoundName::WallClock,
        Finding::Output,
        Phase::AfterContent,
        120,
    );
    wall.partial = true;

    assert_eq!(
        wall.message(),
        "the call's own budget ran out in the middle of the answer \
         (bounds.wall_clock = 2 min, call)"
    );
    assert_eq!(
        wall.sentence(),
        "The 2 min you allowed ran out while the answer was still coming; \
         ask for less or allow more."
    );
}

#[test]
fn whoever_has_a_part_of_the_answer_is_not_told_that_none_came() {
    let told = [
        FailureCode::BytesOnly,
        FailureCode::HeartbeatsOnly,
        FailureCode::NoContent,
        FailureCode::RawSilent,
    ]
    .map(|code| {
        let mut cut = Failure::new(code, Phase::AfterContent);
        cut.partial = true;
        cut.limit = Some(Duration::from_secs(45));
        cut.sentence()
    });

    assert_eq!(
        told,
        [
            "Only scraps of the rest of the answer came for 45 s; what had come is kept.",
            "The line to the model's server was alive for 45 s, but no more of the answer came over \
             it; what had come is kept.",
            "The model's server gave signs of work for 45 s without another word of the answer; \
             what had come is kept.",
            "The model's server went quiet for 45 s in the middle of the answer; what had come is \
             kept.",
        ]
    );
}

#[test]
fn a_stream_that_ends_early_and_a_lost_connection_are_told_apart() {
    let mut ended = Failure::new(FailureCode::Truncated, Phase::AfterContent);
    let mut lost = Failure::new(FailureCode::ConnectionLost, Phase::AfterContent);
    for failure in [&mut ended, &mut lost] {
        failure.partial = true;
        failure.give_up = Some(GiveUp::Committed);
    }

    assert!(
        ended
            .message()
            .starts_with("the provider ended the stream without a finish")
    );
    assert!(
        lost.message()
            .starts_with("the connection to the provider was lost")
    );
    for failure in [ended, lost] {
        for text in [
            failure.message(),
            failure.sentence(),
            failure.hint().unwrap(),
        ] {
            for word in BLAME {
                assert!(!text.contains(word), "{word}: {text}");
            }
        }
        assert!(
            failure
                .message()
                .ends_with("; not repeated: content was already received")
        );
    }
}

#[test]
fn a_hung_connection_names_its_stage() {
    let mut hung = cut(BoundName::Connect, Finding::Nothing, Phase::Connecting, 5);
    hung.stage = Some(Stage::Tcp);

    assert_eq!(
        hung.message(),
        "connecting hung for 5 s at the tcp stage (bounds.connect = 5 s, call)"
    );

    let mut failed = Failure::new(FailureCode::Connect, Phase::Connecting);
    failed.stage = Some(Stage::Dns);
    failed.detail = Some("the name x.invalid has no address".to_owned());
    assert_eq!(
        failed.message(),
        "connecting failed at the dns stage: the name x.invalid has no address"
    );
}

#[test]
fn the_providers_words_reach_the_operator_bounded_and_without_keys() {
    let mut rejected = failure(FailureCode::Rejected);
    rejected.status = Some(401);
    rejected.provider_message = Some("bad key\n sk-0123456789abcdef given".to_owned());
    assert_eq!(
        rejected.message(),
        "the provider refused the request (401): bad key [key] given"
    );
    assert_eq!(rejected.hint().as_deref(), Some("check the API key"));

    rejected.provider_message = Some("x".repeat(100_000));
    assert!(rejected.message().len() < TEXT_CHARS + 100);
}

#[test]
fn a_status_that_ends_no_response_is_told_as_what_was_not_promised() {
    let mut switched = failure(FailureCode::Unreadable);
    switched.status = Some(101);
    switched.provider_message = Some("no explanation".to_owned());

    assert_eq!(
        switched.message(),
        "what arrived is not the wire that was promised: a final status of 101"
    );
}

#[test]
fn overload_is_told_with_the_count() {
    let mut overloaded = failure(FailureCode::Overloaded);
    overloaded.status = Some(529);
    overloaded.provider_message = Some("Overloaded".to_owned());
    (overloaded.attempt, overloaded.of) = (4, 4);
    overloaded.give_up = Some(GiveUp::AttemptsSpent);

    assert_eq!(
        overloaded.message(),
        "the provider is overloaded (529): Overloaded; 4 attempts"
    );
}

#[test]
fn a_failure_that_another_attempt_follows_is_told_without_a_count() {
    let mut overloaded = failure(FailureCode::Overloaded);
    overloaded.status = Some(529);
    (overloaded.attempt, overloaded.of) = (2, 4);

    assert_eq!(overloaded.message(), "the provider is overloaded (529)");
}

#[test]
fn a_wait_too_long_to_sleep_makes_a_rate_limit_exhausted_and_leaves_an_overload() {
    let wait = Duration::from_mins(10);
    let resets_at = "2026-11-29T12:10:00Z".parse().unwrap();
    let hints = Hints {
        wait: Some(wait),
        resets_at: Some(resets_at),
        ..Hints::default()
    };
    let reason = GiveUp::BeyondMaxWait {
        asked: wait,
        max: Duration::from_mins(2),
    };
    let settled = |code| {
        let mut failure = failure(code);
        failure.settle(reason, &hints);
        assert_eq!(
            (failure.retry_after, failure.resets_at),
            (Some(wait), Some(resets_at))
        );
        failure
    };

    let mut limited = settled(FailureCode::RateLimited);
    limited.status = Some(429);
    assert_eq!(limited.code, FailureCode::Exhausted);
    assert!(!limited.is_retryable());
    assert_eq!(
        limited.message(),
        "the provider limits the rate of requests (429); not repeated: the wait asked for, \
         10 min, is beyond retry.max_wait = 2 min"
    );
    assert_eq!(
        limited.sentence(),
        "Requests came faster than the provider allows, and it takes no more until \
         2026-11-29T12:10:00Z."
    );
    assert!(limited.hint().unwrap().contains("raise retry.max_wait"));

    assert_eq!(
        settled(FailureCode::Overloaded).code,
        FailureCode::Overloaded
    );
}

#[test]
fn a_quota_is_not_told_as_a_rate_limit() {
    // A clock that says less than a second too much would send people back too early.
    let resets_at = "2026-11-29T12:09:59.000000001Z".parse().unwrap();
    let hints = Hints {
        quota: true,
        resets_at: Some(resets_at),
        ..Hints::default()
    };
    let mut quota = failure(FailureCode::RateLimited);
    quota.settle(GiveUp::Quota, &hints);

    assert_eq!(
        quota.message(),
        "the provider reports that the quota is used up"
    );
    assert_eq!(
        quota.sentence(),
        "The account has used up what it may use until 2026-11-29T12:10:00Z."
    );
    // No wait is slept for a quota, however long a wait may be.
    assert!(!quota.hint().unwrap().contains("retry.max_wait"));
}

#[test]
fn only_silence_is_a_timeout_to_those_who_know_only_io() {
    for code in FailureCode::ALL {
        let error = io::Error::from(failure(code));

        assert_eq!(
            error.kind() == io::ErrorKind::TimedOut,
            code == FailureCode::RawSilent
        );
        assert_eq!(error.to_string(), failure(code).message());
    }
}

#[test]
fn whoever_was_told_not_to_retry_is_not_told_to_try_again() {
    let mut failure = failure(FailureCode::ProviderError);
    assert!(failure.is_retryable());

    failure.give_up = Some(GiveUp::ProviderSaysNo);

    assert!(!failure.is_retryable());
}
