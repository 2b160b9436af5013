//! The process of a proxy: started on its core, and its use of processor and memory.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lifesign::clock;
use rustix::process::{Pid, Signal, kill_process};

use crate::{PROXY_CORE, Result};

/// A process that ends when this is dropped.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts a program on the core that is the proxies'; what it says goes to the file `said`.
    pub(crate) fn start(program: &Path, arguments: &[&str], said: &Path) -> Result<Self> {
        let mut command = Command::new("taskset");
        command
            .args(["-c", PROXY_CORE])
            .arg(program)
            .args(arguments)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(said)?);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        let child = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        Ok(Self { child })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the time that all its threads have had on a processor.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let mut nanos = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.id()))? {
            // A thread may end meanwhile.
            let counted = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            let first = counted.split_whitespace().next();
            nanos += first.and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// Starts to take samples of where its time goes, and prints them when what is returned ends.
    pub(crate) fn sample(&self, time: Duration, file: &Path) -> Result<Child> {
        let (id, time) = (self.id().to_string(), time.as_secs().to_string());
        let mut perf = Command::new("perf");
        perf.args(["record", "-e", "cpu-clock", "-F", "4999", "-p", &id, "-o"]);
        perf.arg(file).args(["--", "sleep", &time]);
        let perf = perf.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(perf
            .spawn()
            .map_err(|error| format!("cannot start perf: {error}"))?)
    }

    /// Returns how much of its memory is resident.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        let kib: u64 = kib.ok_or("there is no VmRSS")?.parse()?;
        Ok(kib * 1024)
    }

    /// Returns how many descriptors it has open.
    pub(crate) fn descriptors(&self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.id()))?.count())
    }

    /// Returns how many threads it has.
    pub(crate) fn threads(&self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/task", self.id()))?.count())
    }

    /// Asks it to end, and waits until it has: all that it had to say is said then.
    pub(crate) fn end(&mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let until = clock::now() + PATIENCE;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("asked to end, it ended with {status}").into()),
                None if clock::now() > until => {
                    return Err(format!("asked to end, it ran for {PATIENCE:?}").into());
                }
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// How long a process may take to end.
const PATIENCE: Duration = Duration::from_secs(20);
