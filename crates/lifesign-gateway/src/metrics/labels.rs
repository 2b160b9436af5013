//! The labels of each metric. Their values come from [`Names`](super::names::Names) or are words of
//! ours, so that a metric has no more series than the settings give it.

use prometheus_client::encoding::EncodeLabelSet;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfUpstream {
    pub(super) upstream: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfOutcome {
    pub(super) upstream: String,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfKey {
    pub(super) key: String,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfCode {
    pub(super) upstream: String,
    pub(super) code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfBound {
    pub(super) upstream: String,
    pub(super) bound: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfKind {
    pub(super) upstream: String,
    pub(super) kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfOrigin {
    pub(super) upstream: String,
    pub(super) origin: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfReason {
    pub(super) upstream: String,
    pub(super) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfClock {
    pub(super) upstream: String,
    pub(super) clock: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfState {
    pub(super) upstream: String,
    pub(super) state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfBreaker {
    pub(super) upstream: String,
    pub(super) breaker: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfBreakerState {
    pub(super) upstream: String,
    pub(super) breaker: &'static str,
    pub(super) state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfForm {
    pub(super) form: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfRefusal {
    pub(super) code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfJournal {
    pub(super) state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfBuild {
    pub(super) version: &'static str,
}

/// What a call asked for, as its caller sees it.
#[expect(
    clippy::struct_field_names,
    reason = "the fields are the labels, whose names are OpenTelemetry's"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfAnswer {
    pub(super) gen_ai_operation_name: &'static str,
    pub(super) gen_ai_provider_name: &'static str,
    pub(super) gen_ai_request_model: String,
}

/// The same, with what it failed with; empty where it did not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfRequest {
    pub(super) gen_ai_operation_name: &'static str,
    pub(super) gen_ai_provider_name: &'static str,
    pub(super) gen_ai_request_model: String,
    pub(super) error_type: Option<&'static str>,
}

/// What an attempt asked of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfOperation {
    pub(super) gen_ai_operation_name: &'static str,
    pub(super) gen_ai_provider_name: &'static str,
    pub(super) gen_ai_request_model: String,
    pub(super) upstream: String,
}

/// The same, with what it failed with; empty where it did not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfEndedOperation {
    pub(super) gen_ai_operation_name: &'static str,
    pub(super) gen_ai_provider_name: &'static str,
    pub(super) gen_ai_request_model: String,
    pub(super) upstream: String,
    pub(super) error_type: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfTokens {
    pub(super) gen_ai_operation_name: &'static str,
    pub(super) gen_ai_provider_name: &'static str,
    pub(super) gen_ai_request_model: String,
    pub(super) gen_ai_token_type: &'static str,
    pub(super) upstream: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfDiscarded {
    pub(super) upstream: String,
    pub(super) gen_ai_token_type: &'static str,
}
