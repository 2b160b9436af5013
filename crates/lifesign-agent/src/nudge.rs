//! Reminders to a model of what it has left undone: one table of rules.
//!
//! They are for what the model does. What happens to its provider is never a reason for one.

use crate::finish::{is_filtered, is_length};

/// What a rule looks at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Situation<'a> {
    /// Whether the model has answered, or has been given the results of tools.
    pub(crate) moment: Moment,
    /// The answer's text.
    pub(crate) text: &'a str,
    /// Whether anything at all came besides text: thinking.
    pub(crate) has_thought: bool,
    /// Whether there are tools that the model could have called.
    pub(crate) has_tools: bool,
    /// Why the answer ended, as the provider wrote it.
    pub(crate) finish_reason: Option<&'a str>,
    /// The reminder of the host's that is due.
    pub(crate) pinned: Option<&'a str>,
}

/// When rules are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The model has answered without calling a tool.
    #[default]
    Answered,
    /// The tools that it called have answered.
    AfterTools,
}

/// Which reminder it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NudgeRule {
    /// The answer held nothing at all.
    Empty,
    /// The answer was cut at its length limit.
    Length,
    /// The model thought and said nothing.
    NoReply,
    /// The model announced work and ended without doing it.
    EarlyStop,
    /// A reminder of the host's is due.
    Pinned,
}

impl NudgeRule {
    /// Returns the name used in transcripts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Length => "length",
            Self::NoReply => "no_reply",
            Self::EarlyStop => "early_stop",
            Self::Pinned => "pinned",
        }
    }
}

/// A row of the table.
struct Row {
    rule: NudgeRule,
    moment: Moment,
    applies: fn(&Situation<'_>) -> bool,
    /// What the model is told; the host's own words where there are none.
    text: &'static str,
}

/// The rules; the first that applies is used.
const RULES: [Row; 5] = [
    Row {
        rule: NudgeRule::Length,
        moment: Moment::Answered,
        applies: |now| now.finish_reason.is_some_and(is_length),
        text: "Your last message reached the length that one message may have. Go on exactly where \
            it stops, and repeat nothing of it.",
    },
    Row {
        rule: NudgeRule::Empty,
        moment: Moment::Answered,
        applies: |now| now.text.trim().is_empty() && !now.has_thought,
        text: "Your last message was empty. Go on with the task, or say what keeps you from it.",
    },
    Row {
        rule: NudgeRule::NoReply,
        moment: Moment::Answered,
        applies: |now| now.text.trim().is_empty(),
        text: "You have not said anything that the user can read. Give your reply now.",
    },
    Row {
        rule: NudgeRule::EarlyStop,
        moment: Moment::Answered,
        applies: |now| now.has_tools && announces_work(now.text),
        text: "You announced a step and ended before taking it. Take it now; if everything is done, \
            say so.",
    },
    Row {
        rule: NudgeRule::Pinned,
        moment: Moment::AfterTools,
        applies: |now| now.pinned.is_some(),
        text: "",
    },
];

/// Returns the reminder that `now` calls for.
pub(crate) fn find(now: &Situation<'_>) -> Option<(NudgeRule, String)> {
    // What the provider held back the model has not left undone.
    if now.finish_reason.is_some_and(is_filtered) {
        return None;
    }
    let mut rules = RULES.iter().filter(|row| row.moment == now.moment);
    let row = rules.find(|row| (row.applies)(now))?;
    let text = match row.rule {
        NudgeRule::Pinned => now.pinned.unwrap_or_default(),
        _ => row.text,
    };
    Some((row.rule, text.to_owned()))
}

/// Returns whether the last line of `text` announces a step of the model's own.
///
/// An offer or a question waits for the person, so it announces nothing.
fn announces_work(text: &str) -> bool {
    let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) else {
        return false;
    };
    let line = line.trim();
    if line.ends_with('?') {
        return false;
    }
    // A stop inside of a word ends no sentence: `a.rs`.
    let ends = [". ", "! ", "? ", "; "];
    let begins = ends
        .iter()
        .filter_map(|end| Some(line.rfind(end)? + end.len()))
        .max();
    let sentence = line.get(begins.unwrap_or(0)..).unwrap_or_default();
    let sentence = sentence.trim().to_lowercase();
    let sentence = sentence.trim_start_matches(|c: char| !c.is_alphanumeric());
    ANNOUNCEMENTS
        .iter()
        .any(|announcement| sentence.starts_with(announcement))
        && !sentence.contains("if you")
        && !sentence.starts_with("let me know")
}

/// How models begin to tell of what they are about to do.
const ANNOUNCEMENTS: [&str; 12] = [
    "i will now",
    "i'll now",
    "i am going to",
    "i'm going to",
    "let me ",
    "let's ",
    "next, i",
    "now i will",
    "now i'll",
    "now let me",
    "now, let me",
    "first, let me",
];

/// The most reminders in one exchange.
pub(crate) const MOST_NUDGES: u32 = 3;

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn rule(now: &Situation<'_>) -> Option<NudgeRule> {
        find(now).map(|(rule, _)| rule)
    }

    #[test]
    fn each_rule_applies_to_its_own_case_and_a_good_answer_to_none() {
        let good = Situation {
            text: "It is 42.",
            has_tools: true,
            finish_reason: Some("stop"),
            ..Situation::default()
        };
        let with = |text, has_thought, finish_reason| Situation {
            text,
            has_thought,
            finish_reason,
            ..good
        };

        assert_eq!(rule(&good), None);
        assert_eq!(
            rule(&with(" \n", false, Some("stop"))),
            Some(NudgeRule::Empty)
        );
        assert_eq!(
            rule(&with("", true, Some("stop"))),
            Some(NudgeRule::NoReply)
        );
        assert_eq!(
            rule(&with("It is", true, Some("max_tokens"))),
            Some(NudgeRule::Length)
        );
        assert_eq!(
            rule(&with(
                "Fine.\nLet me look at the file:",
                false,
                Some("stop")
            )),
            Some(NudgeRule::EarlyStop)
        );
        let due = Situation {
            moment: Moment::AfterTools,
            pinned: Some("Stay in the directory."),
            text: "",
            ..good
        };
        assert_eq!(
            find(&due),
            Some((NudgeRule::Pinned, "Stay in the directory.".to_owned()))
        );
        assert_eq!(
            rule(&Situation {
                pinned: None,
                ..due
            }),
            None
        );
    }

    #[test]
    fn what_the_provider_held_back_is_no_reason_to_remind_the_model() {
        for reason in ["content_filter", "incomplete:content_filter", "refusal"] {
            for text in ["", "Let me check."] {
                let now = Situation {
                    text,
                    has_tools: true,
                    finish_reason: Some(reason),
                    ..Situation::default()
                };
                assert_eq!(rule(&now), None, "{reason} {text}");
            }
        }
    }

    #[test]
    fn only_announced_work_is_an_early_stop() {
        for announced in [
            "Let me check the tests.",
            "Done with that. Next, I run it.",
            "I'm going to read `a.rs`:",
            "- Now let me write it",
        ] {
            assert!(announces_work(announced), "{announced}");
        }
        for said in [
            "",
            "Let me know what you think.",
            "I will now stop here if you agree.",
            "Should I? Let me ask: shall I delete it?",
            "I let me down.",
            "The tide turns twice a day.",
        ] {
            assert!(!announces_work(said), "{said}");
        }
    }

    #[test]
    fn without_tools_nothing_announced_could_have_been_done() {
        let now = Situation {
            text: "Let me check.",
            ..Situation::default()
        };

        assert_eq!(rule(&now), None);
    }
}
