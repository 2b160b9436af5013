//! A key of a file as documents, schemas and suggestions know it.

/// A key that a file may hold, for the reference, the schema and suggestions.
#[derive(Clone, Copy, Debug)]
pub struct FileKey {
    /// The name; that of a setting has its table before it, such as `serve.listen`.
    pub name: &'static str,
    /// What a value looks like.
    pub shape: Shape,
    /// What it accepts, for people.
    pub accepted: &'static str,
    /// The default, for people.
    pub default: &'static str,
    /// What it sets, in one line.
    pub doc: &'static str,
}

/// What a value looks like in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A whole number of at least 1.
    Count,
    /// A whole number of at least 1, or this word.
    CountOr(&'static str),
    /// A whole number.
    CountOrZero,
    /// A duration that is not zero.
    Duration,
    /// True or false.
    Flag,
    /// A table that names where a key is, by `env` or by `file`.
    KeySource,
    /// A duration, or zero or `off` for none.
    Limit,
    /// A table of names.
    Names,
    /// The word `off`.
    Off,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// The settings of this table.
    Settings(&'static str),
    /// A size with a unit.
    Size,
    /// Text.
    Text,
    /// Text, or an array of texts.
    TextOrTexts,
    /// An array of texts.
    Texts,
    /// A duration, or zero for none.
    Wait,
}
