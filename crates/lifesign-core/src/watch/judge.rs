//! What is said when a deadline has come.

use std::time::Duration;

use super::due::is_excusable;
use super::{Cut, Look, Notice, Row, Verdict, Watch};
use crate::{BoundName, Clock, Finding, Origin, Progress};

impl Watch {
    /// Judges a bound that ran out at `due`.
    ///
    /// The verdict waits until the socket was read at a time when the bound had run out already.
    pub(super) fn judge(&mut self, row: &Row, due: Duration, now: Duration) -> Verdict {
        let looked = self.look.filter(|look| due <= look.at);
        let late = now.saturating_sub(looked.map_or(due, |look| look.until));
        if late > SLEPT && is_excusable(row.name) && !self.excused {
            self.excused = true;
            self.woke = Some(self.upstream_time(now));
            self.look = None;
            return Verdict::Wait;
        }
        match looked {
            Some(look) if look.until <= now => self.cut(row, due, now),
            Some(look) => Verdict::Look { until: look.until },
            None => {
                let until = if late > OVERSLEPT {
                    now.saturating_add(OVERSLEPT)
                } else {
                    now
                };
                self.look = Some(Look { at: now, until });
                Verdict::Look { until }
            }
        }
    }

    fn cut(&mut self, row: &Row, due: Duration, now: Duration) -> Verdict {
        let learned = self.learned(row);
        let (limit, joined) = self.lasts(row).unwrap_or_default();
        self.tally.late = now.saturating_sub(due);
        Verdict::Cut(Cut {
            bound: row.name,
            limit,
            joined,
            origin: if learned.is_some() {
                Origin::Learned
            } else {
                row.origin.clone()
            },
            phase: self.phase,
            stage: self.connecting_stage(),
            ages: self.ages(self.upstream_time(now)),
            finding: self.finding(row.name),
            late: self.tally.late,
        })
    }

    pub(super) fn give_notice(&mut self) -> Verdict {
        let now = self.upstream_time(self.latest);
        let given = match self.quiet_since() {
            Some(since) => self.reminder.give(since, now),
            None => None,
        };
        let Some(number) = given else {
            return Verdict::Wait;
        };
        self.tally.notices += 1;
        Verdict::Notice(Notice {
            number,
            phase: self.phase,
            ages: self.ages(now),
            heartbeat: self.last_heartbeat(now),
        })
    }

    /// Returns the best that came while `name` ran.
    fn finding(&self, name: BoundName) -> Finding {
        match name {
            BoundName::BetweenEvents | BoundName::Flat => self.since_renewed(Clock::Event),
            BoundName::RawSilence => self.since_renewed(Clock::Raw),
            BoundName::ReasoningOnly => self.since_renewed(Clock::Output),
            // The report itself came in a heartbeat, and any event would have ended the bound.
            BoundName::UpstreamQuiet => Finding::Heartbeats,
            // These count from the request or from earlier: all that came counts.
            BoundName::WallClock
            | BoundName::Lifetime
            | BoundName::WholeCall
            | BoundName::Connect
            | BoundName::Headers
            | BoundName::BeforeContent => self.best(|_| true),
        }
    }

    fn since_renewed(&self, clock: Clock) -> Finding {
        match self.seen[clock.least() as usize] {
            // What renewed the clock came before the window.
            Some(renewed) => self.best(|seen| seen > renewed),
            None => self.best(|_| true),
        }
    }

    fn best(&self, counts: impl Fn(Duration) -> bool) -> Finding {
        CLASSES
            .into_iter()
            .rev()
            .find(|progress| self.seen[*progress as usize].is_some_and(&counts))
            .map_or(Finding::Nothing, Finding::from)
    }
}

const CLASSES: [Progress; 5] = [
    Progress::Byte,
    Progress::Heartbeat,
    Progress::Lifecycle,
    Progress::Reasoning,
    Progress::Output,
];
/// A wake-up later than this is late, and so long is the probe that follows.
const OVERSLEPT: Duration = Duration::from_millis(50);
/// A wake-up later than this means that the machine slept.
const SLEPT: Duration = Duration::from_secs(5);
