//! Judging frames for their progress alone, without decoding them.
//!
//! Nearly every frame of an answer is a delta that brings text or thinking. A walk over its bytes
//! tells that in a fraction of the time that decoding takes. It answers only where it is certain
//! what the decoder would say: an escape it does not know, a field twice, anything unexpected makes
//! it pass the frame on.

use std::fmt;

use lifesign_core::{HeartbeatOrigin, Sign};

use crate::delta_run::DeltaRun;
use crate::dialect::{Decode, Told};
use crate::event::Event;
use crate::frame::SseFrame;
use crate::judge::{self, Judge};
use crate::mend::Mender;
use crate::wire::Wire;

/// Judges the frames of one stream for their progress alone.
///
/// It says of each frame what a [`Reader`](crate::Reader) says of it, and keeps no answer.
///
/// This example shows what a piece of text proves.
///
/// ```
/// use lifesign_core::Progress;
/// use lifesign_wire::{Classifier, FrameLimits, SseFramer, Wire};
///
/// let mut classifier = Classifier::new(Wire::OPENAI_CHAT);
/// let mut framer = SseFramer::new(FrameLimits::default());
/// let mut seen = Vec::new();
/// let stream = b": wait\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
/// framer.push(stream, |frame| {
///     seen.extend(classifier.classify(frame).map(|sign| sign.progress));
/// })?;
/// assert_eq!(seen, [Progress::Heartbeat, Progress::Output]);
/// # Ok::<(), lifesign_wire::TooLarge>(())
/// ```
pub struct Classifier {
    wire: Wire,
    decoder: Mender,
    judge: Judge,
    run: DeltaRun,
    is_over: bool,
}

impl Classifier {
    /// Returns a classifier at the start of a stream.
    pub fn new(wire: Wire) -> Self {
        Self {
            wire,
            decoder: wire.decoder(),
            judge: Judge::default(),
            run: DeltaRun::default(),
            is_over: false,
        }
    }

    /// Returns what a frame proves; `None` for one that was cut off and cannot be read.
    pub fn classify(&mut self, frame: SseFrame<'_>) -> Option<Sign> {
        let event = match frame {
            SseFrame::Blank => return Some(Sign::heartbeat(HeartbeatOrigin::Comment)),
            SseFrame::Comment(text) => return Some(judge::comment(text)),
            SseFrame::Event(event) if judge::is_beat(&event) => {
                return Some(Sign::heartbeat(HeartbeatOrigin::Provider));
            }
            SseFrame::Event(event) => event,
        };
        if let Some(meaning) = self.run.go_on(self.wire, &event) {
            return Some(self.judge.judge(meaning));
        }
        let is_over = &mut self.is_over;
        let meaning = self.decoder.event(event, &mut |event| {
            *is_over |= matches!(event, Event::Error(_) | Event::Terminal);
        });
        if meaning.told == Told::Unreadable && !event.terminated {
            return None;
        }
        Some(self.judge.judge(meaning))
    }

    /// Returns whether the answer said that it is over, or failed.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classifier")
            .field("wire", &self.wire)
            .finish_non_exhaustive()
    }
}
