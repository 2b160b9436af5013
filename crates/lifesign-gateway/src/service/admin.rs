//! What the gateway says of itself, and what an operator may do.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use lifesign_core::duration::whole_millis;
use prometheus_client::encoding::prometheus_text;
use serde_json::json;

use super::path::Action;
use crate::body::Body;
use crate::guest::{KeyHash, check_content, check_site, credentials};
use crate::hub::{Hub, Plan};
use crate::live::{Taken, breaker, doing};
use crate::refusal::Refusal;
use crate::reply;
use crate::scrape;
use crate::server::{Peer, Reach, Stage};
use crate::watching::Watching;

/// Says that the process runs.
pub(super) fn live() -> Response<Bytes> {
    json(StatusCode::OK, &json!({"status": "ok"}))
}

/// Says whether calls are taken: not while stopping, and not while every upstream is on hold. A hold
/// on one model says nothing about the others, nor does one on what one caller brings along.
pub(super) fn ready(hub: &Hub, plan: &Plan, stage: Stage) -> Response<Bytes> {
    let is_draining = stage >= Stage::Draining;
    let holds = hub.holds.list();
    let is_held = |name: &str| {
        let mut holds = holds.iter();
        holds.any(|hold| hold.upstream == name && hold.model.is_none() && hold.credential.is_none())
    };
    let all_held = !plan.targets.is_empty()
        && plan
            .targets
            .iter()
            .all(|target| is_held(target.lane.name()));
    let is_ready = !is_draining && !all_held;
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let state = match (is_draining, all_held) {
        (true, _) => "draining",
        (false, true) => "held",
        (false, false) => "ready",
    };
    let body = json!({
        "status": state,
        "calls": hub.registry.len(),
        "holds": holds.len(),
        "journal": hub.beside.journal.as_ref().map(|journal| journal.health()),
    });
    json(status, &body)
}

/// Answers an operator.
pub(super) fn answer(
    hub: &Arc<Hub>,
    plan: &Plan,
    peer: &Peer,
    parts: &Parts,
    action: Action,
) -> Result<Response<Bytes>, Refusal> {
    admit(plan, peer, parts)?;
    let found = |is_found: bool, what: &'static str| {
        if is_found {
            Ok(json(StatusCode::OK, &json!({"done": true})))
        } else {
            Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", what))
        }
    };
    let is_draining = peer.stage() >= Stage::Draining;
    match action {
        Action::ListCalls => Ok(json(StatusCode::OK, &calls(hub))),
        Action::Timeline(id) => timeline(hub, &id),
        Action::Cancel(id) => {
            let cancelled = hub.registry.cancel(&id);
            hub.live.touch();
            found(cancelled, "no call under way has this id")
        }
        Action::ListHolds => Ok(json(StatusCode::OK, &holds(hub))),
        Action::Release(id) => {
            let released = hub.holds.release(&id);
            hub.live.touch();
            found(released, "no hold has this id")
        }
        Action::ListUpstreams => Ok(json(StatusCode::OK, &upstreams(hub, plan))),
        Action::Live => {
            let seen = hub.live.latest(hub, is_draining);
            Ok(reply::json(StatusCode::OK, seen.json()))
        }
        Action::Watch | Action::Unknown => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "there is GET live, GET live/events, GET calls, GET calls/ID, POST calls/ID/cancel, \
             GET holds, POST holds/ID/release and GET upstreams",
        )),
    }
}

/// Tells Prometheus how it goes.
pub(super) fn metrics(
    hub: &Hub,
    plan: &Plan,
    peer: &Peer,
    parts: &Parts,
) -> Result<Response<Bytes>, Refusal> {
    admit(plan, peer, parts)?;
    if !parts.method.is_safe() {
        return Err(Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "metrics are read with GET",
        ));
    }
    let text = scrape::text(hub, plan, peer.stage()).map_err(|_| {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "unwritable",
            "the metrics cannot be written",
        )
    })?;
    let mut response = Response::new(Bytes::from(text));
    let text = HeaderValue::from_static(prometheus_text::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, text);
    Ok(response)
}

/// Tells whoever watches, from now on, what is true.
pub(super) fn watch(
    hub: &Arc<Hub>,
    plan: &Arc<Plan>,
    peer: &Arc<Peer>,
    parts: &Parts,
) -> Result<Response<Body>, Refusal> {
    admit(plan, peer, parts)?;
    let tell = Box::new(|_: &Hub, seen: &Taken| seen.json());
    Ok(Watching::respond(hub, plan, peer, tell))
}

/// Lets those in who have the admin key, or where nobody has a key whoever is on this machine.
pub(super) fn admit(plan: &Plan, peer: &Peer, parts: &Parts) -> Result<(), Refusal> {
    if parts.method == Method::POST {
        check_site(&parts.headers)?;
    }
    if let Some(expected) = &plan.admin_key {
        let shows_it = credentials(&parts.headers).any(|shown| KeyHash::of(shown) == *expected);
        return if shows_it { Ok(()) } else { Err(NO_ADMIN) };
    }
    // Where callers have keys somebody on this machine may be anybody behind a proxy.
    if peer.reach() == Reach::Other || !plan.config.keys.is_empty() {
        return Err(NO_ADMIN);
    }
    // A web page can post forms without asking; it cannot post JSON.
    if parts.method == Method::POST {
        check_content(peer.reach(), parts, None)?;
    }
    Ok(())
}

fn timeline(hub: &Hub, id: &str) -> Result<Response<Bytes>, Refusal> {
    let Some(timeline) = hub.live.timeline(hub, id) else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "no call that runs or ended lately has this id",
        ));
    };
    // It holds text and numbers, so that it can be written.
    let body = serde_json::to_vec(&timeline).unwrap_or_default();
    Ok(reply::json(StatusCode::OK, body))
}

fn calls(hub: &Hub) -> serde_json::Value {
    let listed = hub.registry.list().into_iter().map(|call| {
        let snapshot = call.monitor.snapshot();
        let readings = snapshot.readings.as_ref();
        json!({
            "id": call.started.id,
            "at": call.started.at,
            "key": call.started.key,
            "route": call.started.route,
            "model": call.started.model,
            "upstream": call.upstream().as_deref(),
            "doing": doing(snapshot.doing),
            "phase": readings.map(|readings| readings.phase),
            "attempt": snapshot.attempt,
            "of": snapshot.of,
            "elapsed_ms": whole_millis(snapshot.elapsed),
            "clocks_ms": readings.map(|readings| readings.ages),
            "next_bound": readings.and_then(|readings| readings.next).map(|(bound, at)| {
                json!({"bound": bound, "in_ms": whole_millis(at.saturating_sub(snapshot.elapsed))})
            }),
        })
    });
    json!({"calls": listed.collect::<Vec<_>>()})
}

fn holds(hub: &Hub) -> serde_json::Value {
    let listed = hub.holds.list().into_iter().map(|hold| {
        json!({
            "id": hold.id,
            "upstream": hold.upstream,
            "model": hold.model,
            "credential": hold.credential,
            "why": hold.why,
            "remaining_ms": whole_millis(hold.remaining),
            "until": hold.until,
            "probe": hold.probe,
        })
    });
    json!({"holds": listed.collect::<Vec<_>>()})
}

fn upstreams(hub: &Hub, plan: &Plan) -> serde_json::Value {
    let now = hub.clock.elapsed();
    let listed = hub.lanes().into_iter().filter_map(|lane| {
        let load = lane.load();
        let mut targets = plan.targets.iter();
        let is_configured = targets.any(|target| Arc::ptr_eq(&target.lane, &lane));
        // One that was taken away is there until its last call has ended.
        if !is_configured && load.in_flight + load.waiting == 0 {
            return None;
        }
        let states = lane.breaker_states(now);
        Some(json!({
            "name": lane.name(),
            "in_flight": load.in_flight,
            "concurrency": load.concurrency,
            "waiting": load.waiting,
            "queue": load.queue,
            "breakers": {
                "failures": breaker(states.failures),
                "slowness": breaker(states.slowness),
            },
        }))
    });
    json!({"upstreams": listed.collect::<Vec<_>>()})
}

fn json(status: StatusCode, body: &serde_json::Value) -> Response<Bytes> {
    reply::json(status, body.to_string())
}

const NO_ADMIN: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "no_admin",
    "the admin key is needed here (serve.admin_key)",
);
