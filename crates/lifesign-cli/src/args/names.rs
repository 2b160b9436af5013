//! Arguments that take one of a few names.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use lifesign_core::{FailureCode, Profile};
use lifesign_standin::{Dialect, Scenario};
use lifesign_wire::Wire;

use crate::log::LEVELS;

/// Lets shells complete the names, and takes any text: what is none of them is refused later, in the
/// same words as from a file or the environment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names(pub(super) fn() -> Vec<&'static str>);

impl TypedValueParser for Names {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// The wires that a call can speak.
pub(super) fn wires() -> Vec<&'static str> {
    Wire::ALL.iter().map(|wire| wire.name()).collect()
}

/// The wires that the stand-in can speak.
pub(super) fn dialects() -> Vec<&'static str> {
    Dialect::ALL.map(Dialect::name).to_vec()
}

/// The failure codes.
pub(super) fn codes() -> Vec<&'static str> {
    FailureCode::ALL.iter().map(|code| code.name()).collect()
}

/// The tools that `lifesign run` brings along.
pub(super) fn builtin_tools() -> Vec<&'static str> {
    BUILTIN_TOOLS.to_vec()
}

pub(crate) const BUILTIN_TOOLS: [&str; 4] = ["list", "read", "write", "run"];

/// The levels of the log.
pub(super) fn log_levels() -> Vec<&'static str> {
    LEVELS.map(|(name, _)| name).to_vec()
}

pub(super) fn profiles() -> Vec<&'static str> {
    Profile::ALL.iter().map(|profile| profile.name()).collect()
}

pub(super) fn scenarios() -> Vec<&'static str> {
    Scenario::all().iter().map(Scenario::name).collect()
}
