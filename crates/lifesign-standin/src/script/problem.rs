//! Why a text is no script, said so that it can be mended.

/// Why a text is no script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct ScriptError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A script without a single step.
    #[error("a script needs at least one step")]
    Empty,
    /// Something else was expected here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What may stand here.
        expected: String,
        /// What stands here.
        found: String,
    },
    /// A word where it cannot stand.
    #[error("`{word}` cannot stand {place}")]
    Misplaced {
        /// The word.
        word: String,
        /// Where it stands.
        place: &'static str,
    },
    /// A value that is not accepted.
    #[error("{field} is `{value}`; accepted: {accepted}")]
    Refused {
        /// What the value is for.
        field: &'static str,
        /// The value as written.
        value: String,
        /// What is accepted.
        accepted: &'static str,
    },
    /// An escape that no string knows.
    #[error("unknown escape `{escape}`; strings know \\n \\r \\t \\0 \\\" \\\\ \\/ \\xHH \\uHHHH")]
    UnknownEscape {
        /// The escape as written.
        escape: String,
    },
    /// A word of no meaning.
    #[error("unknown word `{word}`{}", meant(*.like))]
    UnknownWord {
        /// The word as written.
        word: String,
        /// The word it is most like.
        like: Option<&'static str>,
    },
    /// A string, a block or a header without its end.
    #[error("{what} is never closed")]
    Unclosed {
        /// What was opened.
        what: &'static str,
    },
}

fn meant(like: Option<&str>) -> String {
    like.map(|like| format!("; did you mean `{like}`?"))
        .unwrap_or_default()
}

impl Problem {
    pub(super) fn misplaced(word: &str, place: &'static str) -> Self {
        Self::Misplaced {
            word: word.to_owned(),
            place,
        }
    }

    pub(super) fn refused(
        field: &'static str,
        value: impl Into<String>,
        accepted: &'static str,
    ) -> Self {
        Self::Refused {
            field,
            value: value.into(),
            accepted,
        }
    }
}
