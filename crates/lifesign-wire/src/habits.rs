//! What a program that passes streams on has to know of a wire.

/// What is particular to the streams of a wire, for a program that passes them on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and a wire may have any of them"
)]
pub struct StreamHabits {
    /// The data of the event that readers wait for at the end, behind an error too.
    pub end_marker: Option<&'static str>,
    /// Whether an answer starts with an event that commits to nothing, so that it may pass ahead of
    /// the content, and before which readers take no other.
    pub starts_apart: bool,
    /// Whether events carry numbers that ours have to go on from.
    pub is_numbered: bool,
    /// Whether a stream tells its usage only where the request asks for it.
    pub tells_usage_if_asked: bool,
    /// Whether an answer may fail by its finish reason, which readers take for an ordinary end.
    pub fails_by_finish: bool,
}
