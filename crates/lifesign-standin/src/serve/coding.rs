//! Content codings, flushed at each write.

use std::io::{self, Write};

use flate2::write::GzEncoder;

use crate::script::Coding;

/// Compresses a body piece by piece.
pub(crate) enum Encoder {
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Brotli(_) => "Brotli",
            Self::Gzip(_) => "Gzip",
            Self::Zstd(_) => "Zstd",
        })
    }
}

impl Encoder {
    pub(crate) fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Brotli => Self::Brotli(Box::new(brotli::CompressorWriter::new(
                Vec::new(),
                4096,
                4,
                18,
            ))),
            Coding::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::fast())),
            Coding::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 1)?),
        })
    }

    /// Returns what `plain` becomes, whole enough to be decoded at once.
    pub(crate) fn encode(&mut self, plain: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Brotli(encoder) => {
                encoder.write_all(plain)?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Self::Gzip(encoder) => {
                encoder.write_all(plain)?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Self::Zstd(encoder) => {
                encoder.write_all(plain)?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
        }
    }

    /// Returns the end of the compressed body.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Brotli(encoder) => Ok(encoder.into_inner()),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}
