//! The calls that ended lately.
//!
//! Each is written down as it will be read, in one piece of memory: what lives long between many
//! short-lived things keeps the allocator from giving their pages back, and one piece keeps but one.
//! Writing has its price, and nobody can look at calls as fast as they may end, so that of many that
//! end at the same time only some are kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lifesign::{Outcome, clock};

use super::course::Course;
use super::snapshot::EndedCall;
use super::story;
use super::timeline::Timeline;
use crate::records::CallEnded;

/// The calls that ended lately: of those that completed, which are many, fewer than of the others.
#[derive(Debug)]
pub(crate) struct Recent(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    completed: Shelf,
    others: Shelf,
}

/// The latest calls of a kind.
#[derive(Debug)]
struct Shelf {
    calls: VecDeque<Arc<PastCall>>,
    most: usize,
    most_in_a_second: u32,
    /// The second of the last one, and how many came in it.
    second: (u64, u32),
}

/// A call that has ended, and what happened to it.
#[derive(Debug)]
struct PastCall {
    /// How it ended and its timeline, one behind the other, as JSON.
    json: Box<[u8]>,
    /// Where the timeline begins.
    timeline_at: usize,
    id: Box<str>,
    /// When it ended, UTC.
    at: jiff::Timestamp,
}

impl Recent {
    /// Keeps a call that has ended by `now`, unless many do; the oldest of its kind goes.
    pub(crate) fn keep(&self, ended: &CallEnded, course: &Course, now: Duration) {
        let is_complete = ended.outcome == Outcome::Completed;
        if !self.kept().shelf(is_complete).has_time(now) {
            return;
        }
        let Ok(call) = PastCall::of(ended, course) else {
            // It holds text, numbers and maps with names for keys, so that it can be written.
            return;
        };
        let oldest = self.kept().shelf(is_complete).put(Arc::new(call));
        // Freeing it may take a while, which is nobody's to wait for.
        drop(oldest);
    }

    /// Returns up to `most` calls, the latest first.
    pub(super) fn latest(&self, most: usize) -> Vec<EndedCall> {
        let kept = self.kept();
        let latest = |shelf: &Shelf| -> Vec<_> {
            let calls = shelf.calls.iter().rev();
            calls.take(most).cloned().collect()
        };
        let mut calls = latest(&kept.others);
        calls.extend(latest(&kept.completed));
        drop(kept);
        calls.sort_by_key(|call| std::cmp::Reverse(call.at));
        calls.truncate(most);
        calls.iter().filter_map(|call| call.ended()).collect()
    }

    /// Returns the timeline of the call with this id, if it is kept.
    pub(super) fn find(&self, id: &str) -> Option<Timeline> {
        let kept = self.kept();
        let mut calls = kept.others.calls.iter().chain(&kept.completed.calls);
        let call = calls.find(|call| *call.id == *id).cloned();
        drop(kept);
        call?.timeline()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each change is a push or a pop.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Recent {
    fn default() -> Self {
        Self(Mutex::new(Kept {
            completed: Shelf::new(MOST_COMPLETED, MOST_COMPLETED_IN_A_SECOND),
            others: Shelf::new(MOST_OTHERS, MOST_OTHERS_IN_A_SECOND),
        }))
    }
}

impl Kept {
    const fn shelf(&mut self, is_complete: bool) -> &mut Shelf {
        if is_complete {
            &mut self.completed
        } else {
            &mut self.others
        }
    }
}

impl Shelf {
    const fn new(most: usize, most_in_a_second: u32) -> Self {
        Self {
            calls: VecDeque::new(),
            most,
            most_in_a_second,
            second: (0, 0),
        }
    }

    /// Returns whether one more is kept in this second, and counts it.
    fn has_time(&mut self, now: Duration) -> bool {
        let (second, count) = &mut self.second;
        if *second != now.as_secs() {
            (*second, *count) = (now.as_secs(), 0);
        }
        *count += 1;
        *count <= self.most_in_a_second
    }

    /// Puts a call in, and returns the oldest if there is no more room for it.
    fn put(&mut self, call: Arc<PastCall>) -> Option<Arc<PastCall>> {
        let is_full = self.calls.len() == self.most;
        let oldest = is_full.then(|| self.calls.pop_front()).flatten();
        self.calls.push_back(call);
        oldest
    }
}

impl PastCall {
    fn of(ended: &CallEnded, course: &Course) -> serde_json::Result<Self> {
        let at = clock::timestamp();
        let ended = story::ended(ended, at);
        let mut json = serde_json::to_vec(&ended)?;
        let timeline_at = json.len();
        serde_json::to_writer(&mut json, &story::of_past(&ended, course))?;
        Ok(Self {
            json: json.into(),
            timeline_at,
            id: ended.id.into(),
            at,
        })
    }

    fn ended(&self) -> Option<EndedCall> {
        // It was written here.
        serde_json::from_slice(self.json.get(..self.timeline_at)?).ok()
    }

    fn timeline(&self) -> Option<Timeline> {
        let timeline = self.json.get(self.timeline_at..)?;
        let timeline = serde_json::from_slice::<Timeline>(timeline).ok()?;
        Some(Timeline {
            ended: self.ended(),
            ..timeline
        })
    }
}

const MOST_COMPLETED: usize = 128;
const MOST_OTHERS: usize = 256;
const MOST_COMPLETED_IN_A_SECOND: u32 = 20;
const MOST_OTHERS_IN_A_SECOND: u32 = 100;

#[cfg(test)]
mod tests;
