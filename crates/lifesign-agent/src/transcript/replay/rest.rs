//! The rest of an answer that was gone on with, in the words of Responses: without what it repeats.

use super::fields::{Fields, set, text};

/// Returns the items of an answer without the first `len` bytes of its text; `None` where they are not
/// there. Items without text of those are left byte for byte.
pub(super) fn without_beginning(items: &[String], len: usize) -> Option<Vec<String>> {
    let mut left = len;
    let mut kept = Vec::new();
    for item in items {
        if left == 0 {
            kept.push(item.clone());
            continue;
        }
        let mut fields: Fields = serde_json::from_str(item).ok()?;
        if text(&fields, "type").as_deref() != Some("message") {
            kept.push(item.clone());
            continue;
        }
        let content: Vec<Fields> = serde_json::from_str(fields.get("content")?.get()).ok()?;
        let mut rest = Vec::new();
        for mut part in content {
            if cut(&mut part, &mut left)? {
                rest.push(part);
            }
        }
        if !rest.is_empty() {
            set(&mut fields, "content", &rest).then_some(())?;
            kept.push(serde_json::to_string(&fields).ok()?);
        }
    }
    (left == 0).then_some(kept)
}

/// Takes up to `left` bytes off a part, and returns whether anything is left of it.
fn cut(part: &mut Fields, left: &mut usize) -> Option<bool> {
    let said = text(part, "text").filter(|_| *left > 0);
    let Some(said) = said else {
        return Some(true);
    };
    let taken = said.len().min(*left);
    let rest = said.get(taken..)?;
    *left -= taken;
    if rest.is_empty() {
        return Some(false);
    }
    set(part, "text", rest).then_some(())?;
    // They point at places in the text, which are others now.
    if part.contains_key("annotations") {
        set(part, "annotations", &[(); 0]).then_some(())?;
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;

    fn message(texts: &[&str]) -> Value {
        let parts = texts.iter().map(|text| {
            json!({"type": "output_text", "text": text, "annotations": [{"start_index": 1}]})
        });
        json!({"type": "message", "id": "msg", "content": parts.collect::<Vec<_>>()})
    }

    #[test]
    fn a_repetition_is_taken_off_wherever_its_text_stands() {
        let reasoning = r#"{"type" : "reasoning","id":"rs"}"#.to_owned();
        let items = [
            reasoning.clone(),
            message(&["ab"]).to_string(),
            message(&["cd", "ef"]).to_string(),
        ];

        let all = without_beginning(&items, 0).unwrap();
        let rest = without_beginning(&items, 3).unwrap();

        assert_eq!(all, items);
        assert_eq!(rest[0], reasoning);
        let rest: Value = serde_json::from_str(&rest[1]).unwrap();
        let mut expected = message(&["d", "ef"]);
        expected["content"][0]["annotations"] = json!([]);
        assert_eq!(rest, expected);
    }

    #[test]
    fn what_is_not_there_is_not_taken_off() {
        let items = [message(&["\u{e4}"]).to_string()];

        assert_eq!(without_beginning(&items, 1), None);
        assert_eq!(without_beginning(&items, 3), None);
        assert_eq!(without_beginning(&items, 2), Some(Vec::new()));
    }
}
