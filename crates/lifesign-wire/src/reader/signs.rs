//! The signs of a body, without its answer.

use std::fmt;

use lifesign_core::{HeartbeatOrigin, Progress, Sign};

use super::extent::JsonExtent;
use crate::classify::Classifier;
use crate::frame::{FrameLimits, SseFramer};
use crate::sniff::{Body, Sniffer};
use crate::wire::Wire;

/// Reads a body for what it proves, and keeps no answer.
///
/// It tells the signs that a [`Reader`](super::Reader) tells of the same bytes, however they are
/// cut, and holds nothing but a frame that straddles two reads. It is for whoever watches a body
/// that somebody else reads, and so it never fails: of a body that is no stream and no JSON, or a
/// frame past its cap, nothing is told, and a stream of another wire is life without content.
///
/// This example shows a stream cut in the middle of a frame.
///
/// ```
/// use lifesign_core::Progress;
/// use lifesign_wire::{FrameLimits, SignReader, Wire};
///
/// let mut reader = SignReader::new(Wire::OPENAI_CHAT, FrameLimits::default());
/// let mut seen = Vec::new();
/// for chunk in [
///     "data: {\"choices\":[{\"delta\":{\"con",
///     "tent\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
/// ] {
///     reader.read(chunk.as_bytes(), |sign| seen.push(sign.progress));
/// }
/// assert_eq!(seen, [Progress::Output, Progress::Output]);
/// assert!(reader.is_over());
/// ```
pub struct SignReader {
    limits: FrameLimits,
    classifier: Classifier,
    body: Reading,
}

enum Reading {
    Sniffing(Sniffer),
    Stream(SseFramer),
    Json(JsonExtent),
    /// A whole JSON body that has come to its end.
    Whole,
    /// Not of the wire, or past a cap.
    Unreadable,
}

impl SignReader {
    /// Returns a reader at the start of the body that answers a request for a stream.
    pub fn new(wire: Wire, limits: FrameLimits) -> Self {
        Self {
            limits,
            classifier: Classifier::new(wire),
            body: Reading::Sniffing(Sniffer::new()),
        }
    }

    /// Takes the next bytes and tells `each` what every whole frame in them proves. After the end
    /// of the answer they are ignored.
    pub fn read(&mut self, chunk: &[u8], mut each: impl FnMut(Sign)) {
        let Reading::Sniffing(sniffer) = &mut self.body else {
            return self.read_body(chunk, &mut each);
        };
        let sniffed = sniffer.push(chunk);
        for _ in 0..sniffed.beats {
            each(Sign::heartbeat(HeartbeatOrigin::Comment));
        }
        let Some(body) = sniffed.body else { return };
        let held = sniffer.held().to_vec();
        self.body = match body {
            Body::Sse => Reading::Stream(SseFramer::new(self.limits)),
            Body::Json => Reading::Json(JsonExtent::default()),
            Body::Html | Body::Unknown => Reading::Unreadable,
        };
        self.read_body(&held, &mut each);
        self.read_body(chunk.get(sniffed.from..).unwrap_or_default(), &mut each);
    }

    /// Returns whether the answer said that it is over, or failed.
    pub const fn is_over(&self) -> bool {
        matches!(self.body, Reading::Whole) || self.classifier.is_over()
    }

    /// Returns whether a whole JSON body answers the request for a stream.
    pub const fn is_whole_body(&self) -> bool {
        matches!(self.body, Reading::Json(_) | Reading::Whole)
    }

    fn read_body(&mut self, chunk: &[u8], each: &mut impl FnMut(Sign)) {
        match &mut self.body {
            Reading::Stream(framer) => {
                let classifier = &mut self.classifier;
                let framed = framer.push(chunk, |frame| {
                    if !classifier.is_over() {
                        classifier.classify(frame).into_iter().for_each(&mut *each);
                    }
                });
                if framed.is_err() {
                    self.body = Reading::Unreadable;
                }
            }
            Reading::Json(extent) => {
                if extent.push(chunk).is_some() {
                    // Whether it is an answer or an error, nothing more is waited for.
                    each(Sign::of(Progress::Output));
                    self.body = Reading::Whole;
                }
            }
            Reading::Sniffing(_) | Reading::Unreadable | Reading::Whole => {}
        }
    }
}

impl fmt::Debug for SignReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignReader")
            .field("classifier", &self.classifier)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(reader: &mut SignReader, chunk: &[u8]) -> Vec<Progress> {
        let mut told = Vec::new();
        reader.read(chunk, |sign| told.push(sign.progress));
        told
    }

    fn chat() -> SignReader {
        let limits = FrameLimits {
            line: 64,
            frame: 64,
        };
        SignReader::new(Wire::OPENAI_CHAT, limits)
    }

    #[test]
    fn a_whole_json_body_is_over_at_its_closing_bracket() {
        let mut reader = chat();

        assert_eq!(told(&mut reader, b"\n"), [Progress::Heartbeat]);
        assert_eq!(told(&mut reader, b"{\"id\":"), []);
        assert!(reader.is_whole_body() && !reader.is_over());
        assert_eq!(told(&mut reader, b"1}"), [Progress::Output]);
        assert!(reader.is_whole_body() && reader.is_over());
        assert_eq!(told(&mut reader, b"{}"), []);
    }

    #[test]
    fn after_the_terminal_event_nothing_is_told() {
        let mut reader = chat();

        assert_eq!(told(&mut reader, b"data: [DONE]\n\n: x\n\n").len(), 1);
        assert!(reader.is_over());
        assert_eq!(told(&mut reader, b": x\n\n"), []);
    }

    #[test]
    fn an_error_in_the_stream_ends_the_answer_too() {
        let mut reader = chat();

        told(&mut reader, b"data: {\"error\":{\"message\":\"no\"}}\n\n");

        assert!(reader.is_over());
    }

    #[test]
    fn of_what_cannot_be_read_nothing_is_told() {
        for body in [
            b"<html>oops</html>".as_slice(),
            b"plain text that is no event\n\n: x\n\n",
        ] {
            let mut reader = chat();
            assert_eq!(told(&mut reader, body), []);
            assert!(!reader.is_over() && !reader.is_whole_body());
        }
        let mut reader = chat();
        assert_eq!(
            told(&mut reader, &[b": ".as_slice(), &[b'x'; 99]].concat()),
            []
        );
        assert_eq!(told(&mut reader, b"\n\n: x\n\n"), []);
    }
}
