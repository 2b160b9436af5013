//! Many streams at once with random faults, for long: nothing lost, nothing doubled, nothing kept.
//!
//! The model's name tells the upstream what to play, and the checks what has to come: frames are
//! numbered, so that a lost, doubled or misplaced one shows. The gateway's log tells of every call.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lifesign::clock;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::caller::{Caller, Way};
use crate::process::Process;
use crate::proxies::{Kind, Proxy};
use crate::upstream::Upstream;
use crate::wire::{FINISH, Reading, STREAM_HEAD, chunked, frame, header};
use crate::{Result, say};

/// What goes wrong in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// Nothing.
    None,
    /// Much comes at once, and the caller reads slowly.
    SlowReader,
    /// The first attempt is answered with a status, then all is well.
    Unavailable,
    RateLimited,
    /// The first attempt is lost before its head, or falls silent after it; then all is well.
    LostEarly,
    SilentEarly,
    /// The stream breaks off in the middle of a frame, or with a reset.
    Cut,
    Reset,
    /// The stream falls silent.
    Stalled,
    /// The provider fails in the stream.
    Failed,
    /// The caller leaves.
    Left,
}

impl Fault {
    const ALL: [Self; 11] = [
        Self::None,
        Self::SlowReader,
        Self::Unavailable,
        Self::RateLimited,
        Self::LostEarly,
        Self::SilentEarly,
        Self::Cut,
        Self::Reset,
        Self::Stalled,
        Self::Failed,
        Self::Left,
    ];

    /// Whether the answer comes whole, if not at the first attempt.
    fn heals(self) -> bool {
        matches!(
            self,
            Self::None
                | Self::SlowReader
                | Self::Unavailable
                | Self::RateLimited
                | Self::LostEarly
                | Self::SilentEarly
        )
    }
}

/// What one call is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    id: u64,
    fault: Fault,
    /// How many frames come, or come before the fault.
    frames: u32,
}

impl Part {
    fn random(id: u64) -> Self {
        let fault = if fastrand::bool() {
            Fault::None
        } else {
            Fault::ALL[fastrand::usize(..Fault::ALL.len())]
        };
        let frames = match fault {
            Fault::SlowReader => 500,
            Fault::Left => 100,
            _ => fastrand::u32(1..30),
        };
        Self { id, fault, frames }
    }

    /// Returns the part that a model's name tells of.
    pub(crate) fn of(model: &str) -> Option<Self> {
        let mut words = model.split('-').skip(1);
        let id = words.next()?.parse().ok()?;
        let fault = words.next()?;
        let fault = Fault::ALL
            .into_iter()
            .find(|known| format!("{known:?}") == fault)?;
        let frames = words.next()?.parse().ok()?;
        Some(Self { id, fault, frames })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "soak-{}-{:?}-{}", self.id, self.fault, self.frames)
    }
}

/// Plays a part upstream; returns whether the connection can be used again.
pub(crate) async fn play(reading: &mut Reading, part: Part, attempt: u32) -> io::Result<bool> {
    let is_first = attempt == 1;
    match part.fault {
        Fault::Unavailable if is_first => {
            reading.socket.write_all(UNAVAILABLE).await?;
            return Ok(true);
        }
        Fault::RateLimited if is_first => {
            reading.socket.write_all(RATE_LIMITED).await?;
            return Ok(true);
        }
        Fault::LostEarly if is_first => return Ok(false),
        Fault::SilentEarly if is_first => {
            reading.socket.write_all(STREAM_HEAD.as_bytes()).await?;
            return silent(reading).await;
        }
        _ => {}
    }
    reading.socket.write_all(STREAM_HEAD.as_bytes()).await?;
    for number in 0..part.frames {
        let text = if part.fault == Fault::SlowReader {
            format!("#{number};{}", "x".repeat(2_000))
        } else {
            sleep(Duration::from_millis(fastrand::u64(..PACE_MS))).await;
            format!("#{number};")
        };
        let next = chunked(&frame(&text));
        reading.socket.write_all(next.as_bytes()).await?;
    }
    match part.fault {
        Fault::Cut => {
            let half: String = frame("half").chars().take(40).collect();
            reading.socket.write_all(chunked(&half).as_bytes()).await?;
            return Ok(false);
        }
        Fault::Reset => {
            socket2::SockRef::from(reading.socket.tcp()).set_linger(Some(Duration::ZERO))?;
            return Ok(false);
        }
        Fault::Stalled => return silent(reading).await,
        Fault::Failed => reading.socket.write_all(chunked(FAILED).as_bytes()).await?,
        _ => reading.socket.write_all(chunked(FINISH).as_bytes()).await?,
    }
    reading.socket.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}

/// Waits for the caller to leave.
async fn silent(reading: &mut Reading) -> io::Result<bool> {
    while reading.more().await? {}
    Ok(false)
}

pub(crate) fn run(time: Duration) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(soak(time))
}

async fn soak(time: Duration) -> Result<()> {
    let upstream = Arc::new(Upstream::start(None)?);
    let mut proxy = Proxy::start(Kind::Lifesign, upstream.address, None, SETTINGS)?;
    let Some(process) = &mut proxy.process else {
        return Err("the gateway does not run".into());
    };
    // Whatever is made once is made now.
    proxy.way.open().await?.call("short").await?;
    let before = Held::of(process)?;
    say(&format!(
        "{STREAMS} streams at once for {time:?}; at the start {before}"
    ));

    let until = clock::now() + time;
    let ids = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..STREAMS {
        let (way, ids) = (proxy.way.clone(), Arc::clone(&ids));
        callers.spawn(async move { call_until(until, &way, &ids).await });
    }
    let mut memory = Vec::new();
    let mut made = Vec::new();
    let mut sampling = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            ended = callers.join_next() => match ended {
                Some(ended) => made.extend(ended??),
                None => break,
            },
            _ = sampling.tick() => {
                if clock::now() < until {
                    memory.push(process.resident_bytes()?);
                }
            }
        }
    }

    let after = settled(process, &proxy.way, before).await?;
    // The last lines of its log are written by then, which lag behind the calls that they tell of.
    process.end()?;
    account(&made, &proxy.said, &upstream)?;
    flat(&memory)?;
    let mut counts: HashMap<Fault, usize> = HashMap::new();
    for call in &made {
        *counts.entry(call.part.fault).or_default() += 1;
    }
    for fault in Fault::ALL {
        let count = counts.get(&fault).copied().unwrap_or(0);
        say(&format!("{:12} {count:>8}", format!("{fault:?}")));
    }
    say(&format!(
        "{} calls, each as it had to be and told of once; at the end {after}",
        made.len()
    ));
    Ok(())
}

/// A call that was made.
struct Made {
    part: Part,
    /// Whether the gateway began to answer, so that it must tell of the call.
    has_head: bool,
    /// Whether the answer came whole.
    is_whole: bool,
}

/// Makes one call after the other.
async fn call_until(until: Instant, way: &Way, ids: &AtomicU64) -> Result<Vec<Made>> {
    let mut made = Vec::new();
    let mut kept = None;
    // Not all at once, or they would go on in step.
    sleep(Duration::from_millis(fastrand::u64(..1_000))).await;
    while clock::now() < until {
        let part = Part::random(ids.fetch_add(1, Ordering::Relaxed));
        let mut caller = match kept.take() {
            Some(caller) => caller,
            None => way.open().await?,
        };
        let model = part.to_string();
        caller.ask(&model).await?;
        if part.fault == Fault::Left {
            let patience = Duration::from_millis(fastrand::u64(..2_000));
            let mut has_head = false;
            let mut text = String::new();
            tokio::select! {
                read = read(&mut caller, part, &mut has_head, &mut text) => read?,
                () = sleep(patience) => {}
            }
            numbered(&text).map_err(|problem| format!("{model}: {problem}"))?;
            made.push(Made {
                part,
                has_head,
                is_whole: false,
            });
            continue;
        }
        let (mut has_head, mut text) = (false, String::new());
        let read = read(&mut caller, part, &mut has_head, &mut text).await;
        read.map_err(|error| format!("{model}: {error}; so far: {text}"))?;
        // A wait beyond the first beat is not slept: the caller is told to wait itself.
        let is_refused = part.fault == Fault::RateLimited && text == SLOW;
        if !is_refused {
            check(part, &text).map_err(|problem| format!("{model}: {problem}: {text}"))?;
        }
        let is_whole = part.fault.heals() && !is_refused;
        made.push(Made {
            part,
            has_head,
            is_whole,
        });
        // After an answer that is whole the connection serves the next call.
        kept = is_whole.then_some(caller);
    }
    Ok(made)
}

/// Reads a whole response into `text`.
async fn read(
    caller: &mut Caller,
    part: Part,
    has_head: &mut bool,
    text: &mut String,
) -> io::Result<()> {
    let head = caller.any_head().await?;
    *has_head = true;
    if let Some(len) = header(&head, "content-length") {
        let len = len.parse().map_err(io::Error::other)?;
        *text = String::from_utf8_lossy(&caller.exactly(len).await?).into_owned();
        return Ok(());
    }
    let mut pieces = 0;
    while let Some(piece) = caller.piece().await? {
        text.push_str(&String::from_utf8_lossy(piece));
        pieces += 1;
        if part.fault == Fault::SlowReader && pieces % 8 == 0 {
            sleep(Duration::from_millis(10)).await;
        }
    }
    Ok(())
}

/// Checks that a response is what its part makes it.
fn check(part: Part, text: &str) -> std::result::Result<(), String> {
    let frames = numbered(text)?;
    if frames != part.frames {
        return Err(format!("{frames} frames came"));
    }
    let count = |what: &str| text.matches(what).count();
    let ends = (
        count("\"finish_reason\":\"stop\""),
        count("data: [DONE]"),
        count("\"error\""),
    );
    let (finishes, done, errors) = ends;
    let is_right = if part.fault.heals() {
        (finishes, done, errors) == (1, 1, 0)
    } else {
        (finishes, errors) == (0, 1) && done <= 1
    };
    if !is_right || count("half") > 0 {
        return Err(format!("it ends wrongly, {ends:?}"));
    }
    Ok(())
}

/// Counts the numbered frames, which have to come in order and once each.
fn numbered(text: &str) -> std::result::Result<u32, String> {
    let mut next = 0;
    for part in text.split("\"content\":\"#").skip(1) {
        let number = part.split(';').next().unwrap_or_default();
        if number.parse() != Ok(next) {
            return Err(format!("frame {number} came where {next} was due"));
        }
        next += 1;
    }
    Ok(next)
}

/// Checks that the log tells of every call once, and how it ended.
fn account(made: &[Made], said: &Path, upstream: &Upstream) -> Result<()> {
    let mut told: HashMap<String, Vec<String>> = HashMap::new();
    let said = std::fs::read_to_string(said)?;
    // What is not JSON says where it listens.
    for line in said.lines().filter(|line| line.starts_with('{')) {
        let line: serde_json::Value = serde_json::from_str(line)?;
        let (Some(model), true) = (line["model"].as_str(), line["elapsed_ms"].is_u64()) else {
            continue;
        };
        // A call that is whole has no outcome besides.
        let how = ["outcome", "message"]
            .iter()
            .find_map(|name| line[*name].as_str());
        let how = how.unwrap_or_default().to_owned();
        told.entry(model.to_owned()).or_default().push(how);
    }
    let mut count = 0;
    for Made {
        part,
        has_head,
        is_whole,
    } in made
    {
        let model = part.to_string();
        let ends = told.remove(&model).unwrap_or_default();
        // A caller that leaves at once may do so before it was heard.
        let must_be_told = *has_head || upstream.attempts(&model) > 0;
        let is_right = match ends.as_slice() {
            [] => !must_be_told,
            [how] if part.fault == Fault::Left => {
                how.starts_with("cancelled") || how.starts_with("completed")
            }
            [how] => how.starts_with("completed") == *is_whole,
            _ => false,
        };
        if !is_right {
            return Err(format!("the log tells of {model} as {ends:?}").into());
        }
        count += ends.len();
    }
    told.retain(|model, _| model.starts_with("soak"));
    if !told.is_empty() {
        return Err(format!("the log tells of calls that nobody made: {told:?}").into());
    }
    say(&format!("the log tells of {count} of {} calls", made.len()));
    Ok(())
}

/// Checks that memory does not grow: the last third of the time against the one before.
fn flat(memory: &[u64]) -> Result<()> {
    let third = memory.len() / 3;
    let median = |samples: &[u64]| {
        let mut samples = samples.to_vec();
        samples.sort_unstable();
        samples.get(samples.len() / 2).copied().unwrap_or_default()
    };
    let middle = median(&memory[third..2 * third]);
    let last = median(&memory[2 * third..]);
    say(&format!(
        "memory: {} MiB in the second third of the time, {} MiB in the last",
        middle >> 20,
        last >> 20
    ));
    if last > middle + middle / 10 + SLACK {
        return Err(format!("memory grew from {middle} to {last} bytes").into());
    }
    Ok(())
}

/// What the gateway's process holds.
#[derive(Clone, Copy)]
struct Held {
    descriptors: usize,
    threads: usize,
    resident: u64,
}

impl Held {
    fn of(process: &Process) -> Result<Self> {
        Ok(Self {
            descriptors: process.descriptors()?,
            threads: process.threads()?,
            resident: process.resident_bytes()?,
        })
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            descriptors,
            threads,
            resident,
        } = self;
        let mib = resident >> 20;
        write!(f, "{descriptors} descriptors, {threads} threads, {mib} MiB")
    }
}

/// Waits until everything that calls held is let go.
async fn settled(process: &Process, way: &Way, before: Held) -> Result<Held> {
    let until = clock::now() + Duration::from_secs(20);
    loop {
        let now = Held::of(process)?;
        let calls = way.open().await?.calls_under_way().await?;
        // Some connections to the upstream are kept, and the one that asks is there, too.
        let most = before.descriptors + IDLE + 1;
        if calls == 0 && now.descriptors <= most && now.threads == before.threads {
            return Ok(now);
        }
        if clock::now() > until {
            return Err(format!("{calls} calls are left, and {now}").into());
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Short waits, so that much goes wrong in little time.
const SETTINGS: &str = "pool_idle = 4\nbounds.raw_silence = \"1500ms\"\n\n\
    [beats]\nevery = \"250ms\"\n\n[breaker]\nfailures = 1000000\n\n\
    [retry.transport]\nfirst_delay = \"20ms\"\nmax_delay = \"100ms\"\n\
    [retry.cut]\nfirst_delay = \"20ms\"\nmax_delay = \"100ms\"\n\
    [retry.overload]\nfirst_delay = \"20ms\"\nmax_delay = \"100ms\"\n\
    [retry.rate]\nfirst_delay = \"20ms\"\nmax_delay = \"100ms\"";

const STREAMS: usize = 500;
/// As in [`SETTINGS`].
const IDLE: usize = 4;
/// The longest time between two frames.
const PACE_MS: u64 = 300;
/// What memory may grow by, whatever there is: a short soak is hardly warm before it ends.
const SLACK: u64 = 16 << 20;

const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 28\r\n\
    content-type: application/json\r\n\r\n{\"error\":{\"message\":\"busy\"}}";

const RATE_LIMITED: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 28\r\n\
    content-type: application/json\r\nretry-after-ms: 50\r\n\r\n{\"error\":{\"message\":\"slow\"}}";

/// The body of [`RATE_LIMITED`].
const SLOW: &str = "{\"error\":{\"message\":\"slow\"}}";

const FAILED: &str = "data: {\"error\":{\"message\":\"broken\",\"type\":\"server_error\"}}\n\n";
