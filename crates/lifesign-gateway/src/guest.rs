//! Who asks, and whether it may: checked before anything else looks at a request.
//!
//! Pure functions over the head of a request. A listener on loopback needs no key, so any web page
//! that a browser on this machine shows could spend the user's money through it; `Host`, `Origin`
//! and the content type are what tells such a page from a program. How bytes become requests is
//! guarded below, in [`server`](crate::server).

use http::{
    HeaderMap, Method, StatusCode, Version,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, TRANSFER_ENCODING},
    request::Parts,
};

pub(crate) use self::{
    headers::{caller_headers, keep_credentials, remove_credentials, upstream_headers},
    keys::{KeyHash, KeyTable, credentials},
};
use self::{host::is_allowed_host, host::is_allowed_origin};
use crate::refusal::Refusal;
use crate::server::Reach;

mod headers;
mod host;
mod keys;

/// What is asked of a guest.
#[derive(Clone, Debug, Default)]
pub(crate) struct GuestRules {
    /// Names under which a listener on loopback may be asked for, beside those of loopback itself:
    /// `gateway.test`, `gateway.test:4631`, or a whole origin such as `vscode-webview://abc`.
    pub(crate) hosts: Vec<String>,
    /// The callers' keys. Where there are none, nobody is asked for one.
    pub(crate) keys: KeyTable,
}

impl GuestRules {
    /// Checks what [`check`](Self::check) leaves open; returns the index of the caller's key, or `None`
    /// where no keys are configured.
    pub(crate) fn admit(&self, reach: Reach, parts: &Parts) -> Result<Option<usize>, Refusal> {
        let caller = self.keys.caller(&parts.headers)?;
        check_content(reach, parts, caller)?;
        Ok(caller)
    }

    /// Checks what holds for every path, those that need no key included: the target, the framing,
    /// and on loopback that no web page of somebody else's asks.
    pub(crate) fn check(&self, reach: Reach, parts: &Parts) -> Result<(), Refusal> {
        check_target(parts)?;
        check_framing(&parts.headers)?;
        let host = check_host(parts)?;
        if reach != Reach::Loopback {
            return Ok(());
        }
        if host.is_some_and(|host| !is_allowed_host(host, &self.hosts)) {
            return Err(UNKNOWN_HOST);
        }
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        let is_allowed = |origin: &http::HeaderValue| {
            origin
                .to_str()
                .is_ok_and(|origin| is_allowed_origin(origin, &self.hosts))
        };
        if !origins.all(is_allowed) {
            return Err(CROSS_SITE);
        }
        Ok(())
    }
}

/// Checks that a body is one that can be looked into, and on loopback that it is none that a web
/// page can send without asking first: `caller` is the index of the key that was shown.
pub(crate) fn check_content(
    reach: Reach,
    parts: &Parts,
    caller: Option<usize>,
) -> Result<(), Refusal> {
    let is_plain = |coding: &http::HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
    if !parts.headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Err(ENCODED_BODY);
    }
    // Other methods a page can only use after a preflight, which nobody here answers.
    let is_posting = matches!(parts.method, Method::POST | Method::PUT | Method::PATCH);
    let is_unguarded = reach == Reach::Loopback && caller.is_none();
    if is_posting && is_unguarded && !is_json(&parts.headers) {
        return Err(NOT_JSON);
    }
    Ok(())
}

/// Refuses what a browser says that a page of another site asks for; another port is another site.
///
/// Programs say nothing of the kind, and a person who types an address has no site.
pub(crate) fn check_site(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    if sites.all(|site| site == "same-origin" || site == "none") {
        Ok(())
    } else {
        Err(CROSS_SITE)
    }
}

/// Refuses what asks for a proxy, and paths that could climb out of an upstream's base path.
fn check_target(parts: &Parts) -> Result<(), Refusal> {
    if parts.method == Method::CONNECT {
        return Err(CONNECT);
    }
    let uri = &parts.uri;
    if uri.scheme().is_some() || uri.authority().is_some() || !uri.path().starts_with('/') {
        return Err(ABSOLUTE_TARGET);
    }
    if uri.path().split('/').any(is_dots) || uri.path().contains('\\') {
        return Err(DOT_SEGMENTS);
    }
    Ok(())
}

/// Returns whether a segment of a path is `.` or `..`, percent-encoded or not.
fn is_dots(segment: &str) -> bool {
    let mut rest = segment.as_bytes();
    let mut dots = 0;
    while !rest.is_empty() {
        let Some(behind) = DOTS.iter().find_map(|dot| rest.strip_prefix(*dot)) else {
            return false;
        };
        rest = behind;
        dots += 1;
    }
    matches!(dots, 1 | 2)
}

/// Refuses a body whose end two readers could see in different places.
///
/// hyper takes `Transfer-Encoding` where both headers are there and removes the other from what is
/// seen here, takes two equal lengths as one, and any coding that ends in `chunked`. The server
/// therefore looks at the bytes of the head too, and refuses all three there.
fn check_framing(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let is_chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
        if !is_chunked || codings.next().is_some() || headers.contains_key(CONTENT_LENGTH) {
            return Err(AMBIGUOUS_FRAMING);
        }
    }
    if headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(AMBIGUOUS_FRAMING);
    }
    Ok(())
}

/// Returns the one `Host`, which only HTTP/1.0 may leave out.
fn check_host(parts: &Parts) -> Result<Option<&str>, Refusal> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() || (host.is_none() && parts.version != Version::HTTP_10) {
        return Err(NOT_ONE_HOST);
    }
    match host.map(http::HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(host)) => Ok(Some(host)),
        Some(Err(_)) => Err(NOT_ONE_HOST),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(kind)) = headers.get(CONTENT_TYPE).map(http::HeaderValue::to_str) else {
        return false;
    };
    // Two of them in one line would be read differently by whoever asks next.
    if headers.get_all(CONTENT_TYPE).iter().nth(1).is_some() || kind.contains(',') {
        return false;
    }
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// How a dot is written in a path.
const DOTS: [&[u8]; 3] = [b".", b"%2e", b"%2E"];

const ABSOLUTE_TARGET: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "absolute_target",
    "the request target must be a path: this is no forward proxy",
);
const AMBIGUOUS_FRAMING: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "ambiguous_framing",
    "the length of the body must be given once, by content-length or as transfer-encoding: chunked",
);
const CONNECT: Refusal = Refusal::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "connect_refused",
    "CONNECT is not served: this is no forward proxy",
);
const CROSS_SITE: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "cross_site",
    "web pages of other sites may not ask; serve.hosts can name an origin that may",
);
const DOT_SEGMENTS: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "dot_segments",
    "the path must not contain `.` or `..` as a segment, nor a backslash",
);
const ENCODED_BODY: Refusal = Refusal::new(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "encoded_body",
    "the body must come without content-encoding",
);
const NOT_JSON: Refusal = Refusal::new(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "not_json",
    "without caller keys a body must have content-type: application/json",
);
const NOT_ONE_HOST: Refusal = Refusal::new(
    StatusCode::BAD_REQUEST,
    "not_one_host",
    "the request must have one host header",
);
const UNKNOWN_HOST: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "unknown_host",
    "the host header must name this machine; serve.hosts can name others",
);

#[cfg(test)]
mod tests {
    use http::Request;
    use pretty_assertions::assert_eq;

    use super::*;

    fn asked(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn get(headers: &[(&str, &str)]) -> Parts {
        asked("GET", "/v1/models", headers)
    }

    const JSON: (&str, &str) = ("content-type", "application/json");
    const LOCAL: (&str, &str) = ("host", "127.0.0.1:4631");

    #[test]
    fn a_plain_call_on_loopback_is_admitted_without_a_key() {
        let parts = asked("POST", "/v1/messages", &[LOCAL, JSON]);

        assert_eq!(
            GuestRules::default().admit(Reach::Loopback, &parts),
            Ok(None)
        );
    }

    #[test]
    fn a_target_that_asks_for_a_proxy_is_refused() {
        let rules = GuestRules::default();

        for target in [
            "http://127.0.0.1:4631/v1/models",
            "https://a.test/",
            "a.test:443",
            "*",
        ] {
            let parts = asked("GET", target, &[LOCAL]);
            assert_eq!(
                rules.check(Reach::Loopback, &parts),
                Err(ABSOLUTE_TARGET),
                "{target}"
            );
        }
        let parts = asked("CONNECT", "a.test:443", &[LOCAL]);
        assert_eq!(rules.check(Reach::Unix, &parts), Err(CONNECT));
    }

    #[test]
    fn a_path_that_climbs_is_refused() {
        let rules = GuestRules::default();

        for path in [
            "/v1/../admin",
            "/v1/%2e%2E/admin",
            "/..",
            "/v1/./x",
            "/v1/.%2e",
        ] {
            let parts = asked("GET", path, &[LOCAL]);
            assert_eq!(
                rules.check(Reach::Loopback, &parts),
                Err(DOT_SEGMENTS),
                "{path}"
            );
        }
        for path in ["/v1/models/a..b", "/v1/...", "/v1/x?up=../..", "//v1"] {
            let parts = asked("GET", path, &[LOCAL]);
            assert_eq!(rules.check(Reach::Loopback, &parts), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_body_with_two_ends_is_refused() {
        let rules = GuestRules::default();
        let chunked = ("transfer-encoding", "chunked");

        for headers in [
            vec![LOCAL, chunked, ("content-length", "3")],
            vec![LOCAL, chunked, chunked],
            vec![LOCAL, ("transfer-encoding", "gzip, chunked")],
            vec![LOCAL, ("transfer-encoding", "identity")],
            vec![LOCAL, ("content-length", "3"), ("content-length", "3")],
        ] {
            let parts = asked("POST", "/v1/messages", &headers);
            assert_eq!(
                rules.check(Reach::Other, &parts),
                Err(AMBIGUOUS_FRAMING),
                "{headers:?}"
            );
        }
        assert_eq!(rules.check(Reach::Other, &get(&[LOCAL, chunked])), Ok(()));
    }

    #[test]
    fn a_host_of_somebody_elses_is_refused_on_loopback_alone() {
        let rules = GuestRules {
            hosts: vec!["gateway.test".to_owned()],
            ..GuestRules::default()
        };
        let foreign = get(&[("host", "rebound.test:4631")]);

        assert_eq!(rules.check(Reach::Loopback, &foreign), Err(UNKNOWN_HOST));
        assert_eq!(rules.check(Reach::Other, &foreign), Ok(()));
        assert_eq!(rules.check(Reach::Unix, &foreign), Ok(()));
        assert_eq!(
            rules.check(Reach::Loopback, &get(&[("host", "gateway.test")])),
            Ok(())
        );
        assert_eq!(rules.check(Reach::Loopback, &get(&[])), Err(NOT_ONE_HOST));
        assert_eq!(
            rules.check(Reach::Loopback, &get(&[LOCAL, LOCAL])),
            Err(NOT_ONE_HOST)
        );
        let mut old = get(&[]);
        old.version = Version::HTTP_10;
        assert_eq!(rules.check(Reach::Loopback, &old), Ok(()));
    }

    #[test]
    fn a_page_of_another_site_is_refused_on_loopback() {
        let rules = GuestRules {
            hosts: vec!["tool.test".to_owned()],
            ..GuestRules::default()
        };
        let from = |origin| rules.check(Reach::Loopback, &get(&[LOCAL, ("origin", origin)]));

        for origin in [
            "https://evil.test",
            "null",
            "https://tool.test.evil.test",
            "file://",
            "",
        ] {
            assert_eq!(from(origin), Err(CROSS_SITE), "{origin}");
        }
        for origin in [
            "http://localhost:3000",
            "http://127.0.0.1:4631",
            "https://tool.test",
        ] {
            assert_eq!(from(origin), Ok(()), "{origin}");
        }
        let two = get(&[
            LOCAL,
            ("origin", "http://localhost"),
            ("origin", "https://evil.test"),
        ]);
        assert_eq!(rules.check(Reach::Loopback, &two), Err(CROSS_SITE));
    }

    #[test]
    fn a_body_that_a_form_can_send_is_refused_on_loopback_without_a_key() {
        let post =
            |kind: &'static str| asked("POST", "/v1/files", &[LOCAL, ("content-type", kind)]);

        for kind in [
            "text/plain",
            "text/plain;application/json",
            "multipart/form-data; boundary=x",
            "application/json, text/plain",
            "application/jsonx",
        ] {
            let parts = post(kind);
            assert_eq!(
                check_content(Reach::Loopback, &parts, None),
                Err(NOT_JSON),
                "{kind}"
            );
            assert_eq!(
                check_content(Reach::Loopback, &parts, Some(0)),
                Ok(()),
                "{kind}"
            );
            assert_eq!(check_content(Reach::Unix, &parts, None), Ok(()), "{kind}");
        }
        let without = asked("POST", "/v1/messages", &[LOCAL]);
        assert_eq!(
            check_content(Reach::Loopback, &without, None),
            Err(NOT_JSON)
        );
        let parts = post("Application/JSON; charset=utf-8");
        assert_eq!(check_content(Reach::Loopback, &parts, None), Ok(()));
    }

    #[test]
    fn an_encoded_body_is_refused_everywhere() {
        let parts = asked(
            "POST",
            "/v1/messages",
            &[LOCAL, JSON, ("content-encoding", "gzip")],
        );

        assert_eq!(
            check_content(Reach::Other, &parts, Some(0)),
            Err(ENCODED_BODY)
        );
    }

    #[test]
    fn where_keys_are_configured_only_they_are_admitted() {
        let rules = GuestRules {
            hosts: Vec::new(),
            keys: KeyTable::new([KeyHash::of(b"one"), KeyHash::of(b"two")]),
        };
        let ask = |headers: &[(&str, &str)]| rules.admit(Reach::Other, &get(headers));

        assert_eq!(ask(&[LOCAL, ("authorization", "Bearer two")]), Ok(Some(1)));
        assert_eq!(ask(&[LOCAL, ("x-api-key", "one")]), Ok(Some(0)));
        assert_eq!(ask(&[LOCAL]).unwrap_err().status, StatusCode::UNAUTHORIZED);
        let unknown = ask(&[LOCAL, ("x-api-key", "three")]).unwrap_err();
        assert_eq!(
            (unknown.status, unknown.code),
            (StatusCode::UNAUTHORIZED, "unknown_key")
        );
    }
}
