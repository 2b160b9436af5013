//! `key=value,key=value`, as OpenTelemetry's variables are written: values are percent-encoded.

/// Reads the pairs of a list.
///
/// # Errors
///
/// Returns what is wrong with it, as a predicate that tells nothing of the values: they may be
/// secrets.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    let parts = text.split(',').map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (key, value) = part.split_once('=').ok_or("has a part without `=`")?;
            let key = key.trim();
            if key.is_empty() {
                return Err("has a part without a name");
            }
            let value = decoded(value.trim()).ok_or("has a value that is not percent-encoded")?;
            Ok((key.to_owned(), value))
        })
        .collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        if *byte == b'%' {
            let (digits, behind) = behind.split_at_checked(2)?;
            bytes.push(byte_of(digits)?);
            rest = behind;
        } else {
            bytes.push(*byte);
            rest = behind;
        }
    }
    String::from_utf8(bytes).ok()
}

fn byte_of(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |byte, digit| {
        let value = char::from(*digit).to_digit(16)?;
        Some(byte << 4 | u8::try_from(value).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_list_is_read_with_its_values_decoded() {
        let pairs = parse(" a=1 ,b = x%20y%2C=z,, c=").unwrap();

        let expected = [("a", "1"), ("b", "x y,=z"), ("c", "")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs, expected);
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_list_is_refused_without_its_values() {
        for (text, problem) in [
            ("secret", "has a part without `=`"),
            ("=secret", "has a part without a name"),
            ("a=sec%ret", "has a value that is not percent-encoded"),
            ("a=%f", "has a value that is not percent-encoded"),
            ("a=%ff", "has a value that is not percent-encoded"),
        ] {
            assert_eq!(parse(text), Err(problem), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_encoded_is_read_again(value: String) {
            let encoded = value
                .bytes()
                .fold(String::new(), |text, byte| text + &format!("%{byte:02X}"));

            let read = parse(&format!("key={encoded}")).unwrap();

            prop_assert_eq!(read, [("key".to_owned(), value)]);
        }
    }
}
