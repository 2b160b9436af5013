//! JSON fields as servers really write them: absent, null, or of another type than documented.
//!
//! One odd field must not cost the whole event, so nothing here fails on a type.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A field that should be text.
#[derive(Clone, Debug, Default)]
pub(crate) enum Text<'a> {
    /// Absent, null, or no text at all.
    #[default]
    Nothing,
    /// Text, perhaps empty. A number counts as its digits.
    Some(Cow<'a, str>),
}

impl Text<'_> {
    /// Returns the text, even an empty one.
    pub(crate) fn get(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::Some(text) => Some(text),
        }
    }

    /// Returns the text if there is any.
    pub(crate) fn filled(&self) -> Option<&str> {
        self.get().filter(|text| !text.is_empty())
    }

    /// Returns the text, where nothing is empty.
    pub(crate) fn as_str(&self) -> &str {
        self.get().unwrap_or_default()
    }

    /// Returns whether the text is there but empty.
    pub(crate) fn is_seen_empty(&self) -> bool {
        self.get() == Some("")
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor(PhantomData))
    }
}

struct TextVisitor<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for TextVisitor<'a> {
    type Value = Text<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'a>, E> {
        Ok(Text::Some(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'a>, E> {
        Ok(Text::Some(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text<'a>, E> {
        Ok(Text::Nothing)
    }

    fn visit_f64<E>(self, number: f64) -> Result<Text<'a>, E> {
        Ok(Text::Some(Cow::Owned(number.to_string())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text<'a>, E> {
        Ok(Text::Some(Cow::Owned(number.to_string())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text<'a>, E> {
        Ok(Text::Some(Cow::Owned(number.to_string())))
    }

    fn visit_unit<E>(self) -> Result<Text<'a>, E> {
        Ok(Text::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text<'a>, A::Error> {
        skip_map(map).map(|()| Text::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Text<'a>, A::Error> {
        skip_seq(seq).map(|()| Text::Nothing)
    }
}

/// A field that should be a count: some servers write floats, or digits as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a count")
    }

    fn visit_u64<E>(self, count: u64) -> Result<Count, E> {
        Ok(Count(Some(count)))
    }

    fn visit_i64<E>(self, count: i64) -> Result<Count, E> {
        Ok(Count(u64::try_from(count).ok()))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the range is checked, and counts of tokens are small"
    )]
    fn visit_f64<E>(self, count: f64) -> Result<Count, E> {
        let fits = (0.0..u64::MAX as f64).contains(&count);
        Ok(Count(fits.then_some(count as u64)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Count, E> {
        match text.trim().parse::<u64>() {
            Ok(count) => Ok(Count(Some(count))),
            Err(_) => text
                .trim()
                .parse()
                .map_or(Ok(Count(None)), |count| self.visit_f64(count)),
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_unit<E>(self) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Count, A::Error> {
        skip_map(map).map(|()| Count(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Count, A::Error> {
        skip_seq(seq).map(|()| Count(None))
    }
}

/// A field that should be a list. `None` where it is absent, null, or no list.
#[derive(Clone, Debug)]
pub(crate) struct List<T>(pub(crate) Option<Vec<T>>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> List<T> {
    pub(crate) fn items(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(List(Some(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<List<T>, A::Error> {
        skip_map(map).map(|()| List(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<List<T>, E> {
        Ok(List(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<List<T>, E> {
        Ok(List(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<List<T>, E> {
        Ok(List(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<List<T>, E> {
        Ok(List(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<List<T>, E> {
        Ok(List(None))
    }

    fn visit_unit<E>(self) -> Result<List<T>, E> {
        Ok(List(None))
    }
}

/// A field that should be an object. `None` where it is absent, null, or no object.
#[derive(Clone, Debug)]
pub(crate) struct Object<T>(pub(crate) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(de::value::MapAccessDeserializer::new(map)).map(|value| Object(Some(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Object<T>, A::Error> {
        skip_seq(seq).map(|()| Object(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Object<T>, E> {
        Ok(Object(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Object<T>, E> {
        Ok(Object(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Object<T>, E> {
        Ok(Object(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Object<T>, E> {
        Ok(Object(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Object<T>, E> {
        Ok(Object(None))
    }

    fn visit_unit<E>(self) -> Result<Object<T>, E> {
        Ok(Object(None))
    }
}

/// Reads JSON that came as bytes. Text is checked once as a whole, which is faster than value by
/// value.
pub(crate) fn from_json<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Option<T> {
    serde_json::from_str(std::str::from_utf8(data).ok()?).ok()
}

/// Returns whether a field of this raw value says anything: not null, false, or empty.
pub(crate) fn is_truthy(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| !matches!(raw.get(), "null" | "false" | "\"\"" | "{}" | "[]" | "0"))
}

fn skip_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

fn skip_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<(), A::Error> {
    while seq.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Odd<'a> {
        #[serde(borrow)]
        text: Text<'a>,
        count: Count,
        list: List<Count>,
    }

    #[test]
    fn a_field_of_another_type_is_nothing_and_costs_nothing_else() {
        for odd in ["null", "true", "{\"a\":[1]}", "[{}]"] {
            let json = format!(r#"{{"text":{odd},"count":3.0}}"#);
            let odd: Odd<'_> = serde_json::from_str(&json).unwrap();
            assert_eq!((odd.text.get(), odd.count), (None, Count(Some(3))));
        }
    }

    #[test]
    fn counts_are_read_from_floats_and_digits() {
        for (json, count) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("\"7\"", Some(7)),
            ("\"7.5\"", Some(7)),
            ("-1", None),
            ("null", None),
            ("1e300", None),
            ("\"many\"", None),
        ] {
            assert_eq!(
                serde_json::from_str::<Count>(json).unwrap(),
                Count(count),
                "{json}"
            );
        }
    }

    #[test]
    fn a_list_that_is_none_is_absent() {
        let odd: Odd<'_> = serde_json::from_str(r#"{"list":"x"}"#).unwrap();
        assert!(odd.list.0.is_none());
        let even: Odd<'_> = serde_json::from_str(r#"{"list":[1,2]}"#).unwrap();
        assert_eq!(even.list.items().len(), 2);
    }
}
