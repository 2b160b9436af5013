//! Judges model calls by what crosses the wire, without touching the wire.
//!
//! This crate holds the rules: five classes of [`Progress`], a [`Clock`] for each, bounds as rows over
//! those clocks, the closed set of failures, the retry schedule, and the accounting of attempts. It
//! does no I/O, starts no task and reads no clock: every time is a [`Duration`](std::time::Duration)
//! since the call began, handed in by whoever drives it. The same rules therefore give the same
//! verdict at the same instant under tokio, in a test, and over a recording a year later.
#![forbid(unsafe_code)]

mod ages;
mod bound;
mod bounds;
pub mod duration;
mod failure;
mod phase;
mod progress;
mod setting;
mod sign;
mod watch;

pub use ages::Ages;
pub use bound::BoundName;
pub use bounds::{Bounds, Notices, Rate};
pub use failure::FailureCode;
pub use phase::{Phase, Stage};
pub use progress::{Clock, Finding, HeartbeatOrigin, Progress};
pub use setting::{Limit, Origin, Setting};
pub use sign::{Block, BlockKind, Sign};
pub use watch::{
    CallShape, Cut, Heartbeats, Join, JoinBlock, LastHeartbeat, Notice, Readings, Row, Tally,
    Verdict, Watch, WireDefaults, rows,
};
