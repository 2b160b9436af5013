//! Memory for answers that cannot pass on as they come, shared by all calls.
//!
//! What is held before the content, put together for a caller who asked for no stream, or whole and
//! not yet taken by its reader, counts here. A call for which there is no more room fails by itself
//! instead of taking the process with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// How much is kept, and how much may be.
#[derive(Debug)]
pub(crate) struct Room {
    kept_len: AtomicUsize,
    most_len: AtomicUsize,
}

/// What one answer takes of the room, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Kept {
    room: Arc<Room>,
    len: usize,
}

/// There is no room for more than so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom {
    pub(crate) limit: usize,
}

impl Room {
    /// Returns room for so many bytes.
    pub(crate) fn new(most_len: usize) -> Arc<Self> {
        Arc::new(Self {
            kept_len: AtomicUsize::new(0),
            most_len: AtomicUsize::new(most_len),
        })
    }

    /// Changes how much may be kept. What is kept above a lower limit stays.
    pub(crate) fn set_limit(&self, most_len: usize) {
        self.most_len.store(most_len, Ordering::Relaxed);
    }

    /// Returns what keeps nothing yet.
    pub(crate) fn enter(self: &Arc<Self>) -> Kept {
        Kept {
            room: Arc::clone(self),
            len: 0,
        }
    }
}

impl Kept {
    /// Says how much is kept now.
    ///
    /// # Errors
    ///
    /// Fails if it grew beyond what all may keep together.
    pub(crate) fn set(&mut self, len: usize) -> Result<(), NoRoom> {
        let has_grown = len > self.len;
        let total = self.resize(len);
        let limit = self.room.most_len.load(Ordering::Relaxed);
        if has_grown && total > limit {
            return Err(NoRoom { limit });
        }
        Ok(())
    }

    /// Returns how much all keep, where that has changed.
    fn resize(&mut self, len: usize) -> usize {
        let before = std::mem::replace(&mut self.len, len);
        // The count guards no other memory, so the order of other accesses does not matter.
        let all = &self.room.kept_len;
        if let Some(less) = before.checked_sub(len) {
            // What does not change is left alone, so that streams that pass share nothing.
            return match less {
                0 => 0,
                less => all.fetch_sub(less, Ordering::Relaxed).saturating_sub(less),
            };
        }
        let more = len - before;
        all.fetch_add(more, Ordering::Relaxed).saturating_add(more)
    }

    /// Returns the same bytes, which are counted until the last of their handles is dropped.
    pub(crate) fn hand_on(&mut self, bytes: Bytes) -> Bytes {
        let kept = self.room.enter();
        let mut kept = std::mem::replace(self, kept);
        // They have been counted as they came; what differs now is not worth a failure.
        kept.resize(bytes.len());
        Bytes::from_owner(Counted { bytes, _kept: kept })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.room.kept_len.fetch_sub(self.len, Ordering::Relaxed);
    }
}

struct Counted {
    bytes: Bytes,
    _kept: Kept,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(room: &Room) -> usize {
        room.kept_len.load(Ordering::Relaxed)
    }

    #[test]
    fn what_all_keep_together_is_limited() {
        let room = Room::new(10);
        let (mut one, mut two) = (room.enter(), room.enter());

        assert_eq!(one.set(6), Ok(()));
        assert_eq!(two.set(4), Ok(()));
        assert_eq!(two.set(5), Err(NoRoom { limit: 10 }));
        assert_eq!(one.set(5), Ok(()));
        assert_eq!(kept(&room), 10);
        drop(two);
        assert_eq!(one.set(10), Ok(()));
        room.set_limit(20);
        assert_eq!(one.set(20), Ok(()));
        drop(one);
        assert_eq!(kept(&room), 0);
    }

    #[test]
    fn bytes_that_were_handed_on_count_until_their_reader_has_them() {
        let room = Room::new(10);
        let mut one = room.enter();
        assert_eq!(one.set(8), Ok(()));

        let bytes = one.hand_on(Bytes::from_static(b"12345"));
        drop(one);
        let part = bytes.slice(1..2);
        drop(bytes);

        assert_eq!((kept(&room), part.as_ref()), (5, b"2".as_slice()));
        drop(part);
        assert_eq!(kept(&room), 0);
    }
}
