//! What the agent knows of wires by itself: in which form each takes an answer back.
//!
//! Whatever depends on it is a match over all of them, so that a new form is asked about wherever it
//! matters.

use lifesign::Wire;

/// The form of an answer that goes back by the wire that it came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The message of Chat Completions.
    Chat,
    /// The content blocks of Messages, of which thinking is signed.
    Messages,
    /// None of its own: text, calls and results, as between two wires.
    Plain,
    /// The output items of Responses, of which reasoning is signed.
    Responses,
}

impl Form {
    /// Returns the form of the wire of this name.
    pub(crate) fn of(wire: &str) -> Self {
        let known = [
            (Wire::ANTHROPIC, Self::Messages),
            (Wire::OPENAI_CHAT, Self::Chat),
            (Wire::OPENAI_RESPONSES, Self::Responses),
        ];
        let form = known.iter().find(|(known, _)| known.name() == wire);
        form.map_or(Self::Plain, |(_, form)| *form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_has_a_form_and_one_that_nobody_knows_has_none_of_its_own() {
        for wire in Wire::ALL {
            assert_ne!(Form::of(wire.name()), Form::Plain, "{}", wire.name());
        }
        assert_eq!(Form::of("gemini"), Form::Plain);
    }
}
