//! What a caller asks for, and what it gets.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lifesign::attempt::ResponseHead;
use lifesign::clock;
use lifesign::trace_context::CallTrace;
use lifesign_core::Failure;
use lifesign_wire::{Answer, ProviderError, Wire};

use crate::config::CallLayer;
use crate::hub::{Caller, Plan};
use crate::readers::Form;
use crate::records::CallStarted;
use crate::relay::Manner;
use crate::target::{Outbound, Target};

/// What a caller asks for.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) id: String,
    /// The path as it was asked for.
    pub(crate) route: String,
    pub(crate) wire: Wire,
    pub(crate) manner: Manner,
    pub(crate) outbound: Outbound,
    pub(crate) model: Option<String>,
    pub(crate) max_tokens: Option<u64>,
    /// What the call sets itself.
    pub(crate) layer: CallLayer,
    /// The settings of the call's admission.
    pub(crate) plan: Arc<Plan>,
    /// Whose call it is.
    pub(crate) caller: Arc<Caller>,
    /// Who can be asked, in order.
    pub(crate) targets: Vec<Arc<Target>>,
    /// When the response is opened with a beat, if nothing decides it before.
    pub(crate) opens_at: Option<Duration>,
    /// How long nothing is sent before a beat is.
    pub(crate) beat_every: Option<Duration>,
    pub(crate) beat_form: Form,
    /// The worker that serves it.
    pub(crate) worker: usize,
}

impl Order {
    /// Returns what is written down as the call begins, now.
    pub(super) fn started(&self, wants_traces: bool) -> CallStarted {
        let headers = &self.outbound.headers;
        CallStarted {
            id: self.id.clone(),
            at: clock::timestamp(),
            key: Some(self.caller.name.as_str().to_owned()).filter(|name| !name.is_empty()),
            method: self.outbound.method.to_string(),
            route: self.route.clone(),
            wire: self.wire.name().to_owned(),
            model: self.model.clone(),
            max_tokens: self.max_tokens,
            streamed: self.manner == Manner::Frames,
            trace: wants_traces.then(|| Box::new(CallTrace::of(headers))),
        }
    }

    /// Returns for how long a caller who has heard nothing waits for what it could be told at once:
    /// to its first beat, or to where that would be.
    pub(super) fn patience(&self) -> Duration {
        let first_beat = self.opens_at.or(self.beat_every);
        first_beat.unwrap_or(PATIENCE)
    }
}

/// What happens next.
#[derive(Debug)]
pub(crate) enum Item {
    /// The head of a response that passes as it comes is here.
    Head,
    /// Bytes that pass as they are.
    Bytes(Bytes),
    /// The answer as one body. Nothing follows.
    Whole(Bytes),
    /// The answer is complete. Nothing follows.
    Done,
    /// The call failed. Nothing follows.
    Failed(Box<Fault>),
}

/// Why a call failed, and what is known for whoever tells the caller.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) failure: Failure,
    /// What the provider said.
    pub(crate) provider: Option<ProviderError>,
    /// What arrived.
    pub(crate) partial: Option<Answer>,
    /// The response that failed, where it is one.
    pub(crate) head: Option<ResponseHead>,
    /// Whether content came, so that a repetition costs again.
    pub(crate) is_committed: bool,
    /// Whether an error frame of the provider's is among what went on to the caller.
    pub(crate) has_error_frame: bool,
    /// How many requests were made.
    pub(crate) attempts: usize,
}

/// Where there are no beats.
const PATIENCE: Duration = Duration::from_secs(10);
