//! Whether the arguments of a call fit the schema of its tool.

use serde_json::Value;

/// Says in what way `arguments` do not fit `schema`; `None` where they do.
///
/// A schema that is none itself judges nothing: the tool then gets the call and decides.
pub(super) fn misfit(schema: &Value, arguments: &Value) -> Option<String> {
    let validator = match jsonschema::validator_for(schema) {
        Ok(validator) => validator,
        Err(error) => {
            tracing::debug!(%error, "tool has a schema that cannot be used");
            return None;
        }
    };
    let mut errors = validator.iter_errors(arguments);
    let mut said: Vec<_> = errors
        .by_ref()
        .take(MOST)
        .map(|error| say(&error))
        .collect();
    if said.is_empty() {
        return None;
    }
    let more = errors.count();
    if more > 0 {
        said.push(format!("and {more} more"));
    }
    Some(said.join("; "))
}

fn say(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().as_str();
    let mut what = error.to_string();
    if what.len() > LONGEST {
        what.truncate(what.floor_char_boundary(LONGEST));
        what.push_str("...");
    }
    if place.is_empty() {
        return what;
    }
    format!("{place}: {what}")
}

/// The most things that are told at once; a model mends the first ones first.
const MOST: usize = 5;

/// The most bytes of one of them, which may quote what it complains of.
const LONGEST: usize = 300;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "integer", "minimum": 1}},
            "required": ["path"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn arguments_that_fit_are_not_complained_of() {
        assert_eq!(misfit(&schema(), &json!({"path": "a", "lines": 3})), None);
    }

    #[test]
    fn each_thing_that_does_not_fit_is_told_with_its_place() {
        let told = misfit(&schema(), &json!({"lines": 0, "depth": 2})).unwrap();

        assert_eq!(
            told,
            "/lines: 0 is less than the minimum of 1; \
             Additional properties are not allowed ('depth' was unexpected); \
             \"path\" is a required property"
        );
    }

    #[test]
    fn what_is_told_has_an_end() {
        let schema = json!({"items": {"type": "integer"}});
        let long = "x".repeat(10_000);
        let arguments: Value = (0..9).map(|_| json!(long)).collect();

        let told = misfit(&schema, &arguments).unwrap();

        assert!(told.ends_with("; and 4 more"), "{told}");
        assert!(told.len() < 2_000, "{}", told.len());
    }

    #[test]
    fn a_schema_that_is_none_leaves_the_judgement_to_the_tool() {
        assert_eq!(misfit(&json!({"type": "no such type"}), &json!({})), None);
    }

    #[test]
    fn a_schema_that_points_elsewhere_is_not_fetched() {
        let schema = json!({"$ref": "http://127.0.0.1:9/schema.json"});

        assert_eq!(misfit(&schema, &json!({})), None);
    }
}
