//! Answers of another wire than the one that was promised.

use lifesign_wire::{Expect, ReadError, Wire};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use crate::wires::{Seen, read};

/// How a stream of each wire begins.
const STREAMS: [(Wire, &str, &str); 3] = [
    (
        Wire::OPENAI_CHAT,
        "openai-chat",
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":\
         [{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
         data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
         data: [DONE]\n\n",
    ),
    (
        Wire::OPENAI_RESPONSES,
        "openai-responses",
        "event: response.created\n\
         data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"error\":null}}\n\n\
         data: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n\
         data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
    ),
    (
        Wire::ANTHROPIC,
        "anthropic",
        "event: message_start\n\
         data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{}}}\n\n\
         event: ping\ndata: {\"type\":\"ping\"}\n\n\
         data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":\
         {\"type\":\"text\",\"text\":\"\"}}\n\n\
         data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
         data: {\"type\":\"message_stop\"}\n\n",
    ),
];

fn pairs() -> impl Iterator<Item = (Wire, &'static str, &'static str)> {
    Wire::ALL.iter().flat_map(|own| {
        let others = STREAMS.iter().filter(move |(wire, ..)| wire != own);
        others.map(|(_, name, stream)| (*own, *name, *stream))
    })
}

fn broken(seen: &Seen) -> String {
    seen.broken
        .as_ref()
        .map(ReadError::to_string)
        .unwrap_or_default()
}

#[test]
fn a_stream_of_another_wire_is_named_at_its_second_frame() {
    for (own, name, stream) in pairs() {
        let whole = read(own, Expect::Stream, [stream.as_bytes()]);
        let said = format!("body is an {name} stream, not an answer of {own}: \"{{");
        assert!(broken(&whole).starts_with(&said), "{:?}", whole.broken);
        assert_eq!(
            read(own, Expect::Stream, stream.as_bytes().chunks(1)),
            whole
        );

        let frames: Vec<&str> = stream
            .split_inclusive("\n\n")
            .filter(|frame| !frame.contains("\"ping\""))
            .take(2)
            .collect();
        let one = read(own, Expect::Stream, [frames[0].as_bytes()]);
        assert_eq!(one.broken, None, "{own}: {name}");
        let two = read(own, Expect::Stream, [frames.concat().as_bytes()]);
        assert_eq!(two.broken, whole.broken);
    }
}

#[test]
fn a_stream_of_the_own_wire_may_hold_frames_of_another() {
    for (own, _, stream) in STREAMS {
        for (_, _, other) in STREAMS.iter().filter(|(wire, ..)| *wire != own) {
            let (first, rest) = stream.split_once("\n\n").unwrap();
            let other = other.split_inclusive("\n\n").next().unwrap();
            let mixed = format!("{other}{first}\n\n{other}{other}{rest}");

            let seen = read(own, Expect::Stream, [mixed.as_bytes()]);

            assert_eq!(seen.broken, None, "{own}: {mixed}");
            assert_eq!(seen.outcome, Some(Ok(())));
        }
    }
}

#[test]
fn a_whole_answer_of_another_wire_is_named() {
    let bodies = [
        (
            Wire::OPENAI_CHAT,
            "openai-chat",
            r#"{"object":"chat.completion","choices":[{"message":{"content":"hi"}}]}"#,
        ),
        (
            Wire::OPENAI_CHAT,
            "openai-chat",
            r#"{"choices":[{"message":{"content":"hi"}}]}"#,
        ),
        (
            Wire::OPENAI_RESPONSES,
            "openai-responses",
            r#"{"object":"response","status":"completed","error":null,"output":[]}"#,
        ),
        (
            Wire::ANTHROPIC,
            "anthropic",
            r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}]}"#,
        ),
    ];
    for own in Wire::ALL {
        for (_, name, body) in bodies.iter().filter(|(wire, ..)| *wire != own) {
            for expect in [Expect::Stream, Expect::Whole] {
                let seen = read(own, expect, [body.as_bytes()]);
                let said = format!("body is an {name} answer, not an answer of {own}: ");
                assert!(broken(&seen).starts_with(&said), "{seen:?}");
            }
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_described() {
    let seen = read(
        Wire::ANTHROPIC,
        Expect::Stream,
        [[0x8f, 0x3a, 0x00, 0xff].repeat(64).as_slice()],
    );

    assert!(
        broken(&seen).contains("\"256 bytes that are no text, beginning 8f 3a 00 ff"),
        "{:?}",
        seen.broken
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn where_the_reads_end_does_not_matter(
        pair in 0_usize..6,
        cuts in proptest::collection::vec(1_usize..90, 1..8),
    ) {
        let (own, _, stream) = pairs().nth(pair).unwrap();
        let whole = read(own, Expect::Stream, [stream.as_bytes()]);
        let mut rest = stream.as_bytes();
        let mut pieces = Vec::new();
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        prop_assert_eq!(read(own, Expect::Stream, pieces), whole);
    }
}
