//! The steps of a section in the order they happen, repetitions unrolled as they are reached.

use std::time::Duration;

use super::{Action, Step};

/// Walks the steps of a section. An endless repetition makes an endless iterator.
#[derive(Debug)]
pub(crate) struct Schedule<'a> {
    levels: Vec<Level<'a>>,
}

#[derive(Debug)]
struct Level<'a> {
    steps: &'a [Step],
    next: usize,
    /// The wait before each round and how many rounds are left (`None`: no end), in a repetition.
    every: Duration,
    rounds: Option<u64>,
}

impl<'a> Schedule<'a> {
    pub(crate) fn new(steps: &'a [Step]) -> Self {
        let whole = Level {
            steps,
            next: 0,
            every: Duration::ZERO,
            rounds: Some(0),
        };
        Self {
            levels: vec![whole],
        }
    }
}

impl<'a> Iterator for Schedule<'a> {
    /// The wait and then what to do.
    type Item = (Duration, &'a Action);

    fn next(&mut self) -> Option<Self::Item> {
        let mut wait = Duration::ZERO;
        loop {
            let level = self.levels.last_mut()?;
            let Some(step) = level.steps.get(level.next) else {
                match &mut level.rounds {
                    Some(0) => {
                        self.levels.pop();
                        continue;
                    }
                    Some(left) => *left -= 1,
                    None => {}
                }
                level.next = 0;
                wait = wait.saturating_add(level.every);
                continue;
            };
            level.next += 1;
            wait = wait.saturating_add(step.delay);
            let Action::Repeat {
                every,
                steps,
                times,
            } = &step.action
            else {
                return Some((wait, &step.action));
            };
            // Starts behind its last step, so that the first round waits like every other.
            self.levels.push(Level {
                steps,
                next: steps.len(),
                every: *every,
                rounds: *times,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Script;

    fn walk(text: &str, most: usize) -> Vec<(f64, String)> {
        let script = Script::parse(text).unwrap();
        Schedule::new(&script.sections[0].steps)
            .take(most)
            .map(|(wait, action)| (wait.as_secs_f64(), action.to_string()))
            .collect()
    }

    #[test]
    fn a_repetition_waits_before_each_round() {
        let steps = walk("+1 ping; repeat 2 { comment; +0.5 ping } x2; eof", 9);

        let expected = [
            (1.0, "ping"),
            (2.0, "comment"),
            (0.5, "ping"),
            (2.0, "comment"),
            (0.5, "ping"),
            (0.0, "eof"),
        ];
        assert_eq!(
            steps,
            expected.map(|(wait, action)| (wait, action.to_owned()))
        );
    }

    #[test]
    fn waits_of_nested_repetitions_add_up() {
        let steps = walk("+1 repeat 2 { repeat 3 { ping } x1 } forever", 2);

        assert_eq!(steps, [(6.0, "ping".to_owned()), (5.0, "ping".to_owned())]);
    }
}
