//! A scripted model provider on loopback: every wire, every fault.
//!
//! A [`Standin`] plays a timed [`Script`] to each request on the wire its path names, over
//! HTTP/1.1 or HTTP/2, and keeps a log of what was asked, what was sent and when the peer left. It
//! writes its own HTTP/1.1, so that it can be wrong about that too. The script notation is
//! described in `docs/reference/script.md`.

pub use self::{
    blackhole::Blackhole,
    dialect::Dialect,
    log::{Connection, End, Event, Observer, Request, What},
    scenario::{Scenario, UnknownScenario},
    script::{Problem, Script, ScriptError, Section},
    serve::{Builder, Standin},
};

mod blackhole;
mod clock;
mod dialect;
mod log;
mod replay;
mod scenario;
mod script;
mod serve;
