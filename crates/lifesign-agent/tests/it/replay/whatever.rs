//! Whatever a transcript holds: every wire takes its replay.

use lifesign::{ToolCall, Wire};
use lifesign_agent::{Ended, Entry, TurnOutcome};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{began, call, partial, result, said, transcript, user};
use crate::official;
use crate::wire_rules::assert_accepted;

/// What a model may do in one go, and what may become of it.
#[derive(Clone, Debug)]
enum Step {
    Say {
        wire: usize,
        text: usize,
        thought: bool,
        own_words: bool,
        calls: Vec<(bool, u8)>,
        /// How the wire calls its calls.
        ids: usize,
    },
    BreakOff {
        wire: usize,
        text: usize,
        thought: bool,
        is_gone_on_with: bool,
    },
    Ask {
        text: usize,
    },
    End,
    Resume,
}

fn step() -> impl Strategy<Value = Step> {
    let calls = prop::collection::vec((any::<bool>(), 0_u8..3), 0..3);
    prop_oneof![
        4 => (0_usize..3, 0_usize..3, any::<bool>(), any::<bool>(), calls, 0_usize..4).prop_map(
            |(wire, text, thought, own_words, calls, ids)| {
                Step::Say { wire, text, thought, own_words, calls, ids }
            }
        ),
        2 => (0_usize..3, 0_usize..3, any::<bool>(), any::<bool>()).prop_map(
            |(wire, text, thought, is_gone_on_with)| Step::BreakOff { wire, text, thought, is_gone_on_with }
        ),
        1 => (0_usize..3).prop_map(|text| Step::Ask { text }),
        1 => Just(Step::End),
        1 => Just(Step::Resume),
    ]
}

/// Returns a call as the servers of a wire may call it; those of Chat Completions get back what they
/// said, so theirs is nothing that another of them would refuse.
fn named(wire: usize, ids: usize, number: usize, at: usize, is_whole: bool) -> ToolCall {
    let is_chat = Wire::ALL[wire] == Wire::OPENAI_CHAT;
    let id = match ids {
        0 => format!("c{number}"),
        1 => format!("call_{at}"),
        2 => format!("functions.look:{at}"),
        _ if is_chat => format!("call_{at}"),
        _ => format!("{at}{}", "\u{e4}".repeat(70)),
    };
    let mut call = call(&id, is_whole);
    if ids == 3 && !is_chat {
        call.name = "look at/it".repeat(20);
    }
    call
}

fn entries(steps: Vec<Step>) -> Vec<Entry> {
    let mut entries = vec![user("go")];
    let mut number = 0;
    let mut continues = false;
    for step in steps {
        match step {
            Step::Say {
                wire,
                text,
                thought,
                own_words,
                calls,
                ids,
            } => {
                let of_answer: Vec<ToolCall> = (0..calls.len())
                    .map(|at| named(wire, ids, number + at, at, calls[at].0))
                    .collect();
                number += calls.len();
                let text = ["", " \n", "text"][text];
                let mut answer = said(Wire::ALL[wire], text, thought, &of_answer);
                if !own_words {
                    answer.parts.clear();
                }
                answer.continues = continues;
                entries.push(Entry::Answer(answer));
                for (made, (_, fate)) in of_answer.iter().zip(calls) {
                    if fate > 0 {
                        entries.push(began(&made.id));
                    }
                    if fate > 1 {
                        entries.push(result(&made.id));
                    }
                }
                continues = false;
            }
            Step::BreakOff {
                wire,
                text,
                thought,
                is_gone_on_with,
            } => {
                let text = ["", " \n", "part "][text];
                let mut broken = said(Wire::ALL[wire], text, thought, &[]);
                broken.continues = continues;
                entries.push(partial(broken));
                continues = is_gone_on_with;
            }
            Step::Ask { text } => {
                entries.push(user(["", " \n", "and?"][text]));
                continues = false;
            }
            Step::End => {
                entries.push(Entry::Ended(Ended {
                    turn: 1,
                    outcome: TurnOutcome::Cancelled,
                    note: Some("[note]".to_owned()),
                    wake_at: None,
                }));
                continues = false;
            }
            Step::Resume => entries.push(Entry::Resumed),
        }
    }
    entries
}

proptest! {
    /// Whatever was said by whatever wire, and wherever it broke off, every wire takes the replay.
    #[test]
    fn every_wire_takes_whatever_a_transcript_holds(steps in prop::collection::vec(step(), 0..12)) {
        let talk = transcript(entries(steps));

        for wire in Wire::ALL {
            assert_accepted(&talk, wire);
        }
    }
}

#[test]
fn the_official_clients_have_the_same_words() {
    let mut runner = TestRunner::deterministic();
    let steps = prop::collection::vec(step(), 0..12);
    let mut bodies = Vec::new();
    for _ in 0..200 {
        let steps = steps.new_tree(&mut runner).unwrap().current();
        let talk = transcript(entries(steps));
        bodies.extend(Wire::ALL.map(|wire| (wire, assert_accepted(&talk, wire))));
    }

    official::assert_taken(bodies);
}
