//! What each attempt amounted to, as it is written down.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration::whole_millis;
use crate::{Ages, BoundName, Failure, FailureCode, Heartbeats, Phase, Tally, Usage};

/// One element of `attempts` in a call's JSON, field for field.
///
/// Times named `..._ms` count from the start of the call. The fields are described in
/// `docs/reference/call-json.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttemptRecord {
    /// The attempt, counted from 1.
    pub n: u32,
    /// The upstream's name, or its host.
    pub upstream: String,
    /// `completed`, or a failure code.
    pub outcome: AttemptOutcome,
    /// The bound that ran out; null if none did.
    pub bound: Option<BoundName>,
    /// Where the attempt stood when it ended.
    pub phase: Phase,
    /// The HTTP status; null if no response headers came.
    pub status: Option<u16>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The length of the wait before this attempt.
    pub waited_ms: u64,
    /// When the last byte of the request had been sent.
    pub sent_ms: Option<u64>,
    /// When the response headers came.
    pub headers_ms: Option<u64>,
    /// When the first byte of the body came.
    pub first_byte_ms: Option<u64>,
    /// When the first content came.
    pub first_content_ms: Option<u64>,
    /// When the attempt ended.
    pub ended_ms: u64,
    /// The longest gap of each clock.
    pub longest_gap_ms: Ages,
    /// Bytes of the body as they came, compressed or not.
    pub bytes: u64,
    /// Whole frames, heartbeats included.
    pub frames: u64,
    /// Heartbeats by origin.
    pub heartbeats: Heartbeats,
    /// Notices that the content was quiet.
    pub notices: u32,
    /// How late we were ourselves.
    pub late_ms: u64,
    /// The wait that the provider asked for; null if it asked for none.
    pub retry_after_ms: Option<u64>,
    /// Tokens of this attempt; null when unknown.
    pub usage: Option<Usage>,
}

impl AttemptRecord {
    /// Returns the record of an attempt that ended in `phase` and amounted to `tally`.
    ///
    /// `waited` is the wait before it. The attempt is taken to be whole and to have told no usage;
    /// [`failed`](Self::failed) and the fields say otherwise.
    pub fn new(n: u32, upstream: &str, phase: Phase, tally: &Tally, waited: Duration) -> Self {
        Self {
            n,
            upstream: upstream.to_owned(),
            outcome: AttemptOutcome::Completed,
            bound: None,
            phase,
            status: None,
            request_id: None,
            waited_ms: whole_millis(waited),
            sent_ms: tally.sent.map(whole_millis),
            headers_ms: tally.headers.map(whole_millis),
            first_byte_ms: tally.first_byte.map(whole_millis),
            first_content_ms: tally.first_content.map(whole_millis),
            ended_ms: whole_millis(tally.ended.unwrap_or_default()),
            longest_gap_ms: tally.longest_gap,
            bytes: tally.bytes,
            frames: tally.frames,
            heartbeats: tally.heartbeats,
            notices: tally.notices,
            late_ms: whole_millis(tally.late),
            retry_after_ms: None,
            usage: None,
        }
    }

    /// Returns the record with what `failure` tells.
    ///
    /// Take it before the failure is settled: an attempt that was rate limited is recorded so, even
    /// if the call is then given up as exhausted.
    #[must_use]
    pub fn failed(self, failure: &Failure) -> Self {
        Self {
            outcome: AttemptOutcome::Failed(failure.code),
            bound: failure.bound,
            phase: failure.phase,
            status: failure.status,
            request_id: failure.request_id.clone(),
            retry_after_ms: failure.retry_after.map(whole_millis),
            ..self
        }
    }
}

/// How an attempt ended: one flat word in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// The answer is whole.
    Completed,
    /// The attempt failed with this code.
    #[serde(untagged)]
    Failed(FailureCode),
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const EXPECTED: &str = concat!(
        r#"{"n":2,"upstream":"api.example.com","outcome":"raw_silent","bound":"raw_silence","#,
        r#""phase":"before_content","status":200,"request_id":null,"waited_ms":750,"sent_ms":1,"#,
        r#""headers_ms":3,"first_byte_ms":null,"first_content_ms":null,"ended_ms":45004,"#,
        r#""longest_gap_ms":{"raw":45000,"event":45000,"content":45000,"output":45000},"bytes":0,"#,
        r#""frames":0,"heartbeats":{"provider":0,"comment":0,"proxy":0},"notices":1,"late_ms":2,"#,
        r#""retry_after_ms":null,"usage":null}"#,
    );

    #[test]
    fn a_record_has_every_field_in_its_order() {
        let millis = Duration::from_millis;
        let tally = Tally {
            sent: Some(millis(1)),
            headers: Some(millis(3)),
            ended: Some(millis(45_004)),
            longest_gap: Ages::of(|_| millis(45_000)),
            notices: 1,
            late: millis(2),
            ..Tally::default()
        };
        let mut failure = Failure::new(FailureCode::RawSilent, Phase::BeforeContent);
        failure.bound = Some(BoundName::RawSilence);
        failure.status = Some(200);

        let record = AttemptRecord::new(2, "api.example.com", Phase::Ended, &tally, millis(750))
            .failed(&failure);

        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(text, EXPECTED);
        assert_eq!(
            serde_json::from_str::<AttemptRecord>(&text).unwrap(),
            record
        );
    }

    #[test]
    fn an_outcome_is_one_word() {
        let words = [
            (AttemptOutcome::Completed, "\"completed\""),
            (
                AttemptOutcome::Failed(FailureCode::Overloaded),
                "\"overloaded\"",
            ),
        ];

        for (outcome, word) in words {
            assert_eq!(serde_json::to_string(&outcome).unwrap(), word);
            assert_eq!(
                serde_json::from_str::<AttemptOutcome>(word).unwrap(),
                outcome
            );
        }
    }
}
