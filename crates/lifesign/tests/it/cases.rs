//! Failing inputs from the field: what a provider did to somebody, and what is right.
//!
//! Each test says what it was that went wrong elsewhere. Times are the script's; both the provider
//! and the bounds run faster by the same factor.

use lifesign::{CallEvent, Outcome};
use lifesign_wire::Wire;
use pretty_assertions::assert_eq;

use crate::harness::Case;

/// The request's timeout stopped counting when the headers arrived, so a body that never produced a
/// byte held the agent until an outer limit.
#[tokio::test]
async fn a_200_and_then_nothing_is_silence_on_every_attempt() {
    for wire in Wire::ALL {
        let played = Case::new("status 200 sse; hold")
            .wire(wire)
            .speed(20.0)
            .set_seconds("bounds.raw_silence", 30.0)
            .set("bounds.before_content", "off")
            .set_seconds("retry.transport.first_delay", 0.75)
            .attempts(3)
            .play()
            .await;

        assert_eq!(
            (played.code(), played.bound()),
            ("raw_silent", Some("raw_silence"))
        );
        assert_eq!(played.requests().len(), 3);
        assert_eq!(played.report.attempts.len(), 3);
        assert!(played.message().contains("1.5 s"), "{}", played.message());
        assert!(
            played.message().contains("3 attempts"),
            "{}",
            played.message()
        );
        for index in 0..3 {
            played.assert_left(index).await;
        }
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
            Wire::ANTHROPIC,
            "status 200 sse; repeat 15 { ping } forever",
            "heartbeats_only",
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
            .speed(40.0)
            .set_seconds("bounds.raw_silence", 45.0)
            .set_seconds("bounds.before_content", 60.0)
            .attempts(1)
            .play()
            .await;

        assert_eq!(
            (played.code(), played.bound()),
            (code, Some("before_content"))
        );
        played.assert_took(60.0, 40.0);
        assert!(!played.message().contains("silen"), "{}", played.message());
        played.assert_left(0).await;
    }
}

/// The same line with every bound off but raw silence goes on for ever, with a notice now and then.
#[tokio::test]
async fn heartbeats_alone_never_cut_and_a_cancel_ends_at_once() {
    let played = Case::new("status 200 sse; m.start; repeat 15 { ping } forever")
        .wire(Wire::ANTHROPIC)
        .speed(200.0)
        .set("profile", "patient")
        .set_seconds("bounds.raw_silence", 45.0)
        .set_seconds("bounds.notice_after", 30.0)
        .cancel_at(600.0)
        .play()
        .await;

    assert_eq!(played.code(), "cancelled");
    assert_eq!(played.report.outcome, Outcome::Cancelled);
    played.assert_took(600.0, 200.0);
    let notices = played
        .events
        .iter()
        .filter(|event| matches!(event, CallEvent::Notice(_)))
        .count();
    assert!((17..=20).contains(&notices), "{notices} notices");
    assert_eq!(played.requests().len(), 1);
    played.assert_left(0).await;
}

/// A 45 s idle limit counted decoded events; every long-thinking run died and was paid for.
#[tokio::test]
async fn slow_thinking_is_left_alone_as_long_as_its_tokens_allow() {
    let script = "status 200 sse; m.start; +1 m.block 0 thinking; repeat 30 { ping } x8; \
                  m.think 0 \"...\"; m.sig 0 \"s\"; m.blockend 0; m.block 1 text; m.text 1 \"42\"; \
                  m.blockend 1; m.delta end_turn; m.stop; eof";
    let think = |max_tokens| {
        Case::new(script)
            .wire(Wire::ANTHROPIC)
            .speed(100.0)
            .max_tokens(max_tokens)
            .set("bounds.think_tokens_per_second", "8700")
            .set_seconds("bounds.raw_silence", 45.0)
            .set_seconds("bounds.before_content", 60.0)
            .set_seconds("bounds.between_events", 150.0)
            .attempts(1)
    };

    let patient = think(32_000).play().await;
    assert_eq!(patient.code(), "completed");
    assert_eq!(patient.report.text, "42");
    assert_eq!(patient.report.reasoning.as_deref(), Some("..."));

    let short = think(4_096).play().await;
    assert_eq!(
        (short.code(), short.bound()),
        ("no_content", Some("before_content"))
    );
    short.assert_took(60.0, 100.0);
}

/// Deaths landed on round deadlines with bytes still arriving.
#[tokio::test]
async fn a_stream_is_as_long_as_it_is_and_only_the_wall_clock_ends_it() {
    let stream = || {
        Case::new("status 200 sse; repeat 2 { text \"x\" } x200; finish \"stop\"; done; eof")
            .speed(200.0)
            .set_seconds("bounds.raw_silence", 45.0)
    };

    let whole = stream().play().await;
    assert_eq!(whole.code(), "completed");
    assert_eq!(whole.report.text, "x".repeat(200));

    let bounded = stream()
        .set_seconds("bounds.wall_clock", 120.0)
        .attempts(3)
        .play()
        .await;
    assert_eq!(
        (bounded.code(), bounded.bound()),
        ("wall_clock", Some("wall_clock"))
    );
    assert_eq!(bounded.requests().len(), 1);
    assert!(
        (40..=61).contains(&bounded.report.text.len()),
        "{}",
        bounded.report.text.len()
    );
    assert!(
        !bounded.message().contains("quiet"),
        "{}",
        bounded.message()
    );
    bounded.assert_left(0).await;
}

/// A clean close without any terminal marker became a finished turn; a 200 without events crashed.
#[tokio::test]
async fn an_early_end_is_truncated_and_an_empty_body_is_empty() {
    for wire in Wire::ALL {
        let early = Case::new("status 200 sse; text \"The answer is\"; eof")
            .wire(wire)
            .attempts(2);
        let early = early.play().await;
        assert_eq!(
            (early.code(), early.report.outcome),
            ("truncated", Outcome::Truncated)
        );
        assert_eq!(early.report.text, "The answer is");
        assert_eq!(early.report.finish_reason, None);
        assert_eq!(early.requests().len(), 1);

        let empty = Case::new("status 200 sse; eof")
            .wire(wire)
            .attempts(2)
            .play()
            .await;
        assert_eq!(
            (empty.code(), empty.report.outcome),
            ("empty", Outcome::Failed)
        );
        assert_eq!(empty.requests().len(), 2);
    }
}

/// An `error` event inside a 200 was skipped as an unknown type.
#[tokio::test]
async fn an_error_event_is_an_error_wherever_it_stands() {
    for wire in Wire::ALL {
        let before = "attempt 1: status 200 sse; role; error overloaded_error; eof\n\
                      attempt 2: answer \"ok\"";
        let before = Case::new(before).wire(wire).attempts(2).play().await;
        assert_eq!((before.code(), &*before.report.text), ("completed", "ok"));
        assert_eq!(before.requests().len(), 2);
        let outcomes: Vec<_> = before
            .report
            .attempts
            .iter()
            .map(|record| record.outcome)
            .collect();
        assert_eq!(
            serde_json::to_string(&outcomes).unwrap(),
            r#"["overloaded","completed"]"#
        );

        let after = "status 200 sse; text \"Half\"; error overloaded_error; eof";
        let after = Case::new(after).wire(wire).attempts(2).play().await;
        assert_eq!((after.code(), &*after.report.text), ("overloaded", "Half"));
        assert!(after.report.failure.unwrap().partial);
        assert_eq!(after.standin.requests().len(), 1);
    }
}

/// Months of empty answers turned out to be a refused parameter reported in a 200.
#[tokio::test]
async fn a_json_body_in_place_of_a_stream_is_read_for_what_it_is() {
    let error = r#"status 200 json; bytes "{\"error\":{\"message\":\"unsupported parameter\",\"type\":\"BadRequestError\",\"code\":400}}"; eof"#;
    let error = Case::new(error).play().await;
    assert_eq!(error.code(), "rejected");
    assert!(
        error.message().contains("unsupported parameter"),
        "{}",
        error.message()
    );
    assert_eq!(error.requests().len(), 1);

    let whole = r#"status 200 [content-type: application/json; charset=utf-8]; bytes "{\"id\":\"c\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"finish_reason\":\"tool_calls\",\"message\":{\"role\":\"assistant\",\"content\":\"Looking.\",\"tool_calls\":[{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"ls\",\"arguments\":\"{}\"}}]}}],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":3}}"; eof"#;
    let whole = Case::new(whole).play().await;
    assert_eq!(
        (whole.code(), &*whole.report.text),
        ("completed", "Looking.")
    );
    assert_eq!(whole.report.tool_calls.len(), 1);
    assert!(whole.report.tool_calls[0].complete);
    let usage = whole.report.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(12), Some(3))
    );
}

/// `Retry-After` was parsed as a number only; a date crashed the run.
#[tokio::test]
async fn a_date_in_retry_after_is_waited_for() {
    let script = "attempt 1: status 429 json [retry-after: <date+2>]; \
                  bytes \"{\\\"error\\\":{\\\"type\\\":\\\"rate_limit_error\\\"}}\"; eof\n\
                  attempt 2: answer \"ok\"";
    let played = Case::new(script).speed(1.0).play().await;

    assert_eq!((played.code(), &*played.report.text), ("completed", "ok"));
    let requests = played.requests();
    let gap = requests[1].at.saturating_sub(requests[0].ended.unwrap().1);
    assert!((1.0..=4.5).contains(&gap.as_secs_f64()), "{gap:?}");
    assert!(played.report.attempts[0].retry_after_ms.is_some());
}

/// A whole answer that was asked for has the one bound of a whole answer.
#[tokio::test]
async fn an_answer_that_is_not_streamed_is_whole_or_cut_by_whole_call() {
    for wire in Wire::ALL {
        let whole = Case::new("+30 answer \"ok\"")
            .wire(wire)
            .whole()
            .speed(50.0);
        let whole = whole.set_seconds("bounds.whole_call", 60.0).play().await;
        assert_eq!((whole.code(), &*whole.report.text), ("completed", "ok"));

        let late = Case::new("status 200 json; hold")
            .wire(wire)
            .whole()
            .speed(50.0);
        let late = late
            .set_seconds("bounds.whole_call", 60.0)
            .attempts(1)
            .play()
            .await;
        assert_eq!(
            (late.code(), late.bound()),
            ("raw_silent", Some("whole_call"))
        );
        late.assert_took(60.0, 50.0);
    }
}

/// Nine tries in quick succession against 529.
#[tokio::test]
async fn overload_is_met_with_growing_waits_up_to_the_attempts_allowed() {
    let refusal = "status 529 json; error overloaded_error; eof";
    let recovers = format!("attempt 1-2: {refusal}\nattempt 3: answer \"ok\"");
    let recovers = Case::new(&recovers)
        .speed(100.0)
        .set_seconds("retry.overload.first_delay", 10.0);
    let recovers = recovers.attempts(4).play().await;
    assert_eq!(
        (recovers.code(), recovers.requests().len()),
        ("completed", 3)
    );

    let storm = Case::new(refusal)
        .speed(100.0)
        .set_seconds("retry.overload.first_delay", 10.0);
    let storm = storm.attempts(4).play().await;
    assert_eq!((storm.code(), storm.requests().len()), ("overloaded", 4));
    assert!(storm.message().contains('4'), "{}", storm.message());
    let waits: Vec<_> = storm
        .report
        .attempts
        .iter()
        .map(|record| record.waited_ms)
        .collect();
    assert!(waits.is_sorted() && waits[1] >= 100, "{waits:?}");
}

/// A stall after visible text was retried from the start; the reader saw the opening twice.
#[tokio::test]
async fn what_was_shown_is_never_asked_for_again() {
    for wire in Wire::ALL {
        let script = "attempt 1: status 200 sse; text \"First, we\"; hold\n\
                      attempt 2: answer \"First, we go home.\"";
        let played = Case::new(script)
            .wire(wire)
            .speed(20.0)
            .set_seconds("bounds.raw_silence", 20.0)
            .attempts(3)
            .play()
            .await;

        assert_eq!(
            (played.code(), played.report.outcome),
            ("raw_silent", Outcome::Failed)
        );
        assert_eq!(played.report.text, "First, we");
        assert_eq!(played.requests().len(), 1);
        played.assert_took(20.0, 20.0);
        played.assert_left(0).await;
    }
}

/// A provider began to compress its stream; the relay took the bytes for text.
#[tokio::test]
async fn a_compressed_stream_is_read_as_it_comes_and_keeps_the_raw_clock() {
    let script = "status 200 sse [content-encoding: gzip]; gzip; role; +20 text \"o\"; \
                  +20 text \"k\"; +20 finish \"stop\"; done; eof";
    let played = Case::new(script)
        .speed(40.0)
        .set_seconds("bounds.raw_silence", 45.0)
        .play()
        .await;

    assert_eq!((played.code(), &*played.report.text), ("completed", "ok"));
    assert_eq!(
        played.requests()[0].header("accept-encoding"),
        Some("identity")
    );
    let first = played.report.attempts[0].first_content_ms.unwrap();
    assert!((450..1_000).contains(&first), "{first}");
}

/// Streams read to their end marker kept their connection.
#[tokio::test]
async fn an_answer_ends_at_its_end_marker_and_its_open_connection_is_dropped() {
    use lifesign::{CallRequest, Client, Upstream};
    use lifesign_standin::Standin;
    use lifesign_wire::Request;

    let script = "status 200 sse; text \"ok\"; finish \"stop\"; done; hold";
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let client = Client::new().unwrap();
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url()).unwrap();

    for index in 0..5 {
        let request = Request::prompt("m", "hello");
        let answered = client
            .answer(CallRequest::new(upstream.clone(), request))
            .await
            .unwrap();
        assert_eq!(answered.answer.text, "ok");
        assert!(answered.elapsed.as_millis() < 500, "{:?}", answered.elapsed);
        let closed = standin
            .wait_for_peer_closed(index, std::time::Duration::from_secs(2))
            .await;
        assert!(closed.is_some());
    }
    assert_eq!(standin.connections().len(), 5);
}

/// A reset stream was classed as permanent.
#[tokio::test]
async fn a_reset_is_repeated_before_content_and_not_after() {
    for http2 in [false, true] {
        let reset = if http2 {
            "h2.reset INTERNAL_ERROR"
        } else {
            "rst"
        };
        let before = format!("attempt 1: status 200 sse; +1 {reset}\nattempt 2: answer \"ok\"");
        let after = format!("status 200 sse; text \"a\"; +1 {reset}");
        let case = |script: &str| {
            let case = Case::new(script)
                .attempts(2)
                .set_seconds("bounds.raw_silence", 45.0);
            if http2 { case.http2() } else { case }
        };

        let before = case(&before).play().await;
        assert_eq!(
            (before.code(), before.requests().len()),
            ("completed", 2),
            "h2 {http2}"
        );

        let after = case(&after).play().await;
        assert_eq!(after.code(), "connection_lost");
        assert_eq!(
            (after.report.outcome, &*after.report.text),
            (Outcome::Truncated, "a")
        );
        assert_eq!(after.requests().len(), 1);
        assert!(
            after
                .requests()
                .iter()
                .all(|request| request.http2 == http2)
        );
    }
}

/// The socket stayed established with empty queues and the process slept for hours.
#[tokio::test]
async fn a_dead_peer_after_text_is_silence_with_the_text_kept() {
    for http2 in [false, true] {
        let case = Case::new("status 200 sse; text \"a\"; text \"b\"; text \"c\"; hold")
            .speed(40.0)
            .set_seconds("bounds.raw_silence", 45.0)
            .attempts(2);
        let played = if http2 { case.http2() } else { case }.play().await;

        assert_eq!((played.code(), &*played.report.text), ("raw_silent", "abc"));
        played.assert_took(45.0, 40.0);
        assert_eq!(played.requests().len(), 1);
        played.assert_left(0).await;
    }
}

/// An address that drops packets held each call for the full answer budget.
#[tokio::test]
async fn connecting_that_hangs_or_fails_is_named_with_its_stage() {
    use lifesign::{CallRequest, Client, Upstream};
    use lifesign_core::{Layer, Origin, Stage, Target, Value, resolve};
    use lifesign_standin::Blackhole;
    use lifesign_wire::Request;

    let hole = Blackhole::open().unwrap();
    let mut layer = Layer::new();
    for (key, value) in [
        ("bounds.connect", "500ms"),
        ("bounds.raw_silence", "300s"),
        ("retry.attempts", "2"),
        ("retry.transport.first_delay", "100ms"),
    ] {
        layer.set(key, Value::Text(value), Origin::Call).unwrap();
    }
    let wire = Wire::OPENAI_CHAT.defaults();
    let target = Target {
        wire: &wire,
        host: None,
        model: None,
    };
    let settings = resolve(&[layer], &target).unwrap();
    let ask = |url: String| {
        let upstream = Upstream::new(Wire::OPENAI_CHAT, &url).unwrap();
        let request = CallRequest::new(upstream, Request::prompt("m", "x"));
        let request = request.settings(settings.clone());
        async move { *Client::new().unwrap().answer(request).await.unwrap_err() }
    };

    let failed = ask(hole.url()).await;
    assert_eq!(failed.failure.code.name(), "connect");
    assert_eq!(failed.failure.stage, Some(Stage::Tcp));
    assert_eq!(failed.attempts.len(), 2);
    assert!(
        (1_000..1_600).contains(&failed.elapsed.as_millis()),
        "{:?}",
        failed.elapsed
    );
    assert!(
        !failed.failure.message().contains("quiet"),
        "{}",
        failed.failure.message()
    );

    let failed = ask("http://no-such-name.invalid".to_owned()).await;
    assert_eq!(
        (failed.failure.code.name(), failed.failure.stage),
        ("connect", Some(Stage::Dns))
    );
}

/// 0 meant "off" in one setting and "fail at once" in its neighbour.
#[tokio::test]
async fn zero_turns_a_bound_off_and_null_is_as_if_unset() {
    let bounds = [
        "connect",
        "headers",
        "raw_silence",
        "before_content",
        "between_events",
        "flat",
        "reasoning_only",
        "whole_call",
        "upstream_quiet",
        "lifetime",
        "wall_clock",
        "notice_after",
    ];
    let script = "status 200 sse; +5 text \"ok\"; finish \"stop\"; done; eof";
    for bound in bounds {
        for value in ["0", "0s", "off", "null"] {
            let key = format!("bounds.{bound}");
            let played = Case::new(script).speed(100.0).set(&key, value).play().await;
            assert_eq!(
                (played.code(), &*played.report.text),
                ("completed", "ok"),
                "{key}={value}"
            );
        }
    }
}

/// Retry callbacks fired on a signal that was already aborted; the read that a timeout left behind
/// crashed the process later.
#[tokio::test]
async fn a_cancel_keeps_the_part_and_leaves_nothing_behind() {
    for wire in Wire::ALL {
        let script = "status 200 sse; text \"a\"; hold";
        let played = Case::new(script)
            .wire(wire)
            .cancel_at(5.0)
            .attempts(3)
            .play()
            .await;

        assert_eq!((played.code(), &*played.report.text), ("cancelled", "a"));
        assert_eq!(played.report.outcome, Outcome::Cancelled);
        assert_eq!(played.requests().len(), 1);
        assert!(
            !played
                .events
                .iter()
                .any(|event| matches!(event, CallEvent::Retrying { .. }))
        );
        played.assert_left(0).await;
    }
}

/// Three layers of retries made 12 to 45 requests from one; two faults shared one sentence.
#[tokio::test]
async fn attempts_are_counted_once_and_two_faults_have_two_sentences() {
    let refused = "status 429 json [retry-after: 0]; error rate_limit_error; eof";
    let refused = Case::new(refused)
        .speed(50.0)
        .set_seconds("retry.rate.first_delay", 1.0);
    let refused = refused.attempts(4).play().await;
    assert_eq!(
        (refused.code(), refused.requests().len()),
        ("rate_limited", 4)
    );

    let ended = Case::new("status 200 sse; text \"a\"; eof").play().await;
    let lost = Case::new("status 200 sse; text \"a\"; cut").play().await;
    assert_eq!(
        (ended.code(), lost.code()),
        ("truncated", "connection_lost")
    );
    assert_eq!(
        (ended.report.outcome, lost.report.outcome),
        (Outcome::Truncated, Outcome::Truncated)
    );
    assert!(
        ended.message().contains("without a finish"),
        "{}",
        ended.message()
    );
    assert!(lost.message().contains("connection"), "{}", lost.message());
    for message in [ended.message(), lost.message()] {
        for blame in ["timed out", "too long", "context", "max_tokens", "length"] {
            assert!(!message.contains(blame), "{message}");
        }
    }
}
