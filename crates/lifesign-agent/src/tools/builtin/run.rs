//! A program that is run to its end, or to its limit.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use lifesign_core::duration::human_limit;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use super::RunRules;
use crate::tools::ToolResult;
use crate::tools::process::ProcessGroup;

/// Returns the command that the arguments of a call ask for.
pub(super) fn command(arguments: &Value, shell: bool) -> Option<Command> {
    let asked = arguments.get("command")?;
    if shell {
        let line = asked.as_str()?;
        let mut command = Command::new(if cfg!(windows) { "cmd" } else { "sh" });
        command.args([if cfg!(windows) { "/C" } else { "-c" }, line]);
        return Some(command);
    }
    let words: Option<Vec<_>> = asked.as_array()?.iter().map(Value::as_str).collect();
    let words = words?;
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

/// Runs `command` in `directory`.
///
/// # Cancel safety
///
/// Dropping the future kills the program and whatever it has started.
pub(super) async fn run(mut command: Command, directory: &Path, rules: &RunRules) -> ToolResult {
    command.current_dir(directory).stdin(Stdio::null());
    let mut group = match ProcessGroup::spawn(&mut command, &rules.environment) {
        Ok(group) => group,
        Err(error) => {
            let program = command
                .as_std()
                .get_program()
                .to_string_lossy()
                .into_owned();
            return ToolResult::error(format!("cannot run {program}: {error}"));
        }
    };
    let (stdout, stderr) = (group.take_stdout(), group.take_stderr());
    let mut out = Kept::new(rules.max_output);
    let mut err = Kept::new(rules.max_output);
    let ended = {
        let reading = async { tokio::join!(out.fill(stdout), err.fill(stderr)) };
        tokio::pin!(reading);
        let mut has_read = false;
        let ended = {
            let deadline = tokio::time::sleep(rules.timeout);
            tokio::pin!(deadline);
            loop {
                tokio::select! {
                    biased;
                    status = group.wait() => break Some(status),
                    _ = &mut reading, if !has_read => has_read = true,
                    () = &mut deadline => break None,
                }
            }
        };
        group.kill();
        if !has_read {
            // The pipes end with the group, unless somebody has left it and took them along.
            tokio::select! {
                biased;
                _ = &mut reading => {}
                () = tokio::time::sleep(GRACE) => {}
            }
        }
        ended
    };
    report(ended, rules.timeout, out, err)
}

fn report(
    ended: Option<io::Result<ExitStatus>>,
    limit: Duration,
    out: Kept,
    err: Kept,
) -> ToolResult {
    let (mut text, is_error) = match ended {
        None => (
            format!(
                "stopped after {} ({TIMEOUT}), with all it started",
                human_limit(limit)
            ),
            true,
        ),
        Some(Err(error)) => (format!("it is not known how it ended: {error}"), true),
        Some(Ok(status)) => match status.code() {
            Some(code) => (format!("exit code {code}"), code != 0),
            // Such as "signal: 9 (SIGKILL)".
            None => (format!("ended by {status}"), true),
        },
    };
    for (name, kept) in [("stdout", out), ("stderr", err)] {
        let kept = kept.into_text();
        if !kept.is_empty() {
            write!(text, "\n[{name}]\n{kept}").ok();
        }
    }
    ToolResult { text, is_error }
}

/// The head and the tail of what a program writes, however much that is.
#[derive(Debug)]
struct Kept {
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    all: u64,
}

impl Kept {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            head: Vec::new(),
            tail: VecDeque::new(),
            all: 0,
        }
    }

    /// Reads to the end. A pipe that breaks has ended.
    async fn fill(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else {
            return;
        };
        let mut chunk = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
            self.push(chunk.get(..count).unwrap_or_default());
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.all += bytes.len() as u64;
        let room = self.limit - self.limit / 2 - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(self.limit / 2);
        self.tail.drain(..excess);
    }

    fn into_text(self) -> String {
        let missing = self.all - (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head;
        if missing > 0 {
            let note = format!("\n[{missing} of {} bytes left out here]\n", self.all);
            bytes.extend(note.into_bytes());
        }
        bytes.extend(self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The setting of [`RunRules::timeout`].
pub(super) const TIMEOUT: &str = "tools.run_timeout";

/// How long the pipes of a program that has ended may stay open.
pub(super) const GRACE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn of_much_output_the_head_and_the_tail_are_kept(
            chunks in proptest::collection::vec("[a-z]{0,30}", 0..12),
            limit in 0_usize..60,
        ) {
            let whole = chunks.concat();
            let mut kept = Kept::new(limit);

            for chunk in &chunks {
                kept.push(chunk.as_bytes());
            }

            let text = kept.into_text();
            if whole.len() <= limit {
                prop_assert_eq!(text, whole);
            } else {
                let head = whole.get(..limit - limit / 2).unwrap();
                let tail = whole.get(whole.len() - limit / 2..).unwrap();
                let missing = whole.len() - limit;
                let note = format!("\n[{missing} of {} bytes left out here]\n", whole.len());
                prop_assert_eq!(text, format!("{head}{note}{tail}"));
            }
        }
    }

    #[test]
    fn a_command_is_a_program_and_its_arguments_or_a_line_for_the_shell() {
        let words = serde_json::json!({"command": ["echo", "a b"]});
        let line = serde_json::json!({"command": "echo a b"});
        let program = |command: Option<Command>| {
            command.map(|command| command.as_std().get_program().to_owned())
        };

        assert_eq!(program(command(&words, false)), Some("echo".into()));
        assert_eq!(program(command(&line, false)), None);
        assert_eq!(program(command(&line, true)), Some("sh".into()));
        assert_eq!(program(command(&words, true)), None);
    }
}
