//! A terminal that `script` makes, with the program on it.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// A terminal on which the program runs.
pub(crate) struct Screen {
    child: Child,
    keys: ChildStdin,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Screen {
    /// Starts the program on a terminal of so many columns; `None` where this machine makes none.
    pub(crate) fn start(columns: u16, words: &str, variables: &[(&str, &str)]) -> Option<Self> {
        let program = env!("CARGO_BIN_EXE_lifesign");
        // The shell around the program outlives the Ctrl-C that both of them get.
        let command = format!(
            "trap : INT; stty cols {columns} rows 24; sh -c 'echo pid=$$=; exec {program} {words}'; \
             echo over=$?=; stty -a"
        );
        let started = Command::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm-256color")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else {
            println!("skipped: there is no `script` that makes a terminal");
            return None;
        };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut shown = child.stdout.take().unwrap();
        thread::spawn({
            let seen = Arc::clone(&seen);
            move || {
                let mut room = [0; 8 * 1024];
                while let Ok(len @ 1..) = shown.read(&mut room) {
                    seen.lock().unwrap().extend_from_slice(&room[..len]);
                }
            }
        });
        let keys = child.stdin.take().unwrap();
        Some(Self { child, keys, seen })
    }

    /// Returns everything that the terminal got so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    pub(crate) fn press(&mut self, keys: impl AsRef<[u8]>) {
        self.keys.write_all(keys.as_ref()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Returns the number of the program's process.
    pub(crate) fn id(&self) -> u32 {
        self.between("pid=").parse().unwrap()
    }

    /// Returns whether the program has ended and everything that the terminal got is read.
    pub(crate) fn is_over(&mut self) -> bool {
        // `stty` is the last to be read.
        self.child.try_wait().unwrap().is_some() && self.text().contains("iexten")
    }

    /// Asserts that the program ended with this code, and left the terminal as it was.
    #[track_caller]
    pub(crate) fn assert_left(&self, code: u8) {
        let text = self.text();
        let (_, left) = text.split_once("over=").unwrap();
        assert_eq!(self.between("over="), code.to_string(), "{text:?}");
        let on: Vec<_> = left.split_whitespace().collect();
        for word in ["echo", "icanon", "isig"] {
            assert!(on.contains(&word), "no {word} in {left}");
        }
    }

    fn between(&self, start: &str) -> String {
        let text = self.text();
        let (_, rest) = text.split_once(start).unwrap();
        rest.split_once('=').unwrap().0.to_owned()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It is over where the test went well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
