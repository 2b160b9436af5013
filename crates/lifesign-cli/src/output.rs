//! What the program prints, and the exit codes it ends with.

use std::io::{self, Write};
use std::process::ExitCode;

/// Writes `text` and a line end to standard output.
///
/// A reader that has gone, such as `head`, is no failure of ours.
pub(crate) fn print_line(text: &str) -> io::Result<()> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes `text` and a line end to standard error.
pub(crate) fn note(text: &str) {
    // There is nowhere left to report that standard error is closed.
    let _lost = writeln!(io::stderr().lock(), "{text}");
}

/// Says what went wrong, and what lies behind it.
pub(crate) fn complain(error: &anyhow::Error) -> ExitCode {
    note(&format!("error: {error}"));
    for cause in error.chain().skip(1) {
        note(&format!("  caused by: {cause}"));
    }
    ExitCode::from(REFUSED)
}

/// The exit code of input that cannot be used: nothing was sent.
pub(crate) const REFUSED: u8 = 2;
