//! Callers' keys, and the keys of upstreams, which nobody is told.

use std::fs;

use pretty_assertions::assert_eq;

use super::house::{CONTENT, Gateway, STREAM, Upstream, chat, chat_of, failing, request, upstream};
use crate::harness::Program;

#[tokio::test]
async fn without_a_known_key_nothing_is_asked() {
    let answering = Upstream::answering().await;
    let settings = upstream("a", answering.address, OWN) + &alice("");
    let gateway = Gateway::start_as(&settings, |it| it.env("UPSTREAM_KEY", SECRET)).await;

    let none = gateway.response(&chat("", true)).await;
    let wrong = gateway.response(&chat(&bearer("sk-other"), true)).await;
    let hash = gateway.response(&chat(&bearer(ALICE_SHA256), true)).await;
    let bearer_key = gateway.response(&chat(&bearer("sk-alice"), true)).await;
    let own_header = gateway
        .response(&chat("x-api-key: sk-alice\r\n", true))
        .await;
    let models = gateway
        .response(&request("GET", "/v1/models", "", ""))
        .await;

    for refused in [none, wrong, hash, models] {
        assert!(refused.refused(401).contains("key"), "{refused:?}");
        assert_eq!(refused.json()["error"]["type"], "authentication_error");
    }
    assert_eq!([bearer_key.status, own_header.status], [200, 200]);
    assert_eq!(answering.asked(), 2);
    for asked in answering.heads() {
        assert!(
            asked.contains(&format!("authorization: Bearer {SECRET}")),
            "{asked}"
        );
        assert!(!asked.contains("sk-alice"), "{asked}");
    }
    assert!(!gateway.log().contains("sk-alice"));
}

#[tokio::test]
async fn a_key_asks_for_its_models_alone() {
    let answering = Upstream::answering().await;
    let settings = upstream("a", answering.address, OWN) + &alice("models = [\"small*\"]");
    let gateway = Gateway::start_as(&settings, |it| it.env("UPSTREAM_KEY", SECRET)).await;
    let ask = |model: &str| chat_of(model, &bearer("sk-alice"), true);
    let json = format!("content-type: application/json\r\n{}", bearer("sk-alice"));
    let post = |path: &str, body: &str| request("POST", path, &json, body);

    let allowed = gateway.response(&ask("small-1")).await;
    let forbidden = gateway.response(&ask("large")).await;
    let chat = "/v1/chat/completions";
    let twice = post(chat, r#"{"model":"small","model":"large","messages":[]}"#);
    let twice = gateway.response(&twice).await;
    let unnamed = gateway.response(&post(chat, r#"{"messages":[]}"#)).await;
    let passed = gateway
        .response(&post("/v1/embeddings", r#"{"model":"large"}"#))
        .await;
    let batch = gateway
        .response(&post("/v1/batches", r#"{"input_file_id":"f"}"#))
        .await;

    assert_eq!(allowed.status, 200);
    assert!(
        forbidden.refused(403).contains("\"large\""),
        "{forbidden:?}"
    );
    assert_eq!(forbidden.json()["error"]["type"], "permission_error");
    twice.refused(400);
    unnamed.refused(403);
    passed.refused(403);
    batch.refused(403);
    assert_eq!(answering.asked(), 1);
}

#[tokio::test]
async fn a_key_has_so_many_calls_at_once_and_in_a_minute() {
    let speaking = Upstream::saying(&[CONTENT]).await;
    let settings =
        upstream("a", speaking.address, OWN) + &alice("concurrency = 2") + &bob("per_minute = 3");
    let gateway = Gateway::start_as(&settings, |it| it.env("UPSTREAM_KEY", SECRET)).await;

    let mut two = Vec::new();
    for _ in 0..2 {
        let mut caller = gateway.connect().await;
        caller.send(&chat(&bearer("sk-alice"), true)).await;
        caller.until(CONTENT).await;
        two.push(caller);
    }
    let third = gateway.response(&chat(&bearer("sk-alice"), true)).await;
    drop(two);
    gateway.ended(2).await;
    let mut again = gateway.connect().await;
    again.send(&chat(&bearer("sk-alice"), true)).await;
    again.until(CONTENT).await;
    let mut minute = Vec::new();
    for _ in 0..3 {
        let mut caller = gateway.connect().await;
        caller.send(&chat(&bearer("sk-bob"), true)).await;
        caller.until(CONTENT).await;
        minute.push(caller);
    }
    let fourth = gateway.response(&chat(&bearer("sk-bob"), true)).await;

    assert!(third.refused(429).contains("concurrency"), "{third:?}");
    assert_eq!(third.header("retry-after"), Some("1"));
    assert!(fourth.refused(429).contains("per_minute"), "{fourth:?}");
    assert_eq!(fourth.json()["error"]["type"], "rate_limit_error");
    let wait: u32 = fourth.header("retry-after").unwrap().parse().unwrap();
    assert!((15..=20).contains(&wait), "{wait}");
}

#[tokio::test]
async fn a_key_without_a_call_left_is_told_so_before_its_body_has_come() {
    let speaking = Upstream::saying(&[CONTENT]).await;
    let settings = upstream("a", speaking.address, OWN) + &alice("concurrency = 1");
    let gateway = Gateway::start_as(&settings, |it| it.env("UPSTREAM_KEY", SECRET)).await;
    let mut only = gateway.connect().await;
    only.send(&chat(&bearer("sk-alice"), true)).await;
    only.until(CONTENT).await;
    let asks = chat(&bearer("sk-alice"), true);

    let mut whole = gateway.connect().await;
    for _ in 0..2 {
        whole.send(&asks).await;
        let refused = whole.response().await;
        assert!(refused.refused(429).contains("concurrency"), "{refused:?}");
        assert_eq!(refused.header("connection"), None);
    }
    let head = asks.find("\r\n\r\n").unwrap() + 4;
    for len in [head, asks.len() - 1] {
        let mut half = gateway.connect().await;
        half.send(asks.split_at(len).0).await;
        let refused = half.response().await;
        assert!(refused.refused(429).contains("concurrency"), "{refused:?}");
        assert_eq!(refused.header("connection"), Some("close"));
    }
    let mut expecting = gateway.connect().await;
    let expects = asks.replacen("\r\n", "\r\nexpect: 100-continue\r\n", 1);
    expecting
        .send(expects.split_at(expects.len() - asks.len() + head).0)
        .await;
    let refused = expecting.response().await;
    assert!(refused.refused(429).contains("concurrency"), "{refused:?}");
    assert_eq!(refused.header("connection"), Some("close"));
    assert_eq!(speaking.asked(), 1);
}

#[tokio::test]
async fn a_call_sets_what_its_key_allows() {
    let answering = Upstream::answering().await;
    let settings = upstream("a", answering.address, OWN)
        + &alice("profiles = [\"patient\"]\nmay_set = [\"bounds.raw_silence\", \"beats.*\"]")
        + &bob("");
    let gateway = Gateway::start_as(&settings, |it| it.env("UPSTREAM_KEY", SECRET)).await;
    let ask = |key: &str, header: &str| chat(&format!("{}{header}\r\n", bearer(key)), true);

    for allowed in [
        "x-lifesign-profile: patient",
        "x-lifesign-set: bounds.raw_silence=45s, beats.every=2s",
        "x-lifesign-wall-clock: 30s",
    ] {
        let response = gateway.response(&ask("sk-alice", allowed)).await;
        assert_eq!(response.status, 200, "{allowed}: {response:?}");
    }
    for (key, refused) in [
        ("sk-alice", "x-lifesign-profile: harness"),
        ("sk-alice", "x-lifesign-set: bounds.flat=1s"),
        ("sk-alice", "x-lifesign-set: serve.drain=1s"),
        ("sk-alice", "x-lifesign-set: bounds.raw_silence=-1s"),
        ("sk-bob", "x-lifesign-profile: patient"),
        ("sk-bob", "x-lifesign-set: bounds.raw_silence=45s"),
        ("sk-bob", "x-lifesign-wall-clock: soon"),
    ] {
        let response = gateway.response(&ask(key, refused)).await;
        let told = response.refused(400);
        let (header, _) = refused.split_once(':').unwrap();
        assert!(told.contains(header), "{refused}: {told}");
    }
    assert_eq!(answering.asked(), 3);
    for asked in answering.heads() {
        assert!(!asked.contains("x-lifesign"), "{asked}");
    }
}

#[test]
fn beyond_this_machine_nothing_starts_without_keys() {
    let serve = |more: &[&str]| {
        Program::new(&["serve", "--listen", "0.0.0.0:0"])
            .args(&["--upstream", "openai-chat=http://127.0.0.1:9"])
            .args(more)
            .run()
    };

    let open = serve(&[]);
    open.assert_code(2).assert_said("there is no [[key]]");
    let both = serve(&["--listen", "127.0.0.1:0"]);
    both.assert_code(2).assert_said("there is no [[key]]");
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("gateway.toml");
    fs::write(&path, alice("")).unwrap();
    let config = ["--config", path.to_str().unwrap()];
    serve(&config)
        .assert_code(2)
        .assert_said("there is no serve.admin_key");
    let admin = ["--set", "serve.admin_key=env:PATH"];
    serve(&[config.as_slice(), &admin].concat())
        .assert_code(2)
        .assert_said("in the clear");
}

#[tokio::test]
async fn the_key_of_an_upstream_is_in_no_output() {
    let echoing = Upstream::start(|mut link| async move {
        let request = link.request().await?;
        let key = request.split("Bearer ").nth(1).unwrap_or_default();
        let key = key.lines().next().unwrap_or_default();
        if request.contains("\"refuse-") {
            let told = format!("Incorrect API key provided: {key}");
            link.send(&failing(401, "connection: close\r\n", &told)).await
        } else if request.contains("\"garbage-") {
            link.send(&format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nkey {key}")).await
        } else {
            link.send(STREAM).await?;
            link.send(&format!(
                "data: {{\"error\":{{\"message\":\"{key} is spent\",\"type\":\"server_error\"}}}}\n\n"
            ))
            .await
        }
    })
    .await;
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("key");
    fs::write(&file, format!("{FILE_SECRET}\n")).unwrap();
    let settings = format!(
        "[retry]\nattempts = 1\n{}{}",
        upstream(
            "env",
            echoing.address,
            &format!("{OWN}models = [\"*-env\"]")
        ),
        upstream(
            "file",
            echoing.address,
            &format!("models = [\"*-file\"]\napi_key = {{ file = {file:?} }}\n")
        )
    );
    let gateway = Gateway::start_as(&settings, |it| it.env("UPSTREAM_KEY", SECRET)).await;
    let mut told = String::new();

    for of in ["env", "file"] {
        for what in ["refuse", "garbage", "spent"] {
            for streamed in [true, false] {
                let asked = chat_of(&format!("{what}-{of}"), "", streamed);
                told += &gateway.response(&asked).await.body;
            }
        }
    }
    for path in ["calls", "holds", "upstreams"] {
        told += &gateway
            .admin("GET", &format!("/lifesign/{path}"))
            .await
            .body;
    }
    gateway.ended(12).await;
    told += &gateway.log();
    gateway.rewrite("[[upstream]]\nname = \"x\"\n");
    told += &gateway.reload().await;

    assert!(told.contains("spent"), "{told}");
    for secret in [SECRET, FILE_SECRET] {
        assert!(!told.contains(secret), "{told}");
    }
    assert_eq!(echoing.asked(), 12);
    assert!(echoing.heads().iter().any(|it| it.contains(SECRET)));
    assert!(echoing.heads().iter().any(|it| it.contains(FILE_SECRET)));
}

fn alice(more: &str) -> String {
    format!("[[key]]\nname = \"alice\"\nsha256 = \"{ALICE_SHA256}\"\n{more}\n")
}

fn bob(more: &str) -> String {
    format!("[[key]]\nname = \"bob\"\nsha256 = \"{BOB_SHA256}\"\n{more}\n")
}

fn bearer(key: &str) -> String {
    format!("authorization: Bearer {key}\r\n")
}

const OWN: &str = "api_key = { env = \"UPSTREAM_KEY\" }\n";
const SECRET: &str = "sk-upstream-5ecre7";
const FILE_SECRET: &str = "sk-from-a-file-5ecre7";
/// Of `sk-alice`.
const ALICE_SHA256: &str = "099295a3784e1bd368dc348843a7398c1931b6b8ec2504c73e91ed2040bdc46c";
/// Of `sk-bob`.
const BOB_SHA256: &str = "36c76b48bb2ee1d9d37140550e9d7ed7d395cf56f41050dc2a72e5291c0011f0";
