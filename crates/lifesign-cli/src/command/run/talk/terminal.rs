//! The modes of the terminal: as they were before the prompt, and as its editor wants them.

use std::io;
use std::time::Duration;

#[cfg(unix)]
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex,
    Termios, tcflush, tcgetattr, tcsetattr,
};

use crate::output::note;

/// The terminal, and how it was before the prompt.
pub(super) struct Terminal {
    #[cfg(unix)]
    before: Option<Termios>,
    /// Whether it was taken again, so that the editor does not know how it was.
    is_taken_again: bool,
}

impl Terminal {
    pub(super) fn look() -> Self {
        Self {
            #[cfg(unix)]
            before: tcgetattr(io::stdin()).ok(),
            is_taken_again: false,
        }
    }

    /// Makes it again as its editor had made it.
    ///
    /// A shell gives a program that comes back the modes that it likes itself.
    pub(super) fn take_again(&mut self) {
        self.is_taken_again = true;
        #[cfg(unix)]
        if let Some(before) = &self.before {
            set(&edited(before));
        }
    }

    /// Makes it as it was, where the editor cannot have done so.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.is_taken_again) {
            self.reset();
        }
    }

    /// Makes it as it was while the editor has it.
    pub(super) async fn restore(&self) {
        self.reset();
        // A terminal that Ctrl-S holds takes nothing.
        let telling = tokio::task::spawn_blocking(|| note(MARK_NO_PASTES));
        tokio::select! {
            _told = telling => {}
            () = tokio::time::sleep(PATIENCE) => {}
        }
    }

    fn reset(&self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            set(before);
        }
    }
}

#[cfg(unix)]
fn set(modes: &Termios) {
    // A terminal that has gone needs nothing.
    let _gone = tcsetattr(io::stdin(), OptionalActions::Now, modes);
}

/// Throws away the keys that nobody has read yet.
pub(super) fn forget_keys() {
    #[cfg(unix)]
    // A terminal that has gone has none.
    let _gone = tcflush(io::stdin(), QueueSelector::IFlush);
}

/// Returns the modes in which keys come one by one and nothing is done about them, as rustyline sets
/// them.
#[cfg(unix)]
fn edited(before: &Termios) -> Termios {
    let mut modes = before.clone();
    modes.input_modes -= InputModes::BRKINT
        | InputModes::ICRNL
        | InputModes::INPCK
        | InputModes::ISTRIP
        | InputModes::IXON;
    modes.control_modes |= ControlModes::CS8;
    modes.local_modes -=
        LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN | LocalModes::ISIG;
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    modes
}

/// Tells a terminal to mark pasted text, so that its line ends end no message.
pub(super) const MARK_PASTES: &str = "\x1b[?2004h";

/// Tells it not to any longer.
const MARK_NO_PASTES: &str = "\x1b[?2004l";

/// How long the terminal may take for that.
const PATIENCE: Duration = Duration::from_millis(200);
