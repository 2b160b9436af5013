//! Why an answer ended, in the words of whichever provider gave it.

/// Returns whether `finish_reason` says that the answer was cut at its length limit.
pub(crate) fn is_length(finish_reason: &str) -> bool {
    is_among(&LENGTH, finish_reason)
}

/// Returns whether `finish_reason` says that the provider held back the answer or the rest of it.
pub(crate) fn is_filtered(finish_reason: &str) -> bool {
    is_among(&FILTERED, finish_reason)
}

fn is_among(reasons: &[&str], finish_reason: &str) -> bool {
    reasons
        .iter()
        .any(|reason| finish_reason.eq_ignore_ascii_case(reason))
}

/// Responses says `incomplete` alone where it gives no reason: there is more, whatever stopped it.
const LENGTH: [&str; 6] = [
    "incomplete",
    "incomplete:max_output_tokens",
    "length",
    "max_tokens",
    "model_context_window_exceeded",
    "model_length",
];

const FILTERED: [&str; 5] = [
    "content_filter",
    "incomplete:content_filter",
    "refusal",
    "safety",
    "sensitive",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_has_its_own_word_for_a_limit_on_length_and_for_a_filter() {
        for reason in ["length", "MAX_TOKENS", "incomplete:max_output_tokens"] {
            assert!(is_length(reason) && !is_filtered(reason), "{reason}");
        }
        // Responses, where it does not say of what.
        assert!(is_length("incomplete"));
        for reason in ["content_filter", "SAFETY", "incomplete:content_filter"] {
            assert!(is_filtered(reason) && !is_length(reason), "{reason}");
        }
        for reason in ["stop", "end_turn", "completed", "tool_calls", ""] {
            assert!(!is_length(reason) && !is_filtered(reason), "{reason}");
        }
    }
}
