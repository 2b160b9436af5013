//! What a reload keeps, and what it forgets.

use pretty_assertions::assert_eq;

use super::*;
use crate::queue::KeyName;
use crate::records::LoggedRecords;

/// Reads settings from a file, beside which lies a certificate `roots.pem`.
fn config(text: &str) -> GatewayConfig {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.toml");
    std::fs::write(&path, text).unwrap();
    GatewayConfig::load(Some(&path), [], &[], &[]).unwrap()
}

fn hub(text: &str) -> Hub {
    Hub::new(
        config(text),
        Arc::new(LoggedRecords),
        Beside::default(),
        1,
        |_| None,
    )
    .unwrap()
}

fn upstream(name: &str, url: &str, more: &str) -> String {
    format!("[[upstream]]\nname = {name:?}\nwire = \"openai-chat\"\nbase_url = {url:?}\n{more}\n")
}

fn key(name: &str, digit: char) -> String {
    let sha256 = digit.to_string().repeat(64);
    format!("[[key]]\nname = {name:?}\nsha256 = {sha256:?}\n")
}

#[tokio::test]
async fn a_reload_keeps_the_connections_and_what_is_known_of_an_upstream_that_stays_where_it_is() {
    let roots = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("roots.pem");
    std::fs::write(&path, roots.cert.pem()).unwrap();
    let before = upstream("a", "http://a.test", "");
    let roots = format!("tls_extra_roots = {path:?}");

    for (is_kept, after) in [
        (true, before.clone()),
        (true, upstream("b", "http://b.test", "") + &before),
        (true, upstream("a", "http://a.test", "concurrency = 9")),
        (false, upstream("b", "http://a.test", "")),
        (false, upstream("a", "http://b.test", "")),
        (false, upstream("a", "http://a.test", "http2 = true")),
        (false, upstream("a", "http://a.test", "pool_idle = 3")),
        (false, upstream("a", "http://a.test", &roots)),
    ] {
        let hub = hub(&before);
        let old = Arc::clone(&hub.plan().targets[0]);
        let connections = old.transport(0).unwrap();
        old.note_refused_stream("m");

        hub.reload(config(&after), |_| None).unwrap();

        let plan = hub.plan();
        let new = plan.targets.last().unwrap();
        let is_same = Arc::ptr_eq(&connections, &new.transport(0).unwrap());
        assert_eq!(
            (is_same, !new.assembles("m")),
            (is_kept, is_kept),
            "{after}"
        );
    }
}

#[tokio::test]
async fn a_reload_forgets_lanes_and_callers_once_nothing_uses_them() {
    let (a, b) = (
        upstream("a", "http://a.test", "api_key = { env = \"A\" }"),
        upstream("b", "http://b.test", "api_key = { env = \"A\" }"),
    );
    let reload = |hub: &Hub, text: &str| {
        hub.reload(config(text), |_| Some("sk".into())).unwrap();
    };
    let text = format!("{a}{b}{}{}", key("alice", 'a'), key("bob", 'b'));
    let config = config(&text);
    let hub = Hub::new(
        config,
        Arc::new(LoggedRecords),
        Beside::default(),
        1,
        |_| Some("sk".into()),
    )
    .unwrap();
    let known = || {
        let lanes = hub.lanes();
        let lanes: Vec<_> = lanes.iter().map(|lane| lane.name().to_owned()).collect();
        let callers: Vec<_> = lock(&hub.callers).keys().cloned().collect();
        (lanes, callers)
    };
    let both = (
        vec!["a".to_owned(), "b".to_owned()],
        vec!["alice".to_owned(), "bob".to_owned()],
    );
    let one = (vec!["a".to_owned()], vec!["alice".to_owned()]);
    let less = format!("{a}{}", key("alice", 'a'));

    // A call keeps the settings that it was admitted by.
    let of_call = hub.plan();
    let ticket = of_call.targets[1].lane.enter(&KeyName::new("bob"), false);
    reload(&hub, &less);
    assert_eq!(known(), both);
    drop(of_call);
    reload(&hub, &less);
    assert_eq!(known(), (both.0, one.1.clone()));
    drop(ticket);
    reload(&hub, &less);
    assert_eq!(known(), one);
    // What stays is the same as before.
    let lane = Arc::clone(&hub.plan().targets[0].lane);
    reload(&hub, &text);
    assert!(Arc::ptr_eq(&lane, &hub.plan().targets[0].lane));
}
