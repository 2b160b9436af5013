//! openai-responses: items, snapshots, and errors of two shapes.
#![expect(
    clippy::needless_pass_by_value,
    reason = "calls with `json!` read better"
)]

use lifesign_core::Progress::{Heartbeat, Lifecycle, Output, Reasoning};
use lifesign_core::{Block, BlockKind, FailureCode, HeartbeatOrigin};
use lifesign_wire::{Expect, Incomplete, ReadLimits, Reader, State, Wire};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::wires::{Seen, read};

fn stream(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| {
            let name = event["type"].as_str().unwrap();
            format!("event: {name}\ndata: {event}\n\n")
        })
        .collect::<Vec<_>>()
        .concat()
}

fn responses(events: &[Value]) -> Seen {
    let stream = stream(events);
    let seen = read(Wire::OPENAI_RESPONSES, Expect::Stream, [stream.as_bytes()]);
    let slowly = read(
        Wire::OPENAI_RESPONSES,
        Expect::Stream,
        stream.as_bytes().chunks(1),
    );
    assert_eq!(slowly, seen);
    seen
}

fn created() -> Value {
    json!({"type": "response.created", "response": {"id": "r", "model": "m", "status": "in_progress", "output": []}})
}

fn added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn item_done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn text(index: u64, delta: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": delta})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {
        "id": "r", "model": "m", "status": "completed", "output": output,
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }})
}

fn round_trip(seen: &Seen) -> Vec<Value> {
    seen.answer
        .round_trip
        .parts()
        .map(|part| serde_json::from_str(part).unwrap())
        .collect()
}

#[test]
fn an_answer_is_built_from_its_items_not_from_the_snapshot() {
    let call = |arguments: &str| json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments});
    let reasoning = |encrypted: &str| json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": encrypted});
    let seen = responses(&[
        created(),
        added(0, reasoning("old")),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "hm"}),
        item_done(0, reasoning("new")),
        added(1, json!({"type": "message", "content": []})),
        text(1, "ok"),
        item_done(1, message("ok")),
        added(2, call("")),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{}"}),
        item_done(2, call("{}")),
        completed(json!([])),
    ]);

    assert_eq!(seen.answer.text, "ok");
    assert_eq!(seen.answer.reasoning.as_deref(), Some("hm"));
    let call_made = &seen.answer.tool_calls[0];
    assert_eq!(
        (
            call_made.id.as_str(),
            call_made.arguments.as_str(),
            call_made.complete
        ),
        ("c", "{}", true)
    );
    assert_eq!(
        round_trip(&seen),
        [reasoning("new"), message("ok"), call("{}")]
    );
    let progress: Vec<_> = seen.signs.iter().map(|sign| sign.progress).collect();
    assert_eq!(
        progress,
        [
            Lifecycle, Reasoning, Reasoning, Reasoning, Lifecycle, Output, Lifecycle, Output,
            Output, Lifecycle, Output
        ]
    );
    assert_eq!(seen.signs[7].block, Some(Block::Opens(BlockKind::Tool)));
}

#[test]
fn final_values_fill_in_what_no_delta_brought() {
    let done = json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "ok"});
    for events in [
        vec![
            added(0, json!({"type": "message"})),
            done.clone(),
            item_done(0, message("ok")),
        ],
        vec![item_done(0, message("ok"))],
        vec![],
        vec![text(0, "ok"), done, item_done(0, message("ok"))],
    ] {
        let events = [events, vec![completed(json!([message("ok")]))]].concat();
        assert_eq!(responses(&events).answer.text, "ok", "{events:?}");
    }
}

#[test]
fn both_shapes_of_an_error_fail_the_answer() {
    for error in [
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": null}),
        json!({"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow down"}}),
        json!({"type": "response.failed", "response": {
            "status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow down"},
        }}),
    ] {
        let seen = responses(&[created(), error.clone()]);
        let failure = seen.failure.unwrap();
        assert_eq!(
            (failure.code, failure.message.as_str()),
            (FailureCode::RateLimited, "slow down"),
            "{error}"
        );
        assert_eq!(seen.answer.finish_reason, None);
    }
}

#[test]
fn a_failure_that_says_nothing_is_a_failure() {
    let seen = responses(&[json!({"type": "response.failed", "response": {"error": null}})]);

    assert_eq!(seen.failure.unwrap().code, FailureCode::ProviderError);
}

#[test]
fn an_incomplete_response_is_whole_with_its_reason_and_its_cut_call_is_not() {
    let seen = responses(&[
        added(
            0,
            json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}),
        ),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"a"}),
        json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}}),
    ]);

    assert_eq!(seen.outcome, Some(Ok(())));
    assert_eq!(
        seen.answer.finish_reason.as_deref(),
        Some("incomplete:max_output_tokens")
    );
    assert!(!seen.answer.tool_calls[0].complete);
    assert!(seen.answer.round_trip.is_empty());
}

#[test]
fn without_its_terminal_event_an_answer_is_truncated_whatever_stands_there() {
    let seen = responses(&[text(0, "a"), item_done(0, message("a"))]);

    assert_eq!(seen.outcome, Some(Err(Incomplete::Truncated)));
    assert_eq!(
        responses(&[created()]).outcome,
        Some(Err(Incomplete::Empty))
    );
}

#[test]
fn keepalives_of_all_kinds_are_heartbeats() {
    for kind in ["keepalive", "response.heartbeat", "response.keep_alive"] {
        let seen = responses(&[json!({"type": kind, "sequence_number": 1})]);
        assert_eq!(
            seen.signs[0].origin,
            Some(HeartbeatOrigin::Provider),
            "{kind}"
        );
    }
}

#[test]
fn ids_that_change_do_not_split_an_item() {
    let piece = |id: &str, delta: &str| json!({"type": "response.output_text.delta", "item_id": id, "output_index": 0, "content_index": 0, "delta": delta});

    let seen = responses(&[
        piece("a", "1"),
        piece("b", "2"),
        item_done(0, message("12")),
        completed(json!([])),
    ]);

    assert_eq!(seen.answer.text, "12");
}

#[test]
fn a_gap_in_the_numbers_is_reported_and_not_fatal() {
    let mut reader = Reader::new(
        Wire::OPENAI_RESPONSES,
        Expect::Stream,
        &ReadLimits::default(),
    );
    let numbered = |number: u64| json!({"type": "response.in_progress", "sequence_number": number});
    let stream = stream(&[numbered(0), numbered(1), numbered(4), completed(json!([]))]);

    reader
        .read(stream.as_bytes(), &mut Seen::default())
        .unwrap();

    assert_eq!(reader.oddities().sequence_gaps, 1);
    assert_eq!(reader.state(), State::Ended);
}

#[test]
fn custom_and_remote_calls_are_told_apart() {
    let seen = responses(&[
        added(
            0,
            json!({"type": "custom_tool_call", "call_id": "c", "name": "shell", "input": ""}),
        ),
        json!({"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": "ls -l"}),
        added(
            1,
            json!({"type": "mcp_call", "id": "m", "name": "ask", "arguments": ""}),
        ),
        json!({"type": "response.mcp_call_arguments.done", "output_index": 1, "arguments": "{}"}),
        json!({"type": "response.mcp_call.in_progress", "output_index": 1}),
        item_done(
            1,
            json!({"type": "mcp_call", "id": "m", "name": "ask", "arguments": "{}", "output": "x"}),
        ),
        completed(json!([])),
    ]);

    let custom = &seen.answer.tool_calls[0];
    assert_eq!(
        (
            custom.name.as_str(),
            custom.arguments.as_str(),
            custom.complete,
            custom.kind.as_deref()
        ),
        ("shell", "ls -l", true, Some("custom_tool_call"))
    );
    let remote = &seen.answer.server_tool_calls[0];
    assert_eq!(
        (remote.name.as_str(), remote.arguments.as_str()),
        ("ask", "{}")
    );
    assert_eq!(seen.signs[4].progress, Lifecycle);
}

#[test]
fn a_hosted_tool_is_output_when_called_and_when_it_answers() {
    let call = |status: &str| json!({"type": "web_search_call", "id": "ws", "status": status});
    let seen = responses(&[
        added(0, call("in_progress")),
        json!({"type": "response.web_search_call.searching", "output_index": 0}),
        item_done(0, call("completed")),
        completed(json!([])),
    ]);

    let progress: Vec<_> = seen.signs.iter().map(|sign| sign.progress).collect();
    assert_eq!(progress, [Output, Lifecycle, Output, Output]);
    assert_eq!(
        seen.signs[0].block,
        Some(Block::Opens(BlockKind::ServerTool))
    );
    assert_eq!(round_trip(&seen), [call("completed")]);
}

#[test]
fn a_whole_response_is_the_same_answer_as_its_stream() {
    let output = json!([
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"},
        message("ok"),
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    ]);
    let body = json!({
        "object": "response", "id": "r", "model": "m", "status": "completed", "output": output,
        "usage": {"input_tokens": 3, "output_tokens": 4}, "error": null,
    });
    let streamed = responses(&[created(), completed(output)]);

    let whole = read(
        Wire::OPENAI_RESPONSES,
        Expect::Stream,
        [body.to_string().as_bytes()],
    );

    assert_eq!(whole.answer, streamed.answer);
    assert_eq!(
        (
            whole.answer.text.as_str(),
            whole.answer.reasoning.as_deref()
        ),
        ("ok", Some("hm"))
    );
}

#[test]
fn a_whole_response_that_failed_is_a_failure() {
    let body = r#"{"object":"response","status":"failed","output":[],"error":{"code":"server_error","message":"no"}}"#;

    let seen = read(Wire::OPENAI_RESPONSES, Expect::Whole, [body.as_bytes()]);

    assert_eq!(seen.failure.unwrap().message, "no");
}

fn progress(seen: &Seen) -> Vec<lifesign_core::Progress> {
    seen.signs.iter().map(|sign| sign.progress).collect()
}

#[test]
fn every_delta_that_brings_something_is_content() {
    for (kind, field, value) in [
        (
            "response.code_interpreter_call_code.delta",
            "delta",
            json!("x"),
        ),
        ("response.shell_call_command.delta", "command", json!("ls")),
        (
            "response.shell_call_output_content.delta",
            "delta",
            json!({"stdout": "x"}),
        ),
        (
            "response.apply_patch_call_operation_diff.delta",
            "diff",
            json!("x"),
        ),
        ("response.output_audio.delta", "delta", json!("AAAA")),
        ("response.audio.transcript.delta", "delta", json!("x")),
        ("response.output_text.delta", "delta", json!({"text": "x"})),
        ("response.hologram.delta", "data", json!([1])),
        (
            "response.code_interpreter_call_code.done",
            "code",
            json!("x"),
        ),
    ] {
        let seen = responses(&[created(), json!({"type": kind, field: value})]);
        assert_eq!(progress(&seen), [Lifecycle, Output], "{kind}");
        assert_eq!(seen.outcome, Some(Err(Incomplete::Truncated)), "{kind}");
        assert!(!seen.answer.is_empty(), "{kind}");

        let empty = responses(&[created(), json!({"type": kind, field: ""})]);
        assert_eq!(progress(&empty), [Lifecycle, Lifecycle], "{kind}");
        assert_eq!(empty.outcome, Some(Err(Incomplete::Empty)), "{kind}");
    }
    let thinking = json!({"type": "response.reasoning.delta", "delta": {"text": "hm"}});
    assert_eq!(progress(&responses(&[thinking])), [Reasoning]);
}

#[test]
fn a_final_value_is_content_only_where_no_delta_came_before() {
    let code = |kind: &str, field: &str| json!({"type": kind, "output_index": 0, field: "x"});
    let seen = responses(&[
        code("response.code_interpreter_call_code.delta", "delta"),
        code("response.code_interpreter_call_code.done", "code"),
    ]);

    assert_eq!(progress(&seen), [Output, Lifecycle]);
}

#[test]
fn a_part_that_is_done_fills_in_what_no_delta_brought() {
    let done = |part: Value| json!({"type": "response.content_part.done", "output_index": 0, "content_index": 0, "part": part});
    let part = done(json!({"type": "output_text", "text": "ok"}));

    for events in [
        vec![part.clone()],
        vec![text(0, "ok"), part.clone()],
        vec![part.clone(), item_done(0, message("ok"))],
    ] {
        assert_eq!(responses(&events).answer.text, "ok", "{events:?}");
    }
    assert_eq!(progress(&responses(&[part])), [Output]);
    let refusal = done(json!({"type": "refusal", "refusal": "no"}));
    assert_eq!(responses(&[refusal]).answer.refusal.as_deref(), Some("no"));
    let summary = json!({"type": "response.reasoning_summary_part.done", "output_index": 0, "summary_index": 0, "part": {"type": "summary_text", "text": "hm"}});
    let seen = responses(&[summary]);
    assert_eq!(seen.answer.reasoning.as_deref(), Some("hm"));
    assert_eq!(progress(&seen), [Reasoning]);
}

#[test]
fn an_item_that_opens_with_content_is_content() {
    for (item, expected) in [
        (message("ok"), Output),
        (json!({"type": "hologram", "data": "x"}), Output),
        (json!({"type": "hologram"}), Lifecycle),
        (
            json!({"type": "compaction", "encrypted_content": "x"}),
            Reasoning,
        ),
        (
            json!({"type": "reasoning", "summary": [{"text": "hm"}]}),
            Reasoning,
        ),
    ] {
        let seen = responses(&[added(0, item.clone())]);
        assert_eq!(progress(&seen), [expected], "{item}");
        assert_eq!(seen.answer.is_empty(), expected == Lifecycle, "{item}");
    }
}

#[test]
fn an_error_that_does_not_say_its_type_is_one() {
    for error in [
        r#"{"error":{"message":"m","code":503}}"#,
        r#"{"error":"m"}"#,
        r#"{"object":"error","message":"m","type":"ServiceUnavailableError"}"#,
        r#"{"code":503,"message":"m"}"#,
    ] {
        for before in [created(), text(0, "a")] {
            let stream = format!("{}data: {error}\n\n", stream(&[before]));
            let seen = read(Wire::OPENAI_RESPONSES, Expect::Stream, [stream.as_bytes()]);
            assert_eq!(seen.states.unwrap().1, State::Failed, "{error}");
            assert_eq!(seen.failure.unwrap().message, "m", "{error}");
            assert_eq!(seen.signs[1].progress, Lifecycle, "{error}");
        }
    }
}

#[test]
fn a_whole_response_that_still_runs_is_not_complete() {
    for status in ["in_progress", "queued"] {
        for (output, expected) in [
            (json!([]), Incomplete::Empty),
            (json!([message("a")]), Incomplete::Truncated),
        ] {
            let body = json!({"object": "response", "status": status, "output": output});
            let seen = read(
                Wire::OPENAI_RESPONSES,
                Expect::Whole,
                [body.to_string().as_bytes()],
            );
            assert_eq!(seen.outcome, Some(Err(expected)), "{body}");
            assert_eq!(seen.failure.unwrap().code, expected.code(), "{body}");
            assert_eq!(seen.answer.finish_reason, None);
        }
    }
}

#[test]
fn the_status_of_a_response_stands_whatever_its_event_is_called() {
    let completed = |response: Value| {
        responses(&[
            text(0, "a"),
            json!({"type": "response.completed", "response": response}),
        ])
    };
    let error = json!({"code": "server_error", "message": "boom"});

    for response in [
        json!({"status": "failed", "error": error}),
        json!({"error": error}),
    ] {
        let seen = completed(response);
        let failure = seen.failure.unwrap();
        assert_eq!(
            (failure.code, failure.message.as_str()),
            (FailureCode::ProviderError, "boom")
        );
        assert_eq!(seen.answer.finish_reason, None);
        assert_eq!(seen.signs[1].progress, Lifecycle);
    }
    let details = json!({"reason": "max_output_tokens"});
    let seen = completed(json!({"status": "incomplete", "incomplete_details": details}));
    assert_eq!(
        seen.answer.finish_reason.as_deref(),
        Some("incomplete:max_output_tokens")
    );
}

#[test]
fn counters_of_work_are_found_in_events_of_any_kind() {
    for event in [
        json!({"type": "response.in_progress", "response": {"prompt_progress": {"processed": 0}}}),
        json!({"type": "response.in_progress", "response": {"usage": {"output_tokens": 0}}}),
        json!({"type": "response.queued", "queue_position": 0}),
        json!({"type": "hologram", "progress": {"tokens": 0}}),
    ] {
        let at = |count: u64| {
            let text = event.to_string().replace('0', &count.to_string());
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let seen = responses(&[at(3), at(2), at(1), at(1)]);
        assert_eq!(
            progress(&seen),
            [Lifecycle, Lifecycle, Lifecycle, Heartbeat],
            "{event}"
        );
    }
    let numbered = |number: u64| json!({"type": "response.in_progress", "sequence_number": number});
    assert_eq!(
        progress(&responses(&[numbered(0), numbered(1), numbered(2)])),
        [Lifecycle, Lifecycle, Heartbeat]
    );
}
