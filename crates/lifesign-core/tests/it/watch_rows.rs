//! Which bounds apply to which call, and how long they are.

use std::time::Duration;

use lifesign_core::{
    BoundName, Bounds, CallShape, Join, JoinBlock, Limit, Origin, Rate, Row, Setting, rows,
};

use crate::watch_sim::{
    ANTHROPIC, CHAT, RESPONSES, by_call, from_catalog, limit, secs, streamed, whole,
};

fn row(bounds: &Bounds, shape: CallShape, name: BoundName) -> Row {
    rows(bounds, &shape)
        .into_iter()
        .find(|row| row.name == name)
        .unwrap()
}

fn in_force(bounds: &Bounds, shape: CallShape, name: BoundName) -> Option<Duration> {
    row(bounds, shape, name).in_force()
}

/// Returns the bounds in force with their limits in whole seconds.
fn table(bounds: &Bounds, shape: CallShape) -> Vec<(&'static str, u64)> {
    rows(bounds, &shape)
        .iter()
        .filter_map(|row| Some((row.name.name(), row.in_force()?.as_secs())))
        .collect()
}

#[test]
fn a_stream_that_shows_work_has_every_default() {
    let expected = [
        ("connect", 10),
        ("headers", 120),
        ("before_content", 60),
        ("between_events", 150),
        ("flat", 1_862),
        ("raw_silence", 180),
    ];

    assert_eq!(
        table(&Bounds::default(), streamed(ANTHROPIC, Some(4_096))),
        expected
    );
}

#[test]
fn a_wire_that_thinks_in_the_dark_is_not_bounded_before_content() {
    let bounds = Bounds {
        shows_work: false,
        ..Bounds::default()
    };
    let expected = [
        ("connect", 10),
        ("headers", 120),
        ("between_events", 150),
        ("flat", 1_862),
        ("raw_silence", 240),
    ];

    assert_eq!(table(&bounds, streamed(CHAT, Some(4_096))), expected);
}

#[test]
fn openai_responses_has_no_default_between_events() {
    let bounds = Bounds {
        shows_work: false,
        ..Bounds::default()
    };

    let shape = streamed(RESPONSES, None);

    assert_eq!(in_force(&bounds, shape, BoundName::BetweenEvents), None);
    let by_hand = Bounds {
        between_events: limit(20),
        ..bounds
    };
    assert_eq!(
        in_force(&by_hand, shape, BoundName::BetweenEvents),
        Some(secs(20))
    );
}

#[test]
fn without_phase_defaults_only_what_was_set_bounds_a_phase() {
    let bounds = Bounds {
        phase_defaults: false,
        ..Bounds::default()
    };
    let shape = streamed(ANTHROPIC, None);

    assert_eq!(in_force(&bounds, shape, BoundName::BeforeContent), None);
    assert_eq!(in_force(&bounds, shape, BoundName::BetweenEvents), None);

    for setting in [limit(20), from_catalog(20)] {
        let bounds = Bounds {
            before_content: setting.clone(),
            between_events: setting,
            ..bounds.clone()
        };
        assert_eq!(
            in_force(&bounds, shape, BoundName::BeforeContent),
            Some(secs(20))
        );
        assert_eq!(
            in_force(&bounds, shape, BoundName::BetweenEvents),
            Some(secs(20))
        );
    }
}

#[test]
fn an_answer_that_comes_whole_has_only_connect_whole_call_and_wall_clock() {
    let bounds = Bounds {
        wall_clock: from_catalog(500),
        lifetime: from_catalog(400),
        reasoning_only: from_catalog(300),
        flat: from_catalog(200),
        headers: from_catalog(110),
        before_content: from_catalog(100),
        ..Bounds::default()
    };

    let expected = [("wall_clock", 500), ("whole_call", 1_862), ("connect", 10)];

    assert_eq!(table(&bounds, whole(CHAT, None)), expected);
}

#[test]
fn a_bound_that_somebody_set_applies_to_an_answer_that_comes_whole() {
    let bounds = Bounds {
        headers: limit(5),
        raw_silence: limit(6),
        before_content: limit(7),
        between_events: limit(8),
        flat: limit(9),
        reasoning_only: limit(10),
        upstream_quiet: limit(11),
        lifetime: limit(12),
        whole_call: limit(13),
        ..Bounds::default()
    };
    let expected = [
        ("lifetime", 12),
        ("whole_call", 13),
        ("connect", 10),
        ("headers", 5),
        ("before_content", 7),
        ("between_events", 8),
        ("reasoning_only", 10),
        ("upstream_quiet", 11),
        ("flat", 9),
        ("raw_silence", 6),
    ];

    assert_eq!(table(&bounds, whole(CHAT, None)), expected);
}

#[test]
fn whole_call_bounds_a_stream_only_where_somebody_set_it() {
    let shape = streamed(CHAT, Some(100));
    let with = |whole_call| Bounds {
        whole_call,
        ..Bounds::default()
    };

    assert_eq!(
        in_force(&Bounds::default(), shape, BoundName::WholeCall),
        None
    );
    assert_eq!(
        in_force(&with(from_catalog(9)), shape, BoundName::WholeCall),
        None
    );
    assert_eq!(
        in_force(&with(limit(9)), shape, BoundName::WholeCall),
        Some(secs(9))
    );
}

#[test]
fn allowances_are_exact_to_the_nanosecond() {
    let allowance = |tokens| {
        row(
            &Bounds::default(),
            streamed(ANTHROPIC, Some(tokens)),
            BoundName::BetweenEvents,
        )
        .join
        .unwrap()
        .allowance
        .unwrap()
    };

    assert_eq!(allowance(87), secs(1));
    assert_eq!(allowance(4_096), Duration::new(47, 80_459_770));
    assert_eq!(allowance(32_000), Duration::new(367, 816_091_954));
    assert_eq!(allowance(128_000), Duration::new(1_471, 264_367_816));
    assert_eq!(allowance(u64::MAX).as_secs(), u64::MAX / 87);
}

#[test]
fn flat_by_default_is_setup_and_allowance_but_never_short() {
    let flat = |bounds: &Bounds, max_tokens| {
        in_force(bounds, streamed(ANTHROPIC, max_tokens), BoundName::Flat)
    };
    let patient = Bounds {
        between_events: limit(2_000),
        ..Bounds::default()
    };
    let unrated = Bounds {
        think_tokens_per_second: by_call(Rate::Off),
        ..patient.clone()
    };

    assert_eq!(flat(&Bounds::default(), None), Some(secs(1_862)));
    assert_eq!(
        flat(&Bounds::default(), Some(87 * 1_712)),
        Some(secs(1_862))
    );
    assert_eq!(
        flat(&Bounds::default(), Some(87 * 1_713)),
        Some(secs(1_863))
    );
    assert_eq!(flat(&patient, None), Some(secs(2_000)));
    assert_eq!(flat(&patient, Some(87)), Some(secs(2_001)));
    assert_eq!(flat(&unrated, Some(87)), Some(secs(2_000)));
}

#[test]
fn setup_stands_in_for_what_is_off_or_does_not_apply() {
    let whole_call = |bounds: &Bounds| {
        let shape = whole(ANTHROPIC, Some(87));
        in_force(bounds, shape, BoundName::WholeCall).map(|limit| limit.as_secs())
    };
    let bounds = |before, between| Bounds {
        before_content: before,
        between_events: between,
        headers: by_call(Limit::Off),
        ..Bounds::default()
    };
    let off = || by_call(Limit::Off);

    assert_eq!(whole_call(&bounds(off(), off())), Some(151));
    assert_eq!(whole_call(&bounds(limit(40), limit(40))), Some(41));
    assert_eq!(whole_call(&bounds(off(), limit(40))), Some(61));
    assert_eq!(whole_call(&bounds(limit(500), off())), Some(501));
    // The catalog's row is about streams.
    assert_eq!(whole_call(&bounds(from_catalog(500), off())), Some(151));
}

#[test]
fn whole_call_by_default_is_never_shorter_than_headers() {
    let shape = whole(CHAT, Some(87));
    let with = |headers| Bounds {
        headers,
        ..Bounds::default()
    };

    let loopback = row(&with(from_catalog(600)), shape, BoundName::WholeCall);

    assert_eq!(loopback.in_force(), Some(secs(600)));
    assert_eq!(loopback.origin, Origin::Default);
    assert_eq!(
        in_force(&with(limit(120)), shape, BoundName::WholeCall),
        Some(secs(151))
    );
    let by_hand = Bounds {
        whole_call: limit(30),
        ..with(from_catalog(600))
    };
    assert_eq!(
        in_force(&by_hand, shape, BoundName::WholeCall),
        Some(secs(30))
    );
}

#[test]
fn whole_call_without_max_tokens_allows_for_the_longest_silence() {
    let unrated = Bounds {
        think_tokens_per_second: by_call(Rate::Off),
        ..Bounds::default()
    };
    let longest = Some(secs(1_862));

    assert_eq!(
        in_force(&Bounds::default(), whole(CHAT, None), BoundName::WholeCall),
        longest
    );
    assert_eq!(
        in_force(&unrated, whole(CHAT, Some(1)), BoundName::WholeCall),
        longest
    );
}

#[test]
fn joins_say_which_block_moves_a_bound_and_how_far() {
    let by_hand = Bounds {
        flat: from_catalog(600),
        ..Bounds::default()
    };
    let join =
        |bounds: &Bounds, max_tokens, name| row(bounds, streamed(ANTHROPIC, max_tokens), name).join;
    let some = |block, seconds: Option<u64>| {
        Some(Join {
            block,
            allowance: seconds.map(secs),
        })
    };

    let tokens = Some(870);
    let thinking = some(JoinBlock::Thinking, Some(10));
    let dark = some(JoinBlock::EmptyDark, Some(10));
    assert_eq!(join(&by_hand, tokens, BoundName::BeforeContent), thinking);
    assert_eq!(join(&by_hand, tokens, BoundName::BetweenEvents), dark);
    assert_eq!(join(&by_hand, tokens, BoundName::Flat), dark);
    assert_eq!(join(&Bounds::default(), tokens, BoundName::Flat), None);

    let lifted = some(JoinBlock::EmptyDark, None);
    assert_eq!(join(&by_hand, None, BoundName::BetweenEvents), lifted);
    assert_eq!(join(&by_hand, None, BoundName::Flat), None);

    let unrated = Bounds {
        think_tokens_per_second: by_call(Rate::Off),
        ..by_hand
    };
    for name in BoundName::ALL {
        assert_eq!(join(&unrated, tokens, name), None);
        assert_eq!(join(&unrated, None, name), None);
    }
}

#[test]
fn values_that_were_set_are_taken_as_they_are_with_their_origin() {
    let file = Origin::File {
        path: "lifesign.toml".into(),
        line: 3,
    };
    let set = |value| Setting {
        value,
        origin: file.clone(),
    };
    let bounds = Bounds {
        flat: set(Limit::After(secs(5))),
        raw_silence: set(Limit::Off),
        ..Bounds::default()
    };
    let shape = streamed(ANTHROPIC, Some(128_000));

    let flat = row(&bounds, shape, BoundName::Flat);
    let raw = row(&bounds, shape, BoundName::RawSilence);

    assert_eq!(
        (flat.limit, flat.origin),
        (Limit::After(secs(5)), file.clone())
    );
    assert_eq!(
        (raw.limit, raw.origin, raw.applies),
        (Limit::Off, file, true)
    );
}

#[test]
fn absurd_values_run_out_never_rather_than_overflow() {
    let bounds = Bounds {
        between_events: by_call(Limit::After(Duration::MAX)),
        ..Bounds::default()
    };

    let flat = in_force(&bounds, streamed(CHAT, Some(u64::MAX)), BoundName::Flat);

    assert_eq!(flat, Some(Duration::MAX));
}

#[test]
fn every_row_says_what_it_measures_and_when_it_runs() {
    let described: Vec<_> = rows(&Bounds::default(), &streamed(CHAT, None))
        .iter()
        .map(|row| (row.name.name(), row.measures(), row.runs()))
        .collect();

    let expected = [
        ("wall_clock", "time since the call began", "always"),
        (
            "lifetime",
            "time waited for the upstream, all attempts",
            "from connecting on",
        ),
        (
            "whole_call",
            "time since the request was sent",
            "until the answer is whole",
        ),
        ("connect", "time since connecting began", "while connecting"),
        (
            "headers",
            "time since the request was sent",
            "until the response headers",
        ),
        (
            "before_content",
            "time since the request was sent",
            "until the first content",
        ),
        (
            "between_events",
            "time since the last event",
            "after the first content",
        ),
        (
            "reasoning_only",
            "time since the last output",
            "while reasoning flows",
        ),
        (
            "upstream_quiet",
            "silence reported by a proxy",
            "until the next event",
        ),
        (
            "flat",
            "time since the last event",
            "from the first request byte on",
        ),
        (
            "raw_silence",
            "time since the last byte",
            "from the first request byte on",
        ),
    ];
    assert_eq!(described, expected);
}
