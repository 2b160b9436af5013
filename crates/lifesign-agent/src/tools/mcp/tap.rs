//! Sees every message between a server and us, in order.
//!
//! Progress is passed on from here: the protocol's own dispatch gives each notification a task, and
//! then the last one may be told before the first, or after the answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, GetMeta as _, JsonRpcMessage, ProgressToken, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

use crate::tools::{ProgressSink, ToolProgress};

/// Travels with a tool call to where it gets its token.
#[derive(Clone)]
pub(super) struct Listener(pub(super) ProgressSink);

/// Who wants to know of the progress of which call.
#[derive(Clone, Default)]
pub(super) struct Listeners(Arc<Mutex<HashMap<ProgressToken, ProgressSink>>>);

impl Listeners {
    /// Tells nobody of that call's progress any more.
    pub(super) fn remove(&self, token: &ProgressToken) {
        self.lock().remove(token);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProgressToken, ProgressSink>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A transport whose messages are seen.
pub(super) struct Tap<T> {
    inner: T,
    listeners: Listeners,
    /// Set when nothing comes from the server any more.
    left: CancellationToken,
}

impl<T> Tap<T> {
    pub(super) fn new(inner: T, listeners: Listeners, left: CancellationToken) -> Self {
        Self {
            inner,
            listeners,
            left,
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item
            && let ClientRequest::CallToolRequest(call) = &request.request
            && let Some(Listener(sink)) = call.extensions.get()
            && let Some(token) = request.request.get_meta().get_progress_token()
        {
            self.listeners.lock().insert(token, Arc::clone(sink));
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.left.cancel();
                return None;
            };
            if let JsonRpcMessage::Notification(notification) = &message
                && let ServerNotification::ProgressNotification(progress) =
                    &notification.notification
            {
                let progress = &progress.params;
                let sink = self.listeners.lock().get(&progress.progress_token).cloned();
                if let Some(sink) = sink {
                    sink(ToolProgress {
                        done: Some(progress.progress),
                        total: progress.total,
                        message: progress.message.clone(),
                    });
                }
                continue;
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.left.cancel();
        self.inner.close().await
    }
}

impl<T> Drop for Tap<T> {
    fn drop(&mut self) {
        self.left.cancel();
    }
}
