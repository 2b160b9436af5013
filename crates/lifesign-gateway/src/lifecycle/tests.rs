//! Signals and a service manager, each in a process of its own.

use std::{
    net::Ipv4Addr,
    num::NonZeroUsize,
    os::unix::net::UnixDatagram,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use pretty_assertions::assert_eq;

use super::*;
use crate::{
    refusal::Refusal,
    server::{Inherited, ListenOn, Peer, Server, ServerLimits, Service},
};

/// Set, to the path of the configuration, for the process that lives.
const IS_CHILD: &str = "LIFESIGN_TEST_LIVES";

#[tokio::test]
async fn the_service_manager_follows_a_life_from_ready_to_stopping() {
    if let Some(config) = std::env::var_os(IS_CHILD) {
        return live(Path::new(&config)).await;
    }
    let mut life = Life::start("the_service_manager_follows_a_life_from_ready_to_stopping");

    assert_eq!(life.told(), ["READY=1"]);
    assert_eq!(life.told(), ["WATCHDOG=1"]);
    life.configure("changed");
    life.assert_reloads();
    life.signal("HUP");
    life.assert_reloads();
    life.configure("broken");
    life.assert_reloads();
    life.signal("TERM");
    assert_eq!(life.told_beside_watchdog(), ["STOPPING=1"]);

    let status = life.child.wait().unwrap();
    assert!(status.success());
}

/// A process that serves, and the service manager that it knows.
struct Life {
    child: Child,
    manager: UnixDatagram,
    config: PathBuf,
    _directory: tempfile::TempDir,
}

impl Life {
    fn start(test: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("config");
        std::fs::write(&config, "whole").unwrap();
        let socket = directory.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("lifecycle::tests::{test}")])
            .env(IS_CHILD, &config)
            .env("NOTIFY_SOCKET", &socket)
            .env("WATCHDOG_USEC", "400000")
            .env_remove("WATCHDOG_PID")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            child,
            manager,
            config,
            _directory: directory,
        }
    }

    /// Returns the lines of the next message.
    fn told(&self) -> Vec<String> {
        let mut buffer = [0; 1024];
        let len = self.manager.recv(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the next message that is not for the watchdog.
    fn told_beside_watchdog(&self) -> Vec<String> {
        loop {
            let told = self.told();
            if told != ["WATCHDOG=1"] {
                return told;
            }
        }
    }

    fn assert_reloads(&self) {
        let told = self.told_beside_watchdog();
        assert_eq!(told[0], "RELOADING=1");
        assert!(told[1].starts_with("MONOTONIC_USEC="), "{told:?}");
        assert_eq!(self.told_beside_watchdog(), ["READY=1"]);
    }

    /// Puts another file in the place at once: what is written bit by bit may be read bit by bit.
    fn configure(&self, text: &str) {
        let beside = self.config.with_extension("new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(&beside, &self.config).unwrap();
    }

    fn signal(&mut self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // It is over already where the test went well.
        let _over = self.child.kill();
    }
}

/// What the process does.
async fn live(config: &Path) {
    let lifecycle = Lifecycle::start(Some(config)).unwrap();
    let on = ListenOn::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    let limits = ServerLimits::default();
    let server = Server::bind(&[on], Inherited::default(), None, limits).unwrap();
    let (drain, pulse) = (server.drain(), server.pulse());
    let mut reload = ReadAgain {
        path: config.to_owned(),
        read: vec!["whole".to_owned()],
    };
    tokio::select! {
        served = server.run(Arc::new(Nobody), NonZeroUsize::MIN) => served.unwrap(),
        () = lifecycle.run(drain, Duration::from_secs(5), pulse, &mut reload) => {}
    }
    assert_eq!(reload.read, ["whole", "changed", "changed"]);
}

struct ReadAgain {
    path: PathBuf,
    read: Vec<String>,
}

impl Reload for ReadAgain {
    fn reload(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let text = std::fs::read_to_string(&self.path)?;
        if text == "broken" {
            return Err("it is broken".into());
        }
        self.read.push(text);
        Ok(())
    }
}

struct Nobody;

impl Service for Nobody {
    type Body = Empty<bytes::Bytes>;
    type Worker = ();

    fn worker(&self, _index: usize) {}

    async fn call(
        &self,
        _worker: &(),
        _peer: &Arc<Peer>,
        _request: Request<Incoming>,
    ) -> Response<Self::Body> {
        Response::default()
    }

    fn refuse(&self, _request: &Request<Incoming>, _refusal: Refusal) -> Response<Self::Body> {
        Response::default()
    }
}
