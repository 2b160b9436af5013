//! An MCP server in this program, over streamable HTTP: `ask` asks for a model call, `hang` never ends.
#![expect(
    deprecated,
    reason = "later versions of the protocol have no sampling; servers speak earlier ones"
)]

use std::sync::Arc;

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use lifesign::{CallRequest, Client, Upstream, Wire};
use lifesign_agent::tools::mcp::{McpServer, McpWay, Sampler};
use lifesign_standin::Standin;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
    CreateMessageRequestParams, ErrorData, ListToolsResult, PaginatedRequestParams,
    SamplingMessage, ServerCapabilities, ServerConfig, Tool, ToolsCapability,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler, ServiceError};
use serde_json::json;
use tokio::net::TcpListener;

use super::servers::{config, start_with};

#[derive(Clone)]
struct Asker;

impl ServerHandler for Asker {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ToolsCapability::default());
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object"});
        let tools = ["ask", "hang"].map(|name| {
            let schema = schema.as_object().unwrap().clone();
            Tool::new(name, format!("does {name}"), schema)
        });
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "hang" {
            return std::future::pending().await;
        }
        let question =
            CreateMessageRequestParams::new(vec![SamplingMessage::user_text("hello")], 16);
        let text = match context.peer.create_message(question).await {
            Ok(_) => "it was answered".to_owned(),
            Err(ServiceError::McpError(error)) => format!("failed: {}", error.message),
            Err(error) => format!("broke: {error}"),
        };
        let result = CallToolResult::success(vec![ContentBlock::text(text)]);
        Ok(CallToolResponse::Complete(result))
    }
}

/// The server as a toolbox, and the provider of the model calls that it asks for.
pub(crate) struct Asking {
    pub(crate) server: Arc<McpServer>,
    pub(crate) provider: Standin,
}

/// Starts the server; its model calls meet `script` and take `limit` at most.
pub(crate) async fn asking(script: &str, limit: &'static str) -> Asking {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(serve(listener));

    let provider = Standin::script(script).unwrap().start().await.unwrap();
    let upstream = Arc::new(Upstream::new(Wire::OPENAI_CHAT, &provider.url()).unwrap());
    let sampler = Sampler::new(Client::new().unwrap(), move |mut request| {
        "m".clone_into(&mut request.model);
        CallRequest::new(Arc::clone(&upstream), request)
            .set("bounds.wall_clock", limit)
            .and_then(|request| request.set("retry.attempts", "1"))
            .map_err(|error| error.to_string())
    });
    let way = McpWay::Http {
        url: url.parse().unwrap(),
        headers: Vec::new(),
    };
    let server = Arc::new(start_with(config(way), sampler).await);
    Asking { server, provider }
}

async fn serve(listener: TcpListener) {
    let service: StreamableHttpService<Asker, LocalSessionManager> = StreamableHttpService::new(
        || Ok(Asker),
        Arc::default(),
        StreamableHttpServerConfig::default(),
    );
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(
            TokioIo::new(socket),
            TowerToHyperService::new(service.clone()),
        );
        tokio::spawn(connection);
    }
}
