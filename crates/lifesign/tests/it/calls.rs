//! What a call does between and around its attempts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lifesign::{
    CallEvent, CallRequest, Client, Decide, Decision, FailedAttempt, Outcome, Tier, Upstream,
};
use lifesign_core::{Layer, Origin, Settings, Target, Value, resolve};
use lifesign_standin::Standin;
use lifesign_wire::{RawRequest, Request, Wire};
use pretty_assertions::assert_eq;

use crate::harness::Case;

fn settings(sets: &[(&str, &str)]) -> Settings {
    let mut layer = Layer::new();
    for (key, value) in sets {
        layer.set(key, Value::of_text(value), Origin::Call).unwrap();
    }
    let wire = Wire::OPENAI_CHAT.defaults();
    resolve(
        &[layer],
        &Target {
            wire: &wire,
            host: Some("127.0.0.1"),
            model: Some("m"),
        },
    )
    .unwrap()
}

fn ask(standin: &Standin, model: &str, sets: &[(&str, &str)]) -> CallRequest {
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url()).unwrap();
    CallRequest::new(upstream, Request::prompt(model, "hello")).settings(settings(sets))
}

#[tokio::test]
async fn a_wait_that_one_call_was_told_of_holds_the_others_of_its_model() {
    let script = "attempt 1: status 429 json [retry-after-ms: 600]; error rate_limit_error; eof\n\
                  attempt 2+: answer \"ok\"";
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let client = Client::new().unwrap();

    let mut first = client.stream(ask(&standin, "m", &[]));
    let Some(Ok(CallEvent::Retrying { wait, .. })) = first.next().await else {
        panic!("the first call was not told to wait");
    };
    assert!(wait >= Duration::from_millis(600));
    let mut second = client.stream(ask(&standin, "m", &[]));
    let Some(Ok(CallEvent::Holding { wait })) = second.next().await else {
        panic!("the second call did not wait");
    };
    assert!(wait <= Duration::from_millis(660), "{wait:?}");
    let other_model = client.answer(ask(&standin, "other", &[])).await.unwrap();
    assert!(
        other_model.elapsed < Duration::from_millis(400),
        "{:?}",
        other_model.elapsed
    );

    let waited = loop {
        match second.next().await {
            Some(Ok(CallEvent::Finished(answered))) => break answered.attempts[0].waited_ms,
            Some(Ok(_)) => {}
            ended => panic!("{ended:?}"),
        }
    };
    assert!((300..=660).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_hold_beyond_the_longest_wait_fails_the_call_at_once_and_asks_nobody() {
    let script = "status 429 json [retry-after: 30]; error rate_limit_error; eof";
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let client = Client::new().unwrap();
    let sets = [("retry.max_wait", "10s")];

    let first = client.answer(ask(&standin, "m", &sets)).await.unwrap_err();
    assert_eq!(first.failure.code.name(), "exhausted");
    assert!(first.failure.resets_at.is_some());
    assert_eq!(
        first.attempts[0].outcome,
        lifesign_core::AttemptOutcome::Failed(lifesign_core::FailureCode::RateLimited)
    );

    let second = client.answer(ask(&standin, "m", &sets)).await.unwrap_err();
    assert_eq!(second.failure.code.name(), "exhausted");
    assert_eq!((second.attempts.len(), standin.requests().len()), (0, 1));
    assert!(
        second.elapsed < Duration::from_millis(100),
        "{:?}",
        second.elapsed
    );
}

#[tokio::test]
async fn a_wait_that_the_wall_clock_cannot_outlast_is_not_slept() {
    let script = "status 429 json [retry-after: 5]; error rate_limit_error; eof";
    let played = Case::new(script)
        .speed(1.0)
        .set("bounds.wall_clock", "2s")
        .play()
        .await;

    assert_eq!(played.code(), "rate_limited");
    assert!(
        played.elapsed < Duration::from_millis(500),
        "{:?}",
        played.elapsed
    );
    assert!(played.report.failure.unwrap().resets_at.is_some());
    assert_eq!(played.standin.requests().len(), 1);
}

#[tokio::test]
async fn an_overload_with_a_wait_beyond_the_longest_stays_an_overload() {
    let script = "status 503 json [retry-after: 500]; error overloaded_error; eof";
    let played = Case::new(script).play().await;

    assert_eq!((played.code(), played.requests().len()), ("overloaded", 1));
    assert!(played.report.failure.unwrap().resets_at.is_some());
}

#[tokio::test]
async fn a_provider_that_says_not_to_retry_is_obeyed() {
    let script = "status 500 json [x-should-retry: false]; error server_error; eof";
    let played = Case::new(script).play().await;

    assert_eq!(
        (played.code(), played.requests().len()),
        ("provider_error", 1)
    );
}

#[tokio::test]
async fn settled_refusals_are_not_repeated_and_carry_the_providers_words() {
    for (status, code) in [
        (400, "rejected"),
        (401, "rejected"),
        (404, "rejected"),
        (402, "exhausted"),
    ] {
        let script = format!(
            "status {status} json [x-request-id: req_1]; \
             bytes \"{{\\\"error\\\":{{\\\"message\\\":\\\"no such thing\\\"}}}}\"; eof"
        );
        let played = Case::new(&script).play().await;

        assert_eq!(
            (played.code(), played.requests().len()),
            (code, 1),
            "{status}"
        );
        let failure = played.report.failure.clone().unwrap();
        assert_eq!(
            (failure.status, failure.request_id.as_deref()),
            (Some(status), Some("req_1"))
        );
        assert!(
            played.message().contains("no such thing"),
            "{}",
            played.message()
        );
    }
}

#[tokio::test]
async fn the_status_stands_whatever_the_body_of_an_error_does() {
    for ending in ["hold", "cut", "rst", "repeat 0.05 { bytes \" \" } forever"] {
        let script = format!("status 400 json; bytes \"{{\"; {ending}");
        let played = Case::new(&script)
            .speed(1.0)
            .set("bounds.raw_silence", "300ms")
            .play()
            .await;

        assert_eq!(played.code(), "rejected", "{ending}");
        assert!(
            played.elapsed < Duration::from_millis(800),
            "{ending}: {:?}",
            played.elapsed
        );
    }
}

#[tokio::test]
async fn reasoning_that_was_not_handed_out_may_be_thrown_away_where_that_is_allowed() {
    let script = "attempt 1: status 200 sse; think \"hm\"; hold\nattempt 2: answer \"ok\"";
    let fast = [
        ("bounds.raw_silence", "200ms"),
        ("retry.transport.first_delay", "20ms"),
    ];
    let allowed = [fast[0], fast[1], ("retry.after_reasoning", "true")];
    let answer = async |sets: &[(&str, &str)], hands_out: bool| {
        let standin = Standin::script(script).unwrap().start().await.unwrap();
        let client = Client::new().unwrap();
        if !hands_out {
            return client
                .answer(ask(&standin, "m", sets))
                .await
                .map(|answered| answered.answer.text);
        }
        let mut stream = client.stream(ask(&standin, "m", sets));
        loop {
            match stream.next().await.unwrap() {
                Ok(CallEvent::Finished(answered)) => return Ok(answered.answer.text),
                Ok(_) => {}
                Err(failed) => return Err(failed),
            }
        }
    };

    assert_eq!(answer(&allowed, false).await.unwrap(), "ok");
    for (sets, hands_out) in [(&fast[..], false), (&allowed[..], true)] {
        let failed = answer(sets, hands_out).await.unwrap_err();
        assert_eq!(failed.failure.code.name(), "raw_silent");
        assert_eq!(failed.partial.unwrap().reasoning.as_deref(), Some("hm"));
    }
}

#[tokio::test]
async fn a_finish_waits_a_moment_for_late_usage_and_no_longer() {
    let late = "status 200 sse; text \"ok\"; finish \"stop\"; +0.3 \
                usage {\"prompt_tokens\":12,\"completion_tokens\":3}; hold";
    let played = Case::new(late).speed(1.0).play().await;
    assert_eq!((played.code(), &*played.report.text), ("completed", "ok"));
    assert_eq!(played.report.usage.unwrap().input_tokens, Some(12));

    let never = "status 200 sse; text \"ok\"; finish \"stop\"; repeat 0.05 { comment } forever";
    let played = Case::new(never)
        .speed(1.0)
        .set("grace.usage", "300ms")
        .play()
        .await;
    assert_eq!((played.code(), played.report.usage), ("completed", None));
    assert!(
        (300..600).contains(&played.elapsed.as_millis()),
        "{:?}",
        played.elapsed
    );
}

#[tokio::test]
async fn what_is_lost_after_a_finish_is_only_the_usage() {
    for ending in ["cut", "rst", "eof"] {
        let script = format!("status 200 sse; text \"ok\"; finish \"stop\"; {ending}");
        let played = Case::new(&script).play().await;

        assert_eq!(
            (played.code(), &*played.report.text),
            ("completed", "ok"),
            "{ending}"
        );
        assert_eq!(played.report.finish_reason.as_deref(), Some("stop"));
    }
}

#[tokio::test]
async fn every_attempt_sends_the_same_bytes_and_a_raw_body_passes_as_it_is() {
    let script = "attempt 1-2: status 500 json; error server_error; eof\nattempt 3: answer \"ok\"";
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url())
        .unwrap()
        .with_key("sk-secret");
    let body = r#"{ "model":"m", "stream":true , "seed": 1.0, "messages":[] }"#;
    let request = CallRequest::raw(upstream, RawRequest::parse(body).unwrap())
        .settings(settings(&[("retry.transport.first_delay", "10ms")]));

    let answered = Client::new().unwrap().answer(request).await.unwrap();

    assert_eq!(answered.attempts.len(), 3);
    for request in standin.requests() {
        assert_eq!(request.body, body.as_bytes());
        assert_eq!(request.path, "/v1/chat/completions");
        assert_eq!(request.header("authorization"), Some("Bearer sk-secret"));
        assert_eq!(
            request.header("content-length"),
            Some(&*body.len().to_string())
        );
    }
    assert!(!format!("{answered:?}").contains("sk-secret"));
}

#[tokio::test]
async fn a_request_past_its_cap_is_refused_before_anything_is_sent() {
    let standin = Standin::script("answer \"ok\"")
        .unwrap()
        .start()
        .await
        .unwrap();
    let request = ask(&standin, "m", &[("limits.request", "20 B")]);

    let failed = Client::new().unwrap().answer(request).await.unwrap_err();

    assert_eq!(failed.failure.code.name(), "too_large");
    assert_eq!(failed.outcome(), Outcome::Failed);
    assert!(standin.connections().is_empty());
}

#[tokio::test]
async fn an_answer_past_its_cap_is_too_large_and_what_came_is_kept() {
    let script = "status 200 sse; repeat 0.001 { text \"xxxxxxxxxx\" } forever";
    let played = Case::new(script)
        .speed(1.0)
        .set("limits.answer", "1 KiB")
        .play()
        .await;

    assert_eq!((played.code(), played.requests().len()), ("too_large", 1));
    assert!(
        (1_024..1_200).contains(&played.report.text.len()),
        "{}",
        played.report.text.len()
    );
    played.assert_left(0).await;
}

#[tokio::test]
async fn the_readers_pause_is_not_the_providers_silence() {
    let script = "status 200 sse; text \"a\"; +0.1 text \"b\"; finish \"stop\"; done; eof";
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let client = Client::new().unwrap();
    let mut stream = client.stream(ask(&standin, "m", &[("bounds.raw_silence", "400ms")]));

    let mut text = String::new();
    loop {
        match stream.next().await.unwrap().unwrap() {
            CallEvent::Text(piece) => {
                text.push_str(&piece);
                tokio::time::sleep(Duration::from_millis(900)).await;
            }
            CallEvent::Finished(_) => break,
            _ => {}
        }
    }

    assert_eq!(text, "ab");
}

#[tokio::test]
async fn a_dropped_call_closes_its_socket_at_once() {
    for script in [
        "hold",
        "status 200 sse; hold",
        "status 200 sse; text \"a\"; hold",
    ] {
        let standin = Standin::script(script).unwrap().start().await.unwrap();
        let client = Client::new().unwrap();
        let mut stream = client.stream(ask(&standin, "m", &[]));
        let waited = async {
            while let Some(item) = stream.next().await {
                item.unwrap();
            }
        };
        tokio::select! {
            () = waited => panic!("the call ended"),
            () = tokio::time::sleep(Duration::from_millis(150)) => {}
        }
        drop(stream);

        let left = standin
            .wait_for_peer_closed(0, Duration::from_millis(500))
            .await;
        assert!(left.is_some(), "{script}");
    }
}

#[tokio::test]
async fn a_page_of_html_is_not_an_answer_and_nothing_of_it_is_repeated() {
    let script = "status 200 [content-type: text/html]; bytes \"<html>secret page</html>\"; eof";
    let played = Case::new(script).play().await;

    assert_eq!((played.code(), played.requests().len()), ("unreadable", 1));
    assert!(
        !played
            .report
            .failure
            .unwrap()
            .sentence
            .contains("secret page")
    );
}

#[tokio::test]
async fn a_switch_to_another_protocol_is_no_answer() {
    let played = Case::new("status 101; eof").play().await;

    assert_eq!((played.code(), played.requests().len()), ("unreadable", 1));
    assert!(
        played.message().ends_with("a final status of 101"),
        "{}",
        played.message()
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let script = "status 302 [location: http://127.0.0.1:1/elsewhere?token=1]; eof";
    let played = Case::new(script).play().await;

    assert_eq!((played.code(), played.requests().len()), ("rejected", 1));
    assert!(
        played.message().contains("http://127.0.0.1:1/elsewhere"),
        "{}",
        played.message()
    );
    assert!(!played.message().contains("token"), "{}", played.message());
}

#[tokio::test]
async fn the_status_of_an_error_stands_whatever_its_body_is_packed_in() {
    for coding in ["gzip", "br", "zstd", "deflate", "zork", "aws-chunked"] {
        let script = format!(
            "attempt 1: status 429 json [content-encoding: {coding}] [retry-after-ms: 20]; \
             bytes \"xx\"; eof\nattempt 2: answer \"ok\""
        );
        let played = Case::new(&script).speed(1.0).play().await;

        assert_eq!(
            (played.code(), played.requests().len()),
            ("completed", 2),
            "{coding}"
        );
        assert_eq!(played.report.attempts[0].status, Some(429));
        assert_eq!(played.report.attempts[0].retry_after_ms, Some(20));
    }
}

#[tokio::test]
async fn a_key_that_the_provider_repeats_is_masked_everywhere() {
    let key = "sk-SECRET-12345";
    let echoes = [
        format!(
            "status 401 json [x-request-id: {key}]; bytes \"{{\\\"error\\\":{{\\\"message\\\":\\\"bad key {key}\\\"}}}}\"; eof"
        ),
        format!("status 401 text; bytes \"no such key: {key}\"; eof"),
        format!(
            "status 200 sse; bytes \"data: {{\\\"error\\\":{{\\\"message\\\":\\\"{key}\\\"}}}}\\n\\n\"; eof"
        ),
        format!("status 200 text; bytes \"what is {key}\"; eof"),
        format!("status 200 sse [content-encoding: {key}]; eof"),
    ];
    for script in echoes {
        let standin = Standin::script(&script).unwrap().start().await.unwrap();
        let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url())
            .unwrap()
            .with_key(key);
        let request = CallRequest::new(upstream, Request::prompt("m", "x"))
            .settings(settings(&[("retry.attempts", "1")]));

        let failed = Client::new().unwrap().answer(request).await.unwrap_err();

        let shown = format!(
            "{failed:?} {failed} {:?} {}",
            failed.failure.hint(),
            failed.failure.sentence()
        );
        assert!(!shown.contains(key), "{shown}");
        assert_eq!(
            standin.requests()[0].header("authorization"),
            Some(&*format!("Bearer {key}"))
        );
    }
}

#[tokio::test]
async fn a_whole_last_frame_counts_however_the_stream_stops() {
    for ending in ["eof", "cut", "rst", "hold"] {
        let script = format!(
            "status 200 sse; text \"a\"; finish \"stop\"; text \"b\"; \
             bytes \"data: {{\\\"choices\\\":[{{\\\"index\\\":0,\\\"delta\\\":{{\\\"content\\\":\\\"c\\\"}}}}]}}\\n\"; {ending}"
        );
        let played = Case::new(&script)
            .speed(1.0)
            .set("bounds.raw_silence", "300ms")
            .set("grace.usage", "2s")
            .play()
            .await;
        assert_eq!(played.report.text, "abc", "{ending}");
    }
    for ending in ["cut", "rst", "hold"] {
        let script = format!("status 200 sse; text \"a\"; bytes \"data: [DONE]\\n\"; {ending}");
        let played = Case::new(&script)
            .speed(1.0)
            .set("bounds.raw_silence", "300ms")
            .play()
            .await;
        assert_eq!(
            (played.code(), &*played.report.text),
            ("completed", "a"),
            "{ending}"
        );
    }
}

#[tokio::test]
async fn a_choice_that_begins_late_ends_the_wait_for_usage() {
    let chunk = |index: u32, text: &str, finish: &str| {
        format!(
            "bytes \"data: {{\\\"choices\\\":[{{\\\"index\\\":{index},\\\"delta\\\":{{\\\"content\\\":\\\"{text}\\\"}},\\\"finish_reason\\\":{finish}}}]}}\\n\\n\""
        )
    };
    let stop = "\\\"stop\\\"";
    let script = format!(
        "status 200 sse; {}; +0.2 {}; +0.4 {}; done; eof",
        chunk(0, "a", stop),
        chunk(1, "b", "null"),
        chunk(1, "c", stop)
    );
    let played = Case::new(&script)
        .speed(1.0)
        .set("grace.usage", "400ms")
        .play()
        .await;

    assert_eq!((played.code(), &*played.report.text), ("completed", "a"));
    assert!(
        played.elapsed >= Duration::from_millis(600),
        "{:?}",
        played.elapsed
    );
}

#[tokio::test]
async fn a_body_whose_framing_breaks_is_a_lost_connection() {
    let script = "raw \"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\nzz\\r\\n\"; cut";
    let played = Case::new(script).attempts(2).play().await;

    assert_eq!(
        (played.code(), played.requests().len()),
        ("connection_lost", 2)
    );
}

#[tokio::test]
async fn a_setting_of_one_call_stands_over_the_defaults_of_its_upstream() {
    let standin = Standin::script("status 200 sse; role; hold").unwrap();
    let standin = standin.start().await.unwrap();
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url()).unwrap();
    let request = CallRequest::new(upstream, Request::prompt("m", "hello"))
        .set("bounds.raw_silence", "80ms")
        .and_then(|request| request.set("retry.attempts", "1"))
        .unwrap();

    let failed = Client::new().unwrap().answer(request).await.unwrap_err();

    assert_eq!(failed.failure.code.name(), "raw_silent");
    assert_eq!(failed.failure.limit, Some(Duration::from_millis(80)));
    assert_eq!(failed.failure.origin, Some(Origin::Call));
}

#[test]
fn a_setting_that_does_not_exist_or_stands_beside_whole_ones_is_refused() {
    let request = || {
        let upstream = Upstream::new(Wire::OPENAI_CHAT, "http://127.0.0.1:1").unwrap();
        CallRequest::new(upstream, Request::prompt("m", "hello"))
    };

    let unknown = request().set("bounds.raw_silenc", "45s").unwrap_err();
    let beside = request().settings(settings(&[])).set("bounds.flat", "45s");

    assert!(unknown.to_string().contains("did you mean"), "{unknown}");
    let beside = beside.unwrap_err().to_string();
    assert!(
        beside.starts_with("bounds.flat: cannot be set: the call has whole settings already"),
        "{beside}"
    );
}

#[tokio::test]
async fn as_many_attempts_are_told_of_as_the_failures_tier_allows() {
    let standin = Standin::script("status 500 json; eof").unwrap();
    let standin = standin.start().await.unwrap();
    let sets = [("retry.transport.first_delay", "1ms")];
    let mut call = Client::new().unwrap().stream(ask(&standin, "m", &sets));
    let monitor = call.monitor();
    let mut told = Vec::new();

    let failed = loop {
        match call.next().await {
            Some(Ok(CallEvent::Retrying {
                failure,
                attempt,
                of,
                ..
            })) => {
                assert_eq!((failure.of, monitor.snapshot().of), (of, of));
                told.push((attempt, of));
            }
            Some(Err(failed)) => break failed,
            other => panic!("{other:?}"),
        }
    };

    assert_eq!(told, [(2, 3), (3, 3)]);
    assert_eq!((failed.failure.attempt, failed.failure.of), (3, 3));
    assert_eq!(failed.attempts.len(), 3);
}

#[tokio::test]
async fn a_call_turned_away_without_a_key_is_told_that_none_was_sent() {
    let standin = Standin::script("status 401 json; eof").unwrap();
    let standin = standin.start().await.unwrap();
    let client = Client::new().unwrap();
    let hint = async |upstream: Upstream| {
        let request = CallRequest::new(upstream, Request::prompt("m", "hello"));
        client.answer(request).await.unwrap_err().failure.hint()
    };
    let upstream = Upstream::new(Wire::OPENAI_CHAT, &standin.url()).unwrap();

    let without = hint(upstream.clone()).await.unwrap();
    let with = hint(upstream.with_key("sk-something"))
        .await
        .unwrap_or_default();

    assert_eq!(
        without,
        "no key was sent; the wire's usual variable is OPENAI_API_KEY"
    );
    assert!(!with.contains("no key"), "{with}");
}

/// Makes every attempt again at once, whatever the settings say, and counts how often it was asked.
#[derive(Default)]
struct Stubborn(AtomicU32);

impl Decide for Stubborn {
    fn decide(&self, failed: &FailedAttempt<'_>) -> Decision {
        self.0.fetch_add(1, Ordering::Relaxed);
        match failed.by_tiers() {
            Decision::GiveUp { .. } => Decision::Retry {
                after: Duration::ZERO,
                tier: Tier::Transport,
            },
            retry @ Decision::Retry { .. } => retry,
        }
    }
}

#[tokio::test]
async fn whoever_was_named_decides_about_attempts_until_the_first_content_and_not_after_it() {
    let script = "attempt 1-2: status 500 json; error server_error; eof\n\
                  attempt 3: status 200 sse; text \"half\"; cut";
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let stubborn = Arc::new(Stubborn::default());

    let request = ask(&standin, "m", &[("retry.attempts", "1")]);
    let failed = Client::new()
        .unwrap()
        .answer(request.decide_by(stubborn.clone()))
        .await
        .unwrap_err();

    assert_eq!(failed.failure.code.name(), "connection_lost");
    assert_eq!((failed.attempts.len(), standin.requests().len()), (3, 3));
    assert_eq!(stubborn.0.load(Ordering::Relaxed), 2);
}
