//! Pauses that calls share, and what those see who come into one.

use lifesign_standin::Standin;
use lifesign_wire::Wire;

use crate::harness::{Ask, Gate, Setup, ms, sleep, upstream};
use crate::play::assert_took;

async fn standin(script: &str) -> Standin {
    Standin::script(script).unwrap().start().await.unwrap()
}

async fn gate(standin: &Standin, sets: &[&str]) -> Gate {
    let mut setup = Setup::new(&upstream("up", Wire::OPENAI_CHAT, &standin.url(), ""));
    for set in sets {
        setup = setup.set(set);
    }
    setup.start().await
}

fn ask() -> Ask {
    Ask::stream(Wire::OPENAI_CHAT)
}

const LONG: &str = "attempt 1: status 429 json [retry-after: 30]; error rate_limit_error; eof\n\
                    attempt 2+: answer \"ok\"";
const SHORT: &str = "attempt 1: status 429 json [retry-after-ms: 400]; error rate_limit_error; eof\n\
                     attempt 2+: answer \"ok\"";

#[tokio::test]
async fn a_hold_that_outlasts_the_first_beat_is_a_real_status_with_its_end() {
    for early in [true, false] {
        let standin = standin(LONG).await;
        let early = format!("beats.open_early={early}");
        let gate = gate(&standin, &[&early]).await;
        let first = gate.ask(&ask()).await;
        assert_eq!(first.status, 429);
        assert_eq!(first.header("retry-after"), Some("30"));
        // It was not repeated by us, so that its caller may do so when the time has come.
        assert_eq!(first.header("x-should-retry"), None);

        let second = gate.ask(&ask()).await;

        assert_eq!(second.status, 429);
        let wait: u64 = second.header("retry-after").unwrap().parse().unwrap();
        assert!((25..=30).contains(&wait), "{wait}");
        assert_eq!(second.json()["lifesign"]["code"], "rate_limited");
        assert_eq!(standin.requests().len(), 1);
        let ended = gate.ended(2).await.remove(1);
        assert!(ended.attempts.is_empty());
    }
}

#[tokio::test]
async fn a_hold_of_an_overload_is_told_as_overload() {
    for (wire, status) in [(Wire::OPENAI_CHAT, 503), (Wire::ANTHROPIC, 529)] {
        let standin =
            standin("status 503 json [retry-after: 30]; error overloaded_error; eof").await;
        let gate = Gate::start(&upstream("up", wire, &standin.url(), "")).await;
        assert_eq!(gate.ask(&Ask::stream(wire)).await.status, 503);

        let second = gate.ask(&Ask::stream(wire)).await;

        assert_eq!(second.status, status);
        assert!(second.header("retry-after").is_some());
        assert_eq!(standin.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_short_hold_is_waited_out() {
    let standin = standin(SHORT).await;
    let gate = gate(&standin, &["retry.attempts=1"]).await;
    assert_eq!(gate.ask(&ask()).await.status, 429);

    let second = gate.ask(&ask()).await;

    assert_eq!((second.status, second.answer().as_str()), (200, "ok"));
    assert_took(second.head_at, 0.4);
    let ended = gate.ended(2).await.remove(1);
    assert!((300..600).contains(&ended.held_ms), "{}", ended.held_ms);
    assert_eq!(ended.attempts.len(), 1);
}

#[tokio::test]
async fn a_call_that_waits_out_a_hold_says_so_in_its_beats_once_it_is_open() {
    // The first call repeats after its own wait and is cut off again; the second meets the hold of
    // that while its response is open already.
    let standin = standin(
        "attempt 1: +0.3 status 500 json; error server_error; eof\n\
         attempt 2: status 429 json [retry-after-ms: 500]; error rate_limit_error; eof\n\
         attempt 3+: answer \"ok\"",
    )
    .await;
    let gate = gate(
        &standin,
        &[
            "beats.every=100ms",
            "retry.transport.first_delay=200ms",
            "retry.attempts=2",
        ],
    )
    .await;
    let first = gate.begin(&ask()).await;
    sleep(ms(320)).await;
    let other = Ask::stream(Wire::OPENAI_CHAT).header("x-lifesign-set", "retry.attempts=1");
    assert_eq!(gate.ask(&other).await.status, 429);

    let first = first.rest().await;

    assert_eq!((first.status, first.answer().as_str()), (200, "ok"));
    let states: Vec<_> = first
        .beats()
        .iter()
        .map(|beat| beat["state"].as_str().unwrap().to_owned())
        .collect();
    assert!(states.contains(&"retry_wait".to_owned()), "{states:?}");
    assert!(states.contains(&"holding".to_owned()), "{states:?}");
    assert_eq!(standin.requests().len(), 3);
}

#[tokio::test]
async fn a_hold_is_on_one_upstream_model_and_credential() {
    let standin = standin(LONG).await;
    let gate = gate(&standin, &[]).await;
    let mine = ask().header("authorization", "Bearer mine");
    assert_eq!(gate.ask(&mine).await.status, 429);
    assert_eq!(gate.ask(&mine).await.status, 429);
    assert_eq!(standin.requests().len(), 1);

    assert_eq!(gate.ask(&mine.clone().model("other")).await.status, 200);
    let theirs = ask().header("authorization", "Bearer theirs");
    assert_eq!(gate.ask(&theirs).await.status, 200);
    assert_eq!(gate.ask(&mine).await.status, 429);

    let holds = gate.admin("holds").await;
    assert_eq!(holds["holds"].as_array().unwrap().len(), 1);
    assert!(!holds.to_string().contains("mine"), "{holds}");
}

/// Two names for one model are one model.
#[tokio::test]
async fn a_hold_is_on_the_model_that_the_upstream_knows() {
    let standin = standin(LONG).await;
    let gate = Gate::start(&upstream(
        "up",
        Wire::OPENAI_CHAT,
        &standin.url(),
        "rename = { fast = \"m\" }",
    ))
    .await;
    assert_eq!(gate.ask(&ask()).await.status, 429);

    assert_eq!(gate.ask(&ask().model("fast")).await.status, 429);

    assert_eq!(standin.requests().len(), 1);
}

#[tokio::test]
async fn a_hold_is_seen_and_released_through_the_admin_interface() {
    let standin = standin(LONG).await;
    let gate = gate(&standin, &[]).await;
    assert_eq!(gate.ask(&ask()).await.status, 429);
    let holds = gate.admin("holds").await;
    let hold = &holds["holds"][0];
    assert_eq!(hold["upstream"], "up");
    assert_eq!(hold["model"], "m");
    assert_eq!(hold["why"], "rate_limited");
    let left = hold["remaining_ms"].as_u64().unwrap();
    assert!((25_000..=30_000).contains(&left), "{left}");
    // Other models are there still.
    assert_eq!(gate.ask(&Ask::get("/readyz")).await.status, 200);

    let id = hold["id"].as_str().unwrap();
    let release = Ask::post(&format!("/lifesign/holds/{id}/release"), "{}");
    assert_eq!(gate.ask(&release).await.status, 200);

    assert_eq!(gate.ask(&release).await.status, 404);
    assert_eq!(gate.ask(&ask()).await.answer(), "ok");
}

#[tokio::test]
async fn a_released_hold_lets_those_go_at_once_who_waited_it_out() {
    let standin = standin(
        "attempt 1: status 429 json [retry-after: 8]; error rate_limit_error; eof\n\
         attempt 2+: answer \"ok\"",
    )
    .await;
    let gate = gate(&standin, &["retry.attempts=1"]).await;
    assert_eq!(gate.ask(&ask()).await.status, 429);
    let waiting = gate.begin(&ask()).await;
    sleep(ms(100)).await;
    let calls = gate.admin("calls").await;
    assert_eq!(calls["calls"][0]["doing"], "holding");

    let holds = gate.admin("holds").await;
    let id = holds["holds"][0]["id"].as_str().unwrap().to_owned();
    gate.ask(&Ask::post(&format!("/lifesign/holds/{id}/release"), "{}"))
        .await;

    let got = waiting.rest().await;
    assert_eq!(got.answer(), "ok");
    assert!(got.head_at < ms(1_000), "{:?}", got.head_at);
}

#[tokio::test]
async fn a_call_moves_on_to_a_free_upstream_while_the_first_is_held() {
    let (a, b) = (standin(LONG).await, standin("answer \"from b\"").await);
    let gate = Gate::start(&format!(
        "[[route]]\nmodel = \"*\"\nupstreams = [\"a\", \"b\"]\n{}{}",
        upstream("a", Wire::OPENAI_CHAT, &a.url(), ""),
        upstream("b", Wire::OPENAI_CHAT, &b.url(), ""),
    ))
    .await;
    for _ in 0..2 {
        let got = gate.ask(&ask()).await;
        assert_eq!(got.answer(), "from b");
        assert!(got.head_at < ms(500));
    }
    assert_eq!((a.requests().len(), b.requests().len()), (1, 2));
    // One of two is free.
    assert_eq!(gate.ask(&Ask::get("/readyz")).await.status, 200);
}

#[tokio::test]
async fn where_all_are_held_the_earliest_end_is_told() {
    let (a, b) = (
        standin("status 429 json [retry-after: 60]; error rate_limit_error; eof").await,
        standin("status 429 json [retry-after: 30]; error rate_limit_error; eof").await,
    );
    let gate = Gate::start(&format!(
        "[[route]]\nmodel = \"*\"\nupstreams = [\"a\", \"b\"]\n{}{}",
        upstream("a", Wire::OPENAI_CHAT, &a.url(), ""),
        upstream("b", Wire::OPENAI_CHAT, &b.url(), ""),
    ))
    .await;
    assert_eq!(gate.ask(&ask()).await.status, 429);

    let got = gate.ask(&ask()).await;

    assert_eq!(got.status, 429);
    let wait: u64 = got.header("retry-after").unwrap().parse().unwrap();
    assert!((25..=30).contains(&wait), "{wait}");
}

/// Those who waited out a hold do not all knock at once.
#[tokio::test]
async fn behind_a_hold_calls_come_one_then_two_then_four_at_a_time() {
    let standin = standin(
        "attempt 1: status 429 json [retry-after-ms: 400]; error rate_limit_error; eof\n\
         attempt 2+: status 200 sse; +0.1 answer \"ok\"",
    )
    .await;
    let gate = gate(&standin, &["retry.attempts=1"]).await;
    assert_eq!(gate.ask(&ask()).await.status, 429);
    let mut talks = Vec::new();
    for _ in 0..7 {
        talks.push(gate.begin(&ask()).await);
    }
    for talk in talks {
        assert_eq!(talk.rest().await.answer(), "ok");
    }

    let requests = &standin.requests()[1..];
    assert_eq!(requests.len(), 7);
    let at_once = |index: usize| {
        let at = requests[index].at;
        let others = requests
            .iter()
            .filter(|other| other.at <= at && other.ended.is_none_or(|(_, ended)| ended > at));
        others.count()
    };
    assert_eq!(at_once(0), 1);
    let most: Vec<_> = (0..7).map(at_once).collect();
    assert!(most[1..3].iter().all(|count| *count <= 2), "{most:?}");
    assert!(most.iter().all(|count| *count <= 4), "{most:?}");
    assert!(most.contains(&2), "{most:?}");
}

/// The call that raised a hold is the one that finds out whether it is over.
#[tokio::test]
async fn a_call_repeats_under_its_own_hold_and_its_success_ends_it() {
    let standin = standin(SHORT).await;
    let gate = gate(&standin, &[]).await;
    let probe = gate.begin(&ask()).await;
    sleep(ms(100)).await;
    let other = gate.begin(&ask()).await;
    let (probe, other) = (probe.rest().await, other.rest().await);

    assert_eq!(probe.answer(), "ok");
    assert_eq!(other.answer(), "ok");
    let ended = gate.ended(2).await;
    let probe = ended.iter().find(|it| it.attempts.len() == 2).unwrap();
    assert!(probe.retry_wait_ms >= 390 && probe.held_ms == 0);
    let other = ended.iter().find(|it| it.attempts.len() == 1).unwrap();
    assert!(other.held_ms >= 200, "{}", other.held_ms);
    assert_eq!(gate.admin("holds").await["holds"], serde_json::json!([]));
}

/// A caller who could be told at once is not kept waiting past the time of its first beat.
#[tokio::test]
async fn a_stated_wait_is_slept_only_where_it_ends_before_the_first_beat() {
    for early in [true, false] {
        let early = format!("beats.open_early={early}");
        for (every, slept) in [("beats.every=200ms", false), ("beats.every=2s", true)] {
            let standin = standin(SHORT).await;
            let gate = gate(&standin, &[&early, every]).await;

            let got = gate.ask(&ask()).await;

            assert_eq!(got.status, if slept { 200 } else { 429 }, "{early} {every}");
            assert_eq!(standin.requests().len(), if slept { 2 } else { 1 });
            if !slept {
                assert_eq!(got.header("retry-after-ms"), Some("400"));
                assert_eq!(got.header("x-should-retry"), None);
            }
        }
    }
}

/// What a hold kept back may go on as soon as the one before shows that the door is open.
#[tokio::test]
async fn the_next_call_behind_a_hold_waits_for_content_and_not_for_the_end() {
    let standin = standin(
        "attempt 1: status 429 json [retry-after-ms: 300]; error rate_limit_error; eof\n\
         attempt 2+: status 200 sse; text \"a\"; hold",
    )
    .await;
    let gate = gate(&standin, &["retry.attempts=1"]).await;
    assert_eq!(gate.ask(&ask()).await.status, 429);
    let mut one = gate.begin(&ask()).await;
    let mut two = gate.begin(&ask()).await;

    one.until("\"a\"").await;
    two.until("\"a\"").await;

    assert_eq!(standin.requests().len(), 3);
}

#[tokio::test]
async fn a_call_does_not_wait_behind_a_hold_where_another_upstream_is_free() {
    let silent = "attempt 1: status 429 json [retry-after-ms: 200]; error rate_limit_error; eof\n\
                  attempt 2+: status 200 sse; hold";
    let (a, b) = (standin(silent).await, standin("answer \"from b\"").await);
    let gate = Gate::start(&format!(
        "[[route]]\nmodel = \"*\"\nupstreams = [\"a\", \"b\"]\n{}{}",
        upstream("a", Wire::OPENAI_CHAT, &a.url(), ""),
        upstream("b", Wire::OPENAI_CHAT, &b.url(), ""),
    ))
    .await;
    assert_eq!(gate.ask(&ask()).await.answer(), "from b");
    sleep(ms(300)).await;
    let _knocks = gate.begin(&ask()).await;
    while a.requests().len() < 2 {
        sleep(ms(10)).await;
    }

    let got = gate.ask(&ask()).await;

    assert_eq!(got.answer(), "from b");
    assert!(got.head_at < ms(500), "{:?}", got.head_at);
    assert_eq!(a.requests().len(), 2);
}

#[tokio::test]
async fn the_wall_clock_runs_behind_a_hold_that_has_ended() {
    let standin = standin(
        "attempt 1: status 429 json [retry-after-ms: 200]; error rate_limit_error; eof\n\
         attempt 2+: status 200 sse; hold",
    )
    .await;
    let gate = gate(&standin, &["retry.attempts=1"]).await;
    assert_eq!(gate.ask(&ask()).await.status, 429);
    sleep(ms(300)).await;
    let _knocks = gate.begin(&ask()).await;
    while standin.requests().len() < 2 {
        sleep(ms(10)).await;
    }

    let got = gate
        .ask(&ask().header("x-lifesign-wall-clock", "400ms"))
        .await;

    assert_eq!(got.status, 504);
    assert!(got.text().contains("wall_clock"), "{}", got.text());
    assert_eq!(standin.requests().len(), 2);
}
