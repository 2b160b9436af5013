//! Recordings as scripts: the same bytes in the same rhythm.

use std::time::Duration;

use lifesign_wire::recording::{Ending, Recording};

use crate::dialect::Dialect;
use crate::script::{Action, Kind, Script, Section, Status, Step};

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

    /// Returns the script that refuses to play a recording of one wire to who asks on another.
    pub(crate) fn not_recorded(of: Dialect, asked: Dialect) -> Self {
        let (of, path) = (of.name(), asked.path());
        let message = format!("the recording is of {of}; {path} was asked");
        let body = serde_json::json!({"error": {"message": message}}).to_string();
        let status = Status {
            code: 404,
            kind: Some(Kind::Json),
            headers: Vec::new(),
        };
        let actions = [
            Action::Status(status),
            Action::Bytes(body.into_bytes()),
            Action::Eof,
        ];
        let mut steps = Steps {
            steps: Vec::new(),
            at: Duration::ZERO,
        };
        for action in actions {
            steps.push(Duration::ZERO, action);
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
