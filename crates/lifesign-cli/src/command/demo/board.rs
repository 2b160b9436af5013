//! The demo's calls and their clocks, one line each, written over again while they run.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use lifesign::Monitor;

use crate::status_line::{Status, columns};

/// The board on standard error, if that is a terminal with room for it.
pub(super) struct Board {
    is_live: bool,
    rows: Vec<Row>,
    speed: u32,
    drawn: bool,
}

/// A call on the board.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) monitor: Monitor,
    /// How the call ended, once it has.
    pub(super) verdict: Arc<OnceLock<String>>,
}

impl Board {
    pub(super) fn new(wanted: bool, rows: Vec<Row>, speed: u32) -> Self {
        let has_room = terminal_size::terminal_size_of(io::stderr())
            .is_some_and(|(_, height)| usize::from(height.0) > rows.len());
        let is_live = wanted && has_room && io::stderr().is_terminal();
        Self {
            is_live,
            rows,
            speed,
            drawn: false,
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.is_live
    }

    pub(super) fn draw(&mut self) -> io::Result<()> {
        self.wipe()?;
        let columns = columns();
        let mut out = io::stderr().lock();
        for Row {
            name,
            monitor,
            verdict,
        } in &self.rows
        {
            let room = columns.saturating_sub(NAME_COLUMNS + 1);
            let doing = match verdict.get() {
                Some(verdict) => verdict.chars().take(room).collect(),
                None => Status::of(&monitor.snapshot(), self.speed).fitting(room),
            };
            let line = format!("{name:NAME_COLUMNS$} {doing}");
            writeln!(out, "{}", line.chars().take(columns).collect::<String>())?;
        }
        self.drawn = true;
        out.flush()
    }

    pub(super) fn wipe(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.drawn) {
            write!(io::stderr().lock(), "\x1b[{}A\x1b[J", self.rows.len())?;
        }
        Ok(())
    }
}

/// Room for the longest name of a scenario that is shown.
const NAME_COLUMNS: usize = 21;
