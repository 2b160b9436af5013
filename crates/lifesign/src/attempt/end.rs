//! How an attempt ended.

use std::time::Duration;

use http::HeaderMap;
use lifesign_core::{Ages, AttemptRecord, Commit, Cut, Failure, Hints, Phase, Tally};
use lifesign_wire::{Answer, Incomplete, ProviderError, ReadError};

use super::failure::failure_of;
use crate::transport::{ConnectError, EncodingError, TransportError};
use crate::upstream::Upstream;

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

    /// Returns the failure of attempt `number`, if it failed, with everything that is known of it.
    ///
    /// The upstream's key is taken out of what the provider said.
    pub fn failure(&self, number: u32, upstream: &Upstream, tally: &Tally) -> Option<Failure> {
        let mut failure = failure_of(self.cause.as_ref()?, self.phase);
        failure.ages = self.ages;
        failure.status = self.status();
        failure.request_id.clone_from(&self.request_id);
        failure.retry_after = self.hints.wait;
        failure.partial = !self.answer.is_empty();
        failure.bytes = tally.bytes;
        failure.frames = tally.frames;
        failure.heartbeats = tally.heartbeats;
        failure.tokens = self.answer.usage.and_then(|usage| usage.output_tokens);
        failure.attempt = number;
        failure.upstream = Some(upstream.name().to_owned());
        upstream.advise(&mut failure);
        upstream.mask(&mut failure);
        Some(failure)
    }

    /// Returns the record of attempt `number`, which came after a wait of `waited`.
    pub fn record(
        &self,
        number: u32,
        upstream: &Upstream,
        tally: &Tally,
        waited: Duration,
        failure: Option<&Failure>,
    ) -> AttemptRecord {
        let mut record = AttemptRecord::new(number, upstream.name(), self.phase, tally, waited);
        record.status = self.status();
        record.request_id = self.request_id.as_deref().map(|id| upstream.masked(id));
        if let Some(failure) = failure {
            record = record.failed(failure);
        }
        record.usage = self.answer.usage;
        record
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
    pub(super) is_cut: bool,
}

impl ResponseHead {
    /// Returns whether more of the body of an error may have come than was read.
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }
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
