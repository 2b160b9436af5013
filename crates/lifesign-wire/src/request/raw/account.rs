//! Whether a request names something that only one account of its provider holds.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::lenient::{from_json, is_truthy};

/// The fields of a request that may name such a thing.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields<'a> {
    #[serde(borrow)]
    previous_response_id: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation: Option<&'a RawValue>,
    #[serde(borrow)]
    container: Option<&'a RawValue>,
    /// A prompt that is kept at the provider.
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

/// Returns whether the body names such a thing. One that says a field twice is taken to.
pub(super) fn is_bound(body: &[u8]) -> bool {
    let Some(fields) = from_json::<Fields<'_>>(body) else {
        return true;
    };
    let named = [
        fields.previous_response_id,
        fields.conversation,
        fields.container,
        fields.prompt.filter(|raw| raw.get().starts_with('{')),
    ];
    let has = |raw: Option<&RawValue>, names: &'static [&'static str]| {
        raw.is_some_and(|raw| {
            let mut json = serde_json::Deserializer::from_str(raw.get());
            // JSON that nests too deep to be looked through stays where it is.
            Naming { names }.deserialize(&mut json).unwrap_or(true)
        })
    };
    named.into_iter().any(is_truthy)
        || has(fields.input, IN_MESSAGES)
        || has(fields.messages, IN_MESSAGES)
        || has(fields.tools, IN_TOOLS)
}

/// Finds a field, at any depth, of one of the names that holds an id.
#[derive(Clone, Copy)]
struct Naming {
    names: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Naming {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Naming {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            if self.names.contains(&&*key) {
                found |= map.next_value_seed(Named(self))?;
            } else if SCHEMAS.contains(&&*key) {
                map.next_value::<IgnoredAny>()?;
            } else if key == "type" {
                let kind = map.next_value::<&RawValue>()?;
                found |= kind.get() == r#""item_reference""#;
            } else {
                found |= map.next_value_seed(self)?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(is_found) = seq.next_element_seed(self)? {
            found |= is_found;
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }
}

/// The value of a field of such a name: it holds an id if it is a text or a list that is not empty.
struct Named(Naming);

impl<'de> DeserializeSeed<'de> for Named {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Named {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<bool, A::Error> {
        self.0.visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        let mut found = false;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            found = true;
        }
        Ok(found)
    }

    fn visit_str<E>(self, text: &str) -> Result<bool, E> {
        Ok(!text.is_empty())
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// What names a file or a stored answer in a message.
const IN_MESSAGES: &[&str] = &["file_id", "file_ids"];

/// What names a file, a store of files or a container in a tool of the provider's.
const IN_TOOLS: &[&str] = &["container", "file_ids", "vector_store_ids"];

/// What models and callers write themselves: the arguments of a call and the schema of a tool may
/// have fields of any name.
const SCHEMAS: [&str; 4] = ["arguments", "input", "input_schema", "parameters"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_an_account_binds_a_request_to_it() {
        for body in [
            r#"{"previous_response_id":"resp_1"}"#,
            r#"{"conversation":"conv_1"}"#,
            r#"{"conversation":{"id":"conv_1"}}"#,
            r#"{"container":"container_1"}"#,
            r#"{"container":{"skills":[{"skill_id":"x"}]}}"#,
            r#"{"prompt":{"id":"pmpt_1"}}"#,
            r#"{"input":[{"content":[{"type":"input_file","file_id":"file-1"}]}]}"#,
            r#"{"input":[{"type":"item_reference","id":"msg_1"}]}"#,
            r#"{"messages":[{"content":[{"type":"file","file":{"file_id":"file-1"}}]}]}"#,
            r#"{"messages":[{"content":[{"type":"document",
                "source":{"type":"file","file_id":"file_1"}}]}]}"#,
            r#"{"tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]}"#,
            r#"{"tools":[{"type":"code_interpreter","container":"cntr_1"}]}"#,
            r#"{"tools":[{"type":"code_interpreter",
                "container":{"type":"auto","file_ids":["file-1"]}}]}"#,
        ] {
            assert!(is_bound(body.as_bytes()), "{body}");
        }
    }

    #[test]
    fn what_any_account_can_answer_binds_nothing() {
        for body in [
            "{}",
            r#"{"previous_response_id":null,"conversation":null,"container":null}"#,
            r#"{"previous_response_id":""}"#,
            r#"{"prompt":"Say hello"}"#,
            r#"{"input":"the file_id is file-1"}"#,
            r#"{"input":[{"content":[{"type":"input_file","file_id":null,"file_data":"QUI="}]}]}"#,
            r#"{"messages":[{"role":"user","content":"x","n":1.5,"b":true}]}"#,
            r#"{"messages":[{"content":[{"type":"tool_use","input":{"file_id":"mine"}}]}]}"#,
            r#"{"tools":[{"type":"function","function":{"parameters":
                {"properties":{"container":{"type":"string"},"file_ids":["x"]}}}}]}"#,
            r#"{"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]}"#,
        ] {
            assert!(!is_bound(body.as_bytes()), "{body}");
        }
    }

    #[test]
    fn what_cannot_be_looked_through_stays_where_it_is() {
        let deep = |field: &str, open: &str, close: &str, depth| {
            let (open, close) = (open.repeat(depth), close.repeat(depth));
            is_bound(format!(r#"{{"{field}":{open}0{close}}}"#).as_bytes())
        };

        for (field, open, close) in [
            ("messages", "[", "]"),
            ("tools", r#"{"container":"#, "}"),
            ("tools", r#"{"any":"#, "}"),
        ] {
            assert!(!deep(field, open, close, 100), "{field} {open}");
            assert!(deep(field, open, close, 100_000), "{field} {open}");
        }
        assert!(is_bound(br#"{"input":"x","input":"y"}"#));
    }
}
