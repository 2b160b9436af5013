//! anthropic: blocks, pings, and errors inside a success.
#![expect(
    clippy::needless_pass_by_value,
    reason = "calls with `json!` read better"
)]

use lifesign_core::Progress::{Heartbeat, Lifecycle, Output, Reasoning};
use lifesign_core::{Block, BlockKind, FailureCode, HeartbeatOrigin, Usage};
use lifesign_wire::{Expect, Incomplete, State, ToolCall, Wire};
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

fn messages(events: &[Value]) -> Seen {
    let stream = stream(events);
    let seen = read(Wire::ANTHROPIC, Expect::Stream, [stream.as_bytes()]);
    let slowly = read(Wire::ANTHROPIC, Expect::Stream, stream.as_bytes().chunks(1));
    assert_eq!(slowly, seen);
    seen
}

fn start() -> Value {
    let usage = json!({"input_tokens": 7, "output_tokens": 1});
    json!({"type": "message_start", "message": {"id": "msg", "model": "m", "content": [], "usage": usage}})
}

fn open(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn close(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}})
}

fn stop() -> Value {
    json!({"type": "message_stop"})
}

fn ping() -> Value {
    json!({"type": "ping"})
}

fn text(index: u64, text: &str) -> Value {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn round_trip(seen: &Seen) -> Vec<Value> {
    seen.answer
        .round_trip
        .parts()
        .map(|part| serde_json::from_str(part).unwrap())
        .collect()
}

#[test]
fn a_thinking_answer_is_classed_and_goes_back_with_its_signature() {
    let seen = messages(&[
        start(),
        open(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        ping(),
        delta(0, json!({"type": "thinking_delta", "thinking": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "s/+=="})),
        close(0),
        open(1, json!({"type": "redacted_thinking", "data": "r=="})),
        close(1),
        open(2, json!({"type": "text", "text": ""})),
        text(2, "42"),
        close(2),
        end("end_turn"),
        stop(),
    ]);

    let progress: Vec<_> = seen.signs.iter().map(|sign| sign.progress).collect();
    assert_eq!(
        progress,
        [
            Lifecycle, Lifecycle, Heartbeat, Lifecycle, Reasoning, Reasoning, Lifecycle, Reasoning,
            Lifecycle, Lifecycle, Output, Lifecycle, Output, Output
        ]
    );
    assert_eq!(seen.signs[2].origin, Some(HeartbeatOrigin::Provider));
    let blocks: Vec<_> = seen.signs.iter().filter_map(|sign| sign.block).collect();
    assert_eq!(
        blocks,
        [
            Block::Opens(BlockKind::Thinking),
            Block::Fills,
            Block::Fills,
            Block::Closes,
            Block::Opens(BlockKind::Thinking),
            Block::Closes,
            Block::Opens(BlockKind::Text),
            Block::Fills,
            Block::Closes,
            Block::Closes,
        ]
    );
    assert_eq!(
        round_trip(&seen),
        [
            json!({"type": "thinking", "thinking": "hm", "signature": "s/+=="}),
            json!({"type": "redacted_thinking", "data": "r=="}),
            json!({"type": "text", "text": "42"}),
        ]
    );
    let usage = Usage {
        input_tokens: Some(7),
        output_tokens: Some(9),
        ..Usage::default()
    };
    assert_eq!(seen.answer.usage, Some(usage));
}

#[test]
fn an_overload_inside_a_success_is_an_overload() {
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let first = messages(&[start(), error.clone()]);
    let later = messages(&[
        start(),
        open(0, json!({"type": "text", "text": ""})),
        text(0, "Half"),
        error,
    ]);

    for seen in [&first, &later] {
        assert_eq!(seen.states.unwrap().1, State::Failed);
        assert_eq!(seen.failure.as_ref().unwrap().code, FailureCode::Overloaded);
    }
    assert_eq!(
        (first.answer.text.as_str(), later.answer.text.as_str()),
        ("", "Half")
    );
}

#[test]
fn a_stop_reason_completes_an_answer_that_has_no_message_stop() {
    let seen = messages(&[
        start(),
        open(0, json!({"type": "text", "text": ""})),
        text(0, "a"),
        end("end_turn"),
    ]);

    assert_eq!(seen.outcome, Some(Ok(())));
    assert_eq!(seen.states.unwrap().1, State::Finished);
}

#[test]
fn an_answer_without_a_stop_reason_is_truncated() {
    let begun = [
        start(),
        open(0, json!({"type": "text", "text": ""})),
        text(0, "a"),
        close(0),
    ];

    assert_eq!(messages(&begun).outcome, Some(Err(Incomplete::Truncated)));
    assert_eq!(messages(&begun[..1]).outcome, Some(Err(Incomplete::Empty)));
}

#[test]
fn a_tool_without_input_gets_an_empty_object_when_the_answer_finished() {
    let tool = json!({"type": "tool_use", "id": "t1", "name": "f", "input": {}});
    let empty = delta(0, json!({"type": "input_json_delta", "partial_json": ""}));
    let call = |reason| {
        let seen = messages(&[
            start(),
            open(0, tool.clone()),
            empty.clone(),
            close(0),
            end(reason),
            stop(),
        ]);
        (seen.answer.tool_calls.clone(), round_trip(&seen))
    };
    let expected = |arguments: &str, complete| ToolCall {
        id: "t1".to_owned(),
        name: "f".to_owned(),
        arguments: arguments.to_owned(),
        complete,
        kind: None,
    };

    assert_eq!(
        call("tool_use"),
        (vec![expected("{}", true)], vec![tool.clone()])
    );
    assert_eq!(call("max_tokens"), (vec![expected("", false)], vec![]));
}

#[test]
fn an_input_that_came_whole_with_its_start_is_taken() {
    let tool = json!({"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}});

    let seen = messages(&[
        start(),
        open(0, tool.clone()),
        close(0),
        end("tool_use"),
        stop(),
    ]);

    assert_eq!(seen.answer.tool_calls[0].arguments, "{\"a\":1}");
    assert_eq!(round_trip(&seen), [tool]);
}

#[test]
fn a_server_tool_works_in_the_dark_until_its_result_comes() {
    let result =
        json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"x": 1}]});
    let seen = messages(&[
        start(),
        open(
            0,
            json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
        ),
        delta(
            0,
            json!({"type": "input_json_delta", "partial_json": "{\"q\":1}"}),
        ),
        close(0),
        open(1, result.clone()),
        close(1),
        end("end_turn"),
        stop(),
    ]);

    assert_eq!(seen.answer.tool_calls, []);
    let server = &seen.answer.server_tool_calls[0];
    assert_eq!(
        (server.name.as_str(), server.arguments.as_str()),
        ("web_search", "{\"q\":1}")
    );
    assert_eq!(
        seen.signs[3].block,
        Some(Block::Opens(BlockKind::ServerTool))
    );
    assert_eq!(seen.signs[4].progress, Output);
    assert_eq!(round_trip(&seen)[1], result);
}

#[test]
fn unknown_types_survive() {
    let block = json!({"type": "hologram", "beams": 3});
    let seen = messages(&[
        start(),
        json!({"type": "weather", "x": 1}),
        open(0, block.clone()),
        delta(0, json!({"type": "beam_delta", "beam": 1})),
        close(0),
        open(1, json!({"type": "text", "text": ""})),
        text(1, "ok"),
        close(1),
        end("end_turn"),
        stop(),
    ]);

    assert_eq!(seen.answer.text, "ok");
    assert_eq!(round_trip(&seen)[0], block);
}

#[test]
fn citations_go_back_with_their_text() {
    let citation = json!({"type": "char_location", "cited_text": "x"});
    let seen = messages(&[
        start(),
        open(0, json!({"type": "text", "text": "", "citations": []})),
        delta(0, json!({"type": "citations_delta", "citation": citation})),
        text(0, "a"),
        close(0),
        end("end_turn"),
        stop(),
    ]);

    assert_eq!(
        round_trip(&seen),
        [json!({"type": "text", "text": "a", "citations": [citation]})]
    );
    assert_eq!(seen.signs[2].progress, Output);
}

#[test]
fn events_without_their_event_line_are_known_by_their_type() {
    let stream = [
        start(),
        open(0, json!({"type": "text", "text": ""})),
        text(0, "a"),
        end("end_turn"),
        stop(),
    ]
    .map(|event| format!("data: {event}\n\n"))
    .concat();

    let seen = read(Wire::ANTHROPIC, Expect::Stream, [stream.as_bytes()]);

    assert_eq!(
        (seen.answer.text.as_str(), seen.states.unwrap().1),
        ("a", State::Ended)
    );
}

#[test]
fn cumulative_usage_that_falls_to_zero_is_not_told() {
    let seen = messages(&[
        start(),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 0, "output_tokens": 5}}),
        stop(),
    ]);

    assert_eq!(seen.answer.usage.unwrap().input_tokens, Some(7));
}

#[test]
fn a_whole_message_is_the_same_answer_as_its_stream() {
    let tool = json!({"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}});
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let content = json!([thinking, {"type": "text", "text": "ok"}, tool]);
    let body = json!({
        "type": "message", "id": "msg", "model": "m", "role": "assistant", "content": content,
        "stop_reason": "tool_use", "usage": {"input_tokens": 7, "output_tokens": 9},
    });
    let streamed = messages(&[
        start(),
        open(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "s"})),
        close(0),
        open(1, json!({"type": "text", "text": ""})),
        text(1, "ok"),
        close(1),
        open(
            2,
            json!({"type": "tool_use", "id": "t1", "name": "f", "input": {}}),
        ),
        delta(
            2,
            json!({"type": "input_json_delta", "partial_json": "{\"a\":1}"}),
        ),
        close(2),
        end("tool_use"),
        stop(),
    ]);

    let whole = read(
        Wire::ANTHROPIC,
        Expect::Whole,
        [body.to_string().as_bytes()],
    );

    assert_eq!(Value::from(round_trip(&whole)), content);
    assert_eq!(whole.answer, streamed.answer);
}

#[test]
fn a_whole_error_is_an_error() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;

    let seen = read(Wire::ANTHROPIC, Expect::Whole, [body.as_bytes()]);

    assert_eq!(seen.failure.unwrap().code, FailureCode::Overloaded);
}

fn progress(seen: &Seen) -> Vec<lifesign_core::Progress> {
    seen.signs.iter().map(|sign| sign.progress).collect()
}

#[test]
fn a_block_of_any_kind_that_opens_with_content_is_content() {
    for block in [
        json!({"type": "compaction", "content": "so far"}),
        json!({"type": "compaction", "content": [{"a": 1}]}),
        json!({"type": "image", "source": {"data": "x"}}),
        json!({"type": "hologram", "beams": "x"}),
        json!({"type": "text", "text": "", "citations": [{"cited_text": "x"}]}),
    ] {
        let seen = messages(&[start(), open(0, block.clone())]);
        assert_eq!(progress(&seen), [Lifecycle, Output], "{block}");
        assert_eq!(seen.outcome, Some(Err(Incomplete::Truncated)), "{block}");
        assert!(!seen.answer.is_empty(), "{block}");
    }
    let empty = json!({"type": "hologram", "id": "x", "beams": ""});
    let seen = messages(&[start(), open(0, empty)]);
    assert_eq!(progress(&seen), [Lifecycle, Lifecycle]);
    assert_eq!(seen.outcome, Some(Err(Incomplete::Empty)));
}

#[test]
fn a_delta_of_an_unknown_kind_that_brings_something_is_content() {
    let begun = [start(), open(0, json!({"type": "hologram"}))];
    let with = |piece: Value| messages(&[&begun[..], &[delta(0, piece)]].concat());

    let seen = with(json!({"type": "beam_delta", "beam": "x"}));
    assert_eq!(seen.signs[2].progress, Output);
    assert_eq!(seen.signs[2].block, Some(Block::Fills));
    assert!(!seen.answer.is_empty());
    let seen = with(json!({"type": "compaction_delta", "content": "so far"}));
    assert_eq!(seen.signs[2].progress, Output);
    let seen = with(json!({"type": "beam_delta", "beam": ""}));
    assert_eq!(seen.signs[2].progress, Lifecycle);
}

#[test]
fn an_error_that_does_not_say_its_type_is_one() {
    for error in [
        r#"data: {"error":{"type":"overloaded_error","message":"m"}}"#,
        r#"data: {"error":{"code":529,"message":"m"}}"#,
        r#"data: {"object":"error","message":"m","type":"overloaded_error"}"#,
        r#"data: {"type":"overloaded_error","message":"m"}"#,
        "event: error\ndata: {\"message\":\"m\",\"code\":529}",
        "event: content_block_delta\ndata: {\"error\":{\"code\":529,\"message\":\"m\"}}",
    ] {
        for before in [vec![start()], vec![start(), text(0, "a")]] {
            let stream = format!("{}{error}\n\n", stream(&before));
            let seen = read(Wire::ANTHROPIC, Expect::Stream, [stream.as_bytes()]);
            let failure = seen.failure.unwrap();
            assert_eq!(
                (failure.code, failure.message.as_str()),
                (FailureCode::Overloaded, "m"),
                "{error}"
            );
        }
    }
    let text = format!("{}data: {{\"error\":\"m\"}}\n\n", stream(&[start()]));
    let seen = read(Wire::ANTHROPIC, Expect::Stream, [text.as_bytes()]);
    assert_eq!(seen.failure.unwrap().message, "m");
}

#[test]
fn counters_of_work_are_found_in_events_of_any_kind() {
    for event in [
        json!({"type": "progress", "tokens": 0}),
        json!({"type": "prompt_progress", "prompt_progress": {"total": 9, "processed": 0}}),
        json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 0}}),
    ] {
        let at = |count: u64| {
            let text = event.to_string().replace('0', &count.to_string());
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let seen = messages(&[at(3), at(2), at(1), at(1)]);
        assert_eq!(
            progress(&seen),
            [Lifecycle, Lifecycle, Lifecycle, Heartbeat],
            "{event}"
        );
    }
    assert_eq!(
        progress(&messages(&[json!({"type": "ping", "tokens": 1})])),
        [Heartbeat]
    );
}

#[test]
fn output_tokens_that_are_zero_were_said() {
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 0}});

    let seen = messages(&[start(), end, stop()]);

    assert_eq!(seen.answer.usage.unwrap().output_tokens, Some(0));
}

#[test]
fn the_end_of_an_answer_that_is_empty_is_no_output() {
    let seen = messages(&[start(), stop()]);

    assert_eq!(progress(&seen), [Lifecycle, Lifecycle]);
    assert_eq!(seen.failure.unwrap().code, FailureCode::Empty);
    assert!(seen.answer.is_empty());
    let signed = messages(&[
        start(),
        delta(0, json!({"type": "signature_delta", "signature": "s"})),
    ]);
    assert!(!signed.answer.is_empty());
}
