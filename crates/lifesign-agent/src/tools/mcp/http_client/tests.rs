//! Streamable HTTP against a server that is played.

use std::sync::{Arc, Mutex};

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use lifesign::transport::{ProxyEnv, TransportConfig};
use pretty_assertions::assert_eq;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::tools::mcp::talker::{Talker, ask, call, config};
use crate::tools::mcp::{McpServer, McpServerConfig, McpStartError, McpStarter, McpWay};
use crate::tools::{ToolProgress, ToolResult, Toolbox as _};

type Service = StreamableHttpService<Talker, LocalSessionManager>;

fn service(talker: &Talker, config: StreamableHttpServerConfig) -> Service {
    let talker = talker.clone();
    StreamableHttpService::new(move || Ok(talker.clone()), Arc::default(), config)
}

/// Serves whatever `service` is at the time of each request, and returns where.
async fn serve(service: Arc<Mutex<Service>>) -> String {
    serve_until(service, CancellationToken::new()).await.0
}

/// Serves until `end`, which closes every connection too.
async fn serve_until(
    service: Arc<Mutex<Service>>,
    end: CancellationToken,
) -> (String, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = async move {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let service = Arc::clone(&service);
            let each = hyper::service::service_fn(move |request| {
                let service = service.lock().unwrap().clone();
                hyper::service::Service::call(&TowerToHyperService::new(service), request)
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), each);
            connections.spawn(connection);
        }
    };
    let ended = end.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = serving => {}
            () = ended.cancelled() => {}
        }
    });
    (url, end)
}

async fn serve_talker(talker: &Talker) -> String {
    let config = StreamableHttpServerConfig::default();
    serve(Arc::new(Mutex::new(service(talker, config)))).await
}

/// Answers every request with these bytes.
async fn serve_bytes(response: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _read = socket.read(&mut request).await;
            socket.write_all(response.as_bytes()).await.unwrap();
            socket.shutdown().await.unwrap();
        }
    });
    url
}

async fn start(
    url: &str,
    headers: &[(&'static str, &'static str)],
) -> Result<McpServer, McpStartError> {
    let transport = Transport::new(TransportConfig {
        proxy: ProxyEnv::none(),
        ..TransportConfig::default()
    });
    let config = McpServerConfig {
        name: "web".to_owned(),
        way: McpWay::Http {
            url: url.parse().unwrap(),
            headers: headers
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                .collect(),
        },
        start_timeout: Duration::from_secs(5),
        ..config()
    };
    McpStarter::new(Arc::new(transport.unwrap()))
        .start(config)
        .await
}

async fn refused(url: &str) -> String {
    start(url, &[]).await.unwrap_err().to_string()
}

#[tokio::test]
async fn tools_are_called_over_http_with_the_headers_of_the_file() {
    let talker = Talker::with(&[&["echo"], &["headers"]]);
    let url = serve_talker(&talker).await;

    let server = start(&url, &[("authorization", "Bearer s3cret")])
        .await
        .unwrap();
    let echoed = ask(&server, "echo", json!({"x": 1})).await;
    let headers = ask(&server, "headers", json!({})).await;

    let names: Vec<_> = server.tools().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["echo", "headers"]);
    assert_eq!(echoed, ToolResult::ok(r#"{"x":1}"#));
    assert_eq!(headers, ToolResult::ok(r#""Bearer s3cret""#));
}

#[tokio::test]
async fn progress_comes_over_http_in_order() {
    let url = serve_talker(&Talker::with(&[&["count"]])).await;
    let server = start(&url, &[]).await.unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let told = Arc::clone(&told);
        Arc::new(move |progress: ToolProgress| told.lock().unwrap().push(progress.done.unwrap()))
    };

    let result = server.call(call("count", json!({})), sink).await;

    assert_eq!(result, ToolResult::ok("counted"));
    let expected: Vec<_> = (1..=50_u32).map(f64::from).collect();
    assert_eq!(*told.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_server_over_http_is_told_of_a_call_that_nobody_waits_for() {
    let talker = Talker::with(&[&["hang"]]);
    let server = start(&serve_talker(&talker).await, &[]).await.unwrap();

    let mut under_way = server.call(call("hang", json!({})), Arc::new(|_| {}));
    tokio::select! {
        biased;
        _ = &mut under_way => panic!("it cannot have ended"),
        () = talker.wait_for("hang {}") => {}
    }
    drop(under_way);

    talker
        .wait_for("cancelled: the caller does not wait any more")
        .await;
}

#[tokio::test]
async fn a_list_that_has_changed_is_told_over_http_too() {
    let server = start(&serve_talker(&Talker::with(&[&["grow"]])).await, &[])
        .await
        .unwrap();

    ask(&server, "grow", json!({})).await;

    for _ in 0..1_000 {
        if server.tools().len() == 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the list is what it was");
}

#[tokio::test]
async fn a_server_without_sessions_that_answers_in_whole_json_will_do() {
    let talker = Talker::with(&[&["echo"]]);
    let mut config = StreamableHttpServerConfig::default();
    config.legacy_session_mode = false;
    config.json_response = true;
    let url = serve(Arc::new(Mutex::new(service(&talker, config)))).await;

    let server = start(&url, &[]).await.unwrap();

    assert_eq!(ask(&server, "echo", json!({})).await, ToolResult::ok("{}"));
}

#[tokio::test]
async fn a_server_that_has_forgotten_the_session_is_introduced_to_us_again() {
    let talker = Talker::with(&[&["echo"]]);
    let config = StreamableHttpServerConfig::default;
    let current = Arc::new(Mutex::new(service(&talker, config())));
    let server = start(&serve(Arc::clone(&current)).await, &[])
        .await
        .unwrap();
    assert_eq!(ask(&server, "echo", json!({})).await, ToolResult::ok("{}"));

    *current.lock().unwrap() = service(&talker, config());

    assert_eq!(ask(&server, "echo", json!({})).await, ToolResult::ok("{}"));
}

#[tokio::test]
async fn a_call_whose_server_goes_away_and_stays_away_ends() {
    let talker = Talker::with(&[&["hang"]]);
    let mut sessions = LocalSessionManager::default();
    // A server may ask for longer waits.
    sessions.session_config.sse_retry = Some(Duration::from_millis(50));
    let service = Arc::new(Mutex::new(StreamableHttpService::new(
        {
            let talker = talker.clone();
            move || Ok(talker.clone())
        },
        Arc::new(sessions),
        StreamableHttpServerConfig::default(),
    )));
    let (url, gone) = serve_until(service, CancellationToken::new()).await;
    let server = start(&url, &[]).await.unwrap();

    let ended = tokio::join!(ask(&server, "hang", json!({})), async {
        talker.wait_for("hang {}").await;
        gone.cancel();
    })
    .0;

    assert!(
        ended.is_error && ended.text.starts_with("hang failed: tool server web "),
        "{}",
        ended.text
    );
}

#[tokio::test]
async fn what_is_no_server_is_told_in_one_clause() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = format!("http://{}/", nobody.local_addr().unwrap());
    drop(nobody);
    let html = serve_bytes(
        "HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 12\r\n\r\n<h1>bad</h1>",
    );
    let locked = serve_bytes(
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\ncontent-length: 0\r\n\r\n",
    );
    let text =
        serve_bytes("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nhi");
    let own = serve_bytes(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
         {\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32600,\"message\":\"not like this\"}}",
    );

    for (url, said) in [
        (gone, "tool server web cannot be reached: no connection"),
        (
            html.await,
            "tool server web cannot be used: unexpected server response: \
             HTTP 502 Bad Gateway: <h1>bad</h1>",
        ),
        (
            locked.await,
            "tool server web cannot be used: Auth required",
        ),
        (
            text.await,
            "tool server web cannot be used: Unexpected content type: Some(\"text/plain\")",
        ),
        (own.await, "tool server web refused us: not like this"),
    ] {
        let refused = refused(&url).await;
        assert!(refused.starts_with(said), "{refused}");
    }
}

#[tokio::test]
async fn a_body_beyond_its_limit_is_not_read_on() {
    let url = serve_bytes("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n0123456789").await;
    let transport = Transport::new(TransportConfig {
        proxy: ProxyEnv::none(),
        ..TransportConfig::default()
    });
    let client = HttpClient::new(Arc::new(transport.unwrap()));
    let get = || {
        let request = Request::get("/");
        client.exchange(&url, request, Headers::new(), None, Vec::new())
    };

    let whole = read_whole(get().await.unwrap().1, 10).await;
    let over = read_whole(get().await.unwrap().1, 9).await;

    assert_eq!(whole.unwrap(), b"0123456789");
    assert!(matches!(
        over,
        Err(StreamableHttpError::ResponseBodyTooLarge { max_size: 9 })
    ));
}
