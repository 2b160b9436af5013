//! What the counters of work in a frame say: tokens, prefill progress, a place in a queue.
//!
//! Servers put them where they like, so they are looked for by name. It is done only for frames
//! that bring no content; what matters is not what they say but whether it changed.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{Object, from_json};

/// Returns a number that changes when a counter of work in the frame does; `None` if it has none.
pub(crate) fn in_frame(data: &[u8]) -> Option<u64> {
    let Object(counters) = from_json::<Object<Counters<'_>>>(data)?;
    let mut hasher = DefaultHasher::new();
    counters?
        .add_to(&mut hasher, DEEPEST)
        .then(|| hasher.finish())
}

/// The fields that count work, and those that hold such fields. No ids, times or sequence numbers.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Counters<'a> {
    #[serde(borrow)]
    completion_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    input_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    output_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    position: Option<&'a RawValue>,
    #[serde(borrow)]
    processed: Option<&'a RawValue>,
    #[serde(borrow)]
    progress: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_progress: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    queue_position: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    total_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

impl Counters<'_> {
    /// Adds what the counters say; returns whether there are any.
    fn add_to(&self, hasher: &mut DefaultHasher, depth: usize) -> bool {
        let fields = [
            self.completion_tokens,
            self.input_tokens,
            self.output_tokens,
            self.position,
            self.processed,
            self.progress,
            self.prompt_progress,
            self.prompt_tokens,
            self.queue_position,
            self.response,
            self.tokens,
            self.total_tokens,
            self.usage,
        ];
        let mut has_any = false;
        for (at, raw) in fields.into_iter().enumerate() {
            let Some(raw) = raw.map(RawValue::get) else {
                continue;
            };
            if is_number(raw) {
                (depth, at, raw).hash(hasher);
                has_any = true;
            } else if depth > 0
                && raw.starts_with('{')
                && let Ok(nested) = serde_json::from_str::<Self>(raw)
            {
                has_any |= nested.add_to(hasher, depth - 1);
            }
        }
        has_any
    }
}

fn is_number(raw: &str) -> bool {
    raw.trim_matches('"').parse().is_ok_and(f64::is_finite)
}

/// How deep a counter may be: `response.usage.output_tokens`.
const DEEPEST: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(one: &str, other: &str) -> bool {
        let [one, other] = [one, other].map(|frame| in_frame(frame.as_bytes()));
        assert!(one.is_some() && other.is_some());
        one != other
    }

    #[test]
    fn a_counter_moves_wherever_it_stands() {
        for frame in [
            r#"{"tokens":N}"#,
            r#"{"processed":N}"#,
            r#"{"queue_position":N}"#,
            r#"{"position":"N"}"#,
            r#"{"output_tokens":N}"#,
            r#"{"progress":0.0N}"#,
            r#"{"progress":{"processed":N}}"#,
            r#"{"prompt_progress":{"total":9,"processed":N}}"#,
            r#"{"usage":{"prompt_tokens":1,"completion_tokens":N}}"#,
            r#"{"response":{"prompt_progress":{"processed":N}}}"#,
            r#"{"response":{"usage":{"output_tokens":N}}}"#,
            r#"{"queue_position":1,"tokens":N}"#,
        ] {
            let at = |count: &str| frame.replace('N', count);
            assert!(moves(&at("1"), &at("2")), "{frame}");
            assert!(!moves(&at("1"), &at("1")), "{frame}");
        }
    }

    #[test]
    fn ids_times_and_sequence_numbers_are_no_counters() {
        for frame in [
            r#"{"id":1,"created":2,"sequence_number":3,"time_ms":4,"output_index":5}"#,
            r#"{"prompt_progress":{"time_ms":4,"total":9}}"#,
            r#"{"tokens":null,"progress":"soon","usage":[1]}"#,
            "nothing",
        ] {
            assert_eq!(in_frame(frame.as_bytes()), None, "{frame}");
        }
        assert!(!moves(
            r#"{"prompt_progress":{"processed":1,"time_ms":1}}"#,
            r#"{"prompt_progress":{"processed":1,"time_ms":2}}"#
        ));
    }
}
