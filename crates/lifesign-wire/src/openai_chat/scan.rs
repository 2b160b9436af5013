//! Judging a chunk without decoding it.

use std::ops::Range;

use crate::dialect::Meaning;
use crate::dialect::{Scanned, Slot};
use crate::walk::{Seen, Walk};

/// What the delta of a chunk brings.
#[derive(Debug, Default)]
struct Found {
    index: u64,
    has_reasoning: bool,
    has_text: bool,
    /// Where the last text stands that is not empty.
    text: Option<Range<usize>>,
}

impl Found {
    /// Takes in a text, and returns whether there is any.
    fn find(&mut self, walk: &mut Walk<'_>) -> Option<bool> {
        let text = walk.text()?;
        if text.is_empty() {
            return Some(false);
        }
        self.text = Some(walk.place_of(text));
        Some(true)
    }
}

/// Returns what a chunk means that brings nothing but text or thinking of one choice.
pub(super) fn scan(data: &[u8]) -> Option<Scanned> {
    let mut found = Found::default();
    let mut seen = Seen::default();
    Walk::over(data, |key, walk| match key {
        b"choices" => {
            seen.once(0)?;
            walk.only_item(|walk| choice(walk, &mut found))
        }
        b"id" => seen.once(1).and_then(|()| walk.text()).map(drop),
        b"model" => seen.once(2).and_then(|()| walk.text()).map(drop),
        b"object" => seen.once(3).and_then(|()| walk.text()).map(drop),
        b"usage" => seen.once(4).and_then(|()| walk.null()),
        b"error" => seen.once(5).and_then(|()| walk.null()),
        b"code"
        | b"detail"
        | b"message"
        | b"moderation"
        | b"position"
        | b"progress"
        | b"prompt_filter_results"
        | b"prompt_progress"
        | b"queue_position"
        | b"type"
        | b"x_groq" => None,
        _ => walk.skip(),
    })?;
    let meaning = if found.has_text {
        Meaning::OUTPUT
    } else if found.has_reasoning {
        Meaning::REASONING
    } else {
        return None;
    };
    let kind = u8::from(found.has_text) + 2 * u8::from(found.has_reasoning);
    Some(Scanned {
        meaning,
        text: found.text,
        slot: Some(Slot(kind, [found.index, 0])),
    })
}

fn choice(walk: &mut Walk<'_>, found: &mut Found) -> Option<()> {
    let mut seen = Seen::default();
    walk.object(|key, walk| match key {
        b"delta" => seen.once(0).and_then(|()| delta(walk, found)),
        b"index" => {
            seen.once(1)?;
            found.index = walk.count()?;
            Some(())
        }
        b"finish_reason" => seen.once(2).and_then(|()| walk.null()),
        b"message" | b"text" | b"usage" => None,
        _ => walk.skip(),
    })
}

fn delta(walk: &mut Walk<'_>, found: &mut Found) -> Option<()> {
    let mut seen = Seen::default();
    walk.object(|key, walk| match key {
        b"content" => {
            seen.once(0)?;
            found.has_text = found.find(walk)?;
            Some(())
        }
        b"reasoning_content" => {
            seen.once(1)?;
            found.has_reasoning |= found.find(walk)?;
            Some(())
        }
        b"reasoning" => {
            seen.once(2)?;
            found.has_reasoning |= found.find(walk)?;
            Some(())
        }
        b"role" => seen.once(3).and_then(|()| walk.text()).map(drop),
        b"refusal" => seen.once(4).and_then(|()| walk.null()),
        b"tool_calls" => seen.once(5).and_then(|()| walk.nothing()),
        b"function_call" => seen.once(6).and_then(|()| walk.null()),
        b"annotations" => seen.once(7).and_then(|()| walk.nothing()),
        b"audio" => seen.once(8).and_then(|()| walk.null()),
        b"executed_tools" | b"reasoning_details" | b"reasoning_text" | b"thinking"
        | b"thinking_blocks" | b"images" => None,
        _ => walk.skip(),
    })
}
