//! An object in a provider's own words, of which some fields are of interest: all else stays as it came.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};

/// The fields, each as it was written.
pub(super) type Fields = BTreeMap<String, Box<RawValue>>;

/// Returns a field that is a text.
pub(super) fn text(fields: &Fields, name: &str) -> Option<String> {
    serde_json::from_str(fields.get(name)?.get()).ok()
}

/// Gives a field another value; returns whether that could be written.
pub(super) fn set(
    fields: &mut Fields,
    name: &str,
    value: &(impl serde::Serialize + ?Sized),
) -> bool {
    let Ok(value) = to_raw_value(value) else {
        return false;
    };
    fields.insert(name.to_owned(), value);
    true
}
