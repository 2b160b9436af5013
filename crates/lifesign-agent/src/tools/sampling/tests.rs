//! Model calls that servers ask for: their limits, their ends and their failures.

use std::sync::Mutex;
use std::time::Duration;

use lifesign::{Upstream, Wire};
use lifesign_standin::Standin;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::tools::mcp::talker::{Talker, ask, call, start_with};
use crate::tools::{ToolResult, Toolbox as _};

/// Calls that go to a script, under bounds that are short.
async fn sampler(script: &str) -> (Sampler, Standin) {
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let upstream = Arc::new(Upstream::new(Wire::OPENAI_CHAT, &standin.url()).unwrap());
    let sampler = Sampler::new(Client::new().unwrap(), move |mut request| {
        request.model = "m".to_owned();
        CallRequest::new(Arc::clone(&upstream), request)
            .set("bounds.raw_silence", "400ms")
            .and_then(|request| request.set("bounds.before_content", "400ms"))
            .and_then(|request| request.set("bounds.wall_clock", "1500ms"))
            .and_then(|request| request.set("retry.attempts", "1"))
            .map_err(|error| error.to_string())
    });
    (sampler, standin)
}

fn json_of(result: &ToolResult) -> Value {
    assert!(!result.is_error, "{}", result.text);
    serde_json::from_str(&result.text).unwrap_or_else(|_| panic!("{}", result.text))
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_server_gets_what_the_model_said_and_the_call_was_streamed() {
    let (sampler, standin) = sampler("answer \"hello there\"").await;
    let ended = Arc::new(Mutex::new(Vec::new()));
    let sampler = {
        let ended = Arc::clone(&ended);
        sampler.on_end(move |sampled| {
            let text = sampled.outcome.map(|answered| answered.answer.text.clone());
            ended
                .lock()
                .unwrap()
                .push((sampled.server.to_owned(), text.unwrap()));
        })
    };
    let server = start_with(&Talker::with(&[&["sample"]]), Some(sampler)).await;

    let told = json_of(&ask(&server, "sample", json!({"text": "hi"})).await);

    assert_eq!(
        told["content"],
        json!({"type": "text", "text": "hello there"})
    );
    assert_eq!(told["stopReason"], "endTurn");
    let asked: Value = serde_json::from_slice(&standin.requests()[0].body).unwrap();
    assert_eq!(asked["stream"], true);
    assert_eq!(asked["max_tokens"], 16);
    assert_eq!(asked["messages"][0]["content"], "hi");
    assert_eq!(
        *ended.lock().unwrap(),
        [("talker".to_owned(), "hello there".to_owned())]
    );
}

#[tokio::test]
async fn a_call_that_is_cut_is_answered_with_the_sentence_and_the_bound() {
    let (sampler, _standin) = sampler("status 200 sse; hold").await;
    let server = start_with(&Talker::with(&[&["sample"]]), Some(sampler)).await;

    let told = json_of(&ask(&server, "sample", json!({})).await);

    assert_eq!(told["code"], -32_000);
    let message = told["message"].as_str().unwrap();
    assert!(message.starts_with("The model's server"), "{message}");
    assert!(message.contains("(bound "), "{message}");
    assert_eq!(told["data"]["code"], "raw_silent");
    assert_eq!(told["data"]["limit_ms"], 400);
    assert!(
        message.ends_with(&format!(
            "(bound {}, set by {})",
            told["data"]["bound"].as_str().unwrap(),
            told["data"]["setting"].as_str().unwrap()
        )),
        "{message}"
    );
}

#[tokio::test]
async fn a_call_that_drips_ends_with_its_wall_clock_and_what_it_had_said() {
    let (sampler, _standin) =
        sampler("role; repeat 0.1 { delta {\"content\": \"x\"} } forever").await;
    let server = start_with(&Talker::with(&[&["sample"]]), Some(sampler)).await;

    let told = json_of(&ask(&server, "sample", json!({})).await);

    assert_eq!(told["data"]["code"], "wall_clock");
    assert_eq!(told["data"]["bound"], "wall_clock");
    let partial = told["data"]["partial_text"].as_str().unwrap();
    assert!(
        partial.len() > 5 && partial.bytes().all(|byte| byte == b'x'),
        "{partial}"
    );
}

#[tokio::test]
async fn a_request_that_is_taken_back_closes_the_call() {
    let (sampler, standin) = sampler("role; repeat 0.05 { ping } forever").await;
    let talker = Talker::with(&[&["sample briefly"]]);
    let server = start_with(&talker, Some(sampler)).await;

    let result = tokio::join!(ask(&server, "sample_briefly", json!({})), async {
        assert!(standin.wait_for_requests(1, SECOND).await);
        talker.see("enough");
    })
    .0;

    assert_eq!(result, ToolResult::ok("taken back"));
    assert!(standin.wait_for_peer_closed(0, SECOND / 5).await.is_some());
}

#[tokio::test]
async fn a_server_that_leaves_takes_its_calls_along() {
    let (sampler, standin) = sampler("role; repeat 0.05 { ping } forever").await;
    let talker = Talker::with(&[&["sample", "die"]]);
    let server = start_with(&talker, Some(sampler)).await;

    let asking = async {
        assert!(standin.wait_for_requests(1, SECOND).await);
        server.call(call("die", json!({})), Arc::new(|_| {})).await
    };
    tokio::join!(ask(&server, "sample", json!({})), asking);

    assert!(standin.wait_for_peer_closed(0, SECOND / 5).await.is_some());
}

#[tokio::test]
async fn a_tool_call_that_is_dropped_takes_its_model_call_along() {
    let (sampler, standin) = sampler("role; repeat 0.05 { ping } forever").await;
    let server = start_with(&Talker::with(&[&["sample", "echo"]]), Some(sampler)).await;

    tokio::select! {
        result = ask(&server, "sample", json!({})) => panic!("{}", result.text),
        has_come = standin.wait_for_requests(1, SECOND) => assert!(has_come),
    }

    // The server, which does not take its request back, is still there.
    assert!(standin.wait_for_peer_closed(0, SECOND / 5).await.is_some());
    assert!(!ask(&server, "echo", json!({})).await.is_error);
}

#[tokio::test]
async fn a_tool_call_that_is_dropped_leaves_the_model_calls_of_others_alone() {
    let script =
        "attempt 1: role; repeat 0.05 { ping } forever\nattempt 2: role; +0.2 answer \"x\"";
    let (sampler, standin) = sampler(script).await;
    let server = start_with(&Talker::with(&[&["sample"]]), Some(sampler)).await;

    let dropped = async {
        tokio::select! {
            result = ask(&server, "sample", json!({})) => panic!("{}", result.text),
            has_come = standin.wait_for_requests(2, SECOND) => assert!(has_come),
        }
    };
    let other = async {
        assert!(standin.wait_for_requests(1, SECOND).await);
        ask(&server, "sample", json!({})).await
    };
    let ((), told) = tokio::join!(dropped, other);

    assert_eq!(json_of(&told)["content"]["text"], "x");
}

#[tokio::test]
async fn a_server_that_is_at_no_call_may_make_none() {
    let (sampler, standin) = sampler("answer \"x\"").await;
    let talker = Talker::with(&[&["sample later"]]);
    let server = start_with(&talker, Some(sampler)).await;

    assert_eq!(
        ask(&server, "sample_later", json!({})).await,
        ToolResult::ok("soon")
    );
    talker.see("later");
    talker
        .wait_for(
            "told: {\"code\":-32600,\"message\":\"no tool of this server is called any more, \
             so no model call is made for it\"}",
        )
        .await;

    assert_eq!(standin.requests().len(), 0);
}

#[tokio::test]
async fn no_more_calls_are_made_at_once_than_allowed() {
    let (sampler, standin) = sampler("role; +0.1 answer \"x\"").await;
    let server = start_with(&Talker::with(&[&["sample"]]), Some(sampler.concurrency(1))).await;

    let sample = || ask(&server, "sample", json!({}));
    let (first, second) = tokio::join!(sample(), sample());

    assert_eq!(json_of(&first)["content"]["text"], "x");
    assert_eq!(json_of(&second)["content"]["text"], "x");
    let requests = standin.requests();
    assert!(
        requests[1].at >= requests[0].at + Duration::from_millis(100),
        "{requests:?}"
    );
}

#[tokio::test]
async fn who_finds_the_line_full_is_told_so() {
    let (sampler, _standin) = sampler("answer \"x\"").await;
    let server = start_with(&Talker::with(&[&["sample"]]), Some(sampler.clone())).await;
    let _all = sampler.line.try_acquire_many(66).unwrap();

    let told = json_of(&ask(&server, "sample", json!({})).await);

    assert_eq!(
        told["message"],
        "too many sampling requests are waiting already; ask again later"
    );
}

#[tokio::test]
async fn a_host_that_cannot_aim_a_call_says_why() {
    let sampler = Sampler::new(
        Client::new().unwrap(),
        |_| Err("no model is set".to_owned()),
    );
    let server = start_with(&Talker::with(&[&["sample"]]), Some(sampler)).await;

    let told = json_of(&ask(&server, "sample", json!({})).await);

    assert_eq!(told["message"], "cannot be asked: no model is set");
}

#[tokio::test]
async fn without_a_sampler_a_server_may_make_no_calls() {
    let server = start_with(&Talker::with(&[&["sample"]]), None).await;

    let told = json_of(&ask(&server, "sample", json!({})).await);

    assert_eq!(told["message"], "sampling is off in this client");
}
