//! What the clients talk to: scripted providers, a real llama.cpp server, and a gateway before them.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use lifesign::clock::now;
use lifesign_standin::{Request, Standin};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::process::Process;

/// Scripted providers on a thread of their own.
pub(crate) struct Providers {
    // Dropped in this order: the runtime waits for what runs on it.
    standins: Vec<Standin>,
    runtime: Runtime,
}

impl Providers {
    pub(crate) fn start(scripts: impl IntoIterator<Item = &'static str>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let start = |script| {
            let builder = Standin::script(script).unwrap();
            runtime.block_on(builder.start()).unwrap()
        };
        let standins = scripts.into_iter().map(start).collect();
        Self { standins, runtime }
    }

    pub(crate) fn url(&self, at: usize) -> String {
        self.standins[at].url()
    }

    pub(crate) fn requests(&self, at: usize) -> Vec<Request> {
        self.standins[at].requests()
    }

    /// Waits until provider `at` has `count` requests.
    #[track_caller]
    pub(crate) fn wait_for_requests(&self, at: usize, count: usize) {
        let came = self.standins[at].wait_for_requests(count, PATIENCE);
        assert!(self.runtime.block_on(came), "no request came");
    }

    /// Returns whether provider `at` sees the peer of request `index` leave.
    pub(crate) fn sees_peer_leave(&self, at: usize, index: usize) -> bool {
        let closed = self.standins[at].wait_for_peer_closed(index, MOMENT);
        self.runtime.block_on(closed).is_some()
    }
}

/// A llama.cpp server.
pub(crate) struct Llama {
    _process: Process,
    url: String,
}

impl Llama {
    /// Starts a server; says why and returns `None` where there is none to start.
    pub(crate) fn start() -> Option<Self> {
        let named = |name| std::env::var_os(name).map(PathBuf::from);
        let (Some(python), Some(model)) = (
            named("LIFESIGN_LLAMA_PYTHON"),
            named("LIFESIGN_LLAMA_MODEL"),
        ) else {
            assert!(
                std::env::var_os("LIFESIGN_REQUIRE_LLAMA").is_none(),
                "LIFESIGN_LLAMA_PYTHON and LIFESIGN_LLAMA_MODEL are not set"
            );
            println!("no llama.cpp server, so it is left out; see `cargo xtask llama`");
            return None;
        };
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/llama/serve.py");
        let mut command = Command::new(python);
        command.args([script, model]).stderr(Stdio::null());
        let process = Process::reading_output(&mut command);
        let url = process.line_after("listening ");
        Some(Self {
            _process: process,
            url,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns whether it works on no request any more, or not within a moment.
    pub(crate) fn becomes_idle(&self) -> bool {
        let began = now();
        while self.busy() > 0 {
            if began.elapsed() > MOMENT {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }

    fn busy(&self) -> usize {
        let slots = exchange(&self.url, "GET /slots", "");
        let (_, slots) = slots.split_once("\r\n\r\n").unwrap();
        let slots: Value = serde_json::from_str(slots).unwrap();
        let slots = slots.as_array().unwrap().iter();
        slots.filter(|slot| slot["is_processing"] == true).count()
    }
}

/// An upstream of the gateway's, for one model.
pub(crate) struct Lane {
    pub(crate) model: String,
    pub(crate) wire: &'static str,
    pub(crate) url: String,
    /// A line of its table, if it has settings of its own.
    pub(crate) beats: Option<&'static str>,
}

/// A gateway with these upstreams.
pub(crate) struct Gateway {
    process: Process,
    _directory: TempDir,
    url: String,
}

impl Gateway {
    pub(crate) fn start(lanes: &[Lane]) -> Self {
        Self::start_with("", lanes)
    }

    /// Starts a gateway with more settings.
    pub(crate) fn start_with(more: &str, lanes: &[Lane]) -> Self {
        let mut settings = format!("{SETTINGS}{more}");
        for lane in lanes {
            let Lane {
                model, wire, url, ..
            } = lane;
            write!(
                settings,
                "[[upstream]]\nname = \"{model}\"\nmodels = [\"{model}\"]\nwire = \"{wire}\"\n\
                 base_url = \"{url}/v1\"\n"
            )
            .unwrap();
            if let Some(beats) = lane.beats {
                writeln!(settings, "beats = {{ {beats} }}").unwrap();
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gateway.toml");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifesign"));
        command.arg("serve").arg("--config").arg(&file).env_clear();
        if let Some(profile) = std::env::var_os("LLVM_PROFILE_FILE") {
            command.env("LLVM_PROFILE_FILE", profile);
        }
        let process = Process::reading_errors(&mut command);
        let url = process.line_after("listening on ");
        let url = format!("http://{}", url.trim_start_matches("http://"));
        Self {
            process,
            _directory: directory,
            url,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Stops it as a service manager does, and waits for the end.
    pub(crate) fn stop(mut self) {
        self.process.stop();
    }
}

/// Sends a request without any client's help and returns the response, head and all.
pub(crate) fn exchange(url: &str, what: &str, body: &str) -> String {
    let address = url.trim_start_matches("http://");
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        socket,
        "{what} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = Vec::new();
    socket.read_to_end(&mut response).unwrap();
    String::from_utf8(response).unwrap()
}

/// Retries without long waits; everything else as it ships.
const SETTINGS: &str = "\
[serve]
listen = \"127.0.0.1:0\"
[retry.transport]
first_delay = \"20ms\"
[retry.overload]
first_delay = \"20ms\"
[retry.rate]
first_delay = \"20ms\"
";

/// The longest that anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How soon an upstream sees that a caller has left; the case here is that it does at all.
const MOMENT: Duration = Duration::from_secs(2);
