//! Tool calls in a provider's own words, with the ids that the request has for them.
//!
//! What needs no other name is not touched: it goes back byte for byte.

use std::collections::BTreeMap;

use lifesign::Wire;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::fields::{Fields, set, text};
use super::names::{Ids, tool_name};
use crate::form::Form;

/// The calls that a request holds: the id that each has in the transcript, and the one in the request.
pub(super) type Sent = BTreeMap<String, String>;

/// Returns a part of an answer by `wire` with the request's names in it, and notes its calls.
pub(super) fn renamed(
    part: Box<RawValue>,
    wire: Wire,
    ids: &mut Ids,
    sent: &mut Sent,
) -> Box<RawValue> {
    let Ok(mut fields) = serde_json::from_str::<Fields>(part.get()) else {
        return part;
    };
    let kind = text(&fields, "type").unwrap_or_default();
    let mut naming = Naming { wire, ids, sent };
    let is_changed = match Form::of(wire.name()) {
        Form::Chat => naming.message(&mut fields),
        Form::Messages => {
            // Not `||`: each does its own part.
            kind == "tool_use" && (naming.call(&mut fields, "id") | give_object(&mut fields))
        }
        Form::Responses => {
            matches!(kind.as_str(), "function_call" | "custom_tool_call")
                && naming.call(&mut fields, "call_id")
        }
        Form::Plain => false,
    };
    if !is_changed {
        return part;
    }
    to_raw_value(&fields).unwrap_or(part)
}

struct Naming<'a> {
    wire: Wire,
    ids: &'a mut Ids,
    sent: &'a mut Sent,
}

impl Naming<'_> {
    /// Names the calls in a message of Chat Completions, and returns whether any is named anew.
    fn message(&mut self, message: &mut Fields) -> bool {
        let calls = message.get("tool_calls").map(|calls| calls.get());
        let calls = calls.and_then(|calls| serde_json::from_str::<Vec<Fields>>(calls).ok());
        let Some(mut calls) = calls else {
            return false;
        };
        let mut is_changed = false;
        for call in &mut calls {
            is_changed |= self.call(call, "id");
        }
        is_changed && set(message, "tool_calls", &calls)
    }

    /// Names a call, and returns whether anew. A function of Chat Completions has its name deeper
    /// down, and keeps it.
    fn call(&mut self, call: &mut Fields, id_field: &str) -> bool {
        let Some(id) = text(call, id_field) else {
            return false;
        };
        let given = self.ids.give(&id, self.wire.name());
        let mut is_changed = given != id && set(call, id_field, &given);
        if is_changed && id_field == "call_id" {
            // Its item's own id may be left out, and is likely to be there twice as well.
            call.remove("id");
        }
        self.sent.insert(id, given);
        if let Some(name) = text(call, "name") {
            let fit = tool_name(&name, self.wire.name(), self.wire);
            is_changed |= fit != name && set(call, "name", &fit);
        }
        is_changed
    }
}

/// Makes an object of the arguments where they are none, and returns whether they were not: Messages
/// writes down whatever the model wrote, and takes back nothing else.
fn give_object(call: &mut Fields) -> bool {
    let object = call.get("input").and_then(|it| as_object(it.get()));
    object.is_some_and(|object| set(call, "input", &object))
}

/// Returns an object that holds the arguments `text`, where they are none themselves.
pub(super) fn as_object(text: &str) -> Option<Value> {
    let is_object = serde_json::from_str::<Fields>(text).is_ok();
    (!is_object).then(|| Value::from_iter([("arguments", text)]))
}
