//! The client: what calls of one program share.

use std::fmt;
use std::sync::Arc;

use crate::call_request::CallRequest;
use crate::holds::Holds;
use crate::job::Job;
use crate::outcome::{Answered, Failed};
use crate::records::Records;
use crate::stream::CallStream;
use crate::transport::{RootsError, Transport, TransportConfig};

/// Makes calls, and shares connections and holds between them.
///
/// Cloning is cheap and shares everything.
///
/// # Example
///
/// This example shows a call that is answered as a whole.
///
/// ```no_run
/// use lifesign::{CallRequest, Client, Request, Upstream, Wire};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new()?;
/// let upstream = Upstream::new(Wire::OPENAI_CHAT, "http://127.0.0.1:8080")?;
/// let request = Request::prompt("any", "Say hello");
///
/// let answered = client.answer(CallRequest::new(upstream, request)).await?;
///
/// println!("{}", answered.answer.text);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    transport: Arc<Transport>,
    holds: Arc<Holds>,
    records: Option<Arc<dyn Records>>,
}

impl Client {
    /// Returns a client with the defaults and the proxies of this process's environment.
    ///
    /// # Errors
    ///
    /// Has the signature of [`with_transport`](Self::with_transport); without extra roots there is
    /// nothing to fail.
    pub fn new() -> Result<Self, RootsError> {
        Self::with_transport(TransportConfig::default())
    }

    /// Returns a client that opens connections as `config` says.
    ///
    /// # Errors
    ///
    /// Fails where an extra root holds no certificate.
    pub fn with_transport(config: TransportConfig) -> Result<Self, RootsError> {
        Ok(Self {
            transport: Arc::new(Transport::new(config)?),
            holds: Arc::new(Holds::new()),
            records: None,
        })
    }

    /// Tells `records` of every call: that it starts, how each attempt went, how it ended.
    ///
    /// Each call that starts ends in exactly one record: one that is dropped as cancelled. Of a call
    /// that is refused before anything is sent nothing is told.
    ///
    /// This example shows what an embedding program needs to count its failures; a journal of
    /// every call in a file is `lifesign_journal::Journal`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use lifesign::Client;
    /// use lifesign::records::{Record, Records};
    ///
    /// #[derive(Default)]
    /// struct Failures(AtomicU64);
    ///
    /// impl Records for Failures {
    ///     fn record(&self, record: &Record) {
    ///         if let Record::Ended(ended) = record
    ///             && ended.failure.is_some()
    ///         {
    ///             self.0.fetch_add(1, Ordering::Relaxed);
    ///         }
    ///     }
    /// }
    ///
    /// let failures = Arc::new(Failures::default());
    /// let client = Client::new()?.with_records(Arc::clone(&failures) as _);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_records(mut self, records: Arc<dyn Records>) -> Self {
        self.records = Some(records);
        self
    }

    /// Starts a call whose answer is taken in pieces.
    ///
    /// Nothing is sent before the stream is polled. A request that cannot be made fails as the
    /// stream's first item.
    pub fn stream(&self, request: CallRequest) -> CallStream {
        self.start(request, true)
    }

    /// Makes a call and waits for the whole answer.
    ///
    /// # Errors
    ///
    /// The failure that ended the call, with the partial answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket at once and loses the answer.
    pub async fn answer(&self, request: CallRequest) -> Result<Answered, Box<Failed>> {
        self.start(request, false).answer().await
    }

    fn start(&self, request: CallRequest, hands_out: bool) -> CallStream {
        let job = Job::new(
            request,
            Arc::clone(&self.transport),
            Arc::clone(&self.holds),
            hands_out,
        );
        CallStream::new(job, self.records.clone())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("transport", &self.transport)
            .field("holds", &self.holds)
            .field("has_records", &self.records.is_some())
            .finish()
    }
}
