//! What a turn does where nothing goes wrong, and with tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lifesign::{CallEvent, Wire};
use lifesign_agent::tools::{
    ProgressSink, ToolCall, ToolFuture, ToolProgress, ToolResult, ToolSpec, Toolbox, Toolset,
};
use lifesign_agent::{AgentEvent, Entry, NudgeRule};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Case, Tools, calls};

#[tokio::test]
async fn an_answer_completes_a_turn_and_the_conversation_goes_on() {
    for wire in Wire::ALL {
        let mut played = Case::new("answer \"Good day.\"").wire(wire).play().await;

        assert_eq!(played.outcome(), ("completed", 0));
        assert_eq!(played.report.text, "Good day.");
        assert_eq!(played.report.sentence, None);
        assert_eq!(
            played.short(),
            ["user go", "answer Good day.", "ended completed"]
        );
        played.assert_sound();
        let counts = played.report.counts;
        assert_eq!(
            (counts.turns, counts.rounds, counts.calls, counts.attempts),
            (1, 1, 1, 1)
        );

        let report = played.say("and?").await;
        assert_eq!((report.turn, report.text.as_str()), (2, "Good day."));
        assert!(played.sent(1).to_string().contains("Good day."));
    }
}

#[tokio::test]
async fn pieces_of_the_answer_pass_through_as_they_come() {
    let played = Case::new("text \"Good \"; +0.05 answer \"day.\"")
        .play()
        .await;

    let pieces: Vec<_> = played
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Call(CallEvent::Text(text)) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(pieces.concat(), "Good day.");
    assert!(pieces.len() >= 2, "{pieces:?}");
}

#[tokio::test]
async fn tools_run_and_the_model_goes_on_with_their_results_on_every_wire() {
    for wire in Wire::ALL {
        let tools = Arc::new(Tools::default());
        let script = format!(
            "attempt 1: {}\nattempt 2: answer \"It says hi.\"",
            calls(&[("c1", "look", json!({"say": "hi"}))])
        );

        let played = Case::new(&script).wire(wire).tools(&tools).play().await;

        assert_eq!(
            played.short(),
            [
                "user go",
                "answer [c1]",
                "began c1",
                "ran c1: hi",
                "answer It says hi.",
                "ended completed"
            ],
            "{wire}"
        );
        assert_eq!(tools.asked(), ["c1 look"]);
        played.assert_sound();
        let counts = played.report.counts;
        assert_eq!(
            (counts.rounds, counts.tool_calls, counts.tool_failures),
            (2, 1, 0)
        );
        assert!(
            played
                .events
                .iter()
                .any(|event| matches!(event, AgentEvent::ToolProgress { .. }))
        );
    }
}

#[tokio::test]
async fn tools_that_may_run_side_by_side_do_and_the_others_keep_their_place() {
    let tools = Arc::new(Tools::default());
    let script = format!(
        "attempt 1: {}\nattempt 2: answer \"ok\"",
        calls(&[
            ("c1", "look", json!({"ms": 120, "say": "one"})),
            ("c2", "look", json!({"ms": 20, "say": "two"})),
            ("c3", "write", json!({"ms": 20, "say": "three"})),
            ("c4", "look", json!({"say": "four"})),
        ])
    );

    let played = Case::new(&script).tools(&tools).play().await;

    assert_eq!(
        played.short()[2..10],
        [
            "began c1",
            "began c2",
            "ran c2: two",
            "ran c1: one",
            "began c3",
            "ran c3: three",
            "began c4",
            "ran c4: four"
        ]
    );
    // Whatever ended first, the model reads them in the order in which it asked.
    let sent = played.sent(1);
    let ids: Vec<_> = sent["messages"].as_array().unwrap()[2..]
        .iter()
        .map(|message| message["tool_call_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["c1", "c2", "c3", "c4"]);
    assert!(
        (135..2_000).contains(&played.report.times_ms.tools),
        "{:?}",
        played.report.times_ms
    );
    played.assert_sound();
}

/// A tool that says without end how far it is, from a thread of its own and after its end too.
#[derive(Default)]
struct Flood {
    is_over: Arc<AtomicBool>,
}

impl Toolbox for Flood {
    fn tools(&self) -> Vec<ToolSpec> {
        Tools::default().tools()
    }

    fn call(&self, _: ToolCall, progress: ProgressSink) -> ToolFuture<'_> {
        let is_over = Arc::clone(&self.is_over);
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                progress(ToolProgress {
                    message: Some("x".repeat(1_000)),
                    ..ToolProgress::default()
                });
            }
        });
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            ToolResult::ok("done")
        })
    }
}

/// Each word was kept until it was read, and read before anything else happened: the turn never
/// got on, and its end was not the end.
#[tokio::test]
async fn a_tool_that_floods_its_progress_does_not_hold_the_turn_and_says_nothing_after_its_end() {
    let flood = Arc::new(Flood::default());
    let script = format!(
        "attempt 1: {}\nattempt 2: answer \"ok\"",
        calls(&[("c1", "look", json!({}))])
    );

    let tools = Arc::clone(&flood);
    // It also asserts that nothing follows the end.
    let played = Case::new(&script)
        .with(|builder| builder.tools(tools))
        .play()
        .await;
    flood.is_over.store(true, Ordering::Relaxed);

    assert_eq!(played.outcome(), ("completed", 0));
    let is_progress = |event: &AgentEvent| matches!(event, AgentEvent::ToolProgress { .. });
    let is_end = |event: &AgentEvent| matches!(event, AgentEvent::ToolEnded { .. });
    let last = played.events.iter().rposition(is_progress).unwrap();
    assert!(last < played.events.iter().position(is_end).unwrap());
    played.assert_sound();
}

#[tokio::test]
async fn the_failure_of_a_tool_and_a_tool_that_there_is_not_are_results() {
    let tools = Arc::new(Tools::default());
    let script = format!(
        "attempt 1: {}\nattempt 2: answer \"ok\"",
        calls(&[("c1", "fail", json!({})), ("c2", "fly", json!({}))])
    );

    let played = Case::new(&script).tools(&tools).play().await;

    assert_eq!(played.outcome(), ("completed", 0));
    assert_eq!(
        played.short()[2..5],
        [
            "began c1",
            "ran! c1: it failed",
            "ran! c2: There is no tool `fly`."
        ]
    );
    assert_eq!(tools.asked(), ["c1 fail"]);
    assert_eq!(played.report.counts.tool_failures, 2);
    played.assert_sound();
}

#[tokio::test]
async fn a_model_that_only_calls_tools_is_ended_after_so_many_rounds() {
    let tools = Arc::new(Tools::default());
    let looking = calls(&[("c1", "look", json!({}))]);
    let played = Case::new(&looking)
        .tools(&tools)
        .with(|builder| builder.max_rounds(2))
        .play()
        .await;

    assert_eq!(played.outcome(), ("no_reply", 9));
    assert_eq!(
        (played.code(), played.report.note.as_deref()),
        ("none", None)
    );
    assert_eq!(
        played.report.sentence.as_deref(),
        Some(
            "The model called tools in 2 answers without coming to a reply, which is the most that a \
             turn may have (max_rounds); allow more or ask for less."
        )
    );
    assert_eq!(tools.asked(), ["c1 look", "c1 look"]);
    let short = played.short();
    assert_eq!(
        short[short.len() - 3..],
        [
            "answer [c1]",
            "ran! c1: This call was not run: t",
            "ended no_reply"
        ]
    );
    let counts = played.report.counts;
    assert_eq!(
        (counts.rounds, counts.tool_calls, counts.tool_failures),
        (3, 2, 0)
    );
    played.assert_sound();

    for (most, rounds) in [(2, 2), (0, 3)] {
        let script = format!(
            "attempt 1-{rounds}: {looking}\nattempt {}: answer \"ok\"",
            rounds + 1
        );
        let played = Case::new(&script)
            .tools(&tools)
            .with(move |builder| builder.max_rounds(most))
            .play()
            .await;
        assert_eq!(played.outcome(), ("completed", 0), "{most}");
    }
}

/// What a filter held back was counted as the model's silence, reminders and all.
#[tokio::test]
async fn an_answer_that_the_provider_holds_back_is_not_the_models_silence() {
    let note = "[The last turn ended before its answer was complete: the provider's filter stopped the \
                answer. A reply may still be given if one is owed.]";
    let cases = [
        (
            "role; finish \"content_filter\"; done; eof",
            ("provider_failed", 4),
            "The provider's filter held the answer back; asking in other words may help.",
            "",
        ),
        (
            "text \"And so \"; finish \"content_filter\"; done; eof",
            ("truncated", 3),
            "The provider's filter stopped the answer; what had come is kept.",
            "And so ",
        ),
    ];
    for wire in Wire::ALL {
        for (script, outcome, sentence, text) in cases {
            let played = Case::new(script).wire(wire).play().await;

            assert_eq!(played.outcome(), outcome, "{wire}: {:?}", played.report);
            assert_eq!(played.report.sentence.as_deref(), Some(sentence));
            assert_eq!(played.report.note.as_deref(), Some(note));
            assert_eq!(played.report.text, text);
            let counts = played.report.counts;
            assert_eq!((counts.nudges, counts.attempts, counts.rounds), (0, 1, 1));
            played.assert_sound();
        }
    }
}

#[tokio::test]
async fn an_answer_that_stays_empty_is_no_reply_after_three_reminders() {
    let played = Case::new("answer \"\"").play().await;

    assert_eq!(played.outcome(), ("no_reply", 9));
    assert_eq!(
        (played.report.counts.nudges, played.report.counts.rounds),
        (3, 4)
    );
    assert_eq!(
        played.report.sentence.as_deref(),
        Some("The model ended without a reply; asking again may help.")
    );
    assert_eq!(
        (played.code(), played.report.note.as_deref()),
        ("none", None)
    );
    played.assert_sound();
}

#[tokio::test]
async fn a_model_is_reminded_as_often_as_the_host_wants_and_at_most_three_times() {
    for (wanted, given) in [(0, 0), (1, 1), (9, 3)] {
        let played = Case::new("answer \"\"")
            .with(move |builder| builder.reminders(wanted))
            .play()
            .await;

        assert_eq!(played.outcome(), ("no_reply", 9));
        assert_eq!(played.report.counts.nudges, given);
    }
}

#[tokio::test]
async fn each_reminder_is_for_its_own_case() {
    let cases = [
        ("answer \"\"", NudgeRule::Empty),
        ("think \"hm\"; answer \"\"", NudgeRule::NoReply),
        ("answer \"Let me look at it:\"", NudgeRule::EarlyStop),
        (
            "text \"It is\"; finish \"length\"; done; eof",
            NudgeRule::Length,
        ),
    ];
    for (first, rule) in cases {
        let script = format!("attempt 1: {first}\nattempt 2: answer \" done\"");
        let tools = Arc::new(Tools::default());
        let played = Case::new(&script).tools(&tools).play().await;

        let nudged: Vec<_> = played
            .events
            .iter()
            .filter_map(|event| match event {
                AgentEvent::Nudged { rule, .. } => Some(*rule),
                _ => None,
            })
            .collect();
        assert_eq!(nudged, [rule]);
        assert_eq!(played.outcome(), ("completed", 0), "{rule:?}");
        let expected = match rule {
            NudgeRule::Length => "It is done",
            _ => " done",
        };
        assert_eq!(played.report.text, expected);
        played.assert_sound();
    }
}

#[tokio::test]
async fn an_answer_that_stays_cut_at_its_length_is_truncated_and_nobody_elses_fault() {
    let played = Case::new("text \"and so on \"; finish \"length\"; done; eof")
        .play()
        .await;

    assert_eq!(played.outcome(), ("truncated", 3));
    assert_eq!(played.code(), "none");
    assert_eq!(played.report.text, "and so on ".repeat(4));
    assert_eq!(
        played.report.sentence.as_deref(),
        Some("The answer reached the length that it may have; what had come is kept.")
    );
    played.assert_sound();
}

#[tokio::test]
async fn the_hosts_reminder_comes_after_so_many_rounds_of_tools() {
    let tools = Arc::new(Tools::default());
    let call = calls(&[("c1", "look", json!({}))]);
    let script = format!("attempt 1-4: {call}\nattempt 5: answer \"ok\"");

    let played = Case::new(&script)
        .tools(&tools)
        .with(|builder| builder.pin(2, "Stay in the directory."))
        .play()
        .await;

    assert_eq!(played.report.counts.nudges, 2);
    let last = played.sent(4)["messages"]
        .as_array()
        .unwrap()
        .last()
        .cloned();
    assert_eq!(last.unwrap()["content"], "Stay in the directory.");
    played.assert_sound();
}

#[tokio::test]
async fn a_turn_that_is_stopped_before_it_begins_makes_no_call() {
    let played = Case::new("answer \"ok\"")
        .cancel_when(|event| matches!(event, AgentEvent::Began { .. }))
        .play()
        .await;

    assert_eq!(played.outcome(), ("cancelled", 130));
    assert_eq!(played.standin.requests().len(), 0);
    assert_eq!(played.short().last().unwrap(), "ended cancelled");
}

#[tokio::test]
async fn a_tool_that_is_stopped_is_told_as_unknown_and_the_rest_as_not_run() {
    let tools = Arc::new(Tools::default());
    let script = calls(&[
        ("c1", "look", json!({"say": "hi"})),
        ("c2", "hang", json!({})),
        ("c3", "write", json!({})),
    ]);

    let played = Case::new(&script)
        .tools(&tools)
        .cancel_after(Duration::from_millis(150))
        .play()
        .await;

    assert_eq!(played.outcome(), ("cancelled", 130));
    assert_eq!(
        played.short()[2..],
        [
            "began c1",
            "began c2",
            "ran c1: hi",
            "ran! c2: This call was stopped on",
            "ran! c3: This call was not run.",
            "ended cancelled"
        ]
    );
    assert_eq!(tools.asked(), ["c1 look", "c2 hang"]);
    // Neither the tool that was stopped nor the one that was never asked has failed.
    let counts = played.report.counts;
    assert_eq!((counts.tool_calls, counts.tool_failures), (2, 0));
    played.assert_sound();
}

/// What never reached its tool was counted, and written down, as a call that had run.
#[tokio::test]
async fn a_call_whose_arguments_do_not_fit_is_not_begun() {
    let tools = Arc::new(Tools::default());
    let toolset = Toolset::new()
        .with("the tests", Arc::clone(&tools) as _)
        .unwrap();
    let script = format!(
        "attempt 1: {}\nattempt 2: answer \"ok\"",
        calls(&[("c1", "write", json!([1])), ("c2", "write", json!({}))])
    );
    let played = Case::new(&script)
        .with(|builder| builder.tools(Arc::new(toolset)))
        .play()
        .await;

    assert_eq!(played.outcome(), ("completed", 0), "{:?}", played.report);
    let counts = played.report.counts;
    assert_eq!((counts.tool_calls, counts.tool_failures), (1, 1));
    assert_eq!(tools.asked(), ["c2 write"]);
    let begun: Vec<_> = played
        .entries()
        .iter()
        .filter_map(|entry| match entry {
            Entry::ToolBegan { id, .. } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(begun, ["c2"]);
    let told = played.sent(1)["messages"][2]["content"].to_string();
    assert!(
        told.contains("do not fit its schema, so it was not run"),
        "{told}"
    );
    played.assert_sound();
}
