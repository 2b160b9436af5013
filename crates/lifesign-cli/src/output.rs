//! What the program prints, and the exit codes it ends with.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use jiff::Timestamp;

/// Writes `text` and a line end to standard output.
///
/// A reader that has gone, such as `head`, is no failure of ours.
pub(crate) fn print_line(text: &str) -> Result<(), Unwritten> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Unwritten),
    }
}

/// A result that is there, and that standard output could not take.
#[derive(Debug)]
pub(crate) struct Unwritten(io::Error);

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output cannot be written")
    }
}

impl Error for Unwritten {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// Writes `text` and a line end to standard error.
pub(crate) fn note(text: &str) {
    // There is nowhere left to report that standard error is closed.
    let _lost = writeln!(io::stderr().lock(), "{text}");
}

/// Returns what of `text` may go to a terminal.
///
/// A terminal obeys control characters, and a model's words are no commands: of those only line
/// ends and tabs get there.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, '\n' | '\t') || !c.is_control())
        .collect()
}

/// Returns a text that somebody else has chosen without what a terminal would obey, or what would
/// make it read otherwise than it is written.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !is_command(*c)).collect()
}

fn is_command(c: char) -> bool {
    // Marks of direction and width change how the rest of a row is read.
    let is_mark = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{061c}');
    c.is_control() || is_mark
}

/// Returns a point in time to the second, UTC.
pub(crate) fn second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Says what went wrong, in one sentence.
pub(crate) fn complain(error: &anyhow::Error) -> ExitCode {
    note(&format!("error: {}", one_line(error)));
    ExitCode::from(if error.is::<Unwritten>() {
        UNWRITTEN
    } else {
        REFUSED
    })
}

/// Returns what went wrong and what lies behind it, each said once.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    error
        .chain()
        .skip(1)
        .fold(error.to_string(), |line, cause| {
            let cause = cause.to_string();
            if line.ends_with(&cause) {
                line
            } else {
                format!("{line}: {cause}")
            }
        })
}

/// The exit code of a result that could not be written.
pub(crate) const UNWRITTEN: u8 = 1;

/// The exit code of input that cannot be used: nothing was sent.
pub(crate) const REFUSED: u8 = 2;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn no_text_of_somebody_else_commands_the_terminal() {
        for (given, shown) in [
            ("gpt-5", "gpt-5"),
            ("m\x1b[2Jx\u{9b}31m", "m[2Jx31m"),
            ("a\r\nb\tc\u{7}", "abc"),
            ("evil\u{202e}txt.exe", "eviltxt.exe"),
        ] {
            assert_eq!(plain(given), shown);
        }
    }
}
