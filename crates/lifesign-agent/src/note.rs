//! What the model is told at the beginning of the turn after one that failed.
//!
//! It says what happened and nothing that only an operator needs: no count, no setting, no advice
//! that does not fit the cause.

use lifesign::{Failure, FailureCode, GiveUp, quote};

/// Returns the note on a turn that ended by `failure`; `is_repeated` where the call was made again
/// and failed again.
pub(crate) fn note(failure: &Failure, is_repeated: bool) -> String {
    let what = match cause(failure) {
        Some(cause) => format!("{} ({cause})", what(failure)),
        None => what(failure).to_owned(),
    };
    tell(&what, is_repeated && failure.code != FailureCode::Cancelled)
}

/// Returns the note on a turn whose own wall clock ran out.
pub(crate) fn out_of_time(is_repeated: bool) -> String {
    tell("the time allowed for the turn ran out", is_repeated)
}

/// Returns the note on a turn whose answer nobody took any more.
pub(crate) fn abandoned() -> String {
    tell("nobody took the answer any more", false)
}

/// Returns the note on a turn whose answer was held back.
pub(crate) fn filtered() -> String {
    tell("the provider's filter stopped the answer", false)
}

/// Returns the note on a turn whose program died, or gave it up without a word.
pub(crate) fn interrupted() -> String {
    "[The last turn was interrupted before its answer was complete. A reply may still be given if \
     one is owed.]"
        .to_owned()
}

fn tell(what: &str, is_repeated: bool) -> String {
    let again = if is_repeated {
        " The call was made again and failed again."
    } else {
        ""
    };
    format!(
        "[The last turn ended before its answer was complete: {what}.{again} A reply may still be \
         given if one is owed.]"
    )
}

/// Returns what happened; a wall clock is the call's own here.
fn what(failure: &Failure) -> &'static str {
    let partial = failure.partial;
    match failure.code {
        FailureCode::BytesOnly => "the call timed out; bytes came, but nothing that could be read",
        FailureCode::Cancelled => "it was stopped on purpose",
        FailureCode::Connect => "the model's server could not be reached",
        FailureCode::ConnectionLost if partial => {
            "the connection to the model's server was lost in the middle of the answer"
        }
        FailureCode::ConnectionLost => {
            "the connection to the model's server was lost before an answer began"
        }
        FailureCode::ConsumerStalled => "nobody was reading the answer any more",
        FailureCode::Empty => "the model's server sent an empty answer",
        FailureCode::Exhausted if is_long_wait(failure) => {
            "the provider takes no more requests for a while"
        }
        FailureCode::Exhausted => "the account had used up what it may use",
        FailureCode::HeartbeatsOnly if partial => {
            "the call timed out in the middle of the answer; only heartbeats came after that"
        }
        FailureCode::HeartbeatsOnly => "the call timed out; only heartbeats came",
        FailureCode::Lifetime => "the time set aside for the model's server ran out",
        FailureCode::NoContent => "the call timed out; there were signs of work, but no words",
        FailureCode::Overloaded => "the model's server was overloaded",
        FailureCode::ProviderError => "the model's server reported a fault of its own",
        FailureCode::QueueFull => "too many requests were waiting in line",
        FailureCode::RateLimited => "requests came faster than the provider allows",
        FailureCode::RawSilent if partial => {
            "the call timed out in the middle of the answer; nothing came after that"
        }
        FailureCode::RawSilent => "the call timed out; nothing came",
        FailureCode::ReasoningOnly => "the call timed out; thinking came, but no answer",
        FailureCode::RefusedSetting => "the call could not be made as it was set up",
        FailureCode::Rejected => "the provider refused the request",
        FailureCode::TooLarge => "a limit on size was passed",
        FailureCode::Truncated => "the model's server ended the answer early",
        FailureCode::Unreadable => "what came back was no answer of a model",
        FailureCode::WallClock if partial => {
            "the time allowed for one call ran out in the middle of the answer"
        }
        FailureCode::WallClock => "the time allowed for one call ran out before an answer began",
        FailureCode::WholeCall => "the call timed out while the answer was still coming",
    }
}

/// Returns the provider's own words, where they say more than is said already.
fn cause(failure: &Failure) -> Option<String> {
    let has_words = matches!(
        failure.code,
        FailureCode::Exhausted
            | FailureCode::Overloaded
            | FailureCode::ProviderError
            | FailureCode::RateLimited
            | FailureCode::Rejected
    );
    // Of keys, which they may repeat, only an operator needs to know.
    let is_of_keys = matches!(failure.status, Some(401 | 403 | 407));
    let has_words = has_words && !is_of_keys;
    let said = failure.provider_message.as_deref().filter(|_| has_words)?;
    let words = plain(said);
    let says_nothing = words.is_empty()
        || EMPTY_WORDS.contains(&words.as_str())
        || words == plain(failure.code.name())
        || plain(what(failure)).contains(&words);
    (!says_nothing).then(|| quote(said, CAUSE_CHARS))
}

fn is_long_wait(failure: &Failure) -> bool {
    matches!(failure.give_up, Some(GiveUp::BeyondMaxWait { .. }))
}

/// Returns the letters and digits of `text`, in lower case.
fn plain(text: &str) -> String {
    let kept = text.chars().filter(|c| c.is_alphanumeric());
    kept.flat_map(char::to_lowercase).collect()
}

/// What providers write where they say nothing.
const EMPTY_WORDS: [&str; 10] = [
    "apierror",
    "badgateway",
    "error",
    "internalerror",
    "internalservererror",
    "overloadederror",
    "ratelimiterror",
    "ratelimitexceeded",
    "servererror",
    "toomanyrequests",
];

/// The most of a provider's text that an agent is told.
const CAUSE_CHARS: usize = 600;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lifesign::Phase;
    use pretty_assertions::assert_eq;

    use super::*;

    fn failure(code: FailureCode) -> Failure {
        Failure::new(code, Phase::BeforeContent)
    }

    #[test]
    fn no_two_codes_share_a_note_and_each_ends_with_the_reply_that_may_be_owed() {
        let notes: BTreeSet<String> = FailureCode::ALL
            .iter()
            .map(|code| note(&failure(*code), false))
            .collect();

        assert_eq!(notes.len(), FailureCode::ALL.len());
        for note in notes {
            assert!(
                note.ends_with("A reply may still be given if one is owed.]"),
                "{note}"
            );
            assert!(!note.chars().any(|c| c.is_ascii_digit()), "{note}");
        }
    }

    #[test]
    fn a_wall_clock_of_the_call_is_not_called_that_of_the_turn() {
        let before = failure(FailureCode::WallClock);
        let mut within = before.clone();
        within.partial = true;

        let told = [
            note(&before, false),
            note(&within, false),
            out_of_time(false),
        ];

        let said = [
            "the time allowed for one call ran out before an answer began",
            "the time allowed for one call ran out in the middle of the answer",
            "the time allowed for the turn ran out",
        ];
        let said = said.map(|what| {
            format!(
                "[The last turn ended before its answer was complete: {what}. A reply may still be \
                 given if one is owed.]"
            )
        });
        assert_eq!(told, said);
    }

    #[test]
    fn that_the_call_was_made_again_is_said_and_how_often_is_not() {
        assert_eq!(
            note(&failure(FailureCode::HeartbeatsOnly), true),
            "[The last turn ended before its answer was complete: the call timed out; only \
             heartbeats came. The call was made again and failed again. A reply may still be given \
             if one is owed.]"
        );
    }

    #[test]
    fn what_a_provider_says_of_a_key_is_not_told() {
        let mut refused = failure(FailureCode::Rejected);
        refused.provider_message = Some("Incorrect API key provided: sk-1".to_owned());
        for status in [401, 403, 407] {
            refused.status = Some(status);
            assert!(!note(&refused, false).contains("sk-1"), "{status}");
        }
        refused.status = Some(400);
        assert!(note(&refused, false).contains("sk-1"));
    }

    #[test]
    fn the_cause_is_told_where_it_says_more_and_left_out_where_it_does_not() {
        let says = |code, words: &str| {
            let mut failure = failure(code);
            failure.provider_message = Some(words.to_owned());
            note(&failure, false)
        };
        let without = note(&failure(FailureCode::Overloaded), false);

        for words in [
            "",
            "Overloaded",
            "overloaded_error",
            "The model's server was overloaded.",
        ] {
            assert_eq!(says(FailureCode::Overloaded, words), without, "{words:?}");
        }
        assert!(
            says(FailureCode::Rejected, "prompt is\ntoo long").contains("(prompt is too long)."),
        );
        let long = says(FailureCode::ProviderError, &"ab ".repeat(1_000));
        assert!(long.chars().count() < 800, "{}", long.len());
    }

    #[test]
    fn what_the_wire_showed_of_a_timeout_is_nobody_elses_words() {
        let mut silent = failure(FailureCode::RawSilent);
        silent.provider_message = Some("overheard".to_owned());

        assert!(!note(&silent, false).contains("overheard"));
    }
}
