//! The gateway as a process, an upstream that does as it is told, and callers with raw sockets.

use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use lifesign::clock::now;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{sleep, sleep_until};

pub(crate) use self::caller::{Caller, Response, chat, chat_of, request};
pub(crate) use self::upstream::{
    CONTENT, FINISH, Link, ROLE, STREAM, Upstream, WHOLE, failing, with_length,
};
use crate::harness::{Program, Ran, Running};

mod caller;
mod upstream;

/// `lifesign serve` on a free port of loopback, with a file of its own.
pub(crate) struct Gateway {
    running: Running,
    pub(crate) address: SocketAddr,
    /// Where the file is, and whatever else a test puts there.
    pub(crate) directory: TempDir,
}

impl Gateway {
    /// Starts a gateway with these settings; where it listens is added to them.
    pub(crate) async fn start(settings: &str) -> Self {
        Self::start_as(settings, |program| program).await
    }

    /// Starts a gateway whose program is prepared by `with`.
    pub(crate) async fn start_as(settings: &str, with: impl FnOnce(Program) -> Program) -> Self {
        let directory = TempDir::new().unwrap();
        write_settings(directory.path(), settings);
        let path = directory.path().join("gateway.toml");
        let program = Program::new(&["serve", "--listen", "127.0.0.1:0", "--config"])
            .args(&[path.as_os_str()])
            .set("telemetry.log=json");
        let running = with(program).start();
        let address = note(&running, "listening on ").await.parse().unwrap();
        Self {
            running,
            address,
            directory,
        }
    }

    /// Replaces the file as an editor does, in one step.
    pub(crate) fn rewrite(&self, settings: &str) {
        write_settings(self.directory.path(), settings);
    }

    pub(crate) fn signal(&self, name: &str) {
        self.running.signal(name);
    }

    /// Asks for a reload, and waits until the log says what came of it.
    pub(crate) async fn reload(&self) -> String {
        let done = ["configuration reloaded", "configuration stays as it was"];
        let count = |log: &str| {
            done.iter()
                .map(|word| log.matches(word).count())
                .sum::<usize>()
        };
        let before = count(&self.log());
        self.signal("HUP");
        eventually("the reload is told", || count(&self.log()) > before).await;
        let log = self.log();
        let mut lines = log.lines().rev();
        let line = lines.find(|line| count(line) > 0).unwrap();
        line.to_owned()
    }

    /// Returns the number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }

    pub(crate) fn log(&self) -> String {
        self.running.stderr()
    }

    /// Returns every line of the log that says how a call ended.
    pub(crate) fn ends(&self) -> Vec<Value> {
        let log = self.log();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines
            .filter(|line: &Value| line.get("elapsed_ms").is_some())
            .collect()
    }

    /// Waits until so many calls have ended, each once; returns in which words, sorted.
    pub(crate) async fn ended(&self, count: usize) -> Vec<String> {
        eventually("the calls end", || self.ends().len() >= count).await;
        let ends = self.ends();
        let mut ids: Vec<_> = ends.iter().map(|end| end["call"].to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!((ids.len(), ends.len()), (count, count), "{ends:#?}");
        let word = |end: &Value| match end["code"].as_str() {
            Some(code) => code.to_owned(),
            None => end["message"].as_str().unwrap().to_owned(),
        };
        let mut words: Vec<_> = ends.iter().map(word).collect();
        words.sort();
        words
    }

    /// Waits until every worker is there, and counts what the process holds.
    pub(crate) async fn at_rest(&self) -> Holdings {
        let workers = std::thread::available_parallelism().unwrap().get();
        let began = now();
        let mut seen = self.holdings();
        let mut since = now();
        // Besides them there are the first thread and that of the log.
        while seen.threads < workers + 2 || since.elapsed() < REST {
            assert!(began.elapsed() < PATIENCE, "no rest: {seen:?}");
            sleep(LOOK).await;
            let holds = self.holdings();
            if holds != seen {
                (seen, since) = (holds, now());
            }
        }
        seen
    }

    fn holdings(&self) -> Holdings {
        let count = |what: &str| {
            let path = format!("/proc/{}/{what}", self.running.id());
            fs::read_dir(path).unwrap().count()
        };
        Holdings {
            descriptors: count("fd"),
            threads: count("task"),
        }
    }

    /// Returns the resident memory of the process in bytes.
    pub(crate) fn memory(&self) -> usize {
        let path = format!("/proc/{}/statm", self.running.id());
        let pages = fs::read_to_string(path).unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    /// Waits until the process holds what it held before, and no call is under way.
    pub(crate) async fn settles(&self, before: &Holdings) {
        let began = now();
        loop {
            let calls = self.admin("GET", "/lifesign/calls").await.json();
            let upstreams = self.admin("GET", "/lifesign/upstreams").await.json();
            let lanes = upstreams["upstreams"].as_array().unwrap();
            let busy = lanes
                .iter()
                .filter(|lane| lane["in_flight"] != 0 || lane["waiting"] != 0)
                .count();
            let after = self.holdings();
            if calls["calls"] == Value::Array(Vec::new()) && busy == 0 && after == *before {
                return;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "left over: {calls} {upstreams} {after:?}, before {before:?}"
            );
            sleep(LOOK).await;
        }
    }

    pub(crate) async fn admin(&self, method: &str, path: &str) -> Response {
        let mut caller = self.connect().await;
        let json = "content-type: application/json\r\nconnection: close\r\n";
        caller.send(&request(method, path, json, "")).await;
        caller.response().await
    }

    pub(crate) async fn connect(&self) -> Caller {
        Caller::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Connects and asks for a chat that streams.
    pub(crate) async fn ask(&self) -> Caller {
        let mut caller = self.connect().await;
        caller.send(&chat("", true)).await;
        caller
    }

    /// Makes one request on a connection of its own.
    pub(crate) async fn response(&self, request: &str) -> Response {
        let mut caller = self.connect().await;
        caller.send(request).await;
        caller.response().await
    }

    /// Ends the process as nobody can object to.
    pub(crate) async fn kill(self) -> TempDir {
        self.running.signal("KILL");
        eventually("the process is gone", || self.running.is_over()).await;
        self.directory
    }

    /// Waits for the end, which a signal was sent for.
    pub(crate) async fn wait(self) -> Ran {
        eventually("the process ends", || self.running.is_over()).await;
        self.running.wait()
    }
}

/// What a process holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Holdings {
    descriptors: usize,
    threads: usize,
}

/// Writes the file of a gateway.
fn write_settings(directory: &Path, settings: &str) {
    let aside = directory.join("aside");
    fs::write(&aside, settings).unwrap();
    fs::rename(aside, directory.join("gateway.toml")).unwrap();
}

/// Returns the settings of one upstream of chats, with `more` in its table.
pub(crate) fn upstream(name: &str, address: SocketAddr, more: &str) -> String {
    format!(
        "[[upstream]]\nname = \"{name}\"\nwire = \"openai-chat\"\nbase_url = \"http://{address}\"\n\
         pool_idle = 0\n{more}\n"
    )
}

/// Waits for a line of standard error.
pub(crate) async fn note(running: &Running, start: &str) -> String {
    let find = || {
        let text = running.stderr();
        let found = text.lines().find_map(|line| line.strip_prefix(start));
        found.map(str::to_owned)
    };
    eventually("standard error", || {
        assert!(
            !running.is_over() || find().is_some(),
            "ended: {}",
            running.stderr()
        );
        find().is_some()
    })
    .await;
    find().unwrap()
}

/// Looks again and again; panics where it takes too long.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited too long: {what}");
        sleep(LOOK).await;
    }
}

/// Waits for something that must not take long.
pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    let late = pin!(sleep_until(now() + PATIENCE));
    match select(pin!(future), late).await {
        Either::Left((output, _)) => output,
        Either::Right(_) => panic!("waited too long: {what}"),
    }
}

/// The longest that anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
/// How long nothing changes in a process that has started.
const REST: Duration = Duration::from_millis(100);
