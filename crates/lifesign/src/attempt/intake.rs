//! Where what an attempt receives goes.

use bytes::Bytes;
use http::HeaderMap;
use lifesign_core::Commit;
use lifesign_wire::{Answer, Incomplete, ProviderError, ReadError, State};

use crate::guard::Guard;

/// Takes what an attempt receives, and says how far the answer has come.
///
/// The attempt gives it the decoded body of a response whose status is a success. What it makes of
/// the bytes, it hands up piece by piece.
pub trait Intake {
    /// What it hands up.
    type Item;

    /// Takes the head of the response.
    fn head(&mut self, status: u16, headers: &HeaderMap);

    /// Takes the next bytes of the body; what they prove goes to the guard's watch.
    ///
    /// # Errors
    ///
    /// Fails where the body cannot be read.
    fn read(&mut self, bytes: &Bytes, guard: &Guard) -> Result<(), ReadError>;

    /// Takes the end of the body.
    ///
    /// # Errors
    ///
    /// Fails where the body cannot be read.
    fn end(&mut self, guard: &Guard) -> Result<(), ReadError>;

    /// Returns how far the answer has come.
    fn state(&self) -> State;

    /// Returns what is wrong with the answer if its body ends here, in the way that bodies should.
    ///
    /// # Errors
    ///
    /// Fails if the answer is not whole.
    fn outcome_at_eof(&self) -> Result<(), Incomplete>;

    /// Returns why the provider failed, if it did.
    fn failure(&self) -> Option<&ProviderError>;

    /// Returns whether a whole body answers a request for a stream.
    fn is_whole_body(&self) -> bool;

    /// Returns what another attempt would replace.
    fn commit(&self) -> Commit;

    /// Takes the next piece to hand up.
    fn next_item(&mut self) -> Option<Self::Item>;

    /// Takes what is known of the answer; `whole` says whether the attempt succeeded.
    fn take_answer(&mut self, whole: bool) -> Answer;
}
