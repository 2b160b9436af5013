//! Beats: what a gateway says while it has nothing to pass on.
//!
//! A beat proves the life of whoever sends it and reports that of the upstream. Its plain form is a
//! comment, which every reader of event streams skips; for readers that count events each wire has
//! an event of its own that says nothing.

use std::fmt::Write as _;

use serde::Serialize;

use crate::wire::Wire;

/// What a gateway does while it has nothing to pass on.
///
/// This example shows the comment of one that waits for a turn.
///
/// ```
/// use lifesign_wire::{Beat, BeatState};
///
/// let mut beat = Beat::new(BeatState::Queued);
/// beat.position = Some(3);
/// beat.waited_ms = 10_000;
/// assert_eq!(
///     beat.comment(),
///     b": {\"state\":\"queued\",\"n\":0,\"of\":0,\"position\":3,\"waited_ms\":10000,\"seq\":0}\n",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Beat<'a> {
    /// What it does.
    pub state: BeatState,
    /// The attempt under way, counted from 1; 0 before the first.
    pub n: u32,
    /// How many attempts there may be.
    pub of: u32,
    /// Who is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<&'a str>,
    /// The profile in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regime: Option<&'a str>,
    /// The place in the queue, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// For how long the call has been under way.
    pub waited_ms: u64,
    /// For how long the upstream has sent nothing, where one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_silent_ms: Option<u64>,
    /// The number of the beat in its call.
    pub seq: u64,
}

/// What a gateway does while it has nothing to pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BeatState {
    /// The call has arrived, and nothing was done about it yet.
    Accepted,
    /// An attempt is under way; its upstream has sent nothing yet.
    Attempt,
    /// It is about to stop.
    Draining,
    /// The upstream asked for a pause.
    Holding,
    /// The call waits for a turn.
    Queued,
    /// It waits for the next attempt.
    RetryWait,
    /// The upstream answered, but nothing has come from it since the last beat.
    UpstreamQuiet,
    /// The upstream answers; there is no content yet.
    UpstreamStarted,
}

impl Beat<'_> {
    /// Returns a beat in `state` with nothing else known.
    pub fn new(state: BeatState) -> Self {
        Self {
            state,
            n: 0,
            of: 0,
            upstream: None,
            regime: None,
            position: None,
            waited_ms: 0,
            upstream_silent_ms: None,
            seq: 0,
        }
    }

    /// Returns the beat as a comment: one line.
    ///
    /// No blank line follows it, since some decoders dispatch an empty event on one. It is ASCII:
    /// some decoders take other line ends than the standard's, which a name might hold.
    pub fn comment(&self) -> Vec<u8> {
        let mut line = Vec::with_capacity(LONG_COMMENT);
        line.extend_from_slice(b": ");
        // It holds text and numbers, so that it can be written.
        let _never = serde_json::to_writer(&mut line, self);
        line.push(b'\n');
        if line.is_ascii() {
            return line;
        }
        let mut ascii = String::with_capacity(2 * line.len());
        for character in String::from_utf8_lossy(&line).chars() {
            if character.is_ascii() {
                ascii.push(character);
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _never = write!(ascii, "\\u{unit:04x}");
                }
            }
        }
        ascii.into_bytes()
    }
}

/// Bytes that most comments find room in.
const LONG_COMMENT: usize = 192;

/// What of an answer was passed on so far: what our own events repeat, or go on from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded<'a> {
    /// The id of the answer; before there is one, the call's own may stand for it.
    pub id: Option<&'a str>,
    /// The model that answers, or that was asked for.
    pub model: Option<&'a str>,
    /// The last `sequence_number` that was passed on.
    pub last_sequence: Option<u64>,
}

impl Wire {
    /// Returns a beat as an event, for readers that count events; none where no event may be sent
    /// yet, and a comment has to do.
    ///
    /// On anthropic it may be sent once `message_start` was.
    pub fn beat_event(self, forwarded: &Forwarded<'_>) -> Option<Vec<u8>> {
        self.dialect().beat(forwarded)
    }

    /// Returns a beat as an event for the readers that take one wherever it comes, also ahead of
    /// the answer's first event and where the upstream counts none; none where the wire has none.
    ///
    /// Most readers of Responses break on an event ahead of `response.created`; one that times
    /// events by then needs it.
    pub fn early_beat_event(self) -> Option<Vec<u8>> {
        self.dialect().early_beat()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_is_unknown_is_left_out() {
        let beat = Beat {
            n: 2,
            of: 3,
            upstream: Some("a"),
            regime: Some("progress"),
            position: Some(4),
            waited_ms: 5,
            upstream_silent_ms: Some(6),
            seq: 7,
            ..Beat::new(BeatState::UpstreamQuiet)
        };

        let text = |beat: Beat<'_>| String::from_utf8(beat.comment()).unwrap();

        assert_eq!(
            text(beat),
            concat!(
                r#": {"state":"upstream_quiet","n":2,"of":3,"upstream":"a","#,
                r#""regime":"progress","position":4,"waited_ms":5,"upstream_silent_ms":6,"seq":7}"#,
                "\n"
            )
        );
        assert_eq!(
            text(Beat::new(BeatState::Accepted)),
            ": {\"state\":\"accepted\",\"n\":0,\"of\":0,\"waited_ms\":0,\"seq\":0}\n"
        );
    }

    #[test]
    fn no_name_ends_the_line_early() {
        let name = "a\r\n\ndata: b\u{2028}\u{85}\"\u{1f600}";
        let beat = Beat {
            upstream: Some(name),
            ..Beat::new(BeatState::Attempt)
        };

        let line = beat.comment();

        let (last, before) = line.split_last().unwrap();
        assert_eq!(*last, b'\n');
        assert!(before.iter().all(|byte| (b' '..=b'~').contains(byte)));
        let json: serde_json::Value = serde_json::from_slice(&before[2..]).unwrap();
        assert_eq!(json["upstream"], name);
    }
}
