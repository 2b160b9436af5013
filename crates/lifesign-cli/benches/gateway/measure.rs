//! What is measured, of each proxy and of the gateway alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lifesign::clock;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::caller::{Caller, Way};
use crate::process::Process;
use crate::proxies::{self, Kind, Proxy};
use crate::table::Table;
use crate::tls::Certificate;
use crate::upstream::{SHORT_FRAMES, Upstream};
use crate::{Result, say, watched};

/// How much of everything.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    paced: usize,
    paced_for: Duration,
    firsts: usize,
    short_for: Duration,
    idle: usize,
    leaving: usize,
    settle: Duration,
    gone: Duration,
    silent: usize,
    beat: Duration,
    beats: u32,
    cut: usize,
    failovers: usize,
    /// How often it is compared what it costs to be watched.
    pub(crate) watched: usize,
}

const FULL: Scale = Scale {
    paced: 100,
    paced_for: Duration::from_secs(5),
    firsts: 3_000,
    short_for: Duration::from_secs(4),
    idle: 2_000,
    leaving: 1_000,
    settle: Duration::from_secs(3),
    // The gateway's allocator gives back what has been free for 10 s.
    gone: Duration::from_secs(15),
    silent: 9_000,
    beat: Duration::from_secs(15),
    beats: 2,
    cut: 2_000,
    failovers: 500,
    watched: 7,
};

/// Enough to see that everything still works.
const QUICK: Scale = Scale {
    paced: 10,
    paced_for: Duration::from_millis(500),
    firsts: 20,
    short_for: Duration::from_millis(200),
    idle: 40,
    leaving: 20,
    settle: Duration::from_millis(100),
    gone: Duration::from_millis(100),
    silent: 50,
    beat: Duration::from_millis(500),
    beats: 2,
    cut: 20,
    failovers: 10,
    watched: 1,
};

pub(crate) fn run(quick: bool) -> Result<()> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let scale = if quick { QUICK } else { FULL };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let kinds = if quick {
            vec![Kind::Direct, Kind::Hyper, Kind::Lifesign]
        } else {
            proxies::available()
        };
        let upstream = Upstream::start(None)?;
        let mut plain = Table::new("in the clear");
        for kind in &kinds {
            say(&format!("measuring {}", kind.name()));
            let proxy = Proxy::start(*kind, upstream.address, None, "")?;
            passing(&mut plain, *kind, &proxy, &upstream, &scale).await?;
            leaving(&mut plain, *kind, &proxy, &upstream, &scale).await?;
        }
        say("measuring beats, cuts and failover");
        beats(&mut plain, &upstream, &scale).await?;
        cuts(&mut plain, &upstream, &scale).await?;
        failover(&mut plain, &upstream, &scale).await?;
        say("measuring what it costs to be watched");
        watched::measure(&mut plain, &upstream, &scale).await?;
        goals(&mut plain);
        drop(upstream);

        let directory = tempfile::tempdir()?;
        let certificate = Certificate::make(directory.path())?;
        let upstream = Upstream::start(Some(certificate.acceptor()?))?;
        let mut encrypted = Table::new("TLS on both sides");
        for kind in kinds.iter().filter(|kind| **kind != Kind::Hyper) {
            say(&format!("measuring {} with TLS", kind.name()));
            let proxy = Proxy::start(*kind, upstream.address, Some(&certificate), "")?;
            passing(&mut encrypted, *kind, &proxy, &upstream, &scale).await?;
        }
        plain.print();
        encrypted.print();
        Ok(())
    })
}

/// Measures what passing an answer on costs beside a proxy without logic, for whoever works on that.
pub(crate) fn passing_alone() -> Result<()> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let upstream = Upstream::start(None)?;
        let mut table = Table::new("in the clear");
        for kind in [Kind::Hyper, Kind::Lifesign] {
            let proxy = Proxy::start(kind, upstream.address, None, "")?;
            passing(&mut table, kind, &proxy, &upstream, &FULL).await?;
        }
        goals(&mut table);
        table.print();
        Ok(())
    })
}

/// Shows where the gateway's time goes under a load.
pub(crate) fn profile(load: &str) -> Result<()> {
    rlimit::increase_nofile_limit(u64::MAX)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let upstream = Upstream::start(None)?;
        let settings = "bounds = \"off\"\n\n[beats]\nevery = \"1s\"";
        let settings = if load == "silent" { settings } else { "" };
        let proxy = Proxy::start(Kind::Lifesign, upstream.address, None, settings)?;
        let Some(process) = &proxy.process else {
            return Err("the gateway does not run".into());
        };
        let file = std::env::temp_dir().join("lifesign-gateway.perf");
        proxy.way.open().await?.call("short").await?;
        let time = Duration::from_secs(5);
        let scale = Scale {
            short_for: time,
            paced_for: time,
            ..FULL
        };
        let mut sampling = process.sample(time, &file)?;
        match load {
            "short" => drop(short_calls(&proxy, &scale).await?),
            "paced" => drop(frame_cost(&proxy, &scale).await?),
            "silent" => {
                let streams = silent_streams(&proxy.way, 1_000, Duration::ZERO).await?;
                sleep(time).await;
                drop(streams);
            }
            _ => return Err("the loads are short, paced and silent".into()),
        }
        sampling.wait()?;
        let mut report = std::process::Command::new("perf");
        report.args(["report", "--stdio", "--percent-limit", "0.4", "-i"]);
        let status = report.arg(file).status()?;
        status
            .success()
            .then_some(())
            .ok_or_else(|| "perf report failed".into())
    })
}

fn goals(table: &mut Table) {
    // Where nginx had 24 us, 57 us and 39,600.
    table.at_most(FRAME, 32.0).beside_nginx(24.0);
    table.at_most(FIRST, 70.0).beside_nginx(57.0);
    table.at_least(SHORT, 20_000.0).beside_nginx(39_600.0);
    table.at_most(IDLE, 32.0);
    table.at_most(REST, 20.0);
    table.at_most(REST_AFTER, 20.0);
    table.at_most(LEFT_ONE, 10.0);
    table.at_most(LEFT_MANY, 100.0);
    table.at_most(BEAT, 50.0);
    table.at_most(BEAT_CPU, 2.0);
    table.at_most(CUT, 50.0);
    table.at_most(FAILOVER, 5.0);
    table.at_most(watched::COST, 105.0);
}

/// What every proxy is there for.
async fn passing(
    table: &mut Table,
    kind: Kind,
    proxy: &Proxy,
    upstream: &Upstream,
    scale: &Scale,
) -> Result<()> {
    proxy.way.open().await?.call("short").await?;
    let resident = || -> Result<Option<f64>> {
        let bytes = proxy.process.as_ref().map(Process::resident_bytes);
        Ok(bytes.transpose()?.map(as_f64))
    };
    if let Some(bytes) = resident()? {
        table.add(REST, kind, bytes / MIB);
    }

    if let Some(micros) = frame_cost(proxy, scale).await? {
        table.add(FRAME, kind, micros);
    }
    let firsts = first_frames(&proxy.way, "paced-1-1", scale.firsts).await?;
    table.add(FIRST, kind, micros(percentile(&firsts, 50)));
    table.add(FIRST_99, kind, micros(percentile(&firsts, 99)));
    let (calls, each) = short_calls(proxy, scale).await?;
    table.add(SHORT, kind, calls);
    if let Some(micros) = each {
        table.add(SHORT_CPU, kind, micros);
    }

    sleep(scale.settle).await;
    let before = resident()?;
    let streams = silent_streams(&proxy.way, scale.idle, Duration::ZERO).await?;
    sleep(Duration::from_millis(500)).await;
    if let (Some(before), Some(during)) = (before, resident()?) {
        table.add(
            IDLE,
            kind,
            (during - before) / as_f64(scale.idle as u64) / KIB,
        );
    }
    drop(streams);
    wait_for_left(upstream, scale.idle).await?;
    upstream.take_left();
    sleep(scale.gone).await;
    if let Some(bytes) = resident()? {
        table.add(REST_AFTER, kind, bytes / MIB);
    }
    Ok(())
}

/// Returns the microseconds of processor time that a frame of a paced stream takes.
pub(crate) async fn frame_cost(proxy: &Proxy, scale: &Scale) -> Result<Option<f64>> {
    let Some(process) = &proxy.process else {
        return Ok(None);
    };
    let frames = Arc::new(AtomicU64::new(0));
    let mut streams = JoinSet::new();
    let each = (scale.paced_for + Duration::from_secs(1)).as_millis() / u128::from(PACE_MS);
    let model = format!("paced-{each}-{PACE_MS}");
    for _ in 0..scale.paced {
        let (way, model, frames) = (proxy.way.clone(), model.clone(), Arc::clone(&frames));
        streams.spawn(async move {
            let mut caller = way.open().await?;
            caller.ask(&model).await?;
            caller.head().await?;
            while let Some(piece) = caller.piece().await? {
                let count = memchr::memmem::find_iter(piece, b"data:").count() as u64;
                frames.fetch_add(count, Ordering::Relaxed);
            }
            Ok::<_, std::io::Error>(())
        });
    }
    sleep(Duration::from_millis(500)).await;
    let (cpu, passed) = (process.cpu()?, frames.load(Ordering::Relaxed));
    sleep(scale.paced_for).await;
    let cpu = process.cpu()?.saturating_sub(cpu);
    let passed = frames.load(Ordering::Relaxed) - passed;
    while let Some(ended) = streams.join_next().await {
        ended??;
    }
    if passed == 0 {
        return Err("no frame passed".into());
    }
    Ok(Some(micros(cpu) / as_f64(passed)))
}

/// Returns, sorted, how long the first frame of calls one after the other took.
async fn first_frames(way: &Way, model: &str, calls: usize) -> Result<Vec<Duration>> {
    let mut caller = way.open().await?;
    let mut took = Vec::with_capacity(calls);
    for _ in 0..calls {
        let asked = clock::now();
        let (first, _) = caller.call(model).await?;
        took.push(first - asked);
    }
    took.sort_unstable();
    Ok(took)
}

/// Returns how many short calls there are in a second, with 32 at once, and the microseconds of
/// processor time that each takes.
async fn short_calls(proxy: &Proxy, scale: &Scale) -> Result<(f64, Option<f64>)> {
    let cpu = || proxy.process.as_ref().map(Process::cpu).transpose();
    let (began, before) = (clock::now(), cpu()?);
    let until = began + scale.short_for;
    let mut callers = JoinSet::new();
    for _ in 0..AT_ONCE {
        let way = proxy.way.clone();
        callers.spawn(async move {
            let mut caller = way.open().await?;
            let mut calls = 0_u64;
            while clock::now() < until {
                let (_, frames) = caller.call("short").await?;
                // The two that end the answer.
                if frames != SHORT_FRAMES + 2 {
                    return Err(std::io::Error::other(format!("{frames} frames came")));
                }
                calls += 1;
            }
            Ok(calls)
        });
    }
    let mut calls = 0;
    while let Some(ended) = callers.join_next().await {
        calls += ended??;
    }
    let (took, calls) = (began.elapsed().as_secs_f64(), as_f64(calls));
    let spent = cpu()?
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before));
    Ok((calls / took, spent.map(|spent| micros(spent) / calls)))
}

/// Opens streams that say one thing and then nothing, spread over `opening`.
async fn silent_streams(way: &Way, streams: usize, opening: Duration) -> Result<Vec<Caller>> {
    let began = clock::now();
    let next = Arc::new(AtomicUsize::new(0));
    let mut openers = JoinSet::new();
    for _ in 0..OPENERS {
        let (way, next) = (way.clone(), Arc::clone(&next));
        openers.spawn(async move {
            let mut open = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= streams {
                    return Ok(open);
                }
                sleep_until(
                    began + opening.mul_f64(as_f64(number as u64) / as_f64(streams as u64)),
                )
                .await;
                let mut caller = way.open().await?;
                caller.ask("silent").await?;
                caller.head().await?;
                caller.piece().await?;
                open.push(caller);
            }
        });
    }
    let mut open = Vec::with_capacity(streams);
    while let Some(opened) = openers.join_next().await {
        let opened: std::io::Result<Vec<Caller>> = opened?;
        open.extend(opened?);
    }
    Ok(open)
}

/// How soon the upstream sees that callers have left.
async fn leaving(
    table: &mut Table,
    kind: Kind,
    proxy: &Proxy,
    upstream: &Upstream,
    scale: &Scale,
) -> Result<()> {
    upstream.take_left();
    let mut ones = Vec::new();
    for caller in silent_streams(&proxy.way, ALONE, Duration::ZERO).await? {
        let left = clock::now();
        drop(caller);
        wait_for_left(upstream, 1).await?;
        ones.extend(upstream.take_left().into_iter().map(|seen| seen - left));
    }
    ones.sort_unstable();
    table.add(LEFT_ONE, kind, millis(percentile(&ones, 99)));

    let callers = silent_streams(&proxy.way, scale.leaving, Duration::ZERO).await?;
    sleep(Duration::from_millis(200)).await;
    let left = clock::now();
    drop(callers);
    wait_for_left(upstream, scale.leaving).await?;
    let last = upstream.take_left().into_iter().max();
    let last = last.ok_or("nobody left")? - left;
    table.add(LEFT_MANY, kind, millis(last));
    Ok(())
}

async fn wait_for_left(upstream: &Upstream, count: usize) -> Result<()> {
    let until = clock::now() + Duration::from_secs(20);
    while upstream.left() < count {
        if clock::now() > until {
            let left = upstream.left();
            return Err(format!("of {count} callers that left, {left} were seen to").into());
        }
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// How late the gateway's beats are, and what they cost.
async fn beats(table: &mut Table, upstream: &Upstream, scale: &Scale) -> Result<()> {
    let settings = format!(
        "bounds = \"off\"\n\n[beats]\nevery = \"{}ms\"",
        scale.beat.as_millis()
    );
    let proxy = Proxy::start(Kind::Lifesign, upstream.address, None, &settings)?;
    let Some(process) = &proxy.process else {
        return Err("the gateway does not run".into());
    };
    let streams = silent_streams(&proxy.way, scale.silent, scale.beat).await?;
    let mut listening = JoinSet::new();
    let (beat, beats) = (scale.beat, scale.beats);
    for mut caller in streams {
        listening.spawn(async move {
            // The first tells when the following ones are due.
            let mut last: Option<Instant> = None;
            let mut late = Vec::new();
            while late.len() < beats as usize {
                let Some(piece) = caller.piece().await? else {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                };
                if !piece.starts_with(b":") {
                    let piece = String::from_utf8_lossy(piece);
                    return Err(std::io::Error::other(format!("no beat: {piece}")));
                }
                let now = clock::now();
                if let Some(last) = last {
                    late.push((now - last).saturating_sub(beat));
                }
                last = Some(now);
            }
            Ok((caller, late))
        });
    }
    let (cpu, began) = (process.cpu()?, clock::now());
    let (mut kept, mut late) = (Vec::new(), Vec::new());
    while let Some(ended) = listening.join_next().await {
        let (caller, its) = ended??;
        kept.push(caller);
        late.extend(its);
    }
    let cpu = process.cpu()?.saturating_sub(cpu).as_secs_f64() / began.elapsed().as_secs_f64();
    late.sort_unstable();
    table.add(BEAT, Kind::Lifesign, millis(percentile(&late, 99)));
    table.add(BEAT_CPU, Kind::Lifesign, cpu * 100.0);
    drop(kept);
    wait_for_left(upstream, scale.silent).await?;
    upstream.take_left();
    Ok(())
}

/// How late the gateway cuts.
async fn cuts(table: &mut Table, upstream: &Upstream, scale: &Scale) -> Result<()> {
    let settings = format!("bounds.raw_silence = \"{}ms\"", SILENCE.as_millis());
    let proxy = Proxy::start(Kind::Lifesign, upstream.address, None, &settings)?;
    let mut streams = JoinSet::new();
    for number in 0..scale.cut {
        let way = proxy.way.clone();
        let start = SILENCE.mul_f64(as_f64(number as u64) / as_f64(scale.cut as u64));
        streams.spawn(async move {
            sleep(start).await;
            let mut caller = way.open().await?;
            caller.ask("silent").await?;
            caller.head().await?;
            caller.piece().await?;
            let last = clock::now();
            let piece = caller.piece().await?.unwrap_or_default();
            if memchr::memmem::find(piece, b"raw_silen").is_none() {
                let piece = String::from_utf8_lossy(piece);
                return Err(std::io::Error::other(format!("no cut: {piece}")));
            }
            Ok(last.elapsed().saturating_sub(SILENCE))
        });
    }
    let mut late = Vec::new();
    while let Some(ended) = streams.join_next().await {
        late.push(ended??);
    }
    late.sort_unstable();
    table.add(CUT, Kind::Lifesign, millis(percentile(&late, 99)));
    wait_for_left(upstream, scale.cut).await?;
    upstream.take_left();
    Ok(())
}

/// How long the first frame takes longer where the first upstream fails at once.
async fn failover(table: &mut Table, upstream: &Upstream, scale: &Scale) -> Result<()> {
    let settings = format!(
        "\n[[upstream]]\nname = \"broken\"\nwire = \"openai-chat\"\nbase_url = \"http://{}\"\n\
         rename = {{ \"paced-2-1\" = \"failing\" }}\n\n\
         [[route]]\nmodel = \"paced-2-1\"\nupstreams = [\"broken\", \"provider\"]\n\n\
         [breaker]\nfailures = 1000000",
        upstream.address
    );
    let proxy = Proxy::start(Kind::Lifesign, upstream.address, None, &settings)?;
    let plain = first_frames(&proxy.way, "paced-1-1", scale.failovers).await?;
    let over = first_frames(&proxy.way, "paced-2-1", scale.failovers).await?;
    let usual = percentile(&plain, 50);
    for (name, percent) in [(FAILOVER, 50), (FAILOVER_99, 99)] {
        let gap = percentile(&over, percent).saturating_sub(usual);
        table.add(name, Kind::Lifesign, millis(gap));
    }
    Ok(())
}

/// Returns the value of this rank of sorted values.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(rank).copied().unwrap_or_default()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^52")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

/// The time between two frames of a paced stream.
const PACE_MS: u64 = 20;
const AT_ONCE: usize = 32;
const OPENERS: usize = 64;
/// How many leave one after the other.
const ALONE: usize = 20;
const SILENCE: Duration = Duration::from_secs(2);

const FRAME: &str = "processor time per paced frame, us";
const FIRST: &str = "first frame on a kept connection, p50, us";
const FIRST_99: &str = "first frame on a kept connection, p99, us";
const SHORT: &str = "short streamed calls per second, 32 at once";
const SHORT_CPU: &str = "processor time per short call, us";
const IDLE: &str = "memory per open idle stream, KiB";
const REST: &str = "memory at rest, MiB";
const REST_AFTER: &str = "memory at rest after the load, MiB";
const LEFT_ONE: &str = "one caller leaves, seen upstream, p99, ms";
const LEFT_MANY: &str = "a thousand leave, last seen upstream, ms";
const BEAT: &str = "beats late at 9,000 silent streams, p99, ms";
const BEAT_CPU: &str = "share of a core for those beats, %";
const CUT: &str = "cuts late, p99, ms";
const FAILOVER: &str = "failover gap, p50, ms";
const FAILOVER_99: &str = "failover gap, p99, ms";
