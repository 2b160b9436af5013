//! When each bound runs out.

use std::time::Duration;

use super::{JoinBlock, Joined, Row, Watch};
use crate::{BoundName, Clock, Origin, Phase};

impl Watch {
    /// Returns the bound that runs out first, and when, in call time.
    pub(super) fn first_due(&self) -> Option<(&Row, Duration)> {
        let mut first: Option<(&Row, Duration)> = None;
        for row in &self.rows {
            if let Some(due) = self.due(row)
                && first.is_none_or(|(_, earliest)| due < earliest)
            {
                first = Some((row, due));
            }
        }
        first
    }

    /// Returns when `row` runs out, in call time, or `None` while it does not run.
    pub(super) fn due(&self, row: &Row) -> Option<Duration> {
        let limit = self.limit(row)?;
        if row.name == BoundName::WallClock {
            return (self.phase < Phase::Ended).then_some(limit);
        }
        if self.paused_since.is_some() {
            return None;
        }
        let start = self.start(row.name)?;
        let mut due = match row.name {
            BoundName::Lifetime => start.checked_add(limit.saturating_sub(self.lifetime_spent)),
            BoundName::UpstreamQuiet => {
                start.checked_add(limit.saturating_sub(self.report?.silent))
            }
            _ => start.checked_add(self.joined_limit(row, limit, start)?.0),
        }?;
        if let Some(since) = self.in_force_since(row.name) {
            due = due.max(since);
        }
        if let Some(woke) = self.woke
            && is_excusable(row.name)
        {
            due = due.max(woke.checked_add(limit.min(RESTART))?);
        }
        due.checked_add(self.paused)
    }

    /// Returns the upstream time from which `name` counts, or `None` while it does not run.
    pub(super) fn start(&self, name: BoundName) -> Option<Duration> {
        let (phase, phases) = (self.phase, Phase::Sending..Phase::Ended);
        match name {
            BoundName::Lifetime if phase < Phase::Ended => self.connecting,
            // Before all is sent nothing else may bound a request that nobody takes.
            BoundName::WholeCall if phases.contains(&phase) => self.sent.or(self.sending),
            BoundName::Connect if phase == Phase::Connecting => self.connecting,
            BoundName::Headers if phase == Phase::WaitingForHeaders => self.sent,
            BoundName::BeforeContent
                if matches!(phase, Phase::WaitingForHeaders | Phase::BeforeContent) =>
            {
                self.sent
            }
            BoundName::BetweenEvents if phase == Phase::AfterContent => self.renewed(Clock::Event),
            BoundName::ReasoningOnly if phase == Phase::AfterContent && self.reasons.is_some() => {
                self.renewed(Clock::Output)
            }
            BoundName::UpstreamQuiet if phase < Phase::Ended => self.report.map(|report| report.at),
            BoundName::Flat if phases.contains(&phase) => self.renewed(Clock::Event),
            BoundName::RawSilence if phases.contains(&phase) => self.renewed(Clock::Raw),
            _ => None,
        }
    }

    /// Returns since when `name` runs, where that may be later than the instant it counts from.
    ///
    /// A bound that comes into force when its limit is over already runs out at that instant, not
    /// in the past: the past would look like a late wake-up.
    const fn in_force_since(&self, name: BoundName) -> Option<Duration> {
        match name {
            BoundName::ReasoningOnly => self.reasons,
            BoundName::WholeCall => self.whole,
            _ => None,
        }
    }

    /// Returns the limit in force, learned or not.
    pub(super) fn limit(&self, row: &Row) -> Option<Duration> {
        let limit = row.in_force()?;
        Some(self.learned(row).unwrap_or(limit))
    }

    pub(super) fn learned(&self, row: &Row) -> Option<Duration> {
        let learns = row.name == BoundName::RawSilence && row.origin == Origin::Default;
        if learns { self.pulse.learned() } else { None }
    }

    /// Returns how long `row` lasts, and from what an open block has extended it, if one has.
    pub(super) fn lasts(&self, row: &Row) -> Option<(Duration, Option<Joined>)> {
        let limit = self.limit(row)?;
        match self.start(row.name) {
            Some(start) => self.joined_limit(row, limit, start),
            None => Some((limit, None)),
        }
    }

    /// Returns how long `row`, of `limit` in itself, lasts when it counts from `start`, or `None`
    /// while an open block lifts it.
    fn joined_limit(
        &self,
        row: &Row,
        limit: Duration,
        start: Duration,
    ) -> Option<(Duration, Option<Joined>)> {
        let Some(join) = row.join else {
            return Some((limit, None));
        };
        let Some(opened) = self.opened(join.block) else {
            return Some((limit, None));
        };
        let allowance = join.allowance?;
        let joined = opened.checked_add(allowance)?.saturating_sub(start);
        Some(if joined > limit {
            (joined, Some(Joined { limit, allowance }))
        } else {
            (limit, None)
        })
    }

    /// Returns when the block opened that moves a bound now, if there is one.
    fn opened(&self, block: JoinBlock) -> Option<Duration> {
        match block {
            JoinBlock::EmptyDark => self.open.filter(|open| open.empty).map(|open| open.since),
            JoinBlock::Thinking => self.thinking,
        }
    }

    /// Returns when `clock` was last set back to zero: at the first request byte if never.
    pub(super) fn renewed(&self, clock: Clock) -> Option<Duration> {
        let seen = self.seen[clock.least() as usize];
        match clock {
            Clock::Raw => seen.max(self.moved).or(self.sending),
            Clock::Event | Clock::Content | Clock::Output => seen.or(self.sending),
        }
    }

    /// Returns when the next notice is due, in call time.
    pub(super) fn notice_due(&self) -> Option<Duration> {
        self.reminder
            .due(self.quiet_since()?)?
            .checked_add(self.paused)
    }

    pub(super) fn quiet_since(&self) -> Option<Duration> {
        let runs = self.phase < Phase::Ended && self.paused_since.is_none();
        if runs {
            self.renewed(Clock::Content)
        } else {
            None
        }
    }
}

/// Returns whether a sleep of the machine excuses the bound.
pub(super) const fn is_excusable(name: BoundName) -> bool {
    !matches!(name, BoundName::WallClock | BoundName::Lifetime)
}

/// The longest that a bound runs anew after a sleep.
const RESTART: Duration = Duration::from_secs(30);
