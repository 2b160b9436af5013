//! A scripted model provider on loopback: every wire, every fault.
//!
//! A [`Standin`] plays a timed [`Script`] to each request on the wire its path names, over
//! HTTP/1.1 or HTTP/2, and keeps a log of what was asked, what was sent and when the peer left. It
//! writes its own HTTP/1.1, so that it can be wrong about that too. The script notation is
//! described in `docs/reference/script.md`.

pub use self::{
    dialect::Dialect,
    log::{Connection, End, Event, Observer, Request, What},
    script::{Problem, Script, ScriptError, Section},
    serve::{Builder, Standin},
};

mod clock;
mod dialect;
mod log;
mod script;
mod serve;
