//! What tool calls are called on a wire.
//!
//! An id names one call of a conversation, and every wire has a pattern for ids and names. What fits is
//! left as it came; all else gets another name, the same one each time the conversation is told.

use std::collections::BTreeSet;

use lifesign::Wire;

use crate::form::Form;

/// The ids that a request has used up.
pub(super) struct Ids {
    wire: Wire,
    taken: BTreeSet<String>,
}

impl Ids {
    pub(super) const fn new(wire: Wire) -> Self {
        Self {
            wire,
            taken: BTreeSet::new(),
        }
    }

    /// Returns the id that the request has for the call `id` of an answer that came by `came_by`.
    pub(super) fn give(&mut self, id: &str, came_by: &str) -> String {
        let longest = longest_id(self.wire);
        let base = if is_its_own(self.wire, came_by) && !id.is_empty() {
            id.to_owned()
        } else {
            fitting(id, longest)
        };
        let mut given = base.clone();
        let mut number = 1_u32;
        while !self.taken.insert(given.clone()) {
            number += 1;
            let suffix = format!("_{number}");
            let room = longest.saturating_sub(suffix.len());
            let kept = base.floor_char_boundary(room.min(base.len()));
            given = base.get(..kept).unwrap_or_default().to_owned() + &suffix;
        }
        given
    }
}

/// Returns the name of a tool as `wire` takes it, in an answer that came by `came_by`.
pub(super) fn tool_name(name: &str, came_by: &str, wire: Wire) -> String {
    if is_its_own(wire, came_by) && !name.is_empty() {
        return name.to_owned();
    }
    fitting(name, longest_name(wire))
}

/// Returns whether names go back as they came: servers of Chat Completions have patterns of their
/// own, and some read a meaning out of their ids.
fn is_its_own(wire: Wire, came_by: &str) -> bool {
    Form::of(wire.name()) == Form::Chat && came_by == wire.name()
}

fn fitting(name: &str, longest: usize) -> String {
    let chars = name.chars().take(longest);
    let fit = chars.map(|c| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
        _ => '_',
    });
    let fit: String = fit.collect();
    if fit.is_empty() {
        NAMELESS.to_owned()
    } else {
        fit
    }
}

/// Chat Completions refuses longer ids with "maximum length 40", Responses with "maximum length 64".
/// Messages has a pattern and says nothing of a length.
fn longest_id(wire: Wire) -> usize {
    match Form::of(wire.name()) {
        Form::Chat | Form::Plain => 40,
        Form::Messages | Form::Responses => 64,
    }
}

/// `^[a-zA-Z0-9_-]{1,128}$` on Messages, at most 64 elsewhere.
fn longest_name(wire: Wire) -> usize {
    match Form::of(wire.name()) {
        Form::Messages => 128,
        Form::Chat | Form::Plain | Form::Responses => 64,
    }
}

const NAMELESS: &str = "nameless";

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_that_is_there_already_gets_a_number_and_one_that_does_not_fit_other_letters() {
        let mut ids = Ids::new(Wire::ANTHROPIC);
        let mut give = |id: &str| ids.give(id, "openai-chat");

        assert_eq!(give("call_0"), "call_0");
        assert_eq!(give("call_0"), "call_0_2");
        assert_eq!(give("call_0"), "call_0_3");
        assert_eq!(give("functions.look:0"), "functions_look_0");
        assert_eq!(give("functions look 0"), "functions_look_0_2");
        assert_eq!(give(""), "nameless");
        let long = "x".repeat(90);
        assert_eq!(give(&long), "x".repeat(64));
        assert_eq!(give(&long), format!("{}_2", "x".repeat(62)));
    }

    #[test]
    fn what_a_server_of_chat_calls_its_calls_goes_back_to_it() {
        let long = "t".repeat(300);
        for id in ["functions.look:0", &long] {
            let mut ids = Ids::new(Wire::OPENAI_CHAT);
            assert_eq!(ids.give(id, "openai-chat"), id);
        }
        assert_eq!(tool_name("a.b", "openai-chat", Wire::OPENAI_CHAT), "a.b");
        assert_eq!(tool_name("a.b", "anthropic", Wire::OPENAI_CHAT), "a_b");
        assert_eq!(tool_name("a.b", "anthropic", Wire::ANTHROPIC), "a_b");
        assert_eq!(tool_name("look", "anthropic", Wire::ANTHROPIC), "look");
    }

    proptest! {
        #[test]
        fn every_id_fits_and_is_there_once(ids in prop::collection::vec("[a-c.\u{e4}]{0,3}|x{60,70}", 0..20)) {
            for wire in Wire::ALL {
                let mut known = Ids::new(wire);
                let given: Vec<String> = ids.iter().map(|id| known.give(id, "gemini")).collect();

                let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                for id in &given {
                    prop_assert!(id.chars().all(is_fit) && (1..=longest_id(wire)).contains(&id.len()));
                }
                let once: BTreeSet<&String> = given.iter().collect();
                prop_assert_eq!(once.len(), given.len());
            }
        }
    }
}
