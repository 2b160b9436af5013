//! The seam between a partial and what goes on from it, while that is still coming.

use super::{Means, overlap, window};

/// Takes the text of a continuation as it comes, and hands out what is new of it.
///
/// Text is held back for as long as it may turn out to repeat what was said, so whoever reads along
/// never reads a word twice.
#[derive(Debug)]
pub(crate) struct Seam {
    before: String,
    means: Means,
    /// What may be a repetition; none once that is settled.
    held: Option<String>,
}

impl Seam {
    /// Returns the seam behind `before`.
    pub(crate) fn new(before: String, means: Means) -> Self {
        Self {
            before,
            means,
            held: Some(String::new()),
        }
    }

    /// Takes the next piece, and returns what of it and those before is new and not handed out yet.
    pub(crate) fn push(&mut self, piece: String) -> Option<String> {
        let Some(held) = &mut self.held else {
            return Some(piece);
        };
        held.push_str(&piece);
        if may_repeat(window(&self.before, self.means), held) {
            return None;
        }
        self.finish()
    }

    /// Returns what is left at the end.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let held = self.held.take()?;
        let new = held.get(overlap(&self.before, &held, self.means)..)?;
        (!new.is_empty()).then(|| new.to_owned())
    }
}

/// Returns whether more text may make of `held` a longer repetition of the end of `before`.
fn may_repeat(before: &str, held: &str) -> bool {
    let longer = before.char_indices().map(|(at, _)| before.get(at..));
    let mut longer = longer.flatten().take_while(|end| end.len() > held.len());
    longer.any(|end| end.starts_with(held))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_repetition_is_never_handed_out_and_what_is_new_comes_as_soon_as_that_is_certain() {
        let mut seam = Seam::new("The tide turns twice".to_owned(), Means::Request);
        let mut push = |piece: &str| seam.push(piece.to_owned());

        assert_eq!(push("tide turns"), None);
        assert_eq!(push(" twi"), None);
        assert_eq!(push("ce a day"), Some(" a day".to_owned()));
        assert_eq!(push(", or"), Some(", or".to_owned()));
    }

    #[test]
    fn what_could_not_repeat_anything_is_handed_out_at_once() {
        let mut seam = Seam::new("The tide turns ".to_owned(), Means::Request);

        assert_eq!(seam.push("x".to_owned()), Some("x".to_owned()));
    }

    #[test]
    fn what_only_began_like_a_repetition_is_handed_out_at_the_end() {
        let mut seam = Seam::new("bananas".to_owned(), Means::Request);

        assert_eq!(seam.push("an".to_owned()), None);
        assert_eq!(seam.finish(), Some("an".to_owned()));
        assert_eq!(seam.finish(), None);
    }

    proptest! {
        /// However it is cut into pieces, what is handed out is what will be kept.
        #[test]
        fn what_is_handed_out_is_what_is_kept(
            before in "[ab \u{e4}]{0,20}", pieces in prop::collection::vec("[ab \u{e4}]{1,6}", 0..6),
        ) {
            for means in [Means::Again, Means::Prefill, Means::Request] {
                let mut seam = Seam::new(before.clone(), means);
                let mut out: String =
                    pieces.iter().filter_map(|piece| seam.push(piece.clone())).collect();
                out.extend(seam.finish());

                let whole = pieces.concat();
                let kept = whole.get(overlap(&before, &whole, means)..).unwrap();
                prop_assert_eq!(out, kept);
            }
        }
    }
}
