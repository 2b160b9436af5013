//! Recorded refusals of real providers.

use std::time::Duration;

use jiff::Timestamp;
use lifesign_core::{BodyHints, FailureCode, Hints};
use lifesign_wire::ProviderError;

use crate::corpus::recorded;

/// A recorded response in HTTP/1.1's own form.
struct Response<'r> {
    status: u16,
    headers: Vec<(&'r str, &'r [u8])>,
    body: &'r [u8],
}

impl<'r> Response<'r> {
    fn of(bytes: &'r [u8]) -> Self {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let mut read = 0;
        let mut next = || {
            let line = lines.next().unwrap_or_default();
            read += line.len();
            (line.trim_ascii(), read)
        };
        let first = std::str::from_utf8(next().0).unwrap();
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let (line, read) = next();
            if line.is_empty() {
                let body = &bytes[read..];
                return Self {
                    status,
                    headers,
                    body,
                };
            }
            let (name, value) = std::str::from_utf8(line).unwrap().split_once(": ").unwrap();
            headers.push((name, value.as_bytes()));
        }
    }
}

#[test]
fn recorded_refusals_are_what_their_providers_meant() {
    for recorded in recorded("http/", ".http") {
        let file = recorded
            .file
            .trim_start_matches("http/")
            .trim_end_matches(".http");
        let Some((_, code, wait_ms, message)) = EXPECTED.iter().find(|(name, ..)| *name == file)
        else {
            continue;
        };
        let response = Response::of(&recorded.bytes);

        let error = ProviderError::of_body(response.status, response.body);
        let hints = Hints::read(
            response.status,
            response.headers.iter().copied(),
            error.hints(),
            Timestamp::UNIX_EPOCH,
        );

        assert_eq!(error.code, *code, "{file}");
        assert_eq!(error.status, Some(response.status), "{file}");
        assert!(
            error.message.starts_with(message),
            "{file}: {}",
            error.message
        );
        assert_eq!(hints.wait, wait_ms.map(Duration::from_millis), "{file}");
        let is_refused = response
            .headers
            .iter()
            .any(|(name, _)| *name == "x-should-retry");
        assert_eq!(hints.should_retry, is_refused.then_some(false), "{file}");
    }
}

#[test]
fn no_recorded_refusal_is_left_out() {
    let refusals = recorded("http/", ".http");
    let refusals = refusals
        .iter()
        .filter(|recorded| Response::of(&recorded.bytes).status != 200);
    let unknown: Vec<_> = refusals
        .map(|recorded| {
            recorded
                .file
                .trim_start_matches("http/")
                .trim_end_matches(".http")
        })
        .filter(|file| EXPECTED.iter().all(|(name, ..)| name != file))
        .collect();

    assert_eq!(unknown, Vec::<&str>::new());
}

#[test]
fn hints_of_a_success_ask_for_nothing() {
    for recorded in recorded("http/", ".http") {
        let response = Response::of(&recorded.bytes);
        if response.status == 200 {
            let headers = response.headers.iter().copied();
            let hints = Hints::read(200, headers, BodyHints::default(), Timestamp::UNIX_EPOCH);
            assert_eq!(hints, Hints::default(), "{}", recorded.file);
        }
    }
}

/// The file, the code, the wait in milliseconds, and how the message begins.
const EXPECTED: [(&str, FailureCode, Option<u64>, &str); 19] = [
    (
        "anthropic-400-too-long",
        FailureCode::Rejected,
        None,
        "prompt is too long: 3333404 tokens",
    ),
    (
        "anthropic-401",
        FailureCode::Rejected,
        None,
        "invalid x-api-key",
    ),
    (
        "azure-429",
        FailureCode::RateLimited,
        Some(1_000),
        "Your requests to grok-4-1-fast",
    ),
    (
        "bedrock-400",
        FailureCode::Rejected,
        None,
        "The provided model identifier is invalid.",
    ),
    (
        "chatgpt-401",
        FailureCode::Rejected,
        None,
        "Could not parse your authentication token.",
    ),
    (
        "cohere-404",
        FailureCode::Rejected,
        None,
        "model 'command-does-not-exist' not found",
    ),
    (
        "deepseek-400-octet-stream",
        FailureCode::Rejected,
        None,
        "This model's maximum context length",
    ),
    (
        "doubleword-400",
        FailureCode::Rejected,
        None,
        "Validation: Temperature must be between",
    ),
    (
        "gemini-404-as-event-stream",
        FailureCode::Rejected,
        None,
        "models/this-model-does-not-exist",
    ),
    (
        "gemini-429-retryinfo",
        FailureCode::RateLimited,
        Some(48_000),
        "You exceeded your current quota",
    ),
    (
        "groq-400-tool-use-failed",
        FailureCode::Rejected,
        None,
        "Tool call validation failed",
    ),
    (
        "llamacpp-400-context",
        FailureCode::Rejected,
        None,
        "request (2009 tokens) exceeds",
    ),
    (
        "mistral-401",
        FailureCode::Rejected,
        None,
        "Invalid API Key",
    ),
    (
        "ollama-404",
        FailureCode::Rejected,
        None,
        "model 'nonexistent-model:latest' not found",
    ),
    (
        "openai-404",
        FailureCode::Rejected,
        None,
        "The model `this-model-does-not-exist-12345`",
    ),
    (
        "openrouter-400",
        FailureCode::Rejected,
        None,
        "This endpoint's maximum context length",
    ),
    (
        "openrouter-429",
        FailureCode::RateLimited,
        None,
        "Provider returned error: google/gemini",
    ),
    (
        "perplexity-401",
        FailureCode::Rejected,
        None,
        "Invalid API key provided.",
    ),
    (
        "xai-400-bad-key",
        FailureCode::Rejected,
        None,
        "Incorrect API key provided.",
    ),
];
