//! The labels of each metric. Their values come from [`Names`](super::names::Names) or are words of
//! ours, so that a metric has no more series than the settings give it.

use prometheus_client::encoding::EncodeLabelSet;

use super::names::Name;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfUpstream {
    pub(crate) upstream: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfOutcome {
    pub(crate) upstream: Name,
    pub(crate) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfKey {
    pub(crate) key: Name,
    pub(crate) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfCode {
    pub(crate) upstream: Name,
    pub(crate) code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfBound {
    pub(crate) upstream: Name,
    pub(crate) bound: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfKind {
    pub(crate) upstream: Name,
    pub(crate) kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfOrigin {
    pub(crate) upstream: Name,
    pub(crate) origin: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfReason {
    pub(crate) upstream: Name,
    pub(crate) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfClock {
    pub(crate) upstream: Name,
    pub(crate) clock: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfState {
    pub(crate) upstream: Name,
    pub(crate) state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfBreaker {
    pub(crate) upstream: Name,
    pub(crate) breaker: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfBreakerState {
    pub(crate) upstream: Name,
    pub(crate) breaker: &'static str,
    pub(crate) state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfForm {
    pub(crate) form: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfRefusal {
    pub(crate) code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfJournal {
    pub(crate) state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfSending {
    pub(crate) state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfSpan {
    pub(crate) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfBuild {
    pub(crate) version: &'static str,
}

/// What a call asked for, as its caller sees it.
#[expect(
    clippy::struct_field_names,
    reason = "the fields are the labels, whose names are OpenTelemetry's"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfAnswer {
    pub(crate) gen_ai_operation_name: &'static str,
    pub(crate) gen_ai_provider_name: &'static str,
    pub(crate) gen_ai_request_model: Name,
}

/// The same, with what it failed with; empty where it did not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfRequest {
    pub(crate) gen_ai_operation_name: &'static str,
    pub(crate) gen_ai_provider_name: &'static str,
    pub(crate) gen_ai_request_model: Name,
    pub(crate) error_type: Option<&'static str>,
}

/// What an attempt asked of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfOperation {
    pub(crate) gen_ai_operation_name: &'static str,
    pub(crate) gen_ai_provider_name: &'static str,
    pub(crate) gen_ai_request_model: Name,
    pub(crate) upstream: Name,
}

/// The same, with what it failed with; empty where it did not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfEndedOperation {
    pub(crate) gen_ai_operation_name: &'static str,
    pub(crate) gen_ai_provider_name: &'static str,
    pub(crate) gen_ai_request_model: Name,
    pub(crate) upstream: Name,
    pub(crate) error_type: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfTokens {
    pub(crate) gen_ai_operation_name: &'static str,
    pub(crate) gen_ai_provider_name: &'static str,
    pub(crate) gen_ai_request_model: Name,
    pub(crate) gen_ai_token_type: &'static str,
    pub(crate) upstream: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfDiscarded {
    pub(crate) upstream: Name,
    pub(crate) gen_ai_token_type: &'static str,
}
