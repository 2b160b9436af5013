//! A client for model calls that judges them by what crosses the wire.
//!
//! A [`Client`] makes calls. Each call is a [`CallStream`] that is polled and owns no task: it opens
//! a connection, watches five classes of progress on it, replaces a failed attempt unseen while no
//! content has arrived, and ends in an [`Answered`] or a [`Failed`] that says what really happened.
//! Who has a client already puts the clocks on its byte stream with [`watch`].
#![forbid(unsafe_code)]

mod attempt;
mod base_url;
mod call;
mod call_request;
mod client;
pub mod clock;
pub mod config;
mod event;
mod failing;
mod guard;
mod holds;
mod job;
mod monitor;
mod outcome;
mod recorder;
mod stream;
mod tap;
mod timer;
pub mod transport;
mod upstream;

pub use base_url::{BaseUrl, BaseUrlError};
pub use call_request::CallRequest;
pub use client::Client;
pub use event::{CallEvent, ToolCallPiece};
pub use monitor::{Doing, Monitor, Snapshot};
pub use outcome::{Answered, CallReport, Failed, Outcome};
pub use recorder::Recorder;
pub use stream::CallStream;
pub use tap::{WatchBounds, WatchError, Watched, watch};
pub use upstream::Upstream;

// What the items above are made of, so that a program needs this crate alone.
pub use lifesign_core::{
    AttemptRecord, BoundName, Bounds, Clock, Failure, FailureCode, HeartbeatOrigin, Layer, Notice,
    Origin, Phase, Readings, Settings, Target, Usage, Value, resolve,
};
pub use lifesign_wire::{
    Answer, Content, Message, RawRequest, Request, Role, Tool, ToolCall, ToolChoice, Wire,
};
