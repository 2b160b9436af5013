//! Tokens, as far as the provider told.

use std::ops::Add;

use serde::{Deserialize, Serialize};

/// Tokens of an attempt or a call. What the provider did not tell is unknown, which is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Tokens of the prompt, cached ones included where the provider counts them so.
    pub input_tokens: Option<u64>,
    /// Tokens of the answer, reasoning included where the provider counts it so.
    pub output_tokens: Option<u64>,
    /// Tokens of the prompt that came from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u64>,
    /// Tokens of the answer that were reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Returns whether nothing at all is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the sum over all attempts of a call, discarded ones included.
    ///
    /// Returns `None` if there is none, or if the usage of one of them is unknown.
    pub fn total(attempts: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        let mut attempts = attempts.into_iter();
        let first = attempts.next()??;
        attempts.try_fold(first, |sum, usage| Some(sum + usage?))
    }
}

impl Add for Usage {
    type Output = Self;

    /// Returns the sum with `other`; a count that one of the two does not know is unknown.
    ///
    /// Half a sum would be read as a whole one, so it is not given.
    fn add(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self {
            input_tokens: sum(self.input_tokens, other.input_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            cached_input_tokens: sum(self.cached_input_tokens, other.cached_input_tokens),
            reasoning_tokens: sum(self.reasoning_tokens, other.reasoning_tokens),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Usage = Usage {
        input_tokens: Some(12),
        output_tokens: Some(3),
        cached_input_tokens: None,
        reasoning_tokens: Some(1),
    };

    #[test]
    fn unknown_stays_unknown_in_a_sum() {
        let half = Usage {
            input_tokens: Some(1),
            ..Usage::default()
        };

        assert_eq!(
            KNOWN + half,
            Usage {
                input_tokens: Some(13),
                ..Usage::default()
            }
        );
        assert_eq!(
            Usage::total([Some(KNOWN), Some(KNOWN)])
                .unwrap()
                .output_tokens,
            Some(6)
        );
        assert_eq!(Usage::total([Some(KNOWN), None]), None);
        assert_eq!(Usage::total([]), None);
    }

    #[test]
    fn the_two_main_counts_are_always_written() {
        let json = |usage: Usage| serde_json::to_string(&usage).unwrap();

        assert_eq!(
            json(Usage::default()),
            r#"{"input_tokens":null,"output_tokens":null}"#
        );
        assert_eq!(
            json(KNOWN),
            r#"{"input_tokens":12,"output_tokens":3,"reasoning_tokens":1}"#
        );
        assert_eq!(serde_json::from_str::<Usage>(&json(KNOWN)).unwrap(), KNOWN);
    }
}
