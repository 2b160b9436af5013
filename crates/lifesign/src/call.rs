//! One call: attempts, the waits between them, and what the caller is told.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lifesign_core::{
    AttemptRecord, BoundName, Budget, Commit, Decision, Failure, FailureCode, Gaps, GiveUp, Hints,
    Limit, Past, Phase, Tally, Tier, Watch,
};
use lifesign_wire::Answer;

use crate::attempt::{Attempt, AttemptEnd, AttemptStep, Cause, Pieces};
use crate::clock::{self, CallClock};
use crate::decide::FailedAttempt;
use crate::event::CallEvent;
use crate::guard::Guard;
use crate::job::Job;
use crate::ledger::{Books, Ledger};
use crate::monitor::{Doing, Monitor};
use crate::outcome::{Answered, Failed};
use crate::records::{Records, WaitFor};
use crate::timer::LazyTimer;

/// What a call has to say: an event, or the failure that ends it.
pub(crate) type CallItem = Result<CallEvent, Box<Failed>>;

/// A call under way.
///
/// It is a state machine that only moves while it is polled. Attempts replace one another unseen
/// until the first content; after it the first failure ends the call.
pub(crate) struct Call {
    job: Arc<Job>,
    clock: CallClock,
    monitor: Monitor,
    timer: LazyTimer,
    state: State,
    /// Where what happens is written down, if anybody wants to know.
    ledger: Option<Ledger>,
    records: Vec<AttemptRecord>,
    history: Vec<Past>,
    /// The wait before the attempt that comes next.
    waited: Duration,
    /// When the attempt at hand began.
    began: Duration,
    /// Time spent waiting for the upstream in the attempts so far.
    lifetime_spent: Duration,
    /// Whether the last attempt ended in silence or loss, so that idle connections are suspect.
    fresh: bool,
    /// Whether the caller has taken an item and not asked again.
    paused: bool,
}

enum State {
    /// Not begun.
    Admitting,
    /// Making an attempt.
    Attempting(Box<Attempt<Pieces>>),
    /// Waiting for a hold to end, or before the next attempt.
    Waiting {
        what: WaitFor,
        /// What raised the hold, or failed the attempt before.
        why: FailureCode,
        since: Duration,
        until: Duration,
    },
    /// Over.
    Over,
}

impl Call {
    /// Returns a call that does nothing before it is polled, but whose clock runs from now.
    pub(crate) fn new(job: Job, records: Option<Arc<dyn Records>>) -> Self {
        let clock = CallClock::start();
        Self {
            ledger: records.map(|records| Ledger::open(records, &job)),
            monitor: Monitor::new(clock, job.settings.retry.attempts.value),
            job: Arc::new(job),
            timer: LazyTimer::new(clock),
            clock,
            state: State::Admitting,
            records: Vec::new(),
            history: Vec::new(),
            waited: Duration::ZERO,
            began: Duration::ZERO,
            lifetime_spent: Duration::ZERO,
            fresh: false,
            paused: false,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.job.id
    }

    pub(crate) const fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// Polls for what happens next; `None` after the end.
    ///
    /// From an item to the next poll the caller pauses: every clock but the wall's stands still.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<CallItem>> {
        if std::mem::take(&mut self.paused) {
            let now = self.clock.elapsed();
            self.monitor.watch(|watch| watch.handle_resume(now));
        }
        let item = ready!(self.poll_item(cx));
        let now = self.clock.elapsed();
        self.monitor.watch(|watch| watch.handle_pause(now));
        self.paused = true;
        Poll::Ready(item)
    }

    /// Ends the call because the caller leaves; `None` if it is over already.
    pub(crate) fn cancel(&mut self) -> Option<Box<Failed>> {
        let end = match &mut self.state {
            State::Over => return None,
            State::Attempting(attempt) => attempt.cancel(),
            State::Admitting | State::Waiting { .. } => None,
        };
        let Some(mut end) = end else {
            return Some(self.fail(Failure::new(FailureCode::Cancelled, Phase::Queued), None));
        };
        // The caller left before the answer that had just become whole was handed out.
        end.cause.get_or_insert(Cause::Cancelled);
        let failure = self.close(&end)?;
        Some(self.fail(failure, end.partial()))
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<CallItem>> {
        loop {
            match &mut self.state {
                State::Over => return Poll::Ready(None),
                State::Admitting => {
                    if let Some(item) = self.admit() {
                        return Poll::Ready(Some(item));
                    }
                }
                State::Waiting { until, .. } => {
                    let until = *until;
                    if let Err(failed) = ready!(self.poll_sleep(until, cx)) {
                        return Poll::Ready(Some(Err(failed)));
                    }
                    self.begin_attempt();
                }
                State::Attempting(attempt) => {
                    return Poll::Ready(Some(match ready!(attempt.poll_next(cx)) {
                        AttemptStep::Item(event) => Ok(event),
                        AttemptStep::Notice(notice) => {
                            if let Some(ledger) = &mut self.ledger {
                                ledger.note_quiet(&notice, self.clock.elapsed());
                            }
                            Ok(CallEvent::Notice(notice))
                        }
                        AttemptStep::Ended(end) => self.conclude(*end),
                    }));
                }
            }
        }
    }

    /// Looks at the holds of the upstream, and starts or waits.
    fn admit(&mut self) -> Option<CallItem> {
        let Some(held) = self.job.hold_wait() else {
            self.begin_attempt();
            return None;
        };
        let wait = held.remaining;
        let since = self.clock.elapsed();
        let until = since.saturating_add(wait);
        let max = self.job.settings.retry.max_wait.value;
        let give_up = if wait > max {
            Some(GiveUp::BeyondMaxWait { asked: wait, max })
        } else if self.wall_clock().is_some_and(|wall| until >= wall) {
            Some(GiveUp::WallClock)
        } else {
            None
        };
        if let Some(give_up) = give_up {
            let mut failure = Failure::new(held.why, Phase::Queued);
            failure.detail = Some("the upstream is on hold after an earlier call".to_owned());
            let resets_at = clock::timestamp_after(wait);
            failure.settle(
                give_up,
                &Hints {
                    wait: Some(wait),
                    resets_at,
                    ..Hints::default()
                },
            );
            return Some(Err(self.fail(failure, None)));
        }
        self.state = State::Waiting {
            what: WaitFor::Hold,
            why: held.why,
            since,
            until,
        };
        self.monitor.set_doing(Doing::Holding { until });
        self.waited = wait;
        Some(Ok(CallEvent::Holding { wait }))
    }

    fn begin_attempt(&mut self) {
        let began = self.clock.elapsed();
        self.end_wait();
        self.began = began;
        let bounds = &self.job.settings.bounds;
        let watch = Watch::new(bounds, &self.job.shape, began, self.lifetime_spent);
        self.monitor.begin_attempt(self.next_number(), watch);
        let guard = Guard::new(self.clock, self.monitor.clone());
        let attempt = Attempt::start(self.job.errand(self.fresh), guard, self.job.pieces());
        self.state = State::Attempting(Box::new(attempt));
    }

    /// Takes in the end of an attempt: the answer, a failure, or a reason for another attempt.
    fn conclude(&mut self, end: AttemptEnd) -> CallItem {
        let Some(failure) = self.close(&end) else {
            return Ok(CallEvent::Finished(Box::new(self.succeed(end.answer))));
        };
        let policy = &self.job.settings.retry;
        let budget = Budget {
            now: self.clock.elapsed(),
            wall_clock: self.job.settings.bounds.wall_clock.value,
            commit: end.commit,
        };
        let failed = FailedAttempt {
            failure: &failure,
            hints: &end.hints,
            past: &self.history,
            budget: &budget,
            policy,
            random: fastrand::f64(),
        };
        let decision = match &self.job.decide {
            Some(custom) if budget.commit != Commit::Content => custom.decide(&failed),
            _ => failed.by_tiers(),
        };
        match decision {
            Decision::Retry { after, .. } => {
                if end.hints.wait.is_some_and(|wait| !wait.is_zero()) {
                    self.job.hold(after, failure.code);
                }
                self.history.push(Past {
                    code: failure.code,
                    waited: after,
                });
                self.fresh = failure.leaves_connections_suspect();
                self.waited = after;
                let until = budget.now.saturating_add(after);
                self.state = State::Waiting {
                    what: WaitFor::Retry,
                    why: failure.code,
                    since: budget.now,
                    until,
                };
                let attempt = self.next_number();
                let of = self.allowed(failure.tier()).max(attempt);
                self.monitor.set_attempts(of);
                self.monitor.set_doing(Doing::RetryWait { until });
                Ok(CallEvent::Retrying {
                    failure: Box::new(failure),
                    attempt,
                    of,
                    wait: after,
                })
            }
            Decision::GiveUp { reason } => Err(self.give_up(failure, reason, end)),
        }
    }

    fn give_up(&mut self, mut failure: Failure, reason: GiveUp, end: AttemptEnd) -> Box<Failed> {
        if let (GiveUp::BeyondMaxWait { asked, .. }, Some(Tier::Overload | Tier::Rate)) =
            (reason, failure.code.tier())
        {
            self.job.hold(asked, failure.code);
        }
        failure.settle(reason, &end.hints);
        self.fail(failure, end.partial())
    }

    /// Closes the books of an attempt, and returns its failure if it has a cause.
    fn close(&mut self, end: &AttemptEnd) -> Option<Failure> {
        let (tally, gaps) = match self.monitor.end_attempt() {
            Some(watch) => {
                self.lifetime_spent = watch.lifetime();
                (watch.tally(), watch.into_gaps())
            }
            None => (Tally::default(), Gaps::default()),
        };
        let (upstream, number) = (&self.job.upstream, self.next_number());
        let mut failure = end.failure(number, upstream, &tally);
        if let Some(failure) = &mut failure {
            self.describe(failure);
        }
        let record = end.record(number, upstream, &tally, self.waited, failure.as_ref());
        if let Some(ledger) = &mut self.ledger {
            ledger.note_attempt(Books {
                end,
                record: &record,
                failure: failure.as_ref(),
                began: self.began,
                gaps,
            });
        }
        self.records.push(record);
        failure
    }

    fn succeed(&mut self, answer: Answer) -> Answered {
        self.state = State::Over;
        self.job.release_hold();
        let answered = Answered {
            answer,
            id: self.job.id.clone(),
            attempts: std::mem::take(&mut self.records),
            elapsed: self.clock.elapsed(),
        };
        if let Some(ledger) = &self.ledger {
            ledger.note_answered(&answered);
        }
        answered
    }

    fn fail(&mut self, mut failure: Failure, partial: Option<Answer>) -> Box<Failed> {
        self.describe(&mut failure);
        self.end_wait();
        self.state = State::Over;
        self.monitor.set_doing(Doing::Ended);
        let failed = Box::new(Failed {
            failure,
            partial,
            id: self.job.id.clone(),
            attempts: std::mem::take(&mut self.records),
            elapsed: self.clock.elapsed(),
        });
        if let Some(ledger) = &self.ledger {
            ledger.note_failed(&failed);
        }
        failed
    }

    /// Takes down how long was waited, where the call waits.
    fn end_wait(&mut self) {
        if let State::Waiting {
            what, why, since, ..
        } = &self.state
            && let Some(ledger) = &mut self.ledger
        {
            ledger.note_wait(*what, Some(*why), *since, self.clock.elapsed());
        }
    }

    /// Says whom the failure concerns.
    fn describe(&self, failure: &mut Failure) {
        let made = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        failure.attempt = failure.attempt.max(made);
        failure.of = self.allowed(failure.tier()).max(failure.attempt);
        failure.upstream = Some(self.job.upstream.name().to_owned());
        failure.model.clone_from(&self.job.model);
    }

    /// Returns how many attempts may fail in `tier`; what has none is not repeated at all.
    fn allowed(&self, tier: Option<Tier>) -> u32 {
        let policy = &self.job.settings.retry;
        tier.map_or(1, |tier| policy.tries(tier))
    }

    /// Sleeps until `until` under the wall clock alone.
    fn poll_sleep(
        &mut self,
        until: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Box<Failed>>> {
        let wall = self.wall_clock();
        let wake = wall.map_or(until, |wall| wall.min(until));
        while self.clock.elapsed() < wake {
            ready!(self.timer.poll(wake, cx));
        }
        if wall.is_none_or(|wall| until < wall) {
            return Poll::Ready(Ok(()));
        }
        let mut failure = Failure::new(FailureCode::WallClock, Phase::Queued);
        failure.bound = Some(BoundName::WallClock);
        failure.limit = wall;
        failure.origin = Some(self.job.settings.bounds.wall_clock.origin.clone());
        Poll::Ready(Err(self.fail(failure, None)))
    }

    fn wall_clock(&self) -> Option<Duration> {
        match self.job.settings.bounds.wall_clock.value {
            Limit::After(limit) => Some(limit),
            Limit::Off => None,
        }
    }

    fn next_number(&self) -> u32 {
        u32::try_from(self.records.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1)
    }
}

impl Drop for Call {
    /// Takes down that the caller left, where the call was not over.
    fn drop(&mut self) {
        if self.ledger.is_some() {
            self.cancel();
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}
