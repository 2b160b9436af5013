//! A server's `sampling/createMessage` as a model call, under the bounds of any other.
#![expect(
    deprecated,
    reason = "later versions of the protocol have no sampling; servers speak earlier ones"
)]

mod translate;

use std::fmt;
use std::sync::Arc;

use lifesign::{Answered, CallEvent, CallRequest, Client, Failed, FailureReport, Request};
#[expect(
    deprecated,
    reason = "later versions of the protocol have no sampling, and those that servers speak have"
)]
use rmcp::model::{CreateMessageRequestParams, CreateMessageResult};
use rmcp::model::{ErrorCode, ErrorData};
use tokio::sync::Semaphore;

/// Makes the calls that servers ask for.
///
/// Each is streamed from the upstream, whatever the server wants in the end, so that silence is seen
/// where it happens. A call ends when its server leaves or takes its request back.
///
/// # Example
///
/// This example shows calls for servers that go to one upstream, two at a time.
///
/// ```
/// use std::sync::Arc;
///
/// use lifesign::{CallRequest, Client, Upstream, Wire};
/// use lifesign_agent::tools::mcp::Sampler;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let upstream = Arc::new(Upstream::new(Wire::OPENAI_CHAT, "http://127.0.0.1:8080")?);
/// let sampler = Sampler::new(Client::new()?, move |mut request| {
///     request.model = "any".to_owned();
///     CallRequest::new(Arc::clone(&upstream), request)
///         .set("bounds.raw_silence", "45s")
///         .map_err(|error| error.to_string())
/// })
/// .concurrency(2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sampler {
    client: Client,
    /// Says whom to ask, and under which settings.
    aim: Arc<Aim>,
    /// Is told how each call ended.
    told: Option<Arc<Told>>,
    places: Arc<Semaphore>,
    line: Arc<Semaphore>,
}

type Told = dyn Fn(Sampled<'_>) + Send + Sync;

type Aim = dyn Fn(Request) -> Result<CallRequest, String> + Send + Sync;

/// How a call that a server asked for ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sampled<'a> {
    /// The server's name.
    pub server: &'a str,
    /// The answer, or the failure with what it left.
    pub outcome: Result<&'a Answered, &'a Failed>,
}

impl Sampler {
    /// Returns a sampler that makes calls with `client`, two at a time.
    ///
    /// `aim` says whom to ask and under which settings. The request that it is given names no model.
    /// What it fails with is told to the server.
    pub fn new(
        client: Client,
        aim: impl Fn(Request) -> Result<CallRequest, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            client,
            aim: Arc::new(aim),
            told: None,
            places: Arc::new(Semaphore::new(2)),
            line: Arc::new(Semaphore::new(MOST_WAITING + 2)),
        }
    }

    /// Sets how many calls are made at once, for all servers together; at least one. Further ones
    /// wait in line, up to 64.
    #[must_use]
    pub fn concurrency(mut self, calls: usize) -> Self {
        let calls = calls.max(1);
        self.places = Arc::new(Semaphore::new(calls));
        self.line = Arc::new(Semaphore::new(calls.saturating_add(MOST_WAITING)));
        self
    }

    /// Tells `told` how each call ended. One that was cancelled is not told of.
    #[must_use]
    pub fn on_end(mut self, told: impl Fn(Sampled<'_>) + Send + Sync + 'static) -> Self {
        self.told = Some(Arc::new(told));
        self
    }

    /// Makes the call that a server asks for.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the call's socket at once.
    pub(super) async fn sample(
        &self,
        server: &str,
        params: CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Ok(_in_line) = self.line.try_acquire() else {
            let message = "too many sampling requests are waiting already; ask again later";
            return Err(ErrorData::new(REFUSED, message, None));
        };
        let request = translate::request(params)?;
        // It is never closed.
        let _place = self.places.acquire().await;
        let request = (self.aim)(request)
            .map_err(|why| ErrorData::internal_error(format!("cannot be asked: {why}"), None))?;
        let mut call = self.client.stream(request);
        let ended = loop {
            match call.next().await {
                Some(Ok(CallEvent::Finished(answered))) => break Ok(answered),
                Some(Ok(_)) => {}
                Some(Err(failed)) => break Err(failed),
                None => break Err(Box::new(Failed::cancelled())),
            }
        };
        if let Some(told) = &self.told {
            told(Sampled {
                server,
                outcome: ended.as_deref().map_err(|failed| &**failed),
            });
        }
        match ended {
            Ok(answered) => Ok(translate::result(answered.answer)),
            Err(failed) => Err(refusal(&failed)),
        }
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler")
            .field("client", &self.client)
            .field("free", &self.places.available_permits())
            .finish_non_exhaustive()
    }
}

/// Tells a server what happened: the sentence, the bound that cut, and all the rest as data.
fn refusal(failed: &Failed) -> ErrorData {
    let report = FailureReport::from(&failed.failure);
    let mut message = report.sentence.clone();
    if let (Some(bound), Some(setting)) = (report.bound, &report.setting) {
        message = format!("{message} (bound {}, set by {setting})", bound.name());
    }
    let mut data = serde_json::to_value(&report).ok();
    let partial = failed.partial.as_ref().map(|partial| &partial.text);
    if let (Some(data), Some(text)) = (&mut data, partial.filter(|text| !text.is_empty())) {
        data["partial_text"] = text.as_str().into();
    }
    ErrorData::new(REFUSED, message, data)
}

/// The first code that the protocol leaves to us.
const REFUSED: ErrorCode = ErrorCode(-32_000);

/// How many requests wait for a place.
const MOST_WAITING: usize = 64;

#[cfg(test)]
mod tests;
