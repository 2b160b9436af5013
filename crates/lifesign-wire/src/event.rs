//! What a frame means, in the same words on every wire.

use lifesign_core::Usage;

use crate::ProviderError;

/// One thing that a frame says.
///
/// One choice of an answer speaks: the one that is seen first, and of several in that frame the one
/// with the lowest number. Where a request asked for more, the others count as content, for the
/// clocks and for the end, but what they say is not told.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The answer has an id or a model. May come again when more of it is known.
    Started {
        /// The provider's id of the answer.
        id: Option<&'a str>,
        /// The model that answers, as the provider names it.
        model: Option<&'a str>,
    },
    /// A piece of the answer's text.
    Text(&'a str),
    /// A piece of a refusal.
    Refusal(&'a str),
    /// A piece of thinking or of its summary; empty where the field was seen for the first time
    /// and held nothing.
    Reasoning(&'a str),
    /// A thinking signature, or encrypted or redacted thinking, as it was sent.
    Signature(&'a str),
    /// A piece of a call that the caller is to run.
    ToolCall(ToolPiece<'a>),
    /// A piece of a call that the provider runs itself.
    ServerToolCall(ToolPiece<'a>),
    /// What a tool of the provider's was asked or answered, as raw JSON.
    ServerTool(&'a str),
    /// A citation or annotation, as raw JSON.
    Citation(&'a str),
    /// A piece of an image or of audio, as raw JSON.
    Media(&'a str),
    /// Content of another choice, or of a kind that nobody knows.
    Other {
        /// What came, as it was written; empty where it is not told.
        data: &'a str,
        /// Whether it is more than thinking.
        is_output: bool,
    },
    /// Tokens; what is known replaces what was told before.
    Usage(Usage),
    /// Why the answer ended, as the provider wrote it.
    Finish(&'a str),
    /// The answer is over.
    Terminal,
    /// The provider failed.
    Error(&'a ProviderError),
}

impl Event<'_> {
    /// Returns whether this is content: after it no other attempt may replace this one.
    pub fn is_content(&self) -> bool {
        match self {
            Self::Reasoning(text) => !text.is_empty(),
            Self::Text(_)
            | Self::Refusal(_)
            | Self::Signature(_)
            | Self::ToolCall(_)
            | Self::ServerToolCall(_)
            | Self::ServerTool(_)
            | Self::Citation(_)
            | Self::Media(_)
            | Self::Other { .. } => true,
            Self::Started { .. }
            | Self::Usage(_)
            | Self::Finish(_)
            | Self::Terminal
            | Self::Error(_) => false,
        }
    }

    /// Returns whether this is content that is more than thinking.
    pub fn is_output(&self) -> bool {
        let is_thinking = matches!(
            self,
            Self::Reasoning(_)
                | Self::Signature(_)
                | Self::Other {
                    is_output: false,
                    ..
                }
        );
        self.is_content() && !is_thinking
    }
}

/// A piece of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolPiece<'a> {
    /// Which call of its kind, counted from 0 in the order of first appearance.
    pub call: usize,
    /// What kind of call, as the provider names it where it is not a plain function.
    pub kind: Option<&'a str>,
    /// The call's id, where this piece brings one.
    pub id: Option<&'a str>,
    /// The tool's name, where this piece brings one.
    pub name: Option<&'a str>,
    /// The next piece of the arguments' text.
    pub arguments: &'a str,
}
