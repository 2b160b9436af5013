//! When a frame without content stops telling anything new.
//!
//! A proxy may keep a dead stream warm with frames that look like events of the provider. One may
//! be an event and so may its like behind it; from the third in a row on they are heartbeats,
//! unless a counter of work moves in them.

use lifesign_core::Progress;

/// What makes two frames without content the same: their type, say, or what they lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(u64);

impl Kind {
    /// Returns the kind called `name`.
    pub const fn new(name: &[u8]) -> Self {
        Self(OFFSET).and(name)
    }

    /// Returns the kind that differs from this one by `part` too.
    #[must_use]
    pub const fn and(self, part: &[u8]) -> Self {
        // FNV-1a. The length goes in as well, so that parts do not run into each other.
        let mut hash = self.0;
        let mut at = 0;
        while at < part.len() {
            hash = (hash ^ part[at] as u64).wrapping_mul(PRIME);
            at += 1;
        }
        Self((hash ^ part.len() as u64).wrapping_mul(PRIME))
    }
}

/// Judges frames without content by those before them.
///
/// This example shows a queue that moves and then only repeats itself.
///
/// ```
/// use lifesign_core::Progress::{Heartbeat, Lifecycle};
/// use lifesign_wire::{Kind, Repetition};
///
/// let queued = Kind::new(b"queued");
/// let mut repetition = Repetition::default();
/// let seen = [3, 2, 1, 1].map(|place| repetition.judge(queued, Some(place)));
/// assert_eq!(seen, [Lifecycle, Lifecycle, Lifecycle, Heartbeat]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Repetition {
    last: Option<Last>,
}

impl Repetition {
    /// Judges a frame without content: lifecycle, or a heartbeat from its second repetition on.
    ///
    /// `work` is what a counter of work in it says: tokens, prefill progress, a place in a queue;
    /// never a sequence number, an id or a time. A frame in which it moved is always lifecycle.
    /// What is a heartbeat by itself is not told here: it interrupts no repetition.
    pub fn judge(&mut self, kind: Kind, work: Option<u64>) -> Progress {
        let Some(last) = self.last.as_mut().filter(|last| last.kind == kind) else {
            self.last = Some(Last {
                kind,
                work,
                is_repeated: false,
            });
            return Progress::Lifecycle;
        };
        let moved = work.is_some() && work != last.work;
        last.work = work.or(last.work);
        if std::mem::replace(&mut last.is_repeated, true) && !moved {
            Progress::Heartbeat
        } else {
            Progress::Lifecycle
        }
    }

    /// Forgets what came: content interrupts every repetition.
    pub fn handle_content(&mut self) {
        self.last = None;
    }
}

/// The last frame without content.
#[derive(Clone, Copy, Debug)]
struct Last {
    kind: Kind,
    work: Option<u64>,
    is_repeated: bool,
}

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use lifesign_core::Progress::{Heartbeat, Lifecycle};

    use super::*;

    const A: Kind = Kind::new(b"a");
    const B: Kind = Kind::new(b"b");

    #[test]
    fn a_frame_is_a_heartbeat_from_its_second_repetition_on() {
        let mut repetition = Repetition::default();

        let seen = [A, A, A, A].map(|kind| repetition.judge(kind, None));

        assert_eq!(seen, [Lifecycle, Lifecycle, Heartbeat, Heartbeat]);
    }

    #[test]
    fn another_kind_starts_anew() {
        let mut repetition = Repetition::default();

        let seen = [A, A, B, A, A, A].map(|kind| repetition.judge(kind, None));

        assert_eq!(
            seen,
            [
                Lifecycle, Lifecycle, Lifecycle, Lifecycle, Lifecycle, Heartbeat
            ]
        );
    }

    #[test]
    fn content_starts_anew() {
        let mut repetition = Repetition::default();
        repetition.judge(A, None);
        repetition.judge(A, None);

        repetition.handle_content();

        assert_eq!(repetition.judge(A, None), Lifecycle);
        assert_eq!(repetition.judge(A, None), Lifecycle);
        assert_eq!(repetition.judge(A, None), Heartbeat);
    }

    #[test]
    fn a_counter_that_moves_either_way_is_lifecycle_and_one_that_stands_is_not() {
        let mut repetition = Repetition::default();

        let counts = [Some(5), Some(4), Some(4), Some(9), None, Some(9)];
        let seen = counts.map(|count| repetition.judge(A, count));

        assert_eq!(
            seen,
            [
                Lifecycle, Lifecycle, Heartbeat, Lifecycle, Heartbeat, Heartbeat
            ]
        );
    }

    #[test]
    fn kinds_differ_by_each_of_their_parts() {
        assert_ne!(A, A.and(b""));
        assert_ne!(A.and(b"b"), Kind::new(b"ab"));
        assert_ne!(A.and(b"bc").and(b"d"), A.and(b"b").and(b"cd"));
        assert_eq!(A.and(b"b"), Kind::new(b"a").and(b"b"));
    }
}
