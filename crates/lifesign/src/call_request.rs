//! What a caller wants of a call.

use std::fmt;
use std::sync::Arc;

use lifesign_core::Settings;
use lifesign_wire::{RawRequest, Request};

use crate::recorder::Recorder;
use crate::upstream::Upstream;

/// A call to be made: whom to ask, what, and under which settings.
#[derive(Clone)]
pub struct CallRequest {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) body: Body,
    pub(crate) settings: Option<Settings>,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    pub(crate) holds_back: bool,
}

/// What to send.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A request in our own words, encoded for the upstream's wire.
    Typed(Box<Request>),
    /// A body in the wire's own words, sent as it is.
    Raw(RawRequest),
}

impl CallRequest {
    /// Returns a call that asks `upstream` for the answer to `request`.
    pub fn new(upstream: impl Into<Arc<Upstream>>, request: Request) -> Self {
        Self::of(upstream.into(), Body::Typed(Box::new(request)))
    }

    /// Returns a call that sends a body in the wire's own words as it is.
    pub fn raw(upstream: impl Into<Arc<Upstream>>, body: RawRequest) -> Self {
        Self::of(upstream.into(), Body::Raw(body))
    }

    /// Makes the call under `settings` instead of the defaults for its upstream and model.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Shows `recorder` what the attempts receive.
    #[must_use]
    pub fn record(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Takes the answer only as a whole: its stream tells of attempts, and hands out no pieces.
    ///
    /// Reasoning that was not handed out may then be thrown away where `retry.after_reasoning` is on.
    #[must_use]
    pub fn hold_back(mut self) -> Self {
        self.holds_back = true;
        self
    }

    fn of(upstream: Arc<Upstream>, body: Body) -> Self {
        Self {
            upstream,
            body,
            settings: None,
            recorder: None,
            holds_back: false,
        }
    }
}

impl fmt::Debug for CallRequest {
    /// Shows what is asked of whom, and nothing of what is said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRequest")
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}
