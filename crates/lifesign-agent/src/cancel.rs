//! Stopping a turn from elsewhere.

use std::sync::Arc;

use tokio::sync::watch;

/// Stops one turn, from any thread and at any point of it. Cloning is cheap.
///
/// What had come by then is kept, and the turn ends as cancelled. The agent goes on with the next.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<Option<Why>>>);

/// Why a turn is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Nobody takes the answer any more.
    Abandoned,
    /// Somebody wants it to stop.
    OnPurpose,
}

impl Cancel {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Stops the turn, since somebody wants that; once is enough.
    pub fn cancel(&self) {
        self.stop(Why::OnPurpose);
    }

    /// Stops the turn, since nobody takes the answer any more: what the person and the model are told
    /// blames nobody for having stopped it.
    pub fn abandon(&self) {
        self.stop(Why::Abandoned);
    }

    /// Returns whether the turn was stopped.
    pub fn is_cancelled(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        *self.0.borrow() == Some(Why::Abandoned)
    }

    pub(crate) async fn cancelled(&self) {
        let mut stopped = self.0.subscribe();
        // The sender is held here, so this only ever ends because somebody stopped the turn.
        if stopped.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Stops the turn, unless it was stopped before.
    fn stop(&self, why: Why) {
        self.0.send_if_modified(|stopped| {
            let is_first = stopped.is_none();
            stopped.get_or_insert(why);
            is_first
        });
    }
}
