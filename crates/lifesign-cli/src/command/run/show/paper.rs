//! What is written of a turn: the answer, lines about it, and the one line that is written over.

use std::time::Duration;

use lifesign::clock::CallClock;

use crate::answer_out::AnswerOut;
use crate::interrupts::{Interrupts, Wish};
use crate::output::{note, one_line, plain};
use crate::status_line::{Status, WIPE, can_be_written_over, columns};

/// What is written, and what of it stands unfinished.
pub(super) struct Paper {
    out: AnswerOut,
    /// Whether a row on standard error can be written over.
    is_live: bool,
    /// Since when the answer's last row has stood there without an end.
    unfinished: Option<CallClock>,
    drawn: Option<Drawn>,
}

/// Where the status line stands.
#[derive(Clone, Copy)]
enum Drawn {
    /// On the row of the cursor.
    Here,
    /// Below the row of the cursor, which stands behind the answer's last word.
    Below,
}

impl Paper {
    pub(super) fn new() -> Self {
        Self {
            out: AnswerOut::new(),
            is_live: can_be_written_over(),
            unfinished: None,
            drawn: None,
        }
    }

    /// Whether there is a status line at all.
    pub(super) const fn is_live(&self) -> bool {
        self.is_live
    }

    /// Draws the status line, unless now is no time for it.
    pub(super) fn draw(&mut self, status: Status) {
        // A terminal that is held by Ctrl-S is not given more and more of them.
        if !self.is_live || self.is_coming() || !self.out.is_idle() {
            return;
        }
        let line = status.fitting(columns());
        if self.stands_unfinished() {
            self.drawn = Some(Drawn::Below);
            // Down and up again makes room where this is the last row, and keeps the column.
            self.out
                .aside(format!("\x1bD\x1b[A\x1b7\x1b[B{WIPE}{line}\x1b8"));
        } else {
            self.drawn = Some(Drawn::Here);
            self.out.aside(format!("{WIPE}{line}"));
        }
    }

    /// Writes a piece of the answer; returns whether somebody still reads.
    pub(super) fn answer(&mut self, text: &str) -> bool {
        if text.is_empty() {
            return true;
        }
        self.wipe();
        self.unfinished = (!text.ends_with('\n')).then(CallClock::start);
        self.out.write(text)
    }

    /// Ends the answer's last row, so that what comes next begins its own.
    pub(super) fn end_paragraph(&mut self) {
        if self.unfinished.is_some() {
            self.wipe();
            self.unfinished = None;
            // Whether anybody reads it is found when the rest is written.
            let _read = self.out.write("\n");
        }
    }

    /// Writes a line about the turn, whoever's words are in it.
    pub(super) fn line(&mut self, text: &str) {
        self.wipe();
        // An answer that goes elsewhere is the answer and nothing but the answer.
        if self.out.is_shared() {
            self.end_paragraph();
        }
        self.out.aside(format!("{}\n", plain(text)));
    }

    /// Waits until everything is written, unless somebody does not want to or did not want to
    /// before; returns whether standard output has refused none of it.
    pub(super) async fn finish(
        mut self,
        wish: &mut Option<Wish>,
        interrupts: &mut Interrupts,
    ) -> bool {
        self.wipe();
        let is_impatient = wish.is_some();
        tokio::select! {
            written = self.out.finish() => match written {
                Ok(()) => true,
                Err(error) => {
                    note(&format!("error: {}", one_line(&error)));
                    false
                }
            },
            // Whoever should read has stopped, and somebody else has lost patience.
            next = interrupts.next_wish() => {
                *wish = Some(next);
                true
            }
            () = tokio::time::sleep(PATIENCE), if is_impatient => true,
        }
    }

    /// Whether the answer's last row has no end where the status line would be.
    const fn stands_unfinished(&self) -> bool {
        self.out.is_shared() && self.unfinished.is_some()
    }

    /// Whether words come one after the other, so that a line below them would only flicker.
    fn is_coming(&self) -> bool {
        let since = self.unfinished.filter(|_| self.out.is_shared());
        since.is_some_and(|since| since.elapsed() < QUIET)
    }

    fn wipe(&mut self) {
        match self.drawn.take() {
            Some(Drawn::Here) => self.out.aside(WIPE.to_owned()),
            Some(Drawn::Below) => self.out.aside("\x1b[J".to_owned()),
            None => {}
        }
    }
}

/// How long whoever has stopped a turn waits for a reader.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long no word has come when it is worth saying what the call is doing.
const QUIET: Duration = Duration::from_secs(1);
