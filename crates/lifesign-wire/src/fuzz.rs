//! What must hold for any bytes at all.
//!
//! Each function takes bytes that nobody chose and panics where something does not hold. The fuzz
//! targets call them with what libFuzzer finds, the property tests below with what proptest makes.

use lifesign_core::{Progress, Sign};

use crate::dialect::Decode;
use crate::recording::Recording;
use crate::{
    Answer, Classifier, Event, Expect, FrameLimits, ReadError, ReadLimits, Reader, Sink, SseEvent,
    SseFramer, State, TooLarge, Wire,
};

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

/// Any way to cut a body of chat completions is read the same.
pub fn chat(input: &[u8]) {
    dialect(Wire::OPENAI_CHAT, input);
}

/// Any way to cut a body of responses is read the same.
pub fn responses(input: &[u8]) {
    dialect(Wire::OPENAI_RESPONSES, input);
}

/// Any way to cut a body of messages is read the same.
pub fn anthropic(input: &[u8]) {
    dialect(Wire::ANTHROPIC, input);
}

/// Any way to cut a body is read the same, asked for as a stream or not, and where it is a stream
/// the classifier and the reader agree on every frame.
pub fn dialect(wire: Wire, input: &[u8]) {
    let (cuts, body) = split_cuts(input);
    for expect in [Expect::Stream, Expect::Whole] {
        let whole = read(wire, expect, [body]);
        assert_eq!(read(wire, expect, cut(body, cuts)), whole, "in pieces");
        assert_eq!(read(wire, expect, body.chunks(1)), whole, "in bytes");
    }
    if [b"data:".as_slice(), b"event:", b":"]
        .iter()
        .any(|head| body.starts_with(head))
    {
        let read = read(wire, Expect::Stream, [body]);
        let classified = classify(wire, body);
        assert!(
            classified.starts_with(&read.signs),
            "{classified:?} {read:?}"
        );
    }
    let (frames, _) = frame([body], FrameLimits::default());
    for frame in frames {
        if let Frame::Event(event) = frame {
            scan(wire, &event.data);
        }
    }
}

/// What a scan is certain of, the decoder says too.
pub fn scan(wire: Wire, data: &[u8]) {
    let Some(scanned) = wire.scan(data) else {
        return;
    };
    let event = SseEvent {
        name: None,
        data,
        error: None,
        terminated: true,
    };
    let decoded = wire.decoder().event(event, &mut |_| {});
    assert_eq!(scanned.meaning, decoded, "{}", data.escape_ascii());
}

/// What a reader told about a body.
#[derive(Debug, Default, PartialEq)]
struct Read {
    signs: Vec<Sign>,
    events: Vec<String>,
    ended: Option<(Result<(), ReadError>, State, Answer)>,
}

impl Sink for Read {
    fn sign(&mut self, sign: Sign) {
        self.signs.push(sign);
    }

    fn event(&mut self, event: &Event<'_>) {
        self.events.push(format!("{event:?}"));
    }
}

fn read<'a>(wire: Wire, expect: Expect, pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut told = Read::default();
    let mut reader = Reader::new(wire, expect, &ReadLimits::default());
    let mut ended = Ok(());
    for piece in pieces {
        ended = ended.and_then(|()| reader.read(piece, &mut told));
    }
    let ended = ended.and_then(|()| reader.end(&mut told));
    // A run of spaces before a body is one beat in each read, and a sample ends with its read.
    let first = told
        .signs
        .iter()
        .position(|sign| sign.progress != Progress::Heartbeat);
    told.signs.drain(..first.unwrap_or(told.signs.len()));
    let ended = ended.map_err(|error| match error {
        ReadError::Unreadable { what, wire, .. } => ReadError::Unreadable {
            what,
            wire,
            sample: String::new(),
        },
        error @ ReadError::TooLarge(_) => error,
    });
    let state = reader.state();
    told.ended = Some((ended, state, reader.into_answer(true)));
    told
}

fn classify(wire: Wire, stream: &[u8]) -> Vec<Sign> {
    let mut classifier = Classifier::new(wire);
    let mut framer = SseFramer::new(FrameLimits::default());
    let mut signs = Vec::new();
    let pushed = framer
        .push(stream, |frame| signs.extend(classifier.classify(frame)))
        .and_then(|()| framer.finish(|frame| signs.extend(classifier.classify(frame))));
    assert_eq!(pushed, Ok(()));
    let first = signs
        .iter()
        .position(|sign| sign.progress != Progress::Heartbeat);
    signs.drain(..first.unwrap_or(signs.len()));
    signs
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
    use std::path::{Path, PathBuf};

    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::reference::Frame;
    use crate::Wire;

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

    /// Recorded streams of a wire; none where the corpus is absent.
    fn recorded(wire: Wire) -> Vec<Vec<u8>> {
        let folder = match wire.name() {
            "anthropic" => "anthropic-messages",
            name => name,
        };
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let corpus = std::env::var_os("LIFESIGN_CORPUS")
            .map_or_else(|| workspace.join("../shared/corpus"), PathBuf::from);
        let Ok(files) = std::fs::read_dir(corpus.join(folder)) else {
            println!("skipped: no corpus at {}", corpus.display());
            return Vec::new();
        };
        let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        paths.sort_unstable();
        paths
            .into_iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect()
    }

    /// Frames of every recorded stream of a wire, each shape of them a few times.
    fn recorded_frames(wire: Wire) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for stream in recorded(wire) {
            for frame in super::reference::frames(&stream).into_iter().take(40) {
                if let Frame::Event(event) = frame
                    && event.data.len() < 2000
                {
                    frames.push(event.data);
                }
            }
        }
        frames
    }

    /// Bytes that are dangerous where a frame is judged by a walk over it.
    const DANGEROUS: [&[u8]; 31] = [
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b" ",
        b"\n",
        b"\x00",
        b"\xff",
        b"\xc3\xa9",
        b"null",
        b"0",
        b"1e999",
        b"-",
        b"\\u0041",
        b"\\n",
        b"\"content\":\"x\",",
        b"\"content\":null,",
        b"\"type\":\"ping\",",
        b"{\"text\":\"x\"}",
        b"\"delta\":{},",
        b"\\ud83d",
        b"\\ude00",
        b"\"thinking\":\"x\",",
        b"\"part\":{\"text\":\"x\"},",
        b"\"error\":\"x\",",
        b"\"message\":\"x\",",
        b"\"index\":1,",
    ];

    fn mutated(frame: &[u8], changes: &[(Index, u8, Index)]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        for (at, how, what) in changes {
            let at = at.index(frame.len() + 1);
            let piece = what.get(&DANGEROUS);
            match how % 4 {
                0 if at < frame.len() => frame[at] = *how,
                1 => drop(frame.splice(at..(at + usize::from(how / 16)).min(frame.len()), [])),
                2 if at < frame.len() => frame[at] = piece[0],
                _ => drop(frame.splice(at..at, piece.iter().copied())),
            }
        }
        frame
    }

    #[test]
    fn scans_of_recorded_and_of_mutated_frames_say_what_the_decoder_says() {
        for wire in Wire::ALL {
            let frames = recorded_frames(wire);
            for frame in &frames {
                super::scan(wire, frame);
            }
            if frames.is_empty() {
                continue;
            }
            let changes = proptest::collection::vec(any::<(Index, u8, Index)>(), 1..4);
            let config = ProptestConfig::with_cases(4096);
            proptest!(config, |(frame in any::<Index>(), changes in changes)| {
                super::scan(wire, &mutated(frame.get::<Vec<u8>>(&frames), &changes));
            });
        }
    }

    #[test]
    fn a_third_of_all_recorded_events_is_certain_by_a_scan() {
        for wire in Wire::ALL {
            let frames = recorded_frames(wire);
            let certain = frames
                .iter()
                .filter(|frame| wire.scan(frame).is_some())
                .count();
            assert!(
                certain * 3 >= frames.len(),
                "{wire}: {certain} of {}",
                frames.len()
            );
        }
    }

    #[test]
    fn recorded_streams_are_read_the_same_in_pieces_and_by_the_classifier() {
        for wire in Wire::ALL {
            for stream in recorded(wire) {
                super::dialect(wire, &[b"\x07\x1f\x01\x0b", &*stream].concat());
            }
        }
    }

    #[test]
    fn mutated_streams_are_read_the_same_in_pieces_and_by_the_classifier() {
        for wire in Wire::ALL {
            let mut streams = recorded(wire);
            streams.retain(|stream| stream.len() < 6000);
            if streams.is_empty() {
                continue;
            }
            let changes = proptest::collection::vec(any::<(Index, u8, Index)>(), 1..6);
            let config = ProptestConfig::with_cases(64);
            proptest!(config, |(
                cuts in any::<[u8; 4]>(),
                stream in any::<Index>(),
                changes in changes,
            )| {
                let stream = mutated(stream.get::<Vec<u8>>(&streams), &changes);
                super::dialect(wire, &[&cuts, &*stream].concat());
            });
        }
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
