//! Deltas that go on with what the one before them did.
//!
//! The decoder sees the first delta of each run, so that whatever depends on a part having been filled
//! stays true; of the others it is enough to know what they prove.

use crate::dialect::{Meaning, Scanned, Slot};
use crate::frame::SseEvent;
use crate::walk;
use crate::wire::Wire;

/// The run of deltas that a stream is in.
#[derive(Debug, Default)]
pub(crate) struct DeltaRun {
    /// The part of the answer that the last delta went into.
    slot: Option<Slot>,
    last: Last,
}

/// The last delta without its text. Most of a run differ in nothing else, and are known by it.
#[derive(Debug, Default)]
struct Last {
    meaning: Option<Meaning>,
    around: Vec<u8>,
    /// Where in it the text was.
    at: usize,
}

impl DeltaRun {
    /// Returns what an event proves that goes on with the run; `None` if it has to be decoded.
    pub(crate) fn go_on(&mut self, wire: Wire, event: &SseEvent<'_>) -> Option<Meaning> {
        if event.error.is_some() || event.name == Some(b"error") {
            *self = Self::default();
            return None;
        }
        if let Some(meaning) = self.last.repeated(event.data) {
            return Some(meaning);
        }
        let before = self.slot.take();
        self.last.meaning = None;
        let scanned = wire.scan(event.data)?;
        self.slot = scanned.slot;
        self.last.keep(event.data, &scanned);
        let goes_on = self.slot.is_some() && self.slot == before;
        goes_on.then_some(scanned.meaning)
    }
}

impl Last {
    /// Returns what `data` means if nothing but its text is another.
    fn repeated(&self, data: &[u8]) -> Option<Meaning> {
        let meaning = self.meaning?;
        let (before, after) = self.around.split_at_checked(self.at)?;
        let text = data.strip_prefix(before)?.strip_suffix(after)?;
        (!text.is_empty() && walk::is_text(text)).then_some(meaning)
    }

    fn keep(&mut self, data: &[u8], scanned: &Scanned) {
        let Some(text) = &scanned.text else { return };
        let (Some(before), Some(after)) = (data.get(..text.start), data.get(text.end..)) else {
            return;
        };
        if before.len() + after.len() > LONGEST {
            return;
        }
        self.around.clear();
        self.around.reserve_exact(before.len() + after.len());
        self.around.extend_from_slice(before);
        self.around.extend_from_slice(after);
        self.at = before.len();
        self.meaning = Some(scanned.meaning);
    }
}

/// More than anybody writes around a text.
const LONGEST: usize = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BEFORE: &str = "{\"choices\":[{\"delta\":{\"content\":\"";
    const AFTER: &str = "\"},\"finish_reason\":null}]}";

    fn event(data: &[u8]) -> SseEvent<'_> {
        SseEvent {
            name: None,
            data,
            error: None,
            terminated: true,
        }
    }

    /// What a run is told that has begun with a delta, with and without knowing the one before.
    fn told(data: &[u8]) -> [Option<Meaning>; 2] {
        let mut run = DeltaRun::default();
        let first = format!("{BEFORE}a{AFTER}");
        assert_eq!(run.go_on(Wire::OPENAI_CHAT, &event(first.as_bytes())), None);
        let mut blind = DeltaRun {
            slot: run.slot,
            last: Last::default(),
        };
        assert!(run.last.meaning.is_some());
        [&mut run, &mut blind].map(|run| run.go_on(Wire::OPENAI_CHAT, &event(data)))
    }

    #[test]
    fn a_delta_that_differs_in_its_text_alone_is_known_by_the_one_before() {
        let [known, scanned] = told(format!("{BEFORE}b \\\"c\\\\{AFTER}").as_bytes());

        assert_eq!(
            (known, scanned),
            (Some(Meaning::OUTPUT), Some(Meaning::OUTPUT))
        );
    }

    #[test]
    fn a_run_ends_with_what_is_no_delta_of_it() {
        let mut run = DeltaRun::default();
        let delta = format!("{BEFORE}a{AFTER}");
        let delta = event(delta.as_bytes());
        let finish = event(b"{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}");
        let error = SseEvent {
            name: Some(b"error"),
            ..delta
        };
        let mut told = |event| run.go_on(Wire::OPENAI_CHAT, event).is_some();

        let goes_on = [&delta, &delta, &finish, &delta, &delta, &error, &delta].map(&mut told);

        assert_eq!(goes_on, [false, true, false, false, true, false, false]);
    }

    #[test]
    fn what_cannot_be_read_is_not_known_by_anything() {
        let strange: [&[u8]; 6] = [b"", b"\"", b"\\", b"\\u0041", b"\n", b"\xff"];
        for text in strange {
            let data = [BEFORE.as_bytes(), text, AFTER.as_bytes()].concat();
            assert_eq!(told(&data), [None, None], "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_known_by_the_one_before_is_also_found_without_it(
            text in proptest::collection::vec(proptest::sample::select(PIECES), 0..8),
        ) {
            let data = [BEFORE.as_bytes(), &text.concat(), AFTER.as_bytes()].concat();
            let [known, scanned] = told(&data);
            prop_assert_eq!(known, scanned);
        }
    }

    const PIECES: &[&[u8]] = &[
        b"\"",
        b"\\",
        b"\\n",
        b"a",
        b"\xc3",
        b"\xa9",
        b"\"}",
        b",\"content\":\"b",
        b"\x1f",
    ];
}
