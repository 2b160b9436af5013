//! The wires on the recorded streams, cut in every way.

use lifesign_core::{Progress, Sign, Usage};
use lifesign_wire::{
    Answer, Event, Expect, ProviderError, ReadError, ReadLimits, Reader, Sink, State, Wire,
};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::corpus::{Recorded, recorded};

/// Everything that a reader says of a body.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// Its events and signs, in order.
    pub(crate) log: Vec<String>,
    /// Its signs.
    pub(crate) signs: Vec<Sign>,
    /// The state before the end of the body, then after it.
    pub(crate) states: Option<(State, State)>,
    /// Whether the body may end there.
    pub(crate) outcome: Option<Result<(), lifesign_wire::Incomplete>>,
    /// What the provider said of its failure.
    pub(crate) failure: Option<ProviderError>,
    /// What could not be read.
    pub(crate) broken: Option<ReadError>,
    /// The answer.
    pub(crate) answer: Answer,
}

impl Sink for Seen {
    fn sign(&mut self, sign: Sign) {
        self.log.push(format!("{sign:?}"));
        self.signs.push(sign);
    }

    fn event(&mut self, event: &Event<'_>) {
        self.log.push(format!("{event:?}"));
    }
}

/// Reads the pieces of a body and its end.
pub(crate) fn read<'a>(
    wire: Wire,
    expect: Expect,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Seen {
    let mut reader = Reader::new(wire, expect, &ReadLimits::default());
    let mut seen = Seen::default();
    for piece in pieces {
        if let Err(broken) = reader.read(piece, &mut seen) {
            seen.broken = Some(broken);
        }
    }
    let open = reader.state();
    if let Err(broken) = reader.end(&mut seen) {
        seen.broken = Some(broken);
    }
    seen.states = Some((open, reader.state()));
    seen.outcome = Some(reader.outcome_at_eof());
    seen.failure = reader.failure().cloned();
    let is_whole = seen.failure.is_none() && reader.outcome_at_eof().is_ok();
    seen.answer = reader.take_answer(is_whole);
    seen
}

fn wire_of(recorded: &Recorded) -> Wire {
    match recorded.column("protocol") {
        "anthropic-messages" => Wire::ANTHROPIC,
        "json-body" => Wire::OPENAI_CHAT,
        name => Wire::parse(name).unwrap(),
    }
}

fn streams() -> Vec<Recorded> {
    ["openai-chat/", "openai-responses/", "anthropic-messages/"]
        .into_iter()
        .flat_map(|prefix| recorded(prefix, ".sse"))
        .collect()
}

/// Where the manifest and the design differ, with the column and what the design says.
///
/// - A response that failed has no finish: the manifest repeats its status there.
/// - An event without its blank line counts where it is `[DONE]` or parses whole, so that the end
///   marker that these files end with ends the answer.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("openai-responses/openai-midstream-quota.sse", "finish", ""),
    (
        "openai-responses/openai-midstream-rate-limit.sse",
        "finish",
        "",
    ),
    (
        "anthropic-messages/anthropic-tool-args-incomplete.sse",
        "terminal",
        "message_stop",
    ),
    (
        "openai-chat/proxy-tool-index-starts-at-1.sse",
        "terminal",
        "[DONE]",
    ),
];

fn expected<'a>(recorded: &'a Recorded, column: &'a str) -> &'a str {
    let exception = EXCEPTIONS
        .iter()
        .find(|(file, name, _)| recorded.file == *file && column == *name)
        .map(|(_, _, value)| *value);
    exception.unwrap_or_else(|| recorded.column(column))
}

/// Returns the columns of the manifest that follow from what was seen.
fn columns(seen: &Seen) -> Vec<(&'static str, String)> {
    let answer = &seen.answer;
    let usage = answer.usage.unwrap_or_default();
    let count = |count: Option<u64>| count.map(|count| count.to_string()).unwrap_or_default();
    let Usage {
        input_tokens,
        output_tokens,
        ..
    } = usage;
    let reasoning = answer.reasoning.as_deref().unwrap_or_default();
    let calls = answer
        .server_tool_calls
        .iter()
        .chain(&answer.tool_calls)
        .map(|call| {
            let mut row = serde_json::json!({
                "id": call.id, "name": call.name, "arguments": call.arguments,
            });
            if let Some(kind) = &call.kind {
                row["kind"] = kind.as_str().into();
            }
            row
        });
    let calls: Vec<_> = calls.collect();
    vec![
        ("text80", answer.text.chars().take(80).collect()),
        ("text_len", answer.text.chars().count().to_string()),
        ("reasoning_len", reasoning.chars().count().to_string()),
        (
            "tool_calls",
            if calls.is_empty() {
                String::new()
            } else {
                serde_json::to_string(&calls).unwrap()
            },
        ),
        ("finish", answer.finish_reason.clone().unwrap_or_default()),
        ("usage_in", count(input_tokens)),
        ("usage_out", count(output_tokens)),
    ]
}

fn same_json(one: &str, other: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    one == other || parse(one).is_some() && parse(one) == parse(other)
}

#[test]
fn every_recorded_stream_decodes_to_what_its_row_says() {
    let mut wrong = Vec::new();
    for recorded in &streams() {
        let seen = read(
            wire_of(recorded),
            Expect::Stream,
            [recorded.bytes.as_slice()],
        );
        for (column, value) in columns(&seen) {
            let expected = expected(recorded, column);
            if !same_json(&value, expected) {
                wrong.push(format!(
                    "{} {column}: {value} instead of {expected}",
                    recorded.file
                ));
            }
        }
        let terminal = expected(recorded, "terminal");
        let state = seen.states.unwrap().1;
        let fits = if terminal.starts_with("error") || terminal == "response.failed" {
            state == State::Failed
        } else if terminal.starts_with("EOF") {
            matches!(state, State::Open | State::Finished)
        } else {
            state == State::Ended
        };
        if !fits || seen.broken.is_some() {
            wrong.push(format!(
                "{} terminal: {state} instead of {terminal}",
                recorded.file
            ));
        }
        let error = recorded.column("error");
        let message = seen
            .failure
            .map(|failure| failure.message)
            .unwrap_or_default();
        let head: String = message.chars().take(40).collect();
        if error.is_empty() != message.is_empty() || !error.contains(&head) {
            wrong.push(format!(
                "{} error: {message} instead of {error}",
                recorded.file
            ));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn heartbeats_are_counted_as_the_manifest_counts_them() {
    let mut wrong = Vec::new();
    for recorded in &streams() {
        let seen = read(
            wire_of(recorded),
            Expect::Stream,
            [recorded.bytes.as_slice()],
        );
        let comments = seen
            .signs
            .iter()
            .filter(|sign| sign.origin == Some(lifesign_core::HeartbeatOrigin::Comment))
            .count();
        let expected = recorded.count("comments") + recorded.count("blank_beats");
        if comments != expected {
            wrong.push(format!(
                "{}: {comments} comments instead of {expected}",
                recorded.file
            ));
        }
        let pings = seen
            .signs
            .iter()
            .filter(|sign| sign.origin == Some(lifesign_core::HeartbeatOrigin::Provider))
            .count();
        // Repeated frames without content count too, so that there may be more.
        if pings < recorded.count("pings") {
            wrong.push(format!("{}: {pings} pings", recorded.file));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_recorded_stream_reads_the_same_in_single_bytes() {
    for recorded in &streams() {
        let wire = wire_of(recorded);
        let whole = read(wire, Expect::Stream, [recorded.bytes.as_slice()]);
        assert_eq!(
            read(wire, Expect::Stream, recorded.bytes.chunks(1)),
            whole,
            "{}",
            recorded.file
        );
    }
}

#[test]
fn a_recorded_stream_reads_the_same_in_two_pieces_cut_anywhere() {
    for recorded in streams()
        .iter()
        .filter(|recorded| recorded.bytes.len() < 1300)
    {
        let wire = wire_of(recorded);
        let whole = read(wire, Expect::Stream, [recorded.bytes.as_slice()]);
        for at in 0..recorded.bytes.len() {
            let (one, other) = recorded.bytes.split_at(at);
            let seen = read(wire, Expect::Stream, [one, other]);
            assert!(seen == whole, "{} cut at {at}", recorded.file);
        }
    }
}

#[test]
fn a_recorded_stream_reads_the_same_in_any_pieces() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 4,
        ..ProptestConfig::default()
    });
    for recorded in &streams() {
        let wire = wire_of(recorded);
        let whole = read(wire, Expect::Stream, [recorded.bytes.as_slice()]);
        runner
            .run(&prop::collection::vec(1_usize..300, 1..16), |lengths| {
                let mut rest = recorded.bytes.as_slice();
                let mut pieces = Vec::new();
                for length in lengths.iter().cycle() {
                    if rest.is_empty() {
                        break;
                    }
                    let (piece, after) = rest.split_at((*length).min(rest.len()));
                    pieces.push(piece);
                    rest = after;
                }
                prop_assert!(
                    read(wire, Expect::Stream, pieces) == whole,
                    "{}",
                    recorded.file
                );
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn a_whole_body_behind_white_space_is_an_answer_after_heartbeats() {
    for recorded in &recorded("json-body/", ".json") {
        for expect in [Expect::Whole, Expect::Stream] {
            let seen = read(Wire::OPENAI_CHAT, expect, [recorded.bytes.as_slice()]);

            for (column, value) in columns(&seen) {
                let expected = expected(recorded, column);
                assert!(
                    same_json(&value, expected),
                    "{} {column}: {value}",
                    recorded.file
                );
            }
            // It does not wait for the end of the body.
            assert_eq!(seen.states, Some((State::Ended, State::Ended)));
            let beats = seen
                .signs
                .iter()
                .filter(|sign| sign.progress == Progress::Heartbeat);
            assert_eq!(
                beats.count(),
                recorded.count("blank_beats"),
                "{}",
                recorded.file
            );
        }
    }
}
