//! Which headers, fields and paths pass, in both directions, and which requests do not.

use lifesign_standin::Standin;
use lifesign_wire::Wire;

use crate::harness::{Ask, Gate, Raw, Setup, ms, upstream};

async fn raw_gate(more: &str) -> (Raw, Gate) {
    let raw = Raw::start().await;
    let gate = Gate::start(&upstream("up", Wire::OPENAI_CHAT, &raw.url(), more)).await;
    (raw, gate)
}

fn response(head: &str, body: &str) -> Vec<(std::time::Duration, Vec<u8>)> {
    let len = body.len();
    vec![(
        ms(0),
        format!("{head}\r\ncontent-length: {len}\r\n\r\n{body}").into_bytes(),
    )]
}

const ANSWER: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n\
                      data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
                      data: [DONE]\n\n";

#[tokio::test]
async fn unknown_headers_pass_both_ways_and_those_of_one_connection_do_not() {
    let (raw, gate) = raw_gate("").await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
                X-Request-Id: req_1\r\nopenai-processing-ms: 12\r\nX-New: a\r\nX-New: b\r\n\
                x-ratelimit-remaining-tokens: 9\r\n\
                Set-Cookie: a=b\r\nalt-svc: h3\r\nstrict-transport-security: max-age=1\r\n\
                Connection: close, x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nserver: up/1";
    raw.next(response(head, ANSWER));
    let ask = Ask::stream(Wire::OPENAI_CHAT)
        .header("authorization", "Bearer mine")
        .header("openai-beta", "x=1")
        .header("x-new", "a")
        .header("X-New", "b")
        .header("user-agent", "agent/7")
        .header("x-stainless-lang", "js")
        .header("idempotency-key", "7")
        .header("cookie", "a=b")
        .header("forwarded", "for=1.2.3.4")
        .header("x-forwarded-for", "1.2.3.4")
        .header("x-real-ip", "1.2.3.4")
        .header("via", "1.1 x")
        .header("x-lifesign-set", "beats.every=9s")
        .header("accept-encoding", "gzip, br")
        .header("te", "trailers")
        .header("connection", "keep-alive, x-hop")
        .header("x-hop", "1")
        .header("keep-alive", "timeout=5")
        .header("expect", "100-continue");

    let got = gate.ask(&ask).await;

    assert_eq!(got.text(), ANSWER);
    let asked = raw.requests().remove(0);
    let head = asked.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
    for passes in [
        "authorization: bearer mine",
        "openai-beta: x=1",
        "x-new: a\r\n",
        "x-new: b",
        "user-agent: agent/7",
        "x-stainless-lang: js",
        "idempotency-key: 7",
        "accept-encoding: identity",
        "content-type: application/json",
    ] {
        assert!(head.contains(passes), "{passes} is not in {head}");
    }
    for stays in [
        "cookie",
        "forwarded",
        "real-ip",
        "via:",
        "lifesign-set",
        "gzip",
        "\r\nte:",
        "x-hop",
        "keep-alive",
        "expect",
    ] {
        assert!(!head.contains(stays), "{stays} is in {head}");
    }
    assert_eq!(head.matches("content-length:").count(), 1);
    assert!(head.contains(&format!("host: {}", raw.address)), "{head}");

    for (name, value) in [
        ("x-request-id", "req_1"),
        ("openai-processing-ms", "12"),
        ("x-ratelimit-remaining-tokens", "9"),
        ("server", "up/1"),
        ("content-type", "text/event-stream"),
        ("x-lifesign-upstream", "up"),
        ("x-lifesign-model", "m"),
    ] {
        assert_eq!(got.header(name), Some(value), "{name}");
    }
    let news: Vec<_> = got
        .headers
        .iter()
        .filter(|(name, _)| name == "x-new")
        .collect();
    assert_eq!(news.len(), 2);
    for stays in [
        "set-cookie",
        "alt-svc",
        "strict-transport-security",
        "x-hop",
        "keep-alive",
    ] {
        assert_eq!(got.header(stays), None, "{stays}");
    }
    assert!(got.header("x-lifesign-call").is_some());
}

#[tokio::test]
async fn our_own_key_goes_upstream_in_the_place_of_whatever_the_caller_showed() {
    // The file is read once at the start.
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    std::fs::write(&key, "sk-ours-0123456789\n").unwrap();
    let more = format!("api_key = {{ file = {key:?} }}");
    for (wire, header) in [
        (
            Wire::OPENAI_CHAT,
            "authorization: bearer sk-ours-0123456789",
        ),
        (Wire::ANTHROPIC, "x-api-key: sk-ours-0123456789"),
    ] {
        let raw = Raw::start().await;
        let gate = Gate::start(&upstream("up", wire, &raw.url(), &more)).await;
        raw.next(response(
            "HTTP/1.1 401 No\r\ncontent-type: application/json",
            "{\"error\":{\"message\":\"bad key sk-ours-0123456789\"}}",
        ));
        let ask = Ask::stream(wire)
            .header("authorization", "Bearer theirs")
            .header("x-api-key", "theirs")
            .header("api-key", "theirs");

        let got = gate.ask(&ask).await;

        let asked = raw.requests().remove(0).to_ascii_lowercase();
        assert!(asked.contains(header), "{asked}");
        assert!(!asked.contains("theirs"), "{asked}");
        assert_eq!(got.status, 401);
        // What the provider repeats of our key is no caller's business.
        let told = format!("{}{:?}{:?}", got.text(), got.headers, gate.records());
        assert!(!told.contains("sk-ours-0123456789"), "{told}");
    }
}

#[tokio::test]
async fn other_paths_pass_with_method_query_body_and_status() {
    let (raw, gate) = raw_gate("").await;
    raw.next(response(
        "HTTP/1.1 202 Fine\r\nx-new: 1\r\ncontent-type: text/x-odd",
        "not { json",
    ));
    let ask = Ask::post("/v1/x/odd?a=%20b&c", "{\"model\":\"m\"}").header("x-mine", "1");

    let got = gate.ask(&ask).await;

    assert_eq!((got.status, got.text().as_str()), (202, "not { json"));
    assert_eq!(got.header("content-type"), Some("text/x-odd"));
    assert_eq!(got.header("x-new"), Some("1"));
    let asked = raw.requests().remove(0);
    assert!(
        asked.starts_with("POST /v1/x/odd?a=%20b&c HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(asked.ends_with("{\"model\":\"m\"}"), "{asked}");

    raw.next(response(
        "HTTP/1.1 404 No\r\ncontent-type: application/json",
        "{\"error\":7}",
    ));
    let got = gate.ask(&Ask::get("/v1/files/file-1")).await;
    assert_eq!((got.status, got.text().as_str()), (404, "{\"error\":7}"));
}

#[tokio::test]
async fn what_may_have_been_done_already_is_not_asked_for_again() {
    let failed = || response("HTTP/1.1 500 Oops\r\ncontent-type: text/plain", "oops");
    for (ask, requests) in [
        (Ask::post("/v1/batches", "{\"input\":1}"), 1),
        (Ask::get("/v1/batches"), 2),
    ] {
        let (raw, gate) = raw_gate("").await;
        raw.next(failed());
        raw.next(response(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain",
            "fine",
        ));

        let got = gate.ask(&ask).await;

        assert_eq!(raw.requests().len(), requests);
        assert_eq!(got.status, if requests == 1 { 500 } else { 200 });
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_not_passed_on() {
    let elsewhere = Raw::start().await;
    let (raw, gate) = raw_gate("").await;
    for path in ["/v1/chat/completions", "/v1/files"] {
        let head = format!("HTTP/1.1 307 Go\r\nlocation: {}/v1/x", elsewhere.url());
        raw.next(response(&head, ""));
        let got = gate
            .ask(&Ask::post(path, "{\"model\":\"m\",\"stream\":true}"))
            .await;
        assert_eq!(got.status, 502, "{path}");
        assert_eq!(got.header("location"), None);
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn unknown_events_and_fields_pass_byte_for_byte() {
    let (raw, gate) = raw_gate("").await;
    let stream = format!(
        "event: x_before\ndata: {{\"n\":1.50}}\n\n{}: comment\n\nid: 7\nretry: 9\nevent: x\ndata:no space\ndata\nx-field: 1\n\n{}",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"x\":\"\\u00e9\"}], \"x\" : {} }\n\n",
        ANSWER.split_inclusive("\n\n").skip(1).collect::<String>(),
    );
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";
    raw.next(response(head, &stream));

    let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;

    assert_eq!(got.text(), stream);
}

#[tokio::test]
async fn what_is_no_request_is_refused_in_the_words_of_its_route() {
    let standin = Standin::script("answer \"ok\"")
        .unwrap()
        .start()
        .await
        .unwrap();
    let upstreams: String = Wire::ALL
        .into_iter()
        .map(|wire| upstream(wire.name(), wire, &standin.url(), ""))
        .collect();
    let gate = Setup::new(&upstreams)
        .set("limits.request=1000 B")
        .start()
        .await;
    for wire in Wire::ALL {
        let path = format!("/v1{}", wire.path());
        let long = format!("{{\"model\":\"m\",\"x\":\"{}\"}}", "y".repeat(1_000));
        for (ask, status) in [
            (Ask::post(&path, "{\"model\":"), 400),
            (Ask::post(&path, "[1]"), 400),
            (Ask::post(&path, ""), 400),
            (Ask::post(&path, "{\"model\":\"a\",\"model\":\"b\"}"), 400),
            (Ask::post(&path, long), 413),
            (Ask::get(&path), 405),
            (
                Ask::stream(wire).header("x-lifesign-set", "bounds.raw_silence=fast"),
                400,
            ),
            (
                Ask::stream(wire).header("x-lifesign-profile", "nobody"),
                400,
            ),
            (
                Ask::stream(wire).header("x-lifesign-wall-clock", "-1s"),
                400,
            ),
        ] {
            let got = gate.ask(&ask).await;
            assert_eq!(got.status, status, "{}", got.text());
            let body = got.json();
            assert!(body["error"]["message"].is_string(), "{body}");
            if wire == Wire::ANTHROPIC {
                assert_eq!(body["type"], "error", "{body}");
            }
        }
    }
    assert!(standin.requests().is_empty());
    assert!(gate.records().is_empty());
}

#[tokio::test]
async fn what_passes_unread_passes_as_it_comes_and_breaks_as_it_breaks() {
    let (raw, gate) = raw_gate("").await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\n";
    raw.next(vec![
        (ms(0), format!("{head}first").into()),
        (ms(150), b"second".to_vec()),
    ]);

    let got = gate.ask(&Ask::get("/v1/files/file-1/content")).await;

    assert_eq!((got.status, got.text().as_str()), (200, "firstsecond"));
    assert!(got.pieces[0].0 + ms(100) < got.pieces[1].0);
    // The rest never came, and nothing of ours stands in its place.
    assert!(!got.is_whole);
    let failure = gate.only_end().await.failure.unwrap();
    assert_eq!(failure.code.name(), "connection_lost");
}

#[tokio::test]
async fn an_error_body_that_came_compressed_is_passed_on_as_text() {
    let standin = Standin::script(
        "status 400 json [content-encoding: gzip]; gzip; bytes \"{\\\"error\\\":{\\\"message\\\":\\\"no\\\"}}\"; eof",
    )
    .unwrap()
    .start()
    .await
    .unwrap();
    let gate = Gate::start(&upstream("up", Wire::OPENAI_CHAT, &standin.url(), "")).await;

    let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;

    assert_eq!(got.status, 400);
    assert_eq!(got.header("content-encoding"), None);
    assert_eq!(got.text(), "{\"error\":{\"message\":\"no\"}}");
}

/// Nothing of a body is changed but what has to be.
#[tokio::test]
async fn a_body_is_spliced_and_never_written_anew() {
    let (raw, gate) = raw_gate("rename = { m = \"big\" }\nusage = \"inject\"").await;
    let body =
        "{ \"stream\" :true, \"x\":[1.0,1e3, \"\\u00e9\"],\n\"model\":\"m\", \"messages\":[] }";
    raw.next(response(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream",
        ANSWER,
    ));
    gate.ask(&Ask::post("/v1/chat/completions", body)).await;
    let asked = raw.requests().remove(0);
    let sent = asked.split_once("\r\n\r\n").unwrap().1.to_owned();
    let added = sent.replace("\"stream_options\":{\"include_usage\":true},", "");
    assert_ne!(added, sent);
    assert_eq!(added, body.replace("\"m\"", "\"big\""));

    // So is one that did not ask for a stream, in so many words.
    let body = "{\"model\":\"m\", \"stream\" : false , \"messages\":[],\"temperature\":0.10}";
    raw.next(response(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream",
        ANSWER,
    ));
    let got = gate.ask(&Ask::post("/v1/chat/completions", body)).await;
    assert_eq!(got.json()["choices"][0]["message"]["content"], "hi");
    let asked = raw.requests().remove(1);
    let sent = asked.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert!(
        sent.contains("\"stream\" : true , \"messages\":[],\"temperature\":0.10}"),
        "{sent}"
    );
}

/// Lists of models are kept until they can be joined.
#[tokio::test]
async fn a_list_of_models_that_is_too_long_is_left_out() {
    let (long, short) = (Raw::start().await, Raw::start().await);
    let gate = Setup::new(&format!(
        "{}{}",
        upstream("long", Wire::OPENAI_CHAT, &long.url(), ""),
        upstream("short", Wire::OPENAI_CHAT, &short.url(), ""),
    ))
    .set("limits.answer=2KiB")
    .start()
    .await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
    let list = |id: &str| response(head, &format!(r#"{{"data":[{{"id":"{id}"}}]}}"#));
    let too_long = "l".repeat(4096);
    long.next(list(&too_long));
    short.next(list("s"));

    let got = gate.ask(&Ask::get("/v1/models")).await;

    assert_eq!(
        (got.status, got.text().as_str()),
        (200, r#"{"object":"list","data":[{"id":"s"}]}"#)
    );
    let ended = gate.ended(2).await;
    let failures = ended.iter().filter_map(|ended| ended.failure.as_ref());
    let failures: Vec<_> = failures.collect();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].code.name(), "too_large");
    assert_eq!(failures[0].setting.as_deref(), Some("limits.answer"));

    long.next(list(&too_long));
    short.next(list(&too_long));
    let got = gate.ask(&Ask::get("/v1/models")).await;
    assert_eq!(got.status, 502);
    assert_eq!(got.json()["lifesign"]["code"], "too_large");
}

/// Masking shortens a body; that it was cut off is known all the same.
#[tokio::test]
async fn an_error_body_that_was_cut_off_is_not_passed_on_as_a_whole_one() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    std::fs::write(&key, "sk-own-secret-key-0123456789").unwrap();
    let (raw, gate) = raw_gate(&format!("api_key = {{ file = {key:?} }}")).await;
    let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json";
    let rest = "x".repeat(80 << 10);
    let body =
        format!(r#"{{"error":{{"message":"no sk-own-secret-key-0123456789","rest":"{rest}"}}}}"#);
    raw.next(response(head, &body));

    let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;

    assert_eq!(got.status, 400);
    assert!(got.json()["lifesign"].is_object());
}

#[tokio::test]
async fn an_upstream_that_hangs_does_not_keep_the_models_of_the_others() {
    let (hangs, answers) = (Raw::start().await, Raw::start().await);
    let gate = Setup::new(&format!(
        "{}{}",
        upstream("hangs", Wire::OPENAI_CHAT, &hangs.url(), ""),
        upstream("answers", Wire::OPENAI_CHAT, &answers.url(), ""),
    ))
    .start()
    .await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
    hangs.next(vec![(std::time::Duration::from_mins(1), Vec::new())]);
    answers.next(response(head, r#"{"data":[{"id":"a"}]}"#));

    let got = gate.ask(&Ask::get("/v1/models")).await;

    assert_eq!(
        (got.status, got.text().as_str()),
        (200, r#"{"object":"list","data":[{"id":"a"}]}"#)
    );
    assert!(got.head_at < ms(5_000), "{:?}", got.head_at);
}

#[tokio::test]
async fn no_status_passes_that_answers_nothing_here_and_one_that_does_passes() {
    let (raw, gate) = raw_gate("").await;
    raw.next(response(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x",
        "",
    ));
    let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;
    assert_eq!(got.status, 502);

    raw.next(response("HTTP/1.1 304 Not Modified\r\netag: \"7\"", ""));
    let got = gate
        .ask(
            &Ask::get("/v1/files/f")
                .header("if-none-match", "\"7\"")
                .header("connection", "close"),
        )
        .await;
    assert_eq!((got.status, got.header("etag")), (304, Some("\"7\"")));
}

#[tokio::test]
async fn a_header_of_ours_that_cannot_be_read_is_refused_and_not_passed_over() {
    let (_raw, gate) = raw_gate("").await;
    let ask = || Ask::stream(Wire::OPENAI_CHAT);
    for (ask, told) in [
        (
            ask().header("x-lifesign-wall-clock", "1s\u{e9}"),
            "x-lifesign-wall-clock: holds characters",
        ),
        (
            ask().header("x-lifesign-set", "nonsense \u{e9}"),
            "x-lifesign-set: holds characters",
        ),
        (
            ask()
                .header("x-lifesign-wall-clock", "10s")
                .header("x-lifesign-wall-clock", "1s"),
            "x-lifesign-wall-clock: is given twice",
        ),
    ] {
        let got = gate.ask(&ask).await;

        assert_eq!(got.status, 400);
        assert!(got.text().contains(told), "{}", got.text());
    }
}

#[tokio::test]
async fn a_name_too_long_for_a_header_is_in_none() {
    let (raw, gate) = raw_gate("").await;
    let answer = || response("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream", ANSWER);
    for (len, is_named) in [(256, true), (257, false)] {
        raw.next(answer());
        let model = "m".repeat(len);
        let body = format!("{{\"model\":\"{model}\",\"stream\":true,\"messages\":[]}}");
        let got = gate.ask(&Ask::post("/v1/chat/completions", body)).await;

        assert_eq!(got.status, 200);
        assert_eq!(got.header("x-lifesign-model").is_some(), is_named);
    }
}
