//! Plays a script to a caller through a gateway, and shows what both sides saw.

use std::time::Duration;

use lifesign_gateway::CallEnded;
use lifesign_standin::{Request as Seen, Standin};
use lifesign_wire::Wire;

use crate::harness::{Ask, Gate, Got, Setup, Talk, upstream};

/// A script, the settings to meet it with, and how much faster than real time both run.
pub(crate) struct Case {
    script: String,
    wire: Wire,
    sets: Vec<String>,
    more: String,
    speed: f64,
    ask: Option<Ask>,
}

/// What came of a case. Times are real ones.
pub(crate) struct Played {
    pub(crate) got: Got,
    pub(crate) ended: CallEnded,
    pub(crate) standin: Standin,
    pub(crate) gate: Gate,
    wire: Wire,
    ask: Ask,
    script: String,
    speed: f64,
}

/// A case whose gateway and provider are there.
pub(crate) struct Staged {
    pub(crate) standin: Standin,
    pub(crate) gate: Gate,
    pub(crate) ask: Ask,
    wire: Wire,
    script: String,
    speed: f64,
}

impl Case {
    /// A chat call that wants a stream, at twenty times the speed.
    pub(crate) fn new(script: &str) -> Self {
        Self {
            script: script.to_owned(),
            wire: Wire::OPENAI_CHAT,
            sets: Vec::new(),
            more: String::new(),
            speed: 20.0,
            ask: None,
        }
    }

    pub(crate) fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    pub(crate) fn speed(mut self, speed: f64) -> Self {
        self.speed = speed;
        self
    }

    /// Asks this instead of a plain stream.
    pub(crate) fn ask(mut self, ask: Ask) -> Self {
        self.ask = Some(ask);
        self
    }

    /// Asks for a whole answer.
    pub(crate) fn whole(self) -> Self {
        let ask = Ask::whole(self.wire);
        self.ask(ask)
    }

    /// Sets a duration in the script's seconds.
    pub(crate) fn seconds(self, key: &str, seconds: f64) -> Self {
        let seconds = seconds / self.speed;
        self.set(&format!("{key}={seconds}s"))
    }

    pub(crate) fn set(mut self, assignment: &str) -> Self {
        self.sets.push(assignment.to_owned());
        self
    }

    /// Adds lines to the `[[upstream]]`.
    pub(crate) fn upstream(mut self, more: &str) -> Self {
        self.more = more.to_owned();
        self
    }

    pub(crate) fn attempts(self, attempts: u32) -> Self {
        self.set(&format!("retry.attempts={attempts}"))
    }

    pub(crate) async fn stage(self) -> Staged {
        let script = Standin::script(&self.script).unwrap();
        let standin = script.speed(self.speed).start().await.unwrap();
        let mut setup = Setup::new(&upstream("up", self.wire, &standin.url(), &self.more));
        for set in &self.sets {
            setup = setup.set(set);
        }
        Staged {
            gate: setup.start().await,
            ask: self.ask.unwrap_or_else(|| Ask::stream(self.wire)),
            wire: self.wire,
            script: self.script,
            speed: self.speed,
            standin,
        }
    }

    pub(crate) async fn play(self) -> Played {
        self.stage().await.play().await
    }
}

impl Staged {
    pub(crate) async fn begin(&self) -> Talk {
        self.gate.begin(&self.ask).await
    }

    pub(crate) async fn play(self) -> Played {
        let got = self.gate.ask(&self.ask).await;
        self.after(got).await
    }

    /// Says that the caller got this.
    pub(crate) async fn after(self, got: Got) -> Played {
        Played {
            got,
            ended: self.gate.only_end().await,
            standin: self.standin,
            gate: self.gate,
            wire: self.wire,
            ask: self.ask,
            script: self.script,
            speed: self.speed,
        }
    }
}

impl Played {
    /// Returns the requests that the gateway made.
    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.standin.requests()
    }

    /// Returns how the call ended, as it was written down.
    pub(crate) fn code(&self) -> &'static str {
        match &self.ended.failure {
            None => "completed",
            Some(failure) => failure.code.name(),
        }
    }

    /// Returns the code of each attempt, as it was written down.
    pub(crate) fn outcomes(&self) -> Vec<String> {
        let attempts = self.ended.attempts.iter();
        attempts
            .map(|attempt| serde_json::to_string(&attempt.outcome).unwrap())
            .map(|outcome| outcome.trim_matches('"').to_owned())
            .collect()
    }

    /// Returns what the provider answers a caller who asks it directly for the first time.
    pub(crate) async fn direct(&self) -> Got {
        self.direct_nth(1).await
    }

    /// Returns what the provider answers a caller who asks it directly for the `nth` time.
    pub(crate) async fn direct_nth(&self, nth: usize) -> Got {
        // Another one: ids count the requests of a stand-in.
        let standin = Standin::script(&self.script).unwrap().speed(self.speed);
        let standin = standin.start().await.unwrap();
        for _ in 1..nth {
            Talk::begin(standin.address(), &self.ask).await.rest().await;
        }
        Talk::begin(standin.address(), &self.ask).await.rest().await
    }

    /// Returns the error frame with which the response ended.
    #[track_caller]
    pub(crate) fn error_frame(&self) -> serde_json::Value {
        self.got.error_frame(self.wire)
    }

    /// Asserts that the provider sees the connection of request `index`, counted from 0, closed.
    pub(crate) async fn assert_left(&self, index: usize) {
        let closed = self
            .standin
            .wait_for_peer_closed(index, Duration::from_secs(1))
            .await;
        assert!(
            closed.is_some(),
            "connection of request {index} is still open"
        );
    }
}

/// Asserts that `took` is `expected`, a tenth more or a moment.
#[track_caller]
pub(crate) fn assert_took(took: Duration, expected: f64) {
    let took = took.as_secs_f64();
    let room = (expected / 10.0).max(0.25);
    assert!(
        (expected - 0.02..=expected + room).contains(&took),
        "took {took:.3} s instead of {expected:.3} s"
    );
}
