//! The public server for files from npm.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use lifesign_agent::tools::mcp::McpServer;
use lifesign_agent::tools::{ToolResult, Toolbox as _, Toolset};
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;

use super::servers::{ask, program, set_up, start};

/// Starts the server for a new directory.
pub(crate) async fn files() -> Option<(TempDir, Arc<McpServer>)> {
    let node = set_up("LIFESIGN_SDK_NODE")?;
    let script = PathBuf::from(set_up("LIFESIGN_SDK_NODE_MODULES")?)
        .join("@modelcontextprotocol/server-filesystem/dist/index.js");
    let home = TempDir::new().unwrap();
    let server = program(&node, &[script.to_str()?, home.path().to_str()?]);
    Some((home, Arc::new(start(server).await)))
}

#[tokio::test]
async fn files_are_written_and_read_and_nothing_outside_is() {
    let Some((home, server)) = files().await else {
        return;
    };
    let tools = Toolset::new().with("files", server).unwrap();
    let path = home.path().join("a.txt");

    let written = json!({"path": path, "content": "hello"});
    let written = ask(&tools, "write_file", written).await;
    let read = ask(&tools, "read_text_file", json!({"path": path})).await;
    let outside = ask(&tools, "read_text_file", json!({"path": "/etc/passwd"})).await;
    let misfit = ask(&tools, "read_text_file", json!({})).await;

    assert!(!written.is_error, "{}", written.text);
    assert_eq!(fs::read_to_string(&path).unwrap(), "hello");
    assert_eq!(read, ToolResult::ok("hello"));
    assert!(
        outside.is_error && outside.text.contains("denied"),
        "{}",
        outside.text
    );
    assert_eq!(
        misfit,
        ToolResult::error(
            "arguments of read_text_file do not fit its schema, so it was not run: \
             \"path\" is a required property"
        )
    );
}

#[tokio::test]
async fn its_tools_say_which_of_them_only_read() {
    let Some((_home, server)) = files().await else {
        return;
    };

    let is_parallel = |name: &str| {
        let mut tools = server.tools().into_iter();
        tools.find(|tool| tool.name == name).unwrap().is_parallel
    };

    assert!(is_parallel("read_text_file"));
    assert!(!is_parallel("write_file"));
}
