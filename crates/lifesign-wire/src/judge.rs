//! What a frame proves, once it is known what it means.

use std::time::Duration;

use lifesign_core::{HeartbeatOrigin, Progress, Sign};
use serde::Deserialize;

use crate::dialect::{Meaning, Told};
use crate::frame::SseEvent;
use crate::lenient::{Count, Text};
use crate::repetition::{Kind, Repetition};

/// Judges the events of one stream.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    repetition: Repetition,
    /// Whether content or a finish came.
    has_answer: bool,
}

impl Judge {
    /// Judges an event by what it means and by those before it.
    pub(crate) fn judge(&mut self, meaning: Meaning) -> Sign {
        let sign = match meaning.told {
            Told::Heartbeat => Sign::heartbeat(HeartbeatOrigin::Provider),
            Told::Contentless { kind, work } => self.judge_contentless(kind, work),
            Told::Unreadable => self.judge_contentless(Kind::new(b"unreadable"), None),
            Told::Reasoning => self.judge_content(Progress::Reasoning),
            Told::Output => self.judge_content(Progress::Output),
            Told::End if self.has_answer => self.judge_content(Progress::Output),
            Told::End => self.judge_contentless(Kind::new(b"end"), None),
        };
        Sign {
            block: meaning.block,
            ..sign
        }
    }

    fn judge_content(&mut self, progress: Progress) -> Sign {
        self.has_answer = true;
        self.repetition.handle_content();
        Sign::of(progress)
    }

    fn judge_contentless(&mut self, kind: Kind, work: Option<u64>) -> Sign {
        match self.repetition.judge(kind, work) {
            Progress::Heartbeat => Sign::heartbeat(HeartbeatOrigin::Provider),
            progress => Sign::of(progress),
        }
    }
}

/// Judges a comment: a heartbeat, and the beat of a gateway if it says so. Whatever it holds, it is
/// life.
pub(crate) fn comment(text: &[u8]) -> Sign {
    let text = text.trim_ascii();
    if text.first() == Some(&b'{')
        && let Ok(beat) = serde_json::from_slice::<Beat<'_>>(text)
        && beat.state.get().is_some()
    {
        return Sign {
            upstream_silent: beat.upstream_silent_ms.0.map(Duration::from_millis),
            ..Sign::heartbeat(HeartbeatOrigin::Proxy)
        };
    }
    Sign::heartbeat(HeartbeatOrigin::Comment)
}

/// Returns whether an event says by its form that it is a heartbeat: no data, or a name that says
/// so and data that is no JSON, such as a time.
pub(crate) fn is_beat(event: &SseEvent<'_>) -> bool {
    let data = event.data.trim_ascii();
    let is_named = matches!(
        event.name,
        Some(b"heartbeat" | b"keep-alive" | b"keepalive" | b"ping")
    );
    event.error.is_none() && (data.is_empty() || is_named && !data.starts_with(b"{"))
}

/// What a gateway says in a comment.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Beat<'a> {
    #[serde(borrow)]
    state: Text<'a>,
    upstream_silent_ms: Count,
}
