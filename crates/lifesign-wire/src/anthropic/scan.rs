//! Judging an event without decoding it.

use std::ops::Range;

use lifesign_core::Block;

use crate::dialect::Meaning;
use crate::dialect::{Scanned, Slot};
use crate::walk::{Seen, Walk};

/// What a delta is and brings.
#[derive(Debug, Default)]
struct Delta<'a> {
    kind: &'a [u8],
    text: &'a [u8],
    thinking: &'a [u8],
    signature: &'a [u8],
    /// Where the last of these stands that is not empty.
    place: Option<Range<usize>>,
}

/// Returns what an event means that is a ping, or a delta of text or thinking.
pub(super) fn scan(data: &[u8]) -> Option<Scanned> {
    let mut kind: &[u8] = b"";
    let mut index = 0;
    let mut found = Delta::default();
    let mut seen = Seen::default();
    Walk::over(data, |key, walk| match key {
        b"type" => {
            seen.once(0)?;
            kind = walk.text()?;
            Some(())
        }
        b"index" => {
            seen.once(1)?;
            index = walk.count()?;
            Some(())
        }
        b"delta" => seen.once(2).and_then(|()| delta(walk, &mut found)),
        b"content_block" | b"message" | b"usage" => None,
        _ => walk.skip(),
    })?;
    match kind {
        b"content_block_delta" => {}
        b"keepalive" | b"ping" => {
            return Some(Scanned {
                meaning: Meaning::HEARTBEAT,
                slot: None,
                text: None,
            });
        }
        _ => return None,
    }
    let (slot, brought, meaning) = match found.kind {
        b"text_delta" => (0, found.text, Meaning::OUTPUT),
        b"thinking_delta" => (1, found.thinking, Meaning::REASONING),
        b"signature_delta" => (2, found.signature, Meaning::REASONING),
        _ => return None,
    };
    (!brought.is_empty()).then_some(Scanned {
        meaning: meaning.with_block(Some(Block::Fills)),
        slot: Some(Slot(slot, [index, 0])),
        text: found.place,
    })
}

fn delta<'a>(walk: &mut Walk<'a>, found: &mut Delta<'a>) -> Option<()> {
    let mut seen = Seen::default();
    walk.object(|key, walk| {
        let (number, field) = match key {
            b"type" => (KIND, &mut found.kind),
            b"text" => (1, &mut found.text),
            b"thinking" => (2, &mut found.thinking),
            b"signature" => (3, &mut found.signature),
            b"citation" | b"content" | b"partial_json" | b"stop_reason" => return None,
            _ => return walk.skip(),
        };
        seen.once(number)?;
        *field = walk.text()?;
        if number != KIND && !field.is_empty() {
            found.place = Some(walk.place_of(field));
        }
        Some(())
    })
}

/// The number of the field that says what a delta is.
const KIND: u32 = 0;
