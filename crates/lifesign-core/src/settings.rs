//! Everything that can be set for a call, and what refuses to be set.

use std::fmt;
use std::time::Duration;

use crate::{Bounds, FailureCode, Profile, RetryPolicy, Setting};

/// The settings in force for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The profile in force.
    pub profile: Setting<Profile>,
    /// The bounds.
    pub bounds: Bounds,
    /// How often, and after how long, an attempt is replaced.
    pub retry: RetryPolicy,
    /// How long to wait for usage after every choice has finished. Default 1 s; zero is not at all.
    pub grace_usage: Setting<Duration>,
    /// The most bytes of everything that is held.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            profile: Setting::default_value(Profile::Progress),
            bounds: Bounds::default(),
            retry: RetryPolicy::default(),
            grace_usage: Setting::default_value(Duration::from_secs(1)),
            limits: Limits::default(),
        }
    }
}

/// The most bytes of everything that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A line of a stream. Default 16 MiB.
    pub line: Setting<usize>,
    /// A frame. Default 16 MiB.
    pub frame: Setting<usize>,
    /// An answer. Default 64 MiB.
    pub answer: Setting<usize>,
    /// A request. Default 32 MiB.
    pub request: Setting<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        let mebibytes = |count: usize| Setting::default_value(count << 20);
        Self {
            line: mebibytes(16),
            frame: mebibytes(16),
            answer: mebibytes(64),
            request: mebibytes(32),
        }
    }
}

/// A setting that cannot be used.
///
/// Displayed, it is one clause: where it stands, its name, the value as written, what is wrong with
/// it, what is accepted, and a suggestion if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The setting's name, such as `bounds.raw_silence`.
    pub field: Box<str>,
    /// The value as it was written, quoted if it was text. `None` if there is none, or it is
    /// secret.
    pub value: Option<Box<str>>,
    /// What is wrong, as a predicate: `has no unit`.
    pub problem: Box<str>,
    /// What is accepted instead, if that can be said.
    pub accepted: Option<Box<str>>,
    /// Where it stands: `file:line:column`, or the variable.
    pub position: Option<Box<str>>,
    /// What to do, such as `did you mean ...?`.
    pub hint: Option<Box<str>>,
}

impl SettingError {
    /// Returns an error about `field` that says nothing else.
    pub fn new(field: impl Into<Box<str>>, problem: impl Into<Box<str>>) -> Self {
        Self {
            field: field.into(),
            value: None,
            problem: problem.into(),
            accepted: None,
            position: None,
            hint: None,
        }
    }

    /// Adds the value as it was written.
    #[must_use]
    pub fn with_value(mut self, value: &Value<'_>) -> Self {
        self.value = Some(value.to_string().into());
        self
    }

    /// Adds what is accepted.
    #[must_use]
    pub fn with_accepted(mut self, accepted: impl Into<Box<str>>) -> Self {
        self.accepted = Some(accepted.into());
        self
    }

    /// Adds where the setting stands.
    #[must_use]
    pub fn with_position(mut self, position: impl Into<Box<str>>) -> Self {
        self.position = Some(position.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns [`FailureCode::RefusedSetting`].
    pub const fn code(&self) -> FailureCode {
        FailureCode::RefusedSetting
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.position {
            write!(f, "{position}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        if let Some(value) = &self.value {
            write!(f, "{value} ")?;
        }
        f.write_str(&self.problem)?;
        if let Some(accepted) = &self.accepted {
            write!(f, "; accepted: {accepted}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingError {}

/// A value as somebody wrote it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// True or false.
    Bool(bool),
    /// A number with a point, or one that is none.
    Float(f64),
    /// A whole number.
    Integer(i64),
    /// Absent, and said so.
    Null,
    /// Text.
    Text(&'a str),
}

impl<'a> Value<'a> {
    /// Reads what an environment variable or a flag says, where `null` is the absent value.
    pub fn of_text(text: &'a str) -> Self {
        if text.trim() == "null" {
            Self::Null
        } else {
            Self::Text(text)
        }
    }
}

impl fmt::Display for Value<'_> {
    /// Writes the value as in a file, long text cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Null => f.write_str("null"),
            Self::Text(text) if text.chars().count() <= SHOWN => write!(f, "{text:?}"),
            Self::Text(text) => {
                let start: String = text.chars().take(SHOWN).collect();
                write!(f, "{start:?}...")
            }
        }
    }
}

/// How many characters of a value are shown.
const SHOWN: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_clause_with_everything_that_is_known() {
        let error = SettingError::new("bounds.raw_silence", "has no unit")
            .with_value(&Value::Text("45"))
            .with_accepted("a duration such as \"45s\" or \"2 min\", or \"off\"")
            .with_position("lifesign.toml:3:15");

        assert_eq!(
            error.to_string(),
            "lifesign.toml:3:15: bounds.raw_silence: \"45\" has no unit; accepted: a duration such \
             as \"45s\" or \"2 min\", or \"off\""
        );
        assert_eq!(error.code(), FailureCode::RefusedSetting);
    }

    #[test]
    fn a_long_value_is_cut() {
        let long = "a".repeat(1_000);

        assert_eq!(Value::Text(&long).to_string().len(), SHOWN + 5);
    }
}
