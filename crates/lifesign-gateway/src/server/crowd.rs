//! Memory that a crowd leaves behind.
//!
//! Allocators keep what a thread freed last for that thread, to hand it out again at once. Of what a
//! crowd held these pieces lie one by one in very many pages, none of which can be given back to the
//! system then. jemalloc looks through what it keeps of a thread only while the thread asks for
//! memory: at a few sizes once for every 64 KiB, if 10 ms have passed since it did. A worker that
//! nobody calls any more asks for none, so it asks for some that it has no use for.

use std::{hint::black_box, time::Duration};

use tokio::time::sleep;

/// How many there are, and were.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// The most there were since the last crowd left.
    most: usize,
}

impl Crowd {
    /// Takes in how many there are now; returns whether a crowd was there, most of whom have left.
    pub(super) fn has_left(&mut self, now: usize) -> bool {
        self.most = self.most.max(now);
        let has_left = self.most >= CROWD && now < self.most / 2;
        if has_left {
            self.most = now;
        }
        has_left
    }
}

/// Has the allocator give back what it keeps of this thread and nobody has asked for since.
pub(super) async fn tidy() {
    for _ in 0..LOOKS {
        drop(black_box(Vec::<u8>::with_capacity(LOOK_LEN_BYTES)));
        sleep(LOOK_EVERY).await;
    }
}

/// Fewer leave little behind.
const CROWD: usize = 16;
/// jemalloc 5.3.1 looks at 4 of 36 sizes at a time, keeps of each a quarter of what lay idle, and at
/// most 200 pieces to begin with: after five times nothing is left.
const LOOKS: u32 = 45;
/// `tcache_gc_incr_bytes` of jemalloc.
const LOOK_LEN_BYTES: usize = 64 * 1024;
/// A little more than jemalloc's own pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(11);

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_crowd_has_left_once_when_fewer_than_half_are_there() {
        let mut crowd = Crowd::default();

        let left = [10, 2, 100, 60, 50, 49, 40, 20, 30, 14, 6, 0].map(|now| crowd.has_left(now));

        let at: Vec<_> = (0..left.len()).filter(|at| left[*at]).collect();
        // At 49 of 100, at 20 of 49, and at 14 of 30; fewer than 16 are none.
        assert_eq!(at, [5, 7, 9]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_looked_at_more_often_than_the_allocator_does() {
        let began = lifesign::clock::now();

        tidy().await;

        assert_eq!(began.elapsed(), LOOK_EVERY * LOOKS);
    }
}
