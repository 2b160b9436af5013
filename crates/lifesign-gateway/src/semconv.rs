//! Names of OpenTelemetry's conventions for generative AI, as they were on 2026-11-30.
//!
//! The conventions moved to a repository of their own
//! (<https://github.com/open-telemetry/semantic-conventions-genai>) and are still in development, so
//! the strings stand here instead of coming from a crate whose constants are all deprecated. In
//! Prometheus a dot is an underscore, and the unit `s` is `_seconds`; `{token}` adds nothing.

use crate::config::GatewayUpstream;

/// `gen_ai.server.request.duration`, in seconds.
pub(crate) const SERVER_REQUEST_DURATION: &str = "gen_ai_server_request_duration";
/// `gen_ai.server.time_to_first_token`, in seconds.
pub(crate) const SERVER_TIME_TO_FIRST_TOKEN: &str = "gen_ai_server_time_to_first_token";
/// `gen_ai.server.time_per_output_token`, in seconds.
pub(crate) const SERVER_TIME_PER_OUTPUT_TOKEN: &str = "gen_ai_server_time_per_output_token";
/// `gen_ai.client.operation.duration`, in seconds.
pub(crate) const CLIENT_OPERATION_DURATION: &str = "gen_ai_client_operation_duration";
/// `gen_ai.client.operation.time_to_first_chunk`, in seconds.
pub(crate) const CLIENT_TIME_TO_FIRST_CHUNK: &str = "gen_ai_client_operation_time_to_first_chunk";
/// `gen_ai.client.token.usage`, in tokens.
pub(crate) const CLIENT_TOKEN_USAGE: &str = "gen_ai_client_token_usage";

/// Values of `gen_ai.token.type`.
pub(crate) const INPUT: &str = "input";
pub(crate) const OUTPUT: &str = "output";

/// Returns `gen_ai.operation.name` of what is asked for under a path; nothing where it is no work of
/// a model's.
pub(crate) fn operation(route: &str) -> Option<&'static str> {
    let path = route.strip_prefix("/v1").unwrap_or(route);
    match path {
        "/chat/completions" | "/messages" | "/responses" => Some("chat"),
        "/completions" => Some("text_completion"),
        "/embeddings" => Some("embeddings"),
        _ => None,
    }
}

/// Returns `gen_ai.provider.name` of an upstream.
pub(crate) fn provider_of(upstream: &GatewayUpstream) -> &'static str {
    lifesign::records::provider_of(upstream.wire(), upstream.client.base_url.host())
}

/// The bounds that the conventions advise for durations, carried on to the length of calls that
/// think.
pub(crate) const DURATION: [f64; 19] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84,
    327.68, 655.36, 1_310.72, 2_621.44,
];
/// The bounds that the conventions advise for the first token, carried on in the same way.
pub(crate) const FIRST_TOKEN: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 320.0, 640.0,
];
/// The bounds that the conventions advise for each further token.
pub(crate) const PER_TOKEN: [f64; 13] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
];
/// The bounds that the conventions advise for tokens.
pub(crate) const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

#[cfg(test)]
mod tests {
    use lifesign_wire::Wire;

    use super::*;

    #[test]
    fn each_call_of_a_wire_is_a_chat_and_what_passes_through_is_none() {
        for wire in Wire::ALL {
            let route = format!("/v1{}", wire.path());

            assert_eq!(operation(&route), Some("chat"), "{route}");
            assert_eq!(operation(wire.path()), Some("chat"), "{route}");
        }
        assert_eq!(operation("/v1/embeddings"), Some("embeddings"));
        assert_eq!(operation("/v1/models"), None);
        assert_eq!(operation("/v1/messages/count_tokens"), None);
    }
}
