//! A gateway in front of model providers.
//!
//! Any program that changes only its base URL gets bounded silence, unseen retries before content,
//! honest failures, and beats that keep everything between it and the gateway awake.
#![forbid(unsafe_code)]

mod beats;
mod body;
mod breaker;
mod call;
mod chain;
pub mod config;
mod gateway;
mod guest;
mod holds;
mod hub;
mod lane;
mod lifecycle;
pub mod live;
mod metrics;
mod page;
mod queue;
mod rate;
mod readers;
mod records;
mod refusal;
mod registry;
mod relay;
mod reply;
mod room;
mod scrape;
mod seam;
mod semconv;
mod server;
mod service;
mod target;
pub mod traces;
mod watching;

pub use lifesign_journal as journal;

pub use gateway::{ConfigSource, GatewayServer, ServeError, Stopper};
pub use records::{
    Answered, Asked, AttemptEnded, BeatForms, CallEnded, CallStarted, CutPoint, LoggedRecords,
    Quiet, Record, Records, Wait, WaitFor,
};
