//! How an attempt ended.

use http::HeaderMap;
use lifesign_core::{Ages, Commit, Cut, Hints, Phase};
use lifesign_wire::{Answer, Incomplete, ProviderError, ReadError};

use crate::transport::{ConnectError, EncodingError, TransportError};

/// How an attempt ended, and what it brought.
#[derive(Debug)]
pub struct AttemptEnd {
    /// Why it failed; `None` where the answer is whole.
    pub cause: Option<Cause>,
    /// What the provider asks of whoever wants to try again.
    pub hints: Hints,
    /// What a new attempt would replace.
    pub commit: Commit,
    /// What arrived.
    pub answer: Answer,
    /// The response, once its head was here.
    pub head: Option<ResponseHead>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// Where the attempt stood.
    pub phase: Phase,
    /// The age of each clock.
    pub ages: Ages,
}

impl AttemptEnd {
    /// Returns the response's status, once there was one.
    pub fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|head| head.status)
    }

    /// Returns the content that an attempt without a whole answer leaves, if there is any.
    pub fn partial(self) -> Option<Answer> {
        let is_worth_keeping = !self.answer.is_empty() || self.answer.usage.is_some();
        is_worth_keeping.then_some(self.answer)
    }
}

/// The head of a response, and the body of one that is an error.
#[derive(Debug)]
pub struct ResponseHead {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// The body of a response whose status is no success, decoded, at most 64 KiB of it.
    pub error_body: Option<Vec<u8>>,
}

/// What ended an attempt.
#[derive(Debug)]
pub enum Cause {
    /// The caller left.
    Cancelled,
    /// No connection.
    Connect(ConnectError),
    /// A bound ran out.
    Cut(Cut),
    /// The content coding of the body is broken or unknown.
    Encoding(EncodingError),
    /// The body ended properly and the answer did not.
    Incomplete(Incomplete),
    /// The provider says so.
    Provider(ProviderError),
    /// The body cannot be read.
    Read(ReadError),
    /// The connection was lost.
    Transport(TransportError),
}
