//! Stopping a turn from elsewhere.

use std::sync::Arc;

use tokio::sync::watch;

/// Stops one turn, from any thread and at any point of it. Cloning is cheap.
///
/// What had come by then is kept, and the turn ends as cancelled. The agent goes on with the next.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Cancel {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Stops the turn; once is enough.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Returns whether the turn was stopped.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) async fn cancelled(&self) {
        let mut stopped = self.0.subscribe();
        // The sender is held here, so this only ever ends because somebody stopped the turn.
        if stopped.wait_for(|stopped| *stopped).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
