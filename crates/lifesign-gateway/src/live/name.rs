//! Names that callers and providers choose, as far as they are kept and shown.

/// Cuts a name to a length that may be kept: a caller could fill the memory with longer ones.
pub(super) fn shorten(name: &mut String) {
    if name.len() > LONGEST_KEPT {
        name.truncate(name.floor_char_boundary(LONGEST_KEPT));
        name.shrink_to_fit();
    }
}

/// Returns a name as it may be shown: of bounded length, on one line, and read in one direction.
pub(crate) fn shown(name: &str) -> String {
    let mut chars = name.chars();
    let mut shown: String = chars.by_ref().take(LONGEST_SHOWN).map(visible).collect();
    if chars.next().is_some() {
        shown.push_str("...");
    }
    shown
}

/// Returns what stands for a character: itself, unless it moves or hides others.
fn visible(character: char) -> char {
    let hides = matches!(
        character,
        '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
            | '\u{061c}'
    );
    if hides || character.is_control() {
        char::REPLACEMENT_CHARACTER
    } else {
        character
    }
}

/// In bytes.
const LONGEST_KEPT: usize = 512;
/// In characters.
const LONGEST_SHOWN: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_as_it_is_and_a_long_one_in_part() {
        assert_eq!(shown("claude-sonnet-4-5"), "claude-sonnet-4-5");
        assert_eq!(shown("m\u{00f6}del <b>"), "m\u{00f6}del <b>");
        let long = shown(&"x".repeat(500));
        assert_eq!((long.len(), long.ends_with("x...")), (123, true));
    }

    #[test]
    fn what_turns_or_breaks_a_line_is_replaced() {
        assert_eq!(
            shown("a\nb\u{202e}c\0\u{200b}"),
            "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn what_is_kept_is_cut_between_characters() {
        let mut name = "\u{20ac}".repeat(400);

        shorten(&mut name);

        assert_eq!(name.len(), 510);
    }
}
