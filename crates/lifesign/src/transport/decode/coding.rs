//! The codings themselves, each fed by pieces.

use std::mem;

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::EncodingError;

/// One coding, and how far into it the body is.
pub(super) enum Coding {
    Brotli(Brotli),
    Deflate(Deflate),
    Gzip(Gzip),
    Zstd(Zstd),
}

impl Coding {
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "br" => Some(Self::Brotli(Brotli::new())),
            "deflate" => Some(Self::Deflate(Deflate::Undecided(Vec::new()))),
            "gzip" | "x-gzip" => Some(Self::Gzip(Gzip::new())),
            "zstd" => Zstd::new().map(Self::Zstd),
            _ => None,
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Brotli(_) => "br",
            Self::Deflate(_) => "deflate",
            Self::Gzip(_) => "gzip",
            Self::Zstd(_) => "zstd",
        }
    }

    pub(super) fn decode(
        &mut self,
        input: &[u8],
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), EncodingError> {
        if input.is_empty() {
            return Ok(());
        }
        let decoded = match self {
            Self::Brotli(brotli) => brotli.decode(input, each),
            Self::Deflate(deflate) => deflate.decode(input, each),
            Self::Gzip(gzip) => gzip.decode(input, each),
            Self::Zstd(zstd) => zstd.decode(input, each),
        };
        decoded.map_err(|Malformed| EncodingError::Malformed {
            encoding: self.name(),
        })
    }

    pub(super) fn is_whole(&self) -> bool {
        match self {
            Self::Brotli(brotli) => brotli.at != Place::Inside,
            Self::Deflate(Deflate::Undecided(bytes)) => bytes.is_empty(),
            Self::Deflate(Deflate::Decided(inflate)) => inflate.ended,
            Self::Gzip(gzip) => gzip.at != Place::Inside,
            Self::Zstd(zstd) => zstd.at != Place::Inside,
        }
    }
}

/// The bytes are not of the coding.
struct Malformed;

/// Where in its coding a body stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing has come yet.
    Start,
    /// In a member, so that more must come.
    Inside,
    /// After a whole member; another may follow.
    Between,
    /// What follows is not of the coding, and is left alone.
    After,
}

/// A stream of deflate, in whichever wrapping.
pub(super) struct Inflate {
    inner: Decompress,
    ended: bool,
}

impl Inflate {
    const fn new(inner: Decompress) -> Self {
        Self {
            inner,
            ended: false,
        }
    }

    /// Decodes until the input or the stream ends; returns how much of the input was read.
    fn decode(&mut self, input: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<usize, Malformed> {
        let mut output = vec![0; PIECE];
        let mut read = 0;
        loop {
            let (before_in, before_out) = (self.inner.total_in(), self.inner.total_out());
            let rest = input.get(read..).unwrap_or_default();
            let status = self
                .inner
                .decompress(rest, &mut output, FlushDecompress::Sync)
                .map_err(|_| Malformed)?;
            read += delta(before_in, self.inner.total_in());
            let wrote = delta(before_out, self.inner.total_out());
            if wrote > 0 {
                each(output.get(..wrote).unwrap_or_default());
            }
            self.ended = status == Status::StreamEnd;
            if self.ended || (wrote < output.len() && read == input.len()) {
                return Ok(read);
            }
            if wrote == 0 && status == Status::BufError {
                return Ok(read);
            }
        }
    }
}

pub(super) struct Gzip {
    member: Inflate,
    at: Place,
}

impl Gzip {
    fn new() -> Self {
        Self {
            member: Self::member(),
            at: Place::Start,
        }
    }

    fn member() -> Inflate {
        Inflate::new(Decompress::new_gzip(WINDOW_BITS))
    }

    fn decode(&mut self, mut input: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), Malformed> {
        while let Some(&first) = input.first() {
            match self.at {
                Place::After => return Ok(()),
                // Padding and the like; gzip(1) ignores it too.
                Place::Between if first != GZIP_FIRST_BYTE => {
                    self.at = Place::After;
                    return Ok(());
                }
                Place::Between => self.member = Self::member(),
                Place::Start | Place::Inside => {}
            }
            self.at = Place::Inside;
            let read = self.member.decode(input, each)?;
            input = input.get(read..).unwrap_or_default();
            if self.member.ended {
                self.at = Place::Between;
            } else if read == 0 {
                return Err(Malformed);
            }
        }
        Ok(())
    }
}

/// What servers call deflate: with a zlib header as RFC 9110 says, or without.
pub(super) enum Deflate {
    /// Fewer than two bytes have come.
    Undecided(Vec<u8>),
    Decided(Inflate),
}

impl Deflate {
    fn decode(&mut self, input: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), Malformed> {
        if let Self::Undecided(bytes) = self {
            bytes.extend_from_slice(input);
            let [first, second, ..] = bytes[..] else {
                return Ok(());
            };
            let zlib = first & 0x0f == 8 && u16::from_be_bytes([first, second]) % 31 == 0;
            let bytes = mem::take(bytes);
            *self = Self::Decided(Inflate::new(Decompress::new(zlib)));
            return self.decode(&bytes, each);
        }
        if let Self::Decided(inflate) = self
            && !inflate.ended
        {
            inflate.decode(input, each)?;
        }
        Ok(())
    }
}

pub(super) struct Brotli {
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    at: Place,
}

impl Brotli {
    fn new() -> Self {
        let alloc = StandardAlloc::default;
        Self {
            state: Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())),
            at: Place::Start,
        }
    }

    fn decode(&mut self, input: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), Malformed> {
        if self.at == Place::After {
            return Ok(());
        }
        self.at = Place::Inside;
        let mut output = vec![0; PIECE];
        let (mut available_in, mut read, mut total) = (input.len(), 0, 0);
        loop {
            let (mut available_out, mut wrote) = (output.len(), 0);
            let result = BrotliDecompressStream(
                &mut available_in,
                &mut read,
                input,
                &mut available_out,
                &mut wrote,
                &mut output,
                &mut total,
                &mut self.state,
            );
            if wrote > 0 {
                each(output.get(..wrote).unwrap_or_default());
            }
            match result {
                BrotliResult::NeedsMoreInput => return Ok(()),
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::ResultFailure => return Err(Malformed),
                BrotliResult::ResultSuccess => {
                    self.at = Place::After;
                    return Ok(());
                }
            }
        }
    }
}

pub(super) struct Zstd {
    decoder: Decoder<'static>,
    at: Place,
}

impl Zstd {
    fn new() -> Option<Self> {
        let mut decoder = Decoder::new().ok()?;
        decoder
            .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))
            .ok()?;
        Some(Self {
            decoder,
            at: Place::Start,
        })
    }

    fn decode(&mut self, input: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), Malformed> {
        let mut output = vec![0; PIECE];
        let mut input = InBuffer::around(input);
        loop {
            let mut out = OutBuffer::around(&mut output[..]);
            let left = self
                .decoder
                .run(&mut input, &mut out)
                .map_err(|_| Malformed)?;
            let wrote = out.pos();
            if wrote > 0 {
                each(output.get(..wrote).unwrap_or_default());
            }
            self.at = if left == 0 {
                Place::Between
            } else {
                Place::Inside
            };
            if input.pos() == input.src.len() && (left == 0 || wrote < output.len()) {
                return Ok(());
            }
        }
    }
}

fn delta(before: u64, after: u64) -> usize {
    usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX)
}

/// The largest piece of output given out at once.
pub(super) const PIECE: usize = 64 * 1024;

/// The largest window of deflate, and the only one of gzip.
const WINDOW_BITS: u8 = 15;

const ZSTD_WINDOW_LOG: u32 = 23;

const GZIP_FIRST_BYTE: u8 = 0x1f;
