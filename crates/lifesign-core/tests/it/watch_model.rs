//! The watch against a model that remembers everything and works everything out anew each second.
//!
//! All limits, steps and allowances are whole seconds, so a look each second sees every bound at
//! the very instant it runs out, and ties are frequent.

use std::time::Duration;

use lifesign_core::{
    Block, BlockKind, BoundName, Bounds, CallShape, Clock, Cut, FailureCode, Finding,
    HeartbeatOrigin, JoinBlock, Limit, Notices, Origin, Progress, Rate, Row, Setting, Sign, Stage,
    Tally, Verdict, Watch, rows,
};
use proptest::prelude::*;

use crate::watch_sim::{ANTHROPIC, CHAT, RESPONSES, by_call, secs};

/// One thing that happens to an attempt.
#[derive(Clone, Debug)]
enum Op {
    Bytes(usize),
    Frame(Sign),
    Headers,
    Pause(u64),
    Sent,
    Wait(u64),
    WholeBody,
    Write,
}

/// A call to be judged, and all that happens to it.
#[derive(Clone, Debug)]
struct Case {
    bounds: Bounds,
    shape: CallShape,
    lifetime_spent: u64,
    connecting: u64,
    ops: Vec<Op>,
}

/// How a driver may behave without changing what comes of it.
#[derive(Clone, Copy, Debug, Default)]
struct Driver {
    /// Judges at every second and half second, twice, instead of at deadlines.
    restless: bool,
    /// Hands every byte in on its own.
    splits: bool,
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    cut: Option<(u64, Cut)>,
    tally: Tally,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// An answer that turns out to be no stream has the bounds of one that was not asked for as one.
    #[test]
    fn a_whole_body_is_bounded_as_a_whole_answer(bounds in bounds(), shape in shape()) {
        let in_force = |rows: &[Row]| -> Vec<_> {
            let rows = rows.iter().filter(|row| row.in_force().is_some());
            rows.map(|row| (row.name, row.in_force(), row.join)).collect()
        };
        let mut watch = Watch::new(&bounds, &shape, Duration::ZERO, Duration::ZERO);

        watch.handle_whole_body(Duration::ZERO);

        let whole = CallShape { streamed: false, ..shape };
        prop_assert_eq!(in_force(watch.rows()), in_force(&rows(&bounds, &whole)));
    }

    /// Never while every clock is inside its bounds, always by the instant the first bound runs
    /// out, by that bound's name and with the code of what came while it ran.
    #[test]
    fn the_first_bound_that_runs_out_cuts_and_no_other(case in case()) {
        let mut model = Model::new(&case);

        let outcome = play(&case, Driver::default(), &mut |watch, step| {
            model.check(watch, step);
        });

        if let Some((_, cut)) = &outcome.cut
            && matches!(cut.bound, BoundName::BetweenEvents | BoundName::Flat)
        {
            prop_assert_eq!(cut.limit, cut.ages.event);
        }
        let expected = model.cut;
        let cut = outcome.cut.map(|(at, cut)| (at, cut.bound, cut.finding, cut.code()));
        prop_assert_eq!(cut, expected);
    }

    #[test]
    fn asking_early_and_twice_changes_nothing(case in case()) {
        let restless = Driver { restless: true, ..Driver::default() };

        prop_assert_eq!(
            play(&case, restless, &mut |_, _| ()),
            play(&case, Driver::default(), &mut |_, _| ())
        );
    }

    #[test]
    fn splitting_one_arrival_into_many_changes_nothing(case in case()) {
        let splits = Driver { splits: true, ..Driver::default() };

        prop_assert_eq!(
            play(&case, splits, &mut |_, _| ()),
            play(&case, Driver::default(), &mut |_, _| ())
        );
    }

    #[test]
    fn a_notice_never_changes_an_outcome(case in case(), every in 1_u64..20) {
        let with = |notices| {
            let mut case = case.clone();
            case.bounds.notice_after = by_call(notices);
            let mut outcome = play(&case, Driver::default(), &mut |_, _| ());
            outcome.tally.notices = 0;
            outcome
        };

        prop_assert_eq!(with(Notices::Every(secs(every))), with(Notices::Off));
    }

    #[test]
    fn heartbeats_renew_raw_and_nothing_else(case in case()) {
        let mut before = None;

        play(&case, Driver::default(), &mut |watch, step| {
            match step {
                Step::Before(_, now) => before = Some(watch.readings(now)),
                Step::After(Op::Frame(sign), now) if sign.progress == Progress::Heartbeat => {
                    let (before, after) = (before.unwrap().ages, watch.readings(now).ages);
                    assert_eq!(after.raw, Duration::ZERO);
                    for clock in [Clock::Event, Clock::Content, Clock::Output] {
                        assert_eq!(after.clock(clock), before.clock(clock), "{clock:?}");
                    }
                }
                Step::After(..) | Step::End(_) | Step::Second(_) => (),
            }
        });
    }

    #[test]
    fn the_tally_adds_up(case in case()) {
        let (mut bytes, mut frames, mut beats) = (0, 0, 0);
        let mut gaps = Gaps::default();

        let outcome = play(&case, Driver::default(), &mut |watch, step| {
            match step {
                Step::After(Op::Bytes(len), _) => bytes += *len as u64,
                Step::After(Op::Frame(sign), _) => {
                    frames += 1;
                    beats += u64::from(sign.progress == Progress::Heartbeat);
                }
                Step::After(..) => (),
                Step::Before(_, now) | Step::End(now) | Step::Second(now) => gaps.see(&watch.readings(now).ages),
            }
        });

        let tally = outcome.tally;
        prop_assert_eq!((tally.bytes, tally.frames), (bytes, frames));
        prop_assert_eq!(tally.heartbeats.total(), beats);
        prop_assert_eq!(tally.longest_gap, lifesign_core::Ages::of(|clock| gaps.0[clock as usize]));
        let times = [tally.sending, tally.sent, tally.headers, tally.first_content, tally.ended];
        let known: Vec<_> = times.into_iter().flatten().collect();
        prop_assert!(known.is_sorted(), "{:?}", tally);
        prop_assert!(tally.paused <= tally.ended.unwrap());
    }
}

/// The longest ages ever read.
#[derive(Default)]
struct Gaps([Duration; 4]);

impl Gaps {
    fn see(&mut self, ages: &lifesign_core::Ages) {
        for clock in Clock::ALL {
            let longest = &mut self.0[clock as usize];
            *longest = (*longest).max(ages.clock(clock));
        }
    }
}

/// What the player tells whoever looks on.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// This is about to happen, at this time.
    Before(&'a Op, Duration),
    /// This has happened.
    After(&'a Op, Duration),
    /// The attempt ends at this time.
    End(Duration),
    /// Nothing more will happen at this second, which is about to be judged.
    Second(Duration),
}

/// Plays a case to its end, as a driver that is never late.
fn play(case: &Case, driver: Driver, each: &mut dyn FnMut(&Watch, Step<'_>)) -> Outcome {
    let spent = secs(case.lifetime_spent);
    let mut watch = Watch::new(&case.bounds, &case.shape, Duration::ZERO, spent);
    watch.handle_connecting(Stage::Dns, Duration::ZERO);
    let mut now = 0;
    let mut cut = pass(&mut watch, &mut now, case.connecting, driver, each);
    if cut.is_none() {
        watch.handle_sending(secs(now));
    }
    for op in &case.ops {
        if cut.is_some() {
            break;
        }
        let at = secs(now);
        each(&watch, Step::Before(op, at));
        match op {
            Op::Bytes(len) if driver.splits => {
                (0..*len).for_each(|_| watch.handle_bytes(1, at));
            }
            Op::Bytes(len) => watch.handle_bytes(*len, at),
            Op::Frame(sign) => watch.handle_frame(*sign, at),
            Op::Headers => watch.handle_headers(at),
            Op::Pause(_) => watch.handle_pause(at),
            Op::Sent => watch.handle_sent(at),
            Op::Wait(_) => (),
            Op::WholeBody => watch.handle_whole_body(at),
            Op::Write => watch.handle_write(at),
        }
        each(&watch, Step::After(op, at));
        if let Op::Pause(seconds) | Op::Wait(seconds) = op {
            cut = pass(&mut watch, &mut now, *seconds, driver, each);
        }
        if let Op::Pause(_) = op {
            watch.handle_resume(secs(now));
        }
    }
    each(&watch, Step::End(secs(now)));
    watch.handle_ended(secs(now));
    Outcome {
        cut,
        tally: watch.tally(),
    }
}

/// Lets so many seconds pass, and judges each before the next begins.
fn pass(
    watch: &mut Watch,
    now: &mut u64,
    seconds: u64,
    driver: Driver,
    each: &mut dyn FnMut(&Watch, Step<'_>),
) -> Option<(u64, Cut)> {
    for _ in 0..seconds {
        let at = secs(*now);
        each(watch, Step::Second(at));
        while driver.restless || watch.poll_deadline().is_some_and(|due| due <= at) {
            match watch.handle_time(at) {
                Verdict::Cut(cut) => return Some((*now, cut)),
                Verdict::Look { until } => assert_eq!(until, at),
                Verdict::Notice(_) => (),
                Verdict::Wait => {
                    assert!(driver.restless, "a deadline for nothing");
                    assert_eq!(watch.handle_time(at), Verdict::Wait);
                    break;
                }
            }
        }
        if driver.restless {
            let half = at + Duration::from_millis(500);
            assert_eq!(watch.handle_time(half), Verdict::Wait);
        }
        *now += 1;
    }
    None
}

/// Everything that happened, in upstream seconds.
struct Model {
    rows: Vec<Row>,
    bounds: Bounds,
    shape: CallShape,
    lifetime_spent: u64,
    log: Vec<(u64, What)>,
    upstream: u64,
    paused: bool,
    cut: Option<(u64, BoundName, Finding, FailureCode)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Bytes,
    Frame(Sign),
    Headers,
    Sending,
    Sent,
    WholeBody,
    Write,
}

impl Model {
    fn new(case: &Case) -> Self {
        Self {
            rows: rows(&case.bounds, &case.shape),
            bounds: case.bounds.clone(),
            shape: case.shape,
            lifetime_spent: case.lifetime_spent,
            log: Vec::new(),
            upstream: 0,
            paused: false,
            cut: None,
        }
    }

    fn check(&mut self, watch: &Watch, step: Step<'_>) {
        match step {
            Step::Before(op, _) => {
                // The first thing follows the first request byte.
                if self.log.is_empty() {
                    self.log.push((self.upstream, What::Sending));
                }
                self.paused = matches!(op, Op::Pause(_));
                self.note(op);
            }
            Step::After(..) | Step::End(_) => (),
            Step::Second(now) => {
                if self.cut.is_none() {
                    self.cut = self.judge(now.as_secs());
                    let due = watch.readings(now).next.is_some_and(|(_, due)| due <= now);
                    assert_eq!(due, self.cut.is_some(), "at {now:?}: {watch:?}");
                }
                if !self.paused {
                    self.upstream += 1;
                }
            }
        }
    }

    fn note(&mut self, op: &Op) {
        let mut note = |what| self.log.push((self.upstream, what));
        match op {
            Op::Bytes(0) | Op::Pause(_) | Op::Wait(_) => (),
            Op::Bytes(_) => note(What::Bytes),
            Op::Frame(sign) => note(What::Frame(*sign)),
            Op::Headers => note(What::Headers),
            Op::Sent => note(What::Sent),
            Op::WholeBody => {
                note(What::WholeBody);
                self.shape.streamed = false;
                self.rows = rows(&self.bounds, &self.shape);
            }
            Op::Write => note(What::Write),
        }
    }

    /// Returns the cut of this second, if a bound has run out.
    fn judge(&self, call: u64) -> Option<(u64, BoundName, Finding, FailureCode)> {
        let name = self
            .rows
            .iter()
            .filter(|row| self.has_run_out(row, call))
            .map(|row| row.name)
            .min()?;
        let finding = self.finding(name);
        let code = match (name, finding) {
            (BoundName::Connect, _) => FailureCode::Connect,
            (BoundName::Lifetime, _) => FailureCode::Lifetime,
            (BoundName::WallClock, _) => FailureCode::WallClock,
            (_, Finding::Nothing) => FailureCode::RawSilent,
            (_, Finding::Bytes) => FailureCode::BytesOnly,
            (_, Finding::Heartbeats) => FailureCode::HeartbeatsOnly,
            (_, Finding::Events) => FailureCode::NoContent,
            (_, Finding::Reasoning) => FailureCode::ReasoningOnly,
            (_, Finding::Output) => FailureCode::WholeCall,
        };
        Some((call, name, finding, code))
    }

    fn has_run_out(&self, row: &Row, call: u64) -> bool {
        let Some(limit) = row.in_force() else {
            return false;
        };
        let limit = limit.as_secs();
        if row.name == BoundName::WallClock {
            return call >= limit;
        }
        if self.paused {
            return false;
        }
        let over =
            |since: Option<u64>, limit| since.is_some_and(|since| self.upstream - since >= limit);
        let response =
            self.first(|what| matches!(what, What::Headers | What::Bytes | What::Frame(_)));
        let sent = self.first(|what| what == What::Sent).or(response);
        let sent = match (sent, response) {
            (Some(sent), Some(response)) => Some(sent.min(response)),
            (sent, _) => sent,
        };
        let sending = self.first(|_| true);
        let content = self.first(|what| progress(what) >= Some(Progress::Reasoning));
        match row.name {
            BoundName::WallClock => unreachable!(),
            BoundName::Lifetime => self.lifetime_spent + self.upstream >= limit,
            BoundName::Connect => sending.is_none() && self.upstream >= limit,
            BoundName::WholeCall => over(sent.or(sending), limit),
            BoundName::Headers => response.is_none() && over(sent, limit),
            BoundName::BeforeContent => {
                content.is_none() && over(sent, limit) && self.has_spent_allowance(row)
            }
            BoundName::BetweenEvents => {
                content.is_some()
                    && over(self.renewed(Clock::Event), limit)
                    && self.has_spent_allowance(row)
            }
            BoundName::Flat => {
                over(self.renewed(Clock::Event), limit) && self.has_spent_allowance(row)
            }
            BoundName::ReasoningOnly => {
                let latest = self.log.iter().rev().find_map(|(_, what)| {
                    progress(*what).filter(|progress| *progress >= Progress::Reasoning)
                });
                latest == Some(Progress::Reasoning) && over(self.renewed(Clock::Output), limit)
            }
            BoundName::UpstreamQuiet => {
                let report = self.log.iter().rev().find_map(|(at, what)| match what {
                    What::Frame(sign) if sign.progress >= Progress::Lifecycle => Some(None),
                    What::Frame(sign) => sign.upstream_silent.map(|silent| Some((*at, silent))),
                    _ => None,
                });
                report
                    .flatten()
                    .is_some_and(|(at, silent)| silent.as_secs() + self.upstream - at >= limit)
            }
            BoundName::RawSilence => {
                let learned = self.learned().filter(|_| row.origin == Origin::Default);
                over(self.renewed(Clock::Raw), learned.unwrap_or(limit))
            }
        }
    }

    /// Returns whether no open block holds the bound off any longer.
    fn has_spent_allowance(&self, row: &Row) -> bool {
        let Some(join) = row.join else {
            return true;
        };
        let opened = match join.block {
            JoinBlock::Thinking => self.log.iter().rev().find_map(|(at, what)| {
                let opens = Some(Block::Opens(BlockKind::Thinking));
                matches!(what, What::Frame(sign) if sign.block == opens).then_some(*at)
            }),
            JoinBlock::EmptyDark => self.empty_dark_block(),
        };
        match (opened, join.allowance) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(opened), Some(allowance)) => self.upstream - opened >= allowance.as_secs(),
        }
    }

    fn empty_dark_block(&self) -> Option<u64> {
        let mut open = None;
        for (at, what) in &self.log {
            let What::Frame(sign) = what else { continue };
            open = match sign.block {
                Some(Block::Opens(BlockKind::Thinking)) if sign.progress >= Progress::Reasoning => {
                    None
                }
                Some(Block::Opens(kind)) => kind.is_dark().then_some(*at),
                Some(Block::Fills | Block::Closes) => None,
                None => open,
            };
        }
        open
    }

    fn learned(&self) -> Option<u64> {
        let mut beats = Vec::new();
        for (at, what) in &self.log {
            match progress(*what) {
                Some(Progress::Heartbeat) => beats.push(*at),
                Some(Progress::Byte) | None => (),
                Some(_) => beats.clear(),
            }
        }
        beats.dedup();
        let gaps: Vec<_> = beats.windows(2).map(|pair| pair[1] - pair[0]).collect();
        (gaps.len() >= 3).then(|| 45.max(6 * gaps.iter().max().unwrap()))
    }

    fn first(&self, is: impl Fn(What) -> bool) -> Option<u64> {
        self.log
            .iter()
            .find(|(_, what)| is(*what))
            .map(|(at, _)| *at)
    }

    fn last(&self, is: impl Fn(What) -> bool) -> Option<u64> {
        self.log
            .iter()
            .rev()
            .find(|(_, what)| is(*what))
            .map(|(at, _)| *at)
    }

    /// Returns when `clock` was last renewed, by whatever renews it.
    fn renewed(&self, clock: Clock) -> Option<u64> {
        let renews = |what| {
            progress(what) >= Some(clock.least())
                || clock == Clock::Raw && (what == What::Headers || what == What::Write)
        };
        let last = self.last(renews);
        // The last request byte was accepted too, unless the answer came before it.
        let sent = self
            .last(|what| what == What::Sent)
            .filter(|_| clock == Clock::Raw);
        last.max(sent).or_else(|| self.first(|_| true))
    }

    fn finding(&self, name: BoundName) -> Finding {
        let after = match name {
            BoundName::BetweenEvents | BoundName::Flat | BoundName::UpstreamQuiet => {
                self.last(|what| progress(what) >= Some(Progress::Lifecycle))
            }
            BoundName::RawSilence => self.last(|what| progress(what) >= Some(Progress::Byte)),
            BoundName::ReasoningOnly => self.last(|what| progress(what) == Some(Progress::Output)),
            _ => None,
        };
        let best = self
            .log
            .iter()
            .filter(|(at, _)| after.is_none_or(|after| *at > after))
            .filter_map(|(_, what)| progress(*what))
            .max()
            .map_or(Finding::Nothing, Finding::from);
        if name == BoundName::UpstreamQuiet {
            // The report itself, even one that came with an event.
            best.max(Finding::Heartbeats)
        } else {
            best
        }
    }
}

fn progress(what: What) -> Option<Progress> {
    match what {
        What::Bytes => Some(Progress::Byte),
        What::Frame(sign) => Some(sign.progress),
        What::Headers | What::Sending | What::Sent | What::WholeBody | What::Write => None,
    }
}

fn case() -> impl Strategy<Value = Case> {
    let opening = (0_u64..4, 0_u64..30, any::<bool>(), 0_u64..30, any::<bool>());
    (
        bounds(),
        shape(),
        0_u64..120,
        0_u64..14,
        opening,
        prop::collection::vec(ops(), 0..16),
    )
        .prop_map(
            |(bounds, shape, lifetime_spent, connecting, opening, rest)| {
                let (write, sent, sends, headers, answers) = opening;
                let mut ops = vec![Op::Wait(write), Op::Write, Op::Wait(sent)];
                if sends {
                    ops.extend([Op::Sent, Op::Wait(headers)]);
                }
                if sends && answers {
                    ops.push(Op::Headers);
                }
                ops.extend(rest.into_iter().flatten());
                ops.push(Op::Wait(400));
                Case {
                    bounds,
                    shape,
                    lifetime_spent,
                    connecting,
                    ops,
                }
            },
        )
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let one = |op: BoxedStrategy<Op>| op.prop_map(|op| vec![op]).boxed();
    prop_oneof![
        4 => one((0_u64..40).prop_map(Op::Wait).boxed()),
        1 => one((0_u64..60).prop_map(Op::Pause).boxed()),
        2 => one((0_usize..5).prop_map(Op::Bytes).boxed()),
        8 => one(sign().prop_map(Op::Frame).boxed()),
        1 => one(Just(Op::WholeBody).boxed()),
        // A rhythm of heartbeats.
        2 => (1_u64..12, 1_usize..6).prop_map(|(every, count)| {
            let beat = Sign::heartbeat(HeartbeatOrigin::Comment);
            vec![vec![Op::Wait(every), Op::Frame(beat)]; count].concat()
        }),
    ]
}

fn sign() -> impl Strategy<Value = Sign> {
    let kind = prop_oneof![
        Just(BlockKind::Text),
        Just(BlockKind::Thinking),
        Just(BlockKind::Tool),
        Just(BlockKind::ServerTool),
    ];
    let block = prop_oneof![
        3 => kind.prop_map(Block::Opens),
        1 => Just(Block::Fills),
        1 => Just(Block::Closes),
    ];
    let event = prop_oneof![
        Just(Progress::Lifecycle),
        Just(Progress::Reasoning),
        Just(Progress::Output),
    ];
    prop_oneof![
        1 => Just(Sign::of(Progress::Byte)),
        2 => Just(Sign::heartbeat(HeartbeatOrigin::Provider)),
        2 => (0_u64..100).prop_map(|silent| Sign {
            upstream_silent: Some(secs(silent)),
            ..Sign::heartbeat(HeartbeatOrigin::Proxy)
        }),
        6 => (event, prop::option::of(block)).prop_map(|(progress, block)| Sign {
            block,
            ..Sign::of(progress)
        }),
    ]
}

fn shape() -> impl Strategy<Value = CallShape> {
    let wire = prop_oneof![Just(ANTHROPIC), Just(CHAT), Just(RESPONSES)];
    // 87 tokens take a second.
    let max_tokens = prop::option::of((0_u64..120).prop_map(|seconds| seconds * 87));
    (prop::bool::weighted(0.85), max_tokens, wire).prop_map(|(streamed, max_tokens, wire)| {
        CallShape {
            streamed,
            max_tokens,
            wire,
        }
    })
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let limits = prop::array::uniform11(prop::option::weighted(0.5, setting()));
    (limits, any::<(bool, bool)>(), prop::bool::weighted(0.15)).prop_map(
        |(limits, (phase_defaults, shows_work), unrated)| {
            let mut bounds = Bounds {
                phase_defaults,
                shows_work,
                ..Bounds::default()
            };
            if unrated {
                bounds.think_tokens_per_second = by_call(Rate::Off);
            }
            let Bounds {
                connect,
                headers,
                raw_silence,
                before_content,
                between_events,
                flat,
                reasoning_only,
                whole_call,
                upstream_quiet,
                lifetime,
                wall_clock,
                think_tokens_per_second: _,
                notice_after: _,
                phase_defaults: _,
                shows_work: _,
            } = &mut bounds;
            let fields = [
                connect,
                headers,
                raw_silence,
                before_content,
                between_events,
                flat,
                reasoning_only,
                whole_call,
                upstream_quiet,
                lifetime,
                wall_clock,
            ];
            for (field, limit) in fields.into_iter().zip(limits) {
                if let Some(limit) = limit {
                    *field = limit;
                }
            }
            bounds
        },
    )
}

fn setting() -> impl Strategy<Value = Setting<Limit>> {
    let value = prop_oneof![
        1 => Just(Limit::Off),
        5 => (1_u64..150).prop_map(|seconds| Limit::After(secs(seconds))),
    ];
    let origin = prop_oneof![Just(Origin::Call), Just(Origin::Catalog)];
    (value, origin).prop_map(|(value, origin)| Setting { value, origin })
}
