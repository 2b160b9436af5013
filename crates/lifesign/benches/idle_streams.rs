//! Thousands of idle streams in one process: their memory, and how late their silence is noticed.
//!
//! The server and each measurement run in processes of their own, which are this program again, so
//! that neither descriptors nor memory mix. `-- --streams N` asks for another number of streams.

use std::error::Error;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lifesign::{CallEvent, CallRequest, Client, Upstream, clock};
use lifesign_core::{BoundName, Layer, Origin, Settings, Target, Value, resolve};
use lifesign_standin::Standin;
use lifesign_wire::{Request, Wire};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[expect(clippy::print_stderr, reason = "where a program says why it fails")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["serve", plan] => Plan::parse(plan).and_then(serve),
        ["measure", plan, streams, url, server] => measure(plan, streams, url, server),
        arguments => streams(arguments).and_then(compare),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// How the streams come and go.
#[derive(Clone, Copy)]
enum Plan {
    /// Opened and fallen silent one after the other, as with callers that know nothing of each
    /// other.
    Spread,
    /// Opened all at once, and silent all at once.
    Burst,
    /// Opened one after the other and then stopped with their server, all within one heartbeat.
    Frozen,
}

impl Plan {
    const ALL: [Self; 3] = [Self::Spread, Self::Burst, Self::Frozen];

    const fn name(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Burst => "burst",
            Self::Frozen => "frozen",
        }
    }

    fn parse(name: &str) -> Result<Self> {
        let mut plans = Self::ALL.into_iter();
        plans
            .find(|plan| plan.name() == name)
            .ok_or_else(|| format!("`{name}` is no plan").into())
    }

    /// The time over which the streams are opened.
    const fn opening(self) -> Duration {
        match self {
            Self::Spread | Self::Frozen => Duration::from_secs(6),
            Self::Burst => Duration::ZERO,
        }
    }

    /// What the server plays: heartbeats keep the first stream up until the last one is open.
    fn script(self) -> String {
        let beats = match self {
            Self::Spread => "x6",
            Self::Burst => "x2",
            Self::Frozen => "forever",
        };
        format!("status 200 sse; role; text \"Hello\"; repeat 1 {{ comment }} {beats}; hold")
    }
}

/// Reads the number of streams; what cargo adds says nothing to us.
fn streams(arguments: &[&str]) -> Result<u32> {
    match arguments {
        [] | ["--bench"] => Ok(9_000),
        ["--streams", number] | ["--streams", number, "--bench"] => match number.parse() {
            Ok(streams) if streams > 0 => Ok(streams),
            _ => Err(format!("--streams is `{number}`; accepted: a number from 1").into()),
        },
        _ => Err("usage: cargo bench -p lifesign --bench idle_streams [-- --streams N]".into()),
    }
}

fn compare(streams: u32) -> Result<()> {
    let needed = streams + SPARE_DESCRIPTORS;
    if let Some(allowed) = allowed_descriptors().filter(|allowed| *allowed < needed) {
        return Err(format!(
            "{streams} streams need {needed} open files and {allowed} are allowed; \
             raise the limit with `ulimit -n {needed}` or ask for fewer with `-- --streams N`"
        )
        .into());
    }
    say(&format!(
        "{streams} idle streams in one process, cut after {SILENCE:?} of silence\n\n\
         {:8} {:>13} {:>8} {:>21} {:>29} {:>17}\n\
         {:8} {:>13} {:>8} {:>10} {:>10} {:>9} {:>9} {:>9} {:>8} {:>8}",
        "",
        "memory of one",
        "all open",
        "opening one, ms",
        "cut late, our clock, ms",
        "late_ms",
        "plan",
        "bytes",
        "s",
        "p50",
        "p99",
        "p50",
        "p99",
        "max",
        "p99",
        "max",
    ));
    for plan in Plan::ALL {
        let mut server = Server::start(plan)?;
        let status = Command::new(std::env::current_exe()?)
            .args(["measure", plan.name(), &streams.to_string(), &server.url])
            .arg(server.child.id().to_string())
            .status()?;
        server.child.kill()?;
        if !status.success() {
            return Err(format!("the plan `{}` failed", plan.name()).into());
        }
    }
    Ok(())
}

/// The server's process. It ends with its standard input.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(plan: Plan) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", plan.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut url)?;
        }
        let url = url.trim().to_owned();
        Ok(Self { child, url })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.wait().map(drop).unwrap_or_default();
    }
}

fn serve(plan: Plan) -> Result<()> {
    let runtime = Runtime::new()?;
    let standin = runtime.block_on(Standin::script(&plan.script())?.start())?;
    say(&standin.url());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

fn measure(plan: &str, streams: &str, url: &str, server: &str) -> Result<()> {
    let (plan, streams) = (Plan::parse(plan)?, streams.parse()?);
    Runtime::new()?.block_on(run(plan, streams, url, server))
}

async fn run(plan: Plan, streams: u32, url: &str, server: &str) -> Result<()> {
    let client = Client::new()?;
    let upstream = Arc::new(Upstream::new(Wire::OPENAI_CHAT, url)?);
    let settings = settings()?;
    let opening = Arc::new(Opening {
        missing: AtomicU32::new(streams),
        done: Notify::new(),
    });
    let mut running = JoinSet::new();
    let before = resident_bytes()?;
    let began = clock::now();
    for number in 0..streams {
        let (client, opening) = (client.clone(), Arc::clone(&opening));
        let request = CallRequest::new(Arc::clone(&upstream), Request::prompt("m", "Hello"));
        let request = request.settings(settings.clone());
        let start = began + plan.opening() * number / streams;
        running.spawn(async move {
            sleep_until(start).await;
            idle(&client, request, &opening).await
        });
    }
    tokio::select! {
        () = opening.done.notified() => {}
        // Only a failure ends one before the last is open.
        Some(ended) = running.join_next() => {
            ended??;
            return Err("a stream was cut before the last one was open".into());
        }
    }
    let all_open = began.elapsed();
    let memory = resident_bytes()?.saturating_sub(before) / u64::from(streams);
    if let Plan::Frozen = plan {
        Command::new("kill").args(["-STOP", server]).status()?;
    }
    let mut ended = Vec::new();
    while let Some(one) = running.join_next().await {
        ended.push(one??);
    }
    let opened = Spread::of(&ended, |idle| idle.opened);
    let late = Spread::of(&ended, |idle| idle.late);
    let recorded = Spread::of(&ended, |idle| idle.recorded);
    say(&format!(
        "{:8} {memory:>13} {:>8.2} {:>10.1} {:>10.1} {:>9.1} {:>9.1} {:>9.1} {:>8} {:>8}",
        plan.name(),
        all_open.as_secs_f64(),
        opened.p50,
        opened.p99,
        late.p50,
        late.p99,
        late.max,
        recorded.p99,
        recorded.max,
    ));
    Ok(())
}

/// Counts the streams that are not open yet.
struct Opening {
    missing: AtomicU32,
    done: Notify,
}

/// What one stream did.
struct Idle {
    /// From the call's beginning to its first content.
    opened: Duration,
    /// From the instant at which its silence was too long to the news of it.
    late: Duration,
    /// The same, as the call's own record has it.
    recorded: Duration,
}

/// Reads one stream to the cut that has to end it.
async fn idle(client: &Client, request: CallRequest, opening: &Opening) -> Result<Idle> {
    let began = clock::now();
    let mut opened = None;
    let mut latest: Instant = began;
    let mut stream = client.stream(request);
    while let Some(item) = stream.next().await {
        let now = clock::now();
        match item {
            Ok(event) => {
                latest = now;
                if opened.is_none() && matches!(event, CallEvent::Text(_)) {
                    opened = Some(now - began);
                    if opening.missing.fetch_sub(1, Ordering::Relaxed) == 1 {
                        opening.done.notify_one();
                    }
                }
            }
            Err(failed) if failed.failure.bound == Some(BoundName::RawSilence) => {
                return Ok(Idle {
                    opened: opened.ok_or("a stream was cut before its first content")?,
                    late: (now - latest).saturating_sub(SILENCE),
                    recorded: Duration::from_millis(
                        failed.attempts.last().map_or(0, |attempt| attempt.late_ms),
                    ),
                });
            }
            Err(failed) => return Err(failed),
        }
    }
    Err("a stream ended without a failure".into())
}

fn settings() -> Result<Settings> {
    let mut layer = Layer::new();
    let silence = format!("{}ms", SILENCE.as_millis());
    for (key, value) in [
        ("bounds", "off"),
        ("bounds.raw_silence", &silence),
        ("retry.attempts", "1"),
    ] {
        layer.set(key, Value::of_text(value), Origin::Call)?;
    }
    let target = Target {
        wire: &Wire::OPENAI_CHAT.defaults(),
        host: None,
        model: None,
    };
    Ok(resolve(&[layer], &target)?)
}

/// The middle and the end of a distribution, in milliseconds.
struct Spread {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Spread {
    fn of(all: &[Idle], value: impl Fn(&Idle) -> Duration) -> Self {
        let mut values: Vec<Duration> = all.iter().map(value).collect();
        values.sort_unstable();
        let at = |percent: usize| {
            let rank = values.len().saturating_sub(1) * percent / 100;
            values
                .get(rank)
                .map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        Self {
            p50: at(50),
            p99: at(99),
            max: at(100),
        }
    }
}

/// Returns how much of this process's memory is resident.
fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib
        .ok_or("/proc/self/status has no VmRSS")?
        .parse::<u64>()?
        * 1024)
}

/// Returns how many files this process may open, where the system says so in numbers.
fn allowed_descriptors() -> Option<u32> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn say(text: &str) {
    println!("{text}");
    // Whoever reads a pipe waits for the line.
    std::io::stdout().flush().unwrap_or_default();
}

const SILENCE: Duration = Duration::from_secs(2);
/// What a process has open besides its streams.
const SPARE_DESCRIPTORS: u32 = 64;
