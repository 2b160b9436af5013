//! A JSON object whose values stay as they were written, in their order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON object whose values stay as they were written, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawObject(Vec<(String, Box<RawValue>)>);

impl RawObject {
    /// Returns the object that `json` is.
    pub(crate) fn parse(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Sets a field. Where it was, there it stays.
    pub(crate) fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Sets a field that is not there yet, or null.
    pub(crate) fn set_missing(&mut self, name: &str, value: Box<RawValue>) {
        if self.get(name).is_none() {
            self.set(name, value);
        }
    }

    /// Returns a field that is not null.
    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.raw(name).filter(|raw| raw.get() != "null")
    }

    /// Returns a field, even one that is null.
    pub(crate) fn raw(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, raw)| &**raw)
    }

    /// Returns a field that is text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Returns the fields of an object in a field.
    pub(crate) fn object(&self, name: &str) -> Option<Self> {
        Self::parse(self.get(name)?.get())
    }

    /// Returns the items of a list in a field; none where there is no list.
    pub(crate) fn items(&self, name: &str) -> Vec<Box<RawValue>> {
        let items = self.get(name).map(RawValue::get);
        items
            .and_then(|raw| serde_json::from_str(raw).ok())
            .unwrap_or_default()
    }

    /// Takes a field out.
    pub(crate) fn take(&mut self, name: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// Returns every field.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, raw)| (name.as_str(), &**raw))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns its JSON.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.to_raw().get().as_bytes().to_vec()
    }

    /// Returns it as one value.
    pub(crate) fn to_raw(&self) -> Box<RawValue> {
        raw(self)
    }
}

/// Returns `value` as JSON. What is written here has no keys but texts and no numbers but finite
/// ones, so that it always can be.
pub(crate) fn raw(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

/// Returns an object of `fields`, in their order.
pub(crate) fn object<const N: usize>(fields: [(&str, Box<RawValue>); N]) -> RawObject {
    RawObject(
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RawObjectVisitor)
    }
}

struct RawObjectVisitor;

impl<'de> Visitor<'de> for RawObjectVisitor {
    type Value = RawObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
        let mut object = RawObject::default();
        while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
            object.set(&name, value);
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_they_were_written_and_the_last_of_two_counts() {
        let json = r#"{"z":18446744073709551616,"a": {"b" :1.0},"z":[ 1 ]}"#;

        let object = RawObject::parse(json).unwrap();

        assert_eq!(object.to_raw().get(), r#"{"z":[ 1 ],"a":{"b" :1.0}}"#);
    }
}
