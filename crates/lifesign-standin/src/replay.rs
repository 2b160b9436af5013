//! Recordings as scripts: the same bytes in the same rhythm.

use std::time::Duration;

use lifesign_wire::recording::{Ending, Recording};

use crate::script::{Action, Script, Section, Status, Step};

impl Script {
    /// Returns the script that plays a recording to every request.
    ///
    /// A recording whose reader left goes on in silence where it ends; one whose connection was
    /// lost, or that breaks off, is cut there.
    pub fn of_recording(recording: &Recording) -> Self {
        let mut steps = Steps {
            steps: Vec::new(),
            at: Duration::ZERO,
        };
        if let Some(head) = &recording.head {
            let headers = head
                .headers
                .iter()
                .filter(|(name, _)| !is_framing(name))
                .cloned();
            let status = Status {
                code: head.status,
                kind: None,
                headers: headers.collect(),
            };
            steps.push(head.at, Action::Status(status));
        }
        for chunk in &recording.chunks {
            steps.push(chunk.at, Action::Bytes(chunk.bytes.clone()));
        }
        match recording.end {
            Some(end) => {
                let action = match end.how {
                    Ending::Eof => Action::Eof,
                    Ending::Left => Action::Hold,
                    Ending::Lost => Action::Cut,
                };
                steps.push(end.at, action);
            }
            None => steps.push(steps.at, Action::Cut),
        }
        Self {
            sections: vec![Section {
                attempts: 1..=u32::MAX,
                steps: steps.steps,
            }],
        }
    }
}

struct Steps {
    steps: Vec<Step>,
    at: Duration,
}

impl Steps {
    fn push(&mut self, at: Duration, action: Action) {
        let delay = at.saturating_sub(self.at);
        self.at = self.at.max(at);
        self.steps.push(Step { delay, action });
    }
}

/// Whether a header speaks of how the recorded connection carried the body.
fn is_framing(name: &str) -> bool {
    const NAMES: [&str; 4] = [
        "connection",
        "content-length",
        "keep-alive",
        "transfer-encoding",
    ];
    NAMES
        .iter()
        .any(|framing| name.eq_ignore_ascii_case(framing))
}
