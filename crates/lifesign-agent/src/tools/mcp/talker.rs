//! A server in this process, for tests.
#![expect(
    deprecated,
    reason = "later versions of the protocol have no sampling; servers speak earlier ones"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Plain};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam,
    ContentBlock, CreateMessageRequest, CreateMessageRequestParams, ErrorData, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, SamplingMessage,
    ServerCapabilities, ServerConfig, ServerRequest, Tool, ToolAnnotations, ToolsCapability,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{Peer, RoleServer, ServerHandler, ServiceError, ServiceExt as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::config::{McpServerConfig, McpWay};
use super::handler::Handler;
use super::link::Link;
use super::server::{McpServer, Opening, Way};
use crate::tools::sampling::Sampler;
use crate::tools::{ToolCall, ToolResult, Toolbox as _};

/// A server in this process, and what it saw.
#[derive(Clone, Default)]
pub(in crate::tools) struct Talker {
    pages: Arc<Plain<Vec<Vec<Tool>>>>,
    seen: Arc<Plain<Vec<String>>>,
    pub(super) starts: Arc<AtomicUsize>,
    /// Ends the server that was started last.
    end: Arc<Plain<CancellationToken>>,
}

impl Talker {
    pub(in crate::tools) fn with(pages: &[&[&str]]) -> Self {
        let talker = Self::default();
        *talker.pages.lock().unwrap() = pages
            .iter()
            .map(|page| page.iter().copied().map(tool).collect())
            .collect();
        talker
    }

    pub(in crate::tools) fn see(&self, what: impl Into<String>) {
        self.seen.lock().unwrap().push(what.into());
    }

    pub(in crate::tools) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    pub(in crate::tools) async fn wait_for(&self, what: &str) {
        for _ in 0..5_000 {
            if self.seen().iter().any(|seen| seen == what) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{what:?} is not among {:?}", self.seen());
    }
}

fn tool(name: &str) -> Tool {
    let schema = json!({"type": "object"});
    let mut tool = Tool::new(
        name.to_owned(),
        format!("does {name}"),
        schema.as_object().unwrap().clone(),
    );
    if name.starts_with("read") {
        let mut hints = ToolAnnotations::new();
        hints.read_only_hint = Some(true);
        tool.annotations = Some(hints);
    }
    tool
}

impl ServerHandler for Talker {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ToolsCapability::default());
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let place = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let pages = self.pages.lock().unwrap();
        let mut listed = ListToolsResult::with_all_items(pages[place % pages.len()].clone());
        listed.next_cursor = (place + 1 < pages.len()).then(|| (place + 1).to_string());
        if listed.tools.iter().any(|tool| tool.name == "endless") {
            listed.next_cursor = Some((place + 1).to_string());
        }
        Ok(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        self.see(format!("{} {arguments}", request.name));
        let text = match &*request.name {
            "count" => {
                let token: ProgressToken = context.meta.get_progress_token().unwrap();
                for number in 1..=50_u32 {
                    let mut progress =
                        ProgressNotificationParam::new(token.clone(), f64::from(number));
                    progress.total = Some(50.0);
                    context.peer.notify_progress(progress).await.unwrap();
                }
                "counted".to_owned()
            }
            "grow" => {
                self.pages.lock().unwrap().push(vec![tool("new")]);
                context.peer.notify_tool_list_changed().await.unwrap();
                "grown".to_owned()
            }
            "hang" => {
                context.ct.cancelled().await;
                std::future::pending().await
            }
            "die" => {
                self.end.lock().unwrap().cancel();
                std::future::pending().await
            }
            "headers" => {
                let parts = context.extensions.get::<http::request::Parts>().unwrap();
                format!("{:?}", parts.headers.get("authorization").unwrap())
            }
            "sample" => sample(&context.peer, &arguments).await,
            "sample later" => {
                let talker = self.clone();
                tokio::spawn(async move {
                    talker.wait_for("later").await;
                    let told = sample(&context.peer, &arguments).await;
                    talker.see(format!("told: {told}"));
                });
                "soon".to_owned()
            }
            "sample briefly" => {
                let request = CreateMessageRequest::new(question(&arguments));
                let asked = context.peer.send_cancellable_request(
                    ServerRequest::CreateMessageRequest(request),
                    PeerRequestOptions::no_options(),
                );
                let asked = asked.await.unwrap();
                self.wait_for("enough").await;
                asked.cancel(None).await.unwrap();
                "taken back".to_owned()
            }
            "refuse" => return Err(ErrorData::invalid_params("there is no such thing", None)),
            "fail" => {
                let mut result = CallToolResult::success(vec![ContentBlock::text("it is broken")]);
                result.is_error = Some(true);
                return Ok(CallToolResponse::Complete(result));
            }
            _ => arguments.to_string(),
        };
        let result = CallToolResult::success(vec![ContentBlock::text(text)]);
        Ok(CallToolResponse::Complete(result))
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        _: NotificationContext<RoleServer>,
    ) {
        self.see(format!("cancelled: {}", notification.reason.unwrap()));
    }
}

impl Way for Talker {
    fn open(&self, handler: Handler) -> Opening<'_> {
        let (ours, mut near) = tokio::io::duplex(64 * 1024);
        let (mut far, theirs) = tokio::io::duplex(64 * 1024);
        let end = CancellationToken::new();
        *self.end.lock().unwrap() = end.clone();
        self.starts.fetch_add(1, Ordering::Relaxed);
        let talker = self.clone();
        tokio::spawn(async move {
            let running = talker.serve(theirs).await.unwrap();
            running.waiting().await.unwrap();
        });
        // What ends here ends for both, with nothing said.
        tokio::spawn(async move {
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                () = end.cancelled() => {}
            }
        });
        let (read, write) = tokio::io::split(ours);
        Box::pin(Link::open(
            AsyncRwTransport::new(read, write),
            None,
            handler,
        ))
    }
}

/// Asks for a model call and returns what came of it, as JSON.
async fn sample(client: &Peer<RoleServer>, arguments: &Value) -> String {
    match client.create_message(question(arguments)).await {
        Ok(answer) => serde_json::to_string(&answer).unwrap(),
        Err(ServiceError::McpError(error)) => serde_json::to_string(&error).unwrap(),
        Err(error) => error.to_string(),
    }
}

fn question(arguments: &Value) -> CreateMessageRequestParams {
    let text = arguments["text"].as_str().unwrap_or("hello");
    CreateMessageRequestParams::new(vec![SamplingMessage::user_text(text)], 16)
}

pub(in crate::tools) fn config() -> McpServerConfig {
    McpServerConfig {
        name: "talker".to_owned(),
        way: McpWay::Stdio {
            command: "talker".to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
        },
        timeout: None,
        start_timeout: Duration::from_mins(1),
        tools: None,
        prefix: String::new(),
    }
}

pub(in crate::tools) async fn ask(server: &McpServer, name: &str, arguments: Value) -> ToolResult {
    server.call(call(name, arguments), Arc::new(|_| {})).await
}

pub(in crate::tools) fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: "c1".to_owned(),
        name: name.to_owned(),
        arguments,
    }
}

/// Starts the server.
pub(in crate::tools) async fn start_with(talker: &Talker, sampler: Option<Sampler>) -> McpServer {
    McpServer::start(config(), Box::new(talker.clone()), sampler)
        .await
        .unwrap()
}
