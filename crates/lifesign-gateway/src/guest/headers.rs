//! Which headers pass, in both directions. What is not named here passes, unknown ones included.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Returns the headers of a request that go on to the upstream.
///
/// Those that describe the body, the connection or the way here are made anew. Credentials pass:
/// whether they may is up to the upstream's setting, see [`remove_credentials`].
pub(crate) fn upstream_headers(headers: &HeaderMap) -> HeaderMap {
    let hops = Hops::of(headers);
    let mut passed = HeaderMap::with_capacity(headers.len() + ADDED);
    for (name, value) in headers {
        let is_ours = matches!(
            *name,
            header::ACCEPT_ENCODING
                | header::CONTENT_ENCODING
                | header::CONTENT_LENGTH
                | header::COOKIE
                | header::EXPECT
                | header::FORWARDED
                | header::HOST
                | header::VIA
        ) || is_private(name.as_str());
        // Copied out of the connection's read buffer: as slices of it they would keep the whole
        // buffer for as long as the call lasts, and the connection would need a second one.
        if !is_ours
            && !hops.are_in(name)
            && let Ok(mut copied) = HeaderValue::from_bytes(value.as_bytes())
        {
            copied.set_sensitive(value.is_sensitive());
            passed.append(name, copied);
        }
    }
    passed
}

/// Returns the headers of an upstream's response that go on to the caller.
///
/// What a provider says about its own host is not true of ours, and the body is framed anew.
pub(crate) fn caller_headers(headers: HeaderMap) -> HeaderMap {
    let hops = Hops::of(&headers);
    let mut passed = HeaderMap::with_capacity(headers.len() + ADDED);
    let mut passes = None;
    for (name, value) in headers {
        // Of several values only the first comes with their name.
        if let Some(name) = name {
            let is_ours = matches!(
                name,
                header::ALT_SVC
                    | header::CONTENT_ENCODING
                    | header::CONTENT_LENGTH
                    | header::SET_COOKIE
                    | header::STRICT_TRANSPORT_SECURITY
            );
            passes = (!is_ours && !hops.are_in(&name)).then_some(name);
        }
        if let Some(name) = &passes {
            passed.append(name.clone(), value);
        }
    }
    passed
}

/// Removes what a caller showed as its key.
pub(crate) fn remove_credentials(headers: &mut HeaderMap) {
    for name in CREDENTIALS {
        headers.remove(name);
    }
}

/// Keeps nothing but what a caller showed as its key.
pub(crate) fn keep_credentials(headers: &mut HeaderMap) {
    let mut kept = HeaderMap::with_capacity(1);
    for (name, value) in headers.iter() {
        if CREDENTIALS.contains(&name.as_str()) {
            kept.append(name, value.clone());
        }
    }
    *headers = kept;
}

/// Which headers are about one connection (RFC 9110, 7.6.1), by what `Connection` says of them.
struct Hops(Vec<HeaderValue>);

impl Hops {
    fn of(headers: &HeaderMap) -> Self {
        Self(
            headers
                .get_all(header::CONNECTION)
                .iter()
                .cloned()
                .collect(),
        )
    }

    fn are_in(&self, name: &HeaderName) -> bool {
        is_hop_by_hop(name) || self.names(name.as_str().as_bytes())
    }

    fn names(&self, name: &[u8]) -> bool {
        let mut named = self
            .0
            .iter()
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        named.any(|named| named.trim_ascii().eq_ignore_ascii_case(name))
    }
}

/// What keys are sent in; the last is Google's form of it.
const CREDENTIALS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// How many headers of ours are mostly added to those that pass.
const ADDED: usize = 8;

/// Returns whether a header is about one connection whatever `Connection` says.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONNECTION
            | header::PROXY_AUTHENTICATE
            | header::PROXY_AUTHORIZATION
            | header::TE
            | header::TRAILER
            | header::TRANSFER_ENCODING
            | header::UPGRADE
    ) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Returns whether a header tells the way to us, or is addressed to us.
fn is_private(name: &str) -> bool {
    name.starts_with("x-forwarded-") || name.starts_with("x-lifesign-") || name == "x-real-ip"
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use pretty_assertions::assert_eq;

    use super::*;

    fn headers(names: &[&'static str]) -> HeaderMap {
        let names = names.iter().map(|name| HeaderName::from_static(name));
        names.map(|name| (name, "v".parse().unwrap())).collect()
    }

    #[test]
    fn what_is_unknown_passes_upstream_in_full() {
        let mut asked = headers(&[
            "authorization",
            "anthropic-beta",
            "x-stainless-lang",
            "baggage",
        ]);
        asked.append("anthropic-beta", "second".parse().unwrap());

        assert_eq!(upstream_headers(&asked), asked);
    }

    #[test]
    fn headers_let_go_of_the_buffer_that_they_were_read_into() {
        let buffer = Bytes::from(b"one two".to_vec());
        let mut asked = HeaderMap::new();
        for range in [0..3, 4..7] {
            let value = HeaderValue::from_maybe_shared(buffer.slice(range)).unwrap();
            asked.append("x-a", value);
        }

        let passed = upstream_headers(&asked);

        assert_eq!(passed, asked);
        drop(asked);
        assert!(buffer.is_unique());
    }

    #[test]
    fn of_a_request_that_is_let_go_the_credentials_stay() {
        let mut asked = headers(&["authorization", "x-api-key", "x-goog-api-key", "x-other"]);

        keep_credentials(&mut asked);

        assert_eq!(
            asked,
            headers(&["authorization", "x-api-key", "x-goog-api-key"])
        );
    }

    #[test]
    fn what_is_about_the_way_here_does_not_pass_upstream() {
        let asked = headers(&[
            "accept-encoding",
            "connection",
            "content-encoding",
            "content-length",
            "cookie",
            "expect",
            "forwarded",
            "host",
            "keep-alive",
            "proxy-authenticate",
            "proxy-authorization",
            "proxy-connection",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "via",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-lifesign-set",
            "x-real-ip",
        ]);

        assert_eq!(upstream_headers(&asked), HeaderMap::new());
    }

    #[test]
    fn what_connection_names_passes_in_neither_direction() {
        let mut given = headers(&["x-hop", "x-stays", "x-last"]);
        given.append("connection", "close, X-Hop".parse().unwrap());
        given.append("connection", "x-last".parse().unwrap());

        assert_eq!(upstream_headers(&given), headers(&["x-stays"]));
        assert_eq!(caller_headers(given), headers(&["x-stays"]));
    }

    #[test]
    fn what_is_about_the_providers_host_does_not_pass_to_the_caller() {
        let answered = headers(&[
            "alt-svc",
            "connection",
            "content-encoding",
            "content-length",
            "keep-alive",
            "set-cookie",
            "strict-transport-security",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "content-type",
            "request-id",
            "retry-after",
            "x-ratelimit-reset-tokens",
        ]);

        let kept = [
            "content-type",
            "request-id",
            "retry-after",
            "x-ratelimit-reset-tokens",
        ];
        assert_eq!(caller_headers(answered), headers(&kept));
    }

    #[test]
    fn all_values_of_a_header_pass_to_the_caller_or_none() {
        let mut answered = headers(&["set-cookie", "vary", "x-a"]);
        for name in ["set-cookie", "vary"] {
            answered.append(name, HeaderValue::from_static("second"));
        }
        let mut passed = answered.clone();
        passed.remove("set-cookie");

        assert_eq!(caller_headers(answered), passed);
    }

    #[test]
    fn credentials_go_where_they_are_not_to_pass() {
        let mut asked = headers(&[
            "authorization",
            "x-api-key",
            "api-key",
            "x-goog-api-key",
            "a",
        ]);

        remove_credentials(&mut asked);

        assert_eq!(asked, headers(&["a"]));
    }
}
