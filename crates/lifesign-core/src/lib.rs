//! Judges model calls by what crosses the wire, without touching the wire.
//!
//! This crate holds the rules: five classes of [`Progress`], four [`Clock`]s that they renew (bytes
//! and heartbeats renew the same one), bounds as rows over those clocks, the closed set of
//! failures, the retry schedule, and the accounting of attempts. It does no I/O, starts no task and
//! reads no clock: every time is a [`Duration`](std::time::Duration) since the call began, handed
//! in by whoever drives it. The same rules therefore give the same verdict at the same instant
//! under tokio, in a test, and over a recording a year later.
#![forbid(unsafe_code)]

mod account;
mod ages;
mod bound;
mod bounds;
mod catalog;
mod check;
pub mod duration;
mod explain;
mod failure;
mod glob;
mod hold;
mod key;
mod phase;
mod profile;
mod progress;
mod resolve;
mod retry;
mod setting;
mod settings;
mod sign;
mod usage;
mod watch;

pub use account::{AttemptOutcome, AttemptRecord};
pub use ages::Ages;
pub use bound::BoundName;
pub use bounds::{Bounds, Notices, Rate};
pub use catalog::{CatalogBound, CatalogRow, Hosts, ROWS};
pub use check::{Conflict, check};
pub use explain::{Explained, explain};
pub use failure::{Failure, FailureCode, FailureReport, TEXT_CHARS, quote};
pub use glob::glob;
pub use hold::{Hold, HoldKey, HoldWait, Holds};
pub use key::{
    FileKey, KEYS, Key, KeyTable, Shape, UPSTREAM_KEYS, reference_markdown, unknown_setting,
    written,
};
pub use phase::{Phase, Stage};
pub use profile::Profile;
pub use progress::{Clock, Finding, HeartbeatOrigin, Progress};
pub use resolve::{Layer, Target, resolve};
pub use retry::{
    BodyHints, Budget, Commit, Decision, GiveUp, Hints, Past, RetryPolicy, Tier, TierPolicy, Tries,
    decide, parse_wait, wait_in_prose,
};
pub use setting::{Limit, Origin, Setting};
pub use settings::{Limits, SettingError, Settings, Value};
pub use sign::{Block, BlockKind, Sign};
pub use usage::Usage;
pub use watch::{
    BoundReading, CallShape, Cut, Gaps, Heartbeats, Join, JoinBlock, Joined, LastHeartbeat, Notice,
    Readings, Row, Silence, Tally, Tick, Trace, Verdict, Watch, WireDefaults, rows,
};
