//! Finds the servers and calls their tools.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lifesign::transport::{ProxyEnv, Transport, TransportConfig};
use lifesign_agent::tools::mcp::{
    McpServer, McpServerConfig, McpStartError, McpStarter, McpWay, Sampler,
};
use lifesign_agent::tools::{ToolCall, ToolResult, Toolbox};
use serde_json::Value;

/// Returns what `cargo xtask sdks` set up under that name; says why where there is nothing.
pub(crate) fn set_up(name: &str) -> Option<String> {
    let found = std::env::var(name).ok();
    if found.is_none() {
        assert!(
            std::env::var_os("LIFESIGN_REQUIRE_SDKS").is_none(),
            "{name} is not set"
        );
        println!("skipped: no servers; see `cargo xtask sdks`");
    }
    found
}

/// Returns the program and the script of the server for Python.
pub(crate) fn python() -> Option<(String, String)> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/sdk/mcp_server.py");
    Some((set_up("LIFESIGN_SDK_PYTHON")?, script.to_str()?.to_owned()))
}

/// Returns the server for Python as a file would have it.
pub(crate) fn python_config() -> Option<McpServerConfig> {
    let (python, script) = python()?;
    Some(program(&python, &[&script]))
}

/// The server over HTTP, which ends with the test.
pub(crate) struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Starts the server for Python over HTTP. It listens already, and answers as soon as it can.
pub(crate) fn served() -> Option<(Served, McpServerConfig)> {
    let (python, script) = python()?;
    let served = Command::new(python)
        .args([&script, "http"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut served = Served(served.unwrap());
    let mut port = String::new();
    let stdout = served.0.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut port).unwrap();
    let url = format!("http://127.0.0.1:{}/mcp", port.trim());
    let config = config(McpWay::Http {
        url: url.parse().unwrap(),
        headers: Vec::new(),
    });
    Some((served, config))
}

pub(crate) fn program(command: &str, args: &[&str]) -> McpServerConfig {
    config(McpWay::Stdio {
        command: command.to_owned(),
        args: args.iter().copied().map(str::to_owned).collect(),
        // The script lies in the repository, which is not the place for what Python compiles.
        env: vec![("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())],
        cwd: None,
    })
}

pub(crate) fn config(way: McpWay) -> McpServerConfig {
    McpServerConfig {
        name: "tests".to_owned(),
        way,
        timeout: None,
        start_timeout: Duration::from_mins(1),
        tools: None,
        prefix: String::new(),
    }
}

pub(crate) fn starter() -> McpStarter {
    let transport = Transport::new(TransportConfig {
        proxy: ProxyEnv::none(),
        ..TransportConfig::default()
    });
    McpStarter::new(Arc::new(transport.unwrap()))
}

pub(crate) async fn start(config: McpServerConfig) -> McpServer {
    starter().start(config).await.unwrap()
}

pub(crate) async fn start_with(config: McpServerConfig, sampler: Sampler) -> McpServer {
    starter().with_sampler(sampler).start(config).await.unwrap()
}

pub(crate) async fn refused(config: McpServerConfig) -> McpStartError {
    starter().start(config).await.unwrap_err()
}

pub(crate) async fn ask(tools: &dyn Toolbox, name: &str, arguments: Value) -> ToolResult {
    tools.call(call(name, arguments), Arc::new(|_| {})).await
}

pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: "c1".to_owned(),
        name: name.to_owned(),
        arguments,
    }
}

/// Waits until a process is gone, or only waits to be looked at by its parent.
pub(crate) async fn gone(id: &str) {
    let stat = format!("/proc/{id}/stat");
    for _ in 0..1_000 {
        match std::fs::read_to_string(&stat) {
            Ok(stat) if !stat.contains(") Z ") => {}
            _ => return,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{id} is still there");
}
