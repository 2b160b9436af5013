//! Requests to responses: who asks, what for, and whom that concerns.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{ALLOW, CONNECTION, EXPECT, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use lifesign::clock;
use lifesign_wire::{RawRequest, Wire};
use tokio::time::sleep_until;
use uuid::Builder;

use self::path::{Action, Asked, Reserved};
use crate::beats::{BeatClock, interval};
use crate::body::{Body, Conversation};
use crate::call::{Call, Order};
use crate::config::{self, CallLayer, CallerKey};
use crate::guest::upstream_headers;
use crate::hub::{Caller, Hub, Plan, Spent, time_of};
use crate::page;
use crate::readers::Form;
use crate::refusal::Refusal;
use crate::relay::Manner;
use crate::reply;
use crate::server::{Peer, Service, Stage};
use crate::target::{Outbound, OutboundBody, Target};

mod admin;
mod models;
mod path;

/// Answers requests.
pub(crate) struct Gateway {
    pub(crate) hub: Arc<Hub>,
}

impl Service for Gateway {
    type Worker = usize;
    type Body = Body;

    fn worker(&self, index: usize) -> usize {
        index
    }

    async fn call(
        &self,
        worker: &usize,
        peer: &Arc<Peer>,
        request: Request<Incoming>,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let wire = path::wire_of(parts.uri.path());
        let guest = Guest {
            hub: &self.hub,
            plan: self.hub.plan(),
            peer,
            worker: *worker,
            wire,
            parts,
        };
        match guest.answer(body).await {
            Ok(response) => response,
            Err(refused) => {
                self.hub.metrics.handle_refusal(refused.refusal.code);
                refused.into_response(wire)
            }
        }
    }

    fn refuse(&self, request: &Request<Incoming>, refusal: Refusal) -> Response<Body> {
        self.hub.metrics.handle_refusal(refusal.code);
        Refused::from(refusal).into_response(path::wire_of(request.uri().path()))
    }
}

/// A request that is refused, and what the response says besides.
struct Refused {
    refusal: Refusal,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            headers: Vec::new(),
        }
    }
}

impl Refused {
    fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self::from(Refusal {
            status,
            code,
            message,
        })
    }

    fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    fn into_response(self, wire: Wire) -> Response<Body> {
        let mut response = reply::refusal(wire, &self.refusal);
        response.headers_mut().extend(self.headers);
        Body::whole(response)
    }
}

/// One request, and what is known of who sent it.
struct Guest<'a> {
    hub: &'a Arc<Hub>,
    plan: Arc<Plan>,
    peer: &'a Arc<Peer>,
    worker: usize,
    wire: Wire,
    parts: Parts,
}

impl Guest<'_> {
    async fn answer(self, body: Incoming) -> Result<Response<Body>, Refused> {
        self.plan.rules.check(self.peer.reach(), &self.parts)?;
        match path::reserved(&self.parts) {
            Some(Reserved::Live) => return Ok(Body::whole(admin::live())),
            Some(Reserved::Ready) => {
                let ready = admin::ready(self.hub, &self.plan, self.peer.stage());
                return Ok(Body::whole(ready));
            }
            Some(Reserved::Metrics) => {
                let metrics = admin::metrics(self.hub, &self.plan, self.peer, &self.parts);
                return metrics.map(Body::whole).map_err(Refused::from);
            }
            Some(Reserved::Page(piece)) => {
                let admitted = admin::admit(&self.plan, self.peer, &self.parts);
                let (hub, plan, peer) = (self.hub, &self.plan, self.peer);
                let page = page::answer(hub, plan, peer, &self.parts, &piece, admitted);
                return page.map_err(Refused::from);
            }
            Some(Reserved::Admin(Action::Watch)) => {
                let watch = admin::watch(self.hub, &self.plan, self.peer, &self.parts);
                return watch.map_err(Refused::from);
            }
            Some(Reserved::Admin(action)) => {
                let answer = admin::answer(self.hub, &self.plan, self.peer, &self.parts, action);
                return answer.map(Body::whole).map_err(Refused::from);
            }
            None => {}
        }
        let index = self.plan.rules.admit(self.peer.reach(), &self.parts)?;
        let key = index.and_then(|index| self.plan.config.keys.get(index));
        let caller = index.and_then(|index| self.plan.callers.get(index));
        let caller = Arc::clone(caller.unwrap_or(&self.plan.anyone));
        if self.peer.stage() >= Stage::Draining {
            return Err(draining());
        }
        let counted = match caller.enter(self.hub.clock.elapsed()) {
            Ok(counted) => Arc::new(counted),
            Err(why) => return Err(self.refuse_unread(spent(why), body)),
        };
        let body = self.read(body).await?;
        let order = self.order(body, key, &caller)?;
        let start = |order| {
            let (hub, peer) = (Arc::clone(self.hub), Arc::clone(self.peer));
            Call::new(hub, order, Arc::clone(&counted), peer)
        };
        if order.asks_for_models() && order.targets.len() > 1 {
            return Ok(Body::whole(models::of_all(order, self.peer, start).await));
        }
        let call = start(order);
        let order = call.order();
        let began = self
            .hub
            .clock
            .elapsed()
            .saturating_sub(call.clock().elapsed());
        let beats = BeatClock::new(call.clock(), began, order.beat_every, order.beat_form);
        let conversation = Conversation::new(call, Arc::clone(self.peer), beats);
        Ok(conversation.open().await)
    }

    /// Reads the request's body to its end: only then is a caller that leaves noticed.
    async fn read(&self, body: Incoming) -> Result<Bytes, Refused> {
        let limit = self.plan.request_limit();
        let too_large = || {
            Refused::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "request_too_large",
                format!("the request has more than {limit} bytes (limits.request)"),
            )
            .with(CONNECTION, HeaderValue::from_static("close"))
        };
        let hint = http_body::Body::size_hint(&body);
        if hint.lower() > limit as u64 {
            return Err(too_large());
        }
        let mut body = body;
        let mut whole: Option<Bytes> = None;
        let mut pieces: Vec<u8> = Vec::new();
        while let Some(frame) = self.next_piece(&mut body).await? {
            let Ok(piece) = frame.into_data() else {
                continue;
            };
            let len = pieces.len() + whole.as_ref().map_or(0, Bytes::len);
            if len + piece.len() > limit {
                return Err(too_large());
            }
            match whole.take() {
                None if pieces.is_empty() => whole = Some(piece),
                first => {
                    if let Some(first) = first {
                        pieces.extend_from_slice(&first);
                    }
                    pieces.extend_from_slice(&piece);
                }
            }
        }
        Ok(whole.unwrap_or_else(|| pieces.into()))
    }

    /// Refuses a request whatever is in its body. Where that has come already the connection can be
    /// used again, otherwise the rest is not waited for.
    fn refuse_unread(&self, refused: Refused, body: Incoming) -> Refused {
        // To read would ask for the body of a caller that waits to be asked.
        let is_awaited = self.parts.headers.contains_key(EXPECT);
        if !is_awaited && matches!(self.read(body).now_or_never(), Some(Ok(_))) {
            return refused;
        }
        refused.with(CONNECTION, HeaderValue::from_static("close"))
    }

    async fn next_piece(
        &self,
        body: &mut Incoming,
    ) -> Result<Option<http_body::Frame<Bytes>>, Refused> {
        let next = body.frame();
        let frame = match time_of(self.plan.config.limits.reader_stall.value) {
            None => next.await,
            Some(stall) => {
                let until = clock::now() + stall;
                let next = std::pin::pin!(next);
                let sleep = std::pin::pin!(sleep_until(until));
                match futures_util::future::select(next, sleep).await {
                    futures_util::future::Either::Left((frame, _)) => frame,
                    futures_util::future::Either::Right(_) => {
                        return Err(Refused::new(
                            StatusCode::REQUEST_TIMEOUT,
                            "request_stalled",
                            "the request's body stopped coming",
                        )
                        .with(CONNECTION, HeaderValue::from_static("close")));
                    }
                }
            }
        };
        frame.transpose().map_err(|error| {
            Refused::new(
                StatusCode::BAD_REQUEST,
                "unreadable_body",
                format!("the request's body cannot be read: {error}"),
            )
            .with(CONNECTION, HeaderValue::from_static("close"))
        })
    }

    fn order(
        &self,
        body: Bytes,
        key: Option<&CallerKey>,
        caller: &Arc<Caller>,
    ) -> Result<Order, Refused> {
        let asked = path::asked(&self.parts);
        let is_call = matches!(asked, Asked::Call { .. });
        if is_call && self.parts.method != Method::POST {
            return Err(Refused::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "model calls are made with POST",
            )
            .with(ALLOW, HeaderValue::from_static("POST")));
        }
        let request = match RawRequest::parse(body.clone()) {
            Ok(request) => Some(request),
            Err(_) if !is_call => None,
            Err(error) => {
                return Err(Refused::new(
                    StatusCode::BAD_REQUEST,
                    "invalid_request",
                    error.to_string(),
                ));
            }
        };
        let model = request
            .as_ref()
            .and_then(|request| request.model().map(str::to_owned));
        if let Some(key) = key {
            self.check_model(key, model.as_deref())?;
        }
        let layer = self.layer(key)?;
        let (wire, route, mut targets) = self.targets(&asked, model.as_deref());
        let has_choice = targets.len() > 1;
        if has_choice && request.as_ref().is_some_and(RawRequest::is_account_bound) {
            targets.truncate(1);
        }
        let manner = match (&asked, &request) {
            (Asked::Call { .. }, Some(request)) if request.is_stream() => Manner::Frames,
            (Asked::Call { .. }, Some(request)) if request.is_assemblable(wire) => {
                Manner::Assembled
            }
            (Asked::Call { .. }, _) => Manner::Whole,
            (Asked::Other { .. }, _) => Manner::Plain,
        };
        let upstream = targets.first().map(|target| &*target.config);
        let beats = self.plan.config.beats(
            upstream,
            route.map(|at| &self.plan.config.routes[at]),
            key,
            Some(&layer),
        );
        let agent = text(&self.parts.headers, USER_AGENT.as_str());
        let is_stream = manner == Manner::Frames;
        let form = Form::of(beats.form.value, wire, is_stream, agent);
        let may_open = match manner {
            Manner::Frames => true,
            Manner::Assembled | Manner::Whole => form == Form::Space,
            Manner::Plain | Manner::Collected => false,
        };
        let opens_at = interval(&beats).filter(|_| may_open && beats.open_early.value);
        let max_tokens = request.as_ref().and_then(RawRequest::max_tokens);
        Ok(Order {
            id: new_id(),
            route: self.parts.uri.path().to_owned(),
            wire,
            manner,
            outbound: Outbound {
                method: self.parts.method.clone(),
                path: asked.behind().to_owned(),
                headers: upstream_headers(&self.parts.headers),
                body: request.map_or(OutboundBody::Plain(body), OutboundBody::Call),
            },
            model,
            max_tokens,
            layer,
            plan: Arc::clone(&self.plan),
            caller: Arc::clone(caller),
            targets,
            opens_at,
            beat_every: interval(&beats),
            beat_form: form,
            worker: self.worker,
        })
    }

    /// Refuses a model that the key does not allow, and what could ask for any model unseen: a body
    /// that names none, which the upstream's default, or a file of requests, may stand behind.
    fn check_model(&self, key: &CallerKey, model: Option<&str>) -> Result<(), Refused> {
        let problem = match model {
            Some(model) if key.may_ask_for(model) => return Ok(()),
            Some(model) => format!("may not ask for the model {model:?}"),
            None if key.models.is_empty() || self.parts.method.is_safe() => return Ok(()),
            None if self.parts.method == Method::DELETE => return Ok(()),
            None => "may ask for some models alone, and this names none".to_owned(),
        };
        Err(Refused::new(
            StatusCode::FORBIDDEN,
            "model_not_allowed",
            format!("the key {:?} {problem}", key.name),
        ))
    }

    /// Returns what the call sets for itself.
    fn layer(&self, key: Option<&CallerKey>) -> Result<CallLayer, Refused> {
        let refused =
            |problem: String| Refused::new(StatusCode::BAD_REQUEST, "refused_setting", problem);
        let texts = |name: &'static str| -> Result<Vec<&str>, Refused> {
            let values = self.parts.headers.get_all(name).iter();
            values
                .map(|value| value.to_str())
                .collect::<Result<_, _>>()
                .map_err(|_| refused(format!("{name}: holds characters that no setting has")))
        };
        let once = |name: &'static str| match texts(name)?.as_slice() {
            [] => Ok(None),
            [value] => Ok(Some(*value)),
            _ => Err(refused(format!("{name}: is given twice"))),
        };
        let asked = config::Asked {
            profile: once("x-lifesign-profile")?,
            wall_clock: once("x-lifesign-wall-clock")?,
            sets: texts("x-lifesign-set")?,
        };
        CallLayer::read(&asked, key).map_err(|error| refused(error.to_string()))
    }

    /// Returns whom to ask, over which wire, and by which route.
    fn targets(
        &self,
        asked: &Asked,
        model: Option<&str>,
    ) -> (Wire, Option<usize>, Vec<Arc<Target>>) {
        let wires = match asked {
            Asked::Call { wire, .. } => vec![*wire],
            Asked::Other { .. } => path::likely_wires(&self.parts),
        };
        for wire in &wires {
            let choice = self.plan.config.choose(*wire, model);
            let route = choice.route.and_then(|route| {
                let routes = &self.plan.config.routes;
                routes.iter().position(|known| std::ptr::eq(known, route))
            });
            let targets = choice.upstreams.into_iter();
            let targets = targets.filter_map(|upstream| self.plan.target(upstream).cloned());
            let targets: Vec<_> = targets.collect();
            if !targets.is_empty() {
                return (*wire, route, targets);
            }
        }
        (
            wires.first().copied().unwrap_or(self.wire),
            None,
            Vec::new(),
        )
    }
}

impl Plan {
    /// Returns the most bytes of a request, whoever it is for.
    fn request_limit(&self) -> usize {
        let limits = self
            .config
            .upstreams
            .iter()
            .map(|upstream| upstream.request_limit());
        limits.max().unwrap_or_default()
    }
}

/// Returns an id that sorts by time. It is no secret, so that its other bits need not come from the
/// system.
pub(crate) fn new_id() -> String {
    let millis = u64::try_from(clock::timestamp().as_millisecond()).unwrap_or_default();
    let random = u128::to_ne_bytes(fastrand::u128(..));
    let [random @ .., _, _, _, _, _, _] = random;
    let id = Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
    id.hyphenated().to_string()
}

fn draining() -> Refused {
    Refused::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "draining",
        "the gateway is stopping",
    )
    .with(CONNECTION, HeaderValue::from_static("close"))
    .with(http::header::RETRY_AFTER, HeaderValue::from_static("1"))
}

fn spent(spent: Spent) -> Refused {
    let (message, wait) = match spent {
        Spent::Concurrency => (
            "so many calls as the key allows are under way (concurrency)",
            std::time::Duration::from_secs(1),
        ),
        Spent::Rate(wait) => (
            "so many calls as the key allows were made in this minute (per_minute)",
            wait,
        ),
    };
    Refused::new(StatusCode::TOO_MANY_REQUESTS, "key_limit", message)
        .with(http::header::RETRY_AFTER, reply::seconds(wait))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
