//! The log: one line for each event, which nobody waits for.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::sleep;

use super::house::{
    Caller, Gateway, STREAM, Upstream, chat, chat_of, eventually, failing, request, upstream,
};
use crate::harness::signal;

#[tokio::test]
async fn a_line_of_the_log_is_one_line_whatever_is_in_it() {
    let mean = Upstream::start(|mut link| async move {
        link.request().await?;
        let told = r"one\ntwo\u001b[31m {\u0022level\u0022:\u0022ERROR\u0022}";
        link.send(&failing(400, "connection: close\r\n", told))
            .await
    })
    .await;
    let settings = upstream("a", mean.address, "");
    let gateway = Gateway::start_as(&settings, |it| it.set("telemetry.log=human")).await;

    let model = r"m\nINFO forged\u001b[0m";
    assert_eq!(
        gateway.response(&chat_of(model, "", true)).await.status,
        400
    );

    eventually("it is told", || gateway.log().contains("rejected")).await;
    let log = gateway.log();
    assert!(!log.contains('\u{1b}'), "{log:?}");
    for line in log.lines() {
        let is_ours = line.starts_with("listening on ") || line.starts_with("20");
        assert!(is_ours, "{line:?} in {log}");
    }
}

/// An upstream that says back whatever it was told, in each way that there is.
async fn echoing() -> Upstream {
    Upstream::start(|mut link| async move {
        let request = link.request().await?;
        let told = format!("{KEY} asked for {PROMPT}");
        let in_stream = |error: &str| {
            let error = format!("data: {{\"error\":{{\"message\":\"{error}\"}}}}\n\n");
            format!("{STREAM}{error}")
        };
        let of = |what: &str| request.contains(&format!("\"model\":\"{what}\""));
        let answer = if of("refused") {
            failing(400, "connection: close\r\n", &told)
        } else if of("unknown") {
            failing(401, "connection: close\r\n", &told)
        } else if of("broken") {
            failing(500, "connection: close\r\n", &told)
        } else if of("limited") {
            let limit = format!("limit 30000 of {KEY}");
            failing(429, "connection: close\r\n", &limit)
        } else if of("garbage") {
            format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{told}")
        } else if of("error-event") {
            in_stream(&told)
        } else {
            let content =
                format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{PROMPT}\"}}}}]}}\n\n");
            link.send(&format!("{STREAM}{content}")).await?;
            return link.left().await;
        };
        link.send(&answer).await
    })
    .await
}

#[tokio::test]
async fn no_key_prompt_or_answer_is_in_the_log_whatever_a_provider_repeats() {
    let echoing = echoing().await;
    for form in ["json", "human"] {
        let more =
            "[retry]\nattempts = 2\n[bounds]\nraw_silence = \"300ms\"\nnotice_after = \"100ms\"\n"
                .to_owned();
        let settings = more + &upstream("a", echoing.address, "");
        let set = format!("telemetry.log={form}");
        let gateway = Gateway::start_as(&settings, |it| it.set(&set)).await;
        let models = [
            "refused",
            "unknown",
            "broken",
            "limited",
            "garbage",
            "error-event",
            "cut",
        ];

        for model in models {
            let body = format!(
                r#"{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"{PROMPT}"}}]}}"#
            );
            let headers =
                format!("content-type: application/json\r\nauthorization: Bearer {KEY}\r\n");
            let asked = request("POST", "/v1/chat/completions", &headers, &body);
            gateway.response(&asked).await;
        }

        let is_told = |word: &str| gateway.log().contains(word);
        eventually("the last call ends", || {
            is_told("raw_silent") && is_told("limit 30000")
        })
        .await;
        let log = gateway.log();
        assert!(!log.contains("5ecre7"), "{log}");
        for line in [
            "attempt cut",
            "attempt failed",
            "content is quiet",
            "call waits to retry",
        ] {
            assert!(log.contains(line), "{line} in {log}");
        }
        let mut of_calls = 0;
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for line in lines.filter(|line| line.get("upstream").is_some()) {
            assert!(line["call"].is_string(), "{line}");
            of_calls += 1;
        }
        assert!(form == "human" || of_calls > 2 * models.len(), "{log}");
    }
}

#[tokio::test]
async fn a_cut_is_told_with_its_bound_where_that_comes_from_and_how_old_each_clock_was() {
    let silent = Upstream::silent().await;
    let settings = "[retry]\nattempts = 1\n[bounds]\nraw_silence = \"200ms\"\n".to_owned();
    let settings = settings + &upstream("a", silent.address, "");
    let gateway = Gateway::start(&settings).await;

    let response = gateway.response(&chat("", true)).await;
    eventually("it is told", || gateway.log().contains("attempt cut")).await;

    let log = gateway.log();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let told: Vec<_> = lines
        .filter(|line| line["message"] == "attempt cut")
        .collect();
    let [told] = &told[..] else {
        panic!("{told:#?}");
    };
    assert_eq!(told["level"], "WARN");
    assert_eq!(told["call"], *response.header("x-lifesign-call").unwrap());
    assert_eq!(told["upstream"], "a");
    assert_eq!(told["bound"], "raw_silence");
    assert_eq!(told["limit_ms"], 200);
    assert_eq!(told["setting"], "bounds.raw_silence");
    assert!(
        told["origin"].as_str().unwrap().ends_with("gateway.toml:4"),
        "{told}"
    );
    assert!(told["raw_ms"].as_u64().unwrap() >= 200, "{told}");
}

#[tokio::test]
async fn a_call_that_fails_is_a_warning_and_one_that_is_refused_none() {
    let failing = Upstream::start(|mut link| async move {
        let status = match link.request().await? {
            request if request.contains("\"model\":\"refused\"") => 400,
            _ => 500,
        };
        link.send(&failing(status, "connection: close\r\n", "no"))
            .await
    })
    .await;
    let settings = "[retry]\nattempts = 1\n".to_owned() + &upstream("a", failing.address, "");
    let gateway = Gateway::start(&settings).await;

    for model in ["refused", "failing"] {
        gateway.response(&chat_of(model, "", true)).await;
    }
    let ends = || -> Vec<_> {
        let log = gateway.log();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines
            .filter(|line| line["message"] == "not completed")
            .collect()
    };
    eventually("both are told", || ends().len() == 2).await;

    let ends = ends();
    let told = |name: &str| [&ends[0], &ends[1]].map(|line| line[name].as_str());
    assert_eq!(told("level"), [Some("INFO"), Some("WARN")]);
    assert_eq!(told("model"), [Some("refused"), Some("failing")]);
    assert_eq!(told("outcome"), [Some("failed"); 2]);
    assert_eq!(told("code"), [Some("rejected"), Some("provider_error")]);
    assert_eq!(told("key"), [None; 2]);
    let reason = "the provider refused the request (400)";
    assert_eq!(told("reason")[0], Some(reason));
}

#[tokio::test]
async fn a_log_that_nobody_reads_stops_nobody_and_tells_what_was_lost() {
    let answering = Upstream::answering().await;
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("gateway.sock");
    let mut child = Command::new(env!("CARGO_BIN_EXE_lifesign"))
        .args(["serve", "--listen", &format!("unix:{}", path.display())])
        .args([
            "--upstream",
            &format!("openai=http://{}", answering.address),
        ])
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("it listens", || path.exists()).await;
    let connected = async || loop {
        match UnixStream::connect(&path).await {
            Ok(socket) => return socket,
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    };
    let mut caller = Caller::new(connected().await);

    // More than the pipe holds, what waits before it and what is about to be written.
    let ask = chat_of(&"m".repeat(1_000), "", false);
    for _ in 0..2_000 {
        caller.send(&ask).await;
        assert_eq!(caller.response().await.status, 200);
    }
    let mut stderr = child.stderr.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).map(|_| log)
    });
    sleep(Duration::from_millis(200)).await;
    drop(caller);
    signal(child.id(), "TERM");
    let log = tokio::task::spawn_blocking(|| reading.join()).await;
    let log = log.unwrap().unwrap().unwrap();

    assert!(child.wait().unwrap().success());
    let told = log.matches(" completed ").count();
    assert!((200..2_000).contains(&told), "{told}");
    assert!(log.contains("lines of the log were lost"), "{log}");
    // The end is there again.
    assert!(log.contains("every connection has ended"), "{log}");
}

const KEY: &str = "sk-caller-5ecre7";
const PROMPT: &str = "the plan 5ecre7";
