//! What a server may ask of us, and tell us.
#![expect(
    deprecated,
    reason = "later versions of the protocol have neither sampling nor logs; servers speak earlier ones"
)]

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ErrorCode,
    ErrorData, Implementation, JsonObject, LoggingMessageNotificationParam, SamplingCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use tokio_util::sync::CancellationToken;

use super::last_words::LastWords;
use super::listing::Listing;
use super::under_way::UnderWay;
use crate::tools::sampling::Sampler;

/// Our side of a connection to a server.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) server: Arc<str>,
    pub(super) listing: Arc<Listing>,
    pub(super) sampler: Option<Sampler>,
    /// Keeps what its program says, if it is one.
    pub(super) words: LastWords,
    /// Set when the server is gone: who is being answered for it stops.
    pub(super) left: CancellationToken,
    /// The calls that the server is at.
    pub(super) calls: UnderWay,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.sampler.is_some() {
            let mut sampling = SamplingCapability::default();
            sampling.tools = Some(JsonObject::default());
            capabilities.sampling = Some(sampling);
        }
        let client = Implementation::new("lifesign", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, client)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(sampler) = &self.sampler else {
            let message = "sampling is off in this client";
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None));
        };
        let nobody_waits = || ErrorData::internal_error("the request was cancelled", None);
        tokio::select! {
            biased;
            () = self.left.cancelled() => Err(nobody_waits()),
            () = context.ct.cancelled() => Err(nobody_waits()),
            // Whose call it is for is not said, but without any it is for none.
            () = self.calls.none() => {
                let message = "no tool of this server is called any more, so no model call is made for it";
                Err(ErrorData::invalid_request(message, None))
            }
            sampled = sampler.sample(&self.server, params) => sampled,
        }
    }

    async fn on_tool_list_changed(&self, context: NotificationContext<RoleClient>) {
        if let Err(why) = self.listing.refresh(&context.peer).await {
            tracing::warn!(
                server = &*self.server,
                why,
                "tool server keeps its last list"
            );
        }
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = match params.data.as_str() {
            Some(text) => text.to_owned(),
            None => params.data.to_string(),
        };
        let text = super::short(&text);
        tracing::info!(server = &*self.server, text, "tool server says");
    }
}
