//! Bodies of responses, whole or as events, within their limits.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use lifesign::transport::{Exchange, Step, TransportError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use sse_stream::SseStream;

use super::{Events, Failure, HttpError};

/// Reads a body to its end.
pub(super) async fn read_whole(mut exchange: Exchange, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    loop {
        let step = exchange.step().await.map_err(HttpError::Transport);
        match step.map_err(StreamableHttpError::Client)? {
            Step::Chunk(chunk) if body.len() + chunk.len() > limit => {
                return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: limit });
            }
            Step::Chunk(chunk) => body.extend_from_slice(&chunk),
            Step::End => {
                exchange.finish();
                return Ok(body);
            }
            _ => {}
        }
    }
}

/// Reads a body as events, none of them larger than `largest`.
pub(super) fn events(exchange: Exchange, largest: usize) -> Events {
    Box::pin(SseStream::from_bytes_stream(Chunks {
        exchange: Some(exchange),
        size: EventSize::default(),
        largest,
    }))
}

/// The chunks of a body, watched for events that have no end.
struct Chunks {
    exchange: Option<Exchange>,
    size: EventSize,
    largest: usize,
}

/// A body of events that cannot be read on.
#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error("an event is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the connection failed: {0}")]
    Transport(#[from] TransportError),
}

impl Stream for Chunks {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let Some(exchange) = &mut this.exchange else {
                return Poll::Ready(None);
            };
            match ready!(exchange.poll_step(cx)) {
                Ok(Step::Chunk(chunk)) => {
                    if this.size.push(&chunk) > this.largest {
                        this.exchange = None;
                        return Poll::Ready(Some(Err(BodyError::TooLarge(this.largest))));
                    }
                    return Poll::Ready(Some(Ok(chunk)));
                }
                Ok(Step::End) => {
                    if let Some(exchange) = this.exchange.take() {
                        exchange.finish();
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    this.exchange = None;
                    return Poll::Ready(Some(Err(error.into())));
                }
            }
        }
    }
}

/// How many bytes have come since the last blank line.
#[derive(Debug, Default)]
struct EventSize {
    bytes: usize,
    line: usize,
}

impl EventSize {
    /// Takes the next bytes and returns the largest size that was reached in them.
    fn push(&mut self, chunk: &[u8]) -> usize {
        let mut largest = 0;
        for byte in chunk {
            self.bytes += 1;
            match byte {
                b'\n' if self.line == 0 => self.bytes = 0,
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => self.line += 1,
            }
            largest = largest.max(self.bytes);
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_measured_from_blank_line_to_blank_line() {
        let mut size = EventSize::default();

        assert_eq!(size.push(b"data: a\n\n"), 8);
        assert_eq!(size.push(b"data: abc"), 9);
        assert_eq!(size.push(b"def\r\n\r\n: b\n\n"), 15);
        assert_eq!(size.push(b"x"), 1);
    }
}
