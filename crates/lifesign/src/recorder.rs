//! Seeing what an attempt receives, byte for byte and with its timing.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use lifesign_wire::recording::Ending;

/// Sees what an attempt receives.
///
/// Times are since the last request byte was accepted. Nothing of the request is shown, so nothing
/// secret can be recorded.
pub trait Recorder: Send + Sync {
    /// The response's head has come.
    fn head(&self, at: Duration, status: StatusCode, headers: &HeaderMap);

    /// Bytes of the body have come, after transfer decoding and before content decoding.
    fn chunk(&self, at: Duration, bytes: &[u8]);

    /// The attempt is over.
    fn end(&self, at: Duration, ending: Ending);
}
