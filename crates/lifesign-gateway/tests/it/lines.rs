//! Lines before upstreams, keys, and what a call may set for itself.

use aws_lc_rs::digest::{SHA256, digest};
use lifesign_gateway::Record;
use lifesign_standin::Standin;
use lifesign_wire::Wire;

use crate::harness::{Ask, Gate, Setup, ms, sleep, upstream, wait_until};

async fn standin(script: &str) -> Standin {
    Standin::script(script).unwrap().start().await.unwrap()
}

fn key(name: &str, more: &str) -> String {
    let digest = digest(&SHA256, name.as_bytes());
    let hash = digest
        .as_ref()
        .iter()
        .fold(String::new(), |hash, byte| hash + &format!("{byte:02x}"));
    format!("[[key]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n{more}\n")
}

fn ask(wire: Wire, key: &str) -> Ask {
    Ask::stream(wire).header("authorization", &format!("Bearer {key}"))
}

const FIRST_HOLDS: &str = "attempt 1: status 200 sse; text \"x\"; hold\nattempt 2+: answer \"ok\"";

#[tokio::test]
async fn a_full_line_is_a_real_429_and_a_place_in_it_is_told() {
    for wire in Wire::ALL {
        let standin = standin(FIRST_HOLDS).await;
        let gate = Setup::new(&upstream(
            "up",
            wire,
            &standin.url(),
            "concurrency = 1\nqueue = 2",
        ))
        .set("beats.every=50ms")
        .start()
        .await;
        let mut first = gate.begin(&Ask::stream(wire)).await;
        first.until("x").await;
        let mut second = gate.begin(&Ask::stream(wire)).await;
        second.until("\"position\":1").await;
        let mut third = gate.begin(&Ask::stream(wire)).await;
        third.until("\"position\":2").await;

        let fourth = gate.ask(&Ask::stream(wire)).await;
        assert_eq!(fourth.status, 429);
        assert!(fourth.header("retry-after").is_some());
        let body = fourth.json();
        assert_eq!(body["lifesign"]["code"], "queue_full", "{body}");
        assert_eq!(body["error"]["type"], "rate_limit_error", "{body}");
        // A longer line would only let more wait.
        assert_eq!(
            body["lifesign"]["setting"], "upstream.concurrency",
            "{body}"
        );
        let origin = body["lifesign"]["origin"].as_str().unwrap();
        assert!(origin.contains("gateway.toml:"), "{body}");
        let message = body["lifesign"]["message"].as_str().unwrap();
        let line = "1 under way (upstream.concurrency = 1), 2 in line (upstream.queue = 2)";
        assert!(message.ends_with(line), "{body}");

        // Who leaves the line makes room at once, and the next moves up.
        drop(second);
        third.until("\"position\":1").await;
        drop(first);
        let third = third.rest().await;
        assert_eq!(third.answer(), "ok");
        let beats = third.beats();
        assert!(
            beats
                .iter()
                .all(|beat| beat["state"] == "queued" || beat["state"] == "attempt")
        );
        assert_eq!(beats[0]["upstream"], "up");
        let ended = gate.ended(4).await;
        let failed: Vec<_> = ended
            .iter()
            .filter_map(|ended| ended.failure.as_ref())
            .map(|failure| failure.code.name())
            .collect();
        assert_eq!(
            failed.iter().filter(|code| **code == "cancelled").count(),
            2
        );
        assert_eq!(standin.requests().len(), 2);
    }
}

#[tokio::test]
async fn no_line_at_all_means_no_waiting() {
    let standin = standin(FIRST_HOLDS).await;
    let gate = Gate::start(&upstream(
        "up",
        Wire::OPENAI_CHAT,
        &standin.url(),
        "concurrency = 1\nqueue = 0",
    ))
    .await;
    let mut first = gate.begin(&Ask::stream(Wire::OPENAI_CHAT)).await;
    first.until("\"x\"").await;

    assert_eq!(gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await.status, 429);
}

#[tokio::test]
async fn the_wall_clock_and_queue_wait_alone_run_in_line() {
    let standin = standin(FIRST_HOLDS).await;
    let gate = Gate::start(&upstream(
        "up",
        Wire::OPENAI_CHAT,
        &standin.url(),
        "concurrency = 1\nqueue_wait = \"700ms\"",
    ))
    .await;
    let mut first = gate.begin(&Ask::stream(Wire::OPENAI_CHAT)).await;
    first.until("\"x\"").await;

    let short = Ask::stream(Wire::OPENAI_CHAT).header("x-lifesign-wall-clock", "300ms");
    let got = gate.ask(&short).await;
    assert_eq!(got.status, 504);
    assert_eq!(got.json()["lifesign"]["code"], "wall_clock");
    assert!(
        (ms(290)..ms(600)).contains(&got.head_at),
        "{:?}",
        got.head_at
    );

    let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;
    assert_eq!(got.status, 429);
    assert_eq!(got.json()["lifesign"]["code"], "queue_full");
    assert_eq!(got.json()["lifesign"]["setting"], "upstream.queue_wait");
    assert!(
        (ms(690)..ms(1_100)).contains(&got.head_at),
        "{:?}",
        got.head_at
    );
}

#[tokio::test]
async fn the_line_is_shared_fairly_between_keys() {
    let standin = standin(
        "attempt 1: status 200 sse; text \"x\"; +0.4 finish \"stop\"; done; eof\nattempt 2+: answer \"ok\"",
    )
    .await;
    let gate = Gate::start(&format!(
        "{}{}{}",
        upstream(
            "up",
            Wire::OPENAI_CHAT,
            &standin.url(),
            "concurrency = 1\nqueue = 8"
        ),
        key("many", ""),
        key("few", ""),
    ))
    .await;
    let chat = Wire::OPENAI_CHAT;
    let mut first = gate.begin(&ask(chat, "many")).await;
    first.until("\"x\"").await;
    let mut many = Vec::new();
    for index in 0..4 {
        let ask = ask(chat, "many").field(&format!(r#""user":"many {index}""#));
        many.push(gate.begin(&ask).await);
        admitted(&gate, index + 2).await;
    }
    // Half of the line is theirs, and no more of it.
    assert_eq!(gate.ask(&ask(chat, "many")).await.status, 429);
    let few = gate.begin(&ask(chat, "few").field(r#""user":"few""#)).await;
    assert_eq!(few.rest().await.answer(), "ok");
    for talk in many {
        assert_eq!(talk.rest().await.answer(), "ok");
    }

    let users: Vec<_> = standin.requests()[1..]
        .iter()
        .map(|request| request.json()["user"].as_str().unwrap().to_owned())
        .collect();
    // One each in turn, and each in its own order.
    let at = users.iter().position(|user| user == "few").unwrap();
    assert!(at <= 1, "{users:?}");
    let of_many: Vec<_> = users.iter().filter(|user| *user != "few").collect();
    assert_eq!(of_many, ["many 0", "many 1", "many 2", "many 3"]);
}

/// Waits until so many calls were admitted; there is room in line for all of them.
async fn admitted(gate: &Gate, count: usize) {
    let is_start = |record: &Record| matches!(record, Record::Started(_));
    wait_until(|| gate.records().iter().filter(|it| is_start(it)).count() >= count).await;
    sleep(ms(20)).await;
}

/// A call that waits to repeat gives its slot away, and comes first when it comes back.
#[tokio::test]
async fn a_call_that_waits_to_repeat_keeps_no_slot() {
    let standin = standin(
        "attempt 1: status 500 json; error server_error; eof\nattempt 2+: status 200 sse; +0.1 answer \"ok\"",
    )
    .await;
    let gate = Setup::new(&upstream(
        "up",
        Wire::OPENAI_CHAT,
        &standin.url(),
        "concurrency = 1",
    ))
    .set("retry.transport.first_delay=150ms")
    .start()
    .await;
    let named = |name: &str| Ask::stream(Wire::OPENAI_CHAT).field(&format!(r#""user":"{name}""#));
    let first = gate.begin(&named("first")).await;
    wait_until(|| standin.requests().len() == 1).await;
    sleep(ms(30)).await;
    let mut others = Vec::new();
    for name in ["a", "b", "c", "d"] {
        others.push(gate.begin(&named(name)).await);
        sleep(ms(10)).await;
    }
    assert_eq!(first.rest().await.answer(), "ok");
    for other in others {
        assert_eq!(other.rest().await.answer(), "ok");
    }

    let users: Vec<_> = standin
        .requests()
        .iter()
        .map(|request| request.json()["user"].as_str().unwrap().to_owned())
        .collect();
    // Others went on while it waited, and it went before those who were there already.
    let again = users.iter().rposition(|user| user == "first").unwrap();
    assert!((2..=4).contains(&again), "{users:?}");
}

#[tokio::test]
async fn a_key_bounds_models_calls_and_what_a_call_may_set() {
    for wire in Wire::ALL {
        let standin = standin(FIRST_HOLDS).await;
        let gate = Gate::start(&format!(
            "{}{}{}",
            upstream("up", wire, &standin.url(), ""),
            key(
                "k",
                "models = [\"m*\"]\nconcurrency = 1\nprofiles = [\"patient\"]\nmay_set = [\"bounds.raw_silence\"]"
            ),
            key("r", "per_minute = 1"),
        ))
        .await;
        let status = async |ask: Ask| {
            let got = gate.ask(&ask).await;
            let body = got.json();
            assert!(body["error"]["message"].is_string(), "{body}");
            if wire == Wire::ANTHROPIC {
                assert_eq!(body["type"], "error", "{body}");
            }
            (got.status, got.header("retry-after").is_some())
        };
        assert_eq!(status(Ask::stream(wire)).await.0, 401);
        assert_eq!(status(ask(wire, "nobody")).await.0, 401);
        assert_eq!(status(ask(wire, "k").model("other")).await.0, 403);
        for (header, value) in [
            ("x-lifesign-profile", "harness"),
            ("x-lifesign-set", "bounds.headers=1s"),
            ("x-lifesign-set", "retry.attempts=9"),
            ("x-lifesign-set", "upstream.base_url=http://x"),
        ] {
            let got = status(ask(wire, "k").header(header, value)).await;
            assert_eq!(got.0, 400, "{header}: {value}");
        }
        let allowed = ask(wire, "k")
            .header("x-lifesign-profile", "patient")
            .header("x-lifesign-set", "bounds.raw_silence=9s")
            .header("x-lifesign-wall-clock", "9s");
        let mut first = gate.begin(&allowed).await;
        first.until("x").await;
        assert_eq!(status(ask(wire, "k")).await, (429, true));
        drop(first);
        gate.ended(1).await;
        assert_eq!(gate.ask(&ask(wire, "k")).await.answer(), "ok");

        assert_eq!(gate.ask(&ask(wire, "r")).await.status, 200);
        assert_eq!(status(ask(wire, "r")).await, (429, true));
        // Whoever shows a key the way of the other providers is known as well.
        let other = Ask::stream(wire).header("x-api-key", "k");
        assert_eq!(gate.ask(&other).await.status, 200);
        // Our callers' keys stay here.
        let seen = format!("{:?}", standin.requests());
        assert!(!seen.contains("Bearer k"), "{seen}");
        let ended = gate.ended(4).await;
        assert!(ended.iter().all(|ended| ended.started.key.is_some()));
    }
}

#[tokio::test]
async fn a_call_may_shorten_its_wall_clock_and_never_lengthen_it() {
    let standin = standin("status 200 sse; role; hold").await;
    let gate = Setup::new(&upstream("up", Wire::OPENAI_CHAT, &standin.url(), ""))
        .set("bounds.wall_clock=500ms")
        .start()
        .await;
    for (asked, took) in [("200ms", 200), ("10s", 500), ("off", 500), ("null", 500)] {
        let ask = Ask::stream(Wire::OPENAI_CHAT).header("x-lifesign-wall-clock", asked);
        let got = gate.ask(&ask).await;
        assert_eq!(got.status, 504, "{asked}");
        assert_eq!(got.json()["lifesign"]["code"], "wall_clock");
        assert!(
            (ms(took - 10)..ms(took + 250)).contains(&got.head_at),
            "{asked}: {:?}",
            got.head_at
        );
    }
    let all_off = Ask::stream(Wire::OPENAI_CHAT).header("x-lifesign-set", "bounds=off");
    let got = gate.ask(&all_off).await;
    assert_eq!(got.json()["lifesign"]["code"], "wall_clock");
}

#[tokio::test]
async fn what_a_call_sets_is_in_force_for_it_alone() {
    let standin = standin("status 200 sse; role; hold").await;
    let gate = Setup::new(&upstream("up", Wire::OPENAI_CHAT, &standin.url(), ""))
        .set("bounds.raw_silence=600ms")
        .set("retry.attempts=1")
        .start()
        .await;
    let ask = Ask::stream(Wire::OPENAI_CHAT);
    let mine = ask.clone().header(
        "x-lifesign-set",
        "bounds.raw_silence=200ms, retry.attempts=2",
    );
    let (mine, other) = tokio::join!(gate.ask(&mine), gate.ask(&ask));

    let (mine, other) = (mine.json(), other.json());
    assert_eq!(mine["lifesign"]["limit_ms"], 200, "{mine}");
    assert_eq!(mine["lifesign"]["of"], 2);
    assert_eq!(mine["lifesign"]["origin"], "call");
    assert_eq!(other["lifesign"]["limit_ms"], 600, "{other}");
}
