//! Two gateways in a row.

use lifesign_standin::Standin;
use lifesign_wire::Wire;

use crate::harness::{Ask, Gate, Setup, Talk, ms, upstream};

/// The outer one is asked, the inner one asks the provider.
struct Row {
    standin: Standin,
    inner: Gate,
    outer: Gate,
}

impl Row {
    async fn start(wire: Wire, script: &str, inner: &[&str], outer: &[&str]) -> Self {
        let standin = Standin::script(script).unwrap().start().await.unwrap();
        let gate = async |url: &str, sets: &[&str]| {
            let mut setup = Setup::new(&upstream("up", wire, url, ""));
            for set in sets {
                setup = setup.set(set);
            }
            setup.start().await
        };
        let inner = gate(&standin.url(), inner).await;
        let outer = gate(&inner.url(), outer).await;
        Self {
            standin,
            inner,
            outer,
        }
    }
}

#[tokio::test]
async fn an_answer_passes_two_gateways_byte_for_byte() {
    for wire in Wire::ALL {
        let script =
            "status 200 sse; +0.3 role; text \"a\"; +0.3 text \"b\"; finish \"stop\"; done; eof";
        let row = Row::start(wire, script, &["beats.every=50ms"], &["beats.every=70ms"]).await;

        let got = row.outer.ask(&Ask::stream(wire)).await;

        let direct = Standin::script(script).unwrap().start().await.unwrap();
        let direct = Talk::begin(direct.address(), &Ask::stream(wire)).await;
        assert_eq!(got.without_beats(), direct.rest().await.text());
        assert!(got.beats().len() >= 3);
        let attempt = row.outer.only_end().await.attempts.remove(0);
        assert!(attempt.heartbeats.proxy >= 3, "{attempt:?}");
    }
}

/// The inner gateway's beats prove its own life; what they say of the provider's can be bounded.
#[tokio::test]
async fn the_outer_bounds_the_silence_that_the_inner_reports() {
    for wire in Wire::ALL {
        let row = Row::start(
            wire,
            "status 200 sse; role; hold",
            &[
                "beats.every=50ms",
                "bounds.raw_silence=20s",
                "bounds.before_content=off",
            ],
            &[
                "bounds.upstream_quiet=400ms",
                "bounds.before_content=off",
                "retry.attempts=1",
            ],
        )
        .await;

        let got = row.outer.ask(&Ask::stream(wire)).await;

        assert_eq!(got.status, 504);
        let report = &got.json()["lifesign"];
        assert_eq!(report["bound"], "upstream_quiet", "{report}");
        assert_eq!(report["code"], "heartbeats_only", "{report}");
        assert!(
            (ms(380)..ms(900)).contains(&got.head_at),
            "{:?}",
            got.head_at
        );
        let closed = row.standin.wait_for_peer_closed(0, ms(500)).await;
        assert!(closed.is_some());
        assert_eq!(
            row.inner.only_end().await.failure.unwrap().code.name(),
            "cancelled"
        );
    }
}

/// Retries in layers multiply; here they do not.
#[tokio::test]
async fn what_the_inner_has_repeated_is_not_repeated_by_the_outer() {
    for wire in Wire::ALL {
        for (script, inner) in [
            (
                "status 500 json; error server_error \"boom\"; eof",
                "beats.every=9s",
            ),
            ("cut", "beats.every=9s"),
            // Opened by a beat, so that the failure is a frame in a 200.
            (
                "+0.2 status 500 json; error server_error \"boom\"; eof",
                "beats.every=50ms",
            ),
        ] {
            let row = Row::start(
                wire,
                script,
                &["retry.attempts=2", inner],
                &["retry.attempts=3"],
            )
            .await;

            let got = row.outer.ask(&Ask::stream(wire)).await;

            assert!(got.status >= 500, "{} {}", got.status, got.text());
            assert_eq!(row.standin.requests().len(), 2, "{script}");
            assert_eq!(row.inner.ended(1).await[0].attempts.len(), 2, "{script}");
            assert_eq!(row.outer.ended(1).await[0].attempts.len(), 1, "{script}");
            assert_eq!(got.header("x-should-retry"), Some("false"), "{script}");
        }
    }
}

#[tokio::test]
async fn an_error_frame_of_the_inner_passes_once() {
    for wire in Wire::ALL {
        let row = Row::start(wire, "status 200 sse; text \"a\"; cut", &[], &[]).await;

        let got = row.outer.ask(&Ask::stream(wire)).await;

        assert_eq!(got.answer(), "a");
        let frame = got.error_frame(wire);
        assert_eq!(frame["lifesign"]["code"], "connection_lost", "{frame}");
        let errors = got
            .data()
            .iter()
            .filter(|data| data.contains("\"lifesign\""))
            .count();
        assert_eq!(errors, 1, "{}", got.text());
        assert_eq!(
            got.data().iter().filter(|data| *data == "[DONE]").count(),
            usize::from(wire == Wire::OPENAI_CHAT)
        );
    }
}

#[tokio::test]
async fn a_caller_who_leaves_is_noticed_through_both() {
    let row = Row::start(
        Wire::OPENAI_CHAT,
        "status 200 sse; text \"a\"; hold",
        &[],
        &[],
    )
    .await;
    let mut talk = row.outer.begin(&Ask::stream(Wire::OPENAI_CHAT)).await;
    talk.until("\"a\"").await;

    drop(talk);

    assert!(row.standin.wait_for_peer_closed(0, ms(500)).await.is_some());
}
