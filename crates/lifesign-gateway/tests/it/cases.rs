//! Failing inputs from the field, through a gateway: what a provider did to somebody, and what the
//! caller must see.
//!
//! Each test says what it was that went wrong elsewhere. Times are the script's; both the provider
//! and the bounds run faster by the same factor.

use std::time::Duration;

use lifesign::Outcome;
use lifesign_wire::Wire;

use crate::harness::{Ask, ms};
use crate::play::{Case, assert_took};

/// A body that never produced a byte held the agent until an outer limit.
#[tokio::test]
async fn a_200_and_then_nothing_is_three_requests_and_a_real_504() {
    for wire in Wire::ALL {
        let played = Case::new("status 200 sse; hold")
            .wire(wire)
            .speed(100.0)
            .seconds("bounds.raw_silence", 30.0)
            .set("bounds.before_content=off")
            .attempts(3)
            .play()
            .await;

        assert_eq!((played.got.status, played.code()), (504, "raw_silent"));
        assert_eq!(played.requests().len(), 3);
        assert_eq!(played.outcomes(), ["raw_silent"; 3]);
        let body = played.got.json();
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains("300 ms"), "{message}");
        assert!(message.contains("3 attempts"), "{message}");
        assert_eq!(played.got.header("x-should-retry"), Some("false"));
        assert_eq!(body["lifesign"]["code"], "raw_silent");
        for index in 0..3 {
            played.assert_left(index).await;
        }
    }
}

/// The same with a caller who has to be kept awake meanwhile.
#[tokio::test]
async fn a_200_and_then_nothing_is_beats_and_an_error_frame_once_the_first_beat_is_out() {
    for wire in Wire::ALL {
        let played = Case::new("status 200 sse; hold")
            .wire(wire)
            .speed(100.0)
            .seconds("bounds.raw_silence", 30.0)
            .seconds("beats.every", 10.0)
            .set("bounds.before_content=off")
            .attempts(2)
            .play()
            .await;

        assert_eq!((played.got.status, played.code()), (200, "raw_silent"));
        assert_eq!(played.requests().len(), 2);
        assert!(played.got.is_whole);
        let frame = played.error_frame();
        assert_eq!(frame["lifesign"]["code"], "raw_silent", "{frame}");
        let beats = played.got.beats();
        assert!(beats.len() >= 4, "{beats:?}");
        assert_eq!(beats.len() as u64, played.ended.beats);
        let last = beats.last().unwrap();
        assert_eq!((&last["n"], &last["of"]), (&2.into(), &2.into()), "{last}");
        // Nothing but beats and the error came.
        assert!(!played.got.without_beats().starts_with(':'));
    }
}

/// A watchdog that restarts on any traffic never fires; one that ignores traffic kills healthy
/// thinking.
#[tokio::test]
async fn heartbeats_without_content_are_cut_by_before_content_and_not_called_silence() {
    for (wire, script, code) in [
        (
            Wire::ANTHROPIC,
            "status 200 sse; m.start; repeat 15 { ping } forever",
            "no_content",
        ),
        (
            Wire::OPENAI_CHAT,
            "status 200 sse; repeat 20 { comment } forever",
            "heartbeats_only",
        ),
        (
            Wire::OPENAI_RESPONSES,
            "status 200 sse; repeat 20 { comment } forever",
            "heartbeats_only",
        ),
    ] {
        let played = Case::new(script)
            .wire(wire)
            .speed(100.0)
            .seconds("bounds.raw_silence", 45.0)
            .seconds("bounds.before_content", 60.0)
            .attempts(1)
            .play()
            .await;

        assert_eq!((played.got.status, played.code()), (504, code));
        let report = &played.got.json()["lifesign"];
        assert_eq!(report["bound"], "before_content", "{report}");
        assert_eq!(report["setting"], "bounds.before_content", "{report}");
        assert_took(played.got.head_at, 0.6);
    }
}

/// The same without a bound on content: the caller gets beats, and its leaving ends it at once.
#[tokio::test]
async fn heartbeats_without_content_go_on_where_no_bound_is_set_until_the_caller_leaves() {
    let staged = Case::new("status 200 sse; m.start; repeat 15 { ping } forever")
        .wire(Wire::ANTHROPIC)
        .speed(100.0)
        .seconds("bounds.raw_silence", 45.0)
        .seconds("beats.every", 10.0)
        .set("profile=patient")
        .stage()
        .await;
    let mut talk = staged.begin().await;
    for _ in 0..12 {
        let beat = talk.piece().await.unwrap();
        assert!(beat.starts_with(b": {\"state\":"), "{beat:?}");
    }

    drop(talk);

    let closed = staged.standin.wait_for_peer_closed(0, ms(500)).await;
    assert!(closed.is_some());
    let ended = staged.gate.only_end().await;
    assert_eq!(ended.outcome, Outcome::Cancelled);
    assert_eq!(ended.attempts.len(), 1);
}

/// A 45 s idle limit counted decoded events; every long-thinking run died and was paid for.
#[tokio::test]
async fn slow_thinking_lives_as_long_as_its_allowance() {
    let script = "status 200 sse; m.start; +1 m.block 0 thinking; repeat 30 { ping } x8; \
                  m.think 0 \"hm\"; m.sig 0 \"s\"; m.blockend 0; m.block 1 text; m.text 1 \"42\"; \
                  m.blockend 1; m.delta end_turn; m.stop; eof";
    let think = |max_tokens: u32| {
        let body = format!(
            r#"{{"model":"m","stream":true,"max_tokens":{max_tokens},"messages":[{{"role":"user","content":"x"}}]}}"#
        );
        Case::new(script)
            .wire(Wire::ANTHROPIC)
            .speed(100.0)
            .ask(Ask::post("/v1/messages", body))
            .seconds("bounds.raw_silence", 45.0)
            .seconds("bounds.before_content", 60.0)
            .seconds("bounds.between_events", 150.0)
            // 87 tokens a second, a hundred times as fast.
            .set("bounds.think_tokens_per_second=8700")
            .attempts(1)
    };

    let lives = think(32_000).play().await;
    assert_eq!(lives.code(), "completed");
    assert_eq!(lives.got.answer(), "42");
    assert_took(lives.got.ended_at, 2.41);

    let dies = think(4_096).play().await;
    assert_eq!((dies.got.status, dies.code()), (504, "no_content"));
    assert_eq!(dies.got.json()["lifesign"]["bound"], "before_content");
    assert_took(dies.got.head_at, 0.6);
}

/// Deaths landed on round deadlines with bytes still arriving.
#[tokio::test]
async fn a_healthy_stream_outlives_every_bound_and_ends_by_the_wall_clock_alone() {
    for wire in Wire::ALL {
        let case = || {
            Case::new("status 200 sse; repeat 2 { text \"x\" } x50; finish \"stop\"; done; eof")
                .wire(wire)
                .speed(100.0)
                .seconds("bounds.raw_silence", 45.0)
                .seconds("bounds.headers", 60.0)
                .seconds("bounds.connect", 60.0)
        };

        let lives = case().play().await;
        assert_eq!(lives.code(), "completed");
        assert_eq!(lives.got.answer(), "x".repeat(50));
        assert_eq!(lives.got.text(), lives.direct().await.text());

        let ends = case().seconds("bounds.wall_clock", 50.0).play().await;
        assert_eq!((ends.got.status, ends.code()), (200, "wall_clock"));
        assert_eq!(ends.requests().len(), 1);
        let len = ends.got.answer().len();
        assert!((15..=25).contains(&len), "{len}");
        assert_took(ends.got.ended_at, 0.5);
        let frame = ends.error_frame();
        assert_eq!(frame["lifesign"]["code"], "wall_clock", "{frame}");
        ends.assert_left(0).await;
    }
}

/// A clean close without any end marker became a finished turn; a 200 without events crashed.
#[tokio::test]
async fn a_stream_that_stops_early_is_never_told_as_whole() {
    for wire in Wire::ALL {
        let early = Case::new("status 200 sse; text \"The answer is\"; eof")
            .wire(wire)
            .attempts(2)
            .play()
            .await;
        assert_eq!((early.got.status, early.code()), (200, "truncated"));
        assert_eq!(early.ended.outcome, Outcome::Truncated);
        assert_eq!(early.requests().len(), 1);
        assert_eq!(early.got.answer(), "The answer is");
        let frame = early.error_frame();
        assert_eq!(frame["lifesign"]["code"], "truncated", "{frame}");
        let upstream = early.direct().await.text();
        assert!(early.got.text().starts_with(&upstream));

        let empty = Case::new("status 200 sse; eof")
            .wire(wire)
            .attempts(2)
            .play()
            .await;
        assert_eq!((empty.got.status, empty.code()), (502, "empty"));
        assert_eq!(empty.requests().len(), 2);
        assert_eq!(empty.got.header("x-should-retry"), Some("false"));
    }
}

/// An `error` event inside a 200 was skipped as an unknown type.
#[tokio::test]
async fn an_error_event_before_content_is_replaced_unseen_and_after_it_passes_once() {
    for wire in Wire::ALL {
        let before = "attempt 1: status 200 sse; role; error overloaded_error; eof\n\
                      attempt 2: answer \"ok\"";
        let before = Case::new(before).wire(wire).attempts(2).play().await;
        assert_eq!((before.got.status, before.code()), (200, "completed"));
        assert_eq!(before.outcomes(), ["overloaded", "completed"]);
        assert_eq!(before.got.text(), before.direct_nth(2).await.text());

        let after = "status 200 sse; text \"Half\"; error overloaded_error; eof";
        let after = Case::new(after).wire(wire).attempts(2).play().await;
        assert_eq!((after.got.status, after.code()), (200, "overloaded"));
        assert_eq!(after.requests().len(), 1);
        assert_eq!(after.got.answer(), "Half");
        // The provider's own words, and no second error of ours.
        let upstream = after.direct().await.text();
        let closing = after.got.text().strip_prefix(&upstream).map(str::to_owned);
        let expected = if wire == Wire::OPENAI_CHAT {
            "data: [DONE]\n\n"
        } else {
            ""
        };
        assert_eq!(closing.as_deref(), Some(expected), "{}", after.got.text());
        assert!(after.got.is_whole);
    }
}

/// Months of empty answers turned out to be a refused parameter reported in a 200.
#[tokio::test]
async fn a_json_error_in_place_of_a_stream_is_a_real_status_with_the_providers_words() {
    for wire in Wire::ALL {
        let error = r#"status 200 json; bytes "{\"error\":{\"message\":\"unsupported parameter\",\"type\":\"BadRequestError\",\"code\":400}}"; eof"#;
        let error = Case::new(error).wire(wire).play().await;

        assert_eq!((error.got.status, error.code()), (400, "rejected"));
        assert_eq!(error.requests().len(), 1);
        let body = error.got.json();
        assert_eq!(body["error"]["message"], "unsupported parameter", "{body}");
    }
}

/// A provider that ignores `stream: true` looked silent.
#[tokio::test]
async fn a_whole_answer_in_place_of_a_stream_passes_as_it_came_or_as_events_once_opened() {
    for (wire, body) in [
        (
            Wire::OPENAI_CHAT,
            r#"{"id":"c","object":"chat.completion","created":7,"model":"m","x_new":[1, 2],"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"Looking.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"ls","arguments":"{}"}}]}}],"usage":{"prompt_tokens":12,"completion_tokens":3}}"#,
        ),
        (
            Wire::ANTHROPIC,
            r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Looking."},{"type":"tool_use","id":"call_1","name":"ls","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":3}}"#,
        ),
        (
            Wire::OPENAI_RESPONSES,
            r#"{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Looking.","annotations":[]}]},{"id":"fc_1","type":"function_call","call_id":"call_1","name":"ls","arguments":"{}","status":"completed"}],"usage":{"input_tokens":12,"output_tokens":3,"total_tokens":15}}"#,
        ),
    ] {
        let quoted = serde_json::to_string(body).unwrap();
        let head = "status 200 [content-type: application/json; charset=utf-8]";

        let early = format!("{head}; bytes {quoted}; eof");
        let early = Case::new(&early).wire(wire).play().await;
        assert_eq!((early.got.status, early.code()), (200, "completed"));
        assert_eq!(early.got.text(), body);
        assert_eq!(early.got.header("content-type"), Some("application/json"));
        let usage = early.ended.usage.unwrap();
        assert_eq!(
            (usage.input_tokens, usage.output_tokens),
            (Some(12), Some(3))
        );

        let late = format!("+20 {head}; bytes {quoted}; eof");
        let late = Case::new(&late)
            .wire(wire)
            .seconds("beats.every", 5.0)
            .play()
            .await;
        assert_eq!((late.got.status, late.code()), (200, "completed"));
        assert_eq!(late.got.header("content-type"), Some("text/event-stream"));
        assert!(!late.got.beats().is_empty());
        assert_eq!(late.got.answer(), "Looking.");
        let data = late.got.data();
        assert!(data.iter().any(|data| data.contains("call_1")), "{data:?}");
        let end = match wire.name() {
            "openai-chat" => "[DONE]",
            "anthropic" => "message_stop",
            _ => "response.completed",
        };
        assert!(data.last().unwrap().contains(end), "{data:?}");
    }
}

/// `Retry-After` was parsed as a number only; a date crashed the run.
#[tokio::test]
async fn a_date_in_retry_after_is_waited_for() {
    let script = "attempt 1: status 429 json [retry-after: <date+2>]; \
                  bytes \"{\\\"error\\\":{\\\"type\\\":\\\"rate_limit_error\\\"}}\"; eof\n\
                  attempt 2: answer \"ok\"";
    let played = Case::new(script).speed(1.0).play().await;

    assert_eq!((played.got.status, played.code()), (200, "completed"));
    assert_eq!(played.got.answer(), "ok");
    let requests = played.requests();
    let gap = requests[1].at.saturating_sub(requests[0].ended.unwrap().1);
    assert!((1.0..=4.5).contains(&gap.as_secs_f64()), "{gap:?}");
    assert_eq!(played.outcomes(), ["rate_limited", "completed"]);
    assert!(played.ended.attempts[0].retry_after_ms.is_some());
    assert!(played.ended.retry_wait_ms >= 1_000);
}

/// Nine tries in quick succession against 529, and a session dead with no reply.
#[tokio::test]
async fn overload_is_met_with_growing_waits_and_passes_as_the_provider_said_it() {
    let refusal = "status 529 json [x-request-id: req_7]; error overloaded_error \"Busy\"; eof";
    let recovers = format!("attempt 1-2: {refusal}\nattempt 3: answer \"ok\"");
    let recovers = Case::new(&recovers)
        .wire(Wire::ANTHROPIC)
        .set("retry.overload.first_delay=50ms")
        .attempts(4)
        .play()
        .await;
    assert_eq!(recovers.code(), "completed");
    assert_eq!(recovers.requests().len(), 3);
    let waits: Vec<_> = recovers
        .ended
        .attempts
        .iter()
        .map(|record| record.waited_ms)
        .collect();
    assert!(waits[1] >= 50 && waits[2] >= 100, "{waits:?}");

    let storm = Case::new(refusal)
        .wire(Wire::ANTHROPIC)
        .set("retry.overload.first_delay=20ms")
        .attempts(4)
        .play()
        .await;
    assert_eq!((storm.got.status, storm.code()), (529, "overloaded"));
    assert_eq!(storm.requests().len(), 4);
    assert_eq!(storm.got.header("x-request-id"), Some("req_7"));
    assert_eq!(storm.got.header("x-should-retry"), Some("false"));
    let direct = storm.direct().await;
    assert_eq!(storm.got.text(), direct.text());
    let failure = storm.ended.failure.unwrap();
    assert!(failure.message.contains('4'), "{}", failure.message);
}

/// A stall after visible text was retried from the start; the reader saw the opening twice.
#[tokio::test]
async fn what_was_shown_is_never_asked_for_again() {
    for wire in Wire::ALL {
        let script = "attempt 1: status 200 sse; text \"First, we\"; hold\n\
                      attempt 2: answer \"First, we go home.\"";
        let played = Case::new(script)
            .wire(wire)
            .speed(50.0)
            .seconds("bounds.raw_silence", 20.0)
            .attempts(3)
            .play()
            .await;

        assert_eq!((played.got.status, played.code()), (200, "raw_silent"));
        assert_eq!(played.got.answer(), "First, we");
        assert_eq!(played.requests().len(), 1);
        assert_took(played.got.ended_at, 0.4);
        let frame = played.error_frame();
        assert_eq!(frame["lifesign"]["partial"], true, "{frame}");
        played.assert_left(0).await;
    }
}

/// Calls without an index were dropped; an empty name erased the real one.
#[tokio::test]
async fn fragments_of_tool_calls_pass_as_they_came_and_are_joined_where_a_whole_answer_is_asked_for()
 {
    let without_index = "status 200 sse; \
        tool {\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"\"}}; \
        tool {\"function\":{\"arguments\":\"{\\\"city\\\":\"}}; \
        tool {\"function\":{\"arguments\":\"\\\"Oslo\\\"}\"}}; finish \"tool_calls\"; done; eof";
    let empty_name = "status 200 sse; \
        tool {\"index\":0,\"id\":\"call_1\",\"function\":{\"name\":\"add\",\"arguments\":\"{\"}}; \
        tool {\"index\":0,\"id\":\"\",\"function\":{\"name\":\"\",\"arguments\":\"\\\"x\\\":2}\"}}; \
        finish \"tool_calls\"; done; eof";
    for (script, name, arguments) in [
        (without_index, "get_weather", r#"{"city":"Oslo"}"#),
        (empty_name, "add", r#"{"x":2}"#),
    ] {
        let streamed = Case::new(script).play().await;
        assert_eq!(streamed.code(), "completed");
        assert_eq!(streamed.got.text(), streamed.direct().await.text());

        let whole = Case::new(script).whole().play().await;
        assert_eq!((whole.got.status, whole.code()), (200, "completed"));
        let body = whole.got.json();
        let calls = body["choices"][0]["message"]["tool_calls"]
            .as_array()
            .unwrap();
        assert_eq!(calls.len(), 1, "{body}");
        assert_eq!(calls[0]["id"], "call_1");
        assert_eq!(calls[0]["function"]["name"], name);
        assert_eq!(calls[0]["function"]["arguments"], arguments);
    }
}

/// The next request failed with 400 when reasoning was missing, or invented where there was none.
#[tokio::test]
async fn reasoning_is_assembled_as_it_came() {
    for (before, expected) in [
        ("think \"a\"; think \"b\"; ", Some("ab")),
        ("delta {\"reasoning_content\":\"\"}; ", Some("")),
        ("", None),
        ("delta {\"reasoning_content\":null}; ", None),
    ] {
        let script = format!("status 200 sse; {before}text \"ok\"; finish \"stop\"; done; eof");
        let played = Case::new(&script).whole().play().await;

        assert_eq!((played.got.status, played.code()), (200, "completed"));
        let body = played.got.json();
        let message = body["choices"][0]["message"].as_object().unwrap();
        assert_eq!(message["content"], "ok");
        let reasoning = message
            .get("reasoning_content")
            .map(|text| text.as_str().unwrap());
        assert_eq!(reasoning, expected, "{body}");
    }
}

/// Text with replacement characters was stored for good; CRLF streams parsed to nothing; a long
/// tool call ended the stream.
#[tokio::test]
async fn frames_pass_byte_for_byte_however_they_were_cut() {
    let split = r#"status 200 sse; role;
        bytes "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xE9";
        +1 bytes "\x82\xA3\xE4\xB8\xAA\"},\"finish_reason\":null}]}\n\n";
        finish "stop"; done; eof"#;
    let crlf = "status 200 sse; eol crlf; role; text \"hello\"; finish \"stop\"; done; eof";
    let long = format!(
        "status 200 sse; tool {{\"index\":0,\"id\":\"c\",\"function\":{{\"name\":\"f\",\"arguments\":\"{{\\\"x\\\":\\\"{}\\\"}}\"}}}}; finish \"tool_calls\"; done; eof",
        "y".repeat(300 << 10)
    );
    for (script, answer) in [(split, "\u{90A3}\u{4E2A}"), (crlf, "hello"), (&long, "")] {
        let played = Case::new(script).play().await;

        assert_eq!((played.got.status, played.code()), (200, "completed"));
        assert_eq!(played.got.answer(), answer);
        assert_eq!(played.got.body, played.direct().await.body);
    }

    for script in [split, &long] {
        let whole = Case::new(script).whole().play().await;
        assert_eq!((whole.got.status, whole.code()), (200, "completed"));
        assert!(!whole.got.text().contains('\u{FFFD}'));
    }
}

/// A provider began to compress its stream; the relay took the bytes for text.
#[tokio::test]
async fn a_compressed_stream_is_passed_on_decoded_and_as_it_comes() {
    let script = "status 200 sse [content-encoding: gzip]; gzip; role; +20 text \"o\"; \
                  +20 text \"k\"; +20 finish \"stop\"; done; eof";
    let played = Case::new(script)
        .speed(100.0)
        .seconds("bounds.raw_silence", 45.0)
        .ask(Ask::stream(Wire::OPENAI_CHAT).header("accept-encoding", "gzip, br"))
        .play()
        .await;

    assert_eq!((played.got.status, played.code()), (200, "completed"));
    assert_eq!(played.got.answer(), "ok");
    assert_eq!(
        played.requests()[0].header("accept-encoding"),
        Some("identity")
    );
    assert_eq!(played.got.header("content-encoding"), None);
    let first = played.got.pieces[0].0;
    assert!((ms(190)..ms(450)).contains(&first), "{first:?}");
}

/// A healthy call that thought for a minute was cut by the hop with the shortest idle limit.
#[tokio::test]
async fn beats_keep_what_is_between_awake_and_prove_nothing_upstream() {
    for wire in Wire::ALL {
        let case = || {
            Case::new("status 200 sse; +70 text \"hi\"; finish \"stop\"; done; eof")
                .wire(wire)
                .speed(100.0)
                .seconds("beats.every", 15.0)
                .set("bounds.before_content=off")
        };
        let played = case().seconds("bounds.raw_silence", 120.0).play().await;

        assert_eq!((played.got.status, played.code()), (200, "completed"));
        assert_eq!(played.got.answer(), "hi");
        let gap = played.got.longest_gap();
        assert!(gap <= ms(150 + 100), "{gap:?}");
        assert_eq!(played.got.header("content-type"), Some("text/event-stream"));
        assert_eq!(played.got.header("cache-control"), Some("no-cache"));
        assert_eq!(played.got.header("x-accel-buffering"), Some("no"));
        assert_eq!(played.got.header("content-length"), None);
        assert_eq!(played.got.header("content-encoding"), None);
        // Each beat is a write of its own, of whole lines.
        let beats = played.got.beats();
        assert_eq!(beats.len(), 4, "{beats:?}");
        for (_, piece) in &played.got.pieces[..4] {
            assert!(piece.starts_with(b": {") && piece.ends_with(b"}\n"));
        }
        assert_eq!(played.got.without_beats(), played.direct().await.text());
        let silent: Vec<_> = beats
            .iter()
            .map(|beat| beat["upstream_silent_ms"].as_u64().unwrap())
            .collect();
        assert!(silent.is_sorted() && silent[3] > 500, "{silent:?}");

        // Nobody's beats but the upstream's renew its bounds.
        let silent = case()
            .seconds("bounds.raw_silence", 45.0)
            .attempts(1)
            .play()
            .await;
        assert_eq!(silent.code(), "raw_silent");
        assert_took(silent.got.ended_at, 0.45);
    }
}

/// The gateway went on reading, and paying, for an answer nobody would get.
#[tokio::test]
async fn a_caller_who_leaves_cancels_the_upstream_and_frees_its_place() {
    for wire in Wire::ALL {
        let staged = Case::new(
            "attempt 1: status 200 sse; repeat 0.2 { text \"x\" } x500; finish \"stop\"; done; eof\n\
             attempt 2: answer \"next\"",
        )
        .wire(wire)
        .upstream("concurrency = 1")
        .stage()
        .await;
        let mut talk = staged.begin().await;
        talk.until("x").await;
        sleep_a_little().await;

        drop(talk);

        let closed = staged.standin.wait_for_peer_closed(0, ms(500)).await;
        assert!(closed.is_some());
        let ended = staged.gate.only_end().await;
        assert_eq!(ended.outcome, Outcome::Cancelled);
        assert_eq!(ended.failure.unwrap().code.name(), "cancelled");
        assert!(ended.bytes_out > 0);
        // Its slot is free.
        let next = staged.gate.ask(&staged.ask).await;
        assert_eq!(next.answer(), "next");
    }
}

async fn sleep_a_little() {
    crate::harness::sleep(ms(50)).await;
}

/// Streams read to their end marker kept their connection; the third call waited for a slot.
#[tokio::test]
async fn an_answer_ends_at_its_end_marker_whatever_its_connection_does() {
    for wire in Wire::ALL {
        let staged = Case::new("status 200 sse; text \"ok\"; finish \"stop\"; done; hold")
            .wire(wire)
            .speed(1.0)
            .upstream("concurrency = 2\npool_idle = 2")
            .stage()
            .await;
        for index in 0..5 {
            let got = staged.gate.ask(&staged.ask).await;
            assert_eq!(got.answer(), "ok");
            assert!(got.is_whole);
            assert!(got.ended_at < ms(500), "{:?}", got.ended_at);
            let closed = staged
                .standin
                .wait_for_peer_closed(index, Duration::from_secs(2))
                .await;
            assert!(closed.is_some());
        }
        assert_eq!(staged.standin.connections().len(), 5);
    }
}

/// An address that drops packets held each call for the full answer budget.
#[tokio::test]
async fn connecting_that_hangs_or_fails_is_named_with_its_stage() {
    use lifesign_standin::Blackhole;

    use crate::harness::{Setup, upstream};

    let hole = Blackhole::open().unwrap();
    let ask = async |url: &str| {
        let gate = Setup::new(&upstream("up", Wire::OPENAI_CHAT, url, ""))
            .set("bounds.connect=300ms")
            .set("bounds.raw_silence=300s")
            .set("retry.attempts=2")
            .start()
            .await;
        let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;
        (got, gate.only_end().await)
    };

    let (got, ended) = ask(&hole.url()).await;
    assert_eq!(got.status, 502);
    let report = &got.json()["lifesign"];
    assert_eq!(
        (&report["code"], &report["stage"]),
        (&"connect".into(), &"tcp".into())
    );
    assert_eq!(ended.attempts.len(), 2);
    assert_took(got.head_at, 0.62);

    let (got, _) = ask("http://no-such-name.invalid").await;
    assert_eq!(got.status, 502);
    let report = &got.json()["lifesign"];
    assert_eq!(
        (&report["code"], &report["stage"]),
        (&"connect".into(), &"dns".into())
    );
}

/// The socket stayed established with empty queues; a stream reset was classed as permanent.
#[tokio::test]
async fn a_dead_peer_is_silence_and_a_reset_is_repeated_before_content_only() {
    for http2 in [false, true] {
        let more = format!("http2 = {http2}");
        let silent = Case::new("status 200 sse; text \"a\"; text \"b\"; text \"c\"; hold")
            .speed(100.0)
            .seconds("bounds.raw_silence", 45.0)
            .upstream(&more)
            .attempts(2)
            .play()
            .await;
        assert_eq!(silent.code(), "raw_silent");
        assert_eq!(silent.got.answer(), "abc");
        assert_took(silent.got.ended_at, 0.45);
        assert_eq!(silent.requests().len(), 1);
        silent.assert_left(0).await;

        let reset = if http2 {
            "h2.reset INTERNAL_ERROR"
        } else {
            "rst"
        };
        let before = format!("attempt 1: status 200 sse; +1 {reset}\nattempt 2: answer \"ok\"");
        let before = Case::new(&before).upstream(&more).attempts(2).play().await;
        assert_eq!(before.code(), "completed");
        assert_eq!(before.got.answer(), "ok");
        assert_eq!(before.requests().len(), 2);

        let after = format!("status 200 sse; text \"a\"; +1 {reset}");
        let after = Case::new(&after).upstream(&more).attempts(2).play().await;
        assert_eq!(after.code(), "connection_lost");
        assert_eq!(after.ended.outcome, Outcome::Truncated);
        assert_eq!(after.got.answer(), "a");
        assert_eq!(after.requests().len(), 1);
        assert_eq!(after.error_frame()["lifesign"]["code"], "connection_lost");
    }
}

/// A comment was wrapped as data, or read as data, and the parser threw on the first heartbeat.
#[tokio::test]
async fn comments_never_become_data() {
    for wire in Wire::ALL {
        let before =
            "status 200 sse; repeat 1 { bytes \": UPSTREAM PROCESSING\\n\\n\" } x3; answer \"ok\"";
        let before = Case::new(before).wire(wire).play().await;
        assert_eq!(before.code(), "completed");
        assert_eq!(before.got.answer(), "ok");
        assert!(!before.got.text().contains("PROCESSING"));
        assert!(before.got.data().iter().all(|data| !data.starts_with(':')));

        let after = "status 200 sse; text \"o\"; bytes \": UPSTREAM PROCESSING\\n\\n\"; \
                     text \"k\"; finish \"stop\"; done; eof";
        let after = Case::new(after).wire(wire).play().await;
        assert_eq!(after.got.answer(), "ok");
        assert!(after.got.text().contains("\n\n: UPSTREAM PROCESSING\n\n"));
        assert_eq!(after.got.text(), after.direct().await.text());
    }
}

/// The first heartbeat fixed the status at 200, so that retries by status stopped working.
#[tokio::test]
async fn an_early_failure_is_a_real_status_with_its_hints() {
    for wire in Wire::ALL {
        for early in [true, false] {
            let played = Case::new(
                "+2 status 429 [retry-after: 7] json; error rate_limit_error \"slow down\"; eof",
            )
            .wire(wire)
            .seconds("beats.every", 15.0)
            .set(&format!("beats.open_early={early}"))
            .attempts(1)
            .play()
            .await;

            assert_eq!((played.got.status, played.code()), (429, "rate_limited"));
            assert_eq!(played.got.header("retry-after"), Some("7"));
            assert_eq!(played.got.text(), played.direct().await.text());
        }
    }
}

/// The same, too late for a status.
#[tokio::test]
async fn a_late_failure_is_a_status_or_a_frame_as_the_operator_chose() {
    for wire in Wire::ALL {
        let case = |early: bool| {
            Case::new("+40 status 503 json; error server_error \"boom\"; eof")
                .wire(wire)
                .speed(100.0)
                .seconds("beats.every", 15.0)
                .set(&format!("beats.open_early={early}"))
                .attempts(1)
        };
        let closed = case(false).play().await;
        assert_eq!(closed.got.status, 503);
        assert_took(closed.got.head_at, 0.4);
        assert_eq!(closed.got.text(), closed.direct().await.text());

        let opened = case(true).play().await;
        assert_eq!(opened.got.status, 200);
        assert_eq!(opened.got.beats().len(), 2);
        let frame = opened.error_frame();
        let message = if wire == Wire::OPENAI_RESPONSES {
            &frame["message"]
        } else {
            &frame["error"]["message"]
        };
        assert_eq!(message, "boom", "{frame}");
        assert!(opened.got.is_whole);
        assert_eq!(opened.ended.outcome, Outcome::Failed);
    }
}

/// The empty second finish overwrote the first; the usage chunk crashed its reader.
#[tokio::test]
async fn the_first_finish_stands_and_usage_behind_it_counts() {
    let script = "status 200 sse; tool {\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"ls\",\"arguments\":\"{}\"}}; \
                  finish \"tool_calls\"; finish \"tool_calls\"; \
                  usage {\"prompt_tokens\":12,\"completion_tokens\":3}; done; eof";
    let streamed = Case::new(script).play().await;
    assert_eq!(streamed.code(), "completed");
    assert_eq!(streamed.got.text(), streamed.direct().await.text());
    let usage = streamed.ended.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(12), Some(3))
    );
    assert_eq!(streamed.ended.finish_reason.as_deref(), Some("tool_calls"));

    let whole = Case::new(script).whole().play().await;
    let body = whole.got.json();
    let choice = &body["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(body["usage"]["prompt_tokens"], 12);
    assert_eq!(body["usage"]["completion_tokens"], 3);
}

/// A cancel raced a timeout, and the read that was left behind crashed the process later.
#[tokio::test]
async fn a_cancel_or_a_cut_leaves_nothing_behind() {
    for wire in Wire::ALL {
        let case = || {
            Case::new("status 200 sse; text \"a\"; hold")
                .wire(wire)
                .speed(100.0)
                .seconds("bounds.raw_silence", 45.0)
                .attempts(3)
        };
        let left = case().stage().await;
        let mut talk = left.begin().await;
        talk.until("a").await;
        drop(talk);
        assert!(
            left.standin
                .wait_for_peer_closed(0, ms(100))
                .await
                .is_some()
        );
        let ended = left.gate.only_end().await;
        assert_eq!(ended.outcome, Outcome::Cancelled);
        assert_eq!(ended.attempts.len(), 1);

        let cut = case().play().await;
        assert_eq!(cut.code(), "raw_silent");
        assert_took(cut.got.ended_at, 0.45);
        cut.assert_left(0).await;

        crate::harness::sleep(ms(300)).await;
        assert_eq!(
            cut.gate.admin("calls").await["calls"],
            serde_json::json!([])
        );
        assert_eq!(cut.gate.ended(1).await.len(), 1);
        assert_eq!(left.standin.requests().len(), 1);
    }
}

/// The limit meant for the line also ran while the call did, and was blamed on the provider.
#[tokio::test]
async fn waiting_in_line_runs_no_bound_of_the_upstream() {
    for wire in Wire::ALL {
        let staged = Case::new(
            "attempt 1: status 200 sse; repeat 2 { text \"x\" } x30; finish \"stop\"; done; eof\n\
             attempt 2: answer \"ok\"",
        )
        .wire(wire)
        .speed(100.0)
        .seconds("bounds.before_content", 30.0)
        .seconds("bounds.raw_silence", 45.0)
        .seconds("bounds.headers", 30.0)
        .upstream("concurrency = 1")
        .stage()
        .await;
        let mut first = staged.begin().await;
        first.until("x").await;
        let (first, second) = tokio::join!(first.rest(), staged.gate.ask(&staged.ask));

        assert_eq!(first.answer(), "x".repeat(30));
        assert_eq!((second.status, second.answer().as_str()), (200, "ok"));
        let ended = staged.gate.ended(2).await.remove(1);
        assert!(ended.failure.is_none());
        assert!((400..800).contains(&ended.queued_ms), "{}", ended.queued_ms);
        assert!(ended.attempts[0].ended_ms >= 400);
    }
}

/// Three layers of retries made 12 to 45 requests from one; two faults shared one sentence.
#[tokio::test]
async fn attempts_are_counted_once_and_two_faults_have_two_sentences() {
    let refused = "status 429 json [retry-after: 0]; error rate_limit_error; eof";
    let refused = Case::new(refused).attempts(4).play().await;
    assert_eq!((refused.got.status, refused.requests().len()), (429, 4));
    assert_eq!(refused.got.header("x-should-retry"), Some("false"));

    let ended = Case::new("status 200 sse; text \"a\"; eof").play().await;
    let lost = Case::new("status 200 sse; text \"a\"; cut").play().await;
    assert_eq!(
        (ended.code(), lost.code()),
        ("truncated", "connection_lost")
    );
    let messages = [ended, lost].map(|played| {
        let frame = played.error_frame();
        frame["error"]["message"].as_str().unwrap().to_owned()
    });
    assert!(messages[0].contains("without a finish"), "{messages:?}");
    assert!(messages[1].contains("connection"), "{messages:?}");
    for message in messages {
        for blame in ["timed out", "too long", "context", "max_tokens", "length"] {
            assert!(!message.contains(blame), "{message}");
        }
    }
}
