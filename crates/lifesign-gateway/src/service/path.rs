//! What a path asks for.

use http::request::Parts;
use http::{HeaderMap, Method};
use lifesign_wire::Wire;

use crate::page::Piece;

/// What is asked for of an upstream. Paths are what stands behind a base URL that ends in `/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// An answer of a model.
    Call { wire: Wire, behind: String },
    /// Something that is passed through.
    Other { behind: String },
}

impl Asked {
    pub(super) fn behind(&self) -> &str {
        match self {
            Self::Call { behind, .. } | Self::Other { behind } => behind,
        }
    }
}

/// What the gateway answers itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    Live,
    Ready,
    Metrics,
    Page(Piece),
    Admin(Action),
}

/// What an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    ListCalls,
    Timeline(String),
    Cancel(String),
    ListHolds,
    Release(String),
    ListUpstreams,
    Live,
    Watch,
    Unknown,
}

/// Returns what is asked for of an upstream.
pub(super) fn asked(parts: &Parts) -> Asked {
    let path = behind_version(parts.uri.path());
    let wire = Wire::ALL.into_iter().find(|wire| wire.path() == path);
    let behind = match parts.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    match wire {
        Some(wire) => Asked::Call { wire, behind },
        None => Asked::Other { behind },
    }
}

/// Returns in which dialect a path is answered, refusals included.
pub(super) fn wire_of(path: &str) -> Wire {
    let path = behind_version(path);
    Wire::ALL
        .into_iter()
        .find(|wire| path.strip_prefix(wire.path()).is_some_and(is_segment_end))
        .unwrap_or(Wire::OPENAI_CHAT)
}

/// Returns the wires that a path which is passed through may belong to, the likeliest first.
pub(super) fn likely_wires(parts: &Parts) -> Vec<Wire> {
    let first = if is_anthropic(&parts.headers) {
        Wire::ANTHROPIC
    } else {
        wire_of(parts.uri.path())
    };
    let others = Wire::ALL.into_iter().filter(|wire| *wire != first);
    std::iter::once(first).chain(others).collect()
}

/// Returns what the gateway answers itself, if the path asks for that.
pub(super) fn reserved(parts: &Parts) -> Option<Reserved> {
    let path = parts.uri.path();
    match path {
        "/livez" => return Some(Reserved::Live),
        "/readyz" => return Some(Reserved::Ready),
        "/metrics" => return Some(Reserved::Metrics),
        _ => {}
    }
    if let Some(piece) = Piece::of(parts) {
        return Some(Reserved::Page(piece));
    }
    let rest = path.strip_prefix("/lifesign")?;
    if !is_segment_end(rest) {
        return None;
    }
    let segments: Vec<_> = rest.split('/').skip(1).collect();
    let action = match (&parts.method, segments.as_slice()) {
        (&Method::GET, ["calls"]) => Action::ListCalls,
        (&Method::GET, ["calls", id]) => Action::Timeline((*id).to_owned()),
        (&Method::POST, ["calls", id, "cancel"]) => Action::Cancel((*id).to_owned()),
        (&Method::GET, ["holds"]) => Action::ListHolds,
        (&Method::POST, ["holds", id, "release"]) => Action::Release((*id).to_owned()),
        (&Method::GET, ["upstreams"]) => Action::ListUpstreams,
        (&Method::GET, ["live"]) => Action::Live,
        (&Method::GET, ["live", "events"]) => Action::Watch,
        _ => Action::Unknown,
    };
    Some(Reserved::Admin(action))
}

fn is_anthropic(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

/// Returns the path without the version that callers' base URLs end in.
fn behind_version(path: &str) -> &str {
    path.strip_prefix("/v1")
        .filter(|rest| is_segment_end(rest))
        .unwrap_or(path)
}

fn is_segment_end(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(method: &str, uri: &str) -> Parts {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        request.into_parts().0
    }

    #[test]
    fn calls_are_known_with_and_without_a_version() {
        for (uri, wire, behind) in [
            (
                "/v1/chat/completions",
                Wire::OPENAI_CHAT,
                "/chat/completions",
            ),
            ("/chat/completions", Wire::OPENAI_CHAT, "/chat/completions"),
            ("/v1/responses", Wire::OPENAI_RESPONSES, "/responses"),
            (
                "/v1/messages?beta=true",
                Wire::ANTHROPIC,
                "/messages?beta=true",
            ),
        ] {
            let behind = behind.to_owned();
            assert_eq!(asked(&parts("POST", uri)), Asked::Call { wire, behind });
        }
        for (uri, behind) in [
            ("/v1/models", "/models"),
            ("/v1/messages/count_tokens", "/messages/count_tokens"),
            ("/v1beta/x", "/v1beta/x"),
            ("/v1/responses/resp_1", "/responses/resp_1"),
        ] {
            let behind = behind.to_owned();
            assert_eq!(asked(&parts("GET", uri)), Asked::Other { behind });
        }
    }

    #[test]
    fn what_passes_through_goes_to_the_likeliest_wire_first() {
        let first = |uri| likely_wires(&parts("GET", uri))[0];

        assert_eq!(first("/v1/models"), Wire::OPENAI_CHAT);
        assert_eq!(first("/v1/messages/count_tokens"), Wire::ANTHROPIC);
        assert_eq!(first("/v1/responses/resp_1"), Wire::OPENAI_RESPONSES);
        let mut anthropic = parts("GET", "/v1/models");
        anthropic
            .headers
            .insert("anthropic-version", "2023-06-01".parse().unwrap());
        assert_eq!(likely_wires(&anthropic)[0], Wire::ANTHROPIC);
    }

    #[test]
    fn the_gateways_own_paths_are_kept_apart() {
        let of = |method, uri| reserved(&parts(method, uri));

        assert_eq!(of("GET", "/livez"), Some(Reserved::Live));
        assert_eq!(of("GET", "/metrics"), Some(Reserved::Metrics));
        assert_eq!(
            of("POST", "/lifesign/calls/7/cancel"),
            Some(Reserved::Admin(Action::Cancel("7".to_owned())))
        );
        assert_eq!(
            of("GET", "/lifesign/calls/7"),
            Some(Reserved::Admin(Action::Timeline("7".to_owned())))
        );
        assert_eq!(
            of("GET", "/lifesign/live/events"),
            Some(Reserved::Admin(Action::Watch))
        );
        assert_eq!(
            of("GET", "/lifesign/nothing"),
            Some(Reserved::Admin(Action::Unknown))
        );
        assert_eq!(of("GET", "/"), Some(Reserved::Page(Piece::Whole)));
        assert_eq!(
            of("GET", "/lifesign/page/page.css"),
            Some(Reserved::Page(Piece::File("page.css".to_owned())))
        );
        // A provider may have something there.
        assert_eq!(of("POST", "/"), None);
        assert_eq!(of("GET", "/lifesigns"), None);
        assert_eq!(of("GET", "/v1/models"), None);
    }
}
