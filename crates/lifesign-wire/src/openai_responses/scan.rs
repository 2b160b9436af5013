//! Judging an event without decoding it.

use lifesign_core::Block;

use crate::dialect::Meaning;
use crate::dialect::{Scanned, Slot};
use crate::walk::{Seen, Walk};

/// Returns what an event means that is a keep-alive, or a delta of text, thinking or arguments.
pub(super) fn scan(data: &[u8]) -> Option<Scanned> {
    let mut kind: &[u8] = b"";
    let mut delta: &[u8] = b"";
    let mut place = None;
    let mut output_index = 0;
    // The decoder takes the first of both that is there.
    let mut parts = [None; 2];
    let mut seen = Seen::default();
    Walk::over(data, |key, walk| match key {
        b"type" => {
            seen.once(0)?;
            kind = walk.text()?;
            Some(())
        }
        b"delta" => {
            seen.once(1)?;
            delta = walk.text()?;
            place = Some(walk.place_of(delta));
            Some(())
        }
        b"output_index" => {
            seen.once(2)?;
            output_index = walk.count()?;
            Some(())
        }
        b"content_index" => {
            seen.once(3)?;
            parts[0] = Some(walk.count()?);
            Some(())
        }
        b"summary_index" => {
            seen.once(4)?;
            parts[1] = Some(walk.count()?);
            Some(())
        }
        b"sequence_number" => seen.once(5).and_then(|()| walk.count()).map(drop),
        b"annotation" | b"arguments" | b"input" | b"item" | b"part" | b"partial_image_b64"
        | b"position" | b"progress" | b"queue_position" | b"refusal" | b"response" | b"text" => {
            None
        }
        _ => walk.skip(),
    })?;
    let (slot, meaning) = match kind {
        b"response.output_text.delta" => (0, Meaning::OUTPUT),
        b"response.reasoning_summary_text.delta" => (1, Meaning::REASONING),
        b"response.reasoning_text.delta" => (2, Meaning::REASONING),
        b"response.function_call_arguments.delta" => (3, Meaning::OUTPUT),
        b"response.refusal.delta" => (4, Meaning::OUTPUT),
        b"keepalive" | b"ping" | b"response.heartbeat" | b"response.keep_alive" => {
            return Some(Scanned {
                meaning: Meaning::HEARTBEAT,
                slot: None,
                text: None,
            });
        }
        _ => return None,
    };
    let [content, summary] = parts;
    (!delta.is_empty()).then_some(Scanned {
        meaning: meaning.with_block(Some(Block::Fills)),
        slot: Some(Slot(
            slot,
            [output_index, content.or(summary).unwrap_or_default()],
        )),
        text: place,
    })
}
