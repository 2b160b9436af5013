//! The status at the end of a gRPC call.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::header::HeaderMap;
use prost::Message as _;

use super::one_line;
use crate::traces::otlp::{RetryInfo, RpcStatus};

/// The status at the end of a gRPC call.
#[derive(Debug)]
pub(super) struct GrpcStatus {
    code: u32,
    message: String,
    /// What the collector says of another try.
    retry: Option<RetryInfo>,
}

impl GrpcStatus {
    /// Reads the status from trailers, if they have one.
    pub(super) fn of(trailers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| trailers.get(name)?.to_str().ok();
        let code = text("grpc-status")?.parse().ok()?;
        Some(Self {
            code,
            message: one_line(text("grpc-message").unwrap_or_default()),
            retry: text("grpc-status-details-bin").and_then(retry_info),
        })
    }

    pub(super) const fn is_ok(&self) -> bool {
        self.code == 0
    }

    /// Returns whether the same may be sent again.
    pub(super) const fn may_pass(&self) -> bool {
        match self.code {
            CANCELLED | DEADLINE_EXCEEDED | ABORTED | OUT_OF_RANGE | UNAVAILABLE | DATA_LOSS => {
                true
            }
            // It may be the size of what was sent, which no wait changes.
            RESOURCE_EXHAUSTED => self.retry.is_some(),
            _ => false,
        }
    }

    /// Returns the wait that is asked for before that.
    pub(super) fn wait(&self) -> Option<Duration> {
        let delay = self.retry.as_ref()?.retry_delay?;
        let seconds = u64::try_from(delay.seconds).ok()?;
        let nanos = u32::try_from(delay.nanos).ok()?;
        Some(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into())))
    }
}

impl fmt::Display for GrpcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the collector answers with gRPC status {}", self.code)?;
        if self.message.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.message)
    }
}

fn retry_info(details: &str) -> Option<RetryInfo> {
    let bytes = STANDARD_NO_PAD.decode(details.trim_end_matches('=')).ok()?;
    let status = RpcStatus::decode(&*bytes).ok()?;
    let mut details = status.details.iter();
    let detail = details.find(|detail| detail.type_url.ends_with("/google.rpc.RetryInfo"))?;
    RetryInfo::decode(&*detail.value).ok()
}

const CANCELLED: u32 = 1;
const DEADLINE_EXCEEDED: u32 = 4;
const RESOURCE_EXHAUSTED: u32 = 8;
const ABORTED: u32 = 10;
const OUT_OF_RANGE: u32 = 11;
const UNAVAILABLE: u32 = 14;
const DATA_LOSS: u32 = 15;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::traces::otlp::{RetryDelay, RpcDetail};

    fn status(code: u32, delay: Option<RetryDelay>) -> GrpcStatus {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", code.into());
        trailers.insert("grpc-message", "no more".parse().unwrap());
        if delay.is_some() {
            let info = RetryInfo { retry_delay: delay };
            let details = RpcStatus {
                details: vec![RpcDetail {
                    type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
                    value: info.encode_to_vec(),
                }],
            };
            let text = base64::engine::general_purpose::STANDARD.encode(details.encode_to_vec());
            trailers.insert("grpc-status-details-bin", text.parse().unwrap());
        }
        GrpcStatus::of(&trailers).unwrap()
    }

    #[test]
    fn what_may_pass_is_worth_another_try_and_nothing_else() {
        let worth: Vec<_> = (0..=16)
            .filter(|code| status(*code, None).may_pass())
            .collect();

        assert_eq!(worth, [1, 4, 10, 11, 14, 15]);
        let text = status(3, None).to_string();
        assert_eq!(text, "the collector answers with gRPC status 3: no more");
    }

    #[test]
    fn a_collector_that_is_full_says_when_it_is_not() {
        let delay = RetryDelay {
            seconds: 2,
            nanos: 500_000_000,
        };

        for (code, may_pass) in [(8, true), (14, true), (3, false)] {
            let status = status(code, Some(delay));
            assert_eq!(status.wait(), Some(Duration::from_millis(2_500)));
            assert_eq!(status.may_pass(), may_pass);
        }
    }

    #[test]
    fn trailers_without_a_status_have_none() {
        assert!(GrpcStatus::of(&HeaderMap::new()).is_none());
    }
}
