//! The JSON schema of the file, written from the tables that the program itself reads.

use lifesign_core::{FileKey, KEYS, Shape, UPSTREAM_KEYS};
use serde_json::{Map, Value, json};

use super::table::{ARRAYS, SETTINGS, UPSTREAM};

/// Returns the JSON schema of a configuration file.
pub fn config_schema() -> Value {
    let client = KEYS
        .iter()
        .map(|key| (key.name, key.shape(), key.accepted(), key.default, key.doc));
    let gateway = SETTINGS.iter().map(row);
    let mut root = Table::default();
    for (name, shape, accepted, default, doc) in client.chain(gateway) {
        let described = described(shape, accepted, default, doc);
        root.insert(name, described);
    }
    let mut properties = root.properties();
    let upstream: Vec<_> = UPSTREAM_KEYS.iter().chain(UPSTREAM).copied().collect();
    properties.insert(
        "upstream".to_owned(),
        array("a provider's endpoint", &upstream),
    );
    for (name, keys) in ARRAYS {
        let doc = match *name {
            "route" => "whom to ask for which models",
            _ => "a caller's key",
        };
        properties.insert((*name).to_owned(), array(doc, keys));
    }
    let mut definitions = Map::new();
    for table in ["bounds", "retry"] {
        if let Some(schema) = properties.get_mut(table) {
            let reference = json!({ "$ref": format!("#/$defs/{table}") });
            definitions.insert(table.to_owned(), std::mem::replace(schema, reference));
        }
    }
    if let Some(schema) = properties.get("beats") {
        definitions.insert("beats".to_owned(), schema.clone());
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "lifesign",
        "description": "A configuration file of lifesign. Settings that depend on one another are \
                        checked by `lifesign config check`.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "$defs": definitions,
    })
}

type Row = (
    &'static str,
    Shape,
    &'static str,
    &'static str,
    &'static str,
);

fn row(key: &FileKey) -> Row {
    (key.name, key.shape, key.accepted, key.default, key.doc)
}

/// A table on its way to a schema: its keys, and the tables below it.
#[derive(Default)]
struct Table {
    /// What stands in place of the table, as `"off"` does for `bounds`.
    itself: Option<Value>,
    entries: Vec<(String, Self)>,
}

impl Table {
    fn insert(&mut self, name: &str, schema: Value) {
        let (first, rest) = match name.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (name, None),
        };
        let known = self.entries.iter().position(|(key, _)| key == first);
        let at = known.unwrap_or(self.entries.len());
        if known.is_none() {
            self.entries.push((first.to_owned(), Self::default()));
        }
        let entry = &mut self.entries[at].1;
        match rest {
            Some(rest) => entry.insert(rest, schema),
            None => entry.itself = Some(schema),
        }
    }

    fn properties(self) -> Map<String, Value> {
        let entries = self.entries.into_iter();
        entries
            .map(|(name, entry)| (name, entry.schema()))
            .collect()
    }

    fn schema(mut self) -> Value {
        let itself = self.itself.take();
        if self.entries.is_empty() {
            return itself.unwrap_or(Value::Bool(true));
        }
        let table = object(&self.properties(), &[]);
        match itself {
            Some(itself) => json!({ "anyOf": [table, itself] }),
            None => table,
        }
    }
}

fn array(doc: &str, keys: &[FileKey]) -> Value {
    let properties = keys.iter().map(|key| {
        let (name, shape, accepted, default, doc) = row(key);
        (name.to_owned(), described(shape, accepted, default, doc))
    });
    let required: Vec<_> = keys
        .iter()
        .filter(|key| key.default == "must be given")
        .map(|key| key.name)
        .collect();
    json!({
        "description": doc,
        "type": "array",
        "items": object(&properties.collect(), &required),
    })
}

fn object(properties: &Map<String, Value>, required: &[&str]) -> Value {
    let mut object = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn described(shape: Shape, accepted: &str, default: &str, doc: &str) -> Value {
    let default = match default {
        "" => String::new(),
        default => format!(" Default: {default}."),
    };
    let mut schema = schema_of(shape);
    schema["description"] = format!("{doc}. Accepted: {accepted}.{default}").into();
    schema
}

fn schema_of(shape: Shape) -> Value {
    let duration = json!({ "type": "string", "pattern": DURATION });
    let count = json!({ "type": "number", "minimum": 1, "multipleOf": 1 });
    match shape {
        Shape::Count => count,
        Shape::CountOr(word) => json!({ "anyOf": [count, { "const": word }] }),
        Shape::CountOrZero => json!({ "type": "number", "minimum": 0, "multipleOf": 1 }),
        Shape::Duration => duration,
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::KeySource => json!({ "oneOf": [key_source("env"), key_source("file")] }),
        Shape::Limit => json!({ "anyOf": [duration, { "enum": [0, "0", "off"] }] }),
        Shape::Names => json!({ "type": "object", "additionalProperties": text() }),
        Shape::Off => json!({ "const": "off" }),
        Shape::OneOf(words) => json!({ "enum": words }),
        Shape::Settings(table) => json!({ "$ref": format!("#/$defs/{table}") }),
        Shape::Size => json!({ "type": "string", "pattern": SIZE }),
        Shape::Text => text(),
        Shape::TextOrTexts => json!({ "anyOf": [text(), texts()] }),
        Shape::Texts => texts(),
        Shape::Wait => json!({ "anyOf": [duration, { "enum": [0, "0"] }] }),
    }
}

fn key_source(place: &str) -> Value {
    let mut properties = Map::new();
    properties.insert(place.to_owned(), text());
    object(&properties, &[place])
}

fn text() -> Value {
    json!({ "type": "string", "pattern": "\\S" })
}

fn texts() -> Value {
    json!({ "type": "array", "items": text() })
}

/// A number and a unit, as often as one likes.
const DURATION: &str = "^\\s*[0-9].*[A-Za-z]\\s*$";
const SIZE: &str = "^\\s*[0-9]+\\s*([KMGkmg][Ii]?)?[Bb]\\s*$";

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::table::BEATS;
    use super::*;

    /// Returns every dotted name of the settings that a schema describes.
    fn names(schema: &Value, root: &Value, prefix: &str, found: &mut Vec<String>) {
        let schema = match schema["$ref"].as_str() {
            Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
            None => schema,
        };
        let table = schema["anyOf"].as_array().map_or(schema, |any| &any[0]);
        let Some(properties) = table["properties"].as_object() else {
            found.push(prefix.to_owned());
            return;
        };
        assert_eq!(table["additionalProperties"], false, "{prefix}");
        if schema["anyOf"].is_array() {
            found.push(prefix.to_owned());
        }
        for (key, value) in properties {
            let name = match prefix {
                "" => key.clone(),
                prefix => format!("{prefix}.{key}"),
            };
            names(value, root, &name, found);
        }
    }

    #[test]
    fn the_schema_describes_every_setting_and_no_other() {
        let schema = config_schema();
        let mut described = Vec::new();
        names(&schema, &schema, "", &mut described);

        let mut settings: Vec<String> = KEYS
            .iter()
            .map(|key| key.name.to_owned())
            .chain(SETTINGS.iter().map(|key| key.name.to_owned()))
            .chain(["upstream", "route", "key"].map(str::to_owned))
            .collect();
        settings.sort();
        described.sort();
        assert_eq!(described, settings);
    }

    #[test]
    fn the_elements_of_arrays_have_every_key_and_require_what_must_be_given() {
        let schema = config_schema();
        let items = |array: &str| schema["properties"][array]["items"].clone();

        let upstream = items("upstream");
        for key in UPSTREAM_KEYS.iter().chain(UPSTREAM) {
            assert!(upstream["properties"][key.name].is_object(), "{}", key.name);
        }
        assert_eq!(upstream["required"], json!(["name", "wire", "base_url"]));
        assert_eq!(items("route")["required"], json!(["model", "upstreams"]));
        assert_eq!(items("key")["required"], json!(["name", "sha256"]));
    }

    #[test]
    fn beats_inside_of_another_table_are_those_of_the_file() {
        let schema = config_schema();
        let beats = schema["$defs"]["beats"]["properties"].as_object().unwrap();

        let names: Vec<_> = BEATS.iter().map(|key| key.name).collect();
        let mut keys: Vec<_> = beats.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, names);
        for table in ["bounds", "retry"] {
            assert!(schema["$defs"][table].is_object(), "{table}");
        }
    }
}
