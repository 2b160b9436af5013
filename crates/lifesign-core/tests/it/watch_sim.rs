//! A driver that never comes late, in virtual time.

use std::time::Duration;

use lifesign_core::{
    Block, BlockKind, Bounds, CallShape, Cut, HeartbeatOrigin, Limit, Notice, Origin, Progress,
    Setting, Sign, Verdict, Watch, WireDefaults,
};

pub(crate) const ANTHROPIC: WireDefaults = WireDefaults {
    name: "anthropic",
    raw_silence: secs(180),
    shows_work: true,
    between_events: true,
};
pub(crate) const CHAT: WireDefaults = WireDefaults {
    name: "openai-chat",
    raw_silence: secs(240),
    shows_work: false,
    between_events: true,
};
pub(crate) const RESPONSES: WireDefaults = WireDefaults {
    name: "openai-responses",
    raw_silence: secs(240),
    shows_work: false,
    between_events: false,
};

/// A watch, and what came of driving it.
#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) watch: Watch,
    pub(crate) now: Duration,
    pub(crate) notices: Vec<(u64, Notice)>,
    pub(crate) cut: Option<Cut>,
}

impl Sim {
    /// A request that was sent at once.
    pub(crate) fn sent(bounds: &Bounds, shape: CallShape) -> Self {
        let mut sim = Self::queued(bounds, shape);
        sim.watch.handle_sending(Duration::ZERO);
        sim.watch.handle_sent(Duration::ZERO);
        sim
    }

    /// A request that was sent and answered with headers at once.
    pub(crate) fn open(bounds: &Bounds, shape: CallShape) -> Self {
        let mut sim = Self::sent(bounds, shape);
        sim.watch.handle_headers(Duration::ZERO);
        sim
    }

    /// An attempt that has not begun to connect.
    pub(crate) fn queued(bounds: &Bounds, shape: CallShape) -> Self {
        Self {
            watch: Watch::new(bounds, &shape, Duration::ZERO, Duration::ZERO),
            now: Duration::ZERO,
            notices: Vec::new(),
            cut: None,
        }
    }

    /// Lets the time before `at` pass, so that something may come at `at`.
    pub(crate) fn until(&mut self, at: Duration) -> &mut Self {
        while self.cut.is_none()
            && let Some(due) = self.watch.poll_deadline()
            && due < at
        {
            self.judge(due);
        }
        if self.cut.is_none() {
            self.now = at;
        }
        self
    }

    /// Lets one frame come `after` the last thing.
    pub(crate) fn frame(&mut self, after: Duration, sign: Sign) -> &mut Self {
        self.until(self.now + after);
        if self.cut.is_none() {
            self.watch.handle_bytes(100, self.now);
            self.watch.handle_frame(sign, self.now);
        }
        self
    }

    /// Lets `count` frames come, each `every` after the one before it.
    pub(crate) fn repeat(&mut self, count: u32, every: Duration, sign: Sign) -> &mut Self {
        for _ in 0..count {
            self.frame(every, sign);
        }
        self
    }

    /// Lets nothing more come: returns the cut and its second, within a day.
    pub(crate) fn hold(&mut self) -> (u64, Cut) {
        self.until(self.now + secs(86_400));
        let cut = self.cut.clone().expect("nothing cut within a day");
        (self.now.as_secs(), cut)
    }

    /// Returns the name of the cut and its second, if nothing more comes.
    pub(crate) fn hold_name(&mut self) -> (&'static str, u64) {
        let (second, cut) = self.hold();
        (cut.bound.name(), second)
    }

    fn judge(&mut self, due: Duration) {
        self.now = self.now.max(due);
        match self.watch.handle_time(self.now) {
            Verdict::Cut(cut) => {
                assert_eq!(cut.late, Duration::ZERO, "a punctual cut came late");
                self.cut = Some(cut);
            }
            Verdict::Look { until } => assert_eq!(until, self.now, "a punctual driver came late"),
            Verdict::Notice(notice) => self.notices.push((self.now.as_secs(), notice)),
            Verdict::Wait => panic!("a deadline at {due:?} for nothing: {:?}", self.watch),
        }
    }
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Every bound off, notices and the think rate too, for tests that set what they are about.
pub(crate) fn off() -> Bounds {
    let off = || by_call(Limit::Off);
    Bounds {
        connect: off(),
        headers: off(),
        raw_silence: off(),
        before_content: off(),
        between_events: off(),
        flat: off(),
        reasoning_only: off(),
        whole_call: off(),
        upstream_quiet: off(),
        lifetime: off(),
        wall_clock: off(),
        notice_after: by_call(lifesign_core::Notices::Off),
        ..Bounds::default()
    }
}

pub(crate) const fn by_call<T>(value: T) -> Setting<T> {
    Setting {
        value,
        origin: Origin::Call,
    }
}

/// A limit of so many seconds, set by the call.
pub(crate) const fn limit(seconds: u64) -> Setting<Limit> {
    by_call(Limit::After(secs(seconds)))
}

/// A limit of so many seconds, set by the catalog.
pub(crate) const fn from_catalog(seconds: u64) -> Setting<Limit> {
    Setting {
        value: Limit::After(secs(seconds)),
        origin: Origin::Catalog,
    }
}

pub(crate) const fn streamed(wire: WireDefaults, max_tokens: Option<u64>) -> CallShape {
    CallShape {
        streamed: true,
        max_tokens,
        wire,
    }
}

pub(crate) const fn whole(wire: WireDefaults, max_tokens: Option<u64>) -> CallShape {
    CallShape {
        streamed: false,
        max_tokens,
        wire,
    }
}

/// A stream that opened at once.
pub(crate) fn stream(bounds: &Bounds, max_tokens: Option<u64>) -> Sim {
    Sim::open(bounds, streamed(ANTHROPIC, max_tokens))
}

pub(crate) const fn block(sign: Sign, block: Block) -> Sign {
    Sign {
        block: Some(block),
        ..sign
    }
}

pub(crate) const fn opens(kind: BlockKind) -> Sign {
    block(LIFECYCLE, Block::Opens(kind))
}

/// A beat of a gateway that says how long its upstream has been silent.
pub(crate) const fn report(silent: u64) -> Sign {
    Sign {
        upstream_silent: Some(secs(silent)),
        ..Sign::heartbeat(HeartbeatOrigin::Proxy)
    }
}

pub(crate) const LIFECYCLE: Sign = Sign::of(Progress::Lifecycle);
pub(crate) const REASONING: Sign = Sign::of(Progress::Reasoning);
pub(crate) const OUTPUT: Sign = Sign::of(Progress::Output);
pub(crate) const PING: Sign = Sign::heartbeat(HeartbeatOrigin::Provider);
pub(crate) const COMMENT: Sign = Sign::heartbeat(HeartbeatOrigin::Comment);
