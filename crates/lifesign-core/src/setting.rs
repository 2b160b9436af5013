//! A value that knows where it came from.

use std::fmt;
use std::time::Duration;

/// A value in force and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// Returns `value` as a default.
    pub const fn default_value(value: T) -> Self {
        Self {
            value,
            origin: Origin::Default,
        }
    }
}

/// Where a value came from, in rising order of precedence, `Learned` apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// A row of the shipped catalog.
    Catalog,
    /// The profile in force.
    Profile,
    /// A line of a configuration file, counted from 1.
    File {
        /// The file as it was named.
        path: String,
        /// The line, counted from 1.
        line: u32,
    },
    /// An environment variable.
    Env,
    /// The call itself: a flag, a header, an argument.
    Call,
    /// Measured on this stream.
    Learned,
}

impl Origin {
    /// Returns whether somebody set the value: a profile, a file, the environment or the call.
    ///
    /// Bounds that do not apply by default apply where somebody set them.
    pub const fn is_by_hand(&self) -> bool {
        matches!(
            self,
            Self::Profile | Self::File { .. } | Self::Env | Self::Call
        )
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Catalog => f.write_str("catalog"),
            Self::Profile => f.write_str("profile"),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Env => f.write_str("env"),
            Self::Call => f.write_str("call"),
            Self::Learned => f.write_str("learned"),
        }
    }
}

/// A limit that may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Runs out after this long.
    After(Duration),
    /// Never runs out.
    Off,
}
