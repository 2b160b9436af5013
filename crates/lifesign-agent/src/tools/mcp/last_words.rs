//! What a server's program wrote to its standard error last, for whoever reads that it did not start.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The last lines of one program's standard error. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub(super) struct LastWords {
    heard: Arc<Mutex<Heard>>,
    /// Set when nothing more can come.
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct Heard {
    lines: VecDeque<String>,
    /// Whether there is a program that may write.
    is_listening: bool,
}

impl LastWords {
    pub(super) fn begin(&self) {
        self.heard().is_listening = true;
    }

    pub(super) fn hear(&self, line: &str) {
        let mut heard = self.heard();
        if heard.lines.len() == MOST_LINES {
            heard.lines.pop_front();
        }
        heard.lines.push_back(line.to_owned());
    }

    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Returns them as one clause, once nothing more comes or a moment has passed. Empty where there
    /// are none.
    pub(super) async fn tell(&self) -> String {
        if !self.heard().is_listening {
            return String::new();
        }
        tokio::select! {
            biased;
            () = self.ended.cancelled() => {}
            () = tokio::time::sleep(MOMENT) => {}
        }
        let heard = self.heard();
        let lines: Vec<&str> = heard.lines.iter().map(String::as_str).collect();
        let text = lines.join(" / ");
        let plain: String = text.chars().filter(|c| !c.is_control()).collect();
        let from = plain.ceil_char_boundary(plain.len().saturating_sub(LONGEST));
        plain.get(from..).unwrap_or_default().to_owned()
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        // Each change is whole before anything that could panic.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many lines are kept.
const MOST_LINES: usize = 5;

/// The most bytes that are told, of the end.
const LONGEST: usize = 600;

/// How long the rest is waited for.
const MOMENT: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn the_last_lines_are_told_as_one_clause_without_what_a_terminal_obeys() {
        let words = LastWords::default();
        words.begin();
        for line in ["one", "two", "three", "four", "\u{1b}[31mfive", "six"] {
            words.hear(line);
        }
        words.end();

        assert_eq!(words.tell().await, "two / three / four / [31mfive / six");
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_is_waited_for_and_no_longer_than_a_moment() {
        let words = LastWords::default();
        assert_eq!(words.tell().await, "");
        words.begin();
        let more = words.clone();
        tokio::spawn(async move {
            tokio::time::sleep(MOMENT / 2).await;
            more.hear(&format!("{}end", "\u{e9}".repeat(LONGEST)));
        });

        let told = words.tell().await;

        assert!(
            told.len() <= LONGEST && told.ends_with("\u{e9}end"),
            "{told}"
        );
    }
}
