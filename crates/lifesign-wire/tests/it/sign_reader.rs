//! The signs of a body are the same with and without its answer.

use std::sync::LazyLock;

use lifesign_core::Sign;
use lifesign_wire::{
    Event, Expect, FrameLimits, ReadLimits, Reader, SignReader, Sink, State, Wire,
};
use proptest::prelude::*;

use crate::corpus::{Recorded, recorded};

#[derive(Default)]
struct Signs(Vec<Sign>);

impl Sink for Signs {
    fn sign(&mut self, sign: Sign) {
        self.0.push(sign);
    }

    fn event(&mut self, _: &Event<'_>) {}
}

/// Asserts that both readers tell the same after every chunk.
fn assert_same<'a>(wire: Wire, chunks: impl IntoIterator<Item = &'a [u8]>, context: &str) {
    let mut signs = SignReader::new(wire, FrameLimits::default());
    let mut reader = Reader::new(wire, Expect::Stream, &ReadLimits::default());
    for chunk in chunks {
        let mut expected = Signs::default();
        let read = reader.read(chunk, &mut expected);
        let mut told = Vec::new();
        signs.read(chunk, |sign| told.push(sign));
        if signs.is_whole_body() {
            // Whether it is an answer, an error or neither is not told.
            assert_eq!(
                signs.is_over(),
                read.is_err() || is_over(&reader),
                "{context}"
            );
        } else if read.is_err() {
            // It goes on telling what an answer of another wire proves.
            assert!(told.starts_with(&expected.0), "{context}");
        } else {
            assert_eq!(told, expected.0, "{context}");
            assert_eq!(signs.is_over(), is_over(&reader), "{context}");
        }
        if read.is_err() {
            break;
        }
    }
}

fn is_over(reader: &Reader) -> bool {
    matches!(reader.state(), State::Ended | State::Failed)
}

#[test]
fn every_recorded_stream_gives_the_same_signs_with_and_without_an_answer() {
    for wire in Wire::ALL {
        for recorded in recorded("", "") {
            let (context, bytes) = (format!("{wire} {}", recorded.file), &recorded.bytes[..]);
            assert_same(wire, [bytes], &context);
            for length in [1, 1_400] {
                assert_same(wire, bytes.chunks(length), &context);
            }
        }
    }
}

static STREAMS: LazyLock<Vec<Recorded>> = LazyLock::new(|| recorded("", ".sse"));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_cut_of_a_recorded_stream_gives_the_same_signs(
        which in any::<prop::sample::Index>(),
        lengths in prop::collection::vec(1_usize..400, 1..40),
    ) {
        let streams = &*STREAMS;
        if streams.is_empty() {
            // Said once where the recordings are looked for.
            return Ok(());
        }
        let recorded = which.get(streams);
        let mut rest = &recorded.bytes[..];
        let mut chunks = Vec::new();
        for length in lengths.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, behind) = rest.split_at(length.min(rest.len()));
            chunks.push(chunk);
            rest = behind;
        }
        for wire in Wire::ALL {
            assert_same(wire, chunks.iter().copied(), &recorded.file);
        }
    }
}
