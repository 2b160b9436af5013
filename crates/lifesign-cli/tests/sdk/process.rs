//! A program that runs beside the test and talks in lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// A program that runs beside the test. Dropped, it is killed.
pub(crate) struct Process {
    child: Child,
    /// What it says where a test reads it, line by line.
    lines: Receiver<String>,
    input: ChildStdin,
}

impl Process {
    /// Starts a program and reads its standard output.
    pub(crate) fn reading_output(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        Self::of(child, output)
    }

    /// Starts a program and reads its standard error.
    pub(crate) fn reading_errors(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = child.stderr.take().unwrap();
        Self::of(child, errors)
    }

    fn of(mut child: Child, from: impl Read + Send + 'static) -> Self {
        let input = child.stdin.take().unwrap();
        let (sender, lines) = channel();
        // It reads to the end even where nobody listens, so that the program never waits for room.
        thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                drop(sender.send(line));
            }
        });
        Self {
            child,
            lines,
            input,
        }
    }

    /// Writes a line to its standard input.
    pub(crate) fn write(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.input.flush().unwrap();
    }

    /// Returns the next line it says.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        line.unwrap_or_else(|error| panic!("the program says nothing: {error}"))
    }

    /// Returns the rest of the next line that begins with `start`.
    #[track_caller]
    pub(crate) fn line_after(&self, start: &str) -> String {
        loop {
            if let Some(rest) = self.line().strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }
}

impl Process {
    /// Asks the program to end, and waits until it has.
    pub(crate) fn stop(&mut self) {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status();
        assert!(asked.unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be over already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The longest that anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(45);
