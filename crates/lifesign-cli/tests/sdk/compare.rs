//! Comparing what a client hands back, without what differs from one request to the next.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Replaces what differs from one request to the next: ids by their order, times and timings by nothing.
pub(crate) fn normal(value: &Value) -> Value {
    Normaliser::default().value(value)
}

/// Returns where the two differ, a line each; none where they are equal.
pub(crate) fn differences(directly: &Value, through: &Value) -> Vec<String> {
    let mut found = Vec::new();
    differ("", directly, through, &mut found);
    found
}

#[derive(Default)]
struct Normaliser {
    ids: HashMap<String, String>,
}

impl Normaliser {
    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .filter(|(name, _)| !ONLY_WHOLE.contains(&&***name))
                    .map(|(name, value)| (name.clone(), self.field(name, value)));
                Value::Object(fields.collect::<Map<_, _>>())
            }
            Value::String(text) => without_ids(text).into(),
            plain => plain.clone(),
        }
    }

    fn field(&mut self, name: &str, value: &Value) -> Value {
        let is_id = name == "id" || name.ends_with("_id") || name.ends_with("Id");
        match value {
            Value::String(id) if is_id && name != "modelId" && !SCRIPTED_IDS.contains(&&**id) => {
                let next = self.ids.len() + 1;
                let alias = self.ids.entry(id.clone());
                alias.or_insert_with(|| format!("id {next}")).clone().into()
            }
            Value::Number(_) if TIMES.contains(&name) => Value::from(0),
            // Of no text llama.cpp says the one where it streams, and the other where it does not.
            Value::String(text) if name == "content" && text.is_empty() => Value::Null,
            Value::Object(_) if name == "timings" => Value::from("timings"),
            other => self.value(other),
        }
    }
}

/// Replaces ids that stand in the middle of a sentence: long words of letters and digits.
fn without_ids(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        // One in some hundreds of random words has no digit; none is all in small letters.
        let is_random = |c: char| c.is_ascii_digit() || c.is_ascii_uppercase();
        let is_id = word.len() >= ID_LEN && word.contains(is_random);
        plain.push_str(if is_id { "(id)" } else { word });
        plain.push_str(piece.strip_prefix(word).unwrap_or_default());
    }
    plain
}

fn differ(path: &str, directly: &Value, through: &Value, found: &mut Vec<String>) {
    let tell = |found: &mut Vec<String>, path: &str, one: Option<&Value>, other: Option<&Value>| {
        let shown = |value: Option<&Value>| {
            let text = value.map_or_else(|| "nothing".to_owned(), Value::to_string);
            text.chars().take(MOST_CHARS).collect::<String>()
        };
        found.push(format!(
            "{path}\n        directly    {}\n        through it  {}",
            shown(one),
            shown(other)
        ));
    };
    match (directly, through) {
        (Value::Array(one), Value::Array(other)) => {
            for at in 0..one.len().max(other.len()) {
                let path = format!("{path}[{at}]");
                match (one.get(at), other.get(at)) {
                    (Some(one), Some(other)) => differ(&path, one, other, found),
                    (one, other) => tell(found, &path, one, other),
                }
            }
        }
        (Value::Object(one), Value::Object(other)) => {
            let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let path = format!("{path}.{name}");
                match (one.get(name), other.get(name)) {
                    (Some(one), Some(other)) => differ(&path, one, other, found),
                    (one, other) => tell(found, &path, one, other),
                }
            }
        }
        (one, other) if one != other => tell(found, path, Some(one), Some(other)),
        _ => {}
    }
}

/// Ids that the scripts give, which have to arrive as they are.
const SCRIPTED_IDS: [&str; 2] = ["call_1", "call_2"];

/// Fields of whole answers that llama.cpp leaves out where it streams, so that an answer put together
/// from its stream has none.
const ONLY_WHOLE: [&str; 1] = ["completed_at"];

/// Words of so many letters and digits are ids; our own words are shorter.
const ID_LEN: usize = 24;

/// So much of a value is shown.
const MOST_CHARS: usize = 300;

const TIMES: [&str; 2] = ["created", "created_at"];

mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_and_times_are_equal_and_everything_else_has_to_be() {
        let directly = json!({"id": "a", "created": 1, "of": [{"item_id": "a"}, {"text": "x"}]});
        let same = json!({"id": "b", "created": 2, "of": [{"item_id": "b"}, {"text": "x"}]});
        let other = json!({"id": "b", "created": 2, "of": [{"item_id": "c"}, {"text": "y"}, 1]});

        assert_eq!(normal(&directly), normal(&same));
        let found = differences(&normal(&directly), &normal(&other));
        let paths: Vec<_> = found
            .iter()
            .filter_map(|line| line.lines().next())
            .collect();
        assert_eq!(paths, [".of[0].item_id", ".of[1].text", ".of[2]"]);
    }
}
