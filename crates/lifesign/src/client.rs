//! The client: what calls of one program share.

use std::sync::Arc;

use crate::call_request::CallRequest;
use crate::holds::Holds;
use crate::job::Job;
use crate::outcome::{Answered, Failed};
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
#[derive(Clone, Debug)]
pub struct Client {
    transport: Arc<Transport>,
    holds: Arc<Holds>,
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
        })
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
        CallStream::new(job)
    }
}
