//! What a watch has to say.

use std::time::Duration;

use crate::{Ages, BoundName, FailureCode, Finding, HeartbeatOrigin, Origin, Phase, Stage};

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The attempt ends here.
    Cut(Cut),
    /// A bound has run out, but the socket must be read before it is judged.
    ///
    /// Let the I/O driver turn once and read everything that is there, then call
    /// [`handle_time`](crate::Watch::handle_time) again, not before `until`.
    Look {
        /// Now, or a little later if the wake-up came late.
        until: Duration,
    },
    /// The content clock has been quiet for long; tell whoever wants to know.
    Notice(Notice),
    /// Nothing; sleep until [`poll_deadline`](crate::Watch::poll_deadline).
    Wait,
}

/// The end of an attempt by a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The bound that ran out.
    pub bound: BoundName,
    /// The limit that was in force: how long its window really was.
    pub limit: Duration,
    /// What made the limit longer than it is in itself, if an open block did.
    pub joined: Option<Joined>,
    /// Where the limit came from.
    pub origin: Origin,
    /// Where the attempt stood.
    pub phase: Phase,
    /// The part of connecting that was under way, while connecting.
    pub stage: Option<Stage>,
    /// The age of every clock.
    pub ages: Ages,
    /// The best that came while the bound ran.
    pub finding: Finding,
    /// How long after the bound ran out it was judged.
    pub late: Duration,
}

impl Cut {
    /// Returns the code that tells the truth about the wire.
    ///
    /// The bound tells what ran out, the code what the wire showed: silence is called silence
    /// whichever limit met it first, and a pinging line is never called silent.
    pub const fn code(&self) -> FailureCode {
        match (self.bound, self.finding) {
            (BoundName::Connect, _) => FailureCode::Connect,
            (BoundName::Lifetime, _) => FailureCode::Lifetime,
            (BoundName::WallClock, _) => FailureCode::WallClock,
            (_, Finding::Nothing) => FailureCode::RawSilent,
            (_, Finding::Bytes) => FailureCode::BytesOnly,
            (_, Finding::Heartbeats) => FailureCode::HeartbeatsOnly,
            (_, Finding::Events) => FailureCode::NoContent,
            (_, Finding::Reasoning) => FailureCode::ReasoningOnly,
            (_, Finding::Output) => FailureCode::WholeCall,
        }
    }
}

/// How an open block made a limit longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The limit in itself, as it was set.
    pub limit: Duration,
    /// How long the block was allowed from its opening on.
    pub allowance: Duration,
}

/// A report that the content clock has been quiet for long. It never cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which notice of this quiet it is, from 1; content starts the count anew.
    pub number: u32,
    /// Where the attempt stands.
    pub phase: Phase,
    /// The age of every clock.
    pub ages: Ages,
    /// The last heartbeat, if there was one.
    pub heartbeat: Option<LastHeartbeat>,
}

/// The last heartbeat of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastHeartbeat {
    /// Whose life it proves.
    pub origin: HeartbeatOrigin,
    /// How long ago it came.
    pub age: Duration,
}

/// Where an attempt stands at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readings {
    /// Where the attempt stands.
    pub phase: Phase,
    /// The part of connecting that is under way, while connecting.
    pub stage: Option<Stage>,
    /// The age of every clock; zero before the first request byte.
    pub ages: Ages,
    /// The bound that will run out first if nothing more comes, and when.
    pub next: Option<(BoundName, Duration)>,
    /// The last heartbeat, if there was one.
    pub heartbeat: Option<LastHeartbeat>,
    /// How long the consumer has paused in all.
    pub paused: Duration,
}
