//! The command line as typed.

mod names;
mod run;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use lifesign_journal::parse_age;

pub(crate) use self::names::BUILTIN_TOOLS;
use self::names::{Names, codes, dialects, profiles, scenarios, wires};
use self::run::RUN_HELP;
pub(crate) use self::run::RunArgs;

/// Keeps model calls alive and honest: judges each by what crosses the wire.
#[derive(Debug, Parser)]
#[command(
    name = "lifesign",
    version,
    max_term_width = 100,
    propagate_version = true,
    after_help = "Start here:\n  lifesign demo                  watch seven kinds of call being judged\n  \
                  lifesign call --help           make a call and see its clocks\n  \
                  lifesign run --help            have a model work on a task, or talk to it\n  \
                  lifesign config explain        see every bound in force and where it comes from"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make one model call, and say how it went.
    #[command(after_long_help = CALL_HELP)]
    Call(Box<CallArgs>),
    /// Show or check the settings in force for one upstream, model and limit of tokens.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Play a handful of provider faults side by side, and judge each call.
    Demo(DemoArgs),
    /// Tell from a journal of calls what failed, of what, and what to change.
    #[command(after_long_help = REPORT_HELP)]
    Report(ReportArgs),
    /// Have a model work on a task until it has answered, with tools where they are given, or talk to it.
    #[command(after_long_help = RUN_HELP)]
    Run(Box<RunArgs>),
    /// Serve as a gateway: programs that change only their base URL get everything `call` does.
    #[command(after_long_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Run a scripted model provider on loopback.
    #[command(after_long_help = STANDIN_HELP)]
    Standin(StandinArgs),
    /// Watch a gateway on a terminal: its calls and their clocks, upstreams and failures.
    #[command(after_long_help = TOP_HELP)]
    Top(TopArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the JSON schema of what `lifesign call --json` or `lifesign run --json` prints.
    Schema {
        /// Of which command.
        #[arg(value_name = "COMMAND", default_value = "call")]
        of: SchemaOf,
    },
}

/// A command that prints one JSON object.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaOf {
    /// `lifesign call`
    Call,
    /// `lifesign run`
    Run,
}

/// Which upstream, under which settings.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArgs {
    /// An upstream of the configuration file.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["base_url", "wire"])]
    pub(crate) upstream: Option<String>,
    /// Where the provider listens, with or without a trailing /v1.
    #[arg(long, value_name = "URL", requires = "wire")]
    pub(crate) base_url: Option<String>,
    /// The provider's streaming dialect: openai-chat, openai-responses or anthropic.
    #[arg(long, value_name = "WIRE", value_parser = Names(wires), hide_possible_values = true)]
    pub(crate) wire: Option<String>,
    /// The model to ask.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// The most tokens that the model may write, thinking included.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// A configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A set of bounds by name: progress, patient or harness.
    #[arg(long, value_name = "PROFILE", value_parser = Names(profiles), hide_possible_values = true)]
    pub(crate) profile: Option<String>,
    /// One setting, such as `bounds.raw_silence=45s`. May be given again.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// What to say to the model. Without it, --prompt-file or --request: standard input.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["prompt_file", "request"])]
    pub(crate) prompt: Option<String>,
    /// A file that holds what to say.
    #[arg(long, value_name = "FILE", conflicts_with = "request")]
    pub(crate) prompt_file: Option<PathBuf>,
    /// A file that holds the whole request body in the wire's own JSON; it is sent as it is.
    #[arg(long, value_name = "FILE")]
    pub(crate) request: Option<PathBuf>,
    /// Ask for a whole answer instead of a stream.
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// The environment variable that holds the key.
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
    /// Print one JSON object and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write what the provider sends, with its timing, for `lifesign standin --replay`.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Write the call and its attempts into this journal, or the one of `journal.path`.
    #[arg(long, value_name = "FILE")]
    #[expect(
        clippy::option_option,
        reason = "a flag whose value may be left out, as clap has it"
    )]
    pub(crate) journal: Option<Option<PathBuf>>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting in force, what it bounds, and where its value comes from.
    Explain {
        #[command(flatten)]
        target: TargetArgs,
        /// Explain what `lifesign serve` goes by.
        #[arg(long, conflicts_with = "run")]
        serve: bool,
        /// Explain what `lifesign run` goes by.
        #[arg(long)]
        run: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Refuse values that cannot be used, and report combinations that can never act.
    ///
    /// Without --upstream or --base-url every upstream of the file is looked at, and where the file
    /// has settings of the gateway, so is whether `lifesign serve` would start with it.
    Check {
        /// The configuration file, as after --config.
        #[arg(value_name = "FILE", conflicts_with = "config")]
        file: Option<PathBuf>,
        #[command(flatten)]
        target: TargetArgs,
        /// Check for `lifesign serve` also where the file has no setting of the gateway.
        #[arg(long)]
        serve: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON schema of a configuration file.
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// How many times faster than real time the provider and the bounds run.
    #[arg(long, value_name = "FACTOR", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) speed: u32,
    /// Print one JSON object for each call instead of prose.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which journal, and which of its calls: those for which all filters hold.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The journal.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) journal: Option<PathBuf>,
    /// The configuration file of a gateway that keeps one.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Calls that began in this time until now, such as `1h` or `7 days`.
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    pub(crate) since: Option<Duration>,
    /// Calls that asked this upstream.
    #[arg(long, value_name = "NAME")]
    pub(crate) upstream: Option<String>,
    /// Calls for this model, as the caller or the upstream names it.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Calls that failed with this code, or one of whose attempts did.
    #[arg(long, value_name = "CODE", value_parser = Names(codes), hide_possible_values = true)]
    pub(crate) code: Option<String>,
    /// Calls made with the caller's key of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) key: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// An upstream: a wire or the name of a known provider, and its base URL. May be given again.
    #[arg(long = "upstream", value_name = "NAME=URL")]
    pub(crate) upstreams: Vec<String>,
    /// A configuration file (TOML); it is read again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where to listen: an address and port, or `unix:/PATH`. May be given again.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// A set of bounds by name: progress, patient or harness.
    #[arg(long, value_name = "PROFILE", value_parser = Names(profiles), hide_possible_values = true)]
    pub(crate) profile: Option<String>,
    /// One setting, such as `beats.every=5s`. May be given again.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").args(["script", "scenario", "replay", "list"]))]
pub(crate) struct StandinArgs {
    /// A script file to play; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// A shipped scenario to play.
    #[arg(long, value_name = "NAME", value_parser = Names(scenarios), hide_possible_values = true)]
    pub(crate) scenario: Option<String>,
    /// A recording to play, with its timing.
    #[arg(long, value_name = "RECORDING")]
    pub(crate) replay: Option<PathBuf>,
    /// List the shipped scenarios.
    #[arg(long)]
    pub(crate) list: bool,
    /// Where to listen; port 0 picks a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,
    /// How many times faster than real time to play.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(crate) speed: f64,
    /// The dialect to speak whatever the path says.
    #[arg(long, value_name = "WIRE", value_parser = Names(dialects), hide_possible_values = true)]
    pub(crate) wire: Option<String>,
    /// Print the log as JSON lines.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which gateway, and how it is shown.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The gateway: `http://HOST:PORT`, `https://HOST` or `unix:/PATH`.
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:4631")]
    pub(crate) url: String,
    /// A file that holds the gateway's admin key; without it `LIFESIGN_ADMIN_KEY` may hold it.
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_key_file: Option<PathBuf>,
    /// Print once how it stands, as tables. So it is where standard output is no terminal.
    #[arg(long, conflicts_with = "json")]
    pub(crate) once: bool,
    /// Print once how it stands, as the JSON of the gateway's /lifesign/live.
    #[arg(long)]
    pub(crate) json: bool,
}

const CALL_HELP: &str = "\
Examples:
  # A local llama.cpp server
  lifesign call --base-url http://127.0.0.1:8080 --wire openai-chat --prompt 'Say hello'

  # A hosted provider; the key comes from OPENAI_API_KEY
  lifesign call --base-url https://api.openai.com --wire openai-responses \\
      --model gpt-5 --max-tokens 2000 --prompt 'Say hello'

  # Cut the call when the line is silent for 45 s, and print one JSON object
  lifesign call --base-url http://127.0.0.1:8080 --wire anthropic --model m \\
      --set bounds.raw_silence=45s --json --prompt 'Say hello'

  # Write it down, and tell later how calls went
  lifesign call --base-url http://127.0.0.1:8080 --wire openai-chat --journal calls.db \\
      --prompt 'Say hello'
  lifesign report --journal calls.db

Keys come from --api-key-env, else LIFESIGN_API_KEY, else the wire's usual variable.

Exit codes:
  0 completed   1 the answer could not be written
  2 a setting was refused     3 truncated        4 the provider failed or refused
  5 cut         6 the wall clock ran out    7 rate limit/quota 8 connecting or connection lost
  130 cancelled";

const REPORT_HELP: &str = "\
Examples:
  # The last hour of the gateway whose settings these are
  lifesign report --config gateway.toml --since 1h

  # Who is silent, at which upstream, and which setting cuts it
  lifesign report --journal calls.db --since '7 days' --code raw_silent

  # For programs
  lifesign report --journal calls.db --json

Columns, fields and tables are described in docs/reference/journal.md.";

const SERVE_HELP: &str = "\
Examples:
  # In front of two providers; programs use http://127.0.0.1:4631 and their own keys
  lifesign serve --upstream anthropic=https://api.anthropic.com --upstream openai=https://api.openai.com

  # In front of a local server, with a beat every 5 s
  lifesign serve --upstream openai-chat=http://127.0.0.1:8080 --set beats.every=5s

  # From a file, which may be checked before
  lifesign config check --config gateway.toml && lifesign serve --config gateway.toml

SIGTERM stops accepting and lets streams finish within serve.drain; SIGHUP reads the file again.
GET /livez and /readyz say how it is; GET /lifesign/calls, holds and upstreams show more.

Exit codes:
  0 ended by a signal   1 it could not listen or serve   2 a setting was refused";

const STANDIN_HELP: &str = "\
Examples:
  lifesign standin --list

  # Every scenario, each below its name: the base URL of silence is URL/silence/v1
  lifesign standin --listen 127.0.0.1:8090

  lifesign standin --scenario pings-only --listen 127.0.0.1:8090
  lifesign standin --replay call.rec --speed 10

The script language is described in docs/reference/script.md.";

const TOP_HELP: &str = "\
Examples:
  # The gateway on this machine
  lifesign top

  # Another one, which wants its admin key
  lifesign top https://gateway.example --admin-key-file admin.key

  # What is silent now, for a script
  lifesign top --json | jq '.calls[] | select(.state == \"silent\")'

Keys:
  Up Down, k j  choose a row            Tab, 1 2 3  calls, upstreams, failures
  Enter         a call from its beginning on; Esc goes back
  c             cancel the call         r           release the hold
  q             quit

The call that is cut next stands on top. A bar is full where the clock reaches its bound.
NO_COLOR=1 turns colours off.

Exit codes:
  0 ended   2 an argument was refused   4 it refuses, or is no gateway   8 nothing answers";
