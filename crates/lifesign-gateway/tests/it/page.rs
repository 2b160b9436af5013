//! The page as a browser is sent it: who may see it, what guards it, and that it shows text as text.

use lifesign_standin::Standin;
use lifesign_wire::Wire;

use crate::harness::{Ask, Gate, Got, Setup, ms, sleep, upstream};

async fn standin(script: &str) -> Standin {
    Standin::script(script).unwrap().start().await.unwrap()
}

fn settings(standin: &Standin) -> String {
    upstream("up", Wire::OPENAI_CHAT, &standin.url(), "")
}

async fn page(gate: &Gate, path: &str) -> Got {
    let got = gate.ask(&Ask::get(path)).await;
    assert_eq!(got.status, 200, "{}", got.text());
    got
}

/// Looks until the page has `text`. What it shows may be a second old.
async fn shows(gate: &Gate, path: &str, text: &str) -> String {
    for _ in 0..100 {
        let shown = page(gate, path).await.text();
        if shown.contains(text) {
            return shown;
        }
        sleep(ms(50)).await;
    }
    panic!("{path} never shows {text}");
}

#[tokio::test]
async fn each_view_is_drawn_without_a_script_and_says_what_is_true() {
    let standin =
        standin("attempt 1: status 200 sse; hold\nattempt 2+: role; text \"a\"; hold").await;
    let gate = Setup::new(&settings(&standin))
        .set("bounds.raw_silence=500ms")
        .set("retry.attempts=1")
        .start()
        .await;
    gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;
    gate.ended(1).await;
    let running = gate
        .begin(&Ask::stream(Wire::OPENAI_CHAT).header("x-lifesign-set", "bounds.raw_silence=90s"))
        .await;

    let calls = shows(&gate, "/", "aria-label=\"raw\"").await;
    let timeline = shows(&gate, "/?view=timeline", "What the caller was told").await;
    let upstreams = page(&gate, "/?view=upstreams").await.text();
    let silence = page(&gate, "/?view=silence").await.text();

    assert!(
        calls.starts_with("<!doctype html><html lang=\"en\">"),
        "{calls}"
    );
    assert!(calls.contains("attempt 1 of 1"), "{calls}");
    assert!(calls.contains("cut by raw_silence at up"), "{calls}");
    assert!(timeline.contains("went quiet for 500 ms"), "{timeline}");
    assert!(
        timeline.contains("<code>bounds.raw_silence</code> = 500 ms (call)"),
        "{timeline}"
    );
    assert!(
        timeline.contains("set by the caller, or by --set"),
        "{timeline}"
    );
    assert!(
        upstreams.contains("1 of 1 attempts failed in the last hour, raw_silent"),
        "{upstreams}"
    );
    assert!(silence.contains("raw clock, before content"), "{silence}");
    drop(running);
}

#[tokio::test]
async fn no_prompt_answer_or_key_is_on_it() {
    let standin = standin(
        "attempt 1: role; text \"the-answer-itself\"; status 500; eof\n\
         attempt 2: status 400 json; error invalid_request_error \"your prompt was the-prompt-itself\"; eof\n\
         attempt 3+: role; think \"the-thought-itself\"; text \"the-answer-itself\"; hold",
    );
    let standin = standin.await;
    let gate = Setup::new(&settings(&standin))
        .set("retry.attempts=1")
        .start()
        .await;
    let ask = Ask::post(
        "/v1/chat/completions",
        "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"the-prompt-itself\"}]}",
    )
    .header("authorization", "Bearer the-key-itself");
    gate.ask(&ask).await;
    gate.ask(&ask).await;
    let mut running = gate.begin(&ask).await;
    running.until("the-answer-itself").await;
    gate.ended(2).await;
    shows(&gate, "/", "answering").await;

    let live = gate.ask(&Ask::get("/lifesign/live")).await.text();
    let snapshot: lifesign_gateway::live::Snapshot = serde_json::from_str(&live).unwrap();
    let ids = snapshot.recent.iter().map(|call| &call.id);
    let ids = ids.chain(snapshot.calls.iter().map(|call| &call.id));
    let mut told = vec![live.clone()];
    for id in ids {
        told.push(
            page(&gate, &format!("/?view=timeline&call={id}"))
                .await
                .text(),
        );
        told.push(page(&gate, &format!("/lifesign/calls/{id}")).await.text());
    }
    for view in ["/", "/?view=upstreams", "/?view=silence"] {
        told.push(page(&gate, view).await.text());
    }

    assert_eq!(told.len(), 10);
    for text in told {
        for secret in [
            "the-prompt-itself",
            "the-answer-itself",
            "the-thought-itself",
            "the-key-itself",
        ] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

#[tokio::test]
async fn what_a_caller_names_is_text_wherever_it_stands() {
    let standin = standin("status 200 sse; hold").await;
    let gate = Gate::start(&settings(&standin)).await;
    let evil = "\\\"><script>alert(1)</script><img src=x onerror='x'>";
    let _call = gate
        .begin(&Ask::stream(Wire::OPENAI_CHAT).model(evil))
        .await;

    for view in ["/", "/?view=timeline", "/lifesign/page/now"] {
        let shown = shows(&gate, view, "&lt;script&gt;alert(1)").await;
        assert!(!shown.contains("<script>alert"), "{shown}");
        assert!(!shown.contains("<img src=x"), "{shown}");
        assert!(shown.contains("&quot;&gt;&lt;script"), "{shown}");
    }
    let other = "/?view=timeline&call=%22%3E%3Cscript%3E\"><b>";
    let got = gate.ask(&Ask::get(other)).await;
    assert!(!got.text().contains("<b>"), "{}", got.text());
}

#[tokio::test]
async fn a_browser_is_told_to_take_nothing_from_elsewhere() {
    let standin = standin("answer \"ok\"").await;
    let gate = Gate::start(&settings(&standin)).await;

    let got = page(&gate, "/").await;

    let policy = got.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(got.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(
        got.header("cross-origin-resource-policy"),
        Some("same-origin")
    );
    assert_eq!(got.header("cache-control"), Some("no-store"));
    // Nothing is written into it that the policy would have to make an exception for.
    let text = got.text();
    for inline in [" style=", "<style", " onclick", "<script>"] {
        assert!(!text.contains(inline), "{inline}");
    }
    assert!(standin.requests().is_empty());
}

#[tokio::test]
async fn its_files_are_sent_once_and_then_known() {
    let standin = standin("answer \"ok\"").await;
    let gate = Gate::start(&settings(&standin)).await;
    let html = page(&gate, "/").await.text();
    let files: Vec<_> = html
        .split('"')
        .filter(|part| part.starts_with("/lifesign/page/"))
        .collect();
    assert!(files.len() >= 5, "{files:?}");

    for path in files {
        let first = page(&gate, path).await;
        let tag = first.header("etag").unwrap();
        assert_eq!(first.header("cache-control"), Some("no-cache"));

        let again = gate
            .ask(
                &Ask::get(path)
                    .header("if-none-match", tag)
                    .header("connection", "close"),
            )
            .await;

        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(again.header("etag"), Some(tag));
    }
    assert_eq!(
        gate.ask(&Ask::get("/lifesign/page/none.js")).await.status,
        404
    );
}

#[tokio::test]
async fn with_an_admin_key_it_shows_nothing_before_that_is_shown() {
    let standin = standin("status 200 sse; hold").await;
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("admin.key");
    std::fs::write(&key, "sesame").unwrap();
    let serve = format!("[serve]\nadmin_key = {{ file = \"{}\" }}\n", key.display());
    let gate = Gate::start(&format!("{serve}{}", settings(&standin))).await;
    let _call = gate
        .begin(&Ask::stream(Wire::OPENAI_CHAT).model("secret-model"))
        .await;
    let shown = Ask::get("/lifesign/page/now").header("authorization", "Bearer sesame");
    for _ in 0..100 {
        if gate.ask(&shown).await.text().contains("secret-model") {
            break;
        }
        sleep(ms(50)).await;
    }

    let page = page(&gate, "/").await.text();

    assert!(page.contains("This page needs the admin key"), "{page}");
    assert!(!page.contains("secret-model"), "{page}");
    assert!(gate.ask(&shown).await.text().contains("secret-model"));
    for path in [
        "/lifesign/live",
        "/lifesign/live/events",
        "/lifesign/page/now",
        "/lifesign/page/events",
        "/lifesign/calls/7",
    ] {
        assert_eq!(gate.ask(&Ask::get(path)).await.status, 403, "{path}");
        let wrong = Ask::get(path).header("authorization", "Bearer barley");
        assert_eq!(gate.ask(&wrong).await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn where_callers_have_keys_and_nobody_has_the_admins_it_says_what_is_missing() {
    let standin = standin("answer \"ok\"").await;
    let key = "[[key]]\nname = \"alice\"\nsha256 = \
               \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"\n";
    let gate = Gate::start(&format!("{}{key}", settings(&standin))).await;

    let page = page(&gate, "/").await.text();

    assert!(page.contains("set serve.admin_key in its file"), "{page}");
    // A caller's key is none of an admin's.
    let caller = Ask::get("/lifesign/page/now").header("authorization", "Bearer foo");
    assert_eq!(gate.ask(&caller).await.status, 403);
}

#[tokio::test]
async fn a_page_of_another_site_neither_sees_nor_does_anything() {
    let standin = standin("status 200 sse; hold").await;
    let gate = Gate::start(&settings(&standin)).await;
    let _call = gate.begin(&Ask::stream(Wire::OPENAI_CHAT)).await;
    let calls = loop {
        let calls = gate.admin("calls").await;
        if calls["calls"][0]["id"].is_string() {
            break calls;
        }
        sleep(ms(10)).await;
    };
    let cancel = format!(
        "/lifesign/calls/{}/cancel",
        calls["calls"][0]["id"].as_str().unwrap()
    );

    for (ask, status) in [
        (Ask::get("/").header("origin", "https://evil.test"), 403),
        (Ask::get("/lifesign/live").header("origin", "null"), 403),
        (
            Ask::post(&cancel, "{}").header("origin", "https://evil.test"),
            403,
        ),
        // Another port of this machine is another site, which the browser says.
        (
            Ask::post(&cancel, "{}")
                .header("origin", "http://127.0.0.1:9")
                .header("sec-fetch-site", "same-site"),
            403,
        ),
        (
            Ask::post(&cancel, "{}").header("sec-fetch-site", "cross-site"),
            403,
        ),
    ] {
        let got = gate.ask(&ask).await;
        assert_eq!(got.status, status, "{}", got.text());
    }
    assert_eq!(
        gate.admin("calls").await["calls"].as_array().unwrap().len(),
        1
    );
    let own = Ask::post(&cancel, "{}")
        .header("origin", "http://127.0.0.1")
        .header("sec-fetch-site", "same-origin");
    assert_eq!(gate.ask(&own).await.status, 200);
}

#[tokio::test]
async fn what_changes_comes_as_a_stream_for_the_view_that_is_asked_for() {
    let standin = standin("answer \"ok\"").await;
    let gate = Gate::start(&settings(&standin)).await;

    let mut upstreams = gate
        .begin(&Ask::get("/lifesign/page/events?view=upstreams"))
        .await;
    upstreams
        .until("<article class=\"card\" data-key=\"up\">")
        .await;
    upstreams
        .until("<dt>Last completed</dt><dd><span class=\"quiet\">nothing yet")
        .await;
    gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;
    upstreams
        .until("<dt>Last completed</dt><dd><time datetime=")
        .await;
    upstreams
        .until("1 attempt in the last hour, none failed")
        .await;

    let head = upstreams.head().await;
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert!(head.header("content-security-policy").is_some());
}
