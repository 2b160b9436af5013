//! The calls that ended lately.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lifesign::Outcome;

use super::course::Course;
use super::name::shorten;
use crate::records::CallEnded;

/// The calls that ended lately: of those that completed, which are many, fewer than of the others.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    completed: VecDeque<Arc<PastCall>>,
    others: VecDeque<Arc<PastCall>>,
}

/// A call that has ended, and what happened to it.
#[derive(Debug)]
pub(crate) struct PastCall {
    pub(super) ended: Box<CallEnded>,
    pub(super) course: Course,
    /// When it ended, UTC.
    pub(super) at: jiff::Timestamp,
}

impl Recent {
    /// Keeps a call that has ended; the oldest of its kind goes.
    pub(crate) fn keep(&self, mut ended: Box<CallEnded>, course: Course) {
        shorten(&mut ended.started.route);
        for name in [
            &mut ended.started.model,
            &mut ended.upstream_model,
            &mut ended.answered_by,
            &mut ended.answer_id,
            &mut ended.finish_reason,
        ] {
            name.iter_mut().for_each(shorten);
        }
        // What nobody is shown here.
        ended.waits = Vec::new();
        ended.started.trace = None;
        let is_complete = ended.outcome == Outcome::Completed;
        let call = Arc::new(PastCall {
            ended,
            course,
            at: lifesign::clock::timestamp(),
        });
        let mut kept = self.kept();
        let (calls, most) = if is_complete {
            (&mut kept.completed, MOST_COMPLETED)
        } else {
            (&mut kept.others, MOST_OTHERS)
        };
        let oldest = if calls.len() == most {
            calls.pop_front()
        } else {
            None
        };
        calls.push_back(call);
        drop(kept);
        // Freeing it may take a while, which is nobody's to wait for.
        drop(oldest);
    }

    /// Returns up to `most` calls, the latest first.
    pub(super) fn latest(&self, most: usize) -> Vec<Arc<PastCall>> {
        let kept = self.kept();
        let latest = |calls: &VecDeque<Arc<PastCall>>| -> Vec<_> {
            calls.iter().rev().take(most).cloned().collect()
        };
        let mut calls = latest(&kept.others);
        calls.extend(latest(&kept.completed));
        drop(kept);
        calls.sort_by_key(|call| std::cmp::Reverse(call.at));
        calls.truncate(most);
        calls
    }

    /// Returns the call with this id, if it is kept.
    pub(super) fn find(&self, id: &str) -> Option<Arc<PastCall>> {
        let kept = self.kept();
        let mut calls = kept.others.iter().chain(&kept.completed);
        calls.find(|call| call.ended.started.id == id).cloned()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each change is a push or a pop.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const MOST_COMPLETED: usize = 128;
const MOST_OTHERS: usize = 256;

#[cfg(test)]
mod tests;
