//! What an attempt is to do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;

use crate::recorder::Recorder;
use crate::transport::{Endpoint, Transport};

/// What an attempt sends, where to, and how long it waits for what is not the answer.
#[derive(Clone)]
pub struct Errand {
    /// What opens the connection.
    pub transport: Arc<Transport>,
    /// Where it leads.
    pub endpoint: Endpoint,
    /// Whether it must be a fresh one: after silence or loss idle connections are suspect.
    pub fresh: bool,
    /// What is sent.
    pub request: Request<Bytes>,
    /// How long the body of an error is read.
    pub error_body_limit: Duration,
    /// How long to wait for usage after every choice has finished.
    pub grace_usage: Duration,
    /// Who is shown what is received.
    pub recorder: Option<Arc<dyn Recorder>>,
}

impl fmt::Debug for Errand {
    /// Shows where it leads, and nothing of what is sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Errand")
            .field("endpoint", &self.endpoint)
            .field("fresh", &self.fresh)
            .finish_non_exhaustive()
    }
}
