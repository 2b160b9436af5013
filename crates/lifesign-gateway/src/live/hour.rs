//! What ended in the last hour, minute by minute.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use lifesign::Outcome;
use lifesign_core::{AttemptOutcome, AttemptRecord, FailureCode};

use super::snapshot::{EndedCounts, FailureCount, FirstContent};
use crate::records::CallEnded;

/// What ended in the last hour.
#[derive(Debug, Default)]
pub(super) struct Hour {
    calls: Minutes,
    upstreams: BTreeMap<String, AtUpstream>,
}

/// What ended at one upstream.
#[derive(Debug, Default)]
struct AtUpstream {
    attempts: Minutes,
    /// When attempts ended, and how long their first content took, in milliseconds.
    first_content: VecDeque<(Duration, u64)>,
    /// However long ago that was.
    last_completed: Option<Timestamp>,
}

/// What ended in one minute after another.
#[derive(Debug, Default)]
struct Minutes(VecDeque<(u64, Ended)>);

/// What ended in a minute.
#[derive(Debug, Default)]
struct Ended {
    all: u64,
    cancelled: u64,
    /// By failure and upstream.
    failures: BTreeMap<(FailureCode, Option<String>), u64>,
}

/// What an upstream did in the last hour.
#[derive(Debug, Default)]
pub(super) struct OfUpstream {
    pub(super) attempts: u64,
    pub(super) failed: u64,
    pub(super) failures: Vec<FailureCount>,
    pub(super) first_content: Option<FirstContent>,
    pub(super) last_completed: Option<Timestamp>,
}

impl Hour {
    /// Counts an attempt that ended at `now`, which was `at` by the calendar.
    pub(super) fn handle_attempt(&mut self, attempt: &AttemptRecord, at: Timestamp, now: Duration) {
        if !self.upstreams.contains_key(&attempt.upstream) {
            let upstream = attempt.upstream.clone();
            self.upstreams.insert(upstream, AtUpstream::default());
        }
        let Some(upstream) = self.upstreams.get_mut(&attempt.upstream) else {
            return;
        };
        if attempt.outcome == AttemptOutcome::Completed {
            upstream.last_completed = upstream.last_completed.max(Some(at));
        }
        let ended = upstream.attempts.at(now);
        ended.all += 1;
        if let AttemptOutcome::Failed(code) = attempt.outcome
            && code.is_of_upstream()
        {
            *ended.failures.entry((code, None)).or_default() += 1;
        }
        if let (Some(sent), Some(content)) = (attempt.sent_ms, attempt.first_content_ms) {
            if upstream.first_content.len() == MOST_FIRST {
                upstream.first_content.pop_front();
            }
            upstream
                .first_content
                .push_back((now, content.saturating_sub(sent)));
        }
    }

    /// Counts a call that ended at `now`.
    pub(super) fn handle_end(&mut self, call: &CallEnded, now: Duration) {
        let ended = self.calls.at(now);
        ended.all += 1;
        match (call.outcome, &call.failure) {
            (Outcome::Cancelled, _) => ended.cancelled += 1,
            (Outcome::Failed | Outcome::Truncated, Some(failure)) => {
                let of = (failure.code, call.upstream.clone());
                *ended.failures.entry(of).or_default() += 1;
            }
            (Outcome::Completed | Outcome::Failed | Outcome::Truncated, _) => {}
        }
    }

    /// Returns what ended in the hour before `now`.
    pub(super) fn calls(&mut self, now: Duration) -> EndedCounts {
        self.calls.forget(now);
        let of_calls = self.calls.0.iter();
        let (ended, cancelled) = of_calls.fold((0, 0), |(ended, cancelled), (_, minute)| {
            (ended + minute.all, cancelled + minute.cancelled)
        });
        let failures = self.calls.failures();
        EndedCounts {
            ended,
            failed: failures.iter().map(|failure| failure.count).sum(),
            cancelled,
            failures,
        }
    }

    /// Returns what ended at `upstream` in the hour before `now`.
    pub(super) fn of_upstream(&mut self, upstream: &str, now: Duration) -> OfUpstream {
        let Some(at) = self.upstreams.get_mut(upstream) else {
            return OfUpstream::default();
        };
        at.attempts.forget(now);
        let since = now.saturating_sub(HOUR);
        let first = at.first_content.iter();
        let mut first: Vec<_> = first
            .filter(|(at, _)| *at >= since)
            .map(|(_, took)| *took)
            .collect();
        first.sort_unstable();
        let failures = at.attempts.failures();
        OfUpstream {
            attempts: at.attempts.0.iter().map(|(_, minute)| minute.all).sum(),
            failed: failures.iter().map(|failure| failure.count).sum(),
            failures,
            last_completed: at.last_completed,
            first_content: quantile(&first, 50).zip(quantile(&first, 95)).map(
                |(p50_ms, p95_ms)| FirstContent {
                    p50_ms,
                    p95_ms,
                    count: first.len(),
                },
            ),
        }
    }

    /// Forgets the upstreams that `is_known` does not know, once nothing ended there for an hour.
    pub(super) fn forget(&mut self, now: Duration, is_known: impl Fn(&str) -> bool) {
        self.upstreams.retain(|name, at| {
            at.attempts.forget(now);
            is_known(name) || !at.attempts.0.is_empty()
        });
    }
}

impl Minutes {
    fn at(&mut self, now: Duration) -> &mut Ended {
        let minute = now.as_secs() / 60;
        if self.0.back().is_none_or(|(last, _)| *last < minute) {
            self.forget(now);
            self.0.push_back((minute, Ended::default()));
        }
        // Of threads that are late the last minute is near enough.
        let at = self.0.len().saturating_sub(1);
        &mut self.0[at].1
    }

    fn forget(&mut self, now: Duration) {
        let minute = now.as_secs() / 60;
        while let Some((first, _)) = self.0.front()
            && first + MINUTES <= minute
        {
            self.0.pop_front();
        }
    }

    fn failures(&self) -> Vec<FailureCount> {
        let mut counts = BTreeMap::<_, u64>::new();
        for (_, minute) in &self.0 {
            for (of, count) in &minute.failures {
                *counts.entry(of).or_default() += count;
            }
        }
        let mut failures: Vec<_> = counts
            .into_iter()
            .map(|((code, upstream), count)| FailureCount {
                code: *code,
                upstream: upstream.clone(),
                count,
            })
            .collect();
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        failures
    }
}

/// Returns the smallest of `sorted` that `percent` of them do not exceed.
fn quantile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

const HOUR: Duration = Duration::from_hours(1);
const MINUTES: u64 = 60;
/// More than tell a quantile apart, and few enough to sort in no time.
const MOST_FIRST: usize = 256;

#[cfg(test)]
mod tests {
    use lifesign_core::{Phase, Tally};
    use pretty_assertions::assert_eq;

    use super::*;

    const fn mins(minutes: u64) -> Duration {
        Duration::from_mins(minutes)
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn attempt(outcome: AttemptOutcome, first_content_ms: Option<u64>) -> AttemptRecord {
        let mut attempt = AttemptRecord::new(
            1,
            "acme",
            Phase::AfterContent,
            &Tally::default(),
            Duration::ZERO,
        );
        attempt.outcome = outcome;
        attempt.sent_ms = Some(100);
        attempt.first_content_ms = first_content_ms;
        attempt
    }

    #[test]
    fn what_is_older_than_an_hour_is_forgotten() {
        let mut hour = Hour::default();
        let failed = AttemptOutcome::Failed(FailureCode::RawSilent);
        hour.handle_attempt(&attempt(failed, None), at(1), mins(1));
        let whole = attempt(AttemptOutcome::Completed, Some(400));
        hour.handle_attempt(&whole, at(30), mins(30));

        let both = hour.of_upstream("acme", mins(59));
        let one = hour.of_upstream("acme", mins(61));
        let none = hour.of_upstream("acme", mins(91));

        assert_eq!((both.attempts, both.failed), (2, 1));
        assert_eq!((one.attempts, one.failed), (1, 0));
        assert_eq!(one.first_content.unwrap().p50_ms, 300);
        assert_eq!((none.attempts, none.first_content), (0, None));
        assert_eq!(
            none.last_completed,
            Some(at(30)),
            "since when it is silent is told however long that is"
        );
        hour.forget(mins(91), |_| false);
        assert!(hour.upstreams.is_empty());
    }

    #[test]
    fn quantiles_are_of_the_latest_that_brought_content() {
        let mut hour = Hour::default();
        for took in 1..=300 {
            let ended = attempt(AttemptOutcome::Completed, Some(100 + took));
            hour.handle_attempt(&ended, at(1), mins(1));
        }

        let first = hour.of_upstream("acme", mins(2)).first_content.unwrap();

        // Of 45 to 300.
        assert_eq!((first.p50_ms, first.p95_ms, first.count), (172, 288, 256));
        assert_eq!(quantile(&[7], 95), Some(7));
        assert_eq!(quantile(&[], 50), None);
    }

    #[test]
    fn what_a_caller_does_is_no_failure_of_the_upstream() {
        let mut hour = Hour::default();
        for code in FailureCode::ALL {
            let failed = attempt(AttemptOutcome::Failed(code), None);
            hour.handle_attempt(&failed, at(1), mins(1));
        }

        let ended = hour.of_upstream("acme", mins(1));

        assert_eq!((ended.attempts, ended.failed), (23, 16));
        let mut failures = ended.failures.iter();
        assert!(!failures.any(|failure| failure.code == FailureCode::Cancelled));
    }
}
