//! The wires, and what each of them has to say for itself.
//!
//! Adding a wire is adding its module, whose one face outwards is a `Dialect`, and its line in
//! [`Wire::ALL`].

use std::fmt;
use std::str::FromStr;

use lifesign_core::WireDefaults;

use crate::dialect::{Dialect, Scanned};
use crate::habits::StreamHabits;
use crate::mend::Mender;
use crate::request::EncodeError;
use crate::request::Request;
use crate::tool_calls::EmptyArguments;
use crate::{anthropic, openai_chat, openai_responses};

/// A streaming dialect of a model provider.
///
/// This example shows a wire found by its name.
///
/// ```
/// use lifesign_wire::Wire;
///
/// let wire: Wire = "anthropic".parse()?;
/// assert_eq!(wire.path(), "/messages");
/// assert_eq!(wire, Wire::ANTHROPIC);
/// # Ok::<(), lifesign_wire::UnknownWire>(())
/// ```
#[derive(Clone, Copy)]
pub struct Wire(&'static dyn Dialect);

impl Wire {
    /// Anthropic Messages and everything compatible with it.
    pub const ANTHROPIC: Self = Self(&anthropic::Anthropic);
    /// OpenAI Chat Completions and everything compatible with it.
    pub const OPENAI_CHAT: Self = Self(&openai_chat::OpenAiChat);
    /// OpenAI Responses and everything compatible with it.
    pub const OPENAI_RESPONSES: Self = Self(&openai_responses::OpenAiResponses);

    /// Every wire.
    pub const ALL: [Self; 3] = [Self::OPENAI_CHAT, Self::OPENAI_RESPONSES, Self::ANTHROPIC];

    /// Returns the wire called `name`.
    ///
    /// # Errors
    ///
    /// Fails if there is none, naming those that there are.
    pub fn parse(name: &str) -> Result<Self, UnknownWire> {
        Self::ALL
            .into_iter()
            .find(|wire| wire.name() == name)
            .ok_or_else(|| UnknownWire(name.to_owned()))
    }

    /// Returns its name, as it is written in settings.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns the path of its requests, to be put behind a base URL that ends in its version.
    pub fn path(self) -> &'static str {
        self.0.path()
    }

    /// Returns the variable in which its users keep their key.
    pub fn key_variable(self) -> &'static str {
        self.0.key_variable()
    }

    /// Returns the header that carries a key: its name, and its value for `key`.
    pub fn authorize(self, key: &str) -> (&'static str, String) {
        self.0.authorize(key)
    }

    /// Returns the headers that each of its requests needs besides.
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        self.0.headers()
    }

    /// Returns what the watch has to know of it.
    pub fn defaults(self) -> WireDefaults {
        self.0.defaults()
    }

    /// Returns the body of `request`.
    ///
    /// # Errors
    ///
    /// Fails if the request says what this wire has no words for.
    pub fn encode(self, request: &Request) -> Result<Vec<u8>, EncodeError> {
        self.0.encode(request)
    }

    /// Returns the most tokens that the answer to `request` will have, if there is a limit.
    pub fn max_tokens(self, request: &Request) -> Option<u64> {
        request
            .written_max_tokens()
            .or_else(|| self.0.default_max_tokens())
    }

    pub(crate) fn dialect(self) -> &'static dyn Dialect {
        self.0
    }

    /// Returns what is particular to its streams, for a program that passes them on.
    pub fn habits(self) -> StreamHabits {
        self.0.habits()
    }

    pub(crate) fn decoder(self) -> Mender {
        Mender::new(self.0.decoder())
    }

    pub(crate) fn scan(self, data: &[u8]) -> Option<Scanned> {
        self.0.scan(data)
    }

    pub(crate) fn empty_arguments(self) -> EmptyArguments {
        self.0.empty_arguments()
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wire").field(&self.name()).finish()
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Wire {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Wire {}

impl FromStr for Wire {
    type Err = UnknownWire;

    fn from_str(name: &str) -> Result<Self, UnknownWire> {
        Self::parse(name)
    }
}

/// There is no wire of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWire(String);

impl fmt::Display for UnknownWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no wire is called {:?}; one of ", self.0)?;
        for (at, wire) in Wire::ALL.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{wire}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownWire {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_is_found_by_its_name() {
        for wire in Wire::ALL {
            assert_eq!(Wire::parse(wire.name()), Ok(wire));
        }
    }

    #[test]
    fn an_unknown_wire_is_refused_with_those_that_there_are() {
        assert_eq!(
            Wire::parse("smoke").unwrap_err().to_string(),
            "no wire is called \"smoke\"; one of openai-chat, openai-responses, anthropic"
        );
    }

    #[test]
    fn the_defaults_are_those_of_the_design() {
        let defaults = Wire::ALL.map(|wire| {
            let WireDefaults {
                name,
                raw_silence,
                shows_work,
                between_events,
            } = wire.defaults();
            (name, raw_silence.as_secs(), shows_work, between_events)
        });

        assert_eq!(
            defaults,
            [
                ("openai-chat", 240, false, true),
                ("openai-responses", 240, false, false),
                ("anthropic", 180, true, true),
            ]
        );
    }
}
