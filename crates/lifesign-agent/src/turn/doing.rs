//! What a turn was doing when it was stopped or ran out of time, in words.

use lifesign::Phase;

/// What a turn is doing.
#[derive(Clone, Debug, Default)]
pub(super) enum Doing {
    /// Something that takes no time: it is between two other things.
    #[default]
    Between,
    /// It runs these tools.
    Tools(Vec<String>),
    /// It waits to be sent again.
    Waiting,
}

impl Doing {
    /// Says so to an operator.
    pub(super) fn during(&self) -> String {
        match self {
            Self::Between => "between two calls".to_owned(),
            Self::Tools(names) => {
                let tools = if names.len() == 1 { "tool" } else { "tools" };
                let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
                format!("while {tools} {} ran", names.join(", "))
            }
            Self::Waiting => "while it waited to be sent again".to_owned(),
        }
    }

    /// Says so to the person who waits.
    pub(super) const fn told(&self) -> &'static str {
        match self {
            Self::Between => "before the answer was complete",
            Self::Tools(_) => "while a tool was running",
            Self::Waiting => "while waiting to try again",
        }
    }
}

/// Says to an operator where the call of a turn stood.
pub(super) const fn during_call(phase: Phase) -> &'static str {
    match phase {
        Phase::Queued => "while a call of it waited",
        Phase::Connecting => "while a call of it was connecting",
        Phase::Sending | Phase::WaitingForHeaders | Phase::BeforeContent => {
            "before an answer began"
        }
        Phase::AfterContent => "in the middle of an answer",
        Phase::Ended => "after an answer",
    }
}
