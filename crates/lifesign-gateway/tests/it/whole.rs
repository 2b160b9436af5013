//! Answers that are asked for whole and come as streams: what is put together is what the provider
//! would have sent.

use lifesign_standin::Standin;
use lifesign_wire::Wire;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{Ask, Gate, Got, Raw, STREAM_HEAD, Setup, Talk, ms, upstream};
use crate::play::Case;

const ANSWERS: [&str; 4] = [
    "role; text \"Hel\"; text \"lo\"; finish \"stop\"; usage {\"prompt_tokens\":12,\"completion_tokens\":3,\"total_tokens\":15}; done; eof",
    "role; think \"hm\"; text \"ok\"; finish \"stop\"; usage {\"prompt_tokens\":12,\"completion_tokens\":3,\"total_tokens\":15}; done; eof",
    "role; text \"Looking.\"; \
     tool {\"index\":0,\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"ls\",\"arguments\":\"{\\\"a\\\":\"}}; \
     tool {\"index\":0,\"function\":{\"arguments\":\"1}\"}}; \
     tool {\"index\":1,\"id\":\"call_2\",\"type\":\"function\",\"function\":{\"name\":\"cat\",\"arguments\":\"{}\"}}; \
     finish \"tool_calls\"; usage {\"prompt_tokens\":12,\"completion_tokens\":3,\"total_tokens\":15}; done; eof",
    "role; text \"cut sh\"; finish \"length\"; usage {\"prompt_tokens\":12,\"completion_tokens\":3,\"total_tokens\":15}; done; eof",
];

#[tokio::test]
async fn what_is_put_together_is_what_the_provider_answers_unstreamed() {
    for wire in Wire::ALL {
        for answer in ANSWERS {
            let played = Case::new(answer).wire(wire).whole().play().await;

            assert_eq!((played.got.status, played.code()), (200, "completed"));
            assert_eq!(played.got.header("content-type"), Some("application/json"));
            assert!(played.got.header("content-length").is_some());
            let asked = played.requests().remove(0).json();
            assert_eq!(asked["stream"], true, "{asked}");
            let mut direct = played.direct().await.json();
            let mut got = played.got.json();
            for body in [&mut direct, &mut got] {
                without_what_only_streams_tell(body);
            }
            assert_eq!(got, direct, "{wire} {answer}");
            let usage = played.ended.usage.unwrap();
            assert_eq!(usage.input_tokens, Some(12));
        }
    }
}

/// Takes out what the stand-in numbers by the frame, or says in one of its two forms alone.
fn without_what_only_streams_tell(body: &mut Value) {
    match body {
        Value::Object(fields) => {
            // Only the stream has a signature to tell.
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_what_only_streams_tell);
        }
        Value::Array(items) => items.iter_mut().for_each(without_what_only_streams_tell),
        _ => {}
    }
}

#[tokio::test]
async fn a_whole_answer_has_the_bounds_of_a_stream_while_it_is_put_together() {
    for wire in Wire::ALL {
        let played = Case::new("status 200 sse; role; text \"Half\"; hold")
            .wire(wire)
            .whole()
            .set("bounds.raw_silence=300ms")
            .attempts(3)
            .play()
            .await;

        // What came was paid for; the caller has it, and no second request is made.
        assert_eq!((played.got.status, played.code()), (504, "raw_silent"));
        assert_eq!(played.requests().len(), 1);
        assert_eq!(played.got.header("x-should-retry"), Some("false"));
        let body = played.got.json();
        assert_eq!(body["lifesign"]["partial"]["text"], "Half", "{body}");
        assert_eq!(body["lifesign"]["code"], "raw_silent");
        assert!(body["error"]["message"].is_string());
        played.assert_left(0).await;

        let lost = Case::new("status 200 sse; role; text \"Half\"; cut")
            .wire(wire)
            .whole()
            .play()
            .await;
        assert_eq!((lost.got.status, lost.code()), (502, "connection_lost"));
        assert_eq!(lost.got.json()["lifesign"]["partial"]["text"], "Half");
        assert_eq!(lost.requests().len(), 1);

        let refused = Case::new("status 200 sse; role; text \"Half\"; error overloaded_error; eof")
            .wire(wire)
            .whole()
            .play()
            .await;
        let expected = if wire == Wire::ANTHROPIC { 529 } else { 503 };
        assert_eq!(
            (refused.got.status, refused.code()),
            (expected, "overloaded")
        );
        assert_eq!(refused.got.json()["lifesign"]["partial"]["text"], "Half");
        assert_eq!(refused.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_failure_before_content_of_a_whole_answer_is_repeated_unseen() {
    for wire in Wire::ALL {
        let played = Case::new("attempt 1: status 200 sse; role; cut\nattempt 2: answer \"ok\"")
            .wire(wire)
            .whole()
            .play()
            .await;
        assert_eq!((played.got.status, played.requests().len()), (200, 2));
        assert!(played.got.text().contains("\"ok\""));
        assert!(!played.got.text().contains("lifesign"));
    }
}

#[tokio::test]
async fn a_whole_answer_that_comes_whole_passes_as_it_came() {
    let body = r#"{ "id":"x", "x_new": [1,  2], "choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}] }"#;
    let (half, rest) = body.split_at(20);
    for more in ["", "assemble = \"off\""] {
        let raw = Raw::start().await;
        let gate = Gate::start(&upstream("up", Wire::OPENAI_CHAT, &raw.url(), more)).await;
        let len = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-New: 1\r\nContent-Length: {len}\r\n\r\n"
        );
        raw.next(vec![
            (ms(0), head.into()),
            (ms(20), half.into()),
            (ms(20), rest.into()),
        ]);

        let got = gate.ask(&Ask::whole(Wire::OPENAI_CHAT)).await;

        assert_eq!((got.status, got.text().as_str()), (200, body));
        assert_eq!(got.header("x-new"), Some("1"));
        let asked = raw.requests().remove(0);
        assert_eq!(
            asked.contains("\"stream\":true"),
            more.is_empty(),
            "{asked}"
        );
    }
}

/// Some answers cannot be put together from their stream.
#[tokio::test]
async fn a_chat_body_that_could_lose_something_is_passed_as_it_is() {
    for field in [
        r#""n":2"#,
        r#""logprobs":true"#,
        r#""top_logprobs":2"#,
        r#""modalities":["text","audio"]"#,
        r#""audio":{"voice":"x"}"#,
        r#""x_unknown":1"#,
    ] {
        let played = Case::new("answer \"ok\"")
            .ask(Ask::whole(Wire::OPENAI_CHAT).field(field))
            .play()
            .await;

        assert_eq!((played.got.status, played.code()), (200, "completed"));
        let asked = played.requests().remove(0);
        let ask = Ask::whole(Wire::OPENAI_CHAT).field(field);
        assert_eq!(asked.body, ask.body(), "{field}");
        assert_eq!(played.got.text(), played.direct().await.text());
    }
}

/// An upstream that does not stream for a model is asked for that once.
#[tokio::test]
async fn a_refused_stream_is_repeated_whole_once_and_remembered() {
    let raw = Raw::start().await;
    let gate = Gate::start(&upstream("up", Wire::OPENAI_CHAT, &raw.url(), "")).await;
    let refusal = r#"{"error":{"message":"Unsupported value: 'stream' does not support true with this model.","type":"invalid_request_error","param":"stream","code":"unsupported_value"}}"#;
    let answer = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
    let response = |status: &str, body: &str| {
        let len = body.len();
        let text = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
        );
        vec![(ms(0), text.into_bytes())]
    };
    raw.next(response("400 Bad Request", refusal));
    raw.next(response("200 OK", answer));
    raw.next(response("200 OK", answer));
    for _ in 0..2 {
        let got = gate.ask(&Ask::whole(Wire::OPENAI_CHAT)).await;
        assert_eq!((got.status, got.text().as_str()), (200, answer));
    }

    let streams: Vec<_> = raw
        .requests()
        .iter()
        .map(|request| request.contains("\"stream\":true"))
        .collect();
    assert_eq!(streams, [true, false, false]);
    assert!(
        raw.requests()[1]
            .ends_with(&String::from_utf8_lossy(Ask::whole(Wire::OPENAI_CHAT).body()).into_owned())
    );

    // A refusal of a caller's own stream is the caller's.
    raw.next(response("400 Bad Request", refusal));
    let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;
    assert_eq!((got.status, got.text().as_str()), (400, refusal));
    assert_eq!(raw.requests().len(), 4);
}

#[tokio::test]
async fn usage_is_asked_for_where_it_is_needed_and_added_where_it_is_set() {
    let usage = |asked: &Value| asked["stream_options"]["include_usage"].clone();
    let whole = Case::new("answer \"ok\"").whole().play().await;
    assert_eq!(usage(&whole.requests()[0].json()), true);

    let streamed = Case::new("answer \"ok\"").play().await;
    assert_eq!(usage(&streamed.requests()[0].json()), Value::Null);

    let injected = Case::new("answer \"ok\"")
        .upstream("usage = \"inject\"")
        .play()
        .await;
    assert_eq!(usage(&injected.requests()[0].json()), true);
    assert!(injected.got.text().contains("\"usage\""));
}

/// White space before a body keeps what is between awake, and the body is JSON still.
#[tokio::test]
async fn white_space_beats_stand_before_a_whole_body() {
    for wire in Wire::ALL {
        let played = Case::new("+6 answer \"ok\"")
            .wire(wire)
            .whole()
            .set("beats.every=60ms")
            .set("beats.form=space")
            .play()
            .await;
        assert_eq!((played.got.status, played.code()), (200, "completed"));
        assert_eq!(played.got.header("content-type"), Some("application/json"));
        assert!(
            played.got.text().starts_with("   "),
            "{}",
            played.got.text()
        );
        assert!(played.got.longest_gap() < ms(200));
        assert!(played.got.json().is_object());

        let failed = Case::new("+6 status 500 json; error server_error \"boom\"; eof")
            .wire(wire)
            .whole()
            .set("beats.every=60ms")
            .set("beats.form=space")
            .attempts(1)
            .play()
            .await;
        assert_eq!(failed.got.status, 200);
        let body = failed.got.json();
        assert_eq!(body["error"]["message"], "boom", "{body}");
        assert!(body["lifesign"].is_object());

        let streamed = Case::new("+6 answer \"ok\"")
            .wire(wire)
            .set("beats.every=60ms")
            .set("beats.form=space")
            .play()
            .await;
        assert_eq!(
            streamed.got.header("content-type"),
            Some("text/event-stream")
        );
        assert!(streamed.got.text().starts_with(": {"));
        assert_eq!(streamed.got.answer(), "ok");

        // No beats stand in a body of which nobody knows that it may begin with white space.
        let plain = Case::new("+6 answer \"ok\"")
            .wire(wire)
            .whole()
            .set("beats.every=60ms")
            .play()
            .await;
        assert!(plain.got.text().starts_with('{'));
        assert_eq!(plain.ended.beats, 0);
    }
}

/// A body that comes whole has the one bound of whole answers.
#[tokio::test]
async fn a_body_that_really_comes_whole_is_cut_by_whole_call_alone() {
    let standin = Standin::script("status 200 json; hold").unwrap();
    let standin = standin.start().await.unwrap();
    let gate = Setup::new(&upstream(
        "up",
        Wire::OPENAI_CHAT,
        &standin.url(),
        "assemble = \"off\"",
    ))
    .set("bounds.whole_call=400ms")
    .set("retry.attempts=1")
    .start()
    .await;

    let got = gate.ask(&Ask::whole(Wire::OPENAI_CHAT)).await;

    assert_eq!(got.status, 504);
    let report = &got.json()["lifesign"];
    assert_eq!(report["bound"], "whole_call");
}

/// The same answer, told twice.
#[tokio::test]
async fn an_answer_without_content_is_whole_all_the_same() {
    for wire in Wire::ALL {
        let empty = "status 200 sse; role; finish \"stop\"; usage {\"prompt_tokens\":1,\"completion_tokens\":0}; done; eof";
        let streamed = Case::new(empty).wire(wire).play().await;
        assert_eq!((streamed.got.status, streamed.code()), (200, "completed"));
        assert_eq!(streamed.got.text(), streamed.direct().await.text());

        let whole = Case::new(empty).wire(wire).whole().play().await;
        assert_eq!((whole.got.status, whole.code()), (200, "completed"));
    }
}

/// What a provider adds to its events is in what is put together.
#[tokio::test]
async fn unknown_fields_of_a_stream_are_kept_in_the_whole() {
    let raw = Raw::start().await;
    let gate = Gate::start(&upstream("up", Wire::OPENAI_CHAT, &raw.url(), "")).await;
    let chunks = [
        r#"{"id":"c","created":7,"model":"m-1","system_fingerprint":"fp","service_tier":"x","x_top":{"a":1},"choices":[{"index":0,"delta":{"role":"assistant","content":"h","x_delta":"y"},"finish_reason":null}]}"#,
        r#"{"id":"c","created":7,"model":"m-1","choices":[{"index":0,"delta":{"content":"i"},"finish_reason":"stop"}]}"#,
        r#"{"id":"c","created":7,"model":"m-1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"x_usage":3}}"#,
    ];
    let stream = chunks.join("\n\ndata: ");
    raw.next(vec![(
        ms(0),
        format!("{STREAM_HEAD}data: {stream}\n\ndata: [DONE]\n\n").into(),
    )]);

    let got = gate.ask(&Ask::whole(Wire::OPENAI_CHAT)).await.json();

    assert_eq!(got["x_top"], json!({"a": 1}));
    assert_eq!(got["system_fingerprint"], "fp");
    assert_eq!(got["service_tier"], "x");
    assert_eq!(got["choices"][0]["message"]["content"], "hi");
    assert_eq!(got["choices"][0]["message"]["x_delta"], "y");
    assert_eq!(got["usage"]["x_usage"], 3);
    assert_eq!(got["object"], "chat.completion");
}

#[tokio::test]
async fn one_connection_serves_one_call_after_the_other() {
    let standin = Standin::script("answer \"ok\"")
        .unwrap()
        .start()
        .await
        .unwrap();
    let gate = Gate::start(&upstream("up", Wire::OPENAI_CHAT, &standin.url(), "")).await;
    let got: Vec<Got> = vec![
        Talk::begin(gate.address, &Ask::whole(Wire::OPENAI_CHAT))
            .await
            .rest()
            .await,
        Talk::begin(gate.address, &Ask::stream(Wire::OPENAI_CHAT))
            .await
            .rest()
            .await,
    ];
    assert!(got.iter().all(|got| got.status == 200 && got.is_whole));
}

/// Thinking that nobody was handed may be thrown away, where that is set.
#[tokio::test]
async fn thinking_alone_is_repeated_only_where_it_was_not_handed_out() {
    let script = "attempt 1: status 200 sse; think \"hm\"; cut\nattempt 2: answer \"ok\"";
    for (after_reasoning, requests, status) in [(false, 1, 502), (true, 2, 200)] {
        let played = Case::new(script)
            .whole()
            .set(&format!("retry.after_reasoning={after_reasoning}"))
            .play()
            .await;
        assert_eq!(played.got.status, status);
        assert_eq!(played.requests().len(), requests);
    }
}

/// The event that starts an answer may go out ahead of it, and there is one of them.
#[tokio::test]
async fn a_whole_answer_behind_a_start_that_went_out_does_not_start_again() {
    let raw = Raw::start().await;
    let gate = Gate::start(&upstream("up", Wire::ANTHROPIC, &raw.url(), "")).await;
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n";
    let body = r#"{"id":"msg_2","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    let len = body.len();
    raw.next(vec![
        (ms(0), format!("{STREAM_HEAD}{start}").into()),
        (ms(300), Vec::new()),
    ]);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let whole = format!("{head}content-length: {len}\r\n\r\n{body}");
    raw.next(vec![(ms(0), whole.into())]);
    let ask =
        Ask::stream(Wire::ANTHROPIC).header("x-lifesign-set", "beats.every=50ms,beats.form=event");

    let got = gate.ask(&ask).await;

    assert_eq!(raw.requests().len(), 2);
    let events = got.events();
    let kinds = events.iter().filter_map(|event| event["type"].as_str());
    let kinds: Vec<_> = kinds.filter(|kind| *kind != "ping").collect();
    assert_eq!(
        kinds,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ],
        "{}",
        got.text()
    );
    assert_eq!(got.answer(), "hi");
}
