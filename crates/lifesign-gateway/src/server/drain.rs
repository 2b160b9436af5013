//! The stages in which serving ends.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use futures_util::future::{self, Either};
use tokio::{sync::watch, time::sleep_until};

use super::clock;

/// How far the end has come. They only follow one another in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Everything is served.
    Serving,
    /// Nothing is accepted; what runs goes on.
    Draining,
    /// What still runs is to end now, with a word to its caller.
    Ending,
    /// Connections are closed.
    Over,
}

/// The handle that ends a server.
#[derive(Clone, Debug)]
pub(crate) struct Drain {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The stage again, for those who look often.
    stage: AtomicU8,
    changes: watch::Sender<Change>,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    stage: Stage,
    /// How long what runs may go on.
    limit: Duration,
}

impl Drain {
    pub(crate) fn new() -> Self {
        let changes = watch::Sender::new(Change {
            stage: Stage::Serving,
            limit: Duration::ZERO,
        });
        Self {
            shared: Arc::new(Shared {
                stage: AtomicU8::new(Stage::Serving as u8),
                changes,
            }),
        }
    }

    /// Stops accepting; what runs may go on for `limit`. Says nothing new once it was said.
    pub(crate) fn begin(&self, limit: Duration) {
        self.change(Stage::Draining, limit);
    }

    /// Ends what runs now, with a word to its caller.
    pub(crate) fn end_now(&self) {
        self.advance(Stage::Ending);
    }

    pub(super) fn advance(&self, stage: Stage) {
        self.change(stage, Duration::ZERO);
    }

    /// Returns how far the end has come.
    pub(crate) fn stage(&self) -> Stage {
        match self.shared.stage.load(Ordering::Acquire) {
            0 => Stage::Serving,
            1 => Stage::Draining,
            2 => Stage::Ending,
            _ => Stage::Over,
        }
    }

    /// Returns when `stage` or a later one is reached.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped at any time.
    pub(crate) async fn reached(&self, stage: Stage) {
        let mut changes = self.shared.changes.subscribe();
        // It cannot be closed while `self` holds the sender.
        let _open = changes.wait_for(|change| change.stage >= stage).await;
    }

    /// Takes a drain that has begun through its stages, while `ended` waits for what runs; returns
    /// what that brings, or `None` if it brings nothing although everything was ended.
    pub(super) async fn escort<F: Future + Unpin>(&self, mut ended: F) -> Option<F::Output> {
        let begun = clock::now();
        let limit = self.shared.changes.borrow().limit;
        tracing::info!(?limit, "draining");
        // A limit beyond what can be added is none.
        let due = begun.checked_add(limit);
        let late = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => future::pending().await,
            }
        };
        let (late, told) = (pin!(late), pin!(self.reached(Stage::Ending)));
        match future::select(&mut ended, future::select(late, told)).await {
            Either::Left((output, _)) => return Some(output),
            Either::Right(_) => self.advance(Stage::Ending),
        }
        tracing::warn!("ending what still runs");
        for next in [Some(Stage::Over), None] {
            let late = pin!(sleep_until(clock::now() + LAST_WORDS));
            match future::select(&mut ended, late).await {
                Either::Left((output, _)) => return Some(output),
                Either::Right(_) => {
                    if let Some(stage) = next {
                        tracing::warn!("closing what did not end");
                        self.advance(stage);
                    }
                }
            }
        }
        None
    }

    fn change(&self, stage: Stage, limit: Duration) {
        self.shared.changes.send_if_modified(|change| {
            if stage <= change.stage {
                return false;
            }
            *change = Change { stage, limit };
            self.shared.stage.store(stage as u8, Ordering::Release);
            true
        });
    }
}

/// How long a stage after the limit may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_never_go_back() {
        let drain = Drain::new();

        drain.begin(Duration::from_secs(5));
        assert_eq!(drain.stage(), Stage::Draining);
        drain.end_now();
        drain.begin(Duration::from_secs(9));
        assert_eq!(drain.stage(), Stage::Ending);
    }

    #[tokio::test(start_paused = true)]
    async fn what_runs_may_go_on_for_the_limit_and_a_second_more() {
        let drain = Drain::new();
        let began = clock::now();
        drain.begin(Duration::from_secs(30));
        let observed = drain.clone();
        let ending = tokio::spawn(async move {
            observed.reached(Stage::Ending).await;
            let ending = clock::now();
            observed.reached(Stage::Over).await;
            (ending, clock::now())
        });

        let lost = drain.escort(pin!(future::pending::<()>())).await;

        let (ending, over) = ending.await.unwrap();
        assert_eq!(lost, None);
        assert_eq!(ending - began, Duration::from_secs(30));
        assert_eq!(over - began, Duration::from_secs(31));
        assert_eq!(clock::now() - began, Duration::from_secs(32));
    }

    #[tokio::test(start_paused = true)]
    async fn what_ends_by_itself_ends_the_drain() {
        let drain = Drain::new();
        drain.begin(Duration::from_secs(30));
        let began = clock::now();
        let ended = pin!(sleep_until(began + Duration::from_secs(3)));

        assert_eq!(drain.escort(ended).await, Some(()));

        assert_eq!(clock::now() - began, Duration::from_secs(3));
        assert_eq!(drain.stage(), Stage::Draining);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_without_patience_ends_what_runs_at_once() {
        let drain = Drain::new();
        drain.begin(Duration::MAX);
        let began = clock::now();
        let impatient = drain.clone();
        tokio::spawn(async move {
            sleep_until(began + Duration::from_secs(2)).await;
            impatient.end_now();
        });
        let observed = drain.clone();

        let ended = Box::pin(async move { observed.reached(Stage::Ending).await });
        assert_eq!(drain.escort(ended).await, Some(()));

        assert_eq!(clock::now() - began, Duration::from_secs(2));
    }
}
