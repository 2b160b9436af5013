//! The attributes of a span, an event or a process.

use super::otlp::{AnyValue, KeyValue, Texts, Value};

/// Attributes on their way to OTLP. What is not known is left out.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<KeyValue>);

impl Attributes {
    pub(super) fn add(&mut self, key: &str, value: impl IntoValue) {
        let Some(value) = value.into_value() else {
            return;
        };
        self.0.push(KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
        });
    }

    /// Adds an attribute, and returns all of them.
    pub(super) fn with(mut self, key: &str, value: impl IntoValue) -> Self {
        self.add(key, value);
        self
    }

    pub(super) fn into_vec(self) -> Vec<KeyValue> {
        self.0
    }
}

/// What can be the value of an attribute.
pub(super) trait IntoValue {
    fn into_value(self) -> Option<Value>;
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Option<Value> {
        self?.into_value()
    }
}

impl IntoValue for &str {
    fn into_value(self) -> Option<Value> {
        Some(Value::Text(cut(self).to_owned()))
    }
}

impl IntoValue for bool {
    fn into_value(self) -> Option<Value> {
        Some(Value::Flag(self))
    }
}

impl IntoValue for u64 {
    fn into_value(self) -> Option<Value> {
        Some(Value::Integer(i64::try_from(self).unwrap_or(i64::MAX)))
    }
}

impl IntoValue for u32 {
    fn into_value(self) -> Option<Value> {
        Some(Value::Integer(self.into()))
    }
}

impl IntoValue for u16 {
    fn into_value(self) -> Option<Value> {
        Some(Value::Integer(self.into()))
    }
}

impl IntoValue for f64 {
    fn into_value(self) -> Option<Value> {
        Some(Value::Double(self))
    }
}

impl<const N: usize> IntoValue for [&str; N] {
    fn into_value(self) -> Option<Value> {
        let values = self.map(|text| AnyValue {
            value: text.into_value(),
        });
        Some(Value::Texts(Texts {
            values: values.into(),
        }))
    }
}

/// Returns as much of a text as is exported: callers and providers may send more than anybody reads.
pub(super) fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(LONGEST);
    text.get(..end).unwrap_or_default()
}

/// Of a value, in bytes.
const LONGEST: usize = 1_024;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_is_not_known_is_left_out() {
        let attributes = Attributes::default()
            .with("a", None::<&str>)
            .with("b", Some(7_u16));

        let [only] = attributes.into_vec().try_into().unwrap();
        assert_eq!(only.key, "b");
        assert_eq!(only.value.unwrap().value, Some(Value::Integer(7)));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let long = "\u{e4}".repeat(2_000);

        assert_eq!(cut(&long).len(), LONGEST);
        assert_eq!(cut(&format!("a{long}")).len(), LONGEST - 1);
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn a_number_beyond_what_is_exported_is_the_greatest_that_is() {
        assert_eq!(u64::MAX.into_value(), Some(Value::Integer(i64::MAX)));
    }
}
