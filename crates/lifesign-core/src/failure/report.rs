//! A failure as JSON.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::duration::whole_millis;
use crate::{Ages, BoundName, Failure, FailureCode, Phase, Stage};

/// The `failure` object of a call's JSON, field for field.
///
/// The fields are described in `docs/reference/call-json.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureReport {
    /// What happened.
    pub code: FailureCode,
    /// The bound that ran out; null if none did.
    pub bound: Option<BoundName>,
    /// The limit that was in force, in milliseconds.
    pub limit_ms: Option<u64>,
    /// The setting that raises the limit.
    pub setting: Option<String>,
    /// Where the limit came from: `default`, `catalog`, `profile`, `learned`, `FILE:LINE`, `env` or
    /// `call`.
    pub origin: Option<String>,
    /// Where the attempt stood.
    pub phase: Phase,
    /// One line for the operator.
    pub message: String,
    /// One sentence for the person who waits.
    pub sentence: String,
    /// What may help.
    pub hint: Option<String>,
    /// Whether making the call again may help.
    pub retryable: bool,
    /// Whether content had arrived.
    pub partial: bool,
    /// The HTTP status of the response.
    pub status: Option<u16>,
    /// The wait that the provider asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// When the limit resets, in UTC.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub resets_at: Option<Timestamp>,
    /// The part of connecting that failed.
    pub stage: Option<Stage>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The attempt that failed last, counted from 1.
    pub attempt: u32,
    /// How many attempts were allowed.
    pub of: u32,
    /// The age of each clock, in milliseconds.
    pub clocks_ms: Ages,
}

impl From<&Failure> for FailureReport {
    fn from(failure: &Failure) -> Self {
        Self {
            code: failure.code,
            bound: failure.bound,
            limit_ms: failure.limit.map(whole_millis),
            setting: failure.setting().map(str::to_owned),
            origin: failure.origin.as_ref().map(ToString::to_string),
            phase: failure.phase,
            message: failure.message(),
            sentence: failure.sentence(),
            hint: failure.hint(),
            retryable: failure.is_retryable(),
            partial: failure.partial,
            status: failure.status,
            retry_after_ms: failure.retry_after.map(whole_millis),
            resets_at: failure.resets_at,
            stage: failure.stage,
            request_id: failure.request_id.clone(),
            attempt: failure.attempt,
            of: failure.of,
            clocks_ms: failure.ages,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Origin;

    #[test]
    fn a_report_has_every_field_in_its_order() {
        let silence = Duration::from_secs(45);
        let mut failure = Failure::new(FailureCode::RawSilent, Phase::BeforeContent);
        failure.bound = Some(BoundName::RawSilence);
        failure.limit = Some(silence);
        failure.origin = Some(Origin::Call);
        failure.status = Some(200);
        failure.ages = Ages::of(|_| silence);

        let mut report = FailureReport::from(&failure);
        (report.message, report.sentence) = ("m".to_owned(), "s".to_owned());
        report.hint = None;
        report.resets_at = Some("2026-11-29T12:00:05Z".parse().unwrap());
        let text = serde_json::to_string(&report).unwrap();

        let expected = concat!(
            r#"{"code":"raw_silent","bound":"raw_silence","limit_ms":45000,"#,
            r#""setting":"bounds.raw_silence","origin":"call","phase":"before_content","#,
            r#""message":"m","sentence":"s","hint":null,"retryable":true,"partial":false,"#,
            r#""status":200,"retry_after_ms":null,"resets_at":"2026-11-29T12:00:05Z","#,
            r#""stage":null,"request_id":null,"attempt":1,"of":1,"#,
            r#""clocks_ms":{"raw":45000,"event":45000,"content":45000,"output":45000}}"#,
        );
        assert_eq!(text, expected);
        assert_eq!(
            serde_json::from_str::<FailureReport>(&text).unwrap(),
            report
        );
    }
}
