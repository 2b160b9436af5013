//! Whom a call asks, in which order, and what it says when nobody can answer.

use lifesign_standin::Standin;
use lifesign_wire::Wire;

use crate::harness::{Ask, Gate, Got, Setup, Talk, ms, upstream};

/// Two upstreams of one wire, in order.
struct Pair {
    a: Standin,
    b: Standin,
    gate: Gate,
}

async fn standin(script: &str) -> Standin {
    Standin::script(script).unwrap().start().await.unwrap()
}

impl Pair {
    async fn start(wire: Wire, a: &str, b: &str, more: &str, sets: &[&str]) -> Self {
        let (a, b) = (standin(a).await, standin(b).await);
        let mut setup = Setup::new(&format!(
            "[[route]]\nmodel = \"*\"\nupstreams = [\"a\", \"b\"]\n{}{}",
            upstream("a", wire, &a.url(), ""),
            upstream("b", wire, &b.url(), more),
        ));
        for set in sets {
            setup = setup.set(set);
        }
        Self {
            a,
            b,
            gate: setup.start().await,
        }
    }

    /// Starts a pair whose first answers one call without an end, set up as `more` says.
    async fn with_a_taken(more: &str) -> (Self, Talk) {
        let (a, b) = (
            standin("status 200 sse; text \"a\"; hold").await,
            standin("answer \"from b\"").await,
        );
        let gate = Gate::start(&format!(
            "[[route]]\nmodel = \"*\"\nupstreams = [\"a\", \"b\"]\n{}{}",
            upstream("a", Wire::OPENAI_CHAT, &a.url(), more),
            upstream("b", Wire::OPENAI_CHAT, &b.url(), ""),
        ))
        .await;
        let mut first = gate.begin(&Ask::stream(Wire::OPENAI_CHAT)).await;
        first.until("\"a\"").await;
        (Self { a, b, gate }, first)
    }

    async fn ask(&self, ask: &Ask) -> Got {
        self.gate.ask(ask).await
    }

    fn asked(&self) -> (usize, usize) {
        (self.a.requests().len(), self.b.requests().len())
    }
}

const BUSY: &str = "status 503 json; error overloaded_error \"a is busy\"; eof";

#[tokio::test]
async fn the_next_upstream_is_asked_at_once_with_its_own_name_for_the_model() {
    let body = r#"{ "messages" : [{"role":"user","content":"h\u00e9"}], "x_new":1.50,
        "stream":true, "model" : "m" , "max_tokens": 7 }"#;
    for wire in Wire::ALL {
        let pair = Pair::start(
            wire,
            BUSY,
            "answer \"from b\"",
            "rename = { m = \"other/\\\"m\\\"\" }",
            &["retry.overload.first_delay=10s"],
        )
        .await;
        let ask = Ask::post(&format!("/v1{}?beta=true", wire.path()), body);
        let got = pair.ask(&ask).await;

        assert_eq!((got.status, got.answer().as_str()), (200, "from b"));
        assert_eq!(pair.asked(), (1, 1));
        assert!(got.head_at < ms(500), "{:?}", got.head_at);
        assert_eq!(got.header("x-lifesign-upstream"), Some("b"));
        assert_eq!(got.header("x-lifesign-model"), Some("other/\"m\""));
        // Nothing but the name of the model is changed.
        let (asked_a, asked_b) = (pair.a.requests().remove(0), pair.b.requests().remove(0));
        assert_eq!(asked_a.body, body.as_bytes());
        let renamed = body.replace("\"m\" ,", "\"other/\\\"m\\\"\" ,");
        assert_eq!(asked_b.body, renamed.as_bytes());
        assert_eq!(asked_b.path, format!("/v1{}?beta=true", wire.path()));
        let ended = pair.gate.only_end().await;
        let asked: Vec<_> = ended
            .attempts
            .iter()
            .map(|it| it.upstream.as_str())
            .collect();
        assert_eq!(asked, ["a", "b"]);
    }
}

#[tokio::test]
async fn nothing_of_an_attempt_shows_that_another_has_replaced() {
    for wire in Wire::ALL {
        for a in [
            "status 200 sse; role; +0.3 comment; hold",
            "status 200 sse; role; cut",
            "status 200 sse; rst",
            "status 200 sse; role; eof",
            "status 200 sse; garbage",
            "status 200 sse; role; error overloaded_error; eof",
            "cut",
        ] {
            let pair = Pair::start(
                wire,
                a,
                "answer \"from b\"",
                "",
                &["bounds.raw_silence=400ms", "bounds.before_content=500ms"],
            )
            .await;
            let got = pair.ask(&Ask::stream(wire)).await;

            let direct = standin("answer \"from b\"").await;
            let direct = Talk::begin(direct.address(), &Ask::stream(wire)).await;
            assert_eq!(got.text(), direct.rest().await.text(), "{a}");
            assert_eq!(pair.asked(), (1, 1), "{a}");
        }
    }
}

/// Typed beats release the start of an answer; the next attempt's is not told again.
#[tokio::test]
async fn a_start_that_was_released_is_told_once() {
    let pair = Pair::start(
        Wire::ANTHROPIC,
        "status 200 sse; m.start; +0.3 cut",
        "status 200 sse; m.start; +0.2 answer \"from b\"",
        "",
        &["beats.every=50ms", "beats.form=event"],
    )
    .await;

    let got = pair.ask(&Ask::stream(Wire::ANTHROPIC)).await;

    assert_eq!(got.answer(), "from b");
    let text = got.text();
    assert_eq!(text.matches("event: message_start").count(), 1, "{text}");
    assert!(text.contains("event: ping\ndata: {\"type\": \"ping\"}\n\n"));
    assert_eq!(pair.asked(), (1, 1));
}

#[tokio::test]
async fn content_decides_for_good() {
    for wire in Wire::ALL {
        let pair = Pair::start(
            wire,
            "status 200 sse; text \"from a\"; cut",
            "answer \"from b\"",
            "",
            &[],
        )
        .await;
        let got = pair.ask(&Ask::stream(wire)).await;

        assert_eq!(got.answer(), "from a");
        got.error_frame(wire);
        assert_eq!(pair.asked(), (1, 0));
    }
}

#[tokio::test]
async fn a_refusal_of_the_first_is_the_answer_and_one_of_a_later_reports_the_first_cause() {
    for wire in Wire::ALL {
        let refused = "status 400 json; error invalid_request_error \"no such thing\"; eof";
        let pair = Pair::start(wire, refused, "answer \"from b\"", "", &[]).await;
        let got = pair.ask(&Ask::stream(wire)).await;
        assert_eq!(got.status, 400);
        assert!(got.text().contains("no such thing"));
        assert_eq!(pair.asked(), (1, 0));
        // It was asked once: the caller's program may do as it likes.
        assert_eq!(got.header("x-should-retry"), None);

        for status in [400, 401, 403, 404, 413, 422] {
            let refused = format!("status {status} json; error x \"b knows no m\"; eof");
            let pair = Pair::start(wire, BUSY, &refused, "", &[]).await;
            let got = pair.ask(&Ask::stream(wire)).await;
            assert_eq!(got.status, 503, "{status}");
            assert!(got.text().contains("a is busy"), "{}", got.text());
            assert_eq!(got.header("x-should-retry"), Some("false"));
            assert_eq!(got.header("x-lifesign-upstream"), Some("a"), "{status}");
            assert_eq!(pair.asked(), (1, 1));
        }
    }
}

#[tokio::test]
async fn requests_to_all_upstreams_are_counted_together() {
    let pair = Pair::start(
        Wire::OPENAI_CHAT,
        "status 500 json; error server_error; eof",
        "status 500 json; error server_error; eof",
        "",
        &["retry.attempts=5"],
    )
    .await;
    let got = pair.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;

    assert_eq!(got.status, 500);
    let (a, b) = pair.asked();
    // The transport tier has three tries.
    assert!(a + b <= 5 && a >= 1 && b >= 1, "{a} and {b}");
    assert_eq!(pair.gate.only_end().await.attempts.len(), a + b);

    let pair = Pair::start(Wire::OPENAI_CHAT, BUSY, BUSY, "", &["retry.attempts=3"]).await;
    let got = pair.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;
    assert_eq!(got.status, 503);
    assert_eq!(pair.asked(), (2, 1));
}

#[tokio::test]
async fn a_body_that_is_bound_to_an_account_stays_there() {
    for (wire, field) in [
        (Wire::OPENAI_RESPONSES, r#""previous_response_id":"resp_1""#),
        (Wire::OPENAI_RESPONSES, r#""conversation":"conv_1""#),
        (Wire::ANTHROPIC, r#""container":"container_1""#),
    ] {
        let pair = Pair::start(wire, BUSY, "answer \"from b\"", "", &[]).await;
        let got = pair.ask(&Ask::stream(wire).field(field)).await;

        assert_eq!(got.status, 503, "{field}");
        assert_eq!(pair.asked(), (3, 0), "{field}");
    }
}

#[tokio::test]
async fn only_upstreams_of_the_callers_own_wire_are_asked() {
    let (chat, anthropic) = (standin(BUSY).await, standin("answer \"ok\"").await);
    let gate = Gate::start(&format!(
        "{}{}",
        upstream("chat", Wire::OPENAI_CHAT, &chat.url(), ""),
        upstream("claude", Wire::ANTHROPIC, &anthropic.url(), ""),
    ))
    .await;

    let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;
    assert_eq!(got.status, 503);
    assert!(anthropic.requests().is_empty());
    let got = gate.ask(&Ask::stream(Wire::ANTHROPIC)).await;
    assert_eq!(got.answer(), "ok");
    let got = gate.ask(&Ask::stream(Wire::OPENAI_RESPONSES)).await;
    assert_eq!(got.status, 404);
    assert!(got.json()["error"]["message"].is_string());
}

#[tokio::test]
async fn models_decide_whom_to_ask() {
    let (a, b) = (standin("answer \"a\"").await, standin("answer \"b\"").await);
    let gate = Gate::start(&format!(
        "[[route]]\nmodel = \"big-*\"\nupstreams = [\"b\"]\n{}{}",
        upstream("a", Wire::OPENAI_CHAT, &a.url(), "models = [\"small-*\"]"),
        upstream("b", Wire::OPENAI_CHAT, &b.url(), ""),
    ))
    .await;
    let ask = |model| Ask::stream(Wire::OPENAI_CHAT).model(model);

    assert_eq!(gate.ask(&ask("small-1")).await.answer(), "a");
    assert_eq!(gate.ask(&ask("big-1")).await.answer(), "b");
    assert_eq!(gate.ask(&ask("other")).await.answer(), "b");
}

#[tokio::test]
async fn an_upstream_that_keeps_failing_is_asked_last_and_again_after_a_while() {
    let pair = Pair::start(
        Wire::OPENAI_CHAT,
        "attempt 1-2: status 500 json; error server_error; eof\nattempt 3+: answer \"from a\"",
        "answer \"from b\"",
        "",
        &["breaker.failures=2", "breaker.open_for=400ms"],
    )
    .await;
    let ask = Ask::stream(Wire::OPENAI_CHAT);
    for _ in 0..2 {
        assert_eq!(pair.ask(&ask).await.answer(), "from b");
    }
    assert_eq!(pair.asked(), (2, 2));
    for _ in 0..3 {
        assert_eq!(pair.ask(&ask).await.answer(), "from b");
    }
    assert_eq!(pair.asked(), (2, 5));
    let upstreams = pair.gate.admin("upstreams").await;
    assert_eq!(upstreams["upstreams"][0]["breakers"]["failures"], "open");

    crate::harness::sleep(ms(450)).await;
    assert_eq!(pair.ask(&ask).await.answer(), "from a");
    let upstreams = pair.gate.admin("upstreams").await;
    assert_eq!(upstreams["upstreams"][0]["breakers"]["failures"], "closed");
}

#[tokio::test]
async fn a_breaker_refuses_nobody_where_no_other_can_take_the_call() {
    let only =
        standin("attempt 1-2: status 500 json; error server_error; eof\nattempt 3+: answer \"ok\"")
            .await;
    let gate = Setup::new(&upstream("only", Wire::OPENAI_CHAT, &only.url(), ""))
        .set("breaker.failures=2")
        .set("retry.attempts=1")
        .start()
        .await;
    let ask = Ask::stream(Wire::OPENAI_CHAT);
    for status in [500, 500, 200, 200] {
        assert_eq!(gate.ask(&ask).await.status, status);
    }
}

#[tokio::test]
async fn a_settled_refusal_trips_no_breaker() {
    let pair = Pair::start(
        Wire::OPENAI_CHAT,
        "status 400 json; error invalid_request_error; eof",
        "answer \"from b\"",
        "",
        &["breaker.failures=2"],
    )
    .await;
    for _ in 0..4 {
        assert_eq!(pair.ask(&Ask::stream(Wire::OPENAI_CHAT)).await.status, 400);
    }
    assert_eq!(pair.asked(), (4, 0));
}

#[tokio::test]
async fn an_upstream_that_is_slow_is_asked_last() {
    let pair = Pair::start(
        Wire::OPENAI_CHAT,
        "status 200 sse; +0.15 answer \"from a\"",
        "answer \"from b\"",
        "",
        &["breaker.failures=2", "breaker.slow_after=100ms"],
    )
    .await;
    let ask = Ask::stream(Wire::OPENAI_CHAT);
    for _ in 0..2 {
        assert_eq!(pair.ask(&ask).await.answer(), "from a");
    }

    assert_eq!(pair.ask(&ask).await.answer(), "from b");

    let upstreams = pair.gate.admin("upstreams").await;
    let breakers = &upstreams["upstreams"][0]["breakers"];
    assert_eq!(breakers["slowness"], "open");
    assert_eq!(breakers["failures"], "closed");
}

/// One that says not to retry is not asked again; another may be.
#[tokio::test]
async fn a_provider_that_says_not_to_retry_is_obeyed() {
    let refuses = "status 503 json [x-should-retry: false]; error overloaded_error; eof";
    let only = standin(refuses).await;
    let gate = Gate::start(&upstream("only", Wire::OPENAI_CHAT, &only.url(), "")).await;
    let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;
    assert_eq!(got.status, 503);
    assert_eq!(got.header("x-should-retry"), Some("false"));
    assert_eq!(only.requests().len(), 1);
}

#[tokio::test]
async fn a_full_upstream_is_passed_by() {
    let (pair, _taken) = Pair::with_a_taken("concurrency = 1\nqueue = 0").await;
    let ask = Ask::stream(Wire::OPENAI_CHAT);

    assert_eq!(pair.ask(&ask).await.answer(), "from b");
    assert_eq!(pair.asked(), (1, 1));
}

#[tokio::test]
async fn what_may_have_been_done_already_is_asked_of_no_other_upstream() {
    let failed = "status 500 json; error server_error \"oops\"; eof";
    let pair = Pair::start(Wire::OPENAI_CHAT, failed, "answer \"from b\"", "", &[]).await;

    let got = pair
        .ask(&Ask::post("/v1/batches", "{\"model\":\"m\"}"))
        .await;

    assert_eq!((got.status, pair.asked()), (500, (1, 0)));
}

#[tokio::test]
async fn a_later_rate_limit_reports_the_first_cause_too() {
    let limited = "status 429 json; error rate_limit_error \"b limits\"; eof";
    let sets = ["retry.attempts=2"];
    let pair = Pair::start(Wire::OPENAI_CHAT, BUSY, limited, "", &sets).await;

    let got = pair.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;

    assert_eq!((got.status, pair.asked()), (503, (1, 1)));
    assert!(got.text().contains("a is busy"), "{}", got.text());
}

#[tokio::test]
async fn an_upstream_that_gives_no_turn_in_time_is_passed_by() {
    let (pair, _taken) = Pair::with_a_taken("concurrency = 1\nqueue_wait = \"200ms\"").await;
    let ask = Ask::stream(Wire::OPENAI_CHAT);

    let got = pair.ask(&ask).await;

    assert_eq!(got.answer(), "from b");
    assert!(got.head_at >= ms(200), "{:?}", got.head_at);
    assert_eq!(pair.asked(), (1, 1));
}

#[tokio::test]
async fn a_request_is_let_go_with_the_first_content_of_an_answer_that_is_put_together() {
    let standin = standin(
        "attempt 1: status 200 sse; text \"a\"; hold\n\
         attempt 2: status 503 json; error overloaded_error; eof\n\
         attempt 3: answer \"ok\"",
    )
    .await;
    let gate = Setup::new(&upstream("a", Wire::OPENAI_CHAT, &standin.url(), ""))
        .set("limits.replay_total=300B")
        .set("retry.overload.first_delay=20ms")
        .start()
        .await;
    let body = format!("{{\"model\":\"m\",\"user\":\"{}\"}}", "x".repeat(180));
    let _first = gate
        .begin(&Ask::post("/v1/chat/completions", body.as_str()))
        .await;
    while standin.requests().is_empty() {
        crate::harness::sleep(ms(10)).await;
    }
    // The first content is on its way.
    crate::harness::sleep(ms(100)).await;

    let got = gate
        .ask(&Ask::post("/v1/chat/completions", body.as_str()))
        .await;

    assert_eq!((got.status, standin.requests().len()), (200, 3));
}
