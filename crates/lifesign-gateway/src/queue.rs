//! The order in which calls are let in to one upstream.
//!
//! So many calls run, so many more wait, and whoever comes after those is refused. The keys of
//! callers take turns, so that one busy key does not keep the others waiting; within a key the order
//! is that of arrival. Nothing here waits or wakes: each change returns who was admitted by it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// How many calls may run and wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    /// How many calls run at once.
    pub(crate) concurrency: usize,
    /// How many calls wait; with 0 none ever does.
    pub(crate) queue: usize,
    /// Whether no key takes more than half of the queue, rounded up.
    pub(crate) share_keys: bool,
}

/// The name of a caller's key. All callers without one share the empty name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyName(Arc<str>);

impl KeyName {
    /// Returns the key's name for `name`.
    pub(crate) fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// Returns the name as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place in the line. Places are handed out in rising order and never twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(u64);

/// What became of a call that entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// It runs.
    Admitted,
    /// It waits.
    Waiting(Place),
}

/// Nobody more may wait, or nobody more of this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full")]
pub(crate) struct QueueFull;

/// The calls that run at one upstream, counted, and those that wait for it, in order.
///
/// Whoever can run runs: as long as somebody waits, no slot is free.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    limits: QueueLimits,
    running: usize,
    /// Calls that had been admitted before, gave their slot back and want it again.
    returning: VecDeque<Place>,
    /// One line for each key that waits, the key whose turn it is first. None is empty.
    lines: VecDeque<Line>,
    /// How many calls stand in `lines`.
    standing: usize,
    next_place: u64,
}

#[derive(Clone, Debug)]
struct Line {
    key: KeyName,
    places: VecDeque<Place>,
}

impl Queue {
    /// Returns an empty queue.
    pub(crate) const fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            running: 0,
            returning: VecDeque::new(),
            lines: VecDeque::new(),
            standing: 0,
            next_place: 0,
        }
    }

    /// Lets a call of `key` in, or gives it a place.
    ///
    /// A call that comes back after waiting to retry is let in at the `head`: before all others, and
    /// after those that came back earlier. Newcomers cannot keep it out: besides the queue there are
    /// places for as many returning calls as may run, unless the queue is 0.
    pub(crate) fn enter(&mut self, key: &KeyName, head: bool) -> Result<Entered, QueueFull> {
        if self.has_room() || self.has_place(key, head) {
            Ok(self.join(key, head))
        } else {
            Err(QueueFull)
        }
    }

    /// Lets a call in as [`enter`](Self::enter) does, however many wait already.
    pub(crate) fn join(&mut self, key: &KeyName, head: bool) -> Entered {
        if self.has_room() {
            self.running += 1;
            return Entered::Admitted;
        }
        let place = Place(self.next_place);
        self.next_place += 1;
        if head {
            self.returning.push_back(place);
            return Entered::Waiting(place);
        }
        self.standing += 1;
        if let Some(line) = self.lines.iter_mut().find(|line| line.key == *key) {
            line.places.push_back(place);
        } else {
            self.lines.push_back(Line {
                key: key.clone(),
                places: VecDeque::from([place]),
            });
        }
        Entered::Waiting(place)
    }

    /// Gives up a place. Returns whether a call was waiting at it.
    pub(crate) fn leave(&mut self, key: &KeyName, place: Place) -> bool {
        if let Ok(at) = self.returning.binary_search(&place) {
            self.returning.remove(at);
            return true;
        }
        let Some((line, at)) = self.find(key, place) else {
            return false;
        };
        self.standing -= 1;
        self.lines[line].places.remove(at);
        if self.lines[line].places.is_empty() {
            self.lines.remove(line);
        }
        true
    }

    /// Frees the slot of a call that ran. Returns who runs in its stead.
    pub(crate) fn finish(&mut self) -> Option<Place> {
        self.running = self.running.saturating_sub(1);
        self.admit_next()
    }

    /// Changes the limits. Returns who is admitted by that, in order.
    ///
    /// Lower ones end nothing: who runs or waits goes on, and nobody is let in above them.
    pub(crate) fn set_limits(&mut self, limits: QueueLimits) -> Vec<Place> {
        self.limits = limits;
        std::iter::from_fn(|| self.admit_next()).collect()
    }

    /// Returns the limits in force.
    pub(crate) const fn limits(&self) -> QueueLimits {
        self.limits
    }

    /// Returns how many calls would be admitted before this one, itself included.
    ///
    /// That is as of now: a key that begins to wait takes its turn before the second call of another.
    pub(crate) fn position(&self, key: &KeyName, place: Place) -> Option<usize> {
        if let Ok(at) = self.returning.binary_search(&place) {
            return Some(at + 1);
        }
        let (mine, round) = self.find(key, place)?;
        // Each round admits one call of every line, as long as the line has one.
        let before = self
            .lines
            .iter()
            .enumerate()
            .map(|(line, Line { places, .. })| {
                let rounds = if line < mine { round + 1 } else { round };
                places.len().min(rounds)
            });
        Some(self.returning.len() + before.sum::<usize>() + 1)
    }

    /// Returns how many calls run.
    pub(crate) const fn running(&self) -> usize {
        self.running
    }

    /// Returns how many calls wait.
    pub(crate) fn waiting(&self) -> usize {
        self.returning.len() + self.standing
    }

    /// Returns whether a call that enters now would run at once.
    pub(crate) fn has_room(&self) -> bool {
        self.running < self.limits.concurrency && self.waiting() == 0
    }

    fn has_place(&self, key: &KeyName, head: bool) -> bool {
        let QueueLimits {
            concurrency,
            queue,
            share_keys,
        } = self.limits;
        if head {
            return queue > 0 && self.returning.len() < concurrency;
        }
        if self.standing >= queue {
            return false;
        }
        let of_key = || {
            let line = self.lines.iter().find(|line| line.key == *key);
            line.map_or(0, |line| line.places.len())
        };
        !share_keys || of_key() < queue.div_ceil(2)
    }

    fn admit_next(&mut self) -> Option<Place> {
        if self.running >= self.limits.concurrency {
            return None;
        }
        let place = match self.returning.pop_front() {
            Some(place) => place,
            None => self.next_in_turn()?,
        };
        self.running += 1;
        Some(place)
    }

    fn next_in_turn(&mut self) -> Option<Place> {
        let mut line = self.lines.pop_front()?;
        let place = line.places.pop_front()?;
        self.standing -= 1;
        if !line.places.is_empty() {
            self.lines.push_back(line);
        }
        Some(place)
    }

    /// Returns which line of `key` holds `place`, and where in it.
    fn find(&self, key: &KeyName, place: Place) -> Option<(usize, usize)> {
        let line = self.lines.iter().position(|line| line.key == *key)?;
        let at = self.lines[line].places.binary_search(&place).ok()?;
        Some((line, at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn limits(concurrency: usize, queue: usize) -> QueueLimits {
        QueueLimits {
            concurrency,
            queue,
            share_keys: false,
        }
    }

    fn key(name: &str) -> KeyName {
        KeyName::new(name)
    }

    /// Lets a call in that is expected to wait.
    fn wait(queue: &mut Queue, name: &str, head: bool) -> Place {
        match queue.enter(&key(name), head) {
            Ok(Entered::Waiting(place)) => place,
            other => panic!("{name} does not wait: {other:?}"),
        }
    }

    #[test]
    fn calls_run_then_wait_then_are_refused() {
        let mut queue = Queue::new(limits(1, 1));

        assert!(queue.has_room());
        assert_eq!(queue.enter(&key("a"), false), Ok(Entered::Admitted));
        assert!(!queue.has_room());
        let second = wait(&mut queue, "a", false);
        assert_eq!(queue.enter(&key("b"), false), Err(QueueFull));

        assert_eq!(queue.finish(), Some(second));
        assert_eq!(queue.finish(), None);
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }

    #[test]
    fn a_queue_of_none_lets_nobody_wait_whoever_it_is() {
        let mut queue = Queue::new(limits(1, 0));

        assert_eq!(queue.enter(&key("a"), true), Ok(Entered::Admitted));
        assert_eq!(queue.enter(&key("a"), false), Err(QueueFull));
        assert_eq!(queue.enter(&key("a"), true), Err(QueueFull));
    }

    #[test]
    fn keys_take_turns_and_each_keeps_its_order() {
        let mut queue = Queue::new(limits(1, 8));
        assert_eq!(queue.enter(&key("a"), false), Ok(Entered::Admitted));
        let a: Vec<Place> = (0..3).map(|_| wait(&mut queue, "a", false)).collect();
        let b: Vec<Place> = (0..2).map(|_| wait(&mut queue, "b", false)).collect();

        let admitted: Vec<Place> = std::iter::from_fn(|| queue.finish()).collect();

        assert_eq!(admitted, [a[0], b[0], a[1], b[1], a[2]]);
    }

    #[test]
    fn where_keys_share_none_takes_more_than_half_rounded_up() {
        for (size, share) in [(1, 1), (4, 2), (5, 3)] {
            let mut queue = Queue::new(QueueLimits {
                share_keys: true,
                ..limits(1, size)
            });
            assert_eq!(queue.enter(&key("a"), false), Ok(Entered::Admitted));

            for _ in 0..share {
                wait(&mut queue, "a", false);
            }
            assert_eq!(queue.enter(&key("a"), false), Err(QueueFull), "{size}");
            for _ in share..size {
                wait(&mut queue, "b", false);
            }
            assert_eq!(queue.enter(&key("c"), false), Err(QueueFull), "{size}");
        }
    }

    #[test]
    fn a_call_that_comes_back_is_first_even_where_newcomers_fill_the_queue() {
        let mut queue = Queue::new(limits(2, 1));
        for _ in 0..2 {
            assert_eq!(queue.enter(&key("a"), false), Ok(Entered::Admitted));
        }
        let newcomer = wait(&mut queue, "a", false);

        let back = wait(&mut queue, "b", true);
        let later = wait(&mut queue, "a", true);

        assert_eq!(queue.enter(&key("c"), true), Err(QueueFull));
        assert_eq!(queue.position(&key("b"), back), Some(1));
        assert_eq!(queue.position(&key("a"), later), Some(2));
        assert_eq!(queue.position(&key("a"), newcomer), Some(3));
        assert_eq!(queue.finish(), Some(back));
        assert_eq!(queue.finish(), Some(later));
        assert_eq!(queue.finish(), Some(newcomer));
    }

    #[test]
    fn leaving_frees_the_place_at_once() {
        let mut queue = Queue::new(limits(1, 2));
        assert_eq!(queue.enter(&key("a"), false), Ok(Entered::Admitted));
        let first = wait(&mut queue, "a", false);
        let second = wait(&mut queue, "b", false);
        assert_eq!(queue.enter(&key("a"), false), Err(QueueFull));

        assert!(queue.leave(&key("a"), first));

        assert!(!queue.leave(&key("a"), first));
        assert_eq!(queue.position(&key("b"), second), Some(1));
        let third = wait(&mut queue, "a", false);
        assert_eq!(queue.finish(), Some(second));
        assert_eq!(queue.finish(), Some(third));
    }

    #[test]
    fn lowered_limits_drain_and_raised_ones_admit_at_once() {
        let mut queue = Queue::new(limits(3, 3));
        for _ in 0..3 {
            assert_eq!(queue.enter(&key("a"), false), Ok(Entered::Admitted));
        }
        let waiting: Vec<Place> = (0..3).map(|_| wait(&mut queue, "a", false)).collect();

        assert_eq!(queue.set_limits(limits(1, 1)), []);
        assert_eq!((queue.running(), queue.waiting()), (3, 3));
        assert_eq!(queue.finish(), None);
        assert_eq!(queue.finish(), None);
        assert_eq!(queue.enter(&key("a"), false), Err(QueueFull));
        assert_eq!(queue.finish(), Some(waiting[0]));

        assert_eq!(queue.set_limits(limits(3, 1)), waiting[1..]);
        assert_eq!((queue.running(), queue.waiting()), (3, 0));
    }

    /// The queue as one would write it who need not be quick.
    #[derive(Clone, Debug)]
    struct Model {
        limits: QueueLimits,
        running: usize,
        /// Everyone who waits, in order of arrival: place, key and whether at the head.
        waiting: Vec<(Place, KeyName, bool)>,
        /// The keys that wait other than at the head, in the order of their turns.
        turns: Vec<KeyName>,
    }

    impl Model {
        fn enter(&mut self, key: &KeyName, head: bool, place: Place) -> Result<Entered, QueueFull> {
            if self.waiting.is_empty() && self.running < self.limits.concurrency {
                self.running += 1;
                return Ok(Entered::Admitted);
            }
            let heads = self.waiting.iter().filter(|(_, _, head)| *head).count();
            let same = |(_, other, head): &&(Place, KeyName, bool)| !head && other == key;
            let of_key = self.waiting.iter().filter(same).count();
            let fits = if head {
                self.limits.queue > 0 && heads < self.limits.concurrency
            } else {
                self.waiting.len() - heads < self.limits.queue
                    && (!self.limits.share_keys || 2 * of_key < self.limits.queue)
            };
            if !fits {
                return Err(QueueFull);
            }
            if !head && !self.turns.contains(key) {
                self.turns.push(key.clone());
            }
            self.waiting.push((place, key.clone(), head));
            Ok(Entered::Waiting(place))
        }

        fn leave(&mut self, at: usize) {
            let (_, key, head) = self.waiting.remove(at);
            let rest = |(_, other, head): &(Place, KeyName, bool)| !head && *other == key;
            if !head && !self.waiting.iter().any(rest) {
                self.turns.retain(|other| *other != key);
            }
        }

        fn admit(&mut self) -> Vec<Place> {
            let mut admitted = Vec::new();
            while self.running < self.limits.concurrency && !self.waiting.is_empty() {
                let head = self.waiting.iter().position(|(_, _, head)| *head);
                let at = head.unwrap_or_else(|| {
                    let key = self.turns.remove(0);
                    self.turns.push(key.clone());
                    let first = self.waiting.iter().position(|(_, other, _)| *other == key);
                    first.unwrap()
                });
                admitted.push(self.waiting[at].0);
                self.leave(at);
                self.running += 1;
            }
            admitted
        }

        fn order(&self) -> Vec<Place> {
            let mut later = self.clone();
            later.limits.concurrency = usize::MAX;
            later.admit()
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Enter { key: &'static str, head: bool },
        Finish,
        Leave(prop::sample::Index),
        SetLimits(QueueLimits),
    }

    fn any_limits() -> impl Strategy<Value = QueueLimits> {
        (0_usize..4, 0_usize..7, any::<bool>()).prop_map(|(concurrency, queue, share_keys)| {
            QueueLimits {
                concurrency,
                queue,
                share_keys,
            }
        })
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let key = prop::sample::select(vec!["a", "b", "c"]);
        prop_oneof![
            6 => (key, prop::bool::weighted(0.2)).prop_map(|(key, head)| Step::Enter { key, head }),
            3 => Just(Step::Finish),
            1 => any::<prop::sample::Index>().prop_map(Step::Leave),
            1 => any_limits().prop_map(Step::SetLimits),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(512)
        })]

        #[test]
        fn the_queue_does_as_its_model_does(
            limits in any_limits(),
            steps in prop::collection::vec(any_step(), 0..80),
        ) {
            let mut queue = Queue::new(limits);
            let mut model = Model { limits, running: 0, waiting: Vec::new(), turns: Vec::new() };

            for step in steps {
                match step {
                    Step::Enter { key: name, head } => {
                        let place = Place(queue.next_place);
                        let expected = model.enter(&key(name), head, place);
                        prop_assert_eq!(queue.enter(&key(name), head), expected);
                    }
                    Step::Finish if model.running == 0 => {}
                    Step::Finish => {
                        model.running -= 1;
                        let admitted: Vec<Place> = queue.finish().into_iter().collect();
                        prop_assert_eq!(admitted, model.admit());
                    }
                    Step::Leave(_) if model.waiting.is_empty() => {}
                    Step::Leave(index) => {
                        let at = index.index(model.waiting.len());
                        let (place, key, _) = model.waiting[at].clone();
                        model.leave(at);
                        prop_assert!(queue.leave(&key, place));
                    }
                    Step::SetLimits(limits) => {
                        model.limits = limits;
                        prop_assert_eq!(queue.set_limits(limits), model.admit());
                    }
                }

                prop_assert_eq!(queue.running(), model.running);
                prop_assert_eq!(queue.waiting(), model.waiting.len());
                let order = model.order();
                for (place, key, _) in &model.waiting {
                    let position = order.iter().position(|other| other == place);
                    prop_assert_eq!(queue.position(key, *place), position.map(|at| at + 1));
                }
            }
        }
    }
}
