//! What words look like on each wire.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::client::{Client, ask, ask_at, play};

/// The JSON of every event, and `[DONE]` as a string.
fn events(body: &str) -> Vec<Value> {
    body.split("\n\n")
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap_or_else(|_| data.into()))
        .collect()
}

/// The names of every event.
fn names(body: &str) -> Vec<&str> {
    body.lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect()
}

#[tokio::test]
async fn an_answer_on_the_chat_wire_is_a_role_text_finish_usage_and_done() {
    let standin = play("answer \"ok\"").await;

    let (head, body) = ask(&standin).await;

    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"),
        "{head}"
    );
    let events = events(&body);
    let deltas: Vec<&Value> = events[..3]
        .iter()
        .map(|event| &event["choices"][0])
        .collect();
    let role = json!({"role": "assistant", "content": ""});
    assert_eq!(
        json!(deltas),
        json!([
            {"index": 0, "delta": role, "finish_reason": null},
            {"index": 0, "delta": {"content": "ok"}, "finish_reason": null},
            {"index": 0, "delta": {}, "finish_reason": "stop"},
        ])
    );
    assert_eq!(events[3]["choices"], json!([]));
    let usage = json!({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15});
    assert_eq!(events[3]["usage"], usage);
    assert_eq!(events[4], json!("[DONE]"));
    assert_eq!(events[0]["model"], json!("m"));
}

#[tokio::test]
async fn an_answer_on_the_anthropic_wire_opens_and_closes_its_block() {
    let standin = play("think \"hm\"; answer \"ok\"").await;

    let (_, body) = ask_at(&standin, "/v1/messages").await;

    let expected = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names(&body), expected);
    let events = events(&body);
    assert_eq!(events[3]["delta"]["type"], json!("signature_delta"));
    assert_eq!(events[6]["index"], json!(1));
    assert_eq!(events[8]["delta"]["stop_reason"], json!("end_turn"));
}

#[tokio::test]
async fn an_answer_on_the_responses_wire_numbers_events_and_repeats_itself_in_the_last() {
    let standin = play("think \"hm\"; answer \"ok\"").await;

    let (_, body) = ask_at(&standin, "/v1/responses").await;

    let expected = [
        "response.created",
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
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names(&body), expected);
    let events = events(&body);
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], json!(index));
    }
    let output = &events[13]["response"]["output"];
    assert_eq!(output[0]["summary"][0]["text"], json!("hm"));
    assert_eq!(output[1]["content"][0]["text"], json!("ok"));
    assert_eq!(events[13]["response"]["usage"]["total_tokens"], json!(15));
}

#[tokio::test]
async fn a_tool_call_in_pieces_reaches_every_wire() {
    let script = r#"
        tool {"index":0,"id":"c1","type":"function","function":{"name":"ls","arguments":""}}
        tool {"index":0,"function":{"arguments":"{\"p\":"}}
        tool {"index":0,"function":{"arguments":"1}"}}
        finish tool_calls; done; eof"#;
    let standin = play(script).await;

    let (_, chat) = ask_at(&standin, "/v1/chat/completions").await;
    let (_, anthropic) = ask_at(&standin, "/v1/messages").await;
    let (_, responses) = ask_at(&standin, "/v1/responses").await;

    let piece = &events(&chat)[1]["choices"][0]["delta"]["tool_calls"][0];
    assert_eq!(
        *piece,
        json!({"index": 0, "function": {"arguments": "{\"p\":"}})
    );
    let blocks = events(&anthropic);
    let tool = json!({"type": "tool_use", "id": "c1", "name": "ls", "input": {}});
    assert_eq!(blocks[1]["content_block"], tool);
    assert_eq!(blocks[4]["delta"]["partial_json"], json!("1}"));
    assert_eq!(blocks[6]["delta"]["stop_reason"], json!("tool_use"));
    let last = events(&responses).pop().unwrap();
    let call = &last["response"]["output"][0];
    assert_eq!(call["call_id"], json!("c1"));
    assert_eq!(call["arguments"], json!("{\"p\":1}"));
}

#[tokio::test]
async fn two_calls_without_an_index_are_told_apart_by_their_ids() {
    let script = r#"
        tool {"id":"a","function":{"name":"f","arguments":"1"}}
        tool {"id":"b","function":{"name":"g","arguments":"2"}}; answer "" "#;
    let standin = play(script).await;

    let (_, body) = ask_at(&standin, "/v1/responses").await;

    let last = events(&body).pop().unwrap();
    let output = last["response"]["output"].as_array().unwrap().clone();
    let calls: Vec<_> = output
        .iter()
        .map(|item| (&item["call_id"], &item["arguments"]))
        .collect();
    assert_eq!(calls[0], (&json!("a"), &json!("1")));
    assert_eq!(calls[1], (&json!("b"), &json!("2")));
}

#[tokio::test]
async fn the_words_of_a_wire_write_its_frames() {
    let anthropic = "m.start 7; m.block 0 thinking; m.think 0 \"a\"; m.sig 0 s; m.blockend 0; \
                     m.block 1 tool_use t1 ls; m.json 1 \"{}\"; m.blockend 1; \
                     m.delta tool_use 5; m.stop; ping; m.error overloaded_error; eof";
    let standin = play(anthropic).await;
    let (_, body) = ask_at(&standin, "/v1/messages").await;
    let sent = events(&body);

    assert_eq!(sent[0]["message"]["usage"]["input_tokens"], json!(7));
    assert_eq!(
        sent[3]["delta"],
        json!({"type": "signature_delta", "signature": "s"})
    );
    assert_eq!(sent[5]["content_block"]["name"], json!("ls"));
    assert_eq!(sent[8]["usage"], json!({"output_tokens": 5}));
    assert_eq!(sent[10], json!({"type": "ping"}));
    assert_eq!(sent[11]["error"]["type"], json!("overloaded_error"));

    let responses = "r.created; r.inprogress; r.text \"a\"; r.item i1 ls; r.args i1 \"{}\"; \
                     r.argsdone i1; r.itemdone; r.incomplete max_output_tokens; \
                     r.failed server_error; eof";
    let standin = play(responses).await;
    let (_, body) = ask_at(&standin, "/v1/responses").await;
    let sent = events(&body);

    let incomplete = &sent[sent.len() - 2]["response"];
    assert_eq!(
        incomplete["incomplete_details"],
        json!({"reason": "max_output_tokens"})
    );
    assert_eq!(incomplete["output"][1]["arguments"], json!("{}"));
    assert_eq!(
        sent[sent.len() - 1]["response"]["error"]["code"],
        json!("server_error")
    );
}

#[tokio::test]
async fn errors_and_heartbeats_have_the_shape_of_the_wire() {
    let standin = play("comment; ping; comment \"queued\"; error overloaded_error; eof").await;

    let (_, chat) = ask_at(&standin, "/v1/chat/completions").await;
    let (_, anthropic) = ask_at(&standin, "/v1/messages").await;
    let (_, responses) = ask_at(&standin, "/v1/responses").await;

    assert!(
        chat.starts_with(": keepalive\n\n: ping\n\n: queued\n\ndata: {\"error\":{"),
        "{chat}"
    );
    assert_eq!(names(&anthropic), ["ping", "error"]);
    assert_eq!(names(&responses), ["keepalive", "error"]);
    assert_eq!(
        events(&responses)[1]["error"]["code"],
        json!("overloaded_error")
    );
}

#[tokio::test]
async fn a_request_for_no_stream_gets_one_whole_body() {
    let script = r#"
        think "hm"; text "o"
        tool {"index":0,"id":"c1","function":{"name":"ls","arguments":"{}"}}; answer "k""#;
    let standin = play(script).await;
    let mut bodies = Vec::new();

    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        let mut client = Client::connect(&standin).await;
        client.post_body(path, r#"{"model":"m"}"#).await;
        let (head, body) = client.response().await;
        assert!(
            head.contains("content-type: application/json\r\n"),
            "{head}"
        );
        bodies.push(serde_json::from_slice::<Value>(&body).unwrap());
    }

    let message = &bodies[0]["choices"][0]["message"];
    assert_eq!(message["content"], json!("ok"));
    assert_eq!(message["reasoning_content"], json!("hm"));
    assert_eq!(
        bodies[0]["choices"][0]["finish_reason"],
        json!("tool_calls")
    );
    let kinds: Vec<_> = bodies[1]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["type"])
        .collect();
    assert_eq!(json!(kinds), json!(["thinking", "text", "tool_use"]));
    assert_eq!(bodies[1]["stop_reason"], json!("tool_use"));
    let kinds: Vec<_> = bodies[2]["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["type"])
        .collect();
    assert_eq!(
        json!(kinds),
        json!(["reasoning", "message", "function_call"])
    );
    assert_eq!(bodies[2]["status"], json!("completed"));
}

#[tokio::test]
async fn a_script_of_bytes_is_played_as_it_stands_whatever_was_asked() {
    let standin = play("status 200 json; bytes \"{}\"; eof").await;
    let mut client = Client::connect(&standin).await;

    client.post_body("/v1/responses", "{}").await;

    assert_eq!(client.response().await.1, b"{}");
}

#[tokio::test]
async fn lines_end_as_the_script_says_and_bytes_stay_as_they_are() {
    let standin = play("eol crlf; comment; eol cr; comment; bytes \"a\\n\"; eof").await;

    let (_, body) = ask(&standin).await;

    assert_eq!(body, ": keepalive\r\n\r\n: keepalive\r\ra\n");
}

#[tokio::test]
async fn chunk_and_delta_write_json_as_it_was_written() {
    let standin = play(r#"chunk {"z":1,  "a":2}; delta {"content":null} stop; eof"#).await;

    let (_, body) = ask(&standin).await;

    assert!(body.starts_with("data: {\"z\":1,  \"a\":2}\n\n"), "{body}");
    let choice = json!({"index": 0, "delta": {"content": null}, "finish_reason": "stop"});
    assert_eq!(events(&body)[1]["choices"][0], choice);
}
