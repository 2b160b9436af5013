//! Other people's text, made safe to repeat.

/// The most characters of a provider's text in a message.
pub const TEXT_CHARS: usize = 2_000;

/// Returns `text` on one line, at most `max_chars` long, without anything that looks like a key.
///
/// Runs of white space and control characters become one space. What is cut off is marked by `...`,
/// which counts.
pub fn quote(text: &str, max_chars: usize) -> String {
    let mut out = String::new();
    let mut len = 0_usize;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if len > 0 {
            out.push(' ');
            len += 1;
        }
        for piece in word.split_inclusive(|c: char| !is_of_a_key(c)) {
            let name = piece.trim_end_matches(|c| !is_of_a_key(c));
            if is_key(name) {
                out.push_str(KEY);
                len += KEY.len();
            } else {
                out.push_str(name);
                len += name.chars().count();
            }
            let end = piece.strip_prefix(name).unwrap_or_default();
            out.push_str(end);
            len += end.chars().count();
        }
        if len > max_chars {
            let kept = max_chars.saturating_sub(ELLIPSIS.len());
            let mut short: String = out.chars().take(kept).collect();
            short.extend(ELLIPSIS.chars().take(max_chars));
            return short;
        }
    }
    out
}

const fn is_of_a_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

fn is_key(piece: &str) -> bool {
    piece.len() >= KEY_LEN_BYTES && KEY_STARTS.iter().any(|start| piece.starts_with(start))
}

const ELLIPSIS: &str = "...";

/// What stands for a key.
const KEY: &str = "[key]";

/// No key is shorter than this; "sk-learn" is none.
const KEY_LEN_BYTES: usize = 16;

/// How the keys of providers begin, as their own consoles show them.
const KEY_STARTS: [&str; 9] = [
    "sk-", "sk_", "xai-", "gsk_", "AIza", "pplx-", "nvapi-", "hf_", "csk-",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quote_is_one_line() {
        assert_eq!(quote("  a\r\n\tb\u{0}\u{7}c \n", 10), "a b c");
    }

    #[test]
    fn a_quote_ends_on_a_character() {
        let text = "\u{65e5}\u{672c}\u{8a9e}\u{65e5}\u{672c}\u{8a9e}";

        assert_eq!(quote(text, 6), text);
        assert_eq!(quote(text, 5), "\u{65e5}\u{672c}...");
        assert_eq!(quote(text, 2), "..");
    }

    #[test]
    fn keys_are_not_repeated() {
        let text = "Incorrect API key provided: sk-proj-abc_DEF123456789. \
                    See (gsk_0123456789abcdef), sk-learn";

        assert_eq!(
            quote(text, TEXT_CHARS),
            "Incorrect API key provided: [key]. See ([key]), sk-learn"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn a_quote_is_bounded_and_has_no_control_characters(
            text in "\\PC{0,40}[\\x00-\\x20a-z]{0,40}",
            max in 0_usize..60,
        ) {
            let quoted = quote(&text, max);

            prop_assert!(quoted.chars().count() <= max);
            prop_assert!(!quoted.chars().any(char::is_control));
        }
    }
}
