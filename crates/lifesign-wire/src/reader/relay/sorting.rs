//! Which frames of a read are held, and which are left out.

use bytes::BytesMut;

use crate::frame::{Extent, SseFrame};

/// Sorts the frames of one read.
pub(super) struct Sorting<'a> {
    pub(super) chunk: &'a [u8],
    /// Where in the read the frame at hand begins.
    pub(super) from: usize,
    pub(super) tail: &'a mut BytesMut,
    pub(super) held: &'a mut BytesMut,
    pub(super) start: &'a mut Option<usize>,
    pub(super) left_out: &'a mut bool,
    pub(super) ends_in_cr: &'a mut bool,
    pub(super) swallows_start: bool,
}

impl Sorting<'_> {
    pub(super) fn sort(&mut self, frame: &SseFrame<'_>, extent: Extent, is_heartbeat: bool) {
        // A comment inside an open event goes with the event.
        if !extent.is_whole {
            return;
        }
        let is_start =
            matches!(frame, SseFrame::Event(event) if event.name == Some(START.as_bytes()));
        let leaves_out = is_heartbeat || is_start && self.swallows_start;
        let end = self.chunk.len().saturating_sub(extent.rest);
        self.move_to(end, leaves_out);
        if is_start && !leaves_out && self.start.is_none() {
            *self.start = Some(self.held.len());
        }
    }

    /// Keeps what is not whole for the next read.
    pub(super) fn finish(mut self, pending: usize) {
        let before = self.tail.len() + self.chunk.len() - self.from;
        if let Some(whole) = before.checked_sub(pending).filter(|whole| *whole > 0) {
            // What closes the last frame behind its end: it goes where the frame went.
            let end = self.from + whole.saturating_sub(self.tail.len());
            let leaves_out = *self.left_out;
            self.move_to(end, leaves_out);
        }
        self.tail.extend_from_slice(&self.chunk[self.from..]);
    }

    fn move_to(&mut self, end: usize, leaves_out: bool) {
        let mut piece = self.chunk.get(self.from..end).unwrap_or_default();
        if self.tail.is_empty() && *self.left_out && !leaves_out {
            // The line end that closed a comment that was left out.
            let closing = piece
                .iter()
                .take_while(|byte| matches!(byte, b'\r' | b'\n'));
            piece = &piece[closing.count()..];
        }
        if self.tail.is_empty() && *self.ends_in_cr && leaves_out && piece.starts_with(b"\n") {
            // The rest of the line end that closed a frame that was not.
            self.held.extend_from_slice(b"\n");
        }
        let tail = std::mem::take(self.tail);
        if !leaves_out {
            self.held.extend_from_slice(&tail);
            self.held.extend_from_slice(piece);
        }
        *self.ends_in_cr = !leaves_out && piece.last().or_else(|| tail.last()) == Some(&b'\r');
        *self.left_out = leaves_out;
        self.from = end;
    }
}

/// The name of the event that starts an answer of anthropic.
const START: &str = "message_start";
