//! What a caller wants of a call.

use std::fmt;
use std::sync::Arc;

use lifesign_core::{Layer, Origin, SettingError, Settings, Value};
use lifesign_wire::{RawRequest, Request};

use crate::decide::Decide;
use crate::recorder::Recorder;
use crate::upstream::Upstream;

/// A call to be made: whom to ask, what, and under which settings.
#[derive(Clone)]
pub struct CallRequest {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) body: Body,
    pub(crate) terms: Terms,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    pub(crate) holds_back: bool,
    pub(crate) decide: Option<Arc<dyn Decide>>,
}

/// Under which settings.
#[derive(Clone, Debug)]
pub(crate) enum Terms {
    /// The defaults for the upstream and model, and what is set over them.
    Defaults(Layer),
    /// These.
    Given(Box<Settings>),
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

    /// Makes the call under `settings` instead of the defaults for its upstream and model, and
    /// instead of what was [`set`](Self::set).
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.terms = Terms::Given(Box::new(settings));
        self
    }

    /// Sets one setting over the defaults for the upstream and model; a later value wins.
    ///
    /// `value` is written as in a file, without quotes: `45s`, `off`, `3`.
    ///
    /// This example shows a call that bears silence for 45 seconds.
    ///
    /// ```
    /// use lifesign::{CallRequest, Request, Upstream, Wire};
    ///
    /// let upstream = Upstream::new(Wire::OPENAI_CHAT, "http://127.0.0.1:8080")?;
    /// let request = CallRequest::new(upstream, Request::prompt("any", "Say hello"))
    ///     .set("bounds.raw_silence", "45s")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails where there is no such setting, with a suggestion, where the value cannot be used, and
    /// where whole [`settings`](Self::settings) were given: what is wanted belongs into those.
    pub fn set(mut self, key: &str, value: &str) -> Result<Self, SettingError> {
        match &mut self.terms {
            Terms::Defaults(layer) => layer.set(key, Value::of_text(value), Origin::Call)?,
            Terms::Given(_) => {
                let problem = "cannot be set: the call has whole settings already";
                return Err(SettingError::new(key.to_owned(), problem)
                    .with_hint("set it in the layers that those are resolved from"));
            }
        }
        Ok(self)
    }

    /// Shows `recorder` what the attempts receive.
    #[must_use]
    pub fn record(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Takes the answer only as a whole: its stream tells of attempts, and hands out no pieces.
    ///
    /// Reasoning that was not handed out may then be thrown away where `retry.after_reasoning` is
    /// on.
    #[must_use]
    pub fn hold_back(mut self) -> Self {
        self.holds_back = true;
        self
    }

    /// Lets `decide` say whether failed attempts are made again, in the place of the settings' tiers.
    #[must_use]
    pub fn decide_by(mut self, decide: Arc<dyn Decide>) -> Self {
        self.decide = Some(decide);
        self
    }

    fn of(upstream: Arc<Upstream>, body: Body) -> Self {
        Self {
            upstream,
            body,
            terms: Terms::Defaults(Layer::new()),
            recorder: None,
            holds_back: false,
            decide: None,
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
