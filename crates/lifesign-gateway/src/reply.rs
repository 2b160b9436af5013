//! Responses: what the caller sees of how a call goes.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use lifesign_core::{Failure, FailureCode, Phase};
use lifesign_wire::{ErrorOut, Forwarded, Wire};

use crate::call::{Call, Fault};
use crate::guest::caller_headers;
use crate::refusal::Refusal;

/// Returns the head of an answer that streams.
pub(crate) fn stream(call: &mut Call) -> Response<Bytes> {
    let mut response = passing(call);
    mark_stream(response.headers_mut());
    response
}

/// Returns the head of an answer that passes as it comes.
pub(crate) fn passing(call: &mut Call) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    if let Some((status, headers)) = call.take_headers() {
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        *response.headers_mut() = caller_headers(headers);
    }
    name(call, response.headers_mut());
    response
}

/// Returns the head of a stream of which nothing is known but that it is waited for.
pub(crate) fn early_stream(call: &Call) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    mark_stream(response.headers_mut());
    name(call, response.headers_mut());
    response
}

/// Returns the head of a JSON body of which nothing is known but that it is waited for.
pub(crate) fn early_json(call: &Call) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    name(call, headers);
    response
}

/// Returns a whole answer.
pub(crate) fn whole(call: &mut Call, body: Bytes) -> Response<Bytes> {
    let mut response = passing(call);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    *response.body_mut() = body;
    response
}

/// Returns a JSON body of our own.
pub(crate) fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// Returns the failure of a call whose response has not begun.
///
/// A status that the upstream sent passes unchanged with its body and hints.
pub(crate) fn failure(call: &Call, fault: &Fault) -> Response<Bytes> {
    let mut response = match passes(fault) {
        Some((status, body)) => {
            let mut response = passing_failure(status, fault);
            *response.body_mut() = body;
            response
        }
        None => own_failure(call.order().wire, fault),
    };
    let provider = fault.provider.as_ref();
    // A gateway above says so in its headers, unless it had sent them already.
    let was_repeated_above =
        provider.is_some_and(|error| error.is_final) && passes(fault).is_none();
    let repeating_costs = fault.attempts > 1 || fault.is_committed || was_repeated_above;
    let headers = response.headers_mut();
    if repeating_costs {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    name(call, headers);
    response
}

/// Returns the status and body of the upstream's own refusal, if that is the failure.
fn passes(fault: &Fault) -> Option<(u16, Bytes)> {
    let head = fault.head.as_ref()?;
    let body = head.error_body.as_ref()?;
    let is_answer = head.status >= 400 || head.status == StatusCode::NOT_MODIFIED.as_u16();
    (!head.is_cut() && is_answer && fault.provider.is_some())
        .then(|| (head.status, Bytes::copy_from_slice(body)))
}

fn passing_failure(status: u16, fault: &Fault) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    if let Some(head) = &fault.head {
        *response.headers_mut() = caller_headers(head.headers.clone());
    }
    response
}

fn own_failure(wire: Wire, fault: &Fault) -> Response<Bytes> {
    let status = status_of(wire, fault);
    let mut response = Response::new(error_body(wire, fault));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    if let Some(wait) = fault.failure.retry_after {
        headers.insert(RETRY_AFTER, seconds(wait));
    }
    response
}

/// Returns the body of a failure in a dialect's own words.
pub(crate) fn error_body(wire: Wire, fault: &Fault) -> Bytes {
    wire.error_body(&error_out(wire, fault)).into()
}

/// Returns the events with which a stream ends in a failure. Its caller has what arrived.
pub(crate) fn error_frame(wire: Wire, fault: &Fault, forwarded: &Forwarded<'_>) -> Bytes {
    let error = ErrorOut {
        partial: None,
        ..error_out(wire, fault)
    };
    wire.error_frame(&error, forwarded).into()
}

/// Returns the frame that says that a whole answer could not be told as events.
pub(crate) fn unreadable_frame(wire: Wire) -> Bytes {
    let mut failure = Failure::new(FailureCode::Unreadable, Phase::AfterContent);
    failure.detail = Some("a whole answer came that cannot be told as a stream".to_owned());
    let error = ErrorOut::new(StatusCode::BAD_GATEWAY.as_u16(), &failure);
    wire.error_frame(&error, &Forwarded::default()).into()
}

/// Returns a refusal in a dialect's own words.
pub(crate) fn refusal(wire: Wire, refusal: &Refusal) -> Response<Bytes> {
    let code = match refusal.status {
        StatusCode::PAYLOAD_TOO_LARGE => FailureCode::TooLarge,
        StatusCode::TOO_MANY_REQUESTS => FailureCode::RateLimited,
        _ => FailureCode::Rejected,
    };
    let mut failure = Failure::new(code, Phase::Queued);
    failure.detail = Some(refusal.message.clone().into_owned());
    failure.stated_status = Some(refusal.status.as_u16());
    let error = ErrorOut {
        code: Some(refusal.code),
        ..ErrorOut::new(refusal.status.as_u16(), &failure)
    };
    let mut response = Response::new(Bytes::from(wire.error_body(&error)));
    *response.status_mut() = refusal.status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn error_out(wire: Wire, fault: &Fault) -> ErrorOut<'_> {
    ErrorOut {
        provider: fault.provider.as_ref(),
        partial: fault.partial.as_ref().filter(|partial| !partial.is_empty()),
        ..ErrorOut::new(status_of(wire, fault), &fault.failure)
    }
}

/// Returns the status that a failure has, or would have had.
fn status_of(wire: Wire, fault: &Fault) -> u16 {
    let stated = fault.failure.http_status(wire == Wire::ANTHROPIC);
    match stated {
        // Somebody else has ended the call, and its caller waits.
        Some(499) => StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        // With a redirect a caller would go elsewhere, with its key and its prompt.
        Some(status) if status >= 400 => status,
        _ => StatusCode::BAD_GATEWAY.as_u16(),
    }
}

fn mark_stream(headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
}

/// Says which call it is, and who answered.
fn name(call: &Call, headers: &mut HeaderMap) {
    if let Ok(id) = HeaderValue::from_str(call.id()) {
        headers.insert(CALL, id);
    }
    let upstream = call.upstream_name().map(HeaderValue::from_str);
    if let Some(Ok(upstream)) = upstream {
        headers.insert(UPSTREAM, upstream);
    }
    let model = call
        .upstream_model()
        .filter(|model| model.len() <= LONGEST_NAME);
    let model = model.map(HeaderValue::from_str);
    if let Some(Ok(model)) = model {
        headers.insert(MODEL, model);
    }
}

/// Returns a wait as whole seconds, never shorter than it is.
pub(crate) fn seconds(wait: Duration) -> HeaderValue {
    let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    HeaderValue::from(whole)
}

/// A longer name of a model is no name, and some readers take no longer headers.
pub(crate) const LONGEST_NAME: usize = 256;

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const CALL: HeaderName = HeaderName::from_static("x-lifesign-call");
const MODEL: HeaderName = HeaderName::from_static("x-lifesign-model");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const UPSTREAM: HeaderName = HeaderName::from_static("x-lifesign-upstream");
