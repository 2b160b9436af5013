//! Whether the stream of a request can be put together into the body that it stands for.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{from_json, is_truthy};

/// Returns whether a stream of the wire called `wire` holds all that the whole body would.
///
/// On responses and anthropic it does; a response that runs in the background is not waited for, so
/// there is nothing to put together. On chat it does unless the body asks for more than text and
/// calls, or for what nobody knows.
pub(super) fn is_assemblable(wire: &str, body: &[u8]) -> bool {
    let Some(fields) = from_json::<BTreeMap<Key<'_>, &RawValue>>(body) else {
        return false;
    };
    let field = |name: &'static str| fields.get(&Key(Cow::Borrowed(name))).copied();
    match wire {
        "openai-chat" => {
            let is_one = |raw: &RawValue| matches!(raw.get(), "1" | "null");
            field("n").is_none_or(is_one)
                && !ONLY_WHOLE.iter().any(|name| is_truthy(field(name)))
                && !field("modalities").is_some_and(|raw| raw.get().contains("audio"))
                && fields.keys().all(|Key(name)| is_known(name))
        }
        _ => !is_truthy(field("background")),
    }
}

fn is_known(name: &str) -> bool {
    CHAT_FIELDS.contains(&name) || SHARED_FIELDS.contains(&name)
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// What makes an answer hold more than is put together.
const ONLY_WHOLE: [&str; 3] = ["audio", "logprobs", "top_logprobs"];

/// The fields of the provider's own schema.
const CHAT_FIELDS: [&str; 35] = [
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];

/// Fields of compatible servers that choose how a model samples or thinks, or who answers; none of
/// them changes what an answer is made of.
const SHARED_FIELDS: [&str; 14] = [
    "cache_prompt",
    "chat_template_kwargs",
    "enable_thinking",
    "min_p",
    "models",
    "provider",
    "reasoning",
    "reasoning_format",
    "reasoning_split",
    "repetition_penalty",
    "safe_prompt",
    "thinking",
    "thinking_budget",
    "top_k",
];

#[cfg(test)]
mod tests {
    use crate::Wire;

    use super::*;

    fn chat(body: &str) -> bool {
        is_assemblable(Wire::OPENAI_CHAT.name(), body.as_bytes())
    }

    #[test]
    fn a_chat_that_asks_for_text_and_calls_can_be_put_together() {
        for body in [
            "{}",
            r#"{"model":"m","messages":[{"logprobs":true}],"tools":[],"seed":1,"stop":null}"#,
            r#"{"n":1,"logprobs":false,"top_logprobs":0,"audio":null,"modalities":["text"]}"#,
            r#"{"n":null,"logprobs":null,"modalities":null,"top_k":40}"#,
        ] {
            assert!(chat(body), "{body}");
        }
    }

    #[test]
    fn a_chat_that_asks_for_more_cannot() {
        for body in [
            r#"{"n":2}"#,
            r#"{"n":1.0}"#,
            r#"{"n":"1"}"#,
            r#"{"logprobs":true}"#,
            r#"{"top_logprobs":3}"#,
            r#"{"audio":{"voice":"x"}}"#,
            r#"{"modalities":["text","audio"]}"#,
            r#"{"model":"m","best_of_all":1}"#,
        ] {
            assert!(!chat(body), "{body}");
        }
    }

    #[test]
    fn the_other_wires_always_can_unless_nobody_waits_for_the_answer() {
        for wire in [Wire::ANTHROPIC, Wire::OPENAI_RESPONSES] {
            let is = |body: &str| is_assemblable(wire.name(), body.as_bytes());

            assert!(is(r#"{"new":1,"background":false}"#), "{wire}");
            assert!(!is(r#"{"background":true}"#), "{wire}");
        }
    }

    #[test]
    fn no_field_is_listed_twice() {
        let mut all = [&CHAT_FIELDS[..], &SHARED_FIELDS[..]].concat();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
