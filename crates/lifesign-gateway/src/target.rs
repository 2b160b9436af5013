//! One upstream as calls see it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use lifesign::Upstream;
use lifesign::transport::{Transport, TransportConfig};
use lifesign_core::{Failure, FailureCode, Phase};
use lifesign_wire::{RawRequest, Wire};

use crate::config::{Assemble, Auth, GatewayUpstream, UsageMode};
use crate::guest::{credentials, remove_credentials};
use crate::lane::Lane;
use crate::relay::Manner;
use crate::semconv;

/// Where calls can go: an upstream, its line, and what is remembered of it.
pub(crate) struct Target {
    pub(crate) config: Arc<GatewayUpstream>,
    /// The upstream with our own key, if ours goes to it.
    pub(crate) upstream: Arc<Upstream>,
    /// Its provider, by OpenTelemetry's conventions.
    pub(crate) provider: &'static str,
    pub(crate) lane: Arc<Lane>,
    ways: Arc<Ways>,
}

/// The ways to an upstream, which outlive a reload that leaves it where it was: one for each worker,
/// since a connection stays with the runtime that opened it.
pub(crate) struct Ways {
    config: TransportConfig,
    of_worker: Vec<OnceLock<Arc<Transport>>>,
    /// The models that refused to stream.
    unstreamed: Mutex<Vec<String>>,
}

impl Ways {
    pub(crate) fn new(config: TransportConfig, workers: usize) -> Arc<Self> {
        Arc::new(Self {
            config,
            of_worker: (0..workers).map(|_| OnceLock::new()).collect(),
            unstreamed: Mutex::default(),
        })
    }

    /// Returns the way that `worker` uses.
    fn of(&self, worker: usize) -> Result<Arc<Transport>, String> {
        let Some(slot) = self.of_worker.get(worker) else {
            return Err(format!("there is no worker {worker}"));
        };
        if let Some(transport) = slot.get() {
            return Ok(Arc::clone(transport));
        }
        let made = Transport::new(self.config.clone()).map_err(|error| error.to_string())?;
        Ok(Arc::clone(slot.get_or_init(|| Arc::new(made))))
    }

    fn unstreamed(&self) -> MutexGuard<'_, Vec<String>> {
        // Each change is one insertion.
        self.unstreamed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a call sends, before it is known to whom.
#[derive(Clone, Debug)]
pub(crate) struct Outbound {
    pub(crate) method: Method,
    /// Path and query behind the base URL.
    pub(crate) path: String,
    /// The caller's headers that pass, credentials included.
    pub(crate) headers: HeaderMap,
    pub(crate) body: OutboundBody,
}

/// The body of what a call sends.
#[derive(Clone, Debug)]
pub(crate) enum OutboundBody {
    /// A body that names a model.
    Call(RawRequest),
    /// Anything else.
    Plain(Bytes),
}

impl OutboundBody {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Call(request) => request.body().len(),
            Self::Plain(body) => body.len(),
        }
    }
}

impl Target {
    pub(crate) fn new(
        config: Arc<GatewayUpstream>,
        upstream: Upstream,
        lane: Arc<Lane>,
        ways: Arc<Ways>,
    ) -> Self {
        Self {
            provider: semconv::provider_of(&config),
            config,
            upstream: Arc::new(upstream),
            lane,
            ways,
        }
    }

    /// Returns the ways to this upstream where they lead to `other` as well, and `transport` is what
    /// they were made from: it is the same upstream at the same place, reached in the same manner.
    pub(crate) fn ways_to(
        &self,
        other: &GatewayUpstream,
        transport: &TransportConfig,
    ) -> Option<Arc<Ways>> {
        let (ours, theirs) = (&self.config.client, &other.client);
        let is_same = ours.name == theirs.name
            && ours.wire == theirs.wire
            && ours.base_url == theirs.base_url
            && ours.http2 == theirs.http2
            && self.ways.config.extra_roots == transport.extra_roots
            && self.ways.config.pool_idle == transport.pool_idle;
        is_same.then(|| Arc::clone(&self.ways))
    }

    pub(crate) fn name(&self) -> &str {
        self.upstream.name()
    }

    pub(crate) fn wire(&self) -> Wire {
        self.upstream.wire()
    }

    pub(crate) fn is_own(&self) -> bool {
        self.config.auth == Auth::Own
    }

    pub(crate) fn transport(&self, worker: usize) -> Result<Arc<Transport>, String> {
        self.ways.of(worker)
    }

    /// Returns the credential that goes along: ours, or the caller's.
    pub(crate) fn credential<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        if self.is_own() {
            // It is the same for every call, so that the upstream's name stands for it.
            return None;
        }
        credentials(headers).next()
    }

    /// Returns `upstream` with whatever credential the call carries, so that it is taken out of what
    /// the provider repeats.
    pub(crate) fn with_credential(
        &self,
        upstream: &Arc<Upstream>,
        headers: &HeaderMap,
    ) -> Arc<Upstream> {
        let Some(credential) = self.credential(headers) else {
            return Arc::clone(upstream);
        };
        let credential = String::from_utf8_lossy(credential).into_owned();
        Arc::new(Upstream::clone(upstream).with_key(credential))
    }

    /// Returns whether our key for `other` may go here: it is the same upstream at the same place.
    pub(crate) fn shares_key_with(&self, other: &Self) -> bool {
        let is_same = self.name() == other.name()
            && self.wire() == other.wire()
            && self.upstream.base_url() == other.upstream.base_url();
        is_same && self.is_own() && other.is_own()
    }

    /// Returns whether whole answers to calls for `model` are put together from streams.
    pub(crate) fn assembles(&self, model: &str) -> bool {
        self.config.assemble.value == Assemble::Auto
            && !self.ways.unstreamed().iter().any(|known| known == model)
    }

    /// Remembers that the upstream does not stream for `model`.
    pub(crate) fn note_refused_stream(&self, model: &str) {
        let mut models = self.ways.unstreamed();
        if models.len() < MOST_MODELS && !models.iter().any(|known| known == model) {
            models.push(model.to_owned());
        }
    }

    /// Returns the request of an attempt, which `upstream` authorises.
    pub(crate) fn request(
        &self,
        upstream: &Upstream,
        outbound: &Outbound,
        manner: Manner,
    ) -> Result<Request<Bytes>, Box<Failure>> {
        let body = match &outbound.body {
            OutboundBody::Plain(body) => body.clone(),
            OutboundBody::Call(request) => self.body(request.clone(), manner),
        };
        let mut request = Request::new(body);
        *request.method_mut() = outbound.method.clone();
        *request.uri_mut() = self.uri(&outbound.path)?;
        *request.headers_mut() = self.headers(upstream, outbound)?;
        Ok(request)
    }

    fn body(&self, request: RawRequest, manner: Manner) -> Bytes {
        let renamed = match request
            .model()
            .map(|model| (model, self.config.model(model)))
        {
            Some((model, name)) if model != name => {
                let name = name.to_owned();
                request.with_model(&name)
            }
            _ => request,
        };
        let must_ask = self.wire().habits().tells_usage_if_asked;
        let request = match manner {
            Manner::Assembled if must_ask => renamed.with_stream(true).with_usage(),
            Manner::Assembled => renamed.with_stream(true),
            Manner::Frames if must_ask && self.config.usage.value == UsageMode::Inject => {
                renamed.with_usage()
            }
            Manner::Frames | Manner::Whole | Manner::Plain | Manner::Collected => renamed,
        };
        request.into_body()
    }

    fn uri(&self, path: &str) -> Result<Uri, Box<Failure>> {
        let base = self.upstream.base_url();
        base.join(path).map_err(|error| {
            let mut failure = Failure::new(FailureCode::Rejected, Phase::Queued);
            failure.detail = Some(format!("the path cannot be asked for: {error}"));
            Box::new(failure)
        })
    }

    fn headers(&self, upstream: &Upstream, outbound: &Outbound) -> Result<HeaderMap, Box<Failure>> {
        let mut headers = outbound.headers.clone();
        // Compressed streams are held back by whoever compresses until a block is full.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if outbound.body.len() > 0 && !headers.contains_key(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if !headers.contains_key(USER_AGENT) {
            headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        }
        for (name, value) in self.wire().headers() {
            let name = HeaderName::from_static(name);
            if !headers.contains_key(&name) {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        if !self.is_own() {
            return Ok(headers);
        }
        remove_credentials(&mut headers);
        if let Some((name, value)) = upstream.authorization() {
            let mut value = HeaderValue::try_from(value).map_err(|_| {
                let mut failure = Failure::new(FailureCode::RefusedSetting, Phase::Queued);
                failure.detail = Some(format!(
                    "the key of upstream {} has characters that no HTTP header can carry",
                    self.name()
                ));
                Box::new(failure)
            })?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

const AGENT: &str = concat!("lifesign/", env!("CARGO_PKG_VERSION"));

/// More models than any one upstream has.
const MOST_MODELS: usize = 1_024;
