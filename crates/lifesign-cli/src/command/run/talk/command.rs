//! What a person may want beside talking: a line that begins with `/`.

use crate::output::plain;

/// Something that is done here and not said to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Quit,
    Resume,
    Status,
    Tools,
}

impl Command {
    /// Returns the command that `text` is, or why it is none; `None` where it is to be said.
    pub(super) fn parse(text: &str) -> Option<Result<Self, String>> {
        let name = text.strip_prefix('/')?.trim_end();
        let row = ROWS.iter().find(|row| row.name == name);
        Some(row.map(|row| row.command).ok_or_else(|| unknown(name)))
    }
}

/// Returns which commands there are and what the keys do.
pub(super) fn help() -> String {
    let mut lines: Vec<_> = ROWS
        .iter()
        .map(|row| format!("/{:8}{}", row.name, row.what))
        .collect();
    lines.extend(KEYS.map(|(key, what)| format!("{key:9}{what}")));
    lines.join("\n")
}

fn unknown(name: &str) -> String {
    let known: Vec<_> = ROWS.iter().map(|row| format!("/{}", row.name)).collect();
    format!(
        "There is no /{}; there are {}. Nothing was sent: begin with a blank to say it to the model.",
        plain(name),
        known.join(", ")
    )
}

struct Row {
    name: &'static str,
    command: Command,
    what: &'static str,
}

const ROWS: [Row; 5] = [
    Row {
        name: "help",
        command: Command::Help,
        what: "this",
    },
    Row {
        name: "tools",
        command: Command::Tools,
        what: "the tools that the model may call",
    },
    Row {
        name: "status",
        command: Command::Status,
        what: "how the last turn ended, what it did and where its time went",
    },
    Row {
        name: "resume",
        command: Command::Resume,
        what: "go on with a turn that did not end, or that waited for a limit",
    },
    Row {
        name: "quit",
        command: Command::Quit,
        what: "leave",
    },
];

const KEYS: [(&str, &str); 5] = [
    ("\\ Enter", "another line of the same message"),
    ("Up Down", "what was said before; Ctrl-R searches it"),
    ("Ctrl-C", "stop the turn; what has come of it is kept"),
    ("Ctrl-D", "leave"),
    ("Ctrl-Z", "suspend; `fg` comes back"),
];

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_line_that_begins_with_a_slash_is_never_said() {
        assert_eq!(Command::parse("/tools"), Some(Ok(Command::Tools)));
        assert_eq!(Command::parse("/quit  "), Some(Ok(Command::Quit)));
        for text in ["/etc/hosts", "/Quit", "/", "/quit now", "/a\x1b[2J"] {
            let refused = Command::parse(text).unwrap().unwrap_err();
            assert!(refused.contains("/help, /tools, /status"), "{refused}");
            assert!(!refused.contains('\x1b'), "{refused:?}");
        }
    }

    #[test]
    fn whatever_else_is_said() {
        for text in ["hello", " /etc/hosts", "", "a\n/quit"] {
            assert_eq!(Command::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_help_names_every_command() {
        for row in ROWS {
            assert!(help().contains(&format!("/{}", row.name)));
        }
    }
}
