//! The ways to a server that a file can name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use lifesign::transport::Transport;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::process::Command;

use super::config::{McpServerConfig, McpWay};
use super::handler::Handler;
use super::http_client::HttpClient;
use super::link::Link;
use super::program::Program;
use super::server::{Opening, Way};

/// Returns the way that `config` names.
pub(super) fn way_to(config: &McpServerConfig, transport: &Arc<Transport>) -> Box<dyn Way> {
    match &config.way {
        McpWay::Stdio {
            command,
            args,
            env,
            cwd,
        } => {
            let (command, args, env, cwd) =
                (command.clone(), args.clone(), env.clone(), cwd.clone());
            Box::new(ByProgram(Box::new(move || {
                let mut program = Command::new(&command);
                program
                    .args(&args)
                    .envs(env.iter().map(|(name, value)| (name, value)));
                if let Some(cwd) = &cwd {
                    program.current_dir(cwd);
                }
                program
            })))
        }
        McpWay::Http { url, headers } => Box::new(ByHttp {
            url: url.to_string().into(),
            headers: headers.iter().cloned().collect(),
            client: HttpClient::new(Arc::clone(transport)),
        }),
    }
}

/// A server that is a program of ours.
struct ByProgram(Box<dyn Fn() -> Command + Send + Sync>);

impl Way for ByProgram {
    fn open(&self, handler: Handler) -> Opening<'_> {
        Box::pin(async move {
            let (program, pipes) =
                Program::start(&handler.server, &mut (self.0)(), &handler.words)?;
            Link::open(pipes, Some(program), handler).await
        })
    }
}

/// A server that is reached over HTTP.
struct ByHttp {
    url: Arc<str>,
    headers: HashMap<HeaderName, HeaderValue>,
    client: HttpClient,
}

impl Way for ByHttp {
    fn open(&self, handler: Handler) -> Opening<'_> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(Arc::clone(&self.url))
            .custom_headers(self.headers.clone());
        config.retry_config = Arc::new(Reconnecting);
        let transport = StreamableHttpClientTransport::with_client(self.client.clone(), config);
        Box::pin(Link::open(transport, None, handler))
    }
}

/// How a stream of events that broke off is taken up again: a few times within five seconds, unless the
/// server asks for longer waits. Without an end, a call whose answer is lost would wait for its limit.
#[derive(Debug)]
struct Reconnecting;

impl SseRetryPolicy for Reconnecting {
    fn retry(&self, tries: usize) -> Option<Duration> {
        RECONNECTS.get(tries).copied().map(Duration::from_millis)
    }
}

const RECONNECTS: [u64; 6] = [100, 200, 400, 800, 1_600, 1_900];
