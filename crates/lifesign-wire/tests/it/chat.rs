//! openai-chat: what its many servers send.
#![expect(
    clippy::needless_pass_by_value,
    reason = "calls with `json!` read better"
)]

use lifesign_core::Progress::{Heartbeat, Lifecycle, Output, Reasoning};
use lifesign_core::{Block, BlockKind, FailureCode, HeartbeatOrigin, Progress, Sign, Usage};
use lifesign_wire::{Expect, Incomplete, ReadError, ReadLimits, Reader, State, ToolCall, Wire};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::wires::{Seen, read};

/// Returns the stream of these chunks' deltas, and whatever is no object as it stands.
fn stream(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| match event {
            Value::String(raw) => raw.clone(),
            event => format!("data: {event}\n\n"),
        })
        .collect::<Vec<_>>()
        .concat()
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn text(text: &str) -> Value {
    delta(json!({"content": text}))
}

fn think(text: &str) -> Value {
    delta(json!({"reasoning_content": text}))
}

fn tool(piece: Value) -> Value {
    delta(json!({"tool_calls": [piece]}))
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn done() -> Value {
    "data: [DONE]\n\n".into()
}

fn chat(events: &[Value]) -> Seen {
    let stream = stream(events);
    let seen = read(Wire::OPENAI_CHAT, Expect::Stream, [stream.as_bytes()]);
    let slowly = read(
        Wire::OPENAI_CHAT,
        Expect::Stream,
        stream.as_bytes().chunks(1),
    );
    assert_eq!(slowly, seen);
    seen
}

fn progress(seen: &Seen) -> Vec<Progress> {
    seen.signs.iter().map(|sign| sign.progress).collect()
}

fn call(id: &str, name: &str, arguments: &str, complete: bool) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        complete,
        kind: None,
    }
}

#[test]
fn a_stream_ends_at_done() {
    let seen = chat(&[text("Hello"), finish("stop"), done(), text("late")]);

    assert_eq!(seen.states, Some((State::Ended, State::Ended)));
    assert_eq!(seen.answer.text, "Hello");
    assert_eq!(seen.answer.finish_reason.as_deref(), Some("stop"));
}

#[test]
fn done_is_done_with_a_space_in_an_odd_event_and_without_a_blank_line() {
    for end in [
        "data: [DONE] \n\n",
        "event: data\ndata: [DONE]\n\n",
        "data:[DONE]",
    ] {
        let seen = chat(&[text("a"), finish("stop"), end.into()]);
        assert_eq!(seen.states.unwrap().1, State::Ended, "{end:?}");
    }
}

#[test]
fn a_stream_without_a_finish_is_truncated_and_its_text_is_kept() {
    let seen = chat(&[text("The answer is")]);

    assert_eq!(seen.states.unwrap().1, State::Open);
    assert_eq!(seen.outcome, Some(Err(Incomplete::Truncated)));
    assert_eq!(seen.answer.text, "The answer is");
    assert_eq!(seen.answer.finish_reason, None);
}

#[test]
fn reasoning_alone_is_truncated() {
    assert_eq!(
        chat(&[think("a")]).outcome,
        Some(Err(Incomplete::Truncated))
    );
}

#[test]
fn a_stream_with_neither_content_nor_finish_is_empty() {
    let role = delta(json!({"role": "assistant", "content": ""}));

    assert_eq!(chat(&[]).outcome, Some(Err(Incomplete::Empty)));
    assert_eq!(
        chat(std::slice::from_ref(&role)).outcome,
        Some(Err(Incomplete::Empty))
    );
    for events in [vec![done()], vec![role, done()]] {
        let seen = chat(&events);
        assert_eq!(seen.states.unwrap().1, State::Failed);
        assert_eq!(seen.failure.unwrap().code, FailureCode::Empty);
    }
}

#[test]
fn done_without_a_finish_completes_what_has_content() {
    let seen = chat(&[text("4"), done()]);

    assert_eq!(seen.outcome, Some(Ok(())));
    assert_eq!(seen.states.unwrap().1, State::Ended);
    assert_eq!(seen.answer.finish_reason, None);
}

#[test]
fn an_empty_answer_with_a_finish_is_whole() {
    assert_eq!(chat(&[finish("stop")]).outcome, Some(Ok(())));
}

#[test]
fn a_call_without_an_index_is_put_together() {
    let seen = chat(&[
        tool(json!({"id": "call_1", "type": "function",
                    "function": {"name": "get_weather", "arguments": ""}})),
        tool(json!({"function": {"arguments": "{\"city\":"}})),
        tool(json!({"function": {"arguments": "\"Oslo\"}"}})),
        finish("tool_calls"),
        done(),
    ]);

    assert_eq!(
        seen.answer.tool_calls,
        [call("call_1", "get_weather", "{\"city\":\"Oslo\"}", true)]
    );
}

#[test]
fn an_empty_id_and_name_are_absence() {
    let seen = chat(&[
        tool(json!({"index": 0, "id": "call_1", "function": {"name": "add", "arguments": "{"}})),
        tool(json!({"index": 0, "id": "", "function": {"name": "", "arguments": "\"x\":2}"}})),
        finish("tool_calls"),
        done(),
    ]);

    assert_eq!(
        seen.answer.tool_calls,
        [call("call_1", "add", "{\"x\":2}", true)]
    );
}

#[test]
fn calls_that_all_have_index_0_are_told_apart_by_their_ids() {
    let seen = chat(&[
        tool(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}})),
        tool(json!({"index": 0, "id": "b", "function": {"name": "g", "arguments": "{}"}})),
        finish("stop"),
        done(),
    ]);

    assert_eq!(
        seen.answer.tool_calls,
        [call("a", "f", "{}", true), call("b", "g", "{}", true)]
    );
    assert_eq!(seen.answer.finish_reason.as_deref(), Some("stop"));
}

#[test]
fn arguments_may_be_null_or_an_object() {
    let seen = chat(&[
        tool(json!({"index": 1, "id": "a", "function": {"name": "f", "arguments": null}})),
        tool(json!({"index": 2, "id": "b", "function": {"name": "g", "arguments": {"x": 1}}})),
        finish("tool_calls"),
        done(),
    ]);

    assert_eq!(
        seen.answer.tool_calls,
        [call("a", "f", "", true), call("b", "g", "{\"x\":1}", true)]
    );
}

#[test]
fn a_call_that_was_cut_keeps_its_raw_text() {
    let open =
        tool(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":"}}));

    for events in [vec![open.clone(), finish("length"), done()], vec![open]] {
        assert_eq!(
            chat(&events).answer.tool_calls,
            [call("a", "f", "{\"x\":", false)]
        );
    }
}

#[test]
fn a_whole_call_in_a_stream_that_broke_off_may_not_be_run() {
    let seen = chat(&[tool(
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}),
    )]);

    assert_eq!(seen.answer.tool_calls, [call("a", "f", "{}", false)]);
}

#[test]
fn a_legacy_function_call_is_a_call() {
    let seen = chat(&[
        delta(json!({"function_call": {"name": "f", "arguments": ""}})),
        delta(json!({"function_call": {"arguments": "{}"}})),
        finish("function_call"),
        done(),
    ]);

    assert_eq!(seen.answer.tool_calls, [call("", "f", "{}", true)]);
}

#[test]
fn the_first_finish_decides_and_late_usage_is_taken() {
    let seen = chat(&[
        tool(json!({"index": 0, "id": "c1", "function": {"name": "ls", "arguments": "{}"}})),
        finish("tool_calls"),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}}),
        done(),
    ]);

    let usage = Usage {
        input_tokens: Some(12),
        output_tokens: Some(3),
        ..Usage::default()
    };
    assert_eq!(seen.answer.usage, Some(usage));
    assert_eq!(seen.answer.tool_calls, [call("c1", "ls", "{}", true)]);
    assert_eq!(seen.outcome, Some(Ok(())));
}

#[test]
fn usage_is_read_wherever_it_stands_and_never_summed() {
    let usage = json!({"prompt_tokens": 7.0, "completion_tokens": "3"});
    for events in [
        vec![json!({"choices": [{"delta": {"content": "a"}, "usage": usage}]})],
        vec![json!({"choices": [{"delta": {"content": "a"}}], "x_groq": {"usage": usage}})],
        vec![json!({"choices": [{"delta": {"content": "a"}}], "usage": usage}); 3],
    ] {
        let usage = chat(&events).answer.usage.unwrap();
        assert_eq!(
            (usage.input_tokens, usage.output_tokens),
            (Some(7), Some(3))
        );
    }
}

#[test]
fn usage_that_is_null_is_unknown() {
    let seen = chat(&[json!({"choices": [{"delta": {"content": "a"}}], "usage": null})]);

    assert_eq!(seen.answer.usage, None);
}

#[test]
fn a_finish_waits_for_every_choice_seen() {
    let chunk = |index: u64, finish: Value| json!({"choices": [{"index": index, "delta": {"content": "x"}, "finish_reason": finish}]});
    let mut reader = Reader::new(Wire::OPENAI_CHAT, Expect::Stream, &ReadLimits::default());
    let mut states = Vec::new();
    for event in [
        chunk(0, Value::Null),
        chunk(1, Value::Null),
        chunk(0, "stop".into()),
        chunk(1, "length".into()),
    ] {
        reader
            .read(stream(&[event]).as_bytes(), &mut Seen::default())
            .unwrap();
        states.push(reader.state());
    }

    assert_eq!(
        states,
        [State::Open, State::Open, State::Open, State::Finished]
    );
    let answer = reader.into_answer(true);
    assert_eq!(
        (answer.text.as_str(), answer.finish_reason.as_deref()),
        ("xx", Some("stop"))
    );
}

#[test]
fn reasoning_comes_back_as_it_came() {
    let end = [text("ok"), finish("stop"), done()];
    for (before, expected, sent_back) in [
        (vec![think("a"), think("b")], Some("ab"), Some(json!("ab"))),
        (vec![think("")], Some(""), Some(json!(""))),
        (vec![], None, None),
        (vec![delta(json!({"reasoning_content": null}))], None, None),
    ] {
        let seen = chat(&[before.as_slice(), &end].concat());

        assert_eq!(seen.answer.reasoning.as_deref(), expected);
        let parts: Vec<Value> = seen
            .answer
            .round_trip
            .parts()
            .map(|part| serde_json::from_str(part).unwrap())
            .collect();
        let mut message = json!({"role": "assistant", "content": "ok"});
        if let Some(reasoning) = sent_back {
            message["reasoning_content"] = reasoning;
        }
        assert_eq!(parts, [message]);
    }
}

#[test]
fn the_same_reasoning_in_two_fields_is_told_once_and_sent_back_in_both() {
    let detail = json!({"type": "reasoning.text", "text": "a", "index": 0, "format": "f"});
    let seen = chat(&[
        delta(json!({"content": "", "reasoning": "a", "reasoning_details": [detail]})),
        delta(
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 1}]}),
        ),
        text("ok"),
        finish("stop"),
        done(),
    ]);

    assert_eq!(seen.answer.reasoning.as_deref(), Some("a"));
    let message: Value =
        serde_json::from_str(seen.answer.round_trip.parts().next().unwrap()).unwrap();
    assert_eq!(
        message,
        json!({
            "role": "assistant", "content": "ok", "reasoning": "a",
            "reasoning_details": [detail, {"type": "reasoning.encrypted", "data": "x", "index": 1}],
        })
    );
}

#[test]
fn reasoning_only_in_details_is_read_from_them() {
    let seen = chat(&[
        delta(
            json!({"reasoning_details": [{"type": "reasoning.summary", "summary": "a", "index": 0}]}),
        ),
        delta(
            json!({"reasoning_details": [{"type": "reasoning.summary", "summary": "b", "index": 0}]}),
        ),
    ]);

    assert_eq!(seen.answer.reasoning.as_deref(), Some("ab"));
}

#[test]
fn thinking_in_a_list_of_parts_goes_back_as_such() {
    let thinking = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]);
    let seen = chat(&[
        delta(json!({"content": thinking})),
        delta(json!({"content": [{"type": "text", "text": "o"}]})),
        text("k"),
        finish("stop"),
        done(),
    ]);

    assert_eq!(
        (seen.answer.text.as_str(), seen.answer.reasoning.as_deref()),
        ("ok", Some("hm"))
    );
    let message: Value =
        serde_json::from_str(seen.answer.round_trip.parts().next().unwrap()).unwrap();
    assert_eq!(
        message,
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "ok"},
        ]})
    );
}

#[test]
fn a_cumulative_message_beside_the_delta_is_passed_over() {
    let chunk = |piece: &str, whole: &str| json!({"choices": [{"delta": {"content": piece}, "message": {"content": whole}}]});

    assert_eq!(chat(&[chunk("a", "a"), chunk("b", "ab")]).answer.text, "ab");
}

#[test]
fn legacy_text_counts_where_there_is_no_delta() {
    let both = json!({"choices": [{"delta": {"content": "a"}, "text": "a"}]});
    let legacy = json!({"choices": [{"text": "b"}]});

    assert_eq!(chat(&[both, legacy]).answer.text, "ab");
}

#[test]
fn every_shape_of_error_fails_the_answer() {
    for error in [
        json!({"error": {"message": "bad", "type": "invalid_request_error", "code": 400}}),
        json!({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}),
        json!({"error": {"message": "bad", "code": 400}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}),
        "event: error\ndata: {\"error\":{\"message\":\"bad\",\"code\":400}}\n\n".into(),
        "error: {\"error\":{\"message\":\"bad\",\"code\":400}}\n\n".into(),
    ] {
        let seen = chat(&[text("Half"), error.clone(), done()]);
        assert_eq!(seen.states.unwrap().1, State::Failed, "{error}");
        assert_eq!(seen.answer.text, "Half");
        let failure = seen.failure.unwrap();
        assert_eq!(
            (failure.code, failure.message.as_str()),
            (FailureCode::Rejected, "bad")
        );
    }
}

#[test]
fn an_error_after_a_finish_still_fails_the_answer() {
    let seen = chat(&[
        text("a"),
        finish("stop"),
        json!({"error": {"message": "late"}}),
        done(),
    ]);

    assert_eq!(seen.states.unwrap().1, State::Failed);
}

#[test]
fn an_error_that_says_nothing_is_none() {
    let chunk = |error: Value| json!({"choices": [{"delta": {"content": "a"}}], "error": error});

    for error in [Value::Null, json!(""), json!({}), json!(false)] {
        assert_eq!(
            chat(&[chunk(error), finish("stop"), done()]).outcome,
            Some(Ok(()))
        );
    }
}

#[test]
fn a_finish_called_error_is_an_error() {
    let seen = chat(&[text("a"), finish("error"), done()]);

    assert_eq!(seen.failure.unwrap().code, FailureCode::ProviderError);
    assert_eq!(seen.answer.finish_reason, None);
}

#[test]
fn frames_are_classed() {
    let seen = chat(&[
        delta(json!({"role": "assistant", "content": ""})),
        think("a"),
        json!({"choices": []}),
        text("b"),
        json!({"choices": [], "prompt_filter_results": [{}]}),
        finish("stop"),
        json!({"choices": [], "usage": {"prompt_tokens": 1}}),
        done(),
    ]);

    assert_eq!(
        progress(&seen),
        [
            Lifecycle, Reasoning, Heartbeat, Output, Lifecycle, Output, Lifecycle, Output
        ]
    );
}

#[test]
fn an_empty_delta_is_a_heartbeat_from_its_second_repetition_on() {
    let empty = delta(json!({"content": ""}));
    let seen = chat(&[
        empty.clone(),
        json!({"choices": []}),
        empty.clone(),
        empty.clone(),
        empty,
    ]);

    assert_eq!(
        progress(&seen),
        [Lifecycle, Heartbeat, Lifecycle, Heartbeat, Heartbeat]
    );
    assert_eq!(seen.signs[4].origin, Some(HeartbeatOrigin::Provider));
}

#[test]
fn an_event_that_calls_itself_a_ping_is_a_heartbeat() {
    let seen = chat(&[
        "event: ping\ndata: 12:00:00\n\n".into(),
        "event: ping\ndata: {\"type\":\"ping\"}\n\n".into(),
        "data: {\"type\":\"keepalive\"}\n\n".into(),
        "data:\n\n".into(),
        done(),
    ]);

    assert_eq!(progress(&seen)[..4], [Heartbeat; 4]);
    assert_eq!(seen.failure.unwrap().code, FailureCode::Empty);
}

#[test]
fn a_prompt_that_is_being_read_is_work() {
    let prefill = |processed: u64| {
        json!({
            "choices": [{"index": 0, "delta": {}}],
            "prompt_progress": {"total": 9, "processed": processed},
        })
    };
    let seen = chat(&[prefill(1), prefill(2), prefill(3), prefill(3)]);

    assert_eq!(
        progress(&seen),
        [Lifecycle, Lifecycle, Lifecycle, Heartbeat]
    );
}

#[test]
fn a_call_is_a_block_that_fills_in_the_dark() {
    let seen = chat(&[
        tool(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}})),
        tool(json!({"index": 0, "function": {"arguments": "{}"}})),
        finish("tool_calls"),
    ]);

    let blocks: Vec<_> = seen.signs.iter().map(|sign| sign.block).collect();
    assert_eq!(
        blocks,
        [
            Some(Block::Opens(BlockKind::Tool)),
            Some(Block::Fills),
            Some(Block::Closes)
        ]
    );
}

#[test]
fn the_beat_of_a_gateway_says_whose_silence_it_reports() {
    let seen = chat(&[
        ": {\"state\":\"upstream_quiet\",\"upstream_silent_ms\":1500,\"new\":[]}\n\n".into(),
        ": {\"state\":\"queued\",\"n\":1,\"of\":3,\"backend\":\"b\",\"regime\":\"r\"}\n\n".into(),
        ": {\"state\":\n\n".into(),
        ": {\"other\":1}\n\n".into(),
        ":\n\n".into(),
        "\n".into(),
    ]);

    let proxy = Sign::heartbeat(HeartbeatOrigin::Proxy);
    let comment = Sign::heartbeat(HeartbeatOrigin::Comment);
    let silent = Sign {
        upstream_silent: Some(std::time::Duration::from_millis(1500)),
        ..proxy
    };
    // White space before the first event is read before anything is framed.
    assert_eq!(
        seen.signs,
        [silent, proxy, comment, comment, comment, comment]
    );
}

#[test]
fn data_that_cannot_be_read_costs_nothing_but_itself() {
    let seen = chat(&[
        text("a"),
        "data: {\"choices\": NaN}\n\n".into(),
        finish("stop"),
        done(),
    ]);

    assert_eq!(seen.outcome, Some(Ok(())));
    assert_eq!(seen.broken, None);
}

#[test]
fn data_that_cannot_be_read_fails_a_stream_that_has_nothing_else() {
    let seen = chat(&["data: hello\n\n".into()]);

    let Some(ReadError::Unreadable { sample, .. }) = seen.broken else {
        panic!("{:?}", seen.broken)
    };
    assert_eq!(sample, "hello");
}

#[test]
fn a_character_that_is_split_between_reads_is_whole() {
    let stream = stream(&[text("\u{90a3}\u{4e2d}"), finish("stop"), done()]);
    let at = stream.find('\u{90a3}').unwrap() + 1;

    let (one, other) = stream.as_bytes().split_at(at);
    let seen = read(Wire::OPENAI_CHAT, Expect::Stream, [one, other]);

    assert_eq!(seen.answer.text, "\u{90a3}\u{4e2d}");
}

#[test]
fn carriage_returns_end_lines_as_well() {
    let stream = stream(&[text("a"), finish("stop"), done()]).replace('\n', "\r\n");

    let seen = read(
        Wire::OPENAI_CHAT,
        Expect::Stream,
        stream.as_bytes().chunks(1),
    );

    assert_eq!(
        (seen.answer.text.as_str(), seen.outcome),
        ("a", Some(Ok(())))
    );
}

#[test]
fn a_long_fragment_is_whole() {
    let long = format!("{{\"x\":\"{}\"}}", "a".repeat(300 << 10));
    let stream = stream(&[
        tool(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": long}})),
        finish("tool_calls"),
        done(),
    ]);

    let seen = read(
        Wire::OPENAI_CHAT,
        Expect::Stream,
        stream.as_bytes().chunks(1400),
    );

    assert_eq!(seen.answer.tool_calls, [call("a", "f", &long, true)]);
}

#[test]
fn a_whole_answer_in_place_of_a_stream_is_the_same_answer() {
    let calls =
        json!([{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let body = json!({
        "id": "x", "object": "chat.completion", "model": "m",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": "ok", "reasoning_content": "hm", "tool_calls": calls},
            "finish_reason": "tool_calls",
        }],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3},
    });
    let streamed = chat(&[
        json!({"id": "x", "model": "m", "choices": []}),
        think("hm"),
        text("ok"),
        tool(json!({"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}})),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}}),
        done(),
    ]);

    let text = body.to_string();
    let whole = read(Wire::OPENAI_CHAT, Expect::Stream, [text.as_bytes()]);

    assert_eq!(whole.answer, streamed.answer);
    assert_eq!(whole.states, Some((State::Ended, State::Ended)));
    assert_eq!(
        read(Wire::OPENAI_CHAT, Expect::Whole, text.as_bytes().chunks(1)),
        whole
    );
}

#[test]
fn a_json_body_is_known_as_such_as_soon_as_it_begins() {
    let mut reader = Reader::new(Wire::OPENAI_CHAT, Expect::Stream, &ReadLimits::default());

    reader.read(b"\n\n{\"id\":", &mut Seen::default()).unwrap();

    assert!(reader.is_whole_body());
}

#[test]
fn a_json_error_under_a_success_is_the_error() {
    for body in [
        r#"{"error":{"message":"unsupported parameter","type":"BadRequestError","code":400}}"#,
        r#"[{"error":{"message":"unsupported parameter","code":400}}]"#,
        r#"{"object":"error","message":"unsupported parameter","type":"BadRequestError","code":400}"#,
    ] {
        let seen = read(Wire::OPENAI_CHAT, Expect::Stream, [body.as_bytes()]);
        let failure = seen.failure.unwrap();
        assert_eq!(
            (failure.code, failure.message.as_str()),
            (FailureCode::Rejected, "unsupported parameter"),
            "{body}"
        );
    }
}

#[test]
fn a_body_that_stops_in_the_middle_is_truncated() {
    let seen = read(
        Wire::OPENAI_CHAT,
        Expect::Whole,
        [b"{\"choices\":[".as_slice()],
    );

    assert_eq!(seen.outcome, Some(Err(Incomplete::Truncated)));
}

#[test]
fn what_is_no_answer_is_unreadable_with_a_sample() {
    for body in [
        "<!doctype html><p>502",
        "upstream timed out",
        "{\"hello\":1}",
    ] {
        let seen = read(Wire::OPENAI_CHAT, Expect::Stream, [body.as_bytes()]);
        let Some(ReadError::Unreadable { sample, .. }) = seen.broken else {
            panic!("{body}: {:?}", seen.broken)
        };
        assert_eq!(sample, body);
    }
}

#[test]
fn a_part_past_its_cap_is_refused_by_name() {
    let limits = ReadLimits {
        line: 400,
        frame: 600,
        answer: 1000,
    };
    let refused = |stream: &str| {
        let mut reader = Reader::new(Wire::OPENAI_CHAT, Expect::Stream, &limits);
        let error = reader
            .read(stream.as_bytes(), &mut Seen::default())
            .unwrap_err();
        assert_eq!(reader.read(b"x", &mut Seen::default()), Err(error.clone()));
        error.to_string()
    };
    let long = format!("data: {}\n\n", "x".repeat(500));
    let tall = "data: x\n".repeat(100);
    let many = stream(&vec![text(&"x".repeat(200)); 6]);

    assert_eq!(refused(&long), "line larger than 400 bytes (limits.line)");
    assert_eq!(refused(&tall), "frame larger than 600 bytes (limits.frame)");
    assert_eq!(
        refused(&many),
        "answer larger than 1000 bytes (limits.answer)"
    );
    assert_eq!(
        refused(&format!("{{\"a\":\"{}", "x".repeat(1000))),
        "answer larger than 1000 bytes (limits.answer)"
    );
}

fn of_choice(index: u64, delta: Value, finish: Value) -> Value {
    json!({"choices": [{"index": index, "delta": delta, "finish_reason": finish}]})
}

#[test]
fn the_choice_that_is_seen_first_is_the_answer() {
    let of = |index: u64, text: &str| of_choice(index, json!({"content": text}), Value::Null);
    let both = json!({"choices": [
        {"index": 1, "delta": {"content": "b"}}, {"index": 0, "delta": {"content": "a"}},
    ]});

    for (events, expected) in [
        (vec![of(1, "b")], "b"),
        (vec![of(1, "b"), of(0, "a"), of(1, "B")], "bB"),
        (vec![both, of(1, "b"), of(0, "A")], "aA"),
    ] {
        let seen = chat(&events);
        assert_eq!(seen.answer.text, expected);
        assert_eq!(seen.outcome, Some(Err(Incomplete::Truncated)));
    }
}

#[test]
fn a_choice_that_does_not_speak_commits_and_ends_the_answer_all_the_same() {
    let role = of_choice(0, json!({"role": "assistant"}), Value::Null);
    let mut reader = Reader::new(Wire::OPENAI_CHAT, Expect::Stream, &ReadLimits::default());
    let events = [
        role.clone(),
        of_choice(1, json!({"content": "b"}), Value::Null),
    ];
    reader
        .read(stream(&events).as_bytes(), &mut Seen::default())
        .unwrap();
    assert!(reader.is_committed() && reader.has_output());
    assert!(!reader.into_answer(false).is_empty());

    for end in [
        of_choice(1, json!({"content": "b"}), Value::Null),
        of_choice(1, json!({}), "stop".into()),
    ] {
        let seen = chat(&[role.clone(), end, done()]);
        assert_eq!(seen.states.unwrap().1, State::Ended);
        assert_eq!(seen.answer.text, "");
    }
    let thinking = of_choice(1, json!({"reasoning": "b"}), Value::Null);
    assert_eq!(progress(&chat(&[role, thinking]))[1], Reasoning);
}

#[test]
fn an_answer_is_whole_only_if_every_choice_seen_has_a_finish() {
    let of = |index: u64, finish: Value| of_choice(index, json!({"content": "x"}), finish);
    let one = [of(0, "stop".into()), of(1, Value::Null)];
    let both = [one.as_slice(), &[of(1, "stop".into())]].concat();

    assert_eq!(chat(&one).outcome, Some(Err(Incomplete::Truncated)));
    assert_eq!(chat(&one).states.unwrap().0, State::Open);
    assert_eq!(chat(&one[..1]).states.unwrap().0, State::Finished);
    assert_eq!(chat(&both).outcome, Some(Ok(())));
}

#[test]
fn images_and_audio_in_a_list_of_parts_are_content() {
    for part in [
        json!({"type": "image_url", "image_url": {"url": "data:x"}}),
        json!({"type": "input_audio", "input_audio": {"data": "AAAA"}}),
        json!({"type": "reference", "reference_ids": [1]}),
        json!({"type": "hologram", "data": "AAAA"}),
    ] {
        let seen = chat(&[delta(json!({"content": [part]}))]);
        assert_eq!(progress(&seen), [Output], "{part}");
        assert_eq!(seen.outcome, Some(Err(Incomplete::Truncated)), "{part}");
        assert!(!seen.answer.is_empty(), "{part}");
    }
}

#[test]
fn a_tool_that_the_provider_ran_is_content() {
    let tool = json!({"index": 0, "type": "search", "arguments": "{}", "output": "x"});

    let seen = chat(&[delta(json!({"executed_tools": [tool]}))]);

    assert_eq!(progress(&seen), [Output]);
    assert!(!seen.answer.is_empty());
}

#[test]
fn reasoning_by_its_rarer_names_is_reasoning() {
    for name in ["thinking", "reasoning_text"] {
        let seen = chat(&[
            delta(json!({name: "hm"})),
            text("ok"),
            finish("stop"),
            done(),
        ]);

        assert_eq!(progress(&seen)[0], Reasoning, "{name}");
        assert_eq!(seen.answer.reasoning.as_deref(), Some("hm"));
        let message: Value =
            serde_json::from_str(seen.answer.round_trip.parts().next().unwrap()).unwrap();
        assert_eq!(message[name], "hm");
    }
}

#[test]
fn what_is_odd_in_a_list_costs_nothing_else() {
    let call = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}});
    let seen = chat(&[
        json!({"choices": [null, {"index": 0, "delta": {"content": "a"}}, "x"]}),
        delta(json!({"content": ["b", null, {"type": "text", "text": "c"}]})),
        delta(json!({"tool_calls": [null, call]})),
        finish("stop"),
        done(),
    ]);

    assert_eq!(seen.answer.text, "abc");
    assert_eq!(seen.answer.tool_calls.len(), 1);
}

#[test]
fn the_end_of_an_answer_that_is_empty_is_no_output() {
    let role = delta(json!({"role": "assistant"}));

    let seen = chat(&[role, done()]);

    assert_eq!(progress(&seen), [Lifecycle, Lifecycle]);
    assert_eq!(seen.failure.unwrap().code, FailureCode::Empty);
    assert!(seen.answer.is_empty());
}

#[test]
fn a_signature_alone_is_not_nothing() {
    let detail = json!({"type": "reasoning.encrypted", "data": "x"});

    let seen = chat(&[delta(json!({"reasoning_details": [detail]}))]);

    assert!(!seen.answer.is_empty());
}

#[test]
fn counters_of_work_are_found_in_frames_of_any_kind() {
    for frame in [
        r#"{"choices":[],"queue_position":N}"#,
        r#"{"object":"progress","tokens":N}"#,
        r#"{"object":"progress","progress":{"processed":N}}"#,
        r#"{"choices":[{"delta":{"content":""}}],"usage":{"completion_tokens":N}}"#,
        r#"{"choices":[{"delta":{}}],"prompt_progress":{"processed":N},"queue_position":1}"#,
    ] {
        let at = |count: u64| -> Value {
            format!("data: {}\n\n", frame.replace('N', &count.to_string())).into()
        };
        let seen = chat(&[at(5), at(4), at(3), at(3)]);
        assert_eq!(
            progress(&seen),
            [Lifecycle, Lifecycle, Lifecycle, Heartbeat],
            "{frame}"
        );
    }
}

/// Reads frames as they are and returns what was seen and what was odd.
fn odd(frames: &[&[u8]]) -> (Seen, lifesign_wire::Oddities) {
    let mut reader = Reader::new(Wire::OPENAI_CHAT, Expect::Stream, &ReadLimits::default());
    let mut seen = Seen::default();
    for frame in frames {
        let frame = [b"data: ", *frame, b"\n\n"].concat();
        reader.read(&frame, &mut seen).unwrap();
    }
    let oddities = reader.oddities();
    seen.answer = reader.into_answer(true);
    (seen, oddities)
}

#[test]
fn a_character_that_is_split_between_frames_is_whole() {
    let (seen, oddities) = odd(&[
        br#"{"choices":[{"delta":{"content":"a\ud83d"}}]}"#,
        br#"{"choices":[],"usage":{"completion_tokens":1}}"#,
        br#"{"choices":[{"delta":{"content":"\ude00b"}}]}"#,
        b"[DONE]",
    ]);

    assert_eq!(seen.answer.text, "a\u{1f600}b");
    assert_eq!((oddities.mended_events, oddities.unreadable_events), (2, 0));
}

#[test]
fn half_a_character_costs_nothing_but_itself() {
    let half = br#"{"choices":[{"delta":{"content":"a\ud83d"}}]}"#.as_slice();
    let thought = br#"{"choices":[{"delta":{"reasoning":"a\ud83d"}}]}"#.as_slice();
    let other = br#"{"choices":[{"delta":{"content":"b"}}]}"#.as_slice();
    let second = br#"{"choices":[{"delta":{"content":"\ude00b"}}]}"#.as_slice();
    let text = |frames: &[&[u8]]| odd(frames).0.answer.text;

    assert_eq!(text(&[half, other]), "a\u{fffd}b");
    assert_eq!(text(&[half, half, second]), "a\u{fffd}a\u{1f600}b");
    assert_eq!(text(&[half, b"[DONE]"]), "a\u{fffd}");
    assert_eq!(text(&[other, second]), "b\u{fffd}b");
    let (seen, _) = odd(&[thought, other]);
    assert_eq!(seen.answer.reasoning.as_deref(), Some("a\u{fffd}"));
    assert_eq!(seen.answer.text, "b");
}

#[test]
fn bytes_that_are_no_text_cost_nothing_but_themselves() {
    let (seen, oddities) = odd(&[b"{\"choices\":[{\"delta\":{\"content\":\"a\xffb\"}}]}"]);

    assert_eq!(seen.answer.text, "a\u{fffd}b");
    assert_eq!(progress(&seen), [Output]);
    assert_eq!((oddities.mended_events, oddities.unreadable_events), (1, 0));
    let body =
        b"{\"choices\":[{\"message\":{\"content\":\"a\xff\\ud83d\"},\"finish_reason\":\"stop\"}]}";
    let seen = read(Wire::OPENAI_CHAT, Expect::Whole, [body.as_slice()]);
    assert_eq!(seen.answer.text, "a\u{fffd}\u{fffd}");
}
