//! The tools that a model may call: those for a directory, and those of MCP servers.

use std::env;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures_util::future::{join_all, try_join_all};
use lifesign::transport::{Transport, TransportConfig};
use lifesign_agent::tools::mcp::{McpConfig, McpServer, McpServerConfig, McpStarter, Sampler};
use lifesign_agent::tools::{DirectoryTools, RunRules, ToolLimits, Toolset};
use lifesign_core::{Limit, SettingError, Value};
use lifesign_gateway::config::ToolsConfig;

use crate::args::{BUILTIN_TOOLS, RunArgs};
use crate::interrupts::Interrupts;
use crate::output::note;

/// What tools are made of; nothing of it is started.
pub(super) struct Supplies {
    directory: Option<DirectoryTools>,
    servers: Vec<McpServerConfig>,
    limits: ToolLimits,
    /// How many model calls servers may have at once.
    sampling: usize,
    /// Whether somebody is told whom we wait for.
    is_told: bool,
}

/// Tools that can be called, and the servers behind them.
pub(super) struct Stock {
    tools: Toolset,
    servers: Vec<Arc<McpServer>>,
}

impl Supplies {
    /// Reads what the arguments name; whatever cannot be used is refused here.
    pub(super) fn prepare(args: &RunArgs, settings: &ToolsConfig) -> anyhow::Result<Self> {
        Ok(Self {
            directory: directory(args, settings)?,
            servers: servers(args)?,
            sampling: settings.sampling.value,
            is_told: !args.json,
            limits: ToolLimits {
                timeout: match settings.timeout.value {
                    Limit::After(limit) => Some(limit),
                    Limit::Off => None,
                },
                max_output: settings.max_output.value,
            },
        })
    }

    /// Starts the servers, side by side. They have model calls from `sampler`, where they may.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills what was started.
    pub(super) async fn start(self, sampler: Sampler) -> anyhow::Result<Stock> {
        let transport = Transport::new(TransportConfig::default())?;
        let mut starter = McpStarter::new(Arc::new(transport));
        if self.sampling > 0 {
            starter = starter.with_sampler(sampler.concurrency(self.sampling));
        }
        let names: Vec<_> = self.servers.iter().map(|it| it.name.clone()).collect();
        let starting = self.servers.into_iter().map(|config| {
            let starter = &starter;
            async move { starter.start(config).await.map(Arc::new) }
        });
        let starting = try_join_all(starting);
        tokio::pin!(starting);
        let servers = tokio::select! {
            biased;
            started = &mut starting => started,
            () = tokio::time::sleep(PATIENCE), if self.is_told => {
                note(&format!("waiting for tool servers to start: {}", names.join(", ")));
                starting.await
            }
        }?;
        let mut tools = Toolset::new().limits(self.limits);
        if let Some(directory) = self.directory {
            tools = tools.with("--tools", Arc::new(directory))?;
        }
        for server in &servers {
            let owner = format!("tool server {}", server.name());
            tools = tools
                .with(owner, Arc::clone(server) as _)
                .map_err(|taken| {
                    // Before two tools of one server a prefix would stand alike.
                    let advice = if taken.first == taken.second {
                        ""
                    } else {
                        "; a `prefix` tells a server's tools apart"
                    };
                    anyhow!("--mcp: {taken}{advice}")
                })?;
        }
        Ok(Stock { tools, servers })
    }
}

impl Stock {
    /// Returns the tools.
    pub(super) fn tools(&self) -> Arc<Toolset> {
        Arc::new(self.tools.clone())
    }

    /// Asks the servers to end, and waits for that unless somebody loses patience. What has not ended
    /// then is killed.
    pub(super) async fn close(self, interrupts: &mut Interrupts) {
        let closing = join_all(self.servers.iter().map(|server| server.close()));
        tokio::select! {
            biased;
            () = interrupts.next() => {}
            _closed = closing => {}
        }
    }
}

/// Returns the tools for a directory, where any are asked for.
fn directory(args: &RunArgs, settings: &ToolsConfig) -> anyhow::Result<Option<DirectoryTools>> {
    let Some(path) = &args.dir else {
        return Ok(None);
    };
    let mut tools = DirectoryTools::open(path)
        .with_context(|| format!("--dir: {} cannot be opened", path.display()))?;
    let mut may_run = false;
    for name in &args.tools {
        tools = match name.trim() {
            "list" => tools.allow_list(),
            "read" => tools.allow_read(),
            "write" => tools.allow_write(),
            "run" => {
                may_run = true;
                tools.allow_run(RunRules {
                    timeout: settings.run_timeout.value,
                    shell: args.shell,
                    environment: args.pass_env.clone(),
                    // Of each of the two things that a program writes.
                    max_output: settings.max_output.value / 2,
                })
            }
            other => {
                return Err(SettingError::new("--tools", "is no tool for a directory")
                    .with_value(&Value::Text(other))
                    .with_accepted(BUILTIN_TOOLS.join(", "))
                    .into());
            }
        };
    }
    let is_for_run = [
        ("--shell", args.shell),
        ("--pass-env", !args.pass_env.is_empty()),
    ];
    if let Some((flag, _)) = is_for_run
        .iter()
        .find(|(_, is_given)| *is_given && !may_run)
    {
        return Err(SettingError::new(*flag, "is for `run`, which is not among --tools").into());
    }
    let mut names = args.pass_env.iter();
    if let Some(name) = names.find(|name| env::var_os(name).is_none()) {
        let error = SettingError::new("--pass-env", "is not set in our environment");
        return Err(error.with_value(&Value::Text(name)).into());
    }
    Ok(Some(tools))
}

/// Returns the servers of the file, where one is named.
fn servers(args: &RunArgs) -> anyhow::Result<Vec<McpServerConfig>> {
    let Some(path) = &args.mcp else {
        return Ok(Vec::new());
    };
    let text = fs::read_to_string(path)
        .with_context(|| format!("--mcp: {} cannot be read", path.display()))?;
    let config = McpConfig::parse(&text, |name| env::var(name).ok())
        .with_context(|| format!("--mcp: {}", path.display()))?;
    Ok(config.servers)
}

/// How long servers may take to start before somebody is told what is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
