//! The page at `/`: what an operator sees, and what they may do about it.
//!
//! It is drawn here, from the same [`Snapshot`](crate::live::Snapshot) that programs read, and works
//! without its script as a page that is loaded again by hand. The script asks for the part that
//! changes, as a stream or again and again, puts it in the place of what is there, and moves the
//! bars in between. Nothing is fetched from anywhere else.
//!
//! A browser sends no header with a link, so the page itself is for everybody and holds nothing where
//! an admin key is asked for. Its script has the key typed in and sends it as a header: there is no
//! cookie that another site could have sent along.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use self::asset::Asset;
use self::shell::Shown;
use self::view::View;
use crate::body::Body;
use crate::hub::{Hub, Plan};
use crate::live::Taken;
use crate::refusal::Refusal;
use crate::server::{Peer, Stage};
use crate::watching::Watching;

mod asset;
mod calls;
mod chart;
mod html;
mod part;
mod shell;
mod silence;
mod story;
mod upstreams;
mod view;

/// What of the page is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// All of it.
    Whole,
    /// What changes, once.
    Now,
    /// What changes, for as long as somebody watches.
    Events,
    /// A file.
    File(String),
}

impl Piece {
    /// Returns what of the page a request is for, if it is.
    pub(crate) fn of(parts: &Parts) -> Option<Self> {
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return None;
        }
        let path = parts.uri.path();
        if path == "/" {
            return Some(Self::Whole);
        }
        Some(match path.strip_prefix("/lifesign/page/")? {
            "now" => Self::Now,
            "events" => Self::Events,
            file => Self::File(file.to_owned()),
        })
    }
}

/// Answers a browser. `admitted` says whether it may see and do what an operator may.
pub(crate) fn answer(
    hub: &Arc<Hub>,
    plan: &Arc<Plan>,
    peer: &Arc<Peer>,
    parts: &Parts,
    piece: &Piece,
    admitted: Result<(), Refusal>,
) -> Result<Response<Body>, Refusal> {
    let view = View::of(parts.uri.query());
    let draining = peer.stage() >= Stage::Draining;
    let mut response = match piece {
        Piece::File(name) => file(name, &parts.headers)?,
        Piece::Whole => {
            let page = match admitted {
                Ok(()) => drawn(hub, &hub.live.latest(hub, draining), &view, shell::page),
                Err(_) => shell::page(&Shown::Locked {
                    has_key: plan.admin_key.is_some(),
                }),
            };
            whole(page)
        }
        Piece::Now => {
            admitted?;
            let seen = hub.live.latest(hub, draining);
            whole(drawn(hub, &seen, &view, shell::fragment))
        }
        Piece::Events => {
            admitted?;
            let tell = move |hub: &Hub, seen: &Taken| -> Bytes {
                if matches!(view, View::Timeline(_)) {
                    return drawn(hub, seen, &view, shell::fragment).into();
                }
                seen.drawn(view.name(), || drawn(hub, seen, &view, shell::fragment))
            };
            Watching::respond(hub, plan, peer, Box::new(tell))
        }
    };
    guard(response.headers_mut());
    Ok(response)
}

fn drawn(hub: &Hub, seen: &Taken, view: &View, draw: fn(&Shown<'_>) -> String) -> String {
    let snapshot = &seen.snapshot;
    let chosen = match view {
        View::Timeline(None) => View::Timeline(story::default_call(snapshot)),
        view => view.clone(),
    };
    let timeline = match &chosen {
        View::Timeline(Some(id)) => hub.live.timeline(hub, id),
        _ => None,
    };
    draw(&Shown::Now {
        snapshot,
        view: &chosen,
        timeline: timeline.as_ref(),
    })
}

fn whole(html: String) -> Response<Body> {
    let mut response = Response::new(Bytes::from(html));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Body::whole(response)
}

fn file(name: &str, headers: &HeaderMap) -> Result<Response<Body>, Refusal> {
    let asset = Asset::find(name).ok_or(NO_FILE)?;
    let known = headers.get_all(IF_NONE_MATCH).iter();
    let is_known = known
        .filter_map(|known| known.to_str().ok())
        .flat_map(|known| known.split(','))
        .any(|known| known.trim().trim_start_matches("W/") == asset.tag());
    let mut response = Response::new(Bytes::new());
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = Bytes::from_static(asset.content.as_bytes());
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    // It is asked for again each time, so that a page and its files are of one version.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(asset.tag()) {
        headers.insert(ETAG, tag);
    }
    Ok(Body::whole(response))
}

/// Says what a browser may do with what it gets: nothing but what is here.
fn guard(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static("same-origin"),
        );
    }
}

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
);
const NO_FILE: Refusal = Refusal::new(
    StatusCode::NOT_FOUND,
    "not_found",
    "the page has no file of this name",
);
