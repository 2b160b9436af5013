//! Where a JSON value ends, without parsing it.

/// Follows a JSON value, in pieces, to its end.
///
/// A server may hold the connection open behind its answer: the closing bracket ends it, not the
/// body.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JsonExtent {
    depth: u32,
    in_string: bool,
    after_backslash: bool,
}

impl JsonExtent {
    /// Takes the next bytes; returns where among them the value ends.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Option<usize> {
        for (at, byte) in chunk.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.after_backslash => self.after_backslash = false,
                    b'\\' => self.after_backslash = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_at_its_own_bracket_however_it_is_cut() {
        let text = br#"{"a":"}\"]","b":[{}]} {"#;
        let end = 21;
        assert_eq!(JsonExtent::default().push(text), Some(end));

        let mut extent = JsonExtent::default();
        let ends: Vec<_> = text
            .chunks(1)
            .map(|byte| extent.push(byte).is_some())
            .collect();
        assert_eq!(ends.iter().position(|is_end| *is_end), Some(end - 1));
    }
}
