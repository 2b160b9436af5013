//! A chunk of a chat completion as it is written, by all who write one.

use std::fmt;
use std::marker::PhantomData;

use lifesign_core::Usage;
use serde::Deserialize;
use serde::de::{
    Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor, value::StrDeserializer,
};
use serde_json::value::RawValue;

use crate::lenient::{Count, List, Object, Text, is_truthy};

/// One data event of a stream, or a whole body.
///
/// What is rare or large is boxed, since serde moves each value several times.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) choices: List<Object<Choice<'a>>>,
    pub(super) usage: Object<Box<Tokens>>,
    #[serde(borrow)]
    pub(super) x_groq: Object<Box<Groq<'a>>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// Lifecycle that comes with empty choices.
    #[serde(borrow)]
    pub(super) prompt_filter_results: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) moderation: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) prompt_progress: Option<&'a RawValue>,
    // What tells an error that is no object of its own.
    #[serde(borrow)]
    pub(super) object: Text<'a>,
    #[serde(borrow)]
    pub(super) message: Text<'a>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) code: Text<'a>,
    #[serde(borrow)]
    pub(super) detail: Option<&'a RawValue>,
}

impl<'a> Chunk<'a> {
    pub(super) fn choices(&self) -> impl Iterator<Item = &Choice<'a>> {
        let choices = self.choices.items().iter();
        choices.filter_map(|choice| choice.0.as_ref())
    }

    /// Returns the last usage that the chunk tells, wherever it stands.
    pub(super) fn usage(&self) -> Option<Usage> {
        let in_groq = || {
            self.x_groq
                .0
                .as_ref()
                .and_then(|groq| groq.usage.0.as_ref())
        };
        let in_choice = || self.choices().find_map(|choice| choice.usage.0.as_ref());
        let tokens = self.usage.0.as_ref().or_else(in_groq).or_else(in_choice)?;
        Some(tokens.usage()).filter(|usage| !usage.is_unknown())
    }

    /// Returns what usage says of work, wherever the chunk tells it.
    pub(super) fn work(&self) -> Option<u64> {
        let usage = self.usage()?;
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        (input.is_some() || output.is_some()).then(|| {
            input
                .unwrap_or_default()
                .wrapping_add(output.unwrap_or_default())
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) delta: Object<Box<Delta<'a>>>,
    /// The whole message: of a whole body, or cumulative beside a delta and then of no interest.
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    /// The text of the legacy dialect, which some put beside the delta.
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
    pub(super) usage: Object<Box<Tokens>>,
}

impl Choice<'_> {
    pub(super) fn number(&self) -> u64 {
        self.index.0.unwrap_or_default()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) role: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Content<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning_text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning_details: List<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thinking_blocks: List<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: List<Object<CallPiece<'a>>>,
    #[serde(borrow)]
    pub(super) function_call: Object<Box<Function<'a>>>,
    #[serde(borrow)]
    pub(super) audio: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) images: List<&'a RawValue>,
    #[serde(borrow)]
    pub(super) annotations: List<&'a RawValue>,
    /// What tools of the provider's were asked and answered (Groq).
    #[serde(borrow)]
    pub(super) executed_tools: List<&'a RawValue>,
}

impl<'a> Delta<'a> {
    /// Returns the fields that hold thinking as one text, in the order of their names.
    pub(super) const fn reasoning_fields(&self) -> [&Text<'a>; REASONING_FIELDS.len()] {
        [
            &self.reasoning_content,
            &self.reasoning,
            &self.reasoning_text,
            &self.thinking,
        ]
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallPiece<'a> {
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) function: Object<Function<'a>>,
    #[serde(borrow)]
    pub(super) custom: Object<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    /// A piece of text, null, or the whole object.
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    /// The free text of a custom tool.
    #[serde(borrow)]
    pub(super) input: Text<'a>,
}

/// `delta.content`: text, a list of parts, or nothing.
#[derive(Debug, Default)]
pub(super) enum Content<'a> {
    #[default]
    Nothing,
    Text(Text<'a>),
    Parts(Vec<Part<'a>>),
}

/// A part of content that is a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    /// The parts of a thinking part, or its text.
    #[serde(borrow)]
    pub(super) thinking: Thinking<'a>,
    #[serde(borrow)]
    audio: Option<&'a RawValue>,
    #[serde(borrow)]
    file: Option<&'a RawValue>,
    #[serde(borrow)]
    image_url: Option<&'a RawValue>,
    #[serde(borrow)]
    input_audio: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(borrow)]
    video_url: Option<&'a RawValue>,
    // What parts of other kinds hold.
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    reference_ids: Option<&'a RawValue>,
}

impl<'a> Part<'a> {
    /// Returns the image, audio or file that the part is.
    pub(super) fn media(&self) -> Option<&'a RawValue> {
        [
            self.audio,
            self.file,
            self.image_url,
            self.input_audio,
            self.source,
            self.video_url,
        ]
        .into_iter()
        .flatten()
        .find(|raw| is_truthy(Some(raw)))
    }

    /// Returns what a part of a kind that nobody knows holds.
    pub(super) fn other(&self) -> Option<&str> {
        let fields = [self.content, self.data, self.reference_ids];
        fields
            .into_iter()
            .flatten()
            .find(|raw| is_truthy(Some(raw)))
            .map(RawValue::get)
            .or_else(|| self.text.filled())
    }
}

/// What a thinking part holds.
#[derive(Debug, Default)]
pub(super) struct Thinking<'a>(pub(super) Vec<Text<'a>>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ThinkingPart<'a> {
    #[serde(borrow)]
    text: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Groq<'a> {
    pub(super) usage: Object<Box<Tokens>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names are those of the wire")]
pub(super) struct Tokens {
    prompt_tokens: Count,
    completion_tokens: Count,
    prompt_tokens_details: Object<InputDetails>,
    completion_tokens_details: Object<OutputDetails>,
    /// DeepSeek's own name for what the cache held.
    prompt_cache_hit_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
}

impl Tokens {
    fn usage(&self) -> Usage {
        let cached = self
            .prompt_tokens_details
            .0
            .as_ref()
            .and_then(|is| is.cached_tokens.0);
        let reasoning = self.completion_tokens_details.0.as_ref();
        Usage {
            input_tokens: self.prompt_tokens.0,
            output_tokens: self.completion_tokens.0,
            cached_input_tokens: cached.or(self.prompt_cache_hit_tokens.0),
            reasoning_tokens: reasoning.and_then(|is| is.reasoning_tokens.0),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor(PhantomData))
    }
}

struct ContentVisitor<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for ContentVisitor<'a> {
    type Value = Content<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a list of parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Content<'a>, E> {
        Ok(Content::Text(Text::Some(text.into())))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Content<'a>, E> {
        Text::deserialize(StrDeserializer::new(text)).map(Content::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content<'a>, A::Error> {
        let mut parts = Vec::new();
        while let Some(raw) = seq.next_element::<&'de RawValue>()? {
            let raw = raw.get();
            // Some put the texts themselves into the list.
            if raw.starts_with('"') {
                parts.push(Part {
                    text: serde_json::from_str(raw).map_err(A::Error::custom)?,
                    ..Part::default()
                });
            } else {
                parts.extend(
                    serde_json::from_str::<Object<Part<'a>>>(raw)
                        .map_err(A::Error::custom)?
                        .0,
                );
            }
        }
        Ok(Content::Parts(parts))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Content<'a>, A::Error> {
        let part = Part::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(Content::Parts(vec![part]))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Content<'a>, E> {
        Ok(Content::Nothing)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Content<'a>, E> {
        Ok(Content::Nothing)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Content<'a>, E> {
        Ok(Content::Nothing)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Content<'a>, E> {
        Ok(Content::Nothing)
    }

    fn visit_unit<E>(self) -> Result<Content<'a>, E> {
        Ok(Content::Nothing)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Thinking<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        let texts = if raw.starts_with('[') {
            let List(parts) = serde_json::from_str::<List<Object<ThinkingPart<'a>>>>(raw)
                .map_err(D::Error::custom)?;
            parts
                .into_iter()
                .flatten()
                .filter_map(|part| part.0)
                .map(|part| part.text)
                .collect()
        } else if raw.starts_with('"') {
            vec![serde_json::from_str(raw).map_err(D::Error::custom)?]
        } else {
            let IgnoredAny = serde_json::from_str(raw).map_err(D::Error::custom)?;
            Vec::new()
        };
        Ok(Self(texts))
    }
}

/// The fields that hold thinking as one text, in the order in which they speak.
pub(super) const REASONING_FIELDS: [&str; 4] = [
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "thinking",
];
