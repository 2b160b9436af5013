//! What a turn does where the provider fails: for each case the transcript, the counts, what the
//! model is told, what the person is told, and the exit code.

use std::sync::Arc;
use std::time::Duration;

use lifesign::{CallEvent, Wire};
use lifesign_agent::{AgentEvent, Alert, Purpose, Resend};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::{Case, Played, Tools, calls};

/// Heartbeats without end, so that the flat bound cuts.
const PINGS: &str = "status 200 sse; repeat 0.03 { comment } forever";

fn flat(case: Case) -> Case {
    case.set("bounds.flat", "150ms")
        .set("bounds.raw_silence", "5s")
}

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

/// Asserts how a turn ended.
#[track_caller]
fn assert_ended(played: &Played, outcome: (&str, u8), code: &str, note: &str, sentence: &str) {
    assert_eq!(played.outcome(), outcome, "{:?}", played.report);
    assert_eq!(played.code(), code);
    let said = played.report.note.as_deref().unwrap_or_default();
    let expected = format!(
        "[The last turn ended before its answer was complete: {note} A reply may still be given \
         if one is owed.]"
    );
    assert_eq!(said, if note.is_empty() { "" } else { &expected });
    let told = played.report.sentence.as_deref().unwrap_or_default();
    assert!(told.starts_with(sentence) && !told.is_empty(), "{told}");
    played.assert_sound();
}

#[tokio::test]
async fn no_raw_progress_before_content() {
    let played = Case::new("status 200 sse; hold").play().await;

    assert_ended(
        &played,
        ("provider_failed", 5),
        "raw_silent",
        "the call timed out; nothing came. The call was made again and failed again.",
        "The model's server went quiet for 150 ms",
    );
    assert_eq!(played.short(), ["user go", "ended provider_failed"]);
    let counts = played.report.counts;
    assert_eq!((counts.calls, counts.attempts, counts.rounds), (1, 3, 0));
    assert_eq!(
        (counts.heartbeats, counts.recoveries, counts.nudges),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn pings_and_no_semantic_event() {
    let played = flat(Case::new(PINGS)).play().await;

    assert_ended(
        &played,
        ("provider_failed", 5),
        "heartbeats_only",
        "the call timed out; only heartbeats came. The call was made again and failed again.",
        "The line to the model's server was alive for 150 ms, but no answer came over it",
    );
    assert_eq!(played.short(), ["user go", "ended provider_failed"]);
    let counts = played.report.counts;
    assert_eq!((counts.calls, counts.attempts), (1, 2));
    assert!(counts.heartbeats >= 6, "{counts:?}");
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

    let body = sent(Wire::ANTHROPIC).await;
    let last = body["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        last,
        json!({"role": "assistant", "content": "The tide turns"})
    );
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
async fn a_provider_error_before_content() {
    let failing = "status 500 json; error server_error \"Out of cheese\"; eof";
    let played = Case::new(failing).play().await;

    assert_ended(
        &played,
        ("provider_failed", 4),
        "provider_error",
        "the model's server reported a fault of its own (Out of cheese). The call was made again \
         and failed again.",
        "The model's server had a fault of its own",
    );
    assert_eq!(played.short(), ["user go", "ended provider_failed"]);
    assert_eq!(played.report.counts.attempts, 3);

    let script = format!("attempt 1: {failing}\nattempt 2: answer \"ok\"");
    let played = Case::new(&script).play().await;
    assert_eq!(played.outcome(), ("completed", 0));
    assert_eq!(played.report.counts.attempts, 2);
    played.assert_sound();
}

#[tokio::test]
async fn a_retry_budget_that_is_exhausted() {
    let script = "attempt 1: status 529 json; error overloaded_error \"Overloaded\"; eof\n\
                  attempt 2+: status 503 json; error overloaded_error \"Overloaded\"; eof";
    let played = Case::new(script).play().await;

    assert_ended(
        &played,
        ("provider_failed", 4),
        "overloaded",
        "the model's server was overloaded. The call was made again and failed again.",
        "The model's server has more to do than it can",
    );
    assert_eq!(played.report.counts.attempts, 7);
    assert_eq!(played.report.counts.resends, 0);
    assert!(played.report.times_ms.waiting >= 10 + 20 + 40 + 80 + 160 + 300);
}

#[tokio::test]
async fn a_wall_clock_that_expires() {
    let case = Case::new("status 200 sse; repeat 0.03 { text \"x\" } forever");
    let played = case
        .with(|builder| builder.wall_clock(Duration::from_millis(300)))
        .play()
        .await;

    assert_ended(
        &played,
        ("wall_timeout", 6),
        "wall_clock",
        "the time allowed for the turn ran out.",
        "The 300 ms you allowed ran out while the answer was still coming",
    );
    assert_eq!(played.short().len(), 3);
    assert!(
        played.report.text.starts_with("xxx"),
        "{}",
        played.report.text
    );
    assert!((300..2_000).contains(&played.report.times_ms.elapsed));
    assert!(
        played.report.times_ms.working >= 150,
        "{:?}",
        played.report.times_ms
    );
}

#[tokio::test]
async fn a_wall_clock_that_expires_while_a_tool_runs() {
    let tools = Arc::new(Tools::default());
    let played = Case::new(&calls(&[("c1", "hang", json!({}))]))
        .tools(&tools)
        .with(|builder| builder.wall_clock(Duration::from_millis(300)))
        .play()
        .await;

    assert_ended(
        &played,
        ("wall_timeout", 6),
        "wall_clock",
        "the time allowed for the turn ran out.",
        "The 300 ms you allowed ran out",
    );
    assert_eq!(
        played.short()[2..],
        [
            "began c1",
            "ran! c1: This call was stopped wh",
            "ended wall_timeout"
        ]
    );
    assert!(
        played.report.times_ms.tools >= 150,
        "{:?}",
        played.report.times_ms
    );
}

#[tokio::test]
async fn a_storm_of_429() {
    let script = "status 429 json [retry-after-ms: 20]; error rate_limit_error \"Slow down, you \
                  are over 5 per minute\"; eof";
    let played = Case::new(script).play().await;

    assert_ended(
        &played,
        ("provider_failed", 7),
        "rate_limited",
        "requests came faster than the provider allows (Slow down, you are over 5 per minute). The \
         call was made again and failed again.",
        "Requests came faster than the provider allows",
    );
    assert_eq!(played.short(), ["user go", "ended provider_failed"]);
    assert_eq!(played.report.counts.attempts, 6);
    assert_eq!(played.report.wake_at, None);
}

#[tokio::test]
async fn a_429_with_a_long_wait_is_a_scheduled_wake_and_an_alert_above_an_hour() {
    for (seconds, alerts) in [(600, 0), (7_200, 1)] {
        let script = format!(
            "attempt 1: status 429 json [retry-after: {seconds}]; error rate_limit_error \"Rate limit error\"; eof\n\
             attempt 2: answer \"ok\""
        );
        let mut played = Case::new(&script).play().await;

        assert_ended(
            &played,
            ("provider_failed", 7),
            "exhausted",
            "the provider takes no more requests for a while.",
            "Requests came faster than the provider allows, and it takes no more until",
        );
        assert!(played.report.wake_at.is_some());
        assert!(played.report.times_ms.elapsed < 2_000, "the task was held");
        let told = |event: &&AgentEvent| {
            matches!(event, AgentEvent::Alert(Alert::LongWait { wait, .. })
                if wait.as_secs() >= 7_000)
        };
        assert_eq!(played.events.iter().filter(told).count(), alerts);
        let scheduled = |event: &AgentEvent| matches!(event, AgentEvent::WakeScheduled { .. });
        assert!(played.events.iter().any(scheduled));

        // A client of its own knows nothing of the hold, as after a restart.
        let report = played.resume_elsewhere().await;
        assert_eq!((report.outcome.name(), report.turn), ("completed", 1));
        assert_eq!(
            played.short(),
            [
                "user go",
                "ended provider_failed",
                "resumed",
                "answer ok",
                "ended completed"
            ]
        );
    }
}

#[tokio::test]
async fn an_overload_with_a_long_wait_is_a_wake_and_is_not_sent_again_before() {
    let script = "status 503 json [retry-after: 600]; error overloaded_error; eof";
    let played = Case::new(script)
        .with(|builder| builder.policy(Arc::new(Resend::default())))
        .play()
        .await;

    assert_eq!(played.outcome(), ("provider_failed", 4));
    assert_eq!(played.code(), "overloaded");
    assert!(played.report.wake_at.is_some());
    assert_eq!(
        (played.report.counts.resends, played.report.counts.attempts),
        (0, 1)
    );
    played.assert_sound();
}

#[tokio::test]
async fn cut_twice() {
    let script = format!("attempt 1-2: {PINGS}\nattempt 3: answer \"too late\"");
    let played = flat(Case::new(&script)).play().await;

    assert_eq!(played.outcome(), ("provider_failed", 5));
    assert_eq!(played.report.counts.attempts, 2);
    assert_eq!(played.short(), ["user go", "ended provider_failed"]);
    played.assert_sound();
}

#[tokio::test]
async fn cut_then_another_failure_then_cut() {
    let script = format!(
        "attempt 1: {PINGS}\nattempt 2: status 500 json; error server_error; eof\n\
         attempt 3: {PINGS}\nattempt 4: answer \"here\""
    );
    let played = flat(Case::new(&script)).play().await;

    assert_eq!(played.outcome(), ("completed", 0));
    assert_eq!(
        (played.report.counts.attempts, played.report.counts.calls),
        (4, 1)
    );
    played.assert_sound();
}

#[tokio::test]
async fn cut_then_a_refusal_that_is_sent_again_then_cut() {
    let script = format!(
        "attempt 1: {PINGS}\nattempt 2: status 429 json; error rate_limit_error; eof\n\
         attempt 3: {PINGS}\nattempt 4: answer \"too late\""
    );
    let played = flat(Case::new(&script)).play().await;

    assert_eq!(played.outcome(), ("provider_failed", 5));
    assert_eq!(played.report.counts.attempts, 3);
    played.assert_sound();
}

#[tokio::test]
async fn a_new_turn_begins_the_count_of_cuts_anew() {
    let script = format!("attempt 1-3: {PINGS}\nattempt 4: answer \"here\"");
    let mut played = flat(Case::new(&script)).play().await;
    assert_eq!(played.report.counts.attempts, 2);

    let report = played.say("again").await;

    assert_eq!(
        (report.outcome.name(), report.counts.attempts),
        ("completed", 2)
    );
}

#[tokio::test]
async fn a_turn_that_is_stopped_takes_its_count_of_cuts_with_it() {
    let script = format!("attempt 1-2: {PINGS}\nattempt 3: answer \"here\"");
    let is_cut = |event: &AgentEvent| matches!(event, AgentEvent::Call(CallEvent::Retrying { .. }));
    let mut played = flat(Case::new(&script)).cancel_when(is_cut).play().await;
    assert_eq!(played.outcome(), ("cancelled", 130));
    assert_eq!(played.report.counts.attempts, 1);

    let report = played.say("again").await;

    // One cut before it was stopped and one after: counted together, they would have been the end.
    assert_eq!(
        (report.outcome.name(), report.counts.attempts),
        ("completed", 2)
    );
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

#[tokio::test]
async fn a_turn_is_sent_again_once_its_attempts_are_used_up_where_that_is_wanted() {
    let failing = "status 500 json; error server_error; eof";
    let script = format!("attempt 1-6: {failing}\nattempt 7: answer \"at last\"");
    let waits = vec![Duration::from_millis(120), Duration::from_millis(120)];
    let played = Case::new(&script)
        .with(|builder| builder.policy(Arc::new(Resend(waits))))
        .play()
        .await;

    assert_eq!(played.outcome(), ("completed", 0));
    let counts = played.report.counts;
    assert_eq!(
        (counts.resends, counts.calls, counts.attempts, counts.turns),
        (2, 3, 7, 1)
    );
    assert!(
        played.report.times_ms.waiting >= 240,
        "{:?}",
        played.report.times_ms
    );
    assert_eq!(
        played.short(),
        ["user go", "answer at last", "ended completed"]
    );
    played.assert_sound();
}

#[tokio::test]
async fn a_turn_that_was_sent_again_gets_no_fresh_call_for_a_cut() {
    let failing = "status 500 json; error server_error; eof";
    let script = format!("attempt 1-3: {failing}\nattempt 4: {PINGS}\nattempt 5: answer \"no\"");
    let waits = vec![Duration::from_millis(10); 3];
    let played = flat(Case::new(&script))
        .with(|builder| builder.policy(Arc::new(Resend(waits))))
        .play()
        .await;

    assert_eq!(played.outcome(), ("provider_failed", 5));
    assert_eq!(
        (played.report.counts.resends, played.report.counts.attempts),
        (1, 4)
    );
    played.assert_sound();
}

#[tokio::test]
async fn a_compaction_that_hangs_is_given_up_at_its_bound_and_old_results_are_left_out() {
    let tools = Arc::new(Tools::default());
    let look = |id: &str| calls(&[(id, "look", json!({"say": "x".repeat(1_000)}))]);
    let script = format!(
        "attempt 1: {}\nattempt 2: {}\nattempt 3: {}\nattempt 4: hold\nattempt 5: answer \"ok\"",
        look("c1"),
        look("c2"),
        look("c3")
    );
    let played = Case::new(&script)
        .tools(&tools)
        .set("bounds.whole_call", "200ms")
        .set("bounds.headers", "5s")
        .with(|builder| builder.context_tokens(1_600))
        .play()
        .await;

    assert_eq!(played.outcome(), ("completed", 0), "{:?}", played.report);
    assert!(
        played.report.times_ms.elapsed < 3_000,
        "{:?}",
        played.report.times_ms
    );
    let counts = played.report.counts;
    assert_eq!((counts.compactions, counts.elisions > 0), (0, true));
    assert!(
        played
            .sent(4)
            .to_string()
            .contains("[left out to save room: 1000 characters")
    );
    let why = played.events.iter().find_map(|event| match event {
        AgentEvent::Elided { failure, .. } => Some(failure.code.name()),
        _ => None,
    });
    assert_eq!(why, Some("raw_silent"));
    played.assert_sound();
}

#[tokio::test]
async fn a_compaction_sums_up_what_was_said_long_ago() {
    let tools = Arc::new(Tools::default());
    let look = |id: &str| calls(&[(id, "look", json!({"say": "x".repeat(1_000)}))]);
    let script = format!(
        "attempt 1: {}\nattempt 2: {}\nattempt 3: {}\nattempt 4: answer \"the sum of it\"\n\
         attempt 5: answer \"ok\"",
        look("c1"),
        look("c2"),
        look("c3")
    );
    let played = Case::new(&script)
        .tools(&tools)
        .with(|builder| builder.context_tokens(1_600))
        .play()
        .await;

    assert_eq!(played.outcome(), ("completed", 0));
    let counts = played.report.counts;
    assert_eq!(
        (counts.compactions, counts.elisions, counts.rounds),
        (1, 0, 4)
    );
    assert_eq!(played.sent(3)["stream"], false);
    let sent = played.sent(4);
    let first = sent["messages"][0]["content"].as_str().unwrap();
    assert!(
        first.contains("the sum of it") && first.ends_with("go"),
        "{first}"
    );
    assert!(!sent.to_string().contains("\"c1\""), "{sent}");
    let purposes = played.events.iter().filter(|event| {
        matches!(
            event,
            AgentEvent::CallBegan {
                purpose: Purpose::Compaction,
                ..
            }
        )
    });
    assert_eq!(purposes.count(), 1);
    played.assert_sound();
}

/// Wherever a turn is stopped, it ends at once, keeps what had come, and blames nobody.
#[tokio::test]
async fn a_turn_can_be_stopped_anywhere() {
    let tools = Arc::new(Tools::default());
    let refused = "status 429 json [retry-after: 30]; error rate_limit_error; eof";
    let hang = calls(&[("c1", "hang", json!({}))]);
    let big = calls(&[("c1", "look", json!({"say": "x".repeat(4_000)}))]);
    let half = "status 200 sse; tool {\"index\":0,\"id\":\"c1\",\"type\":\"function\",\
                \"function\":{\"name\":\"write\",\"arguments\":\"{\"}}; hold";
    let stopped_at: [(&str, String, &[&str]); 10] = [
        ("before any byte", "hold".to_owned(), &[]),
        ("between heartbeats", PINGS.to_owned(), &[]),
        (
            "after content",
            "status 200 sse; text \"and \"; hold".to_owned(),
            &["partial and "],
        ),
        (
            "in a recovery",
            "attempt 1: status 200 sse; text \"and \"; cut\nattempt 2: hold".to_owned(),
            &["partial and "],
        ),
        ("in the wait for a retry", refused.to_owned(), &[]),
        (
            "in a second attempt",
            "attempt 1: status 500 json; error server_error; eof\nattempt 2: hold".to_owned(),
            &[],
        ),
        (
            "before the turn is sent again",
            "status 500 json; error server_error; eof".to_owned(),
            &[],
        ),
        (
            "in a tool call that arrives",
            half.to_owned(),
            &["partial [c1]"],
        ),
        (
            "in a tool",
            hang,
            &[
                "answer [c1]",
                "began c1",
                "ran! c1: This call was stopped on",
            ],
        ),
        (
            "in a compaction",
            format!("attempt 1: {big}\nattempt 2: {big}\nattempt 3: {big}\nattempt 4: hold"),
            &[],
        ),
    ];
    for (at, script, kept) in stopped_at {
        let mut case = Case::new(&script)
            .set("bounds.raw_silence", "20s")
            .tools(&tools)
            .cancel_after(Duration::from_millis(250));
        if at == "before the turn is sent again" {
            let policy = Arc::new(Resend(vec![Duration::from_secs(20)]));
            case = case.with(|builder| builder.policy(policy));
        }
        if at == "in a compaction" {
            case = case.with(|builder| builder.context_tokens(4_000));
        }
        let played = case.play().await;

        assert_ended(
            &played,
            ("cancelled", 130),
            "cancelled",
            "it was stopped on purpose.",
            "You stopped the answer before it was complete",
        );
        assert!(
            (240..2_000).contains(&played.report.times_ms.elapsed),
            "{at}: {:?}",
            played.report.times_ms
        );
        let short = played.short();
        assert_eq!(short.last().unwrap(), "ended cancelled", "{at}");
        if at != "in a compaction" {
            assert_eq!(&short[1..short.len() - 1], kept, "{at}");
        }
        let last = played.standin.requests().len() - 1;
        let waits = [
            "in the wait for a retry",
            "before the turn is sent again",
            "in a tool",
        ];
        if !waits.contains(&at) {
            let left = played
                .standin
                .wait_for_peer_closed(last, Duration::from_secs(1));
            assert!(left.await.is_some(), "{at}: the provider is still working");
        }
    }
}

#[tokio::test]
async fn waiting_on_a_hold_is_told_apart_from_waiting_for_the_provider() {
    let script = "attempt 1: status 429 json [retry-after-ms: 400]; error rate_limit_error; eof\n\
                  attempt 2: status 200 sse; +0.1 answer \"ok\"";
    let played = Case::new(script).play().await;

    let times = played.report.times_ms;
    assert!((400..900).contains(&times.waiting), "{times:?}");
    assert!((95..400).contains(&times.provider), "{times:?}");
    let retrying =
        |event: &AgentEvent| matches!(event, AgentEvent::Call(CallEvent::Retrying { .. }));
    assert!(played.events.iter().any(retrying));
    played.assert_sound();
}
