//! How an attempt ended.

use lifesign_core::{Ages, Commit, Cut, Hints, Phase};
use lifesign_wire::{Answer, Incomplete, ProviderError, ReadError};

use crate::transport::{ConnectError, EncodingError, TransportError};

/// How an attempt ended, and what it brought.
#[derive(Debug)]
pub(crate) struct AttemptEnd {
    /// Why it failed; `None` where the answer is whole.
    pub(crate) cause: Option<Cause>,
    /// What the provider asks of whoever wants to try again.
    pub(crate) hints: Hints,
    /// What a new attempt would replace.
    pub(crate) commit: Commit,
    /// What arrived.
    pub(crate) answer: Answer,
    /// The response's status, once there was one.
    pub(crate) status: Option<u16>,
    /// The provider's id of the request.
    pub(crate) request_id: Option<String>,
    /// Where the attempt stood.
    pub(crate) phase: Phase,
    /// The age of each clock.
    pub(crate) ages: Ages,
}

impl AttemptEnd {
    /// Returns the content that an attempt without a whole answer leaves, if there is any.
    pub(crate) fn partial(self) -> Option<Answer> {
        let is_worth_keeping = !self.answer.is_empty() || self.answer.usage.is_some();
        is_worth_keeping.then_some(self.answer)
    }
}

/// What ended an attempt.
#[derive(Debug)]
pub(crate) enum Cause {
    Cancelled,
    Connect(ConnectError),
    Cut(Cut),
    Encoding(EncodingError),
    /// The body ended properly and the answer did not.
    Incomplete(Incomplete),
    Provider(ProviderError),
    Read(ReadError),
    Transport(TransportError),
}
