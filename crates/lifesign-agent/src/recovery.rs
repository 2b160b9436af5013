//! Going on from a message that broke off.
//!
//! What came is kept and never asked for again. The best means that a wire has is used: prefill,
//! where the model goes on from the very character, else a request to go on.

mod seam;

use lifesign::{Content, Failure, FailureCode, Message, Role, Wire};

pub(crate) use self::seam::Seam;

use crate::form::Form;
use crate::transcript::Partial;

/// How a partial is gone on with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Continuation {
    /// By prefill where the wire has it and the partial holds no thinking, else by a request. Where
    /// the provider refuses a prefill, requests are made from then on.
    #[default]
    Auto,
    /// By prefill on every wire: for servers that take it, such as llama.cpp and vLLM.
    Prefill,
    /// By a request.
    Request,
}

/// What a recovery sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The same conversation again, since nothing that came may be sent back.
    Again,
    /// The partial as the beginning of the answer.
    Prefill,
    /// The partial, and the request to go on.
    Request,
}

/// Returns whether a message that broke off by `failure` is gone on with: after a stall or a lost
/// connection.
pub(crate) const fn is_recoverable(failure: &Failure) -> bool {
    matches!(
        failure.code,
        FailureCode::BytesOnly
            | FailureCode::ConnectionLost
            | FailureCode::HeartbeatsOnly
            | FailureCode::NoContent
            | FailureCode::RawSilent
            | FailureCode::ReasoningOnly
            | FailureCode::Truncated
    )
}

/// Returns by which means a message is gone on with on `wire` that ends in `partial` and whose text
/// so far is `text`.
pub(crate) fn means(partial: &Partial, text: &str, wanted: Continuation, wire: Wire) -> Means {
    let said = &partial.said;
    if text.trim().is_empty() {
        return Means::Again;
    }
    let is_text_alone = said.tool_calls.is_empty() && said.reasoning.is_none();
    match wanted {
        Continuation::Prefill if said.tool_calls.is_empty() => Means::Prefill,
        Continuation::Auto if is_text_alone && has_prefill(wire) => Means::Prefill,
        Continuation::Auto | Continuation::Prefill | Continuation::Request => Means::Request,
    }
}

/// Returns whether a provider of `wire` goes on from the beginning of an answer.
fn has_prefill(wire: Wire) -> bool {
    match Form::of(wire.name()) {
        Form::Messages => true,
        Form::Chat | Form::Plain | Form::Responses => false,
    }
}

/// Makes of a conversation that ends in a partial one that asks for the rest.
pub(crate) fn ask(messages: &mut Vec<Message>, means: Means) {
    match means {
        // Whatever came cannot stand on its own at the end of a conversation.
        Means::Again => {
            messages.pop_if(|message| message.role == Role::Assistant);
        }
        Means::Prefill => trim_end(messages),
        // Only ever sent, never kept: nobody has said it.
        Means::Request => messages.push(Message::user(GO_ON)),
    }
}

/// Returns how many bytes at the beginning of `rest` repeat the end of `before` exactly.
///
/// A prefilled model repeats at most the white space that could not be sent. One that was asked to
/// go on may begin with words that it had said: those are a repetition where they are long enough
/// not to be chance, or all that it had said, or nothing but white space.
pub(crate) fn overlap(before: &str, rest: &str, means: Means) -> usize {
    let window = window(before, means);
    let found = longest_overlap(window, rest);
    let repeated = rest.get(..found).unwrap_or_default();
    let may_be_chance =
        found < LEAST_OVERLAP && found != before.len() && !repeated.trim().is_empty();
    if may_be_chance { 0 } else { found }
}

/// Returns the end of `before` that may come again.
fn window(before: &str, means: Means) -> &str {
    match means {
        Means::Again => "",
        Means::Prefill => before.get(before.trim_end().len()..).unwrap_or_default(),
        Means::Request => before,
    }
}

fn longest_overlap(before: &str, rest: &str) -> usize {
    let longest = before.len().min(rest.len());
    (1..=longest)
        .rev()
        .find(|len| {
            rest.get(..*len)
                .is_some_and(|beginning| before.ends_with(beginning))
        })
        .unwrap_or(0)
}

/// Takes white space off the end: no wire takes a prefill that ends in it.
fn trim_end(messages: &mut [Message]) {
    let Some(Message {
        role: Role::Assistant,
        content,
    }) = messages.last_mut()
    else {
        return;
    };
    if let Some(Content::Text(text)) = content.last_mut() {
        text.truncate(text.trim_end().len());
    }
}

/// The most recoveries in a row.
pub(crate) const MOST_RECOVERIES: u32 = 3;

/// Shorter repetitions are as likely words that the text needs twice.
const LEAST_OVERLAP: usize = 12;

const GO_ON: &str = "Your last message is not complete. Go on exactly where it stops, and repeat \
    nothing of it. Calls of tools that it had begun were not made; make them again if they are \
    still wanted.";

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;
    use crate::transcript::{CutPoint, Said};

    fn partial(text: &str, reasoning: Option<&str>, call: Option<&str>) -> Partial {
        let tool_calls = call.map(|id| lifesign::ToolCall {
            id: id.to_owned(),
            ..lifesign::ToolCall::default()
        });
        Partial {
            said: Said {
                text: text.to_owned(),
                reasoning: reasoning.map(str::to_owned),
                tool_calls: tool_calls.into_iter().collect(),
                ..Said::default()
            },
            cut: CutPoint {
                text_bytes: text.len(),
                reasoning_bytes: 0,
                tool_call: call.map(str::to_owned),
            },
        }
    }

    #[test]
    fn the_best_means_that_a_wire_has_is_used() {
        let auto =
            |partial: &Partial, wire| means(partial, &partial.said.text, Continuation::Auto, wire);
        let text = partial("First, we ", None, None);

        assert_eq!(auto(&text, Wire::ANTHROPIC), Means::Prefill);
        assert_eq!(auto(&text, Wire::OPENAI_CHAT), Means::Request);
        let thought = partial("First", Some("hm"), None);
        assert_eq!(auto(&thought, Wire::ANTHROPIC), Means::Request);
        let calling = partial("First", None, Some("c1"));
        assert_eq!(auto(&calling, Wire::ANTHROPIC), Means::Request);
        let nothing = partial("", Some("hm"), None);
        assert_eq!(auto(&nothing, Wire::ANTHROPIC), Means::Again);
        assert_eq!(
            means(
                &text,
                "First, we ",
                Continuation::Prefill,
                Wire::OPENAI_CHAT
            ),
            Means::Prefill
        );
    }

    #[test]
    fn a_repetition_is_taken_off_where_it_is_exact_and_no_chance() {
        let seam = |before, rest| overlap(before, rest, Means::Request);

        assert_eq!(
            seam("The tide turns twice a day", "turns twice a day, or"),
            17
        );
        assert_eq!(seam("The tide", "The tide turns"), 8);
        // The word needs both.
        assert_eq!(seam("a bana", "na"), 0);
        assert_eq!(
            seam("The tide turns twice a day", "turns twice  a day, or"),
            0
        );
        assert_eq!(seam("anything", ""), 0);
        assert_eq!(seam("The tide ", " turns"), 1);
    }

    #[test]
    fn a_prefilled_model_repeats_no_more_than_white_space() {
        let seam = |before, rest| overlap(before, rest, Means::Prefill);

        assert_eq!(seam("First, we ", " need"), 1);
        assert_eq!(seam("First, we \n", " \nneed"), 2);
        assert_eq!(seam("First, we ", "need"), 0);
        assert_eq!(seam("ha", "ha!"), 0);
        assert_eq!(seam("one two three four", "one two three four"), 0);
    }

    proptest! {
        /// Whatever the two are, what is taken off stands at the end of the first, and nothing
        /// longer that is exact was left.
        #[test]
        fn what_is_taken_off_is_exact_and_the_longest(
            before in "[ab \u{e4}]{0,30}", rest in "[ab \u{e4}]{0,30}",
        ) {
            for means in [Means::Again, Means::Prefill, Means::Request] {
                let len = overlap(&before, &rest, means);
                prop_assert!(before.ends_with(rest.get(..len).unwrap()));
            }
            let len = overlap(&before, &rest, Means::Request);
            for longer in len + 1..=rest.len() {
                let is_exact = rest.get(..longer).is_some_and(|start| before.ends_with(start));
                prop_assert!(!is_exact || (longer < LEAST_OVERLAP && longer != before.len()));
            }
        }

        /// However much of the end is repeated, the seam cannot be seen.
        #[test]
        fn a_long_repetition_leaves_no_seam(
            whole in "[a-z ]{40,80}", cut in 20_usize..30, again in 0_usize..8,
        ) {
            let (before, rest) = whole.split_at(cut);
            let repeated = format!("{}{rest}", before.get(again..).unwrap());

            let len = overlap(before, &repeated, Means::Request);
            let joined = format!("{before}{}", repeated.get(len..).unwrap());

            prop_assert!(joined.len() <= whole.len());
            prop_assert!(len >= cut - again);
        }
    }
}
