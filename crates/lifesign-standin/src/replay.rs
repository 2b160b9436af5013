//! Recordings as scripts: the same bytes in the same rhythm.

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use lifesign_wire::recording::{Ending, Head, Recording, RecordingError};

use crate::dialect::Dialect;
use crate::script::{Action, Kind, Script, Section, Status, Step, nearest};

/// Returns the wire of a recording that can be played as it stands.
///
/// The format lets more be written down than a server can send.
pub(crate) fn playable(recording: &Recording) -> Result<Dialect, RecordingError> {
    let refused = |line, what| RecordingError { line, what };
    let wire = &recording.opening.wire;
    let dialect = Dialect::parse(wire).ok_or_else(|| {
        let names = Dialect::ALL.map(Dialect::name);
        let meant = nearest(wire, names.into_iter())
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        let accepted = names.join(", ");
        refused(
            1,
            format!("wire is {}; accepted: {accepted}{meant}", shown(wire)),
        )
    })?;
    if let Some(head) = &recording.head {
        check_head(head).map_err(|what| refused(2, what))?;
    }
    Ok(dialect)
}

fn check_head(head: &Head) -> Result<(), String> {
    // A status below 200 announces another head, and a recording has one.
    if !(200..1000).contains(&head.status) {
        return Err(format!("status is {}; accepted: 200 to 999", head.status));
    }
    for (name, value) in &head.headers {
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            let name = shown(name);
            return Err(format!(
                "headers: the name is {name}; accepted: letters, digits and !#$%&'*+-.^_`|~"
            ));
        }
        if HeaderValue::from_bytes(value.as_bytes()).is_err() {
            let value = shown(value);
            return Err(format!(
                "headers: the value of {name} is {value}; accepted: text without control characters"
            ));
        }
    }
    Ok(())
}

/// A value as it stands in the file, or its beginning.
fn shown(value: &str) -> String {
    const MOST: usize = 60;
    let mut beginning: String = value.chars().take(MOST).collect();
    if beginning.len() < value.len() {
        beginning.push_str("...");
    }
    format!("{beginning:?}")
}

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
