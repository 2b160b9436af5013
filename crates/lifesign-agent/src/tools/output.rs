//! What a tool says, cut to a length that a model can be given.

/// Cuts `text` to about `limit` bytes, keeps its head and its tail, and says what is missing.
///
/// `setting` is named to whoever wants more of it.
pub(super) fn cut(text: String, limit: usize, setting: &str) -> String {
    if text.len() <= limit {
        return text;
    }
    let head = text.floor_char_boundary(limit - limit / 4);
    let tail = text.ceil_char_boundary(text.len() - limit / 4);
    let (head, rest) = text.split_at(head);
    let (left_out, tail) = rest.split_at(tail - head.len());
    format!(
        "{head}\n[{} of {} bytes left out here: the limit is {limit} bytes ({setting})]\n{tail}",
        left_out.len(),
        text.len(),
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_fits_is_left_as_it_is() {
        assert_eq!(cut("12345678".to_owned(), 8, "s"), "12345678");
    }

    #[test]
    fn the_head_and_the_tail_are_kept_and_the_gap_says_what_it_was() {
        let text = format!("{}{}", "a".repeat(10), "b".repeat(10));

        assert_eq!(
            cut(text, 8, "tools.max_output"),
            "aaaaaa\n[12 of 20 bytes left out here: the limit is 8 bytes (tools.max_output)]\nbb"
        );
    }

    #[test]
    fn a_limit_of_nothing_leaves_only_the_note() {
        assert_eq!(
            cut("abc".to_owned(), 0, "s"),
            "\n[3 of 3 bytes left out here: the limit is 0 bytes (s)]\n"
        );
    }

    proptest! {
        #[test]
        fn the_parts_and_the_count_make_up_the_whole(text in "\\PC{0,200}", limit in 0_usize..120) {
            let whole = text.clone();

            let cut = cut(text, limit, "s");

            if whole.len() <= limit {
                prop_assert_eq!(cut, whole);
            } else {
                let (head, rest) = cut.split_once("\n[").unwrap();
                let (note, tail) = rest.split_once("]\n").unwrap();
                let missing: usize = note.split(' ').next().unwrap().parse().unwrap();
                prop_assert!(whole.starts_with(head) && whole.ends_with(tail));
                prop_assert_eq!(head.len() + missing + tail.len(), whole.len());
                prop_assert!(head.len() + tail.len() <= limit);
            }
        }
    }
}
