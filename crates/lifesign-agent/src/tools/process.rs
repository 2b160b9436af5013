//! A process that a tool started, and everything that it started in turn.

use std::io;
use std::process::{ExitStatus, Stdio};
#[cfg(unix)]
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "mcp")]
use tokio::process::ChildStdin;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::environment;

/// A process with a group of its own. Dropping it kills the whole group.
///
/// A process that leaves its group, as daemons do, is out of reach. So is all of it once this program is
/// killed without a word: nothing is dropped then, and the kernel would have to be asked beforehand by
/// code that runs between fork and exec.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    child: Child,
    killer: Killer,
}

/// Kills everybody in a group, from wherever it is held.
#[derive(Clone, Debug)]
pub(super) struct Killer {
    /// The group, while there may be somebody in it.
    #[cfg(unix)]
    group: Arc<Mutex<Option<rustix::process::Pid>>>,
}

impl Killer {
    /// Kills everybody in the group. Harmless when called again.
    #[cfg_attr(not(unix), expect(clippy::unused_self, reason = "there are no groups"))]
    pub(super) fn kill(&self) {
        #[cfg(unix)]
        if let Some(group) = self
            .group
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            // The one way to fail is that nobody is there any more.
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        }
    }
}

impl ProcessGroup {
    /// Starts `command` with pipes for what it writes, and with the environment that the command
    /// has set itself and no more than the harmless part of ours and the variables in `also`.
    pub(super) fn spawn(command: &mut Command, also: &[String]) -> io::Result<Self> {
        let own: Vec<_> = command
            .as_std()
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        command
            .env_clear()
            .envs(environment::scrubbed(also))
            .envs(own)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn()?;
        let killer = Killer {
            #[cfg(unix)]
            group: Arc::new(Mutex::new(
                child
                    .id()
                    .and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())),
            )),
        };
        Ok(Self { child, killer })
    }

    /// Returns what kills the group while somebody else waits for its end.
    #[cfg(feature = "mcp")]
    pub(super) fn killer(&self) -> Killer {
        self.killer.clone()
    }

    /// Returns the pipe to its standard input, once, if it has one.
    #[cfg(feature = "mcp")]
    pub(super) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Returns the id of the process while it runs.
    #[cfg(test)]
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Returns the pipe from its standard output, once.
    pub(super) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Returns the pipe from its standard error, once.
    pub(super) fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits until the process has ended, and ends whatever it left behind.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.kill();
        Ok(status)
    }

    /// Kills everybody in the group. Harmless when called again.
    pub(super) fn kill(&mut self) {
        self.killer.kill();
        #[cfg(not(unix))]
        self.child.start_kill().ok();
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Whether a process is there that is not just waiting for its parent to look.
    fn runs(id: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    async fn gone(id: &str) {
        for _ in 0..500 {
            if !runs(id) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{id} is still there");
    }

    async fn first_line(group: &mut ProcessGroup) -> String {
        let mut lines = BufReader::new(group.take_stdout().unwrap()).lines();
        lines.next_line().await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn dropping_it_kills_what_the_process_started() {
        let mut group = ProcessGroup::spawn(&mut shell("sleep 600 & echo $!; wait"), &[]).unwrap();
        let own = group.id().unwrap().to_string();
        let started = first_line(&mut group).await;
        assert!(runs(&started));

        drop(group);

        gone(&started).await;
        gone(&own).await;
    }

    #[tokio::test]
    async fn what_a_process_leaves_behind_ends_with_it() {
        let mut group = ProcessGroup::spawn(&mut shell("sleep 600 & echo $!"), &[]).unwrap();
        let started = first_line(&mut group).await;

        let status = group.wait().await.unwrap();

        assert!(status.success());
        gone(&started).await;
    }

    #[tokio::test]
    async fn the_environment_is_the_harmless_part_and_what_the_command_set() {
        let mut command = shell("echo ${CARGO_MANIFEST_DIR-none} $WORD ${PATH:+path}");
        let mut group = ProcessGroup::spawn(command.env("WORD", "set"), &[]).unwrap();

        assert_eq!(first_line(&mut group).await, "none set path");
    }
}
