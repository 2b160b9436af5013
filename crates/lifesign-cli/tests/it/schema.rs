//! The published schemas of the objects of commands, and whether an object fits one.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::Program;

#[test]
fn the_published_schemas_are_those_of_the_program() {
    for command in ["call", "run"] {
        let printed = Program::new(&["schema", command]).run();

        printed.assert_code(0);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(page(command), &printed.stdout).unwrap();
        }
        let published = fs::read_to_string(page(command)).unwrap_or_default();
        assert!(
            published == printed.stdout,
            "docs/reference/{command}.schema.json is stale: run this test with UPDATE_DOCS=1"
        );
    }
}

#[test]
fn the_schema_is_that_of_a_call_unless_another_is_named() {
    let unnamed = Program::new(&["schema"]).run();

    assert_eq!(unnamed.stdout, fs::read_to_string(page("call")).unwrap());
    Program::new(&["schema", "cal"])
        .run()
        .assert_code(2)
        .assert_said("possible values: call, run");
}

#[test]
fn an_object_with_a_field_of_another_type_does_not_fit() {
    let mut object: Value = serde_json::from_str(EXAMPLE).unwrap();
    Schema::of("call").check(&object);

    object["failure"]["limit_ms"] = "45s".into();
    let problems = Schema::of("call").problems(&object);

    assert_eq!(problems, ["$.failure fits none of its 2 shapes"]);
}

#[test]
fn an_object_without_a_field_or_with_one_too_many_does_not_fit() {
    let mut object: Value = serde_json::from_str(EXAMPLE).unwrap();
    object.as_object_mut().unwrap().remove("usage");
    object["extra"] = 1.into();

    let problems = Schema::of("call").problems(&object);

    assert_eq!(problems, ["$.usage is missing", "$.extra is not described"]);
}

/// A JSON schema, as far as the published one goes.
///
/// It is stricter than the standard: a field that the schema does not describe does not fit.
pub(crate) struct Schema {
    root: Value,
}

impl Schema {
    /// Returns the published schema of what a command prints.
    pub(crate) fn of(command: &str) -> Self {
        let text = fs::read_to_string(page(command)).unwrap();
        Self {
            root: serde_json::from_str(&text).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn check(&self, object: &Value) {
        let problems = self.problems(object);
        assert!(problems.is_empty(), "{problems:?} in {object}");
    }

    fn problems(&self, object: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        self.compare(&self.root, object, "$", &mut problems);
        problems
    }

    fn compare(&self, schema: &Value, value: &Value, at: &str, problems: &mut Vec<String>) {
        let mut wrong = Vec::new();
        for (word, says) in schema.as_object().unwrap() {
            match word.as_str() {
                "const" if value != says => wrong.push(format!("is not {says}")),
                "enum" if !says.as_array().unwrap().contains(value) => {
                    wrong.push(format!("is none of {says}"));
                }
                // Only a number can be too small or too large.
                "minimum" if value.as_f64().is_some_and(|it| it < says.as_f64().unwrap()) => {
                    wrong.push(format!("is below {says}"));
                }
                "maximum" if value.as_f64().is_some_and(|it| it > says.as_f64().unwrap()) => {
                    wrong.push(format!("is above {says}"));
                }
                "type" => {
                    let mut types = says.as_array().into_iter().flatten().chain([says]);
                    if !types.any(|name| name.as_str().is_some_and(|name| is_a(value, name))) {
                        wrong.push(format!("is not of type {says}"));
                    }
                }
                "anyOf" | "oneOf" => {
                    let shapes = says.as_array().unwrap();
                    if !shapes.iter().any(|shape| self.fits(shape, value, at)) {
                        wrong.push(format!("fits none of its {} shapes", shapes.len()));
                    }
                }
                "$ref" => {
                    let pointer = says.as_str().unwrap().trim_start_matches('#');
                    self.compare(self.root.pointer(pointer).unwrap(), value, at, problems);
                }
                // They hold, are looked at below, or say nothing about the value.
                "const" | "enum" | "minimum" | "maximum" | "properties" | "required" | "items"
                | "$schema" | "$defs" | "title" | "description" | "format" => {}
                unknown => panic!("the schema has a word unknown here: {unknown}"),
            }
        }
        problems.extend(wrong.into_iter().map(|what| format!("{at} {what}")));
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            if value.get(name).is_none() {
                problems.push(format!("{at}.{name} is missing"));
            }
        }
        if let (Some(known), Some(fields)) = (schema["properties"].as_object(), value.as_object()) {
            for (name, field) in fields {
                match known.get(name) {
                    Some(known) => self.compare(known, field, &format!("{at}.{name}"), problems),
                    None => problems.push(format!("{at}.{name} is not described")),
                }
            }
        }
        if let (Some(items), Some(elements)) = (schema.get("items"), value.as_array()) {
            for (index, element) in elements.iter().enumerate() {
                self.compare(items, element, &format!("{at}[{index}]"), problems);
            }
        }
    }

    fn fits(&self, schema: &Value, value: &Value, at: &str) -> bool {
        let mut problems = Vec::new();
        self.compare(schema, value, at, &mut problems);
        problems.is_empty()
    }
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        unknown => panic!("no type is called {unknown}"),
    }
}

fn page(command: &str) -> PathBuf {
    let pages = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    pages.join(format!("{command}.schema.json"))
}

/// The example of the page that describes the object.
const EXAMPLE: &str = concat!(
    r#"{"v": 1, "id": "0199f0c2-5d1e-7b7a-9f38-5a3a3c1f0e11", "outcome": "failed","#,
    r#" "failure": {"code": "raw_silent", "bound": "raw_silence", "limit_ms": 45000,"#,
    r#" "setting": "bounds.raw_silence", "origin": "call", "phase": "before_content","#,
    r#" "message": "m", "sentence": "s", "hint": "h", "retryable": true, "partial": false,"#,
    r#" "status": 200, "retry_after_ms": null, "resets_at": null, "stage": null,"#,
    r#" "request_id": null, "attempt": 1, "of": 1,"#,
    r#" "clocks_ms": {"raw": 45000, "event": 45000, "content": 45000, "output": 45000}},"#,
    r#" "text": "", "tool_calls": [], "finish_reason": null, "usage": null, "attempts": [],"#,
    r#" "elapsed_ms": 45010}"#,
);
