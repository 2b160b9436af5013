//! Answers that break off, and what goes on from them.

use std::sync::Arc;

use lifesign::{CallEvent, Wire};
use lifesign_agent::AgentEvent;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Case, Tools, assert_ended, calls};

/// Four answers that break off, each further on.
fn four_times(ending: &str) -> String {
    let words = ["one", "two", "three", "four"];
    let answers = words.iter().enumerate().map(|(at, word)| {
        format!(
            "attempt {}: status 200 sse; text \"{word} \"; {ending}\n",
            at + 1
        )
    });
    answers.collect::<String>() + "attempt 5: answer \"ok\""
}

#[tokio::test]
async fn content_then_silence_is_gone_on_with_on_every_wire() {
    for wire in Wire::ALL {
        let script = "attempt 1: status 200 sse; text \"The tide turns \"; hold\n\
                      attempt 2: answer \"twice a day.\"";
        let played = Case::new(script).wire(wire).play().await;

        assert_eq!(played.outcome(), ("completed", 0), "{wire}");
        assert_eq!(played.report.text, "The tide turns twice a day.");
        assert_eq!(
            played.short(),
            [
                "user go",
                "partial The tide turns ",
                "answer ... twice a day.",
                "ended completed"
            ]
        );
        let counts = played.report.counts;
        assert_eq!((counts.recoveries, counts.calls, counts.rounds), (1, 2, 1));
        assert_eq!((counts.nudges, counts.turns), (0, 1));
        played.assert_sound();
        // Nobody has said that anything broke off; what was sent for it is not kept.
        assert!(!played.short().concat().contains("not complete"));
    }
}

#[tokio::test]
async fn anthropic_is_given_the_partial_to_go_on_from_and_the_others_are_asked() {
    let script = "attempt 1: status 200 sse; text \"The tide turns \"; cut\n\
                  attempt 2: answer \" twice\"";
    let sent = async |wire| {
        let played = Case::new(script).wire(wire).play().await;
        assert_eq!(played.report.text, "The tide turns twice", "{wire}");
        played.sent(1)
    };

    let last = |body: Value| body["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        last(sent(Wire::ANTHROPIC).await),
        json!({"role": "assistant", "content": "The tide turns"})
    );
    let asked = last(sent(Wire::OPENAI_CHAT).await);
    assert_eq!(asked["role"], "user");
    let asked = asked["content"].as_str().unwrap().to_owned();
    assert!(
        asked.starts_with("Your last message is not complete."),
        "{asked}"
    );
    // Whose fault that was is not the model's business.
    assert!(!asked.contains("connection"), "{asked}");
}

#[tokio::test]
async fn a_prefill_that_is_refused_becomes_a_request_from_then_on() {
    let refused = "status 400 json; error invalid_request_error \"no prefill\"; eof";
    let script = format!(
        "attempt 1: status 200 sse; text \"The tide \"; cut\n\
         attempt 2: {refused}\n\
         attempt 3: status 200 sse; text \"turns \"; cut\n\
         attempt 4: answer \"twice.\""
    );

    let played = Case::new(&script).wire(Wire::ANTHROPIC).play().await;

    assert_eq!(played.outcome(), ("completed", 0));
    assert_eq!(played.report.text, "The tide turns twice.");
    assert_eq!(played.report.counts.recoveries, 2);
    for at in [2, 3] {
        let body = played.sent(at);
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["role"], "user", "{body}");
    }
    played.assert_sound();
}

#[tokio::test]
async fn a_repetition_at_the_seam_is_left_out_of_what_is_kept() {
    let script = "attempt 1: status 200 sse; text \"The tide turns twice\"; cut\n\
                  attempt 2: answer \"The tide turns twice a day.\"";
    let played = Case::new(script).play().await;

    assert_eq!(played.report.text, "The tide turns twice a day.");
    let overlaps: Vec<_> = played
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Recovered { overlap } => Some(*overlap),
            _ => None,
        })
        .collect();
    assert_eq!(overlaps, [20]);
    // Nor has whoever read along read it twice.
    let read: String = played
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Call(CallEvent::Text(text)) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(read, "The tide turns twice a day.");
    played.assert_sound();
}

#[tokio::test]
async fn content_then_silence_again_and_again_ends_after_three_recoveries() {
    let mut played = Case::new(&four_times("hold")).play().await;

    assert_ended(
        &played,
        ("provider_failed", 5),
        "raw_silent",
        "the call timed out in the middle of the answer; nothing came after that.",
        "The model's server went quiet for 150 ms in the middle of the answer; what had come is kept",
    );
    assert_eq!(
        played.short(),
        [
            "user go",
            "partial one ",
            "partial ... two ",
            "partial ... three ",
            "partial ... four ",
            "ended provider_failed"
        ]
    );
    assert_eq!(played.report.text, "one two three four ");
    let counts = played.report.counts;
    assert_eq!(
        (counts.recoveries, counts.calls, counts.attempts),
        (3, 4, 4)
    );

    played.say("well?").await;
    let next = played.sent(4)["messages"].as_array().unwrap()[2]["content"].clone();
    let next = next.as_str().unwrap();
    assert!(next.starts_with("[The last turn ended"), "{next}");
    assert!(next.ends_with("\n\nwell?"), "{next}");
}

#[tokio::test]
async fn a_tool_call_cut_in_half_is_never_run() {
    for wire in Wire::ALL {
        let tools = Arc::new(Tools::default());
        let half = json!({
            "index": 0, "id": "c1", "type": "function",
            "function": {"name": "write", "arguments": "{\"say\":\"o"},
        });
        let whole = calls(&[("c2", "write", json!({"say": "ok"}))]);
        let script = format!(
            "attempt 1: status 200 sse; text \"I write. \"; tool {half}; cut\n\
             attempt 2: {whole}\nattempt 3: answer \"Written.\""
        );

        let played = Case::new(&script).wire(wire).tools(&tools).play().await;

        assert_eq!(played.outcome(), ("completed", 0), "{wire}");
        assert_eq!(tools.asked(), ["c2 write"]);
        assert_eq!(
            played.short()[1..4],
            ["partial I write. [c1]", "answer ... [c2]", "began c2"]
        );
        assert_eq!(played.report.counts.recoveries, 1);
        played.assert_sound();
    }
}

#[tokio::test]
async fn a_partial_then_a_reset() {
    let played = Case::new(&four_times("rst")).play().await;

    assert_ended(
        &played,
        ("truncated", 8),
        "connection_lost",
        "the connection to the model's server was lost in the middle of the answer.",
        "The connection broke in the middle of the answer; what had come is kept",
    );
    assert_eq!(played.report.counts.recoveries, 3);
    assert_eq!(played.report.text, "one two three four ");
}

#[tokio::test]
async fn an_error_after_content_is_no_stall_and_ends_the_turn_with_what_had_come() {
    let played = Case::new("status 200 sse; text \"and \"; error server_error; eof")
        .play()
        .await;

    assert_eq!(played.outcome(), ("provider_failed", 4));
    assert_eq!(
        played.short(),
        ["user go", "partial and ", "ended provider_failed"]
    );
    assert_eq!(played.report.counts.recoveries, 0);
    played.assert_sound();
}

#[tokio::test]
async fn thinking_that_broke_off_is_kept_and_not_sent_to_a_wire_that_verifies_it() {
    let script = "attempt 1: m.start; m.block 0 thinking; m.think 0 \"hm\"; cut\n\
                  attempt 2: answer \"42\"";
    let played = Case::new(script).wire(Wire::ANTHROPIC).play().await;

    assert_eq!(played.outcome(), ("completed", 0));
    assert_eq!(
        played.short(),
        ["user go", "partial ", "answer ... 42", "ended completed"]
    );
    assert!(
        !played.sent(1).to_string().contains("hm"),
        "{}",
        played.sent(1)
    );
    let written = serde_json::to_string(played.entries()).unwrap();
    assert!(written.contains("\"reasoning\":\"hm\""), "{written}");
    assert_eq!(played.report.counts.recoveries, 1);
    played.assert_sound();
}
