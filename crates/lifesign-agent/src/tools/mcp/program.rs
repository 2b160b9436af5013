//! A server that is a program of ours, spoken with over its standard input and output.

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::last_words::LastWords;
use crate::tools::process::{Killer, ProcessGroup};

/// A program that runs, or has ended.
#[derive(Clone, Debug)]
pub(super) struct Program {
    killer: Killer,
    how: Arc<OnceLock<String>>,
    ended: CancellationToken,
}

/// The way to a program and back. Dropping it kills the program and whatever that has started.
pub(super) struct Pipes {
    lines: AsyncRwTransport<RoleClient, ChildStdout, ChildStdin>,
    program: Program,
}

impl Program {
    /// Starts `command` as the server `name`. What it writes to its standard error is for the log, and
    /// the end of it in `words`.
    pub(super) fn start(
        name: &str,
        command: &mut Command,
        words: &LastWords,
    ) -> Result<(Self, Pipes), String> {
        let spawned = ProcessGroup::spawn(command.stdin(Stdio::piped()), &[]);
        let mut group = spawned.map_err(|error| {
            let command = command.as_std();
            // The system says the same of a program and of a directory that are not there.
            let program = match command.get_current_dir().filter(|dir| !dir.is_dir()) {
                Some(dir) => format!("cwd {}", dir.display()),
                None => command.get_program().display().to_string(),
            };
            format!("cannot be started: {program}: {error}")
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (group.take_stdin(), group.take_stdout(), group.take_stderr())
        else {
            return Err("has no pipes".to_owned());
        };
        let program = Self {
            killer: group.killer(),
            how: Arc::default(),
            ended: CancellationToken::new(),
        };
        tokio::spawn(program.clone().wait(group));
        words.begin();
        tokio::spawn(log(name.to_owned(), stderr, words.clone()));
        let pipes = Pipes {
            lines: AsyncRwTransport::new(stdout, stdin),
            program: program.clone(),
        };
        Ok((program, pipes))
    }

    /// Kills it and whatever it has started.
    pub(super) fn kill(&self) {
        self.killer.kill();
    }

    /// Returns how it ended, if it has ended or does so at once.
    pub(super) async fn how_it_ended(&self) -> Option<&str> {
        tokio::select! {
            biased;
            () = self.ended.cancelled() => {}
            () = tokio::time::sleep(MOMENT) => {}
        }
        self.how.get().map(String::as_str)
    }

    /// Waits for its end, and ends with it whatever it has left behind: what holds its pipes open
    /// would pass for the server.
    async fn wait(self, mut group: ProcessGroup) {
        let how = match group.wait().await {
            Ok(status) => describe(status),
            Err(error) => format!("it is not known how: {error}"),
        };
        self.how.get_or_init(|| how);
        self.ended.cancel();
    }
}

impl Transport<RoleClient> for Pipes {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.lines.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.lines.receive()
    }

    /// Closes its standard input, which asks it to end, and gives it a moment for that.
    async fn close(&mut self) -> Result<(), Self::Error> {
        let closed = self.lines.close().await;
        tokio::select! {
            biased;
            () = self.program.ended.cancelled() => {}
            () = tokio::time::sleep(FAREWELL) => self.program.kill(),
        }
        closed
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        self.program.kill();
    }
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        // Such as "signal: 9 (SIGKILL)".
        None => status.to_string(),
    }
}

/// Writes what a server says beside the protocol to the log, line by line.
async fn log(server: String, pipe: ChildStderr, words: LastWords) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A pipe that breaks has ended.
        match (&mut pipe)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
            .await
        {
            Ok(1..) => {}
            Ok(0) | Err(_) => return words.end(),
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if !text.is_empty() {
            words.hear(text);
            tracing::info!(server, text, "tool server says");
        }
    }
}

/// How long after its pipes have closed a program's end is waited for.
const MOMENT: Duration = Duration::from_millis(250);

/// How long a server that is asked to end may take for it.
const FAREWELL: Duration = Duration::from_secs(2);

/// A longer line is written in pieces.
const LONGEST_LINE: u64 = 2_000;
