//! The prompt: a line, or several, edited by a person.
//!
//! The editor blocks, so it is handed to a thread for each message and comes back with it. Between
//! two messages the terminal is as it was.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, anyhow};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Editor, ExternalPrinter, Helper};

use super::history;
use super::terminal::{self, MARK_PASTES, Terminal};
use crate::interrupts::{Interrupts, Returns, Wish};
use crate::output::note;

/// What a person did at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Said something.
    Text(String),
    /// Gave up the line.
    Interrupted,
    /// Typed or pasted what is no text.
    Unreadable,
    /// Left, or was made to.
    Left,
}

/// Reads what a person says.
pub(super) struct Prompt {
    /// The editor, unless it is with its thread.
    editor: Option<Box<Editing>>,
    terminal: Terminal,
    /// Has the editor draw its line anew, where there is an editor.
    redraw: Option<Redraw>,
}

type Redraw = Arc<Mutex<dyn ExternalPrinter + Send>>;

impl Prompt {
    /// Takes the terminal, and what was said before from the file where that is kept.
    pub(super) fn open(history: Option<PathBuf>) -> anyhow::Result<Self> {
        let mut editor = Editing::new(history)?;
        Ok(Self {
            redraw: editor.redraw(),
            editor: Some(Box::new(editor)),
            terminal: Terminal::look(),
        })
    }

    /// Waits for what the person does next.
    pub(super) async fn read(&mut self, interrupts: &mut Interrupts) -> anyhow::Result<Read> {
        let mut editor = self.editor.take().context("the prompt is given up")?;
        let mut returns = Returns::listen().context("signals cannot be received")?;
        let mut reading = tokio::task::spawn_blocking(move || {
            let read = editor.read();
            (editor, read)
        });
        loop {
            tokio::select! {
                read = &mut reading => {
                    let (editor, read) = read.context("the prompt has failed")?;
                    self.editor = Some(editor);
                    self.terminal.settle();
                    return read;
                }
                wish = interrupts.next_wish() => match wish {
                    // On a terminal without an editor the key is a signal.
                    Wish::Interrupt => note(HOW_TO_LEAVE),
                    Wish::Terminate => {
                        // The thread waits for a key that may never come, and cannot tidy up.
                        self.terminal.restore().await;
                        return Ok(Read::Left);
                    }
                },
                () = returns.next() => self.take_again(),
            }
        }
    }

    /// Makes the terminal the editor's again, after a shell has had it.
    fn take_again(&mut self) {
        let Some(redraw) = self.redraw.clone() else {
            return;
        };
        self.terminal.take_again();
        // Whoever draws may have to wait for the editor, and nobody for whoever draws.
        drop(tokio::task::spawn_blocking(move || {
            let mut redraw = redraw.lock().unwrap_or_else(PoisonError::into_inner);
            redraw.print(MARK_PASTES.to_owned())
        }));
    }
}

/// The editor and its history.
struct Editing {
    editor: Editor<Continued, FileHistory>,
    /// Where the history is kept, for as long as that succeeds.
    history: Option<PathBuf>,
}

impl Editing {
    fn new(history: Option<PathBuf>) -> anyhow::Result<Self> {
        let config = Config::builder()
            .max_history_size(history::MOST_ENTRIES)
            .and_then(|config| config.history_ignore_dups(true))
            .map(|config| config.auto_add_history(false).build());
        let mut editor = config
            .and_then(Editor::with_config)
            .context("the terminal cannot be used for a prompt")?;
        editor.set_helper(Some(Continued::default()));
        let mut editing = Self { editor, history };
        editing.recall();
        Ok(editing)
    }

    fn redraw(&mut self) -> Option<Redraw> {
        let printer = self.editor.create_external_printer().ok()?;
        Some(Arc::new(Mutex::new(printer)))
    }

    fn read(&mut self) -> anyhow::Result<Read> {
        if let Some(continued) = self.editor.helper_mut() {
            continued.0.take();
        }
        match self.editor.readline(PROMPT) {
            Ok(text) => {
                let continued = self.editor.helper();
                let text =
                    continued.map_or_else(|| text.clone(), |continued| continued.join(&text));
                self.remember(&text);
                Ok(Read::Text(text))
            }
            Err(ReadlineError::Interrupted) => Ok(Read::Interrupted),
            Err(ReadlineError::Eof) => Ok(Read::Left),
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                // The rest of it would be taken for a message of its own.
                terminal::forget_keys();
                Ok(Read::Unreadable)
            }
            Err(error) => Err(anyhow!(error).context("the terminal cannot be read")),
        }
    }

    fn recall(&mut self) {
        let Some(path) = &self.history else {
            return;
        };
        let loaded = match self.editor.load_history(path) {
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                history::make_room(path).map_err(ReadlineError::Io)
            }
            loaded => loaded,
        };
        self.keep_or_give_up(loaded);
    }

    fn remember(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let added = self.editor.add_history_entry(text).map(|_| ());
        let kept = match &self.history {
            Some(path) => added.and_then(|()| self.editor.append_history(path)),
            None => added,
        };
        self.keep_or_give_up(kept);
    }

    fn keep_or_give_up(&mut self, kept: rustyline::Result<()>) {
        let Err(error) = kept else {
            return;
        };
        if let Some(path) = self.history.take() {
            let path = path.display();
            note(&format!(
                "note: what you say is not kept in {path}: {error}"
            ));
        }
    }
}

/// Knows which lines were ended by a backslash, so that another followed.
///
/// What was pasted may have such lines of its own; those are what the person says.
#[derive(Default)]
struct Continued(RefCell<Vec<String>>);

impl Continued {
    /// Returns `text` without the backslashes that only asked for another line.
    fn join(&self, text: &str) -> String {
        let mut joined = text.to_owned();
        // From the last one on, so that what is before keeps its place.
        for before in self.0.borrow().iter().rev() {
            let is_there = text.starts_with(before.as_str())
                && text.as_bytes().get(before.len()) == Some(&b'\n');
            if is_there {
                joined.remove(before.len() - 1);
            }
        }
        joined
    }
}

impl Validator for Continued {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input();
        if !input.ends_with('\\') {
            return Ok(ValidationResult::Valid(None));
        }
        self.0.borrow_mut().push(input.to_owned());
        Ok(ValidationResult::Incomplete)
    }
}

impl Completer for Continued {
    type Candidate = String;
}

impl Highlighter for Continued {}

impl Hinter for Continued {
    type Hint = String;
}

impl Helper for Continued {}

/// What whoever presses Ctrl-C may want to know.
pub(super) const HOW_TO_LEAVE: &str = "Ctrl-D or /quit leaves.";

const PROMPT: &str = "> ";

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn continued(lines: &[&str]) -> Continued {
        Continued(RefCell::new(
            lines.iter().map(|&it| it.to_owned()).collect(),
        ))
    }

    #[test]
    fn a_backslash_that_asked_for_another_line_is_no_part_of_the_message() {
        let lines = continued(&["one\\", "one\\\ntwo\\"]);

        assert_eq!(lines.join("one\\\ntwo\\\nthree"), "one\ntwo\nthree");
    }

    #[test]
    fn a_backslash_that_was_pasted_stays() {
        let pasted = "cc -o a \\\n  a.c\nmake";

        assert_eq!(continued(&[]).join(pasted), pasted);
        // Nor is one taken for another after the message was changed.
        assert_eq!(continued(&["cc\\"]).join(pasted), pasted);
    }
}
