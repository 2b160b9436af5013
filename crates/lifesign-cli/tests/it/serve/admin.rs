//! What an operator sees, and may end.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::house::{CONTENT, Gateway, Upstream, chat, eventually, failing, request, upstream};

#[tokio::test]
async fn calls_under_way_are_listed_and_can_be_ended() {
    let speaking = Upstream::saying(&[CONTENT]).await;
    let gateway = Gateway::start(&upstream("a", speaking.address, "")).await;
    let mut caller = gateway.ask().await;
    caller.until(CONTENT).await;

    let listed = gateway.admin("GET", "/lifesign/calls").await.json();
    let call = &listed["calls"][0];
    let id = call["id"].as_str().unwrap();
    let told = gateway
        .admin("POST", &format!("/lifesign/calls/{id}/cancel"))
        .await;
    let streamed = caller.response().await;
    let again = gateway
        .admin("POST", &format!("/lifesign/calls/{id}/cancel"))
        .await;

    assert_eq!(listed["calls"].as_array().unwrap().len(), 1);
    for (field, value) in [
        ("route", json!("/v1/chat/completions")),
        ("model", json!("m")),
        ("upstream", json!("a")),
        ("key", Value::Null),
        ("doing", json!("attempting")),
        ("phase", json!("after_content")),
        ("attempt", json!(1)),
    ] {
        assert_eq!(call[field], value, "{field} of {call}");
    }
    assert_eq!(streamed.header("x-lifesign-call"), Some(id));
    assert!(call["clocks_ms"]["raw"].is_u64(), "{call}");
    assert!(call["next_bound"]["bound"].is_string(), "{call}");
    assert_eq!((told.status, told.json()), (200, json!({"done": true})));
    assert!(streamed.body.contains("data: {\"error\""), "{streamed:?}");
    again.refused(404);
    assert_eq!(gateway.ended(1).await, ["cancelled"]);
    eventually("the upstream is left", || speaking.open() == 0).await;
}

#[tokio::test]
async fn a_hold_is_listed_and_can_be_released_and_readyz_knows_one_on_the_whole_upstream() {
    let limited = Upstream::start(|mut link| async move {
        link.request().await?;
        let wait = "retry-after: 60\r\nconnection: close\r\n";
        link.send(&failing(429, wait, "slow down")).await
    })
    .await;
    let gateway = Gateway::start(&upstream("a", limited.address, "")).await;

    let first = gateway.response(&chat("", true)).await;
    let second = gateway.response(&chat("", true)).await;
    let on_one_model = gateway.admin("GET", "/readyz").await;
    let live = gateway.admin("GET", "/livez").await;
    let listed = gateway.admin("GET", "/lifesign/holds").await.json();
    let hold = &listed["holds"][0];
    let release = format!("/lifesign/holds/{}/release", hold["id"].as_str().unwrap());
    let released = gateway.admin("POST", &release).await;
    let asked = limited.asked();
    gateway.response(&chat("", true)).await;
    let models = request("GET", "/v1/models", "", "");
    let models = gateway.response(&models).await;
    let on_all = gateway.admin("GET", "/readyz").await;

    assert_eq!(
        (first.status, first.header("retry-after")),
        (429, Some("60"))
    );
    assert_eq!(second.status, 429);
    let wait: u32 = second.header("retry-after").unwrap().parse().unwrap();
    assert!((50..=60).contains(&wait), "{wait}");
    assert_eq!(asked, 1);
    assert_eq!(
        (on_one_model.status, &on_one_model.json()["status"]),
        (200, &json!("ready"))
    );
    assert_eq!(live.status, 200);
    assert_eq!(
        (&hold["upstream"], &hold["model"]),
        (&json!("a"), &json!("m"))
    );
    assert_eq!(
        (&hold["why"], &hold["credential"]),
        (&json!("rate_limited"), &Value::Null)
    );
    assert!(hold["remaining_ms"].as_u64().unwrap() > 50_000, "{hold}");
    assert_eq!(released.status, 200);
    assert_eq!(limited.asked(), 3);
    assert_eq!(models.status, 429);
    assert_eq!(
        (on_all.status, &on_all.json()["status"]),
        (503, &json!("held"))
    );
}

#[tokio::test]
async fn a_hold_on_one_callers_own_key_says_nothing_about_the_others() {
    let limited = Upstream::start(|mut link| async move {
        link.request().await?;
        let wait = "retry-after: 60\r\nconnection: close\r\n";
        link.send(&failing(429, wait, "slow down")).await
    })
    .await;
    let gateway = Gateway::start(&upstream("a", limited.address, "")).await;
    let ask = async |key: &str| {
        let key = format!("authorization: Bearer {key}\r\n");
        gateway.response(&chat(&key, true)).await
    };

    ask("sk-one").await;
    ask("sk-one").await;
    let asked = limited.asked();
    let ready = gateway.admin("GET", "/readyz").await;
    let listed = gateway.admin("GET", "/lifesign/holds").await;
    ask("sk-two").await;

    assert_eq!((asked, limited.asked()), (1, 2));
    assert_eq!((ready.status, &ready.json()["holds"]), (200, &json!(1)));
    assert!(listed.json()["holds"][0]["credential"].is_string());
    assert!(!listed.body.contains("sk-one"), "{listed:?}");
}

#[tokio::test]
async fn upstreams_are_listed_with_their_load_and_breakers() {
    let broken = Upstream::start(|mut link| async move {
        link.request().await?;
        link.send(&failing(500, "connection: close\r\n", "no"))
            .await
    })
    .await;
    let settings = format!(
        "[retry]\nattempts = 1\n[breaker]\nfailures = 2\n{}",
        upstream("a", broken.address, "concurrency = 3\nqueue = 5")
    );
    let gateway = Gateway::start(&settings).await;
    let upstreams = async || gateway.admin("GET", "/lifesign/upstreams").await.json();
    let told = |failures: &str| {
        json!({"upstreams": [{
            "name": "a", "in_flight": 0, "concurrency": 3, "waiting": 0, "queue": 5,
            "breakers": {"failures": failures, "slowness": "closed"},
        }]})
    };

    assert_eq!(upstreams().await, told("closed"));
    for _ in 0..2 {
        gateway.response(&chat("", true)).await;
    }

    assert_eq!(upstreams().await, told("open"));
}

#[tokio::test]
async fn an_operator_shows_the_admin_key_and_no_other() {
    let answering = Upstream::answering().await;
    let settings = upstream(
        "a",
        answering.address,
        "api_key = { env = \"UPSTREAM_KEY\" }",
    ) + "[serve]\nadmin_key = { env = \"ADMIN_KEY\" }\n[[key]]\nname = \"alice\"\nsha256 = \"099295a3784e1bd368dc348843a7398c1931b6b8ec2504c73e91ed2040bdc46c\"\n";
    let gateway = Gateway::start_as(&settings, |program| {
        program
            .env("UPSTREAM_KEY", "sk-up")
            .env("ADMIN_KEY", "admin-5ecre7")
    })
    .await;
    let ask = |key: &str| {
        let headers = format!("authorization: Bearer {key}\r\n");
        request("GET", "/lifesign/calls", &headers, "")
    };

    for key in ["sk-alice", "sk-up", "x"] {
        gateway.response(&ask(key)).await.refused(403);
    }
    gateway
        .admin("GET", "/lifesign/upstreams")
        .await
        .refused(403);
    gateway.admin("GET", "/metrics").await.refused(403);
    assert_eq!(gateway.response(&ask("admin-5ecre7")).await.status, 200);
    let shown = "authorization: Bearer admin-5ecre7\r\n";
    let metrics = request("GET", "/metrics", shown, "");
    let metrics = gateway.response(&metrics).await;
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.contains("lifesign_build_info"), "{metrics:?}");
    assert_eq!(gateway.admin("GET", "/livez").await.status, 200);
    assert!(!gateway.log().contains("5ecre7"));
}

#[tokio::test]
async fn where_callers_have_keys_there_is_no_operator_without_one() {
    let answering = Upstream::answering().await;
    let settings = upstream(
        "a",
        answering.address,
        "api_key = { env = \"UPSTREAM_KEY\" }",
    ) + "[[key]]\nname = \"alice\"\nsha256 = \"099295a3784e1bd368dc348843a7398c1931b6b8ec2504c73e91ed2040bdc46c\"\n";
    let gateway = Gateway::start_as(&settings, |it| it.env("UPSTREAM_KEY", "sk-up")).await;

    // Whoever a proxy on this machine lets through would be one.
    let told = gateway.admin("GET", "/lifesign/calls").await.refused(403);

    assert!(told.contains("serve.admin_key"), "{told}");
    gateway.admin("GET", "/metrics").await.refused(403);
}

#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    let answering = Upstream::answering().await;
    let gateway = Gateway::start(&upstream("a", answering.address, "")).await;

    for (method, path) in [
        ("GET", "/lifesign"),
        ("GET", "/lifesign/nothing"),
        ("DELETE", "/lifesign/calls"),
        ("POST", "/lifesign/calls/1/cancel"),
        ("POST", "/lifesign/holds/1/release"),
    ] {
        gateway.admin(method, path).await.refused(404);
    }
    assert_eq!(answering.accepted(), 0);
}
