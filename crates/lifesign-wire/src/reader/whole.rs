//! The body that the same request would have got without a stream.

use super::Reader;
use crate::dialect::Decode;

impl Reader {
    /// Keeps what [`whole_body`](Self::whole_body) needs. It is to be said before the first byte.
    ///
    /// This example shows a stream put together for a caller who asked for none.
    ///
    /// ```
    /// use lifesign_core::Sign;
    /// use lifesign_wire::{Event, Expect, ReadLimits, Reader, Sink, Wire};
    ///
    /// struct Nobody;
    /// impl Sink for Nobody {
    ///     fn sign(&mut self, _: Sign) {}
    ///     fn event(&mut self, _: &Event<'_>) {}
    /// }
    ///
    /// let limits = ReadLimits::default();
    /// let mut reader = Reader::new(Wire::OPENAI_CHAT, Expect::Stream, &limits).keep_whole();
    /// let chunk = r#"{"id":"c","choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
    /// reader.read(format!("data: {chunk}\n\ndata: [DONE]\n\n").as_bytes(), &mut Nobody)?;
    ///
    /// let body = String::from_utf8(reader.whole_body().unwrap()).unwrap();
    /// assert!(body.contains(r#""message":{"role":"assistant","content":"hi"}"#));
    /// # Ok::<(), lifesign_wire::ReadError>(())
    /// ```
    #[must_use]
    pub fn keep_whole(mut self) -> Self {
        self.decoding.decoder.keep_whole();
        self
    }

    /// Returns the JSON body that the same request would have got without a stream; a body that
    /// came whole is returned as it came.
    ///
    /// Returns `None` where the answer failed or is not whole, or if nothing was kept.
    pub fn whole_body(&self) -> Option<Vec<u8>> {
        if self.decoding.failure.is_some() || self.outcome_at_eof().is_err() {
            return None;
        }
        self.decoding.decoder.whole_body()
    }
}
