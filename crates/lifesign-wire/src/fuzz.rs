//! What must hold for any bytes at all.
//!
//! Each function takes bytes that nobody chose and panics where something does not hold. The fuzz
//! targets call them with what libFuzzer finds, the property tests below with what proptest makes.

use crate::recording::Recording;
use crate::{FrameLimits, SseFramer, TooLarge};

use self::reference::Frame;

pub mod reference;

/// Any way to cut an event stream gives the frames that the standard asks for, and small caps fail
/// at the same frame.
pub fn sse(input: &[u8]) {
    let (cuts, stream) = split_cuts(input);
    let expected = reference::frames(stream);
    let (whole, ended) = frame([stream], FrameLimits::default());
    assert_eq!((&whole, ended), (&expected, Ok(())), "whole");
    let (pieces, ended) = frame(cut(stream, cuts), FrameLimits::default());
    assert_eq!((&pieces, ended), (&expected, Ok(())), "in pieces");
    let (bytes, ended) = frame(stream.chunks(1), FrameLimits::default());
    assert_eq!((&bytes, ended), (&expected, Ok(())), "in bytes");

    for limits in [
        FrameLimits { line: 8, frame: 24 },
        FrameLimits { line: 24, frame: 8 },
        FrameLimits { line: 8, frame: 8 },
    ] {
        let whole = frame([stream], limits);
        assert_eq!(
            frame(cut(stream, cuts), limits),
            whole,
            "in pieces under caps"
        );
        assert_eq!(
            frame(stream.chunks(1), limits),
            whole,
            "in bytes under caps"
        );
    }
    pending_is_what_no_frame_holds(stream);
}

/// Any way to cut a body gives the same judgement.
pub fn sniff(input: &[u8]) {
    let (cuts, body) = split_cuts(input);
    let whole = judge([body]);
    assert_eq!(judge(cut(body, cuts)), whole, "in pieces");
    assert_eq!(judge(body.chunks(1)), whole, "in bytes");
}

/// A recording that can be read is written so that it reads the same.
pub fn recording(input: &[u8]) {
    if let Ok(recording) = Recording::parse_lenient(input) {
        let text = recording.encode();
        assert_eq!(Recording::parse_lenient(text.as_bytes()), Ok(recording));
    }
    if Recording::parse(input).is_ok() {
        assert!(Recording::parse_lenient(input).is_ok());
    }
}

/// Takes the lengths of the pieces off the input.
pub fn split_cuts(input: &[u8]) -> (&[u8], &[u8]) {
    input.split_at(input.len().min(4))
}

/// Cuts `bytes` into pieces as long as `cuts` say, over and over.
pub fn cut<'a>(bytes: &'a [u8], cuts: &[u8]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    let mut lengths = cuts.iter().cycle();
    while !rest.is_empty() {
        let length = lengths.next().map_or(1, |length| usize::from(length % 32));
        // Empty pieces happen too, but not for ever.
        let length = if pieces.len() > bytes.len() {
            rest.len()
        } else {
            length
        };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn frame<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limits: FrameLimits,
) -> (Vec<Frame>, Result<(), TooLarge>) {
    let mut framer = SseFramer::new(limits);
    let mut frames = Vec::new();
    for piece in pieces {
        if let Err(error) = framer.push(piece, |frame| frames.push(frame.into())) {
            return (frames, Err(error));
        }
    }
    let ended = framer.finish(|frame| frames.push(frame.into()));
    (frames, ended)
}

fn pending_is_what_no_frame_holds(stream: &[u8]) {
    let mut frames = Vec::<Frame>::new();
    let mut framer = SseFramer::new(FrameLimits::default());
    assert_eq!(
        framer.push(stream, |frame| frames.push(frame.into())),
        Ok(())
    );
    let whole = &stream[..stream.len() - framer.pending()];

    let mut again = Vec::<Frame>::new();
    let mut framer = SseFramer::new(FrameLimits::default());
    assert_eq!(framer.push(whole, |frame| again.push(frame.into())), Ok(()));
    assert_eq!(framer.pending(), 0);
    assert!(
        frames.starts_with(&again),
        "{again:?} does not begin {frames:?}"
    );
    // A comment inside an open event is told at once, and its bytes wait for the event.
    let told = &frames[again.len()..];
    assert!(
        told.iter().all(|frame| matches!(frame, Frame::Comment(_))),
        "{told:?}"
    );
}

/// What a body is and its bytes; not the beats, since a run of spaces is one in each read.
fn judge<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Option<crate::Body>, Vec<u8>, String) {
    let mut sniffer = crate::Sniffer::new();
    let mut bytes = Vec::new();
    let mut is_sure = false;
    for piece in pieces {
        let sniffed = sniffer.push(piece);
        if sniffed.body.is_none() {
            continue;
        }
        if !is_sure {
            bytes.extend_from_slice(sniffer.held());
        }
        is_sure = true;
        bytes.extend_from_slice(&piece[sniffed.from..]);
    }
    let body = sniffer.finish();
    if !is_sure {
        bytes.extend_from_slice(sniffer.held());
    }
    (body, bytes, sniffer.sample())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Bytes in which what matters to a framer is common.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"data: ".to_vec()),
            Just(b"data".to_vec()),
            Just(b"data:{\"a\":1}\n\n".to_vec()),
            Just(b"event: ping\n".to_vec()),
            Just(b"event:\r\n".to_vec()),
            Just(b"error: {".to_vec()),
            Just(b"error: no".to_vec()),
            Just(b"id: 7\n".to_vec()),
            Just(b": beat\n\n".to_vec()),
            Just(b":".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\xef\xbb\xbf".to_vec()),
            Just(b" ".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    fn input() -> impl Strategy<Value = Vec<u8>> {
        (any::<[u8; 4]>(), stream()).prop_map(|(cuts, stream)| [&cuts, &*stream].concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_cut_of_an_event_stream_gives_the_frames_of_the_standard(input in input()) {
            super::sse(&input);
        }

        #[test]
        fn any_cut_of_a_body_is_judged_the_same(input in input()) {
            super::sniff(&input);
        }

        #[test]
        fn a_recording_that_reads_is_written_to_read_the_same(
            lines in proptest::collection::vec(
                prop_oneof![
                    Just(r#"{"lifesign_recording":1,"wire":"w"}"#),
                    Just(r#"{"at_us":1,"status":200}"#),
                    Just(r#"{"at_us":1,"text":"a"}"#),
                    Just(r#"{"at_us":2,"b64":"w6k="}"#),
                    Just(r#"{"at_us":3,"end":"left"}"#),
                    Just(r#"{"at_us":"#),
                ],
                0..6,
            ),
        ) {
            super::recording(lines.join("\n").as_bytes());
        }
    }
}
