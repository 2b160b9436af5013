//! Content codings, undone as the bytes come.
//!
//! Every byte that can be decoded is given out at once: a server that flushes after each event
//! would otherwise look silent. Output is given out in pieces of at most 64 KiB, and a coding's
//! window is held to the 8 MiB that RFC 8878 asks of every decoder (brotli: 16 MiB), so a small
//! body that grows large costs no more memory than a large one.

mod coding;

use std::fmt;

use http::HeaderValue;

use self::coding::Coding;

/// Undoes the content codings of one response body.
pub struct ContentDecoder {
    /// In the order in which they are undone.
    codings: Vec<Coding>,
}

/// A body whose coding cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodingError {
    /// The bytes are not what `content-encoding` says.
    #[error("the response body is not valid {encoding}")]
    Malformed {
        /// The coding.
        encoding: &'static str,
    },
    /// The body ended inside its coding.
    #[error("the response body ended inside its {encoding} coding")]
    Truncated {
        /// The coding.
        encoding: &'static str,
    },
    /// The coding is unknown.
    #[error(
        "the response has the content coding `{encoding}`; gzip, deflate, br and zstd are understood"
    )]
    Unsupported {
        /// The value of `content-encoding`.
        encoding: String,
    },
}

impl ContentDecoder {
    /// Makes a decoder for the value of `content-encoding`; `None` where nothing is encoded.
    ///
    /// # Errors
    ///
    /// Fails where the value names a coding that is not known, or more than three of them.
    pub fn new(content_encoding: Option<&HeaderValue>) -> Result<Option<Self>, EncodingError> {
        let Some(value) = content_encoding else {
            return Ok(None);
        };
        let unsupported = || EncodingError::Unsupported {
            encoding: String::from_utf8_lossy(value.as_bytes()).into_owned(),
        };
        let mut codings = Vec::new();
        for name in value.to_str().map_err(|_| unsupported())?.split(',') {
            let name = name.trim().to_ascii_lowercase();
            if !name.is_empty() && name != "identity" {
                codings.push(Coding::parse(&name).ok_or_else(unsupported)?);
            }
        }
        if codings.len() > CODINGS {
            return Err(unsupported());
        }
        // The last one applied is the first undone.
        codings.reverse();
        Ok((!codings.is_empty()).then_some(Self { codings }))
    }

    /// Decodes `input` and gives everything it yields to `each`, in pieces of at most 64 KiB.
    ///
    /// # Errors
    ///
    /// Fails where the bytes are not of the coding; what came before was given out.
    pub fn decode(
        &mut self,
        input: &[u8],
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), EncodingError> {
        decode_all(&mut self.codings, input, each)
    }

    /// Says that the body has ended.
    ///
    /// # Errors
    ///
    /// Fails where it ended inside a coding. A body without a byte is taken as an empty one.
    pub fn finish(&self) -> Result<(), EncodingError> {
        match self.codings.iter().find(|coding| !coding.is_whole()) {
            Some(coding) => Err(EncodingError::Truncated {
                encoding: coding.name(),
            }),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ContentDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.codings.iter().map(Coding::name).collect();
        f.debug_tuple("ContentDecoder").field(&names).finish()
    }
}

fn decode_all(
    codings: &mut [Coding],
    input: &[u8],
    each: &mut dyn FnMut(&[u8]),
) -> Result<(), EncodingError> {
    let Some((first, rest)) = codings.split_first_mut() else {
        each(input);
        return Ok(());
    };
    if rest.is_empty() {
        return first.decode(input, each);
    }
    let mut later = Ok(());
    first.decode(input, &mut |piece| {
        if later.is_ok() {
            later = decode_all(rest, piece, each);
        }
    })?;
    later
}

/// The most codings that one body may have on top of each other.
const CODINGS: usize = 3;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;

    use super::coding::PIECE;
    use super::*;

    const ENCODINGS: [&str; 6] = ["gzip", "x-gzip", "deflate", "raw deflate", "br", "zstd"];

    fn decoder(encoding: &str) -> ContentDecoder {
        let value = HeaderValue::from_str(encoding.trim_start_matches("raw ")).unwrap();
        ContentDecoder::new(Some(&value)).unwrap().unwrap()
    }

    /// Encodes the parts with a flush after each; returns the bytes of each.
    fn encode(encoding: &str, parts: &[&[u8]]) -> Vec<Vec<u8>> {
        fn flushed<W: Write>(
            mut encoder: W,
            parts: &[&[u8]],
            sent: impl Fn(&W) -> usize,
            finish: impl FnOnce(W) -> Vec<u8>,
        ) -> Vec<Vec<u8>> {
            let mut ends = Vec::new();
            for part in parts {
                encoder.write_all(part).unwrap();
                encoder.flush().unwrap();
                ends.push(sent(&encoder));
            }
            let whole = finish(encoder);
            if let Some(last) = ends.last_mut() {
                *last = whole.len();
            }
            let mut from = 0;
            ends.into_iter()
                .map(|end| {
                    let piece = whole[from..end].to_vec();
                    from = end;
                    piece
                })
                .collect()
        }
        let fast = Compression::fast();
        match encoding {
            "gzip" | "x-gzip" => flushed(
                GzEncoder::new(Vec::new(), fast),
                parts,
                |encoder| encoder.get_ref().len(),
                |encoder| encoder.finish().unwrap(),
            ),
            "deflate" => flushed(
                ZlibEncoder::new(Vec::new(), fast),
                parts,
                |encoder| encoder.get_ref().len(),
                |encoder| encoder.finish().unwrap(),
            ),
            "raw deflate" => flushed(
                DeflateEncoder::new(Vec::new(), fast),
                parts,
                |encoder| encoder.get_ref().len(),
                |encoder| encoder.finish().unwrap(),
            ),
            "br" => flushed(
                brotli::CompressorWriter::new(Vec::new(), 4096, 3, 18),
                parts,
                |encoder| encoder.get_ref().len(),
                brotli::CompressorWriter::into_inner,
            ),
            "zstd" => flushed(
                zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap(),
                parts,
                |encoder| encoder.get_ref().len(),
                |encoder| encoder.finish().unwrap(),
            ),
            other => panic!("no encoder for {other}"),
        }
    }

    fn decode(decoder: &mut ContentDecoder, input: &[u8]) -> Result<Vec<u8>, EncodingError> {
        let mut output = Vec::new();
        decoder.decode(input, &mut |piece| {
            assert!(piece.len() <= PIECE);
            output.extend_from_slice(piece);
        })?;
        Ok(output)
    }

    #[test]
    fn what_was_flushed_is_given_out_at_once() {
        let events: [&[u8]; 3] = [b"data: one\n\n", b"data: two\n\n", b"data: [DONE]\n\n"];

        for encoding in ENCODINGS {
            let mut decoder = decoder(encoding);
            for (event, piece) in events.iter().zip(encode(encoding, &events)) {
                assert_eq!(decode(&mut decoder, &piece).unwrap(), *event, "{encoding}");
            }
            assert_eq!(decoder.finish(), Ok(()), "{encoding}");
        }
    }

    #[test]
    fn no_coding_and_identity_need_no_decoder() {
        for value in [None, Some("identity"), Some(""), Some(" , identity")] {
            let value = value.map(HeaderValue::from_static);
            assert!(ContentDecoder::new(value.as_ref()).unwrap().is_none());
        }
    }

    #[test]
    fn an_unknown_coding_is_named() {
        let error = ContentDecoder::new(Some(&HeaderValue::from_static("pack200"))).unwrap_err();

        assert_eq!(
            error.to_string(),
            "the response has the content coding `pack200`; gzip, deflate, br and zstd are understood"
        );
    }

    #[test]
    fn codings_on_top_of_each_other_are_undone_last_first() {
        let inner = encode("deflate", &[b"hello"]).concat();
        let outer = encode("gzip", &[&inner]).concat();
        let mut decoder = decoder("deflate, GZIP");

        assert_eq!(decode(&mut decoder, &outer).unwrap(), b"hello");
        assert_eq!(decoder.finish(), Ok(()));
    }

    #[test]
    fn more_codings_than_anyone_needs_are_refused() {
        let value = HeaderValue::from_static("gzip, gzip, gzip, gzip");

        assert!(matches!(
            ContentDecoder::new(Some(&value)),
            Err(EncodingError::Unsupported { .. })
        ));
    }

    #[test]
    fn members_that_follow_each_other_are_one_body() {
        for encoding in ["gzip", "zstd"] {
            let mut body = encode(encoding, &[b"one "]).concat();
            body.extend(encode(encoding, &[b"two"]).concat());
            let mut decoder = decoder(encoding);

            assert_eq!(
                decode(&mut decoder, &body).unwrap(),
                b"one two",
                "{encoding}"
            );
            assert_eq!(decoder.finish(), Ok(()), "{encoding}");
        }
    }

    #[test]
    fn padding_after_a_gzip_member_is_left_alone() {
        let mut body = encode("gzip", &[b"one"]).concat();
        body.extend([0; 600]);
        let mut decoder = decoder("gzip");

        assert_eq!(decode(&mut decoder, &body).unwrap(), b"one");
        assert_eq!(decoder.finish(), Ok(()));
    }

    #[test]
    fn a_body_that_ends_inside_its_coding_is_truncated() {
        for encoding in ENCODINGS {
            let body = encode(encoding, &[b"data: one\n\n", b"data: two\n\n"]).concat();
            let mut decoder = decoder(encoding);

            decode(&mut decoder, &body[..body.len() - 1]).unwrap();

            assert!(
                matches!(decoder.finish(), Err(EncodingError::Truncated { .. })),
                "{encoding}"
            );
        }
    }

    #[test]
    fn plain_text_is_not_taken_for_a_coding() {
        for encoding in ["gzip", "deflate", "zstd"] {
            let error = decode(&mut decoder(encoding), b"data: {\"text\": \"hello\"}\n\n");

            assert_eq!(error, Err(EncodingError::Malformed { encoding }));
        }
    }

    #[test]
    fn a_body_that_grows_a_thousandfold_comes_in_pieces() {
        let zeros = vec![0; 8 << 20];

        for encoding in ENCODINGS {
            let body = encode(encoding, &[&zeros]).concat();
            assert!(body.len() < zeros.len() / 100, "{encoding}");
            let mut total = 0;
            decoder(encoding)
                .decode(&body, &mut |piece| {
                    assert!(piece.len() <= PIECE);
                    total += piece.len();
                })
                .unwrap();
            assert_eq!(total, zeros.len(), "{encoding}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_cut_of_the_bytes_decodes_to_the_same(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 1..4),
            which in 0..ENCODINGS.len(),
            step in 1_usize..64,
        ) {
            let encoding = ENCODINGS[which];
            let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let body = encode(encoding, &slices).concat();
            let mut decoder = decoder(encoding);

            let mut output = Vec::new();
            for piece in body.chunks(step) {
                output.extend(decode(&mut decoder, piece).unwrap());
            }

            prop_assert_eq!(output, parts.concat());
            prop_assert_eq!(decoder.finish(), Ok(()));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            which in 0..ENCODINGS.len(),
        ) {
            let mut decoder = decoder(ENCODINGS[which]);

            for piece in bytes.chunks(7) {
                if decode(&mut decoder, piece).is_err() {
                    break;
                }
            }
        }
    }
}
