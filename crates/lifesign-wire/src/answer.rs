//! The whole answer, put together from what arrived.

use lifesign_core::Usage;
use serde_json::value::RawValue;

use crate::event::Event;
use crate::tool_calls::{EmptyArguments, Ending, ToolCall};

/// What the model said, as far as it arrived.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
    /// The text, a refusal included.
    pub text: String,
    /// The refusal alone, if the model refused.
    pub refusal: Option<String>,
    /// The reasoning. Empty is not absent: some providers want the field back as it was.
    pub reasoning: Option<String>,
    /// The calls that the caller is to run, in order of first appearance.
    pub tool_calls: Vec<ToolCall>,
    /// The calls that the provider ran itself.
    pub server_tool_calls: Vec<ToolCall>,
    /// Why the answer ended, as the provider wrote it.
    pub finish_reason: Option<String>,
    /// Tokens, if the provider told.
    pub usage: Option<Usage>,
    /// What to send back for the model to go on from here.
    pub round_trip: RoundTrip,
    /// Whether content arrived, of whatever kind.
    has_content: bool,
}

impl Answer {
    /// Returns whether no content arrived: none that it shows, and no signature, media or content
    /// of another kind.
    pub fn is_empty(&self) -> bool {
        !self.has_content
            && self.text.is_empty()
            && self.reasoning.as_deref().unwrap_or_default().is_empty()
            && self.tool_calls.is_empty()
            && self.server_tool_calls.is_empty()
    }
}

/// The parts of an answer in its provider's own words, to be sent back exactly as they came.
///
/// On openai-chat it is one message, on anthropic its content blocks, on openai-responses its
/// output items: with the reasoning fields, signatures and encrypted data that the provider wants
/// back. A block or item that did not arrive whole is left out, since no provider takes it.
#[derive(Clone, Debug, Default)]
pub struct RoundTrip(pub Vec<Box<RawValue>>);

impl RoundTrip {
    /// Returns the raw JSON of each part.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|part| part.get())
    }

    /// Returns whether there is nothing to send back.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for RoundTrip {
    fn eq(&self, other: &Self) -> bool {
        self.parts().eq(other.parts())
    }
}

/// Puts an answer together from events.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    pub(crate) answer: Answer,
    /// Bytes of content so far.
    pub(crate) size: usize,
    /// Whether content arrived.
    pub(crate) has_content: bool,
    /// Whether content arrived that is more than thinking.
    pub(crate) has_output: bool,
}

impl Assembly {
    pub(crate) fn add(&mut self, event: &Event<'_>) {
        self.has_content |= event.is_content();
        self.has_output |= event.is_output();
        let answer = &mut self.answer;
        answer.has_content = self.has_content;
        match *event {
            Event::Started { id, model } => {
                set_if_some(&mut answer.id, id);
                set_if_some(&mut answer.model, model);
            }
            Event::Text(text) => {
                self.size += text.len();
                answer.text.push_str(text);
            }
            Event::Refusal(text) => {
                self.size += text.len();
                answer.text.push_str(text);
                answer.refusal.get_or_insert_default().push_str(text);
            }
            Event::Reasoning(text) => {
                self.size += text.len();
                answer.reasoning.get_or_insert_default().push_str(text);
            }
            Event::ToolCall(piece) => {
                self.size += piece.arguments.len();
                call(&mut answer.tool_calls, piece.call).add(&piece);
            }
            Event::ServerToolCall(piece) => {
                self.size += piece.arguments.len();
                call(&mut answer.server_tool_calls, piece.call).add(&piece);
            }
            // The decoder keeps these for the round trip.
            Event::Signature(data)
            | Event::ServerTool(data)
            | Event::Citation(data)
            | Event::Media(data)
            | Event::Other { data, .. } => self.size += data.len(),
            Event::Usage(usage) => merge(answer.usage.get_or_insert_default(), usage),
            Event::Finish(reason) => {
                // The first one decided; later ones can only add.
                answer
                    .finish_reason
                    .get_or_insert_with(|| reason.to_owned());
            }
            Event::Terminal | Event::Error(_) => {}
        }
    }

    /// Notes what an event says of the answer, and keeps nothing of its content.
    pub(crate) fn note(&mut self, event: &Event<'_>) {
        if event.is_content() {
            self.note_content(event.is_output());
        } else {
            self.add(event);
        }
    }

    /// Notes that content arrived.
    pub(crate) fn note_content(&mut self, is_output: bool) {
        self.has_content = true;
        self.has_output |= is_output;
        self.answer.has_content = true;
    }

    /// Returns what arrived; `is_whole` says whether the attempt succeeded.
    pub(crate) fn take(
        &mut self,
        is_whole: bool,
        empty: EmptyArguments,
        round_trip: impl FnOnce(&Answer) -> Vec<Box<RawValue>>,
    ) -> Answer {
        let mut answer = std::mem::take(&mut self.answer);
        let ending = match &answer.finish_reason {
            Some(reason) if is_whole => Ending::of(reason),
            _ => Ending::Unfinished,
        };
        for call in &mut answer.tool_calls {
            call.settle(ending, empty);
        }
        for call in &mut answer.server_tool_calls {
            call.settle(ending, EmptyArguments::Kept);
        }
        answer.round_trip = RoundTrip(round_trip(&answer));
        answer
    }
}

fn call(calls: &mut Vec<ToolCall>, at: usize) -> &mut ToolCall {
    if calls.len() <= at {
        calls.resize_with(at + 1, ToolCall::default);
    }
    &mut calls[at]
}

fn set_if_some(field: &mut Option<String>, value: Option<&str>) {
    if let Some(value) = value {
        *field = Some(value.to_owned());
    }
}

fn merge(known: &mut Usage, news: Usage) {
    known.input_tokens = news.input_tokens.or(known.input_tokens);
    known.output_tokens = news.output_tokens.or(known.output_tokens);
    known.cached_input_tokens = news.cached_input_tokens.or(known.cached_input_tokens);
    known.reasoning_tokens = news.reasoning_tokens.or(known.reasoning_tokens);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ToolPiece;

    fn assembled(events: &[Event<'_>], is_whole: bool) -> Answer {
        let mut assembly = Assembly::default();
        for event in events {
            assembly.add(event);
        }
        assembly.take(is_whole, EmptyArguments::Kept, |_| Vec::new())
    }

    #[test]
    fn a_refusal_is_text_and_is_known_apart() {
        let answer = assembled(&[Event::Text("a"), Event::Refusal("b")], true);

        assert_eq!(
            (answer.text.as_str(), answer.refusal.as_deref()),
            ("ab", Some("b"))
        );
    }

    #[test]
    fn the_first_finish_stands() {
        let answer = assembled(&[Event::Finish("tool_calls"), Event::Finish("stop")], true);

        assert_eq!(answer.finish_reason.as_deref(), Some("tool_calls"));
    }

    #[test]
    fn later_usage_adds_to_what_is_known_and_is_not_summed() {
        let usage = |input_tokens, output_tokens| {
            Event::Usage(Usage {
                input_tokens,
                output_tokens,
                ..Usage::default()
            })
        };

        let answer = assembled(&[usage(Some(7), Some(1)), usage(None, Some(3))], true);

        let expected = Usage {
            input_tokens: Some(7),
            output_tokens: Some(3),
            ..Usage::default()
        };
        assert_eq!(answer.usage, Some(expected));
    }

    #[test]
    fn a_call_in_an_attempt_that_failed_is_never_complete() {
        let piece = Event::ToolCall(ToolPiece {
            call: 0,
            kind: None,
            id: Some("c1"),
            name: Some("f"),
            arguments: "{}",
        });

        let complete =
            |is_whole| assembled(&[piece, Event::Finish("stop")], is_whole).tool_calls[0].complete;

        assert_eq!((complete(true), complete(false)), (true, false));
    }
}
