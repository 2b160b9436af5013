//! Answers that came whole, as the events of a stream.

use crate::wire::Wire;

impl Wire {
    /// Returns an answer that came whole as the events in which a stream would have brought it, its
    /// end included: for a caller whose response was opened as a stream before the answer came.
    ///
    /// Returns `None` if the body is no answer of this wire that is over.
    pub fn events_of_whole(self, body: &[u8]) -> Option<Vec<u8>> {
        self.dialect()
            .events_of_whole(String::from_utf8_lossy(body).trim())
    }
}
