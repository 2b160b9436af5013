//! A client for model calls that judges them by what crosses the wire.
//!
//! A [`Client`] makes calls. Each call is a [`CallStream`] that is polled and owns no task: it
//! opens a connection, watches five classes of progress on it, replaces a failed attempt unseen
//! while no content has arrived, and ends in an [`Answered`] or a [`Failed`] that says what really
//! happened. Who has a client already puts the clocks on its byte stream with [`watch`].
//!
//! # Example
//!
//! This example prints the answer as it arrives.
//!
//! ```no_run
//! use lifesign::{CallEvent, CallRequest, Client, Request, Upstream, Wire};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new()?;
//! let upstream = Upstream::new(Wire::OPENAI_CHAT, "http://127.0.0.1:8080")?;
//! let request = CallRequest::new(upstream, Request::prompt("any", "Say hello"));
//!
//! let mut call = client.stream(request.set("bounds.raw_silence", "45s")?);
//! while let Some(event) = call.next().await {
//!     match event? {
//!         CallEvent::Text(text) => print!("{text}"),
//!         CallEvent::Retrying { failure, .. } => eprintln!("once more: {failure}"),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod attempt;
mod base_url;
mod call;
mod call_request;
mod client;
pub mod clock;
pub mod config;
mod decide;
mod event;
mod guard;
mod holds;
mod job;
mod ledger;
mod monitor;
mod outcome;
mod recorder;
pub mod records;
mod report;
mod stream;
mod tap;
mod timer;
pub mod trace_context;
pub mod transport;
mod upstream;

pub use base_url::{BaseUrl, BaseUrlError};
pub use call_request::CallRequest;
pub use client::Client;
pub use decide::{Decide, FailedAttempt};
pub use event::{CallEvent, ToolCallPiece};
pub use job::{error_body_limit, read_limits};
pub use monitor::{Doing, Monitor, Snapshot};
pub use outcome::{Answered, Failed, Outcome};
pub use recorder::Recorder;
pub use report::CallReport;
pub use stream::CallStream;
pub use tap::{WatchBounds, WatchError, Watched, watch};
pub use timer::LazyTimer;
pub use upstream::Upstream;

// What the items above are made of, so that a program needs this crate alone.
pub use lifesign_core::{
    Ages, AttemptOutcome, AttemptRecord, BoundName, Bounds, Budget, Clock, Commit, Decision,
    Failure, FailureCode, FailureReport, GiveUp, HeartbeatOrigin, Hints, Layer, Limit, Notice,
    Notices, Origin, Past, Phase, Rate, Readings, RetryPolicy, Setting, SettingError, Settings,
    Stage, Target, Tier, TierPolicy, Tries, Usage, Value, quote, resolve,
};
pub use lifesign_wire::recording::Ending;
pub use lifesign_wire::{
    Answer, Content, Message, RawRequest, Request, Role, RoundTrip, Tool, ToolCall, ToolChoice,
    Wire,
};
