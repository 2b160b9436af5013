//! What every attempt of one call shares.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use http::{Method, Request, Uri};
use lifesign_core::{CallShape, Failure, FailureCode, HoldKey, HoldWait, Limit, Phase, Settings};
use lifesign_wire::{Expect, ReadLimits, Reader};
use uuid::Uuid;

use crate::attempt::{Errand, Pieces};
use crate::call_request::{Body, CallRequest, Terms};
use crate::decide::Decide;
use crate::holds::Holds;
use crate::recorder::Recorder;
use crate::transport::Transport;
use crate::upstream::Upstream;

/// What every attempt of one call sends, and the rules under which it is made.
///
/// The body is one shared buffer: attempts send the same bytes.
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) transport: Arc<Transport>,
    pub(crate) model: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) shape: CallShape,
    /// Whether the caller takes the answer in pieces.
    pub(crate) hands_out: bool,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    /// Who decides about attempts, where the settings' tiers do not.
    pub(crate) decide: Option<Arc<dyn Decide>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    holds: Arc<Holds>,
    hold_key: HoldKey,
}

impl Job {
    /// Prepares a call: everything that can be refused is refused here, before anything is sent.
    pub(crate) fn new(
        request: CallRequest,
        transport: Arc<Transport>,
        holds: Arc<Holds>,
        hands_out: bool,
    ) -> Result<Self, Box<Failure>> {
        let CallRequest {
            upstream,
            body,
            terms,
            recorder,
            holds_back,
            decide,
        } = request;
        let wire = upstream.wire();
        let (model, max_tokens, streamed) = match &body {
            Body::Typed(typed) => (
                Some(typed.model.clone()),
                wire.max_tokens(typed),
                typed.stream,
            ),
            Body::Raw(raw) => (
                raw.model().map(str::to_owned),
                raw.max_tokens(),
                raw.is_stream(),
            ),
        };
        let settings = match terms {
            Terms::Given(settings) => *settings,
            Terms::Defaults(layer) => upstream
                .settings(model.as_deref(), &layer)
                .map_err(|error| refused(error.to_string()))?,
        };
        let body = match body {
            Body::Typed(typed) => Bytes::from(
                wire.encode(&typed)
                    .map_err(|error| refused(error.to_string()))?,
            ),
            Body::Raw(raw) => raw.body().clone(),
        };
        let limit = settings.limits.request.value;
        if body.len() > limit {
            let mut failure = Box::new(Failure::new(FailureCode::TooLarge, Phase::Queued));
            failure.detail = Some(format!(
                "the request has {} bytes, limits.request allows {limit}",
                body.len()
            ));
            failure.named_setting = Some("limits.request".to_owned());
            return Err(failure);
        }
        Ok(Self {
            id: Uuid::now_v7().to_string(),
            uri: upstream
                .base_url()
                .join(wire.path())
                .map_err(|error| refused(error.to_string()))?,
            headers: headers(&upstream, streamed)?,
            hold_key: upstream.hold_key(model.as_deref()),
            shape: CallShape {
                streamed,
                max_tokens,
                wire: wire.defaults(),
            },
            upstream,
            transport,
            model,
            settings,
            hands_out: hands_out && !holds_back,
            recorder,
            decide,
            body,
            holds,
        })
    }

    /// Returns what every attempt does.
    pub(crate) fn errand(&self, fresh: bool) -> Errand {
        Errand {
            transport: Arc::clone(&self.transport),
            endpoint: self.upstream.endpoint(),
            fresh,
            request: self.request(),
            error_body_limit: error_body_limit(&self.settings),
            grace_usage: self.settings.grace_usage.value,
            recorder: self.recorder.clone(),
        }
    }

    /// Returns what takes the answer.
    pub(crate) fn pieces(&self) -> Pieces {
        let expect = if self.shape.streamed {
            Expect::Stream
        } else {
            Expect::Whole
        };
        let reader = Reader::new(self.upstream.wire(), expect, &read_limits(&self.settings));
        Pieces::new(reader, self.hands_out)
    }

    /// Returns the path that is asked for.
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    fn request(&self) -> Request<Bytes> {
        let mut request = Request::new(self.body.clone());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// Returns the hold that stands in the way, if there is one.
    pub(crate) fn hold_wait(&self) -> Option<HoldWait> {
        self.holds.wait(&self.hold_key, &self.id)
    }

    /// Lets other calls of the same kind wait; this one is the probe.
    pub(crate) fn hold(&self, wait: Duration, why: FailureCode) {
        self.holds.raise(self.hold_key.clone(), wait, why, &self.id);
    }

    /// Lets other calls of the same kind go on, if this one was the probe and got through.
    pub(crate) fn release_hold(&self) {
        self.holds.release(&self.hold_key, &self.id);
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("id", &self.id)
            .field("uri", &self.uri)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Returns the most bytes of what is read.
pub fn read_limits(settings: &Settings) -> ReadLimits {
    let limits = &settings.limits;
    ReadLimits {
        line: limits.line.value,
        frame: limits.frame.value,
        answer: limits.answer.value,
    }
}

/// Returns how long the body of an error is read: as long as silence is borne.
pub fn error_body_limit(settings: &Settings) -> Duration {
    match settings.bounds.raw_silence.value {
        Limit::After(limit) => limit.min(ERROR_BODY_TIME),
        Limit::Off => ERROR_BODY_TIME,
    }
}

fn headers(upstream: &Upstream, streamed: bool) -> Result<HeaderMap, Box<Failure>> {
    let accept = if streamed {
        "text/event-stream"
    } else {
        "application/json"
    };
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    // Compressed streams are held back by whoever compresses until a block is full.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    for (name, value) in upstream.wire().headers() {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    if let Some((name, value)) = upstream.authorization() {
        let mut value = HeaderValue::try_from(value).map_err(|_| {
            refused("the key has characters that no HTTP header can carry".to_owned())
        })?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

fn refused(detail: String) -> Box<Failure> {
    let mut failure = Box::new(Failure::new(FailureCode::RefusedSetting, Phase::Queued));
    failure.detail = Some(detail);
    failure
}

const AGENT: &str = concat!("lifesign/", env!("CARGO_PKG_VERSION"));

/// The longest that the body of an error is read, where silence is borne longer than that.
const ERROR_BODY_TIME: Duration = Duration::from_mins(4);
