//! Frames whose text is not whole: half a character must not cost the rest.
//!
//! Servers that count in UTF-16 may cut a character in two and send each half as an escape of its
//! own, in two frames. The halves are joined where the second follows, and a half alone, like a
//! byte that is no UTF-8, becomes U+FFFD.

use memchr::memchr_iter;
use serde_json::value::RawValue;

use crate::answer::Answer;
use crate::dialect::{Decode, EventSink, Finishes, Meaning, NotThisWire, Oddities, Told};
use crate::event::Event;
use crate::frame::SseEvent;

/// A decoder that is given mended frames.
#[derive(Debug)]
pub(crate) struct Mender {
    decoder: Box<dyn Decode>,
    /// The first half of a character, which waits for its second.
    half: Option<Half>,
    mended: u64,
    /// Frames that the decoder could not read before they were mended.
    reread: u64,
    keeps_whole: bool,
    /// The body, if it came whole and is kept.
    body: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
struct Half {
    unit: u16,
    is_reasoning: bool,
}

impl Mender {
    pub(crate) fn new(decoder: Box<dyn Decode>) -> Self {
        Self {
            decoder,
            half: None,
            mended: 0,
            reread: 0,
            keeps_whole: false,
            body: None,
        }
    }

    /// Decodes a frame whose escapes are mended.
    fn decode(&mut self, event: SseEvent<'_>, mended: &Mended, sink: EventSink<'_>) -> Meaning {
        self.mended += 1;
        let mut waiting = self.half.take().filter(|_| !mended.is_joined);
        let mut is_reasoning = false;
        let event = SseEvent {
            data: &mended.data,
            ..event
        };
        let meaning = self.decoder.event(event, &mut |event| {
            if event.is_content() {
                is_reasoning = !event.is_output();
            }
            tell_half(&mut waiting, &event, sink);
            sink(event);
        });
        self.half = mended
            .half
            .map(|unit| Half { unit, is_reasoning })
            .or(waiting);
        meaning
    }
}

impl Decode for Mender {
    fn event(&mut self, event: SseEvent<'_>, sink: EventSink<'_>) -> Meaning {
        let first = self.half.map(|half| half.unit);
        let meaning = if let Some(mended) = mend_escapes(event.data, first, true) {
            self.decode(event, &mended, sink)
        } else if self.half.is_some() {
            let waiting = &mut self.half;
            self.decoder.event(event, &mut |event| {
                tell_half(waiting, &event, sink);
                sink(event);
            })
        } else {
            self.decoder.event(event, sink)
        };
        if meaning.told != Told::Unreadable || std::str::from_utf8(event.data).is_ok() {
            return meaning;
        }
        self.mended += 1;
        self.reread += 1;
        let data = String::from_utf8_lossy(event.data).into_owned();
        let event = SseEvent {
            data: data.as_bytes(),
            ..event
        };
        self.event(event, sink)
    }

    fn whole(&mut self, body: &[u8], sink: EventSink<'_>) -> Result<(), NotThisWire> {
        let text = String::from_utf8_lossy(body);
        let mended = mend_escapes(text.as_bytes(), None, false);
        self.mended += u64::from(mended.is_some() || text.as_bytes() != body);
        if self.keeps_whole {
            self.body = Some(body.to_vec());
        }
        let body = mended
            .as_ref()
            .map_or(text.as_bytes(), |mended| &mended.data);
        self.decoder.whole(body, sink)
    }

    fn finishes(&self) -> Finishes {
        self.decoder.finishes()
    }

    fn round_trip(&mut self, answer: &Answer) -> Vec<Box<RawValue>> {
        self.decoder.round_trip(answer)
    }

    fn keep_whole(&mut self) {
        self.keeps_whole = true;
        self.decoder.keep_whole();
    }

    /// Returns the whole body: as it came, or put together.
    fn whole_body(&self) -> Option<Vec<u8>> {
        self.body.clone().or_else(|| self.decoder.whole_body())
    }

    fn kept(&self) -> usize {
        self.decoder.kept()
    }

    fn oddities(&self) -> Oddities {
        let oddities = self.decoder.oddities();
        Oddities {
            mended_events: self.mended,
            unreadable_events: oddities.unreadable_events.saturating_sub(self.reread),
            ..oddities
        }
    }
}

/// Tells that half a character was alone, before what follows it.
fn tell_half(waiting: &mut Option<Half>, event: &Event<'_>, sink: EventSink<'_>) {
    let is_next = event.is_content() || matches!(event, Event::Finish(_) | Event::Terminal);
    if !is_next {
        return;
    }
    match waiting.take() {
        Some(half) if half.is_reasoning => sink(Event::Reasoning(REPLACEMENT)),
        Some(_) => sink(Event::Text(REPLACEMENT)),
        None => {}
    }
}

/// A frame whose escapes are mended.
#[derive(Debug, PartialEq, Eq)]
struct Mended {
    data: Vec<u8>,
    /// Whether it brought the second half of the character whose first had come.
    is_joined: bool,
    /// The first half of a character, taken off the end of a string.
    half: Option<u16>,
}

/// Mends the escapes of half characters in JSON; `None` where there are none.
///
/// `first` is the half that came before: a string that begins with a second one is joined with it.
/// With `holds`, a first half at the end of a string is taken off it.
fn mend_escapes(data: &[u8], first: Option<u16>, holds: bool) -> Option<Mended> {
    let mut mended = None;
    // Up to where the data was looked at, and up to where it was copied.
    let (mut seen, mut copied) = (0, 0);
    for at in memchr_iter(b'\\', data) {
        if at < seen {
            continue;
        }
        let opens = at > seen && data[at - 1] == b'"';
        seen = at + 2;
        let Some(unit) = surrogate(data, at) else {
            continue;
        };
        seen = at + ESCAPE;
        let is_first = unit < 0xdc00;
        if is_first && surrogate(data, seen).is_some_and(|second| second >= 0xdc00) {
            seen += ESCAPE;
            continue;
        }
        let mended = mended.get_or_insert_with(|| Mended {
            data: Vec::with_capacity(data.len()),
            is_joined: false,
            half: None,
        });
        mended.data.extend_from_slice(&data[copied..at]);
        copied = seen;
        let joined = first
            .filter(|_| opens && !is_first)
            .and_then(|first| char::decode_utf16([first, unit]).next()?.ok());
        if let Some(whole) = joined {
            mended.is_joined = true;
            mended
                .data
                .extend_from_slice(whole.encode_utf8(&mut [0; 4]).as_bytes());
        } else if is_first && holds && data.get(seen) == Some(&b'"') {
            mended.half = Some(unit);
        } else {
            mended.data.extend_from_slice(REPLACEMENT.as_bytes());
        }
    }
    let mut mended = mended?;
    mended.data.extend_from_slice(&data[copied..]);
    Some(mended)
}

/// Returns the half of a character that the escape at `at` is, if it is one.
fn surrogate(data: &[u8], at: usize) -> Option<u16> {
    let digits = data.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
    let mut unit = 0;
    for digit in digits {
        unit = unit * 16 + char::from(*digit).to_digit(16)?;
    }
    let unit = u16::try_from(unit).ok()?;
    (0xd800..0xe000).contains(&unit).then_some(unit)
}

/// Bytes of an escape such as `\ud83d`.
const ESCAPE: usize = 6;

/// What stands for half a character.
const REPLACEMENT: &str = "\u{fffd}";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mended(data: &str, first: Option<u16>, holds: bool) -> Option<(String, bool, Option<u16>)> {
        mend_escapes(data.as_bytes(), first, holds).map(|mended| {
            let data = String::from_utf8(mended.data).unwrap();
            (data, mended.is_joined, mended.half)
        })
    }

    #[test]
    fn whole_characters_are_left_alone() {
        for data in [
            r#"{"a":"b\n\"\\ud83d"}"#,
            r#"["\ud83d\ude00 \u00e9"]"#,
            r#"["\\\ud83d\ude00"]"#,
            r#"["\u12"]"#,
            "",
            "\\",
        ] {
            assert_eq!(mended(data, Some(0xd83d), true), None, "{data}");
        }
    }

    #[test]
    fn a_half_alone_becomes_a_replacement() {
        for data in [r#"["a\ud83d b"]"#, r#"["a\ude00 b"]"#, r#"["a\uD83D b"]"#] {
            let expected = Some(("[\"a\u{fffd} b\"]".to_owned(), false, None));
            assert_eq!(mended(data, None, true), expected, "{data}");
        }
        assert_eq!(
            mended(r#"["\ud83d"]"#, None, false).unwrap().0,
            "[\"\u{fffd}\"]"
        );
        assert_eq!(
            mended(r#"["\ud83d\ud83d\ude00"]"#, None, true).unwrap().0,
            "[\"\u{fffd}\\ud83d\\ude00\"]"
        );
    }

    #[test]
    fn halves_at_the_edges_of_strings_are_held_and_joined() {
        assert_eq!(
            mended(r#"["a\ud83d"]"#, None, true),
            Some((r#"["a"]"#.to_owned(), false, Some(0xd83d)))
        );
        assert_eq!(
            mended(r#"["\ude00b"]"#, Some(0xd83d), true),
            Some(("[\"\u{1f600}b\"]".to_owned(), true, None))
        );
        // A quote that is itself escaped opens nothing.
        assert_eq!(
            mended(r#"["\"\ude00b"]"#, Some(0xd83d), true),
            Some(("[\"\\\"\u{fffd}b\"]".to_owned(), false, None))
        );
    }

    proptest! {
        #[test]
        fn any_string_can_be_read_once_it_is_mended(
            units in proptest::collection::vec(
                prop_oneof![
                    Just("\\ud83d"), Just("\\ude00"), Just("\\\\"), Just("\\\""), Just("a"),
                    Just("\\u0041"), Just("\\n"), Just("u"),
                ],
                0..12,
            ),
            first in proptest::option::of(0xd800_u16..0xdc00),
            holds in any::<bool>(),
        ) {
            let json = format!("\"{}\"", units.concat());
            let mended = mend_escapes(json.as_bytes(), first, holds);
            let data = mended.map_or_else(|| json.into_bytes(), |mended| mended.data);
            prop_assert!(serde_json::from_slice::<String>(&data).is_ok());
        }
    }
}
