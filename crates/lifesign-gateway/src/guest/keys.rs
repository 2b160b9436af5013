//! The callers' keys, known by their hashes alone.

use std::{collections::HashMap, fmt};

use aws_lc_rs::digest;
use http::{HeaderMap, HeaderValue, StatusCode, header::AUTHORIZATION};

use crate::refusal::Refusal;

/// The SHA-256 of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash([u8; 32]);

impl KeyHash {
    /// Returns the hash that is known as these bytes.
    pub(crate) const fn of_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// Returns the hash of a key as it is sent.
    pub(crate) fn of(key: &[u8]) -> Self {
        let digest = digest::digest(&digest::SHA256, key);
        let mut hash = [0; 32];
        // The lengths are those of SHA-256 on both sides.
        hash.copy_from_slice(digest.as_ref());
        Self(hash)
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(..)")
    }
}

/// The callers' keys by their hashes.
///
/// A table of hashes needs no comparison in constant time: how long a look-up takes tells of the
/// hash of what was sent, and nobody can choose a key for the beginning of its hash and go on from
/// there.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyTable {
    indices: HashMap<KeyHash, usize>,
}

impl KeyTable {
    /// Returns a table that answers with the position of a key in `hashes`.
    pub(crate) fn new(hashes: impl IntoIterator<Item = KeyHash>) -> Self {
        let indices = hashes.into_iter().enumerate();
        Self {
            indices: indices.map(|(index, hash)| (hash, index)).collect(),
        }
    }

    /// Returns whether nobody is asked for a key.
    pub(crate) fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Returns the index of the key that a request shows, or `None` where no keys are configured.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Option<usize>, Refusal> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut refusal = MISSING_KEY;
        for credential in credentials(headers) {
            if let Some(index) = self.indices.get(&KeyHash::of(credential)) {
                return Ok(Some(*index));
            }
            refusal = UNKNOWN_KEY;
        }
        Err(refusal)
    }
}

/// Returns what a request shows as its key, in the order in which SDKs send it.
pub(crate) fn credentials(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let bearer = headers.get_all(AUTHORIZATION).iter().filter_map(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(7)?;
        scheme
            .eq_ignore_ascii_case(b"bearer ")
            .then(|| key.trim_ascii())
    });
    let own = ["x-api-key", "api-key"];
    let own = own.into_iter().flat_map(|name| headers.get_all(name));
    bearer
        .chain(own.map(HeaderValue::as_bytes))
        .filter(|key| !key.is_empty())
}

const MISSING_KEY: Refusal = Refusal::new(
    StatusCode::UNAUTHORIZED,
    "missing_key",
    "a caller key is needed, as authorization: Bearer, x-api-key or api-key",
);
const UNKNOWN_KEY: Refusal = Refusal::new(
    StatusCode::UNAUTHORIZED,
    "unknown_key",
    "the caller key is not known",
);

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_key_is_found_wherever_an_sdk_puts_it() {
        let table = KeyTable::new([KeyHash::of(b"sk-1")]);

        for (name, value) in [
            ("authorization", "Bearer sk-1"),
            ("authorization", "bearer  sk-1"),
            ("x-api-key", "sk-1"),
            ("api-key", "sk-1"),
        ] {
            assert_eq!(
                table.caller(&headers(&[(name, value)])),
                Ok(Some(0)),
                "{name}: {value}"
            );
        }
        let both = headers(&[("authorization", "Bearer other"), ("x-api-key", "sk-1")]);
        assert_eq!(table.caller(&both), Ok(Some(0)));
    }

    #[test]
    fn what_is_no_key_is_refused_in_the_same_words() {
        let table = KeyTable::new([KeyHash::of(b"sk-1")]);

        for value in ["Bearer sk-2", "Bearer sk-1x", "Bearer SK-1"] {
            let refused = table.caller(&headers(&[("authorization", value)]));
            assert_eq!(refused, Err(UNKNOWN_KEY), "{value}");
        }
        for value in ["Bearer", "Bearer ", "Basic sk-1", "sk-1", ""] {
            let refused = table.caller(&headers(&[("authorization", value)]));
            assert_eq!(refused, Err(MISSING_KEY), "{value}");
        }
    }

    #[test]
    fn without_keys_any_credential_passes_unread() {
        let table = KeyTable::default();

        assert_eq!(
            table.caller(&headers(&[("x-api-key", "anything")])),
            Ok(None)
        );
    }

    #[test]
    fn a_key_is_known_by_the_hash_that_the_usual_tools_print() {
        // printf abc | sha256sum, the example of FIPS 180-2.
        let begins = [0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea];

        let hash = KeyHash::of(b"abc");

        assert!(hash.0.starts_with(&begins));
        assert_eq!(hash, KeyHash::of_digest(hash.0));
        assert_eq!(format!("{hash:?}"), "KeyHash(..)");
    }
}
