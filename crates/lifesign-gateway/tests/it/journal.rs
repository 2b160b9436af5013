//! The journal that the settings of a gateway ask for.

use std::time::Duration;

use lifesign_gateway::journal::{ReportFilter, report};
use lifesign_standin::Standin;
use lifesign_wire::Wire;
use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Ask, Setup, sleep, upstream};

#[tokio::test]
async fn a_gateway_keeps_the_journal_that_its_settings_ask_for() {
    let script = "attempt 1: status 500 json; error server_error \"boom\"; eof\n\
                  attempt 2+: status 200 sse; text \"a\"; usage {\"prompt_tokens\":5,\"completion_tokens\":2}; finish \"stop\"; done; eof";
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("calls.db");
    let settings = upstream("up", Wire::OPENAI_CHAT, &standin.url(), "");
    let mut gate = Setup::new(&settings)
        .set(&format!("journal.path={}", path.display()))
        .start()
        .await;

    let ready = gate.ask(&Ask::get("/readyz")).await.json();
    gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;
    gate.stopper.drain(Duration::ZERO);
    gate.stopped().await;

    let journal = json!({"state": "writing", "error": null, "lost": 0});
    assert_eq!(ready["journal"], journal);
    let told = report(&path, &ReportFilter::default()).unwrap();
    assert_eq!((told.calls.total, told.calls.completed), (1, 1));
    assert_eq!(told.attempts[0].attempts, 2);
    assert_eq!(told.by_code[0].code, "provider_error");
    assert_eq!(
        (told.tokens.input_tokens, told.tokens.output_tokens),
        (5, 2)
    );
}

#[tokio::test]
async fn a_gateway_whose_journal_cannot_be_written_serves_and_is_ready_and_says_so() {
    let script = "status 200 sse; text \"a\"; finish \"stop\"; done; eof";
    let standin = Standin::script(script).unwrap().start().await.unwrap();
    let directory = TempDir::new().unwrap();
    let (home, away) = (directory.path().join("home"), directory.path().join("away"));
    std::fs::create_dir(&home).unwrap();
    let settings = upstream("up", Wire::OPENAI_CHAT, &standin.url(), "");
    let gate = Setup::new(&settings)
        .set(&format!("journal.path={}/calls.db", home.display()))
        .start()
        .await;
    std::fs::rename(&home, &away).unwrap();

    let mut ready = json!(null);
    for _ in 0..200 {
        let got = gate.ask(&Ask::stream(Wire::OPENAI_CHAT)).await;
        assert_eq!(got.answer(), "a");
        let asked = gate.ask(&Ask::get("/readyz")).await;
        assert_eq!(asked.status, 200);
        ready = asked.json();
        if ready["journal"]["state"] == "failing" {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }

    assert_eq!(ready["status"], "ready");
    assert_eq!(ready["journal"]["state"], "failing", "{ready}");
    let error = ready["journal"]["error"].as_str().unwrap();
    assert!(error.contains("directory"), "{error}");
}
