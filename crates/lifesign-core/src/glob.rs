//! Patterns over names of hosts and models.

/// Returns whether `text` matches `pattern`, in which `*` stands for any run of characters, also
/// none.
///
/// Everything else stands for itself, case included.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last star does not fit: one byte later than before.
    let mut retry = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t + 1));
                p += 1;
            }
            Some(byte) if *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((after_star, next)) = retry else {
                    return false;
                };
                retry = Some((after_star, next + 1));
                (p, t) = (after_star, next);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (pattern, text, matches) in [
            ("gpt-5", "gpt-5", true),
            ("gpt-5", "gpt-5-mini", false),
            ("gpt-*", "gpt-5-mini", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*-mini", "gpt-5-mini", true),
            ("*-mini", "gpt-mini-5", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("**", "anything", true),
            ("?", "a", false),
        ] {
            assert_eq!(glob(pattern, text), matches, "{pattern} {text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn a_pattern_made_from_a_text_matches_it(head in "[ab*]{0,6}", cut in "[ab*]{0,6}", tail in "[ab*]{0,6}") {
            let (pattern, text) = (format!("{head}*{tail}"), format!("{head}{cut}{tail}"));

            prop_assert!(glob(&pattern, &text));
        }
    }
}
