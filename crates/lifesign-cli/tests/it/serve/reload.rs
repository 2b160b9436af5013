//! Settings that change while calls run.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::house::{
    CONTENT, Caller, FINISH, Gateway, STREAM, Upstream, chat, chat_of, eventually, failing,
    request, upstream,
};

#[tokio::test]
async fn a_file_that_cannot_be_used_changes_nothing_and_the_log_says_why() {
    let answering = Upstream::answering().await;
    let good = upstream("a", answering.address, "concurrency = 7");
    let gateway = Gateway::start(&good).await;
    let limits = async || {
        let listed = gateway.admin("GET", "/lifesign/upstreams").await.json();
        listed["upstreams"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["concurrency"].clone())
            .collect::<Vec<_>>()
    };

    for (bad, why) in [
        (
            good.replace("= 7", "= 3") + "[limits]\nrequets = \"1 KiB\"\n",
            "limits.requets",
        ),
        (
            good.replace("= 7", "= 3")
                + &upstream("b", answering.address, "api_key = { env = \"NOPE\" }"),
            "NOPE",
        ),
        (
            good.replace("= 7", "= 3")
                + &upstream("b", answering.address, "tls_extra_roots = \"/nowhere.pem\""),
            "/nowhere.pem",
        ),
        (
            good.replace("= 7", "= 3") + "[serve]\nadmin_key = { file = \"/nowhere\" }\n",
            "/nowhere",
        ),
        (good.replace("= 7", "= 0"), "concurrency"),
        ("[[upstream".to_owned(), "gateway.toml"),
    ] {
        gateway.rewrite(&bad);
        let told = gateway.reload().await;

        assert!(told.contains("configuration stays as it was"), "{told}");
        assert!(told.contains(why), "{why} in {told}");
        assert_eq!(limits().await, [json!(7)]);
    }
    fs::remove_file(gateway.directory.path().join("gateway.toml")).unwrap();
    assert!(gateway.reload().await.contains("stays as it was"));
    assert_eq!(gateway.response(&chat("", true)).await.status, 200);
    gateway.rewrite(&good.replace("= 7", "= 3"));
    assert!(gateway.reload().await.contains("configuration reloaded"));
    assert_eq!(limits().await, [json!(3)]);
}

/// Who may watch may have changed with the settings.
#[tokio::test]
async fn whoever_watches_is_asked_anew_who_they_are_once_the_settings_have_changed() {
    let answering = Upstream::answering().await;
    let open = upstream("a", answering.address, "");
    let gateway = Gateway::start(&open).await;
    let key = gateway.directory.path().join("admin.key");
    fs::write(&key, "sesame").unwrap();
    let watch = request("GET", "/lifesign/live/events", "", "");
    let mut watching = gateway.connect().await;
    watching.send(&watch).await;
    watching.until("id: 1\n").await;

    let closed = format!("[serve]\nadmin_key = {{ file = {key:?} }}\n{open}");
    gateway.rewrite(&closed);
    assert!(gateway.reload().await.contains("configuration reloaded"));

    // The chunk that ends a body.
    watching.until("\r\n0\r\n\r\n").await;
    gateway.response(&watch).await.refused(403);
}

#[tokio::test]
async fn a_file_that_changes_is_read_without_a_signal() {
    let (one, two) = (Upstream::answering().await, Upstream::answering().await);
    let gateway = Gateway::start(&upstream("a", one.address, "")).await;

    gateway.rewrite(&upstream("a", two.address, ""));
    eventually("it is read", || {
        gateway.log().contains("configuration reloaded")
    })
    .await;
    gateway.response(&chat("", true)).await;

    assert_eq!((one.asked(), two.asked()), (0, 1));
}

#[tokio::test]
async fn holds_and_breakers_survive_by_the_name_of_the_upstream() {
    let failing = Upstream::start(|mut link| async move {
        let request = link.request().await?;
        let told = if request.contains("\"limited\"") {
            failing(429, "retry-after: 60\r\nconnection: close\r\n", "slow down")
        } else {
            failing(500, "connection: close\r\n", "no")
        };
        link.send(&told).await
    })
    .await;
    let settings = format!(
        "[retry]\nattempts = 1\n[breaker]\nfailures = 2\n{}",
        upstream("a", failing.address, "")
    );
    let gateway = Gateway::start(&settings).await;
    for model in ["broken", "broken", "limited"] {
        gateway.response(&chat_of(model, "", true)).await;
    }
    let seen = async || {
        let mut holds = gateway.admin("GET", "/lifesign/holds").await.json()["holds"][0].clone();
        // Both are told anew each time.
        holds["remaining_ms"] = json!(null);
        holds["until"] = json!(null);
        let lanes = gateway.admin("GET", "/lifesign/upstreams").await.json();
        (holds, lanes["upstreams"][0]["breakers"].clone())
    };
    let before = seen().await;

    gateway.rewrite(&(settings + "concurrency = 9\n"));
    gateway.reload().await;

    assert_eq!(before.1["failures"], "open");
    assert_eq!(seen().await, before);
    assert_eq!(
        gateway.response(&chat_of("limited", "", true)).await.status,
        429
    );
    assert_eq!(failing.asked(), 3);
}

#[tokio::test]
async fn a_lowered_limit_drains_and_the_line_goes_on() {
    let finishing = Finishing::start().await;
    let settings = |concurrency| {
        upstream(
            "a",
            finishing.upstream.address,
            &format!("concurrency = {concurrency}"),
        )
    };
    let gateway = Gateway::start(&settings(3)).await;
    let before = gateway.at_rest().await;
    let mut callers = Vec::new();
    for nth in 1..=5 {
        callers.push(gateway.ask().await);
        finishing.upstream.is_asked(nth.min(3)).await;
        waits(&gateway, nth.saturating_sub(3)).await;
    }

    gateway.rewrite(&settings(1));
    gateway.reload().await;
    finishing.finish(1);
    gateway.ended(1).await;
    finishing.finish(1);
    gateway.ended(2).await;
    let while_lowered = finishing.upstream.asked();
    finishing.finish(3);
    for caller in &mut callers {
        assert_eq!(caller.response().await.body, format!("{CONTENT}{FINISH}"));
    }
    drop(callers);

    // Two of three ended, and the place of neither was given on.
    assert_eq!(while_lowered, 3);
    gateway.settles(&before).await;
    assert_eq!(gateway.ended(5).await, ["completed"; 5]);
}

#[tokio::test]
async fn a_raised_limit_lets_in_who_waits() {
    let speaking = Upstream::saying(&[CONTENT]).await;
    let settings = |concurrency| {
        upstream(
            "a",
            speaking.address,
            &format!("concurrency = {concurrency}"),
        )
    };
    let gateway = Gateway::start(&settings(1)).await;
    let mut first = gateway.ask().await;
    first.until(CONTENT).await;
    let mut second = gateway.ask().await;
    waits(&gateway, 1).await;

    gateway.rewrite(&settings(2));
    gateway.reload().await;

    second.until(CONTENT).await;
}

#[tokio::test]
async fn a_removed_upstream_finishes_its_calls_and_takes_no_others() {
    let finishing = Finishing::start().await;
    let answering = Upstream::answering().await;
    let gateway = Gateway::start(&upstream("old", finishing.upstream.address, "")).await;
    let mut caller = gateway.ask().await;
    caller.until(CONTENT).await;

    gateway.rewrite(&upstream("new", answering.address, ""));
    gateway.reload().await;
    let other = gateway.response(&chat("", true)).await;
    let names = async || {
        let listed = gateway.admin("GET", "/lifesign/upstreams").await.json();
        listed["upstreams"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].clone())
            .collect::<Vec<_>>()
    };
    let while_it_runs = names().await;
    finishing.finish(1);
    let finished = caller.response().await;
    gateway.ended(2).await;

    assert_eq!(other.header("x-lifesign-upstream"), Some("new"));
    assert_eq!(while_it_runs, ["new", "old"]);
    assert_eq!(finished.body, format!("{CONTENT}{FINISH}"));
    assert_eq!(names().await, ["new"]);
    assert_eq!(finishing.upstream.asked(), 1);
}

#[tokio::test]
async fn a_revoked_key_ends_its_calls_that_wait_and_no_others() {
    let speaking = Upstream::saying(&[CONTENT]).await;
    let base = upstream(
        "a",
        speaking.address,
        "concurrency = 1\napi_key = { env = \"UPSTREAM_KEY\" }",
    ) + "[serve]\nadmin_key = { env = \"UPSTREAM_KEY\" }\n";
    let key =
        |name: &str, sha256: &str| format!("[[key]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\n");
    let both = format!(
        "{base}{}{}",
        key("alice", ALICE_SHA256),
        key("bob", BOB_SHA256)
    );
    let gateway = Gateway::start_as(&both, |it| it.env("UPSTREAM_KEY", "sk-up")).await;
    let ask = async |key: &str| -> Caller {
        let mut caller = gateway.connect().await;
        caller
            .send(&chat(&format!("authorization: Bearer {key}\r\n"), true))
            .await;
        caller
    };
    let waiting = async |count: usize| loop {
        let mut caller = gateway.connect().await;
        let admin = "authorization: Bearer sk-up\r\n";
        caller
            .send(&request("GET", "/lifesign/upstreams", admin, ""))
            .await;
        if caller.response().await.json()["upstreams"][0]["waiting"] == json!(count) {
            return;
        }
    };
    let mut running = ask("sk-alice").await;
    running.until(CONTENT).await;
    let mut alice_waits = ask("sk-alice").await;
    waiting(1).await;
    let mut bob_waits = ask("sk-bob").await;
    waiting(2).await;

    // The same name with another key is another key.
    let rotated = format!(
        "{base}{}{}",
        key("alice", &"0".repeat(64)),
        key("bob", BOB_SHA256)
    );
    gateway.rewrite(&rotated);
    gateway.reload().await;
    let ended = alice_waits.response().await;
    let again = gateway
        .response(&chat("authorization: Bearer sk-alice\r\n", true))
        .await;
    drop(running);
    bob_waits.until(CONTENT).await;

    assert_eq!(
        ended.refused(401),
        "the key was taken away while the call waited"
    );
    assert_eq!(ended.json()["error"]["type"], "authentication_error");
    again.refused(401);
    assert_eq!(gateway.ended(2).await, ["cancelled", "rejected"]);
}

#[tokio::test]
async fn a_further_attempt_shows_the_key_that_is_in_force_then() {
    let failing = Upstream::start(|mut link| async move {
        link.request().await?;
        link.send(&failing(500, "connection: close\r\n", "no"))
            .await
    })
    .await;
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("key");
    fs::write(&file, "sk-old").unwrap();
    let settings = format!(
        "[retry.transport]\nfirst_delay = \"2s\"\n[retry]\nattempts = 2\n{}",
        upstream(
            "a",
            failing.address,
            &format!("api_key = {{ file = {file:?} }}")
        )
    );
    let gateway = Gateway::start(&settings).await;

    let mut caller = gateway.ask().await;
    failing.is_asked(1).await;
    fs::write(&file, "sk-new").unwrap();
    gateway.reload().await;
    assert_eq!(caller.response().await.status, 500);

    let asked = failing.heads();
    assert_eq!(asked.len(), 2);
    assert!(
        asked[0].contains("authorization: Bearer sk-old"),
        "{asked:?}"
    );
    assert!(
        asked[1].contains("authorization: Bearer sk-new"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_call_goes_by_the_settings_of_its_admission() {
    let slow = Upstream::start(|mut link| async move {
        link.request().await?;
        link.send(STREAM).await?;
        link.send(CONTENT).await?;
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        link.send(FINISH).await
    })
    .await;
    let settings = upstream("a", slow.address, "");
    let gateway = Gateway::start(&settings).await;
    let mut before = gateway.ask().await;
    before.until(CONTENT).await;

    gateway.rewrite(&format!("{settings}[bounds]\nraw_silence = \"200ms\"\n"));
    gateway.reload().await;
    let after = gateway.response(&chat("", true)).await;
    let before = before.response().await;

    assert_eq!(before.body, format!("{CONTENT}{FINISH}"));
    assert!(after.body.contains("data: {\"error\""), "{after:?}");
}

#[tokio::test]
async fn what_takes_a_restart_is_told() {
    let answering = Upstream::answering().await;
    let settings = upstream("a", answering.address, "");
    let gateway = Gateway::start(&settings).await;

    let changed =
        "[limits]\nconnections = 5\n[telemetry]\notlp_endpoint = \"http://127.0.0.1:9\"\n";
    gateway.rewrite(&(settings + changed));
    gateway.reload().await;

    let log = gateway.log();
    for setting in ["limits.connections", "telemetry.otlp_endpoint"] {
        let line = format!("{setting} has changed; that takes a restart");
        assert!(log.contains(&line), "{log}");
    }
}

/// An upstream whose answers end when they are told to.
struct Finishing {
    upstream: Upstream,
    finishes: std::sync::Arc<tokio::sync::Semaphore>,
}

impl Finishing {
    async fn start() -> Self {
        let finishes = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
        let of_plays = std::sync::Arc::clone(&finishes);
        let upstream = Upstream::start(move |mut link| {
            let finishes = std::sync::Arc::clone(&of_plays);
            async move {
                link.request().await?;
                link.send(STREAM).await?;
                link.send(CONTENT).await?;
                finishes.acquire().await.unwrap().forget();
                link.send(FINISH).await
            }
        })
        .await;
        Self { upstream, finishes }
    }

    fn finish(&self, count: usize) {
        self.finishes.add_permits(count);
    }
}

/// Waits until so many calls wait for the first upstream.
async fn waits(gateway: &Gateway, count: usize) {
    loop {
        let listed = gateway.admin("GET", "/lifesign/upstreams").await.json();
        if listed["upstreams"][0]["waiting"] == json!(count) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Of `sk-alice`.
const ALICE_SHA256: &str = "099295a3784e1bd368dc348843a7398c1931b6b8ec2504c73e91ed2040bdc46c";
/// Of `sk-bob`.
const BOB_SHA256: &str = "36c76b48bb2ee1d9d37140550e9d7ed7d395cf56f41050dc2a72e5291c0011f0";
