//! How bytes become frames.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use lifesign_wire::{FrameLimits, Part, SseFrame, SseFramer, TooLarge};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use crate::corpus::recorded;

/// A frame as one line of text, short enough to compare by eye.
fn describe(frame: SseFrame<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match frame {
        SseFrame::Blank => "blank".to_owned(),
        SseFrame::Comment(comment) => format!("comment {}", text(comment)),
        SseFrame::Event(event) => {
            let name = event.name.map(|name| format!("{} ", text(name)));
            let error = event.error.map(|error| format!(" error {}", text(error)));
            let end = if event.terminated {
                ""
            } else {
                " unterminated"
            };
            let (name, error) = (name.unwrap_or_default(), error.unwrap_or_default());
            format!("event {name}{}{error}{end}", text(event.data))
        }
    }
}

fn frames<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut framer = SseFramer::new(FrameLimits::default());
    let mut frames = Vec::new();
    for piece in pieces {
        framer
            .push(piece, |frame| frames.push(describe(frame)))
            .unwrap();
    }
    framer.finish(|frame| frames.push(describe(frame))).unwrap();
    frames
}

fn whole(stream: &str) -> Vec<String> {
    frames([stream.as_bytes()])
}

#[test]
fn lines_end_in_lf_cr_or_crlf() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = "event: ping\ndata: 1\n\ndata: 2\n\n".replace('\n', end);

        assert_eq!(whole(&stream), ["event ping 1", "event 2"], "{end:?}");
    }
}

#[test]
fn a_cr_ends_the_line_at_once_and_an_lf_that_starts_the_next_read_belongs_to_it() {
    let mut framer = SseFramer::new(FrameLimits::default());
    let mut seen = Vec::new();
    let mut read = |chunk: &str| {
        let mut new = Vec::new();
        framer
            .push(chunk.as_bytes(), |frame| new.push(describe(frame)))
            .unwrap();
        seen.push(new);
    };

    read("data: 1\r");
    read("\n\r");
    read("\ndata: 2\r\r");
    read("\n");
    read("\n");

    assert_eq!(
        seen,
        [
            vec![],
            vec!["event 1"],
            vec!["event 2"],
            vec![],
            vec!["blank"]
        ]
    );
}

#[test]
fn a_byte_order_mark_is_dropped_once() {
    assert_eq!(whole("\u{feff}data: 1\n\n"), ["event 1"]);
    assert_eq!(
        frames([
            "\u{feff}data: 1\n\n".as_bytes()[..2].as_ref(),
            b"\xbfdata: 1\n\n"
        ]),
        ["event 1"]
    );
    assert_eq!(whole("\u{feff}\u{feff}data: 1\n\n"), ["blank"]);
    assert_eq!(
        whole("data: 1\n\n\u{feff}data: 2\n\n"),
        ["event 1", "blank"]
    );
}

#[test]
fn what_only_begins_like_a_byte_order_mark_is_a_line() {
    assert_eq!(
        frames([b"\xef".as_slice(), b"\xbbdata: 1\n\ndata: 2\n\n"]),
        ["blank", "event 2"]
    );
}

#[test]
fn comments_are_told_with_their_text_wherever_they_stand() {
    assert_eq!(
        whole(":\n\n: a\n\ndata: 1\n:b\ndata: 2\n\n:  c\n"),
        [
            "comment ",
            "comment a",
            "comment b",
            "event 1\n2",
            "comment  c"
        ]
    );
}

#[test]
fn a_blank_line_is_told_unless_it_closes_an_event_or_a_comment() {
    assert_eq!(
        whole("\n\ndata: 1\n\n\n: a\n\n\n"),
        ["blank", "blank", "event 1", "blank", "comment a", "blank"]
    );
    assert_eq!(
        whole(": a\ndata: 1\n\n\n"),
        ["comment a", "event 1", "blank"]
    );
}

#[test]
fn fields_without_data_make_no_event() {
    assert_eq!(
        whole("event: ping\nid: 1\nretry: 5\nother: x\n\n"),
        ["blank"]
    );
    assert_eq!(whole("event: ping\n\ndata: 1\n\n"), ["blank", "event 1"]);
}

#[test]
fn data_lines_are_joined_by_lf() {
    assert_eq!(
        whole("data: a\ndata\ndata:\ndata:b\n\n"),
        ["event a\n\n\nb"]
    );
    assert_eq!(whole("data\n\n"), ["event "]);
}

#[test]
fn one_space_after_the_colon_is_optional_and_no_more() {
    assert_eq!(whole("data:a\n\ndata:  b \n\n"), ["event a", "event  b "]);
}

#[test]
fn names_of_fields_are_taken_to_the_letter() {
    assert_eq!(
        whole("Data: a\n data: b\ndata : c\ndatax: d\n\n"),
        ["blank"]
    );
}

#[test]
fn the_last_name_counts_and_an_empty_one_is_none() {
    assert_eq!(whole("event: a\nevent: b\ndata: 1\n\n"), ["event b 1"]);
    assert_eq!(whole("event: a\nevent\ndata: 1\n\n"), ["event 1"]);
    assert_eq!(whole("event:\ndata: 1\n\n"), ["event 1"]);
    assert_eq!(
        whole("event: a\ndata: 1\n\ndata: 2\n\n"),
        ["event a 1", "event 2"]
    );
}

#[test]
fn a_name_that_waited_for_its_data_is_not_that_of_the_next_event() {
    let reads = ["event: a\nda", "ta: 1\n\nid: 7\ndata: 2\n\n"];

    assert_eq!(frames(reads.map(str::as_bytes)), ["event a 1", "event 2"]);
}

#[test]
fn an_error_field_with_an_object_is_an_event_and_any_other_is_not() {
    assert_eq!(whole("error: {\"a\":1}\n\n"), ["event  error {\"a\":1}"]);
    assert_eq!(
        whole("error:{1}\nerror: {2}\ndata: x\n\n"),
        ["event x error {1}"]
    );
    assert_eq!(whole("error: bad\n\n"), ["blank"]);
}

#[test]
fn a_last_event_without_its_blank_line_is_told_as_such() {
    assert_eq!(
        whole("data: 1\n\ndata: [DONE]"),
        ["event 1", "event [DONE] unterminated"]
    );
    assert_eq!(whole("event: x\ndata: 1\n"), ["event x 1 unterminated"]);
    assert_eq!(whole("error: {}"), ["event  error {} unterminated"]);
    assert_eq!(whole("event: x\n"), [] as [&str; 0]);
}

#[test]
fn an_event_inside_one_read_is_a_slice_of_it() {
    let read = b"event: ping\ndata: {\"a\":1}\n\n";
    let mut framer = SseFramer::new(FrameLimits::default());
    let mut events = 0;

    let pushed = framer.push(read, |frame| {
        let SseFrame::Event(event) = frame else {
            panic!("{frame:?}")
        };
        assert!(read.as_ptr_range().contains(&event.data.as_ptr()));
        assert!(read.as_ptr_range().contains(&event.name.unwrap().as_ptr()));
        events += 1;
    });

    assert_eq!((pushed, events), (Ok(()), 1));
}

#[test]
fn bytes_of_a_frame_that_is_not_whole_are_pending() {
    let mut framer = SseFramer::new(FrameLimits::default());
    let mut pending = |chunk: &str| {
        framer.push(chunk.as_bytes(), |_| {}).unwrap();
        framer.pending()
    };

    assert_eq!(pending(""), 0);
    assert_eq!(pending("data: 1\n\nda"), 2);
    assert_eq!(pending("ta: 1\r"), 8);
    assert_eq!(pending("\n"), 9);
    assert_eq!(pending("\r"), 0);
    assert_eq!(pending("\n: beat\n"), 0);
    assert_eq!(pending("\n: be"), 4);
}

#[test]
fn a_line_larger_than_its_cap_fails_as_soon_as_the_cap_is_passed() {
    let mut framer = SseFramer::new(FrameLimits {
        line: 10,
        frame: 100,
    });
    let too_large = TooLarge {
        what: Part::Line,
        limit: 10,
    };
    let mut seen = Vec::new();
    let mut push = |chunk: &str| framer.push(chunk.as_bytes(), |frame| seen.push(describe(frame)));

    assert_eq!(push("data: 1234\n\ndata: 5678"), Ok(()));
    assert_eq!(push("9"), Err(too_large));
    assert_eq!(push("\n\ndata: 1\n\n"), Err(too_large));
    assert_eq!(framer.finish(|_| {}), Err(too_large));

    assert_eq!(seen, ["event 1234"]);
    assert_eq!(
        too_large.to_string(),
        "line larger than 10 bytes (limits.line)"
    );
}

#[test]
fn a_name_that_waits_for_its_data_is_no_part_of_its_line() {
    let mut framer = SseFramer::new(FrameLimits {
        line: 12,
        frame: 100,
    });

    let pushed = ["event: ping\nda", "ta: 1234", "56\n\n"].map(|read| {
        let mut seen = Vec::new();
        let pushed = framer.push(read.as_bytes(), |frame| seen.push(describe(frame)));
        pushed.map(|()| seen)
    });

    let event = "event ping 123456".to_owned();
    assert_eq!(pushed, [Ok(vec![]), Ok(vec![]), Ok(vec![event])]);
}

#[test]
fn a_huge_line_in_small_reads_is_looked_at_once() {
    // Looked at again with each read, it would keep this test busy for hours.
    let mut framer = SseFramer::new(FrameLimits::default());
    let mut lengths = Vec::new();
    let mut push = |chunk: &[u8]| {
        framer.push(chunk, |frame| {
            let SseFrame::Event(event) = frame else {
                panic!("{frame:?}")
            };
            lengths.push(event.data.len());
        })
    };

    push(b"data: ").unwrap();
    for _ in 0..(15 << 20) / 64 {
        push(&[b'x'; 64]).unwrap();
    }
    push(b"\n\n").unwrap();
    let refused = (0..(20 << 20) / 64).find_map(|_| push(&[b'x'; 64]).err());

    assert_eq!(lengths, [15 << 20]);
    assert_eq!(
        refused,
        Some(TooLarge {
            what: Part::Line,
            limit: 16 << 20
        })
    );
}

#[test]
fn a_frame_of_many_lines_has_a_cap_too() {
    let mut framer = SseFramer::new(FrameLimits {
        line: 10,
        frame: 20,
    });
    let mut push = |chunk: &str| framer.push(chunk.as_bytes(), |_| {});

    assert_eq!(push("data: 1\ndata: 12\n\n"), Ok(()));
    assert_eq!(push("data: 1\ndata: 12\ndat"), Ok(()));
    assert_eq!(
        push("a"),
        Err(TooLarge {
            what: Part::Frame,
            limit: 20
        })
    );
}

#[test]
fn comments_without_end_are_no_frame_that_grows() {
    let mut framer = SseFramer::new(FrameLimits {
        line: 10,
        frame: 20,
    });

    for _ in 0..100 {
        assert_eq!(framer.push(b": beat\n", |_| {}), Ok(()));
    }

    assert_eq!(framer.pending(), 0);
}

#[test]
fn recorded_streams_hold_the_frames_that_the_manifest_counts() {
    for stream in recorded("", ".sse") {
        // The manifest follows the standard, which drops an event without its blank line and
        // knows no field named error.
        let mut frames = frames([&*stream.bytes]);
        frames.retain(|frame| !frame.ends_with(" unterminated"));
        frames.retain(|frame| !frame.starts_with("event  error "));
        let count = |kind: &str| frames.iter().filter(|text| text.starts_with(kind)).count();

        let found = ["event", "comment", "blank"].map(count);

        let columns = ["events", "comments", "blank_beats"];
        assert_eq!(
            found,
            columns.map(|name| stream.count(name)),
            "{}",
            stream.file
        );
    }
}

/// A hash over all frames: comparing it is what makes thousands of cuts cheap.
fn digest<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut framer = SseFramer::new(FrameLimits::default());
    let mut hasher = DefaultHasher::new();
    for piece in pieces {
        framer.push(piece, |frame| frame.hash(&mut hasher)).unwrap();
    }
    framer.finish(|frame| frame.hash(&mut hasher)).unwrap();
    hasher.finish()
}

#[test]
fn recorded_streams_give_the_same_frames_cut_at_every_boundary_and_into_bytes() {
    for stream in recorded("", ".sse") {
        let expected = digest([&*stream.bytes]);

        assert_eq!(digest(stream.bytes.chunks(1)), expected, "{}", stream.file);
        for part in parts(&stream.bytes) {
            let expected = digest([part]);
            // Every boundary, but for a few of the largest events: it is quadratic.
            for at in (0..part.len()).step_by(1 + part.len() / 2000) {
                let (left, right) = part.split_at(at);
                assert_eq!(digest([left, right]), expected, "{} at {at}", stream.file);
            }
        }
    }
}

/// Cuts a stream into parts of one or a few whole frames.
fn parts(stream: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, two) in stream.windows(2).enumerate() {
        if two == b"\n\n" && at > start + 200 {
            parts.push(&stream[start..at + 2]);
            start = at + 2;
        }
    }
    parts.push(&stream[start..]);
    parts
}

#[test]
fn recorded_streams_give_the_same_frames_in_random_pieces() {
    let streams = recorded("", ".sse");
    let cuts = proptest::collection::vec(1usize..700, 1..40);

    proptest!(ProptestConfig::with_cases(16), |(cuts in cuts)| {
        for stream in &streams {
            let mut rest = &*stream.bytes;
            let mut pieces = Vec::new();
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at(rest.len().min(*cut));
                pieces.push(piece);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }

            prop_assert_eq!(digest(pieces), digest([&*stream.bytes]), "{}", stream.file);
        }
    });
}
