//! How far the tools under way are: the newest that each has said, until somebody reads it.
//!
//! A tool may say so from any thread, as fast as it likes and for as long as it likes. What is kept of
//! it is one word for each call, and none once the call is over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::tools::{ProgressSink, ToolProgress};

/// The progress of calls that run side by side.
#[derive(Clone, Default)]
pub(super) struct Progress(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The calls under way, with what was not read yet.
    calls: Mutex<BTreeMap<String, Option<ToolProgress>>>,
    news: Notify,
}

impl Progress {
    /// Returns what call `id` says its progress to.
    pub(super) fn begin(&self, id: &str) -> ProgressSink {
        self.0.lock().insert(id.to_owned(), None);
        let shared = Arc::clone(&self.0);
        let id = id.to_owned();
        Arc::new(move |progress| {
            if let Some(newest) = shared.lock().get_mut(&id) {
                *newest = Some(progress);
                shared.news.notify_one();
            }
        })
    }

    /// Waits until there is something to read, and returns the newest of each call.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn read(&self) -> Vec<(String, ToolProgress)> {
        loop {
            let newest = self.0.take();
            if !newest.is_empty() {
                return newest;
            }
            // What was said since is noted there, so that it is not missed.
            self.0.news.notified().await;
        }
    }

    /// Returns what call `id` has said last, if nobody has read it, and keeps no more of it.
    pub(super) fn end(&self, id: &str) -> Option<ToolProgress> {
        self.0.lock().remove(id).flatten()
    }
}

impl Shared {
    fn take(&self) -> Vec<(String, ToolProgress)> {
        let mut calls = self.lock();
        let newest = calls.iter_mut();
        newest
            .filter_map(|(id, newest)| Some((id.clone(), newest.take()?)))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<ToolProgress>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn done(part: u32) -> ToolProgress {
        ToolProgress {
            done: Some(part.into()),
            ..ToolProgress::default()
        }
    }

    #[tokio::test]
    async fn the_newest_of_each_call_is_kept_and_nothing_of_one_that_is_over() {
        let progress = Progress::default();
        let (first, second) = (progress.begin("c1"), progress.begin("c2"));
        for part in 1..=1_000 {
            first(done(part));
        }
        second(done(1));

        let read = progress.read().await;

        assert_eq!(
            read,
            [("c1".to_owned(), done(1_000)), ("c2".to_owned(), done(1))]
        );
        second(done(2));
        assert_eq!(progress.end("c2"), Some(done(2)));
        second(done(3));
        assert_eq!((progress.end("c2"), progress.end("c1")), (None, None));
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_from_another_thread() {
        let progress = Progress::default();
        let sink = progress.begin("c1");

        let (read, ()) = tokio::join!(progress.read(), async {
            tokio::task::spawn_blocking(move || sink(done(1)))
                .await
                .unwrap();
        });

        assert_eq!(read, [("c1".to_owned(), done(1))]);
    }
}
