//! How many calls of ours a server is at: it may ask for model calls for as long as there is one.

use std::sync::Arc;

use tokio::sync::watch;

/// The calls of one connection.
#[derive(Clone, Debug)]
pub(super) struct UnderWay(Arc<watch::Sender<usize>>);

/// A call for as long as somebody waits for it.
#[derive(Debug)]
pub(super) struct AtIt(UnderWay);

impl UnderWay {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// Counts a call until what is returned is dropped.
    pub(super) fn begin(&self) -> AtIt {
        self.0.send_modify(|calls| *calls += 1);
        AtIt(self.clone())
    }

    /// Waits until there is no call.
    pub(super) async fn none(&self) {
        let mut calls = self.0.subscribe();
        // The sender is held here, so this only ever ends because there is none.
        if calls.wait_for(|calls| *calls == 0).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for AtIt {
    fn drop(&mut self) {
        self.0.0.send_modify(|calls| *calls -= 1);
    }
}
