//! A provider in this process, and the program in one of its own.

use std::any::Any;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lifesign::clock::now;
use lifesign_standin::{Builder, Request, Standin};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::schema::Schema;

/// A scripted provider on a thread of its own.
pub(crate) struct Provider {
    // Dropped in this order: the runtime waits for what runs on it.
    standin: Standin,
    runtime: Runtime,
}

impl Provider {
    pub(crate) fn script(text: &str) -> Self {
        Self::start(Standin::script(text).unwrap())
    }

    pub(crate) fn scenario(name: &str) -> Self {
        Self::start(Standin::scenario(name).unwrap().speed(10.0))
    }

    pub(crate) fn start(builder: Builder) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let standin = runtime.block_on(builder.start()).unwrap();
        Self { standin, runtime }
    }

    pub(crate) fn url(&self) -> String {
        self.standin.url()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.standin.requests()
    }

    /// Returns the only request that came.
    #[track_caller]
    pub(crate) fn request(&self) -> Request {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "requests: {requests:?}");
        requests.remove(0)
    }

    /// Waits for the first request.
    #[track_caller]
    pub(crate) fn wait_for_request(&self) {
        wait_until("a request", || !self.requests().is_empty());
    }

    /// Waits until `count` pieces of the body of the first request have been written.
    #[track_caller]
    pub(crate) fn wait_for_writes(&self, count: usize) {
        wait_until("the provider writes", || {
            let requests = self.requests();
            let written = requests.first().map_or(0, |request| request.writes.len());
            written >= count
        });
    }

    /// Asserts that the provider sees the connection of its first request closed.
    #[track_caller]
    pub(crate) fn assert_left(&self) {
        let closed = self
            .runtime
            .block_on(self.standin.wait_for_peer_closed(0, MOMENT));
        assert!(closed.is_some(), "the connection is still open");
    }
}

/// The program and its arguments, in an environment without keys, proxies and settings.
pub(crate) struct Program {
    command: Command,
    input: Vec<u8>,
}

impl Program {
    pub(crate) fn new(words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifesign"));
        command.args(words).env_clear();
        for kept in ["PATH", "HOME", "TMPDIR", "SYSTEMROOT", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        Self {
            command,
            input: Vec::new(),
        }
    }

    /// A call to the model `m` with the prompt `hello`, which makes one attempt.
    pub(crate) fn call(url: &str, wire: &str) -> Self {
        Self::call_without_prompt(url, wire).args(&["--model", "m", "--prompt", "hello"])
    }

    pub(crate) fn call_without_prompt(url: &str, wire: &str) -> Self {
        Self::new(&["call", "--base-url", url, "--wire", wire]).set("retry.attempts=1")
    }

    /// A turn with the model `m` at an upstream of the chat wire, whose retries do not take long.
    pub(crate) fn turn(url: &str) -> Self {
        Self::turn_over(url, "openai-chat")
    }

    pub(crate) fn turn_over(url: &str, wire: &str) -> Self {
        let tiers = ["transport", "cut", "rate", "overload"];
        let turn = Self::new(&["run", "--base-url", url, "--wire", wire, "--model", "m"]);
        tiers.iter().fold(turn, |turn, tier| {
            turn.set(&format!("retry.{tier}.first_delay=5ms"))
        })
    }

    pub(crate) fn args(mut self, words: &[impl AsRef<OsStr>]) -> Self {
        self.command.args(words);
        self
    }

    /// Sets one setting as on the command line; what is set later wins.
    pub(crate) fn set(self, setting: &str) -> Self {
        self.args(&["--set", setting])
    }

    pub(crate) fn json(self) -> Self {
        self.args(&["--json"])
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn input(mut self, bytes: &[u8]) -> Self {
        self.input = bytes.to_vec();
        self
    }

    /// Runs the program through another, which gets it and its arguments as the last of its own.
    pub(crate) fn through(mut self, wrapper: &[&str]) -> Self {
        let mut command = Command::new(wrapper[0]);
        command
            .args(&wrapper[1..])
            .arg(self.command.get_program())
            .args(self.command.get_args())
            .env_clear();
        for (name, value) in self.command.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        self.command = command;
        self
    }

    /// Runs the program to its end.
    #[track_caller]
    pub(crate) fn run(self) -> Ran {
        self.start().wait()
    }

    /// Starts the program.
    pub(crate) fn start(mut self) -> Running {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that needs no input may be gone already.
        drop(stdin.write_all(&self.input));
        drop(stdin);
        let stdout = Pipe::of(child.stdout.take().unwrap());
        let stderr = Pipe::of(child.stderr.take().unwrap());
        Running {
            child,
            stdout,
            stderr,
            held: Vec::new(),
        }
    }

    /// Starts the program with a standard output that nobody reads.
    pub(crate) fn start_without_reader(mut self) -> Running {
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let stderr = Pipe::of(child.stderr.take().unwrap());
        Running {
            child,
            stdout: Pipe::of(std::io::empty()),
            stderr,
            held: Vec::new(),
        }
    }

    /// Runs the program with a standard output that takes nothing, as a full disk does; `None` where
    /// this machine has none to offer.
    #[cfg(unix)]
    pub(crate) fn run_on_a_full_disk(mut self) -> Option<Ran> {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .ok()?;
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = Pipe::of(child.stderr.take().unwrap());
        let running = Running {
            child,
            stdout: Pipe::of(std::io::empty()),
            stderr,
            held: Vec::new(),
        };
        Some(running.wait())
    }

    /// Starts the program with a standard input that stays open and a standard output that nobody
    /// reads from, though somebody holds it.
    pub(crate) fn start_between_idlers(mut self) -> Running {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let held: Vec<Box<dyn Any>> =
            vec![Box::new(child.stdin.take()), Box::new(child.stdout.take())];
        let stderr = Pipe::of(child.stderr.take().unwrap());
        Running {
            child,
            stdout: Pipe::of(std::io::empty()),
            stderr,
            held,
        }
    }
}

/// The program while it runs. Dropped, it is killed.
pub(crate) struct Running {
    child: Child,
    stdout: Pipe,
    stderr: Pipe,
    /// Ends of pipes that are kept open and left alone.
    #[expect(dead_code, reason = "it is there to be dropped with the rest")]
    held: Vec<Box<dyn Any>>,
}

impl Running {
    /// Waits until `text` is on standard output.
    #[track_caller]
    pub(crate) fn wait_for_output(&self, text: &str) {
        wait_until("standard output", || self.stdout.text().contains(text));
    }

    /// Waits for a line on standard error that begins with `start`; returns the rest of it.
    #[track_caller]
    pub(crate) fn wait_for_note(&self, start: &str) -> String {
        wait_until("standard error", || {
            self.stderr
                .text()
                .lines()
                .any(|line| line.starts_with(start))
        });
        let text = self.stderr.text();
        let rest = text.lines().find_map(|line| line.strip_prefix(start));
        rest.unwrap().to_owned()
    }

    /// Returns the number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the program hears of Ctrl-C instead of dying of it.
    pub(crate) fn hears_interrupts(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
        let interrupt = 1 << (2 - 1);
        caught & interrupt != 0
    }

    /// Returns what was said on standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Returns whether the program has ended; until somebody waits for it, its process is kept.
    pub(crate) fn is_over(&self) -> bool {
        let process = format!("/proc/{}", self.child.id());
        let stat = std::fs::read_to_string(format!("{process}/stat"));
        // Its first thread may be gone while others still hold its files and locks.
        let threads = std::fs::read_dir(format!("{process}/task"));
        stat.is_ok_and(|stat| stat.contains(") Z "))
            && threads.is_ok_and(|threads| threads.count() == 1)
    }

    /// Sends the program a signal, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Ran {
        let began = now();
        let mut ended = None;
        wait_until("the program ends", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        let took = began.elapsed();
        let ran = Ran {
            code: code(ended.unwrap()),
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            took,
        };
        for word in ["panicked", "stack backtrace", "RUST_BACKTRACE"] {
            assert!(!ran.stderr.contains(word), "{ran:?}");
        }
        ran
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is over where `wait` returned.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What came of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// From the wait for its end to the end.
    pub(crate) took: Duration,
}

impl Ran {
    #[track_caller]
    pub(crate) fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Asserts that the program said `text` on standard error.
    #[track_caller]
    pub(crate) fn assert_said(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "no `{text}` in {self:?}");
        self
    }

    /// Asserts that the program printed this text and nothing else.
    #[track_caller]
    pub(crate) fn assert_told(&self, text: &str) {
        assert_eq!((self.stdout.as_str(), self.stderr.as_str()), (text, ""));
    }

    /// Asserts that the program refused its input with exactly this sentence, and did nothing.
    #[track_caller]
    pub(crate) fn assert_refused(&self, sentence: &str) {
        assert_eq!(self.stderr, format!("error: {sentence}\n"));
        assert_eq!((self.code, self.stdout.as_str()), (2, ""));
    }

    /// Returns the one JSON object of a call, which must fit the schema and the exit code.
    #[track_caller]
    pub(crate) fn report(&self) -> Value {
        let report = self.object("call");
        assert_eq!(report["failure"].is_null(), self.code == 0, "{self:?}");
        assert_eq!(report["outcome"] == "completed", self.code == 0, "{self:?}");
        report
    }

    /// Returns the one JSON object of a turn, which must fit the schema and the exit code.
    #[track_caller]
    pub(crate) fn turn_report(&self) -> Value {
        let report = self.object("run");
        let is_completed = report["outcome"] == "completed";
        assert_eq!(is_completed, self.code == 0, "{self:?}");
        assert!(!is_completed || report["failure"].is_null(), "{self:?}");
        assert_eq!(report["sentence"].is_null(), is_completed, "{self:?}");
        let times = &report["times_ms"];
        let ms = |name: &str| times[name].as_u64().unwrap();
        let parts = ["working", "provider", "waiting", "tools"].map(ms);
        assert_eq!(parts.iter().sum::<u64>(), ms("elapsed"), "{times}");
        report
    }

    #[track_caller]
    fn object(&self, command: &str) -> Value {
        let text = self.stdout.strip_suffix('\n').expect("a line");
        assert!(!text.contains('\n'), "more than a line: {text}");
        let object = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        Schema::of(command).check(&object);
        object
    }
}

/// A stream of the program that is read as it comes.
struct Pipe {
    seen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Pipe {
    fn of(mut from: impl Read + Send + 'static) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let reader = thread::spawn({
            let seen = Arc::clone(&seen);
            move || {
                let mut room = [0; 8 * 1024];
                while let Ok(len @ 1..) = from.read(&mut room) {
                    seen.lock().unwrap().extend_from_slice(&room[..len]);
                }
            }
        });
        Self { seen, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    fn finish(&mut self) -> String {
        wait_until("the streams close", || self.reader.is_finished());
        String::from_utf8(std::mem::take(&mut self.seen.lock().unwrap())).unwrap()
    }
}

/// Sends a process a signal, such as `KILL`.
pub(crate) fn signal(process: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status();
    assert!(sent.unwrap().success(), "no {name} to {process}");
}

/// Looks again and again; panics where it takes too long.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited too long: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| panic!("ended by a signal: {status}"))
}

/// The longest that anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How soon a closed connection is seen at the other end.
const MOMENT: Duration = Duration::from_secs(2);
