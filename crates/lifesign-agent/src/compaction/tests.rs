//! When a context is nearly full, where a summary begins, and which results go first.

use lifesign::{Usage, Wire};
use pretty_assertions::assert_eq;

use super::*;
use crate::transcript::Ran;

fn user(len: usize) -> Entry {
    Entry::User {
        turn: 1,
        text: "x".repeat(len),
    }
}

fn answer(len: usize, counted: Option<u64>) -> Entry {
    Entry::Answer(Said {
        text: "x".repeat(len),
        usage: counted.map(|tokens| Usage {
            input_tokens: Some(tokens),
            output_tokens: Some(0),
            ..Usage::default()
        }),
        ..Said::default()
    })
}

fn result(len: usize) -> Entry {
    Entry::ToolEnded(Ran {
        id: "c".to_owned(),
        text: "x".repeat(len),
        is_error: false,
    })
}

#[test]
fn what_the_provider_counted_wins_and_what_came_since_is_estimated() {
    assert_eq!(tokens(&[user(400), answer(400, None)]), 200);
    assert_eq!(tokens(&[user(400), answer(400, Some(9)), result(40)]), 19);
}

#[test]
fn tokens_from_a_cache_are_counted_once_whether_or_not_the_wire_counts_them_with_the_others() {
    let said = |wire: Wire, input_tokens| {
        Entry::Answer(Said {
            wire: wire.name().to_owned(),
            usage: Some(Usage {
                input_tokens: Some(input_tokens),
                output_tokens: Some(10),
                cached_input_tokens: Some(900),
                ..Usage::default()
            }),
            ..Said::default()
        })
    };

    assert_eq!(tokens(&[said(Wire::OPENAI_CHAT, 1_000)]), 1_010);
    assert_eq!(tokens(&[said(Wire::ANTHROPIC, 100)]), 1_010);
}

#[test]
fn what_a_provider_counts_is_no_more_than_a_number() {
    assert!(tokens(&[user(4), answer(4, Some(u64::MAX)), result(4)]) > 1_000_000);
}

#[test]
fn a_summary_and_left_out_results_make_room() {
    let mut entries = vec![
        user(400),
        answer(4, None),
        result(4_000),
        answer(400, Some(1_200)),
    ];
    assert_eq!(tokens(&entries), 1_200);

    entries.push(Entry::Elided { results: vec![2] });
    assert_eq!(tokens(&entries), 200);

    entries.push(Entry::Compacted {
        summary: "x".repeat(40),
        keep_from: 3,
    });
    assert_eq!(tokens(&entries), 110);
}

#[test]
fn the_context_is_near_its_limit_at_four_fifths_of_it() {
    assert_eq!(excess(799, 1_000), None);
    assert_eq!(excess(800, 1_000), Some(200));
    assert_eq!(excess(5_000, 1_000), Some(4_400));
}

#[test]
fn the_last_rounds_stay_and_a_summary_is_not_made_of_nothing() {
    let round = [answer(4, None), result(4)];
    let mut entries = vec![user(4), user(4)];
    assert_eq!(keep_from(&entries), None);

    entries.extend(round.clone());
    entries.extend(round.clone());
    entries.extend(round);
    assert_eq!(keep_from(&entries), Some(4));

    entries.push(Entry::Compacted {
        summary: String::new(),
        keep_from: 4,
    });
    assert_eq!(keep_from(&entries), None);
}

#[test]
fn the_oldest_results_are_left_out_first_and_those_of_the_last_answer_never() {
    let mut entries = vec![
        answer(4, None),
        result(400),
        result(20),
        result(400),
        answer(4, None),
        result(4_000),
    ];

    assert_eq!(to_elide(&entries, 50), [1]);
    assert_eq!(to_elide(&entries, 5_000), [1, 3]);

    entries.push(Entry::Elided { results: vec![1] });
    assert_eq!(to_elide(&entries, 5_000), [3]);
}
