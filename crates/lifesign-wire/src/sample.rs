//! The beginning of a body that cannot be read, for its error.

use std::fmt::Write as _;

/// Bytes of a body that cannot be read which its error quotes.
pub(crate) const SAMPLE: usize = 512;

/// Returns the beginning of `bytes` as text, at most [`SAMPLE`] bytes of it; where they are hardly
/// any text, how many they are and the first of them.
pub(crate) fn sample(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(SAMPLE)];
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    if is_binary(&text) {
        return describe(bytes);
    }
    text.truncate(text.floor_char_boundary(SAMPLE));
    text
}

/// Returns whether more than a quarter of the characters are none that text is made of.
fn is_binary(text: &str) -> bool {
    let odd = text
        .chars()
        .filter(|character| {
            *character == char::REPLACEMENT_CHARACTER
                || character.is_control() && !character.is_whitespace()
        })
        .count();
    odd * 4 > text.chars().count()
}

fn describe(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes that are no text, beginning", bytes.len());
    for byte in bytes.iter().take(SHOWN) {
        // Writing to a string cannot fail.
        let _never = write!(text, " {byte:02x}");
    }
    if bytes.len() > SHOWN {
        text.push_str(" ...");
    }
    text
}

/// Bytes of what is no text that are shown.
const SHOWN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_a_stray_byte_is_quoted() {
        assert_eq!(sample(b"upstream \xff failed"), "upstream \u{fffd} failed");
        assert_eq!(sample("\u{90a3}\r\n".as_bytes()), "\u{90a3}\r\n");
        assert_eq!(sample(b""), "");
    }

    #[test]
    fn bytes_that_are_no_text_are_counted_and_shown() {
        assert_eq!(
            sample(b"\x8f:\x00\x01"),
            "4 bytes that are no text, beginning 8f 3a 00 01"
        );
        let long = sample(&[0xff; 600]);
        assert!(long.starts_with("512 bytes that are no text, beginning ff ff "));
        assert!(long.ends_with(" ff ..."), "{long}");
    }
}
