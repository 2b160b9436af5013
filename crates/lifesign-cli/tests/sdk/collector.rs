//! Collectors that are other people's: a receiver of OpenTelemetry's messages for Python, and a whole
//! collector that hands on what it takes.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use lifesign::clock::now;
use serde_json::Value;

use crate::client::Client;
use crate::process::Process;

/// OTLP as Google's gRPC and protobuf and OpenTelemetry's messages read it.
pub(crate) struct Receiver {
    python: Client,
    /// Where it listens for each protocol.
    pub(crate) ports: Ports,
}

/// Where a collector listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) grpc: u16,
    pub(crate) http: u16,
}

/// Rotel, a collector that takes spans in and sends them on.
pub(crate) struct Rotel {
    _process: Process,
    pub(crate) ports: Ports,
}

impl Receiver {
    /// Starts a receiver; says why and returns `None` where there is no Python for it.
    pub(crate) fn start() -> Option<Self> {
        let python = Client::python("collector.py")?;
        let listens = python.came();
        let port = |name: &str| u16::try_from(listens[name].as_u64().unwrap()).unwrap();
        let ports = Ports {
            grpc: port("grpc"),
            http: port("http"),
        };
        Some(Self { python, ports })
    }

    /// Returns the next spans that come, the earliest first.
    #[track_caller]
    pub(crate) fn spans(&self, count: usize) -> Vec<Value> {
        let mut spans: Vec<_> = (0..count).map(|_| self.python.came()).collect();
        // A call begins before its attempts.
        spans.sort_by_key(|span| span["attributes"]["lifesign.attempt.number"].as_u64());
        spans
    }
}

impl Ports {
    /// Returns the URL for a protocol.
    pub(crate) fn url(self, protocol: &str) -> String {
        let port = if protocol == "grpc" {
            self.grpc
        } else {
            self.http
        };
        format!("http://127.0.0.1:{port}")
    }

    /// Returns two that were free a moment ago.
    fn free() -> Self {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [grpc, http] = listeners.map(|it| it.local_addr().unwrap().port());
        Self { grpc, http }
    }

    fn are_open(self) -> bool {
        let mut ports = [self.grpc, self.http].into_iter();
        ports.all(|port| TcpStream::connect(("127.0.0.1", port)).is_ok())
    }
}

impl Rotel {
    /// Starts one that sends on to `receiver`; says why and returns `None` on a machine that it is not
    /// made for.
    pub(crate) fn start(receiver: &Receiver) -> Option<Self> {
        let Some(program) = rotel() else {
            println!("skipped: there is no Rotel for this machine");
            return None;
        };
        // It can be given no port but a certain one, which somebody else may take meanwhile.
        for _ in 0..5 {
            let ports = Ports::free();
            let mut command = Command::new(&program);
            command
                .args(["start", "--disable-batching", "--exporter", "otlp"])
                .args(["--otlp-exporter-protocol", "grpc"])
                .args(["--otlp-exporter-endpoint", &receiver.ports.url("grpc")])
                .args(["--otlp-grpc-endpoint", &format!("127.0.0.1:{}", ports.grpc)])
                .args(["--otlp-http-endpoint", &format!("127.0.0.1:{}", ports.http)])
                .env_clear();
            let process = Process::reading_output(&mut command);
            let began = now();
            while began.elapsed() < STARTS {
                if ports.are_open() {
                    return Some(Self {
                        _process: process,
                        ports,
                    });
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("Rotel does not listen");
    }
}

/// Returns where the program is, which comes in a wheel.
fn rotel() -> Option<PathBuf> {
    let python = std::env::var_os("LIFESIGN_SDK_PYTHON")?;
    let script = "import rotel; print(rotel.__path__[0])";
    let told = Command::new(python).args(["-c", script]).output().unwrap();
    if !told.status.success() {
        let is_made_for_it = cfg!(all(target_os = "linux", target_arch = "x86_64"));
        let told = String::from_utf8_lossy(&told.stderr);
        assert!(!is_made_for_it, "{told}");
        return None;
    }
    let directory = String::from_utf8(told.stdout).unwrap();
    Some(PathBuf::from(directory.trim()).join("rotel-agent"))
}

/// How long a start takes at most.
const STARTS: Duration = Duration::from_secs(10);
