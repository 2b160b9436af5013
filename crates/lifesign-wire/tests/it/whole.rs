//! Streams put together into the bodies that they stand for, and bodies taken apart into streams.

use lifesign_core::Sign;
use lifesign_wire::{Answer, Event, Expect, ReadLimits, Reader, Sink, State, Wire};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::corpus::{Recorded, recorded};

struct Nobody;

impl Sink for Nobody {
    fn sign(&mut self, _: Sign) {}
    fn event(&mut self, _: &Event<'_>) {}
}

/// Reads a body; returns the answer, and the body that it stands for.
fn read(wire: Wire, expect: Expect, bytes: &[u8]) -> (Option<Answer>, Option<Vec<u8>>) {
    let mut reader = Reader::new(wire, expect, &ReadLimits::default()).keep_whole();
    let read = reader.read(bytes, &mut Nobody);
    let ended = reader.end(&mut Nobody);
    let is_whole = read.is_ok()
        && ended.is_ok()
        && reader.state() != State::Failed
        && reader.outcome_at_eof().is_ok();
    let body = reader.whole_body();
    assert_eq!(body.is_some(), is_whole);
    (is_whole.then(|| reader.take_answer(true)), body)
}

/// Returns the body that a stream stands for, after checks that hold for any.
fn assembled(wire: Wire, stream: &[u8], context: &str) -> Option<Value> {
    let (answer, body) = read(wire, Expect::Stream, stream);
    let body = body?;
    let (again, kept) = read(wire, Expect::Whole, &body);
    let value: Value = serde_json::from_slice(&body).unwrap();
    let (mut again, mut answer) = (same(again), same(answer));
    for (answer, items) in again.iter_mut().chain(&mut answer) {
        let has_new_ids = context == ROTATES_IDS;
        answer.id = answer.id.take().filter(|_| !has_new_ids);
        // The provider encrypts it anew for its terminal event.
        let fields: &[_] = if has_new_ids {
            &["encrypted_content", "id"]
        } else {
            &["encrypted_content"]
        };
        for field in fields {
            let known = items.iter_mut().filter_map(|item| item.get_mut(field));
            known.for_each(|value| *value = Value::Null);
        }
    }
    assert_eq!(again, answer, "{context}\n{value:#}");
    assert_eq!(kept.as_ref(), Some(&body), "{context}");
    assert_taken_apart(wire, &body, context);
    Some(value)
}

/// Asserts that the events of a body bring the answer that the body does.
fn assert_taken_apart(wire: Wire, body: &[u8], context: &str) {
    let events = wire.events_of_whole(body).expect(context);
    let text = String::from_utf8(events.clone()).unwrap();
    let (of_events, again) = read(wire, Expect::Stream, &events);
    let (of_body, _) = read(wire, Expect::Whole, body);
    assert_eq!(same(of_events), same(of_body), "{context}\n{text}");
    assert!(again.is_some(), "{context}\n{text}");
}

/// A stream whose events each give the response and its items another id.
const ROTATES_IDS: &str = "openai-responses/copilot-id-rotation.sse";

/// Returns an answer with the JSON of its round trip in one order.
fn same(answer: Option<Answer>) -> Option<(Answer, Vec<Value>)> {
    let mut answer = answer?;
    let parts = std::mem::take(&mut answer.round_trip);
    let parts = parts
        .parts()
        .map(|part| serde_json::from_str(part).unwrap());
    let parts = parts.collect();
    Some((answer, parts))
}

fn streams() -> Vec<(Wire, Recorded)> {
    let wires = [
        (Wire::OPENAI_CHAT, "openai-chat/"),
        (Wire::OPENAI_RESPONSES, "openai-responses/"),
        (Wire::ANTHROPIC, "anthropic-messages/"),
    ];
    wires
        .into_iter()
        .flat_map(|(wire, prefix)| {
            recorded(prefix, ".sse")
                .into_iter()
                .map(move |recorded| (wire, recorded))
        })
        .collect()
}

#[test]
fn every_recorded_stream_is_the_answer_that_its_body_is() {
    let streams = streams();
    let whole = streams
        .iter()
        .filter_map(|(wire, recorded)| assembled(*wire, &recorded.bytes, &recorded.file))
        .count();

    // All but the few that were cut or failed.
    assert!(
        whole * 10 >= streams.len() * 8,
        "{whole} of {}",
        streams.len()
    );
}

#[test]
fn a_body_that_came_whole_is_kept_as_it_came_and_can_be_taken_apart() {
    for recorded in recorded("json-body/", "") {
        let (_, body) = read(Wire::OPENAI_CHAT, Expect::Stream, &recorded.bytes);
        let body = body.expect(&recorded.file);
        assert!(recorded.bytes.ends_with(&body), "{}", recorded.file);
        assert_taken_apart(Wire::OPENAI_CHAT, &body, &recorded.file);
    }
}

/// Returns the stream of these data events.
fn stream(events: &[Value]) -> Vec<u8> {
    let events = events.iter().map(|event| format!("data: {event}\n\n"));
    events.collect::<String>().into_bytes()
}

fn chat(chunks: &[Value]) -> Value {
    let mut bytes = stream(chunks);
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    assembled(Wire::OPENAI_CHAT, &bytes, "chat").unwrap()
}

#[test]
fn a_chat_keeps_every_field_of_its_chunks() {
    let delta = |delta: Value| json!({"index": 0, "delta": delta, "finish_reason": null});
    let body = chat(&[
        json!({"id": "", "object": "", "created": 0, "model": "", "choices": [],
               "prompt_filter_results": [{"hate": false}]}),
        json!({"id": "c1", "object": "chat.completion.chunk", "created": 5, "model": "m",
               "system_fingerprint": "fp", "service_tier": null, "obfuscation": "xx",
               "choices": [delta(json!({"role": "assistant", "content": "", "refusal": null}))],
               "usage": null}),
        json!({"id": "c2", "choices": [delta(json!({
            "reasoning_content": "think", "channel": "analysis", "annotations": [{"a": 1}],
        }))]}),
        json!({"choices": [delta(json!({
            "reasoning_content": "ing", "channel": "analysis", "content": "Hel",
            "annotations": [{"b": 2}], "new_text": "x",
        }))]}),
        json!({"choices": [delta(json!({"content": "lo", "new_text": "y"}))],
               "service_tier": "flex"}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": null,
                            "content_filter_results": {"hate": {"filtered": false}}}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "cost": 0.5}}),
    ]);

    assert_eq!(
        body,
        json!({
            "id": "c1", "object": "chat.completion", "created": 5, "model": "m",
            "system_fingerprint": "fp", "service_tier": "flex",
            "prompt_filter_results": [{"hate": false}],
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant", "content": "Hello", "refusal": null,
                    "reasoning_content": "thinking", "channel": "analysis", "new_text": "xy",
                    "annotations": [{"a": 1}, {"b": 2}],
                },
                "finish_reason": "stop", "logprobs": null,
                "content_filter_results": {"hate": {"filtered": false}},
            }],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "cost": 0.5},
        })
    );
}

#[test]
fn the_calls_of_a_chat_are_put_together_without_their_numbers() {
    let piece = |piece: Value| json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]});
    let body = chat(&[
        json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
        piece(json!({"index": 0, "id": "a", "type": "function",
                     "function": {"name": "f", "arguments": ""},
                     "extra_content": {"google": {"thought_signature": "s"}}})),
        piece(json!({"index": 0, "function": {"arguments": "{\"x\":"}})),
        piece(json!({"index": 1, "id": "b", "type": "custom",
                     "custom": {"name": "g", "input": "fr"}})),
        piece(json!({"index": 0, "id": null, "type": null, "function": {"arguments": "1}"}})),
        piece(json!({"index": 1, "custom": {"input": "ee"}})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ]);

    let message = &body["choices"][0]["message"];
    assert_eq!(
        message["tool_calls"],
        json!([
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"},
             "extra_content": {"google": {"thought_signature": "s"}}},
            {"id": "b", "type": "custom", "custom": {"name": "g", "input": "free"}},
        ])
    );
    assert_eq!(message["content"], Value::Null);
    assert_eq!(body.get("usage"), None);
}

#[test]
fn content_that_is_a_list_stays_one() {
    let content =
        |content: Value| json!({"choices": [{"index": 0, "delta": {"content": content}}]});
    let thinking =
        |text| json!([{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]);
    let body = chat(&[
        content(thinking("a")),
        content(thinking("b")),
        content(json!([{"type": "text", "text": "c"}])),
        content(json!([{"type": "reference", "reference_ids": [1]}])),
        content(json!("d")),
        json!({"choices": [{"index": 0, "delta": {"content": "e"}, "finish_reason": "stop"}]}),
    ]);

    assert_eq!(
        body["choices"][0]["message"]["content"],
        json!([
            {"type": "thinking", "thinking": [{"type": "text", "text": "ab"}]},
            {"type": "text", "text": "c"},
            {"type": "reference", "reference_ids": [1]},
            {"type": "text", "text": "de"},
        ])
    );
}

#[test]
fn an_empty_answer_has_empty_content() {
    let body = chat(&[
        json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
    ]);

    assert_eq!(body["choices"][0]["message"]["content"], "");
}

#[test]
fn a_message_keeps_what_its_start_and_its_end_told() {
    let body = assembled(
        Wire::ANTHROPIC,
        &stream(&[
            json!({"type": "message_start", "message": {
                "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                "content": [], "stop_reason": null, "stop_sequence": null, "new": {"a": 1.0},
                "usage": {"input_tokens": 9, "output_tokens": 1, "service_tier": "standard"},
            }}),
            json!({"type": "ping"}),
            json!({"type": "content_block_start", "index": 0,
                   "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
            json!({"type": "content_block_delta", "index": 0,
                   "delta": {"type": "thinking_delta", "thinking": "hm"}}),
            json!({"type": "content_block_delta", "index": 0,
                   "delta": {"type": "signature_delta", "signature": "sig"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1,
                   "content_block": {"type": "text", "text": "", "citations": []}}),
            json!({"type": "content_block_delta", "index": 1,
                   "delta": {"type": "text_delta", "text": "hi"}}),
            json!({"type": "content_block_delta", "index": 1,
                   "delta": {"type": "citations_delta", "citation": {"cited_text": "x"}}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "content_block_start", "index": 2,
                   "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}}),
            json!({"type": "content_block_delta", "index": 2,
                   "delta": {"type": "input_json_delta", "partial_json": "{\"a\":"}}),
            json!({"type": "content_block_delta", "index": 2,
                   "delta": {"type": "input_json_delta", "partial_json": "1}"}}),
            json!({"type": "content_block_stop", "index": 2}),
            json!({"type": "message_delta", "context_management": {"edits": []},
                   "delta": {"stop_reason": "stop_sequence", "stop_sequence": "END"},
                   "usage": {"input_tokens": 0, "output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ]),
        "message",
    );

    assert_eq!(
        body.unwrap(),
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "new": {"a": 1.0}, "context_management": {"edits": []},
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "text", "text": "hi", "citations": [{"cited_text": "x"}]},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
            ],
            "stop_reason": "stop_sequence", "stop_sequence": "END",
            "usage": {"input_tokens": 9, "output_tokens": 7, "service_tier": "standard"},
        })
    );
}

#[test]
fn an_input_that_was_cut_is_not_repaired() {
    let body = assembled(
        Wire::ANTHROPIC,
        &stream(&[
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message"}}),
            json!({"type": "content_block_start", "index": 0,
                   "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}}),
            json!({"type": "content_block_delta", "index": 0,
                   "delta": {"type": "input_json_delta", "partial_json": "{\"a\":\"b"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
            json!({"type": "message_stop"}),
        ]),
        "cut",
    );

    assert_eq!(body.unwrap()["content"][0]["input"], "{\"a\":\"b");
}

#[test]
fn an_empty_snapshot_is_filled_from_what_was_streamed() {
    let (answer, body) = read(
        Wire::OPENAI_RESPONSES,
        Expect::Stream,
        &stream(&[
            json!({"type": "response.created", "response": {"id": "r", "status": "in_progress"}}),
            json!({"type": "response.output_item.added", "output_index": 1,
                   "item": {"type": "message", "id": "m1", "role": "assistant", "content": []}}),
            json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0,
                   "delta": "a"}),
            json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0,
                   "delta": "b"}),
            json!({"type": "response.output_item.done", "output_index": 0,
                   "item": {"type": "function_call", "id": "f1", "call_id": "c1", "name": "f",
                            "arguments": "{}"}}),
            json!({"type": "response.completed",
                   "response": {"id": "r", "new": 1.0, "output": []}}),
        ]),
    );
    let body = body.unwrap();

    assert_eq!(
        serde_json::from_slice::<Value>(&body).unwrap(),
        json!({
            "id": "r", "new": 1.0, "object": "response", "status": "completed",
            "output": [
                {"type": "function_call", "id": "f1", "call_id": "c1", "name": "f",
                 "arguments": "{}"},
                {"type": "message", "id": "m1", "role": "assistant", "status": "completed",
                 "content": [{"type": "output_text", "text": "ab", "annotations": []}]},
            ],
        })
    );
    // An item that did not end does not go back, but nothing else is lost.
    let (again, _) = read(Wire::OPENAI_RESPONSES, Expect::Whole, &body);
    let (again, _) = same(again).unwrap();
    assert_eq!(again, same(answer).unwrap().0);
    assert_eq!((again.text.as_str(), again.tool_calls.len()), ("ab", 1));
    assert_taken_apart(Wire::OPENAI_RESPONSES, &body, "snapshot");
}

#[test]
fn a_response_that_is_taken_apart_has_the_events_that_readers_wait_for() {
    let body = json!({
        "id": "r", "object": "response", "status": "completed", "model": "m", "error": null,
        "usage": {"input_tokens": 1, "output_tokens": 2},
        "output": [
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "s"}]},
            {"type": "message", "id": "ms", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "t", "annotations": [{"url": "u"}]}]},
            {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"},
        ],
    });

    let events = Wire::OPENAI_RESPONSES.events_of_whole(body.to_string().as_bytes());

    let events = String::from_utf8(events.unwrap()).unwrap();
    let data = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let data: Vec<Value> = data
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let kinds: Vec<_> = data
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let named = events
        .lines()
        .filter_map(|line| line.strip_prefix("event: "));
    assert_eq!(named.collect::<Vec<_>>(), kinds);
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.output_text.annotation.added",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    for (number, event) in data.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    assert_eq!(
        (
            &data[0]["response"]["status"],
            &data[0]["response"]["output"]
        ),
        (&json!("in_progress"), &json!([]))
    );
    assert_eq!(
        data[10],
        json!({"type": "response.output_text.delta", "sequence_number": 10, "item_id": "ms",
               "output_index": 1, "content_index": 0, "delta": "t"})
    );
    assert_eq!(data[19]["response"], body);
    assert_taken_apart(Wire::OPENAI_RESPONSES, body.to_string().as_bytes(), "apart");
}

#[test]
fn the_usage_of_a_chat_that_is_taken_apart_comes_with_a_choice() {
    let body = json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "logprobs": null, "message": {
            "role": "assistant", "content": null,
            "tool_calls": [{"id": "a", "type": "function",
                            "function": {"name": "f", "arguments": "{}"}}],
        }}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    });

    let events = Wire::OPENAI_CHAT.events_of_whole(body.to_string().as_bytes());

    let events = String::from_utf8(events.unwrap()).unwrap();
    let chunks: Vec<_> = events.split_terminator("\n\n").collect();
    assert_eq!((chunks.len(), chunks[2]), (3, "data: [DONE]"));
    let chunk = |at: usize| -> Value {
        serde_json::from_str(chunks[at].strip_prefix("data: ").unwrap()).unwrap()
    };
    assert_eq!(chunk(0)["object"], "chat.completion.chunk");
    assert_eq!(chunk(0)["choices"][0]["delta"]["tool_calls"][0]["index"], 0);
    assert_eq!(chunk(0)["choices"][0]["finish_reason"], Value::Null);
    assert_eq!(chunk(0).get("usage"), None);
    assert_eq!(
        chunk(1)["choices"],
        json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])
    );
    assert_eq!(chunk(1)["usage"], body["usage"]);
    assert_taken_apart(Wire::OPENAI_CHAT, body.to_string().as_bytes(), "apart");
}

#[test]
fn what_is_no_answer_that_is_over_is_not_taken_apart() {
    for body in [
        "",
        "[]",
        "{}",
        r#"{"error":{"message":"m"}}"#,
        r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#,
        r#"{"object":"response","status":"queued","output":[]}"#,
        r#"{"object":"response","status":"cancelled","output":[]}"#,
        "<html>",
    ] {
        for wire in Wire::ALL {
            assert_eq!(wire.events_of_whole(body.as_bytes()), None, "{wire} {body}");
        }
    }
}

#[test]
fn an_answer_that_is_cut_or_fails_has_no_body() {
    for events in [
        &[json!({"choices": [{"index": 0, "delta": {"content": "half"}}]})][..],
        &[
            json!({"choices": [{"index": 0, "delta": {"content": "half"}}]}),
            json!({"error": {"message": "m"}}),
        ],
    ] {
        assert_eq!(
            read(Wire::OPENAI_CHAT, Expect::Stream, &stream(events)).1,
            None
        );
    }
}

#[test]
fn what_is_kept_beside_the_answer_counts_for_its_limit() {
    let limits = ReadLimits {
        answer: 1_000,
        ..ReadLimits::default()
    };
    let many = |delta: &Value| vec![json!({"choices": [{"index": 0, "delta": delta}]}); 200];
    for (delta, fits) in [
        (json!({"token_ids": [1, 2, 3]}), false),
        (json!({"new_text": "0123456789"}), false),
        (json!({"role": "assistant", "content": "abc"}), true),
        (json!({"reasoning": "abc"}), true),
    ] {
        let mut reader = Reader::new(Wire::OPENAI_CHAT, Expect::Stream, &limits).keep_whole();
        let read = reader.read(&stream(&many(&delta)), &mut Nobody);
        assert_eq!(read.is_ok(), fits, "{delta}");
    }
    let opened = json!({"type": "response.output_item.added", "output_index": 0,
                        "item": {"type": "message", "content": []}});
    let mut reader = Reader::new(Wire::OPENAI_RESPONSES, Expect::Stream, &limits).keep_whole();
    let read = reader.read(&stream(&vec![opened; 200]), &mut Nobody);
    assert!(read.is_err());
}

#[test]
fn what_chunks_repeat_whole_is_not_repeated_in_the_body() {
    let chunk = json!({
        "id": "c", "citations": ["u"], "x": {"list": [1]}, "usage": {"prompt_tokens": 1},
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "a", "channel": "c"}}],
    });
    let mut last = chunk.clone();
    last["choices"][0]["finish_reason"] = "stop".into();

    let body = chat(&[chunk.clone(), chunk, last]);

    assert_eq!(
        body,
        json!({
            "id": "c", "object": "chat.completion", "citations": ["u"], "x": {"list": [1]},
            "usage": {"prompt_tokens": 1},
            "choices": [{
                "index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": "aaa", "channel": "c"},
            }],
        })
    );
}

#[test]
fn no_depth_of_nesting_is_too_much() {
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(100_000), close.repeat(100_000));
        format!("{open}0{close}")
    };
    let object = deep(r#"{"a":"#, "}");
    let thinking = deep(r#"[{"type":"thinking","thinking":"#, "}]");
    for delta in [
        format!(r#"{{"content":"a","new":{object}}}"#),
        format!(r#"{{"content":"a","new":{}}}"#, deep("[", "]")),
        format!(r#"{{"content":[{{"type":"text","text":"a"}},{{"type":"x","x":{object}}}]}}"#),
        format!(
            r#"{{"content":[{{"type":"text","text":"a"}},{{"type":"thinking","thinking":{thinking}}}]}}"#
        ),
    ] {
        let chunk = format!(
            r#"{{"top":{object},"choices":[{{"delta":{delta},"finish_reason":"stop","x":{object}}}]}}"#
        );
        let (_, body) = read(
            Wire::OPENAI_CHAT,
            Expect::Stream,
            format!("data: {chunk}\n\ndata: [DONE]\n\n").as_bytes(),
        );
        let (answer, _) = read(Wire::OPENAI_CHAT, Expect::Whole, &body.unwrap());
        assert_eq!(answer.unwrap().text, "a");
    }
}

#[test]
fn nothing_is_kept_unasked() {
    let bytes = stream(&[
        json!({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}),
    ]);
    let mut reader = Reader::new(Wire::OPENAI_CHAT, Expect::Stream, &ReadLimits::default());
    reader.read(&bytes, &mut Nobody).unwrap();

    assert_eq!(
        (reader.state(), reader.whole_body()),
        (State::Finished, None)
    );
}
