//! The head of the response.

use std::time::Duration;

use http::header::LOCATION;
use http::{HeaderMap, HeaderName, HeaderValue, response};
use lifesign_core::Hints;

use super::ERROR_BODY_BYTES;
use super::end::ResponseHead;
use crate::transport::ContentDecoder;

/// What the head of the response said, and what its body goes through.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) content: Option<ContentDecoder>,
    /// The body of an answer that is an error, and until when it is read.
    pub(super) error_body: Option<(Vec<u8>, Duration)>,
}

impl Head {
    pub(super) fn new(
        head: &response::Parts,
        content: Option<ContentDecoder>,
        error_body: Option<(Vec<u8>, Duration)>,
    ) -> Self {
        Self {
            status: head.status.as_u16(),
            headers: copied(&head.headers),
            content,
            error_body,
        }
    }

    /// Takes the headers, but for copies of those that something is read of at the end.
    pub(super) fn take_headers(&mut self) -> HeaderMap {
        let is_read = |name: &HeaderName| {
            Hints::may_be_in(name.as_str()) || REQUEST_IDS.contains(&name.as_str())
        };
        let read: Vec<_> = self
            .headers
            .iter()
            .filter(|(name, _)| is_read(name))
            .collect();
        let mut kept = HeaderMap::with_capacity(read.len());
        for (name, value) in read {
            kept.append(name.clone(), value.clone());
        }
        std::mem::replace(&mut self.headers, kept)
    }

    /// Returns what is left of the response: status, headers, and the body of an error.
    pub(super) fn into_response(self) -> ResponseHead {
        let error_body = self.error_body.map(|(body, _)| body);
        ResponseHead {
            status: self.status,
            headers: self.headers,
            is_cut: error_body
                .as_ref()
                .is_some_and(|body| body.len() >= ERROR_BODY_BYTES),
            error_body,
        }
    }

    /// Returns where a redirect leads, without what may be secret in it.
    pub(super) fn redirects_to(&self) -> Option<String> {
        let target = self
            .headers
            .get(LOCATION)
            .filter(|_| (300..400).contains(&self.status))?;
        let target = target.to_str().ok()?.split(['?', '#']).next()?;
        Some(target.chars().take(TARGET_LIMIT).collect())
    }

    /// Returns the provider's id of the request, under whichever name it goes.
    pub(super) fn request_id(&self) -> Option<String> {
        let known = self.headers.iter().filter_map(|(name, value)| {
            let rank = REQUEST_IDS.iter().position(|known| name == known)?;
            Some((rank, value))
        });
        let (_, id) = known.min_by_key(|(rank, _)| *rank)?;
        Some(id.to_str().ok()?.chars().take(REQUEST_ID_LIMIT).collect())
    }
}

/// Copies `headers` out of the connection's read buffer.
///
/// As slices of it they would keep the whole buffer for as long as the answer lasts, and the
/// connection would need a second one.
fn copied(headers: &HeaderMap) -> HeaderMap {
    let mut copied = HeaderMap::with_capacity(headers.len());
    copied.extend(headers.iter().filter_map(|(name, value)| {
        let value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
        Some((name.clone(), value))
    }));
    copied
}

/// A longer target says no more to anyone.
const TARGET_LIMIT: usize = 200;

/// A longer id of a request is no id.
const REQUEST_ID_LIMIT: usize = 200;

/// The names under which providers send their id of a request, the provider's own before those of
/// what stands in front of it. Sources: the providers' documents and recorded responses.
const REQUEST_IDS: [&str; 12] = [
    "x-request-id",
    "request-id",
    "x-ds-trace-id",
    "apim-request-id",
    "x-ms-client-request-id",
    "x-amzn-requestid",
    "x-generation-id",
    "x-kong-request-id",
    "x-debug-trace-id",
    "inference-id",
    "x-conversation-id",
    "cf-ray",
];

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Response;

    use super::*;

    #[test]
    fn headers_let_go_of_the_buffer_that_they_were_read_into() {
        let buffer = Bytes::from(b"one two \xFF".to_vec());
        let value = |range| HeaderValue::from_maybe_shared(buffer.slice(range)).unwrap();
        let mut response = Response::new(());
        for range in [0..3, 4..7, 8..9] {
            response.headers_mut().append("x-request-id", value(range));
        }
        let (parts, ()) = response.into_parts();

        let head = Head::new(&parts, None, None);

        assert_eq!(head.headers, parts.headers);
        drop(parts);
        assert!(buffer.is_unique());
    }

    #[test]
    fn headers_that_are_taken_leave_what_is_read_of_them_at_the_end() {
        let mut response = Response::new(());
        let read = [
            ("date", "Sun, 29 Nov 2026 12:00:00 GMT"),
            ("request-id", "req-1"),
            ("retry-after", "1"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "2s"),
            ("x-should-retry", "false"),
        ];
        for (name, value) in read.into_iter().chain([("server", "it")]) {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        let (parts, ()) = response.into_parts();
        let mut head = Head::new(&parts, None, None);

        assert_eq!(head.take_headers(), parts.headers);

        let mut left: Vec<_> = head.headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, read.map(|(name, _)| name));
        assert_eq!(head.request_id().as_deref(), Some("req-1"));
    }

    #[test]
    fn a_body_as_long_as_is_read_was_cut() {
        let (parts, ()) = Response::new(()).into_parts();
        for (len, is_cut) in [(ERROR_BODY_BYTES - 1, false), (ERROR_BODY_BYTES, true)] {
            let body = Some((vec![0; len], Duration::ZERO));
            let response = Head::new(&parts, None, body).into_response();
            assert_eq!(response.is_cut(), is_cut);
        }
        let response = Head::new(&parts, None, None).into_response();
        assert!(!response.is_cut());
    }
}
