//! The arguments of `lifesign run`.

use std::path::PathBuf;

use clap::Args;

use super::TargetArgs;
use super::names::{Names, builtin_tools, log_levels};

/// Whom to ask, what for, and with which tools.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag that somebody gives or not"
)]
pub(crate) struct RunArgs {
    #[command(flatten, next_help_heading = ASKED)]
    pub(crate) target: TargetArgs,
    /// The task. Without it, --task or --resume: a talk on a terminal, else standard input.
    #[arg(long, help_heading = TASK, value_name = "TEXT", conflicts_with_all = ["task", "resume"])]
    pub(crate) prompt: Option<String>,
    /// A file that holds the task; `-` reads standard input.
    #[arg(
        long,
        help_heading = TASK,
        value_name = "FILE",
        alias = "prompt-file",
        conflicts_with = "resume"
    )]
    pub(crate) task: Option<PathBuf>,
    /// What the model is told beforehand.
    #[arg(long, help_heading = TASK, value_name = "TEXT", conflicts_with = "system_file")]
    pub(crate) system: Option<String>,
    /// A file that holds what the model is told beforehand.
    #[arg(long, help_heading = TASK, value_name = "FILE")]
    pub(crate) system_file: Option<PathBuf>,
    /// How long the turn may take, tools and waits included, such as `30m`. Default: no limit.
    #[arg(long, help_heading = LIMITS, value_name = "DURATION")]
    pub(crate) wall_clock: Option<String>,
    /// Keep the conversation in this file, and go on with the one that it holds.
    #[arg(long, help_heading = CONVERSATION, value_name = "FILE")]
    pub(crate) transcript: Option<PathBuf>,
    /// Go on with the turn of --transcript that did not end, or that waits for a limit to reset.
    #[arg(long, help_heading = CONVERSATION, requires = "transcript")]
    pub(crate) resume: bool,
    /// Go on with --resume also before the limit has reset that the turn waits for.
    #[arg(long, help_heading = CONVERSATION, requires = "resume")]
    pub(crate) now: bool,
    /// Where what you say in a talk is kept for the next one, or `off`. Default: the file
    /// `lifesign/history` in `XDG_STATE_HOME` or `~/.local/state`.
    #[arg(long, help_heading = CONVERSATION, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// A file of MCP servers whose tools the model may call, `{"mcpServers": {...}}`.
    #[arg(long, help_heading = TOOLS, value_name = "FILE")]
    pub(crate) mcp: Option<PathBuf>,
    /// Tools for --dir that the model may call: list, read, write, run; commas between.
    #[arg(long, help_heading = TOOLS, value_name = "NAMES", requires = "dir", value_delimiter = ',',
          value_parser = Names(builtin_tools), hide_possible_values = true)]
    pub(crate) tools: Vec<String>,
    /// The directory of --tools. What `run` starts is not held there.
    #[arg(long, help_heading = TOOLS, value_name = "DIRECTORY", requires = "tools")]
    pub(crate) dir: Option<PathBuf>,
    /// Let `run` take a line for the shell instead of a program and its arguments.
    #[arg(long, help_heading = TOOLS, requires = "tools")]
    pub(crate) shell: bool,
    /// A variable of our environment that programs of `run` may see. May be given again.
    #[arg(long, help_heading = TOOLS, value_name = "NAME", requires = "tools")]
    pub(crate) pass_env: Vec<String>,
    /// How many tokens the model's context has. Near it, what was said long ago is summed up.
    #[arg(long, help_heading = LIMITS, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) context_tokens: Option<u64>,
    /// In how many answers the model may call tools, 0 for any number. Default: 200.
    #[arg(long, help_heading = LIMITS, value_name = "N")]
    pub(crate) max_rounds: Option<u32>,
    /// How many times in a turn the model may be reminded of what it left undone, 0 to 3. Default: 3.
    #[arg(long, help_heading = LIMITS, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=3))]
    pub(crate) reminders: Option<u32>,
    /// A field for the body of each request, such as `temperature=0.2`. May be given again.
    #[arg(long, help_heading = LIMITS, value_name = "NAME=JSON")]
    pub(crate) extra: Vec<String>,
    /// Send the turn again after these waits once its attempts are used up; not after a cut.
    #[arg(long, help_heading = LIMITS, value_name = "WAITS", num_args = 0..=1, require_equals = true,
          default_missing_value = "2m,8m,32m", value_delimiter = ',')]
    pub(crate) resend: Vec<String>,
    /// The environment variable that holds the key.
    #[arg(long, help_heading = ASKED, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long, help_heading = TOLD)]
    pub(crate) json: bool,
    /// Write every call and attempt into this journal, or the one of `journal.path`.
    #[arg(long, help_heading = TOLD, value_name = "FILE")]
    #[expect(
        clippy::option_option,
        reason = "a flag whose value may be left out, as clap has it"
    )]
    pub(crate) journal: Option<Option<PathBuf>>,
    /// The least level of the log on standard error: off, error, warn, info, debug or trace.
    #[arg(long, help_heading = TOLD, value_name = "LEVEL", default_value = "warn",
          value_parser = Names(log_levels), hide_possible_values = true)]
    pub(crate) log: String,
}

pub(super) const RUN_HELP: &str = "\
Examples:
  # A task, unattended: half an hour at most, and one JSON object at the end
  lifesign run --base-url http://127.0.0.1:8080 --wire openai-chat \\
      --wall-clock 30m --json --task task.md

  # A talk on a terminal; /help tells what there is beside talking
  lifesign run --base-url http://127.0.0.1:8080 --wire openai-chat

  # With tools for one directory, and those of MCP servers
  lifesign run --base-url https://api.anthropic.com --wire anthropic --model claude-sonnet-4-5 \\
      --tools list,read,write --dir work --mcp mcp.json --prompt 'Mend the failing test'

  # A conversation in a file; each run goes on with it
  lifesign run --upstream claude --config lifesign.toml --model claude-sonnet-4-5 \\
      --transcript talk.jsonl --prompt 'And in French?'

  # After a crash, or when a limit has reset
  lifesign run --upstream claude --config lifesign.toml --model claude-sonnet-4-5 \\
      --transcript talk.jsonl --resume

Exit codes:
  0 completed      3 answer without its end   5 cut by a bound       8 connection failed
  1 answer could   4 provider failed or       6 wall clock ran out   9 no reply from the model
    not be written   refused                  7 rate limit         130 cancelled
  2 something cannot be used, or a tool server does not start

The answer goes to standard output as it comes, everything else to standard error. Only the model's
own doing is a missing reply (9); what happens to the provider has a code of its own.

The JSON object is described in docs/reference/run-json.md and by `lifesign schema run`, tools in
docs/reference/tools.md, all of it in docs/agent.md.";

const ASKED: &str = "Whom to ask, and how";

const TASK: &str = "The task";

const CONVERSATION: &str = "The conversation";

const TOOLS: &str = "Tools";

const LIMITS: &str = "How far the turn may go";

const TOLD: &str = "What is told";
