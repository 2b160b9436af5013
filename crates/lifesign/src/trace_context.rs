//! Whose trace a call belongs to: W3C Trace Context, in from the caller and out to the upstream.
//!
//! A call that passes a gateway continues the trace that its `traceparent` names, or begins one; each
//! attempt hands the trace on with the id of its own span. What cannot be read is as if it were not
//! there, and its `tracestate` goes with it (<https://www.w3.org/TR/trace-context/>, "Processing
//! Model").
//!
//! # Example
//!
//! This example shows a trace on its way through a gateway.
//!
//! ```
//! use http::HeaderMap;
//! use lifesign::trace_context::{CallTrace, SpanId};
//!
//! let mut headers = HeaderMap::new();
//! let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
//! headers.insert("traceparent", parent.parse().unwrap());
//!
//! let call = CallTrace::of(&headers);
//! let attempt = SpanId::random();
//! call.hand_on(attempt, &mut headers);
//!
//! let expected = format!("00-0af7651916cd43dd8448eb211c80319c-{attempt}-01");
//! assert_eq!(headers["traceparent"], expected);
//! ```

use std::fmt;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Serialize, Serializer};

/// The id of a trace: 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// The id of a span: 8 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// Where a call stands in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallTrace {
    /// The trace, which the caller may have begun.
    pub trace_id: TraceId,
    /// The span of the call.
    pub span_id: SpanId,
    /// The span of the caller; none where the trace begins here.
    pub parent_span_id: Option<SpanId>,
    /// The flags of the trace, as W3C names their bits.
    pub flags: u8,
    /// The caller's `tracestate`.
    pub state: Option<String>,
}

/// Where an attempt stands in a trace: below its call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptTrace {
    /// The span of the attempt.
    pub span_id: SpanId,
    /// Where its call stands.
    pub call: CallTrace,
}

impl CallTrace {
    /// Continues the trace of a request with these headers, or begins one.
    pub fn of(headers: &HeaderMap) -> Self {
        let span_id = SpanId::random();
        match TraceParent::of(headers) {
            Some(parent) => Self {
                trace_id: parent.trace_id,
                span_id,
                parent_span_id: Some(parent.span_id),
                flags: parent.flags,
                state: state_of(headers),
            },
            None => Self {
                trace_id: TraceId::random(),
                span_id,
                parent_span_id: None,
                flags: SAMPLED,
                state: None,
            },
        }
    }

    /// Returns whether whoever began the trace wants it to be seen.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Puts into the headers of a request that it is made by `span`.
    pub fn hand_on(&self, span: SpanId, headers: &mut HeaderMap) {
        let parent = TraceParent {
            trace_id: self.trace_id,
            span_id: span,
            flags: self.flags,
        };
        // Digits and hyphens are fit for any header.
        if let Ok(value) = HeaderValue::try_from(parent.to_string()) {
            headers.insert(TRACEPARENT, value);
        }
        if self.parent_span_id.is_none() {
            // It belongs to a trace that is not continued.
            headers.remove(TRACESTATE);
        }
    }
}

impl TraceId {
    fn random() -> Self {
        Self(fastrand::u128(1..).to_be_bytes())
    }

    /// Returns the bytes, as they are exported.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl SpanId {
    /// Returns an id that no other span has, in all likelihood.
    pub fn random() -> Self {
        Self(fastrand::u64(1..).to_be_bytes())
    }

    /// Returns the bytes, as they are exported.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TraceParent {
    trace_id: TraceId,
    span_id: SpanId,
    flags: u8,
}

impl TraceParent {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?;
        // Of two it cannot be told which is right.
        if values.next().is_some() {
            return None;
        }
        Self::parse(value.as_bytes())
    }

    /// Reads `VERSION-TRACE-SPAN-FLAGS` in lower-case hexadecimal digits.
    fn parse(text: &[u8]) -> Option<Self> {
        let (known, more) = text.split_at_checked(LEN)?;
        let [version] = bytes_of(known.get(..2)?)?;
        let trace_id = bytes_of(known.get(3..35)?)?;
        let span_id = bytes_of(known.get(36..52)?)?;
        let [flags] = bytes_of(known.get(53..)?)?;
        let has_hyphens = [2, 35, 52].iter().all(|at| known.get(*at) == Some(&b'-'));
        let is_whole = match version {
            0 => more.is_empty(),
            0xff => false,
            // Later versions may say more behind what is known.
            _ => more.is_empty() || more.starts_with(b"-"),
        };
        let has_ids = trace_id != [0; 16] && span_id != [0; 8];
        (has_hyphens && is_whole && has_ids).then_some(Self {
            trace_id: TraceId(trace_id),
            span_id: SpanId(span_id),
            flags: flags & KNOWN_FLAGS,
        })
    }
}

impl fmt::Display for TraceParent {
    /// Writes the version that is known, whichever was read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trace_id,
            span_id,
            flags,
        } = self;
        write!(f, "00-{trace_id}-{span_id}-{flags:02x}")
    }
}

/// Returns `tracestate`, whose parts may come in several headers, if it is text and no longer than
/// everybody has to bear.
fn state_of(headers: &HeaderMap) -> Option<String> {
    let parts = headers.get_all(TRACESTATE).iter();
    let parts: Result<Vec<_>, _> = parts.map(HeaderValue::to_str).collect();
    let state = parts.ok()?.join(",");
    Some(state).filter(|state| (1..=LONGEST_STATE).contains(&state.len()))
}

/// As much has to be handed on (W3C Trace Context, 3.3.1.5), and it is kept for as long as spans wait.
const LONGEST_STATE: usize = 512;

/// Reads `N` bytes from twice as many lower-case digits.
fn bytes_of<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        for digit in pair {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            *byte = *byte << 4 | value;
        }
    }
    Some(bytes)
}

/// Gives ids their text: lower-case hexadecimal digits.
macro_rules! shown {
    ($($id:ident)*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($id))
            }
        }

        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

shown!(TraceId SpanId);

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// Of a `traceparent` in the version that is known.
const LEN: usize = 55;
const SAMPLED: u8 = 0b01;
/// Sampled, and whether the trace's id is random.
const KNOWN_FLAGS: u8 = 0b11;

#[cfg(test)]
mod tests;
